// The rows behind the comparison with the broker's books: which accounts are due, the contracts of our orders, and the
// breaks, which the operator sees as findings.

import { type Db, rows } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import type { OrderRow } from './reading.ts'

export interface DueAccount {
  accountRowId: string
  partnerId: string
  accountId: string
  /** As its partner uses it now; where its last order was sent in a dialect that the partner has left lately, as that order was. */
  appId: string
  dialect: string
  /** The partner has left that dialect. */
  isLeft: boolean
  /** What else the partner had until a day before the last comparison or later: a frozen process buys late. */
  former: FormerApplications
  /** Earlier books need no comparison: they were compared already, or precede our first order on the account. */
  since: Date
  /** When the turn was taken. */
  takenAt: Date
}

// A turn that did not finish is taken again after this long, by which time even a slow run has ended.
const AGAIN_MINUTES = 5
// Books are compared with an overlap: a purchase may show late.
const OVERLAP_SECONDS = 120

interface FormerApplications {
  /** In the same dialect. */
  appIds: string[]
  /** Also one of another dialect: the lists may name it by any other id than we do. */
  elsewhere: boolean
}

/** The applications that a partner had beside those of now until a day before `since` or later, as SQL. */
const formerOf = ({ partnerId, dialect, since }: { partnerId: string; dialect: string; since: string }) =>
  `(select jsonb_build_object('appIds', coalesce(jsonb_agg(l.details -> 'from' -> 'brokerAppId') filter (where l.details -> 'from' ->> 'dialect' = ${dialect}), '[]'),
                              'elsewhere', coalesce(bool_or(l.details -> 'from' ->> 'dialect' <> ${dialect}), false))
      from audit_log l
     where l.target = ${partnerId} and l.action = 'partners.set-broker' and l.at > ${since} - interval '1 day')`

/** The applications that the order's partner had until a day before `since` or later, seen from the order's dialect. */
export async function formerApplications(
  db: Db,
  { partner_id: partnerId, dialect }: Pick<OrderRow, 'partner_id' | 'dialect'>,
  since: Date
): Promise<FormerApplications> {
  const [found] = await rows<{ former: FormerApplications }>(
    db,
    `select ${formerOf({ partnerId: ':partnerId', dialect: ':dialect', since: ':since::timestamptz' })} as former`,
    { partnerId, dialect, since }
  )
  return (found as NonNullable<typeof found>).former
}

/** The same row, its application unknown where that may be one that the partner had in another dialect. */
export function asNamedHere<Row extends { appId: string | null }>(
  row: Row,
  { appId, former }: { appId: string; former: FormerApplications }
): Row {
  const isKnown = row.appId === null || row.appId === appId || former.appIds.includes(row.appId)
  return isKnown || !former.elsewhere ? row : { ...row, appId: null }
}

/** The last order of an account that a worker took to send. */
const lastOrderOf = (account: string) =>
  `select o.app_id, o.dialect from orders o where o.broker_account_id = ${account}.id and o.attempt > 1 order by o.queued_at desc limit 1`

// Accounts are compared for so long in a dialect that their partner has left: a broker that refuses the application there, or that nobody can
// reach any more, would be tried without end.
const MOVED_DAYS = 7
// Refused in the dialect that the partner has now, and last used in one that it has left: the token may still be good there. That of
// an erased trader is gone. Partners that moved are few, and refused accounts many.
const isLeft = `(select o.dialect from (${lastOrderOf('a')}) o)
                  <> (select p.broker_dialect from partners p join traders t on t.id = a.trader_id where p.id = a.partner_id and t.connected_at is not null)`

/**
 * Takes accounts with orders since their last comparison, or whose last turn did not finish: round-robin among partners, of each
 * the longest due first. No other worker gets one until `everyMinutes` have passed, or a few minutes if its turn does not finish;
 * so an account that cannot be reached is tried again soon, after all that fell due before. An account that was never compared is
 * due since its first order: else many new ones would keep all others waiting. An account that its partner left with a dialect lately
 * is compared there: what was bought last, or late, shows in no other books. With a `worker`, only accounts that no other
 * living worker serves.
 */
