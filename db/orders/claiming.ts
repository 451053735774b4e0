// From queued to sending. The rules these statements keep:
// - at most one order per broker account is between intent and response (a unique index enforces it too);
// - waiting orders of an account go in order of arrival; while the oldest may not be claimed yet, none is;
// - an account that another living worker serves is left to it (db/traders/account-leases.ts);
// - no order is claimed of a partner that has its share of the worker's places: another partner's goes first, then;
// - no order is claimed that a halt of trading applies to, nor a copy whose leader has closed or whose follow was stopped;
// - no order is claimed whose account was exchanged as one of the other mode since the order was stored;
// - nothing is claimed while the database is on a history that has not been noted, or behind what the worker has seen of it
//   (db/postgres/lineage.ts);
// - the intent is committed before the buy leaves, with a permit that ends before the time to live.

import { unwantedOf } from '../copy/closing.ts'
import { haltMessageOf, haltOf, isHalted } from '../platform/halts.ts'
import type { Queue } from '../platform/queue.ts'
import { among, type Db, listing, rows, sql } from '../postgres/connection.ts'
import { NOTHING_SEEN, type SeenHistory, seenGeneration } from '../postgres/lineage.ts'
import { type Served, servedByNoOther, serving } from '../traders/account-leases.ts'
import { endsMsOf, expiredMessageOf, isOver } from './expired.ts'
import { otherModeMessageOf, otherModeOf } from './other-mode.ts'
import type { OrderRow } from './reading.ts'

export interface ClaimOptions {
  accountIds: string[]
  /** The worker that will send. */
  sender: string
  /** Numbers the sender's claiming statements. */
  claimNo: number
  permitMs: number
  /** The broker's own time-out, added to the permit before evidence is searched for. */
  reconcileAfterMs: number
  /** How far the sender has seen the database come: nothing is claimed on one that is behind that. */
  seen?: SeenHistory
  /** Partners that have their share of the sender's places: none of their orders is claimed. */
  full?: string[]
}

const needed = [
  'id',
  'attempt',
  'partner_id',
  'account_id',
  'broker_account_id',
  'account_mode',
  'app_id',
  'dialect',
  'currency',
  'kind',
  'asset',
  'contract_type',
  'direction',
  'multiplier',
  'stake',
  'duration',
  'duration_unit',
  'barrier',
  'stop_loss',
  'take_profit',
  'has_followers',
  'copied_from',
  'trace'
] as const

/** An order that its claimer alone may send, within `permit_ms` of the claim. */
export type Claimed = Pick<OrderRow, (typeof needed)[number]> & {
  permit_ms: number
  /** When its time to live is over, and the database's clock at the claim, ms since the epoch. */
  ends_ms: number
  clock_ms: number
  /** The generation of the database's history at the claim. */
  generation: number
  /** The account's books are to be compared first, or hold contracts that no order owns: the database lost something. */
  books_due: boolean
}

export interface Claims {
  claimed: Claimed[]
  /** Orders that were failed since their time to live is over, or placing is halted. */
  expired: OrderRow[]
  /** The requested accounts that another worker serves, or is about to. */
  elsewhere: Served[]
  /** The other requested accounts, if nothing was claimed for them. */
  unclaimed: string[]
}

/**
 * For each account with nothing in doubt, moves its oldest queued order to `sending`; orders of these
 * accounts whose time to live is over are failed on the way. Send only after its commit. Every claim has an `attempt`
 * of its own: what is written about one, again or late, cannot be taken for the next, even by the same sender.
 */
export async function claimOrders(db: Db, options: ClaimOptions): Promise<Claims> {
  return withExpired(db, options, await claimHeads(db, options))
}

/**
 * Takes up to `limit` jobs and claims for their accounts, as above: one statement, so that the jobs are done when the
 * intent is committed, and not before. From here on the rows carry everything. Also returns how many jobs were taken.
 */
export async function takeOrders(
  db: Db,
  queue: Queue,
  options: Omit<ClaimOptions, 'accountIds'> & {
    name?: 'order.place' | 'order.copy'
    limit: number
    among: 'recent' | 'all'
  }
): Promise<Claims & { taken: number }> {
  const {
    sender,
    claimNo,
    permitMs,
    reconcileAfterMs,
    seen = NOTHING_SEEN,
    full = [],
    name = 'order.place',
    limit,
    among
  } = options
  const found = await rows<{ jobs: number; account: string; worker: string | null } & Claimed>(
    db,
    // An api that is upgraded after its workers goes on storing a job an order, `{ orderId, accountId }`.
    sql`with ${queue.taking(name, limit, among)},
     accounts as (select distinct account_id from taken
                   cross join lateral jsonb_array_elements_text(coalesce(data->'accountIds', jsonb_build_array(data->'accountId'))) a (account_id)),
     ${serving}, ${claiming(full)}
     select (select count(*) from taken) as jobs, a.account_id as account, a.worker, c.* from served a left join claimed c using (account_id)`,
    { sender, claimNo, permitMs, reconcileAfterMs, ...seen, ...fullOnly(full) }
  )
  const claimed = found.filter(({ id }) => id !== null)
  const accountIds = found.map(({ account }) => account)
  const elsewhere = found.flatMap(({ account, worker }) => (worker === sender ? [] : [{ accountId: account, worker }]))
  const claims = await withExpired(db, { ...options, accountIds }, { claimed, elsewhere })
  return { taken: found[0]?.jobs ?? 0, ...claims }
}

