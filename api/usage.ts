// GET /v1/usage: what the partner used in its billing period, and what it may use.
import { standingOf } from '../db/money/billing.ts'
import { shown } from '../schemas/fields/money.ts'
import { Usage } from '../schemas/usage.ts'
import type { Operation } from './operation.ts'
import { rateLimitOf } from './request/limit.ts'

export const getUsage: Operation<object> = {
  name: 'getUsage',
  weight: 2,
  method: 'GET',
  path: '/v1/usage',
  tag: 'Usage',
  summary: 'Usage of the billing period',
  description:
    'Requests, orders and traders of the present billing period, the limits that apply, and the wallet. Requests served by other processes appear within seconds.',
  auth: 'key',
  scope: 'usage:read',
  response: Usage,
  errors: [],
  async handle({ partner }, { db, config, usage, batched }) {
    const { partnerId, plan, saasStatus } = partner
    // The counts of this process that are not written yet belong to the response.
    await usage.flush()
    const [used, wallet] = await Promise.all([batched.usage(partnerId), standingOf(db, partnerId, config.planPrices)])
    const sum = (of: 'requests' | 'errors') => used.byDay.reduce((total, day) => total + day[of], 0)
    return {
      periodStart: used.periodStart.toISOString(),
      periodEnd: used.periodEnd.toISOString(),
      plan,
      saasStatus,
      requests: { total: sum('requests'), errors: sum('errors'), byDay: used.byDay },
      orders: used.orders,
      traders: used.traders,
      rateLimit: rateLimitOf(partner, config),
      wallet: {
        balanceUsd: shown(wallet.balanceUsd),
        feeUsd: shown(wallet.feeUsd),
        nextFeeAt: wallet.nextFeeAt.toISOString()
      }
    }
  }
}
