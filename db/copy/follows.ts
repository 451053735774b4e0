// Copy trading: leaders by record, follows, and the followers an order is copied to.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { allOrders } from '../orders/archive.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { tradedSegments } from '../traders/days.ts'
import { holdTrader } from '../traders/traders.ts'
import { closeWithLeader, failWaiting, stop } from './closing.ts'
import { copying, type SkipReason, showsItsTraders } from './fanout.ts'

const RECORD_TRADES = 10

export interface LeaderRecord {
  leaderId: string
  displayName: string | null
  /** Mode and currency of the active account; the currency is null while it is unknown. */
  accountMode: AccountMode
  currency: string | null
  followers: number
  trades: number
  winRatePct: number
  pnl: string
  maxDrawdownPct: number
  /** The largest fall of the running profit from its peak. */
  maxDrawdown: string
}

/**
 * Traders with at least ten orders closed in the last 30 days in mode and currency of their active account, copies left
 * out; REAL before DEMO, then by currency, the best first, at most 100: the partner's own, or with `everywhere` those
 * of every partner of the same side whose community profile is public. `leaderId` selects one of them.
 */
export async function listLeaders(
  db: Db,
  {
    partnerId,
    everywhere,
    leaderId = null,
    accountMode = null,
    currency = null
  }: {
    partnerId: string
    everywhere: boolean
    leaderId?: string | null
    accountMode?: string | null
    currency?: string | null
  }
): Promise<LeaderRecord[]> {
  const whose = everywhere
    ? `${showsItsTraders('p.id')}
       and (p.test_of is null) = (select test_of is null from partners where id = :partnerId)`
    : 'p.id = :partnerId'
  const partners =
    leaderId === null ? whose : `${whose} and p.id = (select partner_id from traders where id = :leaderId)`
  return rows<LeaderRecord>(
    db,
    `with ${tradedSegments(partners)}, own as materialized (
       select d.* from traded d
         join traders t on t.id = d.trader_id
         join broker_accounts a on a.id = t.active_account_id and a.account_mode = d.account_mode and coalesce(a.currency, '') collate "C" = d.currency
        where (:leaderId::text is null or d.trader_id = :leaderId) and (:accountMode::text is null or d.account_mode = :accountMode)
          and (:currency::text is null or d.currency = :currency)
     ), sums as (
       select trader_id, account_mode, nullif(currency, '') as currency, sum(own_trades)::int as trades, sum(own_wins)::int as wins,
              sum(own_pnl) as pnl, sum(own_stake) as stakes
         from own group by trader_id, account_mode, currency having sum(own_trades) >= ${RECORD_TRADES}
        order by account_mode desc, nullif(currency, '') nulls last, sum(own_pnl) desc, trader_id limit 100
     ), runs as (
       select trader_id, at, own_pnl, own_stake, own_peak, own_low, own_fall,
              sum(own_pnl) over (partition by trader_id order by at, own_pnl, own_stake rows unbounded preceding) - own_pnl as before,
              row_number() over (partition by trader_id order by at, own_pnl, own_stake) as place
         from own where own_trades > 0 and trader_id in (select trader_id from sums)
     ), falls as (
       select trader_id, own_fall, before + own_low as low,
              max(before + own_peak) over (partition by trader_id order by place rows between unbounded preceding and 1 preceding) as high
         from runs
     ), summary as (
       select s.*, f.fall
         from sums s
         join (select trader_id, max(greatest(own_fall, coalesce(high, 0) - low)) as fall from falls group by trader_id) f using (trader_id)
     )
     select s.trader_id as "leaderId", s.trades, s.pnl,
            -- A name given to the partner alone, or shown to its own community, does not leave it.
            case when :everywhere then case when c.is_public then nullif(c.display_name, '') end
                 else coalesce(nullif(c.display_name, ''), nullif(t.name, '')) end as "displayName",
            s.account_mode as "accountMode", s.currency, s.fall as "maxDrawdown",
            round(100.0 * s.wins / s.trades, 2)::float8 as "winRatePct", round(100.0 * s.fall / s.stakes, 2)::float8 as "maxDrawdownPct",
            (select count(*)::int from follows f where f.leader_id = s.trader_id and f.status = 'ACTIVE') as followers
       from summary s join traders t on t.id = s.trader_id left join community_profiles c on c.party_id = s.trader_id
      order by s.account_mode desc, s.currency nulls last, s.pnl desc, s.trader_id`,
    { partnerId, everywhere, leaderId, accountMode, currency }
  )
}