/** The head of a queue may be an order that is failed instead: out of time, halted, unwanted or for an account of the other mode. */
async function withExpired(db: Db, options: ClaimOptions, { claimed, elsewhere }: Heads): Promise<Claims> {
  const served = new Set(claimed.map(({ account_id }) => account_id))
  for (const { accountId, worker } of elsewhere) if (worker !== null) served.add(accountId)
  const accountIds = options.accountIds.filter(accountId => !served.has(accountId))
  if (accountIds.length === 0) return { claimed, expired: [], elsewhere, unclaimed: [] }
  const expired = await expireHeads(db, accountIds)
  if (expired.length === 0) return { claimed, expired, elsewhere, unclaimed: accountIds }
  const freed = [...new Set(expired.map(({ account_id }) => account_id))]
  const next = await claimHeads(db, { ...options, accountIds: freed })
  const late = new Set(next.claimed.map(({ account_id }) => account_id))
  const unclaimed = accountIds.filter(accountId => !late.has(accountId))
  return { claimed: [...claimed, ...next.claimed], expired, elsewhere, unclaimed }
}

type Heads = Pick<Claims, 'claimed' | 'elsewhere'>

function expireHeads(db: Db, accountIds: string[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    sql`update orders o
        set phase = 'failed', retryable = w.unwanted is null, error_extras = case when w.unwanted is null and w.mode is null then w.halt end,
            error_code = case when w.unwanted is not null or w.mode is not null then 'CONFLICT'
                              when w.halt is null then 'BROKER_UPSTREAM' else 'TRADING_HALTED' end,
            error_message = case when w.unwanted is not null then w.unwanted when w.mode is not null then ${otherModeMessageOf('o', 'w.mode')}
                                 when w.halt is null then ${expiredMessageOf('o')} else ${haltMessageOf('w.halt')} end
       from (select q.id, ${haltOf('q')} as halt, ${unwantedOf('q')} as unwanted, ${otherModeOf('q')} as mode from orders q
              where q.account_id = ${among('accountIds')} and q.phase = 'queued'
               and (${isOver('q')} or ${isHalted('q')} or ${unwantedOf('q')} is not null or ${otherModeOf('q')} is not null)
              order by q.id for update of q skip locked) w
      where o.id = w.id
     returning o.*`,
    { accountIds }
  )
}

// Claims for those accounts of the preceding `served` that `:sender` serves. Every row is looked up by its account or
// id, one by one: planned as a join on the phase, which holds few rows most of the time, it reads all of them for each
// of them once there are many.
const claiming = (full: string[]) => `heads as materialized (
       select h.id
         from (select account_id from served where worker = :sender) a
        cross join lateral (select o.id from orders o
                             where o.account_id = a.account_id and o.phase = 'queued'${full.length > 0 ? ' and o.partner_id <> all(:full::text[])' : ''}
                             order by o.queued_at, o.id limit 1) h
        cross join lateral (select count(*) as sending from (select from orders s
                             where s.account_id = a.account_id and s.phase = 'sending' limit 1) s) s
        where s.sending = 0
        order by h.id
     ), mine as materialized (
       select m.id from heads h
        cross join lateral (select o.id, o.phase, o.queued_at, o.expires_at, o.not_before, o.partner_id, o.broker_account_id, o.account_mode, o.app_id, o.asset, o.follow_id, o.copied_from from orders o where o.id = h.id for update skip locked) m
        where case m.phase when 'queued' then not ${isOver('m')} end
          and (m.not_before is null or m.not_before <= clock_timestamp())
          and not ${isHalted('m')}
          and ${unwantedOf('m')} is null
          and ${otherModeOf('m')} is null
     ), clock as materialized (select clock_timestamp() as at, seen.generation from (${seenGeneration}) seen),
     claimed as (
       update orders o
          set phase = 'sending', attempt = o.attempt + 1, sender = :sender, claim_no = :claimNo, checks = 0, absence_checks = 0, sent_at = clock.at,
              -- The account may have been exchanged with another currency since; an earlier conversion of the stake does not count then.
              currency = coalesce((select a.currency from broker_accounts a where a.id = o.broker_account_id), o.currency),
              stake_in_account = null, exchange_rate = null,
              permit_until = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at),
              resolve_at = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at)
                             + :reconcileAfterMs * interval '1 millisecond'
         from clock
        where o.id = any(array(select id from mine))
       returning ${needed.map(column => `o.${column}`).join(', ')}, (extract(epoch from o.permit_until - o.sent_at) * 1000)::float8 as permit_ms, ${endsMsOf('o')} as ends_ms,
         (extract(epoch from clock.at) * 1000)::float8 as clock_ms, clock.generation,
         (select a.compared_generation < clock.generation
                 or exists (select 1 from unowned_contracts u where u.account_id = o.account_id)
            from broker_accounts a where a.id = o.broker_account_id) as books_due
     )`

