// The ledger: every movement of money is one transfer of two or more entries under a unique reference.
// Entries are only added; PostgreSQL keeps the balances (db/migrations/0005_ledger.ts).
//
// Order of locks: first the rows a movement is about (partner, purchase, payout), then accounts, sorted by
// name, then the reference. A transaction that makes several transfers locks all their accounts up front
// with lockAccounts. So no two of our transactions ever wait for each other in a circle.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { isLess, lacking, negated, shown, sum, usd } from '../../schemas/fields/money.ts'
import { type Db, rows } from '../postgres/connection.ts'

/** What a movement is for. */
export type TransferKind =
  | 'topup'
  | 'debit'
  | 'plan_fee'
  | 'plan_upgrade'
  | 'sale'
  | 'subscription'
  | 'refund'
  | 'payout_request'
  | 'payout_release'
  | 'payout_paid'

export const accounts = {
  /** What a partner paid in and may spend; never below zero. */
  wallet: (partnerId: string) => `wallet:${partnerId}`,
  /** What a partner earned as a creator and may have paid out; refunds may take it below zero. */
  earnings: (partnerId: string) => `earnings:${partnerId}`,
  /** Payouts requested and neither paid nor rejected; never below zero. */
  held: (partnerId: string) => `held:${partnerId}`,
  /** The platform's own: plan fees and its share of sales. */
  fees: 'fees',
  /** Everything outside: money comes from here and leaves to here. */
  world: 'world',
  /** The same two of the play money of test sides. */
  testFees: 'test_fees',
  testWorld: 'test_world'
} as const

/** The accounts of the platform and of the outside on one side: money never moves between the live and the test side. */
export function outsideOf(test: boolean): { fees: string; world: string } {
  return test ? { fees: accounts.testFees, world: accounts.testWorld } : { fees: accounts.fees, world: accounts.world }
}

/** Adds `amountUsd` to an account, or takes it where it is below zero. */
export interface TransferEntry {
  account: string
  amountUsd: string
}

interface NewTransfer {
  /** Unique for ever; the same movement again under it changes nothing. */
  reference: string
  kind: TransferKind
  /** At least two, on different accounts, that sum to zero. */
  entries: TransferEntry[]
  /** Statements show them (movements.ts). Two are interpreted: `botId`, where the creator earns nothing, and that there is no `reference`. */
  details?: Record<string, unknown>
  /**
   * Accounts besides wallets and held ones that must not end below zero, for example the earnings a payout is taken
   * from.
   */
  covered?: readonly string[]
}

export interface Transfer {
  transferId: string
  /** The reference was there already, with the same kind and entries: nothing moved now. */
  repeated: boolean
  /** Balances after this transfer (of a repeated one: as it left them then). */
  balances: Map<string, string>
}

/** An account that cannot pay: nothing moved. */
interface Shortage {
  short: { account: string; requiredUsd: string; balanceUsd: string }
}

/** The two entries of `amountUsd` going from one account to another. */
export function move(from: string, to: string, amountUsd: string): TransferEntry[] {
  return [
    { account: from, amountUsd: negated(amountUsd) },
    { account: to, amountUsd: usd(amountUsd) }
  ]
}

interface TransferResult {
  id: string | null
  locked: number
  repeated: boolean
  short_account: string | null
  short_balance: string | null
  balances: Record<string, string> | null
}

// One statement from lock to entry: the accounts are held for one round trip and the commit. Balances read through the
// lock are the newest, whatever the statement's snapshot. Where an account is yet to be opened none is locked: opening
// one may wait for a transaction that opens it too and holds others. A transfer has the instant of this statement: its
// transaction may have waited for seconds, and a window of earnings that ended meanwhile has been read as complete.
const attempt = `
  with wanted as (
    select * from unnest(:accounts::text[], :amounts::numeric[], :floors::boolean[]) as w (account_id, amount, floored)
  ), locked as materialized (
    select a.id, a.balance from ledger_accounts a
     where a.id = any(:accounts) and (select count(*) from ledger_accounts where id = any(:accounts)) = :count
     order by a.id for no key update
  ), short as materialized (
    select l.id, l.balance from locked l join wanted w on w.account_id = l.id
     where w.floored and w.amount < 0 and l.balance + w.amount < 0 order by l.id limit 1
  ), made as (
    insert into ledger_transfers (id, reference, kind, amount, details, created_at)
    select :id, :reference, :kind, :amount::numeric, :details::jsonb, clock_timestamp()
     where (select count(*) from locked) = :count and not exists (select from short)
    on conflict (reference) do nothing
    returning id
  ), written as (
    insert into ledger_entries (account_id, version, transfer_id, amount, balance)
    select w.account_id, 0, made.id, w.amount, 0 from made cross join wanted w order by w.account_id
    returning account_id, balance
  )
  select (select id from made), (select count(*) from locked)::int as locked,
         (select id from short) as short_account, (select balance::text from short) as short_balance,
         (select jsonb_object_agg(account_id, balance::text) from written) as balances`

/**
 * Makes a transfer, once: repeated with the same reference it returns the first one. Where an account that must not go
 * below zero would, nothing moves and the shortage is returned. Throws CONFLICT when the reference belongs to another
 * movement, RangeError or PostgreSQL's error for a movement that is malformed.
 */
