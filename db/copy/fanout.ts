// Copying one order: the follows it is copied for, part by part, what each may still lose, and the decision on each.

import type { OrderRow } from '../orders/reading.ts'
import { isHalted } from '../platform/halts.ts'
import { type Db, rows } from '../postgres/connection.ts'

/** Why an order was not copied. */
export type SkipReason =
  | 'DRAWDOWN'
  | 'MISMATCH'
  | 'DISCONNECTED'
  | 'PARTNER_INACTIVE'
  | 'LEADER_CLOSED'
  | 'LEADER_PRIVATE'
  | 'SAME_ACCOUNT'
  | 'TRADING_HALTED'

// Copying and closing of the copies of one order exclude each other: whichever comes second sees what the first one did.
const LOCK = `hashtextextended('copies ' || :orderId, 0)`

/** Keeps the copies of an order from being closed until `trx` ends; others may copy it meanwhile. */
export async function lockForCopying(trx: Db, orderId: string): Promise<void> {
  await rows(trx, `select pg_advisory_xact_lock_shared(${LOCK})`, { orderId })
}

/** Waits for the copying under way of an order, and keeps more of it waiting until `trx` ends. */
export async function lockForClosing(trx: Db, orderId: string): Promise<void> {
  await rows(trx, `select pg_advisory_xact_lock(${LOCK})`, { orderId })
}

/** A condition: the partner's profile is public, so that its traders may be followed by those of other partners; as SQL. */
export const showsItsTraders = (partner: string) =>
  `exists (select from community_profiles s where s.party_id = ${partner} and s.partner_id = ${partner} and s.is_public)`

/** A leader's order. */
export type Leading = OrderRow & {
  /** Its partner shows its traders to other partners, whose traders may follow them. */
  shown_to_all: boolean
}

/** The order to copy; undefined where there is none. */
export async function findLeading(trx: Db, orderId: string): Promise<Leading | undefined> {
  const [row] = await rows<Leading>(
    trx,
    `select o.*, ${showsItsTraders('o.partner_id')} as shown_to_all from orders o where o.id = :orderId`,
    { orderId }
  )
  return row
}

// A follow whose account differs from the leader's may agree again with the next order.
export const copying = `status in ('ACTIVE', 'PAUSED_MISMATCH')`

/** The last id of each part of a leader's follows, `size` at most in each. */
export async function partEnds(db: Db, { leaderId, size }: { leaderId: string; size: number }): Promise<string[]> {
  const found = await rows<{ id: string }>(
    db,
    `select id from (
       select id, row_number() over (order by id) as place, count(*) over () as many
         from follows where leader_id = :leaderId and ${copying}) numbered
      where place % :size = 0 or place = many order by id`,
    { leaderId, size }
  )
  return found.map(({ id }) => id)
}

/**
 * What a copy costs in the account's currency, as SQL: by its purchase or, before that, at its leader's price. What another application
 * than the leader's charges beside the stake is known with the purchase alone: until then it counts with no less than the most that
 * worker/orders/stake.ts lets it cost, also of the least stake, whose cents weigh most. Only the follow's limit depends on it.
 */
export const priceOf = (copy: string, leader: string) =>
  `coalesce(${copy}.buy_price, ${copy}.stake * ${leader}.buy_price / ${leader}.stake
            * case when ${copy}.app_id = ${leader}.app_id then 1 when ${copy}.contract_type like 'DIGIT%' then 1.4 else 1.15 end, ${copy}.stake)`

/**
 * The copies of a follow that are not over, of those that count for its limit, each with its price. The leader's order may be in
 * the archive by then: a multiplier has no end of its own.
 */
export const unfinishedCopies = (follow: string) =>
  `(select c.id, c.kind, c.stop_loss, c.new_stop_loss, c.limits_at, ${priceOf('c', 'l')} as price
      from orders c left join orders l on l.id = c.copied_from
     where c.follow_id = ${follow}.id and c.phase in ('unproven', 'queued', 'sending', 'open', 'review') and c.created_at >= ${follow}.since)`

