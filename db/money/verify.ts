// Proves the ledger from scratch: reads every entry and every transfer once, in batches, within one snapshot, and
// computes every balance itself. Names the first row that breaks a rule.
import Big from 'big.js'
import { type Db, rows } from '../postgres/connection.ts'
import { checkClaims } from './claims.ts'

interface Verified {
  accounts: number
  transfers: number
  entries: number
  /** The first thing wrong, in one sentence that names the row; null when all is well. */
  broken: string | null
}

const BATCH = 5000

/**
 * Checks every rule of the ledger as one snapshot shows it; others go on writing meanwhile. Holds a batch of rows
 * in memory, however long the ledger.
 */
export async function verifyLedger(db: Db): Promise<Verified> {
  return db.transaction(trx => verifyWithin(trx), { isolationLevel: 'repeatable read', readOnly: true })
}

/** As verifyLedger, within a transaction of the caller. */
export async function verifyWithin(trx: Db): Promise<Verified> {
  const verified: Verified = { accounts: 0, transfers: 0, entries: 0, broken: null }
  for (const check of [
    checkGuards,
    checkEntries,
    checkTransfers,
    checkAccounts,
    checkHeld,
    checkClaims,
    checkEarnings
  ]) {
    verified.broken = await check(trx, verified)
    if (verified.broken) break
  }
  return verified
}

type Check = (trx: Db, verified: Verified) => Promise<string | null>

// The triggers that keep the rules must exist and be enabled; without them the rest of the check proves nothing.
const guards: [string, string][] = [
  ['ledger_transfers', 'append_only'],
  ['ledger_transfers', 'not_truncated'],
  ['ledger_transfers', 'has_entries'],
  ['ledger_entries', 'append_only'],
  ['ledger_entries', 'not_truncated'],
  ['ledger_entries', 'apply'],
  ['ledger_entries', 'balanced'],
  ['ledger_entries', 'earnings_entry'],
  ['ledger_entries', 'fee_entry'],
  ['ledger_accounts', 'account_of_its_money'],
  ['ledger_accounts', 'not_deleted'],
  ['ledger_accounts', 'not_truncated'],
  ['ledger_accounts', 'changed_by_entries_only'],
  ['ledger_accounts', 'opens_empty'],
  ['earnings_entries', 'append_only'],
  ['earnings_entries', 'not_truncated']
]

const checkGuards: Check = async trx => {
  const [missing] = await rows<{ tab: string; name: string }>(
    trx,
    `select g.tab, g.name from unnest(:tabs::text[], :names::text[]) as g (tab, name)
      where not exists (select from pg_trigger t
                         where t.tgrelid = to_regclass(g.tab) and t.tgname = g.name and t.tgenabled in ('O', 'A'))`,
    { tabs: guards.map(([tab]) => tab), names: guards.map(([, name]) => name) }
  )
  return missing ? `The trigger ${missing.name} of ${missing.tab} is missing or switched off.` : null
}

interface EntryRow {
  account_id: string
  version: number
  amount: string
  balance: string
  transfer_id: string
  transfer_known: boolean
  account_balance: string | null
  account_version: number | null
}

// Each account's entries are numbered from 1 without a gap, each balance is the one before plus the amount,
// none that must be covered is below zero, and the account shows what the last entry left.
const checkEntries: Check = async (trx, verified) => {
  let last: EntryRow | undefined
  for (;;) {
    const batch: EntryRow[] = await rows<EntryRow>(
      trx,
      `select e.account_id, e.version, e.amount::text, e.balance::text, e.transfer_id, t.id is not null as transfer_known,
              a.balance::text as account_balance, a.version as account_version
         from ledger_entries e
         left join ledger_transfers t on t.id = e.transfer_id
         left join ledger_accounts a on a.id = e.account_id
        where (e.account_id, e.version) > (:account, :version)
        order by e.account_id, e.version limit ${BATCH}`,
      { account: last?.account_id ?? '', version: last?.version ?? 0 }
    )
    for (const entry of batch) {
      const follows: EntryRow | undefined = last?.account_id === entry.account_id ? last : undefined
      const broken = (!follows && last ? brokenEnd(last) : null) ?? brokenEntry(entry, follows)
      if (broken) return broken
      last = entry
    }
    verified.entries += batch.length
    if (batch.length < BATCH) return last ? brokenEnd(last) : null
  }
}

function brokenEntry(entry: EntryRow, before: EntryRow | undefined): string | null {
  const name = `Entry ${entry.version} of ${entry.account_id} (transfer ${entry.transfer_id})`
  if (!entry.transfer_known) return `${name} belongs to no transfer.`
  const expected = (before?.version ?? 0) + 1
  if (entry.version !== expected) return `${name} should be number ${expected}.`
  const balance = new Big(before?.balance ?? 0).plus(entry.amount)
  if (!balance.eq(entry.balance))
    return `${name} says the balance is ${entry.balance}, but it is ${balance.toFixed(2)}.`
  if (balance.lt(0) && /^(wallet|held):/.test(entry.account_id)) return `${name} takes it below zero: ${entry.balance}.`
  return null
}