interface FollowRecord {
  followId: string
  traderExternalId: string
  leaderId: string
  /** Where the copies go, whatever account is active. */
  accountId: string
  accountMode: AccountMode
  /** null while it is not known. */
  currency: string | null
  riskPct: string
  maxDrawdownPct: string
  mirrorCloses: boolean
  status: 'ACTIVE' | 'PAUSED_DRAWDOWN' | 'PAUSED_MISMATCH' | 'STOPPED'
  openCopies: number
  skippedCopies: number
  skippedReason: SkipReason | null
  skippedOrder: string | null
  skippedAt: Date | null
  createdAt: Date
}

// A follow that a process of the previous version stored names no account: the active one is meant.
const columns = `f.id as "followId", f.trader_external_id as "traderExternalId", f.leader_id as "leaderId",
  a.account_id as "accountId", coalesce(f.account_mode, a.account_mode) as "accountMode", coalesce(f.currency, a.currency) as currency,
  f.risk_pct as "riskPct", f.max_drawdown_pct as "maxDrawdownPct", f.mirror_closes as "mirrorCloses", f.status,
  (select count(*)::int from orders o where o.follow_id = f.id and o.phase in ('unproven', 'queued', 'sending', 'open', 'review')) as "openCopies",
  f.skipped_copies as "skippedCopies", f.skipped_reason as "skippedReason", f.skipped_order as "skippedOrder",
  f.skipped_at as "skippedAt", f.created_at as "createdAt"`
const withAccount = `join traders t on t.id = f.trader_id join broker_accounts a on a.id = coalesce(f.broker_account_id, t.active_account_id)`

/**
 * Starts to follow, or starts again: with the account, its current balance and no losses. The profit of earlier copies stays in
 * the sum of all. The trader is locked, so that its follows can be counted in the same transaction; the leader as a foreign key locks it,
 * but before it is found. Throws TRADER_NOT_FOUND or LEADER_NOT_FOUND for one who was erased while the balance was requested from the
 * broker.
 */
export async function follow(
  db: Db,
  requested: {
    partnerId: string
    traderId: string
    traderExternalId: string
    leaderId: string
    riskPct: number
    maxDrawdownPct: number
    mirrorCloses: boolean
    accountRowId: string
    accountId: string
    accountMode: string
    currency: string
    balance: string
  }
): Promise<FollowRecord> {
  await holdTrader(db, requested.traderId)
  const [row] = await rows<FollowRecord>(
    db,
    `with trader as materialized (
       select id from traders where id = :traderId and connected_at is not null for no key update
     ), leader as materialized (
       select id from traders where id = :leaderId and connected_at is not null for key share nowait
     ), f as (
       insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, mirror_closes, status,
              base_balance, broker_account_id, account_id, account_mode, currency, active_since)
       select :id, :partnerId, :traderId, :traderExternalId, :leaderId, :riskPct::numeric, :maxDrawdownPct::numeric, :mirrorCloses::boolean,
              'ACTIVE', :balance::numeric, :accountRowId, :accountId, :accountMode, :currency, clock_timestamp()
         from trader cross join leader
       on conflict (trader_id, leader_id) do update
         set risk_pct = excluded.risk_pct, max_drawdown_pct = excluded.max_drawdown_pct, mirror_closes = excluded.mirror_closes,
             active_since = case when follows.${copying} then follows.active_since else clock_timestamp() end,
             status = 'ACTIVE', stopped_at = null, base_balance = excluded.base_balance, since = clock_timestamp(), since_pnl = 0,
             broker_account_id = excluded.broker_account_id, account_id = excluded.account_id,
             account_mode = excluded.account_mode, currency = excluded.currency
       returning *
     )
     select ${columns} from f ${withAccount}`,
    { id: newId('follow'), ...requested }
  )
  if (row) return row
  const [trader] = await rows(db, 'select from traders where id = :traderId and connected_at is not null', requested)
  throw new ApiError(trader ? 'LEADER_NOT_FOUND' : 'TRADER_NOT_FOUND')
}

/**
 * Stops a follow, and fails its copies that wait to be bought; undefined when there is none. A stopped one stays as it is.
 * Copies that are at the broker already are left alone, unless the leader has closed before.
 */
