// Evidence about an order in doubt: which contracts in the broker's lists could be its own. The broker's times are
// compared with the broker's times where possible (what was bought since the last purchase we know of). Where a time of
// ours is needed it is the database's; this worker's own clock is used only to measure the difference between the two.
import { Big } from 'big.js'
import type { OrderRow } from '../../db/orders/reading.ts'
import { type Doubt, lastPurchaseBefore, ownedContracts, purchasesBehind } from '../../db/orders/resolving.ts'
import { openSession } from '../accounts/accounts.ts'
import { isNamed } from '../broker/dialects/mapping.ts'
import { matches, parseShortcode } from '../broker/dialects/shortcode.ts'
import type { Contract, ContractTerms, Evidence, Session } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
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
const STATEMENT = { pageRows: 999, pages: 3 }
const PROFIT_TABLE = { pageRows: 500, pages: 6 }
// Contracts read one by one in a check, where the lists do not show all that decides.
const READ_ONE_BY_ONE = 10

/** When, by the broker's clock (epoch seconds), the purchase of an order may have been executed. */
export interface PurchaseWindow {
  from: number
  /** The end of the sender's permit. */
  permitEnd: number
  /** The last moment at which the purchase could be executed, whatever delayed it. */
  to: number
  /** Contracts of the same terms since then are a doubt even outside of the window. */
  nearFrom: { ownApplication: number; anyApplication: number }
}

export interface Candidates {
  /** Unowned contracts of the order's terms, bought when its purchase may have been executed. */
  inWindow: Evidence[]
  /** Unowned contracts of the same terms outside of the window, but not far from it: a clock may be wrong. */
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
  const session = await openSession(services, refOf(order))
  const window = await windowOf(services, order, wallMs)
  const contract = contractOf(order)
  const lists = await readLists(session, Math.min(window.from, window.nearFrom.ownApplication))
  const candidates: Candidates = { inWindow: [], near: [], complete: lists.readFrom <= window.from, window }
  const fits = (item: Evidence) => {
    const { appId } = item
    if (appId !== null && appId !== order.app_id) return false
    return fitsTerms(item, contract)
  }
  const fitting = lists.rows.filter(fits)
  const owned = await ownedContracts(
    services.db,
    order.account_id,
    fitting.map(({ contractId }) => contractId)
  )
  const unowned = fitting.filter(({ contractId }) => !owned.has(contractId))
  for (const item of (await readWhatLacks(services, session, unowned)).filter(fits)) {
    const { purchaseTime } = item
    if (purchaseTime !== null && purchaseTime >= window.from && purchaseTime <= window.to)
      candidates.inWindow.push(item)
    else if (isNear(item, window)) candidates.near.push(item)
  }
  return withoutCheaper(candidates, contract.stake)
}

