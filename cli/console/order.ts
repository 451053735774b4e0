// An order as a row of a table, and its whole history; wherever orders are shown.

import { findOrders, mayRepeat, type OrderRow, triesOf } from '../../db/orders/reading.ts'
import { type AuditRecord, listAudit } from '../../db/platform/audit.ts'
import type { OrderLine } from '../../db/platform/console.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { age, type Column, clock, cut, fit, instant, toneOf, tones, wrap } from './text.ts'
import type { Drawn, Size } from './view.ts'

/** The status the partner sees, except that an order in review is REVIEW: also an open one whose end waits for a decision. */
export function statusOf(order: Pick<OrderLine, 'phase' | 'status' | 'error_code'>): string {
  const { phase, status, error_code } = order
  return phase === 'review' || (phase === 'open' && error_code === 'REVIEW_REQUIRED') ? 'REVIEW' : status
}

export function contractOf(order: {
  contract_type: string | null
  direction: string | null
  multiplier: string | null
}): string {
  return order.contract_type ?? (order.direction ? `${order.direction} ×${order.multiplier}` : '–')
}

export const orderColumns: Column<OrderLine>[] = [
  { title: 'Placed', width: 11, of: order => clock(order.created_at) },
  { title: 'Status', width: 7, of: statusOf, tone: order => toneOf(statusOf(order)) },
  { title: 'Asset', width: 9, of: order => order.asset },
  { title: 'Contract', width: 11, of: contractOf },
  { title: 'Stake', width: 8, right: true, of: order => order.stake },
  {
    title: 'P&L',
    width: 8,
    right: true,
    of: order => order.pnl ?? '–',
    tone: order => (order.pnl === null ? tones.quiet : Number(order.pnl) < 0 ? tones.bad : tones.good)
  },
  { title: 'Trader', width: 6, grow: true, of: order => order.trader_external_id },
  { title: 'Partner', width: 16, grow: true, from: 110, of: order => order.partner },
  { title: 'Account', width: 14, from: 110, of: order => order.account_id },
  { title: 'Error', width: 18, from: 180, of: order => order.error_code ?? '' },
  { title: 'Order', width: 30, from: 140, of: order => order.id }
]

export interface OrderWithAudit {
  order: OrderRow | undefined
  audit: AuditRecord[]
}

export async function readOrderWithAudit(trx: Db, orderId: string): Promise<OrderWithAudit> {
  const [order] = await findOrders(trx, [orderId])
  return { order, audit: (await listAudit(trx, { target: orderId, limit: 20 })).data }
}

/** Everything known about an order: its request, its history, its present state. */
export function drawOrderHistory({ order, audit }: OrderWithAudit, orderId: string, { columns }: Size): Drawn {
  if (!order)
    return { head: [], lines: [{ text: cut(`There is no order ${orderId} any more.`, columns) }], plain: true }
  const lines: string[] = []
  const fact = (label: string, value: string | null | undefined, tone = (text: string) => text) => {
    if (value === null || value === undefined || value === '') return
    wrap(value, columns - LABEL, 4).forEach((part, i) => {
      lines.push(fit(i === 0 ? label : '', LABEL) + tone(part))
    })
  }
  const section = (name: string) => lines.push(...(lines.length > 0 ? [''] : []), tones.title(name))
  const money = (amount: string | null) => (amount === null ? null : `${amount} ${order.currency ?? ''}`.trim())

  section('Request')
  fact('Contract', `${order.kind} ${contractOf(order)} on ${order.asset}`)
  fact('Stake', `${order.stake} USD`)
  if (order.stake_in_account !== null)
    fact('On account', `${money(order.stake_in_account)} at ${order.exchange_rate} for one USD`)
  fact('Duration', order.duration === null ? null : `${order.duration} ${order.duration_unit}`)
  fact('Barrier', order.barrier)
  fact('Stop loss', money(order.stop_loss))
  fact('Take profit', money(order.take_profit))
  fact('Trader', `${order.trader_external_id} (${order.trader_id})`)
  fact('Partner', order.partner_id)
  fact('Account', `${order.account_id} ${order.account_mode}, ${order.dialect}`)
  fact('clientOrderId', order.client_order_id)
  fact('Copied from', order.copied_from)
  fact('Trace', order.trace)

  section('What happened')
  for (const { event, at, offsetMs, note } of eventsOf(order))
    fact(event, `${instant(at)}  ${offsetText(offsetMs)}${note && `  ${note}`}`)

  section('State')
  const status = statusOf(order)
  fact('Status', `${status}${order.phase === status.toLowerCase() ? '' : ` (${order.phase})`}`, toneOf(status))
  fact('Bought for', money(order.buy_price))
  fact('Payout', money(order.payout))
  fact('Entry, exit', order.entry_price && `${order.entry_price} → ${order.exit_price ?? '…'}`)
  fact('P&L', money(order.pnl), Number(order.pnl ?? 0) < 0 ? tones.bad : tones.good)
  fact('Error', order.error_code && `${order.error_code}: ${order.error_message ?? ''}`, tones.bad)
  if (order.phase === 'failed') fact('May repeat', mayRepeat(order) ? 'yes, with the same clientOrderId' : 'no')
  if (order.lease_holder) fact('Followed by', order.lease_holder)

  if (audit.length > 0) {
    section('Decided by operators')
    for (const entry of audit) fact(clock(entry.at), `${entry.actor} ${entry.action} ${JSON.stringify(entry.details)}`)
  }
  return {
    head: [tones.title(cut(order.id, columns))],
    lines: lines.map((text, i) => ({ text, id: String(i) })),
    plain: true
  }
}

/** A moment in an order's life. */
export interface OrderEvent {
  event: string
  at: Date
  /** Since it was placed. */
  offsetMs: number
  note: string
}

/** What happened to an order and what is due, in the order of its life. */
export function eventsOf(order: OrderRow): OrderEvent[] {
  const events: OrderEvent[] = []
  const add = (event: string, at: Date | null, note: string | null = '') => {
    if (at) events.push({ event, at, offsetMs: at.getTime() - order.created_at.getTime(), note: note ?? '' })
  }
  add('Placed', order.created_at)
  // A repeat under the same clientOrderId queues a failed order again; the two instants of one insert may differ by 1 ms.
  if (order.queued_at.getTime() - order.created_at.getTime() > 1) add('Queued', order.queued_at)
  const tries = triesOf(order)
  add('Sent', order.sent_at, order.sender && `by ${order.sender}${tries > 1 ? `, try ${tries}` : ''}`)
  add('Must leave by', order.permit_until)
  add('Responded', order.answered_at)
  add('Bought', order.opened_at, order.broker_order_id && `contract ${order.broker_order_id}`)
  add('Expires', order.expiry_at)
  add('Last value', order.marked_at, order.current_value)
  add('Closed', order.closed_at)
  if (order.phase === 'sending') add('Looked up at', order.resolve_at, `${order.checks} checks so far`)
  return events
}

const LABEL = 16

/** The time since an order was placed: +0.412 s, +3 m 20 s, −1 m 5 s by a clock that is behind; empty for none. */
export function offsetText(ms: number): string {
  if (ms === 0) return ''
  const seconds = Math.abs(ms) / 1000
  return `${ms < 0 ? '−' : '+'}${seconds < 60 ? `${seconds.toFixed(3)} s` : age(seconds)}`
}