export async function takeDueAccounts(
  db: Db,
  options: { everyMinutes: number; limit: number; worker?: string | null }
): Promise<DueAccount[]> {
  return rows<DueAccount>(
    db,
    `with moved as materialized (
       select target from audit_log where at > now() - interval '${MOVED_DAYS} days' and action = 'partners.set-broker'
     ), due as materialized (
       select a.id, a.compared_at, a.audited_at, next.at, row_number() over (partition by a.partner_id order by next.at, a.id) as turn
         from broker_accounts a
              -- A second: compared_at has lost what audited_at has below the millisecond.
        cross join lateral (select coalesce(a.compared_at, 'epoch') < a.audited_at - interval '1 second' as unfinished) last
        cross join lateral (
          select coalesce(a.audited_at + interval '1 minute'
                            * case when unfinished then least(:everyMinutes, ${AGAIN_MINUTES}) else :everyMinutes end,
                          (select min(o.queued_at) from orders o where o.broker_account_id = a.id)) as at) next
        where (a.status = 'CONNECTED' or (a.partner_id in (select target from moved) and ${isLeft}))
          and (:worker::text is null or ${servedByNoOther('a.account_id', ':worker')})
          and (a.audited_at is null or next.at <= now())
          and (unfinished or exists (select 1 from orders o where o.broker_account_id = a.id
                                      and o.queued_at > coalesce(a.compared_at, 'epoch') - interval '${OVERLAP_SECONDS} seconds'))
     ), mine as materialized (
       -- All workers take theirs at the same moment: what another has taken meanwhile is passed over.
       select a.id, d.compared_at
         from due d join broker_accounts a on a.id = d.id
        where a.audited_at is not distinct from d.audited_at
        order by d.turn, d.at, d.id limit :limit for update of a skip locked
     )
     update broker_accounts a set audited_at = now()
       from mine join broker_accounts b on b.id = mine.id join partners p on p.id = b.partner_id
       left join lateral (${lastOrderOf('b')}) o on o.dialect <> p.broker_dialect and p.id in (select target from moved)
      cross join lateral (select coalesce(o.app_id, p.broker_app_id) as app_id, coalesce(o.dialect, p.broker_dialect) as dialect) as used
      where a.id = mine.id
     returning a.id as "accountRowId", a.partner_id as "partnerId", a.account_id as "accountId", used.app_id as "appId", used.dialect,
       used.dialect <> p.broker_dialect as "isLeft",
       ${formerOf({ partnerId: 'a.partner_id', dialect: 'used.dialect', since: "coalesce(mine.compared_at, '-infinity')" })} as former,
       coalesce(mine.compared_at, (select min(o.created_at) from orders o where o.broker_account_id = a.id))
         - interval '${OVERLAP_SECONDS} seconds' as since,
       a.audited_at as "takenAt"`,
    { worker: null, ...options }
  )
}

/**
 * All purchases before `until` (epoch seconds; null: up to the account's turn) have been compared. Until this is called the next
 * turn starts from the same point. With `until` set the turn counts as unfinished, as there is more to compare.
 */
export async function markCompared(db: Db, account: DueAccount, until: number | null): Promise<void> {
  await rows(
    db,
    `update broker_accounts
        set compared_at = case when :part then least(:takenAt::timestamptz - interval '2 seconds',
                                                     to_timestamp(:until) + interval '${OVERLAP_SECONDS} seconds')
                               else :takenAt::timestamptz end
      where id = :accountRowId`,
    { accountRowId: account.accountRowId, takenAt: account.takenAt, part: until !== null, until: until ?? 0 }
  )
}

export interface ClaimedContract {
  contractId: string
  orderId: string
  phase: string
  buyPrice: string
  pnl: string | null
}

/** Our orders that name these contracts of an account. */
export async function claimedContracts(
  db: Db,
  accountId: string,
  contractIds: string[]
): Promise<Map<string, ClaimedContract>> {
  const found = await rows<ClaimedContract>(
    db,
    `select broker_order_id as "contractId", id as "orderId", phase, buy_price as "buyPrice", pnl
       from orders where account_id = :accountId and broker_order_id = any(:contractIds)`,
    { accountId, contractIds }
  )
  const known = new Set(found.map(({ contractId }) => contractId))
  const missing = contractIds.filter(id => !known.has(id))
  if (missing.length > 0)
    found.push(
      ...(await rows<ClaimedContract>(
        db,
        `select broker_order_id as "contractId", id as "orderId", phase, buy_price as "buyPrice", pnl
           from orders_archive where broker_order_id = any(:missing) and account_id = :accountId`,
        { accountId, missing }
      ))
    )
  return new Map(found.map(claim => [claim.contractId, claim]))
}

/** Orders of the account that a worker took to send at least once (`triesOf`) and that were wanted at some time in `from`…`to`, oldest first. */
export async function ordersSentAround(
  db: Db,
  { accountRowId, from, to }: { accountRowId: string; from: Date; to: Date }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `select * from orders
      where broker_account_id = :accountRowId and attempt > 1 and queued_at >= :from and created_at <= :to
      order by id limit 1000`,
    { accountRowId, from, to }
  )
}

/** Whether an order of the account is between intent and decision, so that a contract may yet find its order. */
export async function inDoubt(db: Db, accountId: string): Promise<boolean> {
  // One phase after the other, since each has an index of its own: one condition for both reads all orders.
  const [found] = await rows<{ undecided: boolean }>(
    db,
    `select exists (select from orders where account_id = :accountId and phase = 'sending')
            or exists (select from orders where account_id = :accountId and phase = 'review') as undecided`,
    { accountId }
  )
  return found?.undecided ?? false
}

