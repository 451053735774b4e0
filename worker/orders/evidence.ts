// Evidence about an order in doubt: which contracts in the broker's lists could be its own. The broker's times are
// compared with the broker's times where possible (what was bought since the last purchase we know of). Where a time of
// ours is needed it is the database's; this worker's own clock is used only to measure the difference between the two.
import { Big } from 'big.js'
import type { OrderRow } from '../../db/orders/reading.ts'
import { asNamedHere, formerApplications } from '../../db/orders/reconciliation.ts'
import { type Doubt, lastPurchaseBefore, ownedContracts, purchasesBehind } from '../../db/orders/resolving.ts'
import { openBoughtSession, openSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isOurFault } from '../broker/dialects/errors.ts'
import { isNamed } from '../broker/dialects/mapping.ts'
import { differingTerms, matches, parseShortcode } from '../broker/dialects/shortcode.ts'
import { PROFIT_TABLE, readPages, STATEMENT } from '../broker/pages.ts'
import type { Contract, ContractTerms, Evidence, Session } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { payoutOf } from './receipts.ts'
import { ceilingOf } from './stake.ts'
import { contractOf, refOf } from './terms.ts'

// The broker's clock is known to the second.
const SLACK_SECONDS = 2
// A purchase that we know of may show an earlier second than one before it where the broker's clock was corrected.
const CORRECTION_SECONDS = 60
// Contracts of the same terms bought up to this long before the window are a doubt too, where the broker does not show which
// application bought.
const NEAR_SECONDS = 600
// The same where it does and no earlier purchase of ours is known, and what its times may be behind its clock where none shows that.
const NEAR_OWN_SECONDS = 86_400
// Contracts read one by one in a check, where the lists do not show all that decides.
const READ_ONE_BY_ONE = 10

/** When, by the broker's clock (epoch seconds), the purchase of an order may have been executed. */
export interface PurchaseWindow {
  /** Without it the database's clock is taken for the broker's: then no time proves that a contract is the order's. */
  isClockKnown: boolean
  from: number
  /** The end of the sender's permit. */
  permitEnd: number
  /** The last moment at which the purchase could be executed, whatever delayed it. */
  to: number
  /** Since when the lists are read, and when they have to be complete: the order's purchase may be that old by either clock. */
  listsFrom: number
  completeFrom: number
  /** Contracts of the same terms since then are a doubt even outside of the window. */
  nearFrom: { ownApplication: number; anyApplication: number }
}

export interface Candidates {
  /** Unowned contracts of the order's terms, bought when its purchase may have been executed. */
  inWindow: Evidence[]
  /**
   * Unowned contracts of the same terms outside of the window, but not far from it, since a clock may be wrong. Where none fits, also
   * those of nearly the same terms in the window, since the broker may have bought something else.
   */
  near: Evidence[]
  /** Whether the broker's lists could be read back to the window's start. */
  complete: boolean
  window: PurchaseWindow
}

/**
 * What the broker shows that could be this order's contract. `wallMs` is this worker's wall clock when `order` was read.
 * Throws when the broker cannot be reached: then nothing is known.
 */
export async function candidatesOf(services: WorkerServices, order: Doubt, wallMs: number): Promise<Candidates> {
  const { session } = await openBoughtSession(services, refOf(order))
  const window = await windowOf(services, order, wallMs)
  const contract = contractOf(order)
  const lists = await readLists(session, window.listsFrom)
  const candidates: Candidates = { inWindow: [], near: [], complete: lists.readFrom <= window.completeFrom, window }
  const isOfApp = ({ appId }: Evidence) => appId === null || appId === order.app_id
  const isInWindow = ({ purchaseTime }: Evidence) =>
    purchaseTime !== null && purchaseTime >= window.from && purchaseTime <= window.to
  const fits = (item: Evidence) => isOfApp(item) && fitsTerms(item, contract)
  const isOdd = (item: Evidence) => isOfApp(item) && isInWindow(item) && mayBeAltered(item, contract)
  const found = lists.rows.filter(item => fits(item) || isOdd(item))
  const owned = await ownedContracts(
    services.db,
    order.account_id,
    found.map(({ contractId }) => contractId)
  )
  const unowned = found.filter(({ contractId }) => !owned.has(contractId))
  const read = (await readWhatLacks(services, session, unowned)).map(item => withPossiblePayout(item, contract))
  for (const item of read.filter(fits)) {
    if (window.isClockKnown && isInWindow(item)) candidates.inWindow.push(item)
    else if (isNear(item, window)) candidates.near.push(item)
  }
  return withoutUnlikely(candidates, contract.stake, read.filter(isOdd))
}