// Usually no partner has used up its share; then the statement has no such condition.
const fullOnly = (full: string[]) => (full.length > 0 ? { full } : {})

async function claimHeads(db: Db, options: ClaimOptions): Promise<Heads> {
  const { accountIds, sender, claimNo, permitMs, reconcileAfterMs, seen = NOTHING_SEEN, full = [] } = options
  const found = await rows<{ account: string; worker: string | null } & Claimed>(
    db,
    sql`with accounts as (select distinct account_id from ${listing('accountIds')} as a (account_id)), ${serving}, ${claiming(full)}
     select a.account_id as account, a.worker, c.* from served a left join claimed c using (account_id)`,
    { accountIds, sender, claimNo, permitMs, reconcileAfterMs, ...seen, ...fullOnly(full) }
  )
  return {
    claimed: found.filter(({ id }) => id !== null),
    elsewhere: found.flatMap(({ account, worker }) => (worker === sender ? [] : [{ accountId: account, worker }]))
  }
}

/** Which of these accounts have orders waiting. */
export async function withWaiting(db: Db, accountIds: string[]): Promise<string[]> {
  const found = await rows<{ account_id: string }>(
    db,
    sql`select distinct account_id from orders where account_id = ${among('accountIds')} and phase = 'queued'`,
    { accountIds }
  )
  return found.map(({ account_id }) => account_id)
}

/**
 * How many more orders each partner may have claimed now: those in `partners` as in `rooms`, any other `room`; and how many
 * more copies all of them together.
 */
export interface Rooms {
  partners: string[]
  rooms: number[]
  room: number
  copies: number
}

/**
 * Accounts that no other living worker serves and whose queued orders have waited longer than `ageMs` with nothing in doubt,
 * round-robin among partners, orders before copies. Also any account with an order out of time, regardless of room: such orders
 * are failed, not sent.
 */
export async function listWaitingAccounts(
  db: Db,
  { worker, ageMs, limit }: { worker: string; ageMs: number; limit: number },
  { partners, rooms, room, copies }: Rooms = { partners: [], rooms: [], room: limit, copies: limit }
): Promise<string[]> {
  const found = await rows<{ account_id: string }>(
    db,
    `select account_id from (
     select account_id, copied, turn, expires_at, expired,
            row_number() over (partition by copied, expired order by turn, expires_at) as place from (
     select account_id, bool_and(copied) as copied, min(turn) as turn, min(expires_at) as expires_at, bool_or(expired) as expired from (
       select o.account_id, o.partner_id, o.copied_from is not null as copied, o.expires_at, ${isOver('o')} as expired,
              row_number() over (partition by o.partner_id order by o.copied_from is not null, o.expires_at, o.id) as turn
         from orders o
         -- What waits behind a paused order cannot be claimed: it must not take the place of what can.
         left join (select account_id, min(queued_at) as since from orders
                     where phase = 'queued' and not_before > clock_timestamp() group by account_id) paused using (account_id)
        where o.phase = 'queued'
          and (${isOver('o')}
               or (${servedByNoOther('o.account_id', ':worker')}
                   and (paused.since is null or o.queued_at < paused.since)
                   and o.queued_at < clock_timestamp() - :ageMs * interval '1 millisecond'
                   and not exists (select 1 from orders s where s.account_id = o.account_id and s.phase = 'sending')))) waiting
       left join unnest(:partners::text[], :rooms::int[]) as b (partner_id, room) using (partner_id)
      where turn <= coalesce(b.room, :room) or expired
      group by account_id) accounts) placed
      where expired or not copied or place <= :copies
      order by copied, turn, expires_at limit :limit`,
    { worker, ageMs, limit, partners, rooms, room, copies }
  )
  return found.map(({ account_id }) => account_id)
}
