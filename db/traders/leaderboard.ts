// The leaderboard of a partner's community: closed orders of 30 days, added up by the day beforehand, and collected
// trades, added up for each request.
import type { AccountMode } from '../../schemas/fields/fields.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { tradedSegments } from './days.ts'

export interface RankedRecord {
  /** Within one mode and currency. */
  rank: number
  accountMode: AccountMode
  currency: string | null
  partyId: string
  displayName: string | null
  avatarUrl: string | null
  trades: number
  wins: number
  pnl: string
}

/** The partner of the leaderboard, and its mode and currency; null: all. */
export interface LeaderboardFilter {
  partnerId: string
  accountMode: string | null
  currency: string | null
}

/**
 * Traders with a public profile and at least one trade in 30 days, ranked by pnl within each mode and currency; REAL before
 * DEMO, then by currency; at most 100.
 */
export function readLeaderboard(
  db: Db,
  { partnerId, accountMode, currency }: LeaderboardFilter
): Promise<RankedRecord[]> {
  // The broker's names have the database's collation in orders, which the statement must state for the index to be of
  // use.
  return rows<RankedRecord>(
    db,
    `with ${tradedSegments('p.id = :partnerId')}, counted as (
       select trader_id, account_mode, currency, trades, wins, pnl from traded
       union all
       -- A login that is none of the trader's accounts here counts as the active one; without any, as virtual money.
       select t.id, coalesce(a.account_mode, active.account_mode, 'DEMO') collate "C",
              coalesce(upper(nullif(r.currency, '') collate "C"), a.currency, active.currency, '') collate "C", 1, (r.profit_loss > 0)::int, r.profit_loss
         from community_profiles p
         join traders t on t.id = p.party_id
         join trade_records r on r.partner_id = t.partner_id and r.trader_external_id = t.external_id
          and r.traded_at > now() - interval '30 days'
          -- a clock may be ahead, but what is dated far ahead would never leave the list
          and r.traded_at < now() + interval '1 day'
         left join broker_accounts a on a.trader_id = t.id and a.account_id = r.client_broker_loginid collate "default"
         left join broker_accounts active on active.id = t.active_account_id
        where p.partner_id = :partnerId and p.is_public
          -- a contract placed here and reported as well counts once
          and not exists (select from orders o
                           where o.account_id = r.client_broker_loginid collate "default"
                             and o.broker_order_id = r.broker_contract_id collate "default"
                             and o.partner_id = r.partner_id)
     ), sums as (
       select trader_id, account_mode, currency, sum(trades)::int as trades, sum(wins)::int as wins, sum(pnl) as pnl
         from counted group by trader_id, account_mode, currency
     )
     select p.party_id as "partyId", p.display_name as "displayName", p.avatar_url as "avatarUrl", s.trades, s.wins, s.pnl,
            s.account_mode as "accountMode", nullif(s.currency, '') as currency,
            row_number() over (partition by s.account_mode, s.currency order by s.pnl desc, s.wins desc, p.party_id)::int as rank
       from sums s join community_profiles p on p.party_id = s.trader_id
      where p.partner_id = :partnerId and p.is_public
        and (:accountMode::text is null or s.account_mode = :accountMode) and (:currency::text is null or s.currency = :currency)
      order by s.account_mode desc, nullif(s.currency, '') nulls last, rank
      limit 100`,
    { partnerId, accountMode, currency }
  )
}
