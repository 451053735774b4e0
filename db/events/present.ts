// An event as every reader sees it: the record as its own endpoint showed it at that moment. Orders are read from their row,
// less what they did not have yet; what a record has lost since is in the event's facts.
import { TypeID } from 'typeid-js'
import type { EventRecord } from '../../schemas/events.ts'
import { prefixes } from '../../schemas/fields/ids.ts'
import { lacking, shown } from '../../schemas/fields/money.ts'
import { presentDeployment, siteOf } from '../community/templates.ts'
import { presentFollow } from '../copy/follows.ts'
import { presentPurchase, presentSubscription } from '../marketplace/sales.ts'
import type { Prices } from '../money/billing.ts'
import { presentPayout } from '../money/payouts.ts'
import { presentEntry } from '../orders/entry.ts'
import { mayRepeat, type OrderRow } from '../orders/reading.ts'
import { keyHint, presentKey } from '../partners/keys.ts'
import { presentAccount } from '../traders/accounts.ts'
import { presentWebhook } from '../webhooks/endpoints.ts'
import type { EventRow } from './read.ts'

/** What of the configuration shows in events. */
export interface EventSettings {
  baseUrl: string
  planPrices: Prices
}

/** The id of an event on the wire. */
export const eventIdOf = (uuid: string): string => TypeID.fromUUID(prefixes.event, uuid).toString()

/** The uuid in an event's id and the instant it was made, ms since the epoch; undefined for a text that is none. */
export function readEventId(id: string): { uuid: string; createdMs: number } | undefined {
  try {
    const typed = TypeID.fromString(id)
    if (typed.getType() !== prefixes.event) return undefined
    const uuid = typed.toUUID()
    return { uuid, createdMs: Number.parseInt(uuid.replace('-', '').slice(0, 12), 16) }
  } catch {
    return undefined
  }
}

/** The event as the wire shows it. */
export function presentEvent(row: EventRow, installation: EventSettings): EventRecord {
  return {
    id: eventIdOf(row.id),
    type: row.type,
    createdAt: row.at.toISOString(),
    position: row.position,
    traderExternalId: row.trader,
    data: dataOf(row, installation)
  }
}

// biome-ignore lint/suspicious/noExplicitAny: rows as PostgreSQL wrote them to JSON, of as many shapes as there are records
type EventFacts = any

function dataOf({ id, type, order, facts: stored }: EventRow, settings: EventSettings): object {
  const facts = stored as EventFacts
  switch (type) {
    case 'order.opened':
    case 'order.closed':
    case 'order.failed':
    case 'order.review':
      if (!order) throw new Error(`The order of the event ${id} is gone: orders must be kept as long as their events.`)
      return orderData(type, order, facts)
    case 'account.connected':
    case 'account.rejected':
      return accountData(facts)
    case 'follow.paused':
      return followData(facts)
    case 'payout.approved':
    case 'payout.paid':
    case 'payout.rejected':
      return payoutData(facts)
    case 'plan.active':
    case 'plan.inactive':
      return planData(facts, settings)
    case 'bot.purchased':
    case 'bot.refunded':
      return purchaseData(facts)
    case 'subscription.past_due':
      return subscriptionData(facts)
    case 'key.created':
    case 'key.revoked':
      return keyData(facts)
    case 'deployment.live':
    case 'deployment.failed':
      return deploymentData(facts, settings)
    case 'webhook.disabled':
      return webhookData(facts)
  }
}

const date = (text: string | null): Date | null => (text === null ? null : new Date(text))

const notEnded = {
  pnl: null,
  entry_price: null,
  exit_price: null,
  closed_at: null,
  error_code: null,
  error_message: null
} as const

// These come with the broker's state of the contract, after its purchase.
const notStated = { commission: null, markup: null } as const

function orderData(type: EventRow['type'], order: OrderRow, facts: EventFacts): object {
  if (type === 'order.closed') return presentEntry(order)
  if (type === 'order.opened') return presentEntry({ ...order, ...notEnded, ...notStated, status: 'OPEN', ...facts })
  const { retryable, ...then } = facts
  const entry = presentEntry({ ...order, ...notEnded, ...notStated, ...then, opened_at: date(facts.opened_at) })
  return type === 'order.failed' ? { ...entry, retryable: mayRepeat({ ...order, retryable }) } : entry
}