export async function unfollow(
  trx: Db,
  { traderId, leaderId }: { traderId: string; leaderId: string }
): Promise<FollowRecord | undefined> {
  const mine = 'trader_id = :traderId and leader_id = :leaderId'
  // Orders before follows, as where copies are closed; copying under way is waited for by the update of the follow.
  await rows(
    trx,
    `select id from orders where follow_id in (select id from follows where ${mine}) and phase in ('unproven', 'queued')
      order by id for no key update`,
    { traderId, leaderId }
  )
  await closeWithLeader(trx, mine, { traderId, leaderId })
  await rows(trx, `update follows set ${stop} where ${mine} and status <> 'STOPPED'`, { traderId, leaderId })
  await failWaiting(trx, mine, { traderId, leaderId })
  const [row] = await rows<FollowRecord>(
    trx,
    `select ${columns} from follows f ${withAccount} where f.trader_id = :traderId and f.leader_id = :leaderId`,
    { traderId, leaderId }
  )
  return row
}

/**
 * The account of a leader whom the trader follows already, also where its record is too short by now to be one of listLeaders: the terms of a
 * follow that has not stopped can be changed for as long as it may copy.
 */
export async function findFollowedLeader(
  db: Db,
  pair: { partnerId: string; traderId: string; leaderId: string }
): Promise<Pick<LeaderRecord, 'accountMode' | 'currency'> | undefined> {
  const [found] = await rows<Pick<LeaderRecord, 'accountMode' | 'currency'>>(
    db,
    `select a.account_mode as "accountMode", a.currency
       from follows f join traders t on t.id = f.leader_id join broker_accounts a on a.id = t.active_account_id
      where f.trader_id = :traderId and f.leader_id = :leaderId and f.status <> 'STOPPED'
        and (t.partner_id = :partnerId or ${showsItsTraders('t.partner_id')})`,
    pair
  )
  return found
}

/** The relations between a trader who wants to follow with an account, and the leader. */
interface Between {
  /** There is a follow, perhaps a stopped one. */
  followed: boolean
  /** The leader's active account is the same one at the broker. */
  sameAccount: boolean
}

/** Reads the relations between a trader who wants to follow with an account, and the leader. */
export async function findBetween(
  db: Db,
  pair: { traderId: string; leaderId: string; accountId: string }
): Promise<Between> {
  const [found] = await rows<Between>(
    db,
    `select exists (select from follows where trader_id = :traderId and leader_id = :leaderId) as followed,
            exists (select from traders t join broker_accounts a on a.id = t.active_account_id
                     where t.id = :leaderId and a.account_id = :accountId) as "sameAccount"`,
    pair
  )
  return found as Between
}

interface FollowStandingRecord extends FollowRecord {
  copiedOrders: number
  pnl: string
  drawdownPct: string | null
}

/** A trader's follows with their states, newest first: all of them, since `follows` is bounded by as many (db/platform/bounds.ts). */
export async function listFollows(db: Db, traderId: string): Promise<FollowStandingRecord[]> {
  return rows<FollowStandingRecord>(
    db,
    `select ${columns}, (select count(*)::int from ${allOrders} o where o.follow_id = f.id) as "copiedOrders", f.pnl,
            case when f.base_balance > 0 then round(100 * greatest(0, -f.since_pnl) / f.base_balance, 2) end as "drawdownPct"
       from follows f ${withAccount}
      where f.trader_id = :traderId order by f.created_at desc, f.id desc limit 1000`,
    { traderId }
  )
}

/** A follow as the wire shows it. */
export function presentFollow(record: FollowRecord) {
  return {
    followId: record.followId,
    traderExternalId: record.traderExternalId,
    leaderId: record.leaderId,
    accountId: record.accountId,
    accountMode: record.accountMode,
    currency: record.currency,
    riskPct: Number(record.riskPct),
    maxDrawdownPct: Number(record.maxDrawdownPct),
    mirrorCloses: record.mirrorCloses,
    status: record.status,
    openCopies: record.openCopies,
    skippedCopies: record.skippedCopies,
    lastSkipped:
      record.skippedAt === null
        ? null
        : { orderId: record.skippedOrder, reason: record.skippedReason, at: record.skippedAt.toISOString() },
    createdAt: record.createdAt.toISOString()
  }
}