/** Whether a contract can be of these terms, by what is known of it: what cannot be read may be so. */
export function fitsTerms({ buyPrice, terms }: Evidence, contract: Contract): boolean {
  if (buyPrice !== null && new Big(buyPrice).gt(ceilingOf(contract))) return false
  return terms === null || matches(terms, contract)
}

/**
 * Whether a contract that is not of these terms can be what the broker bought for them all the same. One that it shows as of another
 * application, or as of none while more than one of the terms differs, is taken for the trader's own.
 */
function mayBeAltered(item: Evidence, contract: Contract): boolean {
  const { appId, buyPrice, terms } = item
  const differences = new Set<string>(terms === null ? [] : differingTerms(terms, contract))
  if (buyPrice !== null && new Big(buyPrice).gt(ceilingOf(contract))) differences.add('stake')
  return differences.size === 1 || (differences.size > 1 && appId !== null)
}

/** A contract of which all is known that decides whose it is. */
export type PlainEvidence = Evidence & { buyPrice: string; purchaseTime: number; terms: ContractTerms }

/** What does not show of a contract and would decide whose it is; nothing where it is plain. */
export function lackOf(item: Evidence): string[] {
  const { buyPrice, purchaseTime, terms } = item
  return [
    ...(isNamed(item) ? [] : ['its id']),
    ...(buyPrice === null ? ['its price'] : []),
    ...(purchaseTime === null ? ['its time'] : []),
    ...(terms !== null ? [] : ['its terms'])
  ]
}

export function isPlain(item: Evidence): item is PlainEvidence {
  return lackOf(item).length === 0
}

/** The same contracts, with what the lists do not show of some read from the contracts themselves. */
async function readWhatLacks(services: WorkerServices, session: Session, items: Evidence[]): Promise<Evidence[]> {
  const lacking = items.filter(item => !isPlain(item) && isNamed(item)).slice(0, READ_ONE_BY_ONE)
  const read = await Promise.all(lacking.map(item => readOne(services, session, item)))
  return items.map(item => read[lacking.indexOf(item)] ?? item)
}

async function readOne({ log }: WorkerServices, session: Session, item: Evidence): Promise<Evidence> {
  const { contractId } = item
  try {
    const state = await session.contract(contractId)
    if (state.contractId !== contractId) return item
    const shown = state.shortcode === null ? null : parseShortcode(state.shortcode)
    return {
      ...item,
      buyPrice: item.buyPrice ?? state.buyPrice,
      payout: item.payout ?? state.payout,
      purchaseTime: item.purchaseTime ?? state.purchaseTime ?? shown?.startTime ?? null,
      ...(item.terms === null && shown !== null ? { terms: shown, shortcode: state.shortcode! } : {})
    }
  } catch (error) {
    // The contract stays as the lists show it: it may be the order's.
    log.info({ err: error, contractId }, 'a contract that its lists do not show wholly could not be read')
    return item
  }
}

/** The contract of this id, where it can be read, no order owns it, and it can be of the order's terms: one candidate or none. */
export async function candidateNamed(services: WorkerServices, order: Doubt, contractId: string): Promise<Evidence[]> {
  if ((await ownedContracts(services.db, order.account_id, [contractId])).has(contractId)) return []
  const { session } = await openBoughtSession(services, refOf(order))
  const item = await readOne(services, session, {
    source: 'contract',
    contractId,
    transactionId: null,
    appId: null,
    buyPrice: null,
    payout: null,
    purchaseTime: null,
    terms: null,
    shortcode: ''
  })
  const contract = contractOf(order)
  return item.terms !== null && fitsTerms(item, contract) ? [withPossiblePayout(item, contract)] : []
}

