// Bought contracts as analytics count them: the values added up of each, for every caller. Amounts are in the account's
// currency.
import { allOrders } from '../orders/archive.ts'

/** The first quarter of an hour of a grid that all others lie on, as SQL. */
export const ORIGIN = `timestamptz '2000-01-01 00:00+00'`
/** The start of the quarter of an hour that an instant (an expression of SQL) lies in. */
export const quarterOf = (instant: string): string => `date_bin('15 minutes', ${instant}, ${ORIGIN})`

/** What contracts can be grouped by; '' means no grouping. */
export type Grouping = '' | 'asset' | 'contractType' | 'kind'

/**
 * Contracts of one partner, as SQL: a lateral `o (partner_id, trader_id, opened_at, app_id, account_mode, currency, asset, contract_type,
 * kind, open, stake, payout, markup, markup_unknown, commission, traders_pnl)`. `bounds` is a condition on opened_at.
 */
export function contractsOf(partner: string, bounds: string): string {
  // `offset 0` keeps this a walk along the index from bound to bound: joined freely, all orders were read.
  return `lateral (
      select partner_id, trader_id, opened_at, app_id, account_mode collate "C" as account_mode, coalesce(currency, '') collate "C" as currency,
             asset collate "C" as asset,
             case when kind = 'BINARY' then coalesce(contract_type, '') when direction = 'up' then 'MULTUP' else 'MULTDOWN' end collate "C" as contract_type,
             kind collate "C" as kind, (phase <> 'closed')::int as open, coalesce(stake_in_account, stake) as stake,
             case when phase = 'closed' then buy_price + pnl else 0 end as payout, coalesce(markup, 0) as markup,
             (markup is null)::int as markup_unknown, coalesce(commission, 0) as commission,
             case when phase = 'closed' then pnl else 0 end as traders_pnl
        from ${allOrders} o where partner_id = ${partner} and phase in ('open', 'closed') and ${bounds} offset 0) o`
}

/**
 * Closed contracts of one partner, as SQL: a lateral `o (partner_id, trader_id, closed_at, account_mode, currency, won, stake, payout,
 * pnl, markup, markup_unknown, copied)`. `bounds` is a condition on closed_at.
 */
export function closedContractsOf(partner: string, bounds: string): string {
  return `lateral (
      select partner_id, trader_id, closed_at, account_mode collate "C" as account_mode, coalesce(currency, '') collate "C" as currency,
             (pnl > 0)::int as won, coalesce(stake_in_account, stake) as stake, buy_price + pnl as payout, pnl, coalesce(markup, 0) as markup,
             (markup is null)::int as markup_unknown, (copied_from is not null)::int as copied
        from ${allOrders} o where partner_id = ${partner} and phase = 'closed' and ${bounds} offset 0) o`
}
