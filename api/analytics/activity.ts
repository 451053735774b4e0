// GET /v1/analytics/activity and /marketplace: trading activity, order outcomes, and the income from bots.
import { type ActivityRow, readActivity } from '../../db/analytics/activity.ts'
import { type MarketplaceRow, readMarketplace } from '../../db/analytics/marketplace.ts'
import { Activity, ActivityQuery, type AnalyticsQuery, Marketplace, MarketplaceQuery } from '../../schemas/analytics.ts'
import { shown } from '../../schemas/fields/money.ts'
import type { Operation } from '../operation.ts'
import { presentWindow, windowOf, within } from './window.ts'

export const getActivity: Operation<{ query: AnalyticsQuery }> = {
  name: 'getActivity',
  method: 'GET',
  path: '/v1/analytics/activity',
  tag: 'Analytics',
  summary: 'Traders and orders by time',
  description:
    'Orders counted when they were accepted: who placed them, how many failed and why, and how fast the broker responded. Every bucket is returned, with zeros where nothing happened. Read from the orders themselves: a long window of many orders takes seconds.',
  auth: 'key',
  scope: 'analytics:read',
  query: ActivityQuery,
  response: Activity,
  csv: true,
  weight: 20,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const window = await windowOf(db, partner.partnerId, query)
    const found = await within(readActivity(db, window))
    return { ...presentWindow(window, found), data: found.data.map(presentActivity) }
  }
}

function presentActivity(row: ActivityRow) {
  const { activeTraders, newTraders, returningTraders, placed, failed, failedBy, inDoubt, p50, p99 } = row
  const start = row.start.toISOString()
  return {
    start,
    activeTraders,
    newTraders,
    returningTraders,
    placed,
    failed,
    failedBy,
    inDoubt,
    answerMs: { p50, p99 }
  }
}

export const getMarketplaceAnalytics: Operation<{ query: MarketplaceQuery }> = {
  name: 'getMarketplaceAnalytics',
  method: 'GET',
  path: '/v1/analytics/marketplace',
  tag: 'Analytics',
  summary: 'Marketplace earnings by time',
  description:
    'Earnings of the bots of the partner and of its traders, from the ledger: a refund counts in the bucket in which it was made. Free bots move no money and are not counted.',
  auth: 'key',
  scope: 'analytics:read',
  query: MarketplaceQuery,
  response: Marketplace,
  csv: true,
  weight: 5,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const window = await windowOf(db, partner.partnerId, query)
    const { partnerId, from, to, present, timezone, interval } = window
    const found = await within(readMarketplace(db, { partnerId, from, to, present, timezone, interval }))
    return { ...presentWindow(window, found), data: found.data.map(presentMarketplace) }
  }
}

function presentMarketplace(row: MarketplaceRow) {
  const { sales, subscriptions, refunds } = row
  const start = row.start.toISOString()
  return {
    start,
    sales,
    subscriptions,
    refunds,
    grossUsd: shown(row.grossUsd),
    feesUsd: shown(row.feesUsd),
    netUsd: shown(row.netUsd)
  }
}
