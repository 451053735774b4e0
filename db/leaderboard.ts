// The leaderboard of a partner's community: closed orders and collected trades of 30 days, added up afresh for
// each question from two indexes that hold all it needs.
import { type Db, rows } from './connection.ts'

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
    `select p.party_id, p.display_name, p.avatar_url, s.trades, s.wins, s.pnl
       from community_profiles p
       join traders t on t.id = p.party_id
      cross join lateral (
        select count(*) as trades, count(*) filter (where pnl > 0) as wins, sum(pnl) as pnl
          from (
            select o.pnl from orders o
             where o.trader_id = t.id and o.phase = 'closed' and o.closed_at > now() - interval '30 days'
            union all
            select r.profit_loss from trade_records r
             where r.partner_id = t.partner_id and r.trader_external_id = t.external_id
               and r.traded_at > now() - interval '30 days'
               -- a clock may be ahead, but what is dated far ahead would never leave the list
               and r.traded_at < now() + interval '1 day'
               -- a contract placed here and reported as well counts once
               and not exists (select from orders o
                                where o.account_id = r.client_broker_loginid collate "default"
                                  and o.broker_order_id = r.broker_contract_id collate "default"
                                  and o.partner_id = r.partner_id)
          ) as trades (pnl)
      ) s
      where p.partner_id = :partnerId and p.is_public and s.trades > 0
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
