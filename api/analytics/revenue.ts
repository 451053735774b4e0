// GET /v1/analytics/revenue: contracts, markup and payouts by the time of purchase.
import { type RevenueRow, readRevenue } from '../../db/analytics/revenue.ts'
import { Revenue, RevenueQuery } from '../../schemas/analytics.ts'
import type { Operation } from '../operation.ts'
import { presentWindow, windowOf, within } from './window.ts'

export const getRevenue: Operation<{ query: RevenueQuery }> = {
  name: 'getRevenue',
  method: 'GET',
  path: '/v1/analytics/revenue',
  tag: 'Analytics',
  summary: 'Revenue by time',
  description:
    'Contracts counted at their purchase, with what they staked, paid out and earned you, by bucket and currency. The sums are those of the orders at `asOf`, to the last commit. Without `groupBy` every bucket is returned, with zeros where nothing was bought.',
  auth: 'key',
  scope: 'analytics:read',
  query: RevenueQuery,
  response: Revenue,
  csv: true,
  weight: 5,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const window = await windowOf(db, partner.partnerId, query)
    const found = await within(readRevenue(db, { ...window, groupBy: query.groupBy ?? null }))
    return { ...presentWindow(window, found), data: found.data.map(present) }
  }
}

function present(row: RevenueRow) {
  return {
    start: row.start.toISOString(),
    currency: row.currency,
    ...(row.group === null ? {} : { group: row.group }),
    contracts: row.contracts,
    traders: row.traders,
    stake: Number(row.stake),
    payout: Number(row.payout),
    markup: Number(row.markup),
    markupUnknown: row.markupUnknown,
    commission: Number(row.commission),
    tradersPnl: Number(row.tradersPnl)
  }
}
