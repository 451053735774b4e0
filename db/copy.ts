// Copy trading: leaders by record, follows, and the followers an order is copied to.
import { newId } from '../schemas/ids.ts'
import { type Db, rows } from './connection.ts'

const RECORD_DAYS = 30
const RECORD_TRADES = 10

export interface LeaderRecord {
  leaderId: string
  displayName: string | null
  followers: number
  trades: number
  winRatePct: number
  pnl: string
  maxDrawdownPct: number
}

/**
 * Traders with at least ten orders closed in the last 30 days, copies left out, best first, at most 100: the
 * partner's own, or with `everywhere` those of every partner whose community profile is public. `leaderId`
 * asks for one of them.
 */
export async function listLeaders(
  db: Db,
  { partnerId, everywhere, leaderId = null }: { partnerId: string; everywhere: boolean; leaderId?: string | null }
): Promise<LeaderRecord[]> {
  return rows<LeaderRecord>(
    db,
    `with record as (
       select o.trader_id, o.pnl, o.stake,
              sum(o.pnl) over (partition by o.trader_id order by o.closed_at, o.id) as running, o.closed_at, o.id
         from orders o
        where o.phase = 'closed' and o.copied_from is null and o.closed_at > now() - interval '${RECORD_DAYS} days'
          and (:everywhere or o.partner_id = :partnerId)
          and (:leaderId::text is null or o.trader_id = :leaderId)
          and (not :everywhere or o.partner_id in (select partner_id from community_profiles where party_id = partner_id and is_public))
     ), falls as (
       select *, greatest(0, max(running) over (partition by trader_id order by closed_at, id)) - running as fall from record
     ), summary as (
       select trader_id, count(*)::int as trades, count(*) filter (where pnl > 0)::int as wins, sum(pnl) as pnl,
              sum(stake) as stakes, max(fall) as fall
         from falls group by trader_id having count(*) >= ${RECORD_TRADES}
        order by sum(pnl) desc, trader_id limit 100
     )
     select s.trader_id as "leaderId", s.trades, s.pnl,
            -- A name given to the partner alone does not leave it.
            case when :everywhere then c.display_name else coalesce(c.display_name, t.name) end as "displayName",
            round(100.0 * s.wins / s.trades, 2)::float8 as "winRatePct", round(100.0 * s.fall / s.stakes, 2)::float8 as "maxDrawdownPct",
            (select count(*)::int from follows f where f.leader_id = s.trader_id and f.status = 'ACTIVE') as followers
       from summary s join traders t on t.id = s.trader_id left join community_profiles c on c.party_id = s.trader_id
      order by s.pnl desc, s.trader_id`,
    { partnerId, everywhere, leaderId }
  )
}

export interface FollowRecord {
  followId: string
  traderExternalId: string
  leaderId: string
  riskPct: string
  maxDrawdownPct: string
  status: 'ACTIVE' | 'PAUSED_DRAWDOWN' | 'STOPPED'
  createdAt: Date
}

const columns = `id as "followId", trader_external_id as "traderExternalId", leader_id as "leaderId", risk_pct as "riskPct",
  max_drawdown_pct as "maxDrawdownPct", status, created_at as "createdAt"`

/**
 * Begins to follow, or updates the terms. While the follow is active its base stays; one that was paused or
 * stopped begins anew, with the balance of now and no losses.
 */