function brokenEnd({ account_id, version, balance, account_balance, account_version }: EntryRow): string | null {
  if (account_balance === null) return `Account ${account_id} has entries but does not exist.`
  if (!new Big(account_balance).eq(balance))
    return `Account ${account_id} shows ${account_balance}, but its entries come to ${balance}.`
  if (account_version !== version)
    return `Account ${account_id} counts ${account_version} entries, but there are ${version}.`
  return null
}

const checkTransfers: Check = async (trx, verified) => {
  let last = ''
  for (;;) {
    const batch = await rows<{
      id: string
      reference: string
      amount: string
      entries: number
      total: string
      gross: string
    }>(
      trx,
      `select t.id, t.reference, t.amount::text, e.entries, e.total::text, e.gross::text
         from (select * from ledger_transfers where id > :last order by id limit ${BATCH}) t
        cross join lateral (select count(*)::int as entries, coalesce(sum(amount), 0) as total,
                                   coalesce(sum(amount) filter (where amount > 0), 0) as gross
                              from ledger_entries where transfer_id = t.id) e
        order by t.id`,
      { last }
    )
    for (const { id, reference, amount, entries, total, gross } of batch) {
      const name = `Transfer ${id} (${reference})`
      if (entries < 2) return `${name} has ${entries} entries.`
      if (!new Big(total).eq(0)) return `${name} does not balance: its entries come to ${total}.`
      if (!new Big(gross).eq(amount)) return `${name} is of ${amount}, but its entries move ${gross}.`
      last = id
    }
    verified.transfers += batch.length
    if (batch.length < BATCH) return null
  }
}

const checkAccounts: Check = async (trx, verified) => {
  const [unfounded] = await rows<{ id: string; balance: string }>(
    trx,
    `select id, balance::text from ledger_accounts a
      where (balance <> 0 or version <> 0) and not exists (select from ledger_entries e where e.account_id = a.id)
      order by id limit 1`
  )
  if (unfounded) return `Account ${unfounded.id} shows ${unfounded.balance} without any entry.`
  // Each side by itself: what one of them lacks the other must not have.
  const sides = await rows<{ accounts: number; total: string }>(
    trx,
    'select count(*) as accounts, coalesce(sum(balance), 0)::text as total from ledger_accounts group by test order by test'
  )
  verified.accounts = sides.reduce((sum, { accounts }) => sum + accounts, 0)
  const drifted = sides.find(({ total }) => !new Big(total).eq(0))
  return drifted ? `All balances come to ${drifted.total}, not to zero.` : null
}

// The amount held for a partner equals the sum of its open payouts.
const checkHeld: Check = async trx => {
  const [wrong] = await rows<{ id: string; held: string; requested: string }>(
    trx,
    `select id, coalesce(a.balance, 0)::text as held, coalesce(p.requested, 0)::text as requested
       from (select id, balance from ledger_accounts where kind = 'held') a
       full join (select 'held:' || partner_id as id, sum(amount) as requested from payouts
                   where status in ('REQUESTED', 'APPROVED') group by partner_id) p using (id)
      where coalesce(a.balance, 0) <> coalesce(p.requested, 0)
      order by id limit 1`
  )
  return wrong ? `Account ${wrong.id} holds ${wrong.held}, but its open payouts are of ${wrong.requested}.` : null
}

// The earnings of a window are read from rows of their own: each sale, month and refund has exactly one, as the triggers of its entries write it.
const checkEarnings: Check = async trx => {
  let last = ''
  let expected = 0
  for (;;) {
    const [batch] = (await rows(
      trx,
      `with batch as (
         select * from ledger_transfers where id > :last order by id limit ${BATCH}
       ), brought as (
         select t.id, t.created_at, t.kind, case t.kind when 'refund' then -t.amount::numeric else t.amount::numeric end as gross,
                e.account_id, e.version, e.amount::numeric as net, t.amount::numeric = abs(e.amount::numeric) as whole, t.details->>'botId' as bot_id
           from batch t join ledger_entries e on e.transfer_id = t.id
          where t.kind in ('sale', 'subscription', 'refund')
       ), expected as (
         select id, account_id, created_at, version, kind, gross, net from brought where starts_with(account_id, 'earnings:')
         union all
         select f.id, 'earnings:' || b.partner_id, f.created_at, -f.version, f.kind, f.gross, 0
           from brought f join marketplace_bots b on b.id = f.bot_id where account_id in ('fees', 'test_fees') and whole
       )
       select (select min(x.id) from expected x
                where not exists (select from earnings_entries n
                                   where (n.account_id, n.created_at, n.version) = (x.account_id, x.created_at, x.version)
                                     and (n.kind, n.gross::numeric, n.net::numeric) = (x.kind, x.gross, x.net))) as wrong,
              (select count(*) from expected) as expected, (select max(id) from batch) as last, (select count(*) from batch) as size`,
      { last }
    )) as [{ wrong: string | null; expected: number; last: string | null; size: number }]
    if (batch.wrong) return `The transfer ${batch.wrong} is not among the earnings of its time as it was made.`
    expected += batch.expected
    if (!batch.last || batch.size < BATCH) break
    last = batch.last
  }
  const [found] = await rows<{ count: number }>(trx, 'select count(*) as count from earnings_entries')
  if (found?.count === expected) return null
  return `The earnings by time have ${found?.count} rows, but ${expected} transfers brought or took any.`
}