/** What such a copy may lose; while its limits are being changed, the worse of both. */
export const worstCase = (copy: string) =>
  `case when ${copy}.kind <> 'MULTIPLIER' then ${copy}.price
        else greatest(least(${copy}.stop_loss, ${copy}.price),
                      case when ${copy}.limits_at is not null then least(${copy}.new_stop_loss, ${copy}.price) end) end`

/** A follow that an order may be copied for, with the account its copies go to. */
export interface CopyCandidate {
  followId: string
  partnerId: string
  traderId: string
  traderExternalId: string
  status: 'ACTIVE' | 'PAUSED_MISMATCH'
  riskPct: string
  maxDrawdownPct: string
  accountRowId: string
  accountId: string
  /** As the account is now, and as it was when the follow began. */
  accountMode: string
  followedMode: string
  currency: string | null
  connected: boolean
  /** Whether the broker has accepted the account's token. */
  proven: boolean
  /** The partner has a paid plan and is not suspended. */
  partnerActive: boolean
  appId: string
  dialect: string
  /** Placing is halted for the copy. */
  halted: boolean
  /** In the account's currency: the balance when the follow began, what copies lost since, and what open ones may lose. */
  baseBalance: string
  lost: string
  atRisk: string
  /** A copy of this order exists. */
  copied: boolean
}

/**
 * Locks the follows of a leader with ids after `after` up to `upTo`, and reads them: until `trx` ends no other order is copied for
 * them, and none of their copies is closed. There is no limit: the part was as long as it may be when it was planned, and a follow that
 * began again since must not put another one out of it.
 */
export async function takeCandidates(
  trx: Db,
  range: { orderId: string; leaderId: string; after: string; upTo: string }
): Promise<CopyCandidate[]> {
  // Erasing a trader takes long and stops its follows: what it has locked is left out, and traders are locked before their follows.
  const present = await rows<{ id: string }>(
    trx,
    `select f.id from follows f join traders t on t.id = f.trader_id
      where f.leader_id = :leaderId and f.${copying} and f.id > :after and f.id <= :upTo
      order by f.id for key share of t skip locked`,
    range
  )
  // The lock is a statement of its own, so that the next one sees what its last holder wrote.
  const locked = await rows<{ id: string }>(
    trx,
    `select id from follows where id = any(:ids) and ${copying} order by id for no key update`,
    { ids: present.map(({ id }) => id) }
  )
  return rows<CopyCandidate>(
    trx,
    `select f.id as "followId", f.partner_id as "partnerId", f.trader_id as "traderId", f.trader_external_id as "traderExternalId",
            f.status, f.risk_pct as "riskPct", f.max_drawdown_pct as "maxDrawdownPct",
            a.id as "accountRowId", a.account_id as "accountId", a.account_mode as "accountMode",
            coalesce(f.account_mode, a.account_mode) as "followedMode", coalesce(f.currency, a.currency) as currency,
            a.status = 'CONNECTED' as connected, coalesce(a.proven_version = a.token_version, false) as proven, p.plan_active and p.suspended_at is null as "partnerActive",
            p.broker_app_id as "appId", p.broker_dialect as dialect,
            ${isHalted('w')} as halted,
            f.base_balance as "baseBalance", greatest(0, -f.since_pnl) as lost, r.at_risk as "atRisk",
            exists (select from orders c where c.copied_from = :orderId and c.follow_id = f.id) as copied
       from follows f
       join traders t on t.id = f.trader_id
       join broker_accounts a on a.id = coalesce(f.broker_account_id, t.active_account_id)
       join partners p on p.id = f.partner_id
      cross join lateral (select f.partner_id, p.broker_app_id as app_id, (select asset from orders where id = :orderId) as asset) w
      cross join lateral (
             select coalesce(sum(${worstCase('o')}), 0) as at_risk
               from ${unfinishedCopies('f')} o) r
      where f.id = any(:ids) and f.${copying}
        -- The leader placed the order while it was followed, however late it was bought, or is copied. What began later than now began
        -- before the database's clock was set back.
        and (coalesce(f.active_since, '-infinity') <= (select queued_at from orders where id = :orderId) or f.active_since > clock_timestamp())
      order by f.id`,
    { ids: locked.map(({ id }) => id), orderId: range.orderId }
  )
}

