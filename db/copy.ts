// Copy trading: leaders by record, follows, and the followers an order is copied to.
import { newId } from '../schemas/ids.ts'
import { type Db, rows } from './connection.ts'
import { tradedSegments } from './trader-days.ts'

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
  const whose = everywhere
    ? 'p.id in (select partner_id from community_profiles where party_id = partner_id and is_public)'
    : 'p.id = :partnerId'
  const partners =
    leaderId === null ? whose : `${whose} and p.id = (select partner_id from traders where id = :leaderId)`
  return rows<LeaderRecord>(
    db,
    `with ${tradedSegments(partners)}, sums as (
       select trader_id, sum(own_trades)::int as trades, sum(own_wins)::int as wins, sum(own_pnl) as pnl, sum(own_stake) as stakes
         from traded where :leaderId::text is null or trader_id = :leaderId
        group by trader_id having sum(own_trades) >= ${RECORD_TRADES}
        order by sum(own_pnl) desc, trader_id limit 100
     ), runs as (
       select trader_id, at, own_pnl, own_stake, own_peak, own_low, own_fall,
              sum(own_pnl) over (partition by trader_id order by at, own_pnl, own_stake rows unbounded preceding) - own_pnl as before,
              row_number() over (partition by trader_id order by at, own_pnl, own_stake) as place
         from traded where own_trades > 0 and trader_id in (select trader_id from sums)
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
           since = case follows.status when 'ACTIVE' then follows.since else now() end,
           since_pnl = case follows.status when 'ACTIVE' then follows.since_pnl else 0 end
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
    `select ${columns}, (select count(*)::int from orders o where o.follow_id = f.id) as "copiedOrders", pnl,
            case when base_balance > 0 then round(100 * greatest(0, -since_pnl) / base_balance, 2) end as "drawdownPct"
       from follows f
      where f.trader_id = :traderId order by f.created_at desc, f.id desc limit 200`,
    { traderId }
  )
}

// Follows are locked in the order of their ids by everyone who changes several, so that nobody waits in a circle.
const lossPassed = '-since_pnl > base_balance * max_drawdown_pct / 100'

/**
 * Adds closed copies to what their follows made, and pauses those whose loss passed their limit. Call it in the
 * transaction that closes them, once for each.
 */
export async function addToFollows(trx: Db, copies: { orderId: string; followId: string }[]): Promise<void> {
  const followIds = [...new Set(copies.map(({ followId }) => followId))]
  // By a statement of its own: the next one sees since when losses count as it is now.
  await rows(trx, 'select id from follows where id = any(:followIds) order by id for no key update', { followIds })
  await rows(
    trx,
    `update follows f set pnl = f.pnl + s.pnl, since_pnl = f.since_pnl + s.since_pnl
       from (select o.follow_id, sum(o.pnl) as pnl, coalesce(sum(o.pnl) filter (where o.queued_at >= g.since), 0) as since_pnl
               from orders o join follows g on g.id = o.follow_id where o.id = any(:orderIds) group by o.follow_id) s
      where f.id = s.follow_id`,
    { orderIds: copies.map(({ orderId }) => orderId) }
  )
  await rows(
    trx,
    `update follows set status = 'PAUSED_DRAWDOWN' where id = any(:followIds) and status = 'ACTIVE' and ${lossPassed}`,
    { followIds }
  )
}

/** Pauses those follows of a leader whose loss passed their limit, be it that the limit was lowered. */
export async function pauseDrawdowns(trx: Db, leaderId: string): Promise<void> {
  await rows(
    trx,
    `update follows set status = 'PAUSED_DRAWDOWN'
      where id = any(array(select id from follows where leader_id = :leaderId and status = 'ACTIVE' and ${lossPassed}
                            order by id for no key update))`,
    { leaderId }
  )
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

/** Where the parts of a leader's active follows end, by id, each part of `size` at most. */
export async function partEnds(db: Db, { leaderId, size }: { leaderId: string; size: number }): Promise<string[]> {
  const found = await rows<{ id: string }>(
    db,
    `select id from (
       select id, row_number() over (order by id) as place, count(*) over () as many
         from follows where leader_id = :leaderId and status = 'ACTIVE') numbered
      where place % :size = 0 or place = many order by id`,
    { leaderId, size }
  )
  return found.map(({ id }) => id)
}

/**
 * Active followers of a leader that can trade, with ids after `after` up to `upTo`, at most `limit`. Suspended and unpaid
 * partners are left out.
 */
export async function listFollowers(
  db: Db,
  { leaderId, after, upTo, limit }: { leaderId: string; after: string; upTo: string; limit: number }
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
      where f.leader_id = :leaderId and f.status = 'ACTIVE' and f.id > :after and f.id <= :upTo
      order by f.id limit :limit`,
    { leaderId, after, upTo, limit }
  )
}