export async function follow(
  db: Db,
  asked: {
    partnerId: string
    traderId: string
    traderExternalId: string
    leaderId: string
    riskPct: number
    maxDrawdownPct: number
    balance: string
  }
): Promise<FollowRecord> {
  const [row] = await rows<FollowRecord>(
    db,
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     values (:id, :partnerId, :traderId, :traderExternalId, :leaderId, :riskPct, :maxDrawdownPct, 'ACTIVE', :balance)
     on conflict (trader_id, leader_id) do update
       set risk_pct = excluded.risk_pct, max_drawdown_pct = excluded.max_drawdown_pct, status = 'ACTIVE',
           base_balance = case follows.status when 'ACTIVE' then follows.base_balance else excluded.base_balance end,
           since = case follows.status when 'ACTIVE' then follows.since else now() end
     returning ${columns}`,
    { id: newId('follow'), ...asked }
  )
  return row as FollowRecord
}

/** Stops a follow; undefined when there is none. A stopped one stays as it is. */
export async function unfollow(
  db: Db,
  { traderId, leaderId }: { traderId: string; leaderId: string }
): Promise<FollowRecord | undefined> {
  const [row] = await rows<FollowRecord>(
    db,
    `update follows set status = 'STOPPED' where trader_id = :traderId and leader_id = :leaderId returning ${columns}`,
    { traderId, leaderId }
  )
  return row
}

export interface FollowStandingRecord extends FollowRecord {
  copiedOrders: number
  pnl: string
  drawdownPct: string | null
}

/** A trader's follows with how they stand, newest first, at most 200. */
export async function listFollows(db: Db, traderId: string): Promise<FollowStandingRecord[]> {
  return rows<FollowStandingRecord>(
    db,
    `select ${columns}, c.copies as "copiedOrders", c.pnl,
            case when base_balance > 0 then round(100 * greatest(0, -c.since_pnl) / base_balance, 2) end as "drawdownPct"
       from follows f
      cross join lateral (select count(*)::int as copies, coalesce(sum(o.pnl), 0) as pnl,
                                 coalesce(sum(o.pnl) filter (where o.queued_at >= f.since), 0) as since_pnl
                            from orders o where o.follow_id = f.id) c
      where f.trader_id = :traderId order by f.created_at desc, f.id desc limit 200`,
    { traderId }
  )
}

/** Pauses those of these follows (all of a leader's, with `leaderId`) whose loss passed their limit. */
export async function pauseDrawdowns(
  db: Db,
  { followIds = null, leaderId = null }: { followIds?: string[] | null; leaderId?: string | null }
): Promise<string[]> {
  const paused = await rows<{ id: string }>(
    db,
    `update follows f set status = 'PAUSED_DRAWDOWN'
      where f.status = 'ACTIVE' and (f.id = any(:followIds) or f.leader_id = :leaderId)
        and (select -coalesce(sum(o.pnl), 0) from orders o where o.follow_id = f.id and o.phase = 'closed' and o.queued_at >= f.since)
            > f.base_balance * f.max_drawdown_pct / 100
     returning f.id`,
    { followIds, leaderId }
  )
  return paused.map(({ id }) => id)
}

/** A follower with the account its copies go to. */
export interface Follower {
  followId: string
  partnerId: string
  traderId: string
  traderExternalId: string
  riskPct: string
  accountRowId: string
  accountId: string
  accountMode: string
  currency: string | null
  appId: string
  dialect: string
}

/** Active followers of a leader that can trade, by id after `after`, at most `limit`. Suspended and unpaid partners are left out. */
export async function listFollowers(
  db: Db,
  { leaderId, after, limit }: { leaderId: string; after: string; limit: number }
): Promise<Follower[]> {
  return rows<Follower>(
    db,
    `select f.id as "followId", f.partner_id as "partnerId", f.trader_id as "traderId", f.trader_external_id as "traderExternalId",
            f.risk_pct as "riskPct", a.id as "accountRowId", a.account_id as "accountId", a.account_mode as "accountMode", a.currency,
            p.broker_app_id as "appId", p.broker_dialect as dialect
       from follows f
       join traders t on t.id = f.trader_id
       join broker_accounts a on a.id = t.active_account_id and a.status = 'CONNECTED'
       join partners p on p.id = f.partner_id and p.plan_active and p.suspended_at is null
      where f.leader_id = :leaderId and f.status = 'ACTIVE' and f.id > :after
      order by f.id limit :limit`,
    { leaderId, after, limit }
  )
}