/** The result of a follow with an order: its status, and why the order was not copied for it. */
export interface Decided {
  followId: string
  status: 'ACTIVE' | 'PAUSED_MISMATCH' | 'PAUSED_DRAWDOWN'
  reason: SkipReason | null
  accountRowId: string
}

/** Stores the decisions on follows that `takeCandidates` locked in `trx`. */
export async function storeDecisions(
  trx: Db,
  { orderId, decided }: { orderId: string; decided: Decided[] }
): Promise<void> {
  await rows(
    trx,
    `update follows f
        set status = d.status,
            skipped_copies = f.skipped_copies + case when d.reason is null then 0 else 1 end,
            skipped_reason = coalesce(d.reason, f.skipped_reason),
            skipped_order = case when d.reason is null then f.skipped_order else :orderId end,
            skipped_at = case when d.reason is null then f.skipped_at else now() end,
            -- stored by a process of the previous version: it belongs to this account from now on
            broker_account_id = coalesce(f.broker_account_id, a.id), account_id = coalesce(f.account_id, a.account_id),
            account_mode = coalesce(f.account_mode, a.account_mode), currency = coalesce(f.currency, a.currency)
       from jsonb_to_recordset(:decided::jsonb) as d ("followId" text, status text, reason text, "accountRowId" text)
       join broker_accounts a on a.id = d."accountRowId"
      where f.id = d."followId"
        and (f.status <> d.status or d.reason is not null or f.broker_account_id is null or f.currency is null)`,
    { orderId, decided: JSON.stringify(decided) }
  )
}

// Every statement that changes several follows locks them in the order of their ids, which prevents deadlocks.

/**
 * Adds closed copies to what their follows made, and pauses those whose loss reached their limit. Call it in the
 * transaction that closes them, once for each.
 */
export async function addToFollows(trx: Db, copies: { orderId: string; followId: string }[]): Promise<void> {
  const followIds = [...new Set(copies.map(({ followId }) => followId))]
  // By a statement of its own: the next one sees since when losses count as it is now.
  await rows(trx, 'select id from follows where id = any(:followIds) order by id for no key update', { followIds })
  await rows(
    trx,
    `update follows f set pnl = f.pnl + s.pnl, since_pnl = f.since_pnl + s.since_pnl
       from (select o.follow_id, sum(o.pnl) as pnl, coalesce(sum(o.pnl) filter (where o.created_at >= g.since), 0) as since_pnl
               from orders o join follows g on g.id = o.follow_id where o.id = any(:orderIds) group by o.follow_id) s
      where f.id = s.follow_id`,
    { orderIds: copies.map(({ orderId }) => orderId) }
  )
  await rows(
    trx,
    `update follows set status = 'PAUSED_DRAWDOWN'
      where id = any(:followIds) and ${copying} and -since_pnl >= base_balance * max_drawdown_pct / 100`,
    { followIds }
  )
}

/**
 * Pauses a leader's follows whose account differs from the leader's active one in mode or currency, and resumes those
 * that agree again. An order on another account of the leader is judged when it is copied.
 */
export async function judgeMismatches(trx: Db, leaderId: string): Promise<void> {
  await rows(
    trx,
    `with judged as materialized (
       select f.id, case when a.account_mode = f.account_mode and coalesce(a.currency = f.currency, true)
                         then 'ACTIVE' else 'PAUSED_MISMATCH' end as status
         from follows f
         join traders l on l.id = f.leader_id join broker_accounts a on a.id = l.active_account_id
        where f.leader_id = :leaderId and f.${copying} and f.account_mode is not null
        order by f.id for no key update of f
     )
     update follows f set status = j.status from judged j where f.id = j.id and f.status <> j.status`,
    { leaderId }
  )
}
