// The leaderboard of a partner's community: closed orders of 30 days, added up by the day beforehand, and collected
// trades, added up for each question.
import { type Db, rows } from './connection.ts'
import { tradedSegments } from './trader-days.ts'

export interface RankedRecord {
  partyId: string
  displayName: string | null
  avatarUrl: string | null
  trades: number
  wins: number
  pnl: string
}

interface RankedRow {
  party_id: string
  display_name: string | null
  avatar_url: string | null
  trades: number
  wins: number
  pnl: string
}

/** Traders with a public profile and at least one trade in 30 days, by pnl, at most 100. */
export async function readLeaderboard(db: Db, partnerId: string): Promise<RankedRecord[]> {
  // What the broker names has the database's collation in orders, which has to be said for their index to be of use.
  const found = await rows<RankedRow>(
    db,
    `with ${tradedSegments('p.id = :partnerId')}, counted as (
       select trader_id, trades, wins, pnl from traded
       union all
       select t.id, 1, (r.profit_loss > 0)::int, r.profit_loss
         from community_profiles p
         join traders t on t.id = p.party_id
         join trade_records r on r.partner_id = t.partner_id and r.trader_external_id = t.external_id
          and r.traded_at > now() - interval '30 days'
          -- a clock may be ahead, but what is dated far ahead would never leave the list
          and r.traded_at < now() + interval '1 day'
        where p.partner_id = :partnerId and p.is_public
          -- a contract placed here and reported as well counts once
          and not exists (select from orders o
                           where o.account_id = r.client_broker_loginid collate "default"
                             and o.broker_order_id = r.broker_contract_id collate "default"
                             and o.partner_id = r.partner_id)
     ), sums as (
       select trader_id, sum(trades)::int as trades, sum(wins)::int as wins, sum(pnl) as pnl from counted group by trader_id
     )
     select p.party_id, p.display_name, p.avatar_url, s.trades, s.wins, s.pnl
       from sums s join community_profiles p on p.party_id = s.trader_id
      where p.partner_id = :partnerId and p.is_public
      order by s.pnl desc, s.wins desc, p.party_id
      limit 100`,
    { partnerId }
  )
  return found.map(row => ({
    partyId: row.party_id,
    displayName: row.display_name,
    avatarUrl: row.avatar_url,
    trades: row.trades,
    wins: row.wins,
    pnl: row.pnl
  }))
}