/** Whether a contract can be of these terms, by what is known of it: what cannot be read may be so. */
export function fitsTerms({ buyPrice, terms }: Evidence, contract: Contract): boolean {
  if (buyPrice !== null && new Big(buyPrice).gt(ceilingOf(contract))) return false
  return terms === null || matches(terms, contract)
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

/**
 * A purchase costs its stake at least. A cheaper contract is never taken for the order's own; it is a doubt only where no other
 * contract fits, since no document states that prices are never lowered.
 */
function withoutCheaper({ inWindow, near, ...rest }: Candidates, stake: string): Candidates {
  const isWhole = ({ buyPrice }: Evidence) => buyPrice === null || new Big(buyPrice).gte(stake)
  const whole = inWindow.filter(isWhole)
  if (whole.length > 0) return { ...rest, inWindow: whole, near: near.filter(isWhole) }
  return { ...rest, inWindow: [], near: [...inWindow, ...near] }
}

function isNear({ terms, appId, purchaseTime }: Evidence, { from, nearFrom }: PurchaseWindow): boolean {
  if (purchaseTime === null) return true
  // Unreadable terms may be any: such contracts are a doubt only if bought in the last minutes before the window.
  if (terms === null) return purchaseTime >= Math.min(from - NEAR_SECONDS, nearFrom.anyApplication)
  return purchaseTime >= (appId === null ? nearFrom.anyApplication : nearFrom.ownApplication)
}

/**
 * Contracts of the account that were bought since `since` (database clock) by the partner's application, or by one that the
 * broker does not name, and that no order owns. Throws when the broker cannot be reached, or lists more than can be read.
 */
export async function unownedSince(
  services: WorkerServices,
  order: Pick<OrderRow, 'account_id' | 'app_id' | 'dialect' | 'broker_account_id'>,
  since: { databaseMs: number; nowMs: number; wallMs: number }
): Promise<Evidence[]> {
  const session = await openSession(services, refOf(order))
  const brokerMinusWall = await services.brokers.of(order.dialect).market(order.app_id).clockOffset()
  const atBroker = since.databaseMs / 1000 + brokerMinusWall + (since.wallMs - since.nowMs) / 1000
  const from = Math.floor(atBroker) - SLACK_SECONDS - CORRECTION_SECONDS
  const { rows, readFrom } = await readLists(session, from)
  if (readFrom > from)
    throw new Error(
      `The account's lists at the broker since ${new Date(from * 1000).toISOString()} are longer than can be read.`
    )
  const ours = new Map(
    rows
      .filter(({ appId, purchaseTime }) => (appId === null || appId === order.app_id) && (purchaseTime ?? from) >= from)
      .map(item => [item.contractId, item])
  )
  const owned = await ownedContracts(services.db, order.account_id, [...ours.keys()])
  return [...ours.values()].filter(({ contractId }) => !owned.has(contractId))
}

async function windowOf(services: WorkerServices, order: Doubt, wallMs: number): Promise<PurchaseWindow> {
  const brokerMinusWall = await services.brokers.of(order.dialect).market(order.app_id).clockOffset()
  // The worker's wall clock is in both differences and cancels out.
  const brokerMinusDatabase = brokerMinusWall + (wallMs - order.read_ms) / 1000
  const atBroker = (databaseMs: number) => databaseMs / 1000 + brokerMinusDatabase
  const from = Math.floor(atBroker((order.sent_at as Date).getTime())) - SLACK_SECONDS
  const last = await lastPurchaseBefore(services.db, order)
  const known = last === null ? null : Math.floor(last) - CORRECTION_SECONDS
  // The times of purchases need not be those of the clock that the broker reports.
  const behindDatabase = await purchasesBehind(services.db, order)
  const behind =
    behindDatabase === null
      ? NEAR_OWN_SECONDS
      : Math.max(0, Math.min(behindDatabase + brokerMinusDatabase, NEAR_OWN_SECONDS))
  return {
    from,
    permitEnd: Math.ceil(atBroker((order.permit_until as Date).getTime())) + SLACK_SECONDS,
    to: Math.ceil(atBroker(order.arrival_from_ms + order.arrival_ms)) + SLACK_SECONDS,
    nearFrom: {
      ownApplication: known ?? from - NEAR_OWN_SECONDS,
      anyApplication: Math.max(known ?? -Infinity, from - NEAR_SECONDS - Math.ceil(behind))
    }
  }
}

// Open contracts first, then purchases, then closed ones: a contract that settles between two reads is
// found by the later one.
async function readLists(session: Session, from: number): Promise<{ rows: Evidence[]; readFrom: number }> {
  const open = await session.portfolio()
  const bought = await readPages(STATEMENT, from, page => session.statement({ from, ...page }))
  const closed = await readPages(PROFIT_TABLE, from, page => session.profitTable({ from, ...page }))
  const rows = rowPerContract([...open, ...bought.rows, ...closed.rows])
  return { rows, readFrom: Math.max(bought.readFrom, closed.readFrom) }
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

/** The pages of a list, newest first, and since when (broker's clock, epoch seconds) it was read without a gap. */
async function readPages(
  { pageRows, pages }: { pageRows: number; pages: number },
  from: number,
  read: (page: { limit: number; offset: number }) => Promise<(Evidence | null)[]>
): Promise<{ rows: Evidence[]; readFrom: number }> {
  const rows: Evidence[] = []
  for (let page = 0; page < pages; page++) {
    const found = await read({ limit: pageRows, offset: page * pageRows })
    rows.push(...found.filter(row => row !== null))
    if (found.length < pageRows) return { rows, readFrom: from }
  }
  // Rows of the oldest second may be missing.
  return { rows, readFrom: Math.min(...rows.flatMap(({ purchaseTime }) => purchaseTime ?? [])) + 1 }
}