/** The orders of the account that are between intent and decision. */
export async function ordersInDoubt(db: Db, accountId: string): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `select * from orders where account_id = :accountId and phase = 'sending'
     union all
     select * from orders where account_id = :accountId and phase = 'review'`,
    { accountId }
  )
}

export interface ContractBreak {
  kind: 'ORPHAN' | 'MISMATCH' | 'UNSETTLED' | 'IMPLAUSIBLE'
  accountId: string
  contractId: string
  partnerId: string
  orderId: string | null
  details: object
}

// A break is known once it is stored, whatever the operator decided; of what differs each difference is, and another one is to be decided.
const unlessKnown = `on conflict (account_id, broker_order_id, kind) do update
        set details = f.details || excluded.details, found_at = case when f.resolved_at is null then f.found_at else now() end,
            resolved_at = null, resolution = null
      where f.kind = 'MISMATCH' and f.details || excluded.details <> f.details`

/** Stores a break; returns false when it was known. */
export async function insertBreak(db: Db, found: ContractBreak): Promise<boolean> {
  const stored = await rows(
    db,
    `insert into contract_breaks as f (kind, account_id, broker_order_id, partner_id, order_id, details)
     values (:kind, :accountId, :contractId, :partnerId, :orderId, :details::jsonb)
     ${unlessKnown} returning id`,
    { ...found, details: JSON.stringify(found.details) }
  )
  return stored.length > 0
}

/** Stores that an order's contract differs from what was requested, beside what is known to differ. */
export async function insertMismatch(trx: Db, orderId: string, details: object): Promise<void> {
  await rows(
    trx,
    `insert into contract_breaks as f (kind, account_id, broker_order_id, partner_id, order_id, details)
     select 'MISMATCH', account_id, broker_order_id, partner_id, id, :details::jsonb from orders where id = :orderId
     ${unlessKnown}`,
    { orderId, details: JSON.stringify(details) }
  )
}

export interface BreakRecord extends ContractBreak {
  findingId: number
  foundAt: Date
  resolvedAt: Date | null
  resolution: string | null
}

const record = `id as "findingId", kind, account_id as "accountId", broker_order_id as "contractId", partner_id as "partnerId",
  order_id as "orderId", details, found_at as "foundAt", resolved_at as "resolvedAt", resolution`

/** Unresolved breaks, or all, newest first, at most `limit`. */
export async function listBreaks(db: Db, limit: number, { all = false } = {}): Promise<BreakRecord[]> {
  return rows<BreakRecord>(
    db,
    `select ${record} from contract_breaks where :all or resolved_at is null order by found_at desc, id desc limit :limit`,
    { limit, all }
  )
}

/** One break, resolved or not. */
export async function getBreak(db: Db, findingId: number): Promise<BreakRecord | undefined> {
  const [found] = await rows<BreakRecord>(db, `select ${record} from contract_breaks where id = :findingId`, {
    findingId
  })
  return found
}

/** The unresolved break that this contract belongs to no order. */
export async function getOrphan(
  db: Db,
  about: { accountId: string; contractId: string }
): Promise<BreakRecord | undefined> {
  const [found] = await rows<BreakRecord>(
    db,
    `select ${record} from contract_breaks
      where account_id = :accountId and broker_order_id = :contractId and kind = 'ORPHAN' and resolved_at is null`,
    about
  )
  return found
}

/** Unresolved breaks by kind. */
export async function countBreaks(db: Db): Promise<{ kind: ContractBreak['kind']; count: number }[]> {
  return rows(
    db,
    `select kind, count(*) as count from contract_breaks
      where resolved_at is null and account_id not like 'TST%' group by kind order by kind`
  )
}

/** Resolves a break, or with null opens it again; undefined when it was in that state already. */
export async function decideBreak(
  trx: Db,
  { findingId, resolution }: { findingId: number; resolution: string | null }
): Promise<BreakRecord | undefined> {
  const [decided] = await rows<BreakRecord>(
    trx,
    `update contract_breaks
        set resolved_at = case when :resolution::text is null then null else now() end, resolution = :resolution
      where id = :findingId and (resolved_at is null) = (:resolution::text is not null)
     returning ${record}`,
    { findingId, resolution }
  )
  return decided
}

/** Marks the breaks about a contract as dealt with. */
export async function resolveBreaks(
  db: Db,
  { accountId, contractId, resolution }: { accountId: string; contractId: string; resolution: string }
): Promise<void> {
  await db('contract_breaks')
    .where({ account_id: accountId, broker_order_id: contractId })
    .whereNull('resolved_at')
    .update({ resolved_at: db.fn.now(), resolution })
}