/** The same, its payout unknown where what the broker shows of it cannot be true: whoever adopts the contract takes the payout as it is. */
function withPossiblePayout(item: Evidence, contract: Contract): Evidence {
  const { buyPrice, payout, terms, shortcode } = item
  const shown = { buyPrice: buyPrice ?? contract.stake, payout: payout ?? terms?.payout ?? '0', shortcode }
  const possible = payoutOf(shown, contract)
  return { ...item, payout: possible === '0' ? null : possible }
}

/**
 * A purchase costs its stake at least. A cheaper contract, or one of other terms, is never taken for the order's own; it is a doubt only
 * where no other contract fits: no document states that prices are never lowered, or that a purchase is never altered.
 */
function withoutUnlikely({ inWindow, near, ...rest }: Candidates, stake: string, odd: Evidence[]): Candidates {
  const isWhole = ({ buyPrice }: Evidence) => buyPrice === null || new Big(buyPrice).gte(stake)
  const whole = inWindow.filter(isWhole)
  if (whole.length > 0) return { ...rest, inWindow: whole, near: near.filter(isWhole) }
  return { ...rest, inWindow: [], near: [...inWindow, ...near, ...odd] }
}

function isNear({ terms, appId, purchaseTime }: Evidence, { from, nearFrom }: PurchaseWindow): boolean {
  if (purchaseTime === null) return true
  // Unreadable terms may be any: such contracts are a doubt only if bought in the last minutes before the window.
  if (terms === null) return purchaseTime >= Math.min(from - NEAR_SECONDS, nearFrom.anyApplication)
  return purchaseTime >= (appId === null ? nearFrom.anyApplication : nearFrom.ownApplication)
}

/**
 * Contracts of the account that were bought from `since` to `until` (database clock) by the partner's application, by one that it had
 * until lately, or by one that the broker does not name, and that no order owns; those whose time is not known among them. `nowMs` and
 * `wallMs` are one moment by the database's clock and by this machine's. Throws when the broker cannot be reached, or lists more than can be read.
 */
export async function unownedSince(
  services: WorkerServices,
  order: Pick<OrderRow, 'partner_id' | 'account_id' | 'app_id' | 'dialect' | 'broker_account_id'>,
  { since, until, nowMs, wallMs }: { since: Date; until: Date; nowMs: number; wallMs: number }
): Promise<Evidence[]> {
  const session = await openSession(services, refOf(order))
  const brokerMinusDatabase = await aheadOfDatabase(services, order, { wallMs, readMs: nowMs })
  // By the broker's clock, or by the database's where that is earlier, at the end later: the times of purchases need not be those of either.
  const [least, most] =
    brokerMinusDatabase === null
      ? [-NEAR_OWN_SECONDS, NEAR_OWN_SECONDS]
      : [Math.min(0, brokerMinusDatabase), Math.max(0, brokerMinusDatabase)]
  const from = Math.floor(since.getTime() / 1000 + least) - SLACK_SECONDS - CORRECTION_SECONDS
  const to = Math.ceil(until.getTime() / 1000 + most) + SLACK_SECONDS + CORRECTION_SECONDS
  const { rows, readFrom } = await readLists(session, from)
  if (readFrom > from)
    throw new Error(
      `The account's lists at the broker since ${new Date(from * 1000).toISOString()} are longer than can be read.`
    )
  const former = await formerApplications(services.db, order, since)
  const appIds = new Set([null, order.app_id, ...former.appIds])
  const isBetween = (time: number | null) => time === null || (time >= from && time <= to)
  const ours = new Map(
    rows
      .map(item => asNamedHere(item, { appId: order.app_id, former }))
      .filter(({ appId, purchaseTime }) => appIds.has(appId) && isBetween(purchaseTime))
      .map(item => [item.contractId, item])
  )
  const owned = await ownedContracts(services.db, order.account_id, [...ours.keys()])
  return [...ours.values()].filter(({ contractId }) => !owned.has(contractId))
}