export async function tryTransfer(trx: Db, transfer: NewTransfer): Promise<Transfer | Shortage> {
  const entries = transfer.entries
    .map(({ account, amountUsd }) => ({ account, amountUsd: usd(amountUsd) }))
    .sort((a, b) => (a.account < b.account ? -1 : 1))
  const names = entries.map(({ account }) => account)
  const covered = new Set(transfer.covered ?? [])
  const bindings = {
    id: newId('transfer'),
    reference: transfer.reference,
    kind: transfer.kind,
    details: JSON.stringify(transfer.details ?? {}),
    amount: gross(entries),
    count: names.length,
    accounts: names,
    amounts: entries.map(({ amountUsd }) => amountUsd),
    floors: names.map(name => /^(wallet|held):/.test(name) || covered.has(name))
  }
  let made = await one(trx, bindings)
  if (made.locked < names.length) {
    await openAccounts(trx, names)
    made = await one(trx, bindings)
  }
  if (made.id !== null)
    return { transferId: made.id, repeated: false, balances: new Map(Object.entries(made.balances ?? {})) }
  // The reference first: a repeat returns its transfer even where the wallet could not pay a second time.
  const earlier = await findTransfer(trx, transfer.reference)
  if (earlier) {
    if (earlier.kind === transfer.kind && sameEntries(earlier.entries, entries)) return { ...earlier, repeated: true }
    throw new ApiError('CONFLICT', `The reference ${transfer.reference} belongs to another movement.`)
  }
  const account = made.short_account as string
  const amountUsd = entries.find(entry => entry.account === account)?.amountUsd as string
  return { short: { account, requiredUsd: negated(amountUsd), balanceUsd: made.short_balance as string } }
}

/**
 * Makes a transfer, once. Throws WALLET_INSUFFICIENT with what is required and there, or CONFLICT when
 * another account than a wallet cannot pay or the reference belongs to another movement.
 */
export async function transfer(trx: Db, wanted: NewTransfer): Promise<Transfer> {
  const made = await tryTransfer(trx, wanted)
  if (!('short' in made)) return made
  const { account, requiredUsd, balanceUsd } = made.short
  if (!account.startsWith('wallet:'))
    throw new ApiError('CONFLICT', `${requiredUsd} USD is more than the ${balanceUsd} USD available.`)
  throw new ApiError(
    'WALLET_INSUFFICIENT',
    `The wallet holds ${balanceUsd} USD of ${requiredUsd} USD: ${lacking(balanceUsd, requiredUsd)} USD are missing.`,
    { extras: { requiredUsd: shown(requiredUsd), balanceUsd: shown(balanceUsd) } }
  )
}

/** Locks accounts in one fixed order, opening those that are not yet open, and reads their balances. */
export async function lockAccounts(trx: Db, names: string[]): Promise<Map<string, string>> {
  const sorted = [...new Set(names)].sort()
  const read = () =>
    rows<{ id: string; balance: string }>(
      trx,
      `select id, balance::text from ledger_accounts
        where id = any(:sorted) and (select count(*) from ledger_accounts where id = any(:sorted)) = :count
        order by id for no key update`,
      { sorted, count: sorted.length }
    )
  let locked = await read()
  if (locked.length < sorted.length) {
    await openAccounts(trx, sorted)
    locked = await read()
  }
  return new Map(locked.map(({ id, balance }) => [id, balance]))
}

/** What an account holds; '0.00' for one that nothing ever moved. */
export async function balanceOf(db: Db, account: string): Promise<string> {
  const [row] = await rows<{ balance: string }>(db, 'select balance::text from ledger_accounts where id = :account', {
    account
  })
  return row?.balance ?? '0.00'
}

interface FoundTransfer {
  transferId: string
  kind: TransferKind
  details: Record<string, unknown>
  entries: TransferEntry[]
  balances: Map<string, string>
}

/** The transfer made under a reference. */
export async function findTransfer(db: Db, reference: string): Promise<FoundTransfer | undefined> {
  const found = await rows<{
    id: string
    kind: TransferKind
    details: Record<string, unknown>
    account_id: string
    amount: string
    balance: string
  }>(
    db,
    `select t.id, t.kind, t.details, e.account_id, round(e.amount, 2)::text as amount, e.balance::text
       from ledger_transfers t join ledger_entries e on e.transfer_id = t.id
      where t.reference = :reference order by e.account_id`,
    { reference }
  )
  const [first] = found
  return (
    first && {
      transferId: first.id,
      kind: first.kind,
      details: first.details,
      entries: found.map(({ account_id, amount }) => ({ account: account_id, amountUsd: amount })),
      balances: new Map(found.map(({ account_id, balance }) => [account_id, balance]))
    }
  )
}

async function one(trx: Db, bindings: Record<string, unknown>): Promise<TransferResult> {
  const [made] = await rows<TransferResult>(trx, attempt, bindings)
  return made as TransferResult
}

async function openAccounts(trx: Db, names: string[]): Promise<void> {
  await rows(
    trx,
    'insert into ledger_accounts (id) select unnest(:names::text[]) as id order by id on conflict do nothing',
    { names }
  )
}

function gross(entries: TransferEntry[]): string {
  return sum(entries.flatMap(({ amountUsd }) => (isLess('0', amountUsd) ? [amountUsd] : [])))
}

function sameEntries(a: TransferEntry[], b: TransferEntry[]): boolean {
  return (
    a.length === b.length &&
    a.every((entry, i) => entry.account === b[i]?.account && entry.amountUsd === b[i]?.amountUsd)
  )
}
