// GET /v1/analytics/traders: what each trader's closed contracts came to, and one trader's by time.
import { listTraderSums } from '../../db/analytics/trader-pages.ts'
import { readTrader, type TraderSeriesRow, type TraderSums } from '../../db/analytics/traders.ts'
import { AnalyticsQuery, TraderAnalytics, TraderPath, Traders, TradersQuery } from '../../schemas/analytics.ts'
import type { Operation } from '../operation.ts'
import { presentWindow, windowOf, within } from './window.ts'

export const listTraderAnalytics: Operation<{ query: TradersQuery }> = {
  name: 'listTraderAnalytics',
  method: 'GET',
  path: '/v1/analytics/traders',
  tag: 'Analytics',
  summary: 'Traders by their results',
  description:
    'Traders with contracts closed in the window, in one currency, the largest by `sort` first. Counted at close. Figures change while contracts close: between two pages a trader may move.',
  auth: 'key',
  scope: 'analytics:read',
  query: TradersQuery,
  response: Traders,
  csv: true,
  weight: 5,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const { sort = 'pnl', limit = 50, cursor, currency = 'USD' } = query
    const window = await windowOf(db, partner.partnerId, query)
    const found = await listTraderSums(db, {
      partnerId: window.partnerId,
      from: window.from,
      to: window.to,
      present: window.present,
      accountMode: window.accountMode,
      currency,
      sort,
      limit,
      ...(cursor === undefined ? {} : { cursor })
    })
    return { ...presentWindow(window, found), data: found.data.map(present), nextCursor: found.nextCursor }
  }
}

export const getTraderAnalytics: Operation<{ params: { traderExternalId: string }; query: AnalyticsQuery }> = {
  name: 'getTraderAnalytics',
  method: 'GET',
  path: '/v1/analytics/traders/{traderExternalId}',
  tag: 'Analytics',
  summary: 'One trader by time',
  description:
    'What the trader closed in the window, a row per currency, and the same by `interval`. The CSV has the rows of `series`.',
  auth: 'key',
  scope: 'analytics:read',
  params: TraderPath,
  query: AnalyticsQuery,
  response: TraderAnalytics,
  csv: 'series',
  weight: 5,
  errors: ['TRADER_NOT_FOUND'],
  replica: true,
  async handle({ partner, params, query }, { db }) {
    const window = await windowOf(db, partner.partnerId, query)
    const found = await within(readTrader(db, { ...window, traderExternalId: params.traderExternalId }))
    const series = found.series.map(row => ({ start: row.start.toISOString(), ...presentSums(row) }))
    return { ...presentWindow(window, found), data: found.data.map(present), series }
  }
}

function present(row: TraderSums) {
  return {
    traderExternalId: row.traderExternalId,
    ...presentSums(row),
    firstTradeAt: row.firstTradeAt.toISOString(),
    lastTradeAt: row.lastTradeAt.toISOString()
  }
}

function presentSums(row: Omit<TraderSeriesRow, 'start'>) {
  return {
    currency: row.currency,
    trades: row.trades,
    won: row.won,
    winRatePct: Math.round((10_000 * row.won) / row.trades) / 100,
    stake: Number(row.stake),
    payout: Number(row.payout),
    pnl: Number(row.pnl),
    markup: Number(row.markup),
    markupUnknown: row.markupUnknown,
    copied: row.copied
  }
}