async function windowOf(services: WorkerServices, order: Doubt, wallMs: number): Promise<PurchaseWindow> {
  const ahead = await aheadOfDatabase(services, order, { wallMs, readMs: order.read_ms })
  const brokerMinusDatabase = ahead ?? 0
  const atBroker = (databaseMs: number) => databaseMs / 1000 + brokerMinusDatabase
  const sentMs = (order.sent_at as Date).getTime()
  const from = Math.floor(atBroker(sentMs)) - SLACK_SECONDS
  const fromByDatabase = Math.floor(sentMs / 1000) - SLACK_SECONDS
  const earliest = Math.min(from, fromByDatabase)
  const last = await lastPurchaseBefore(services.db, order)
  const known = last === null ? null : Math.floor(last) - CORRECTION_SECONDS
  // The times of purchases need not be those of the clock that the broker reports, which may be wrong by any amount.
  const behindDatabase = Math.min((await purchasesBehind(services.db, order)) ?? Infinity, NEAR_OWN_SECONDS)
  const behind = Math.max(0, Math.min(behindDatabase + brokerMinusDatabase, NEAR_OWN_SECONDS))
  const usual = Math.min(from - Math.ceil(behind), fromByDatabase - Math.ceil(behindDatabase))
  const nearFrom = {
    ownApplication: known ?? earliest - NEAR_OWN_SECONDS,
    anyApplication: Math.max(known ?? -Infinity, usual - NEAR_SECONDS)
  }
  return {
    isClockKnown: ahead !== null,
    from,
    permitEnd: Math.ceil(atBroker((order.permit_until as Date).getTime())) + SLACK_SECONDS,
    to: Math.ceil(atBroker(order.arrival_from_ms + order.arrival_ms)) + SLACK_SECONDS,
    listsFrom: Math.min(earliest, nearFrom.ownApplication, nearFrom.anyApplication),
    completeFrom: earliest,
    nearFrom
  }
}

/** The broker's clock minus the database's, in seconds; null where the broker responds with no time that can be read. */
async function aheadOfDatabase(
  services: WorkerServices,
  { dialect, app_id: appId }: Pick<OrderRow, 'dialect' | 'app_id'>,
  { wallMs, readMs }: { wallMs: number; readMs: number }
): Promise<number | null> {
  try {
    // The worker's wall clock is in both differences and cancels out.
    return (await services.brokers.of(dialect).market(appId).clockOffset()) + (wallMs - readMs) / 1000
  } catch (error) {
    if (error instanceof BrokerError && (error.brokerCode === 'BadFrame' || isOurFault(error))) return null
    throw error
  }
}

// Open contracts first, then purchases, then closed ones: a contract that settles between two reads is
// found by the later one.
async function readLists(session: Session, from: number): Promise<{ rows: Evidence[]; readFrom: number }> {
  const open = await session.portfolio()
  const bought = await readPages(STATEMENT, page => session.statement({ from, ...page }))
  const closed = await readPages(PROFIT_TABLE, page => session.profitTable({ from, ...page }))
  const rows = rowPerContract([...open, ...bought.rows, ...closed.rows])
  return { rows, readFrom: Math.max(...[bought, closed].map(list => readFromOf(list, from))) }
}

/** Since when a list was read without a gap, by the broker's clock (epoch seconds). */
function readFromOf({ rows, whole }: { rows: Evidence[]; whole: boolean }, from: number): number {
  // Rows of the oldest second may be missing.
  return whole ? from : Math.min(...rows.flatMap(({ purchaseTime }) => purchaseTime ?? [])) + 1
}

/** One row for each contract, in the order of the first ones, with what any list shows of it: each may leave fields out. */
export function rowPerContract(rows: Evidence[]): Evidence[] {
  // A row without a contract is of the one whose purchase has its transaction.
  const bought = new Map(rows.filter(isNamed).map(({ transactionId, contractId }) => [transactionId, contractId]))
  const found = new Map<string, Evidence>()
  for (const row of rows) {
    const contractId = isNamed(row) || row.transactionId === null ? row.contractId : bought.get(row.transactionId)
    const name = contractId ?? row.contractId
    const { appId, buyPrice, payout, purchaseTime, transactionId, terms, shortcode, ...known } = found.get(name) ?? row
    found.set(name, {
      ...row,
      ...known,
      contractId: name,
      appId: appId ?? row.appId,
      buyPrice: buyPrice ?? row.buyPrice,
      payout: payout ?? row.payout,
      purchaseTime: purchaseTime ?? row.purchaseTime,
      transactionId: transactionId ?? row.transactionId,
      ...(terms === null ? { terms: row.terms, shortcode: row.shortcode } : { terms, shortcode })
    })
  }
  return [...found.values()]
}