function accountData(facts: EventFacts): object {
  return presentAccount(
    {
      id: facts.id,
      accountId: facts.account_id,
      accountMode: facts.account_mode,
      currency: facts.currency,
      status: facts.status,
      rejectedReason: facts.status === 'REJECTED' ? (facts.rejected_reason ?? 'TOKEN_REFUSED') : null,
      connectedAt: new Date(facts.connected_at)
    },
    facts.active_account_id
  )
}

function followData(facts: EventFacts): object {
  return presentFollow({
    followId: facts.id,
    traderExternalId: facts.trader_external_id,
    leaderId: facts.leader_id,
    accountId: facts.account_id,
    accountMode: facts.account_mode,
    currency: facts.currency,
    riskPct: facts.risk_pct,
    maxDrawdownPct: facts.max_drawdown_pct,
    mirrorCloses: facts.mirror_closes,
    status: facts.status,
    openCopies: facts.open_copies,
    skippedCopies: facts.skipped_copies,
    skippedReason: facts.skipped_reason,
    skippedOrder: facts.skipped_order,
    skippedAt: date(facts.skipped_at),
    createdAt: new Date(facts.created_at)
  })
}

function payoutData(facts: EventFacts): object {
  return presentPayout({
    payoutId: facts.id,
    traderExternalId: facts.trader_external_id,
    amountUsd: facts.amount,
    destinationAddress: facts.destination_address,
    status: facts.status,
    requestedAt: new Date(facts.requested_at),
    decidedAt: date(facts.decided_at),
    paidAt: date(facts.paid_at),
    reference: facts.reference,
    reason: facts.reason
  })
}

function planData(facts: EventFacts, { planPrices }: EventSettings): object {
  return {
    plan: facts.plan,
    saasStatus: facts.suspended ? 'SUSPENDED' : facts.plan_active ? 'ACTIVE' : 'INACTIVE',
    periodEnd: new Date(facts.period_end).toISOString(),
    topUpUsd: facts.plan_active ? 0 : shown(lacking(facts.balance, planPrices[facts.plan as keyof Prices]))
  }
}

function purchaseData(facts: EventFacts): object {
  if (facts.side === 'creator')
    return {
      purchaseId: facts.id,
      botId: facts.bot_id,
      priceUsd: shown(facts.price),
      netUsd: shown(facts.net),
      status: facts.status
    }
  return presentPurchase({
    ...facts,
    purchased_at: new Date(facts.purchased_at),
    refunded_at: date(facts.refunded_at)
  })
}

function subscriptionData(facts: EventFacts): object {
  return presentSubscription({
    ...facts,
    current_period_end: new Date(facts.current_period_end),
    created_at: new Date(facts.created_at),
    refunded_at: date(facts.refunded_at)
  })
}

function keyData(facts: EventFacts): object {
  return presentKey({
    keyId: facts.id,
    label: facts.label,
    scopes: facts.scopes,
    hint: keyHint(facts.lookup, facts.test === true),
    test: facts.test === true,
    createdAt: new Date(facts.created_at),
    lastUsedAt: date(facts.last_used_at),
    revokedAt: date(facts.revoked_at)
  })
}

function deploymentData(facts: EventFacts, { baseUrl }: EventSettings): object {
  return presentDeployment(
    {
      deploymentId: facts.id,
      template: facts.template,
      ...siteOf(facts.tenant_slug),
      brandName: facts.brand_name,
      primaryColor: facts.primary_color,
      contactEmail: facts.contact_email,
      status: facts.status,
      createdAt: new Date(facts.created_at)
    },
    { baseUrl }
  )
}

function webhookData(facts: EventFacts): object {
  return presentWebhook({
    ...facts,
    failing_since: date(facts.failing_since),
    created_at: new Date(facts.created_at)
  })
}
