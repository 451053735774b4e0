// operator orders: orders of all partners, as the operator sees them.
import type { Command } from 'commander'
import { findOrders, listOrders, type OrderRow } from '../db/orders.ts'
import { presentEntry } from '../db/orders-entry.ts'
import { OrderRef, OrdersQuery } from '../schemas/commands.ts'
import { ApiError } from '../schemas/errors.ts'
import { withStore } from './context.ts'
import { examples } from './examples.ts'
import { addOrdersInDoubt } from './orders-doubt.ts'
import { addOrdersSettle } from './orders-settle.ts'
import { table } from './output.ts'

export function addOrders(program: Command): void {
  const orders = program.command('orders').description('Orders: list, show, reconcile, audit, settle')

  orders
    .command('list')
    .description('List orders, newest first')
    .option('--partner <partnerId>', 'of one partner')
    .option('--trader <traderExternalId>', "of one trader, by the partner's own id")
    .option('--status <status>', 'PENDING, OPEN, CLOSED, FAILED, or REVIEW for those waiting for a decision')
    .option('--limit <count>', 'how many at most', '50')
    .option('--cursor <text>', 'nextCursor of the page before')
    .addHelpText('after', examples('orders list --status REVIEW', 'orders list --partner ptn_01jd… --limit 200 --json'))
    .action(
      withStore(
        async ({ db }, { partner, trader, status, limit, cursor }: OrdersQuery) => {
          const review = status === 'REVIEW'
          const filter = { partnerId: partner, traderExternalId: trader, limit, cursor }
          const page = await listOrders(db, review ? { ...filter, review } : { ...filter, status })
          return { data: page.orders.map(presentListed), nextCursor: page.nextCursor }
        },
        {
          input: OrdersQuery,
          // What was bought in one column; binary and multiplier orders name it differently.
          show: ({ data, nextCursor }) =>
            [
              table(
                data.map(({ contractType, direction, multiplier, ...order }) => ({
                  ...order,
                  contract: contractType ?? `${direction} ×${multiplier}`,
                  status: (order.error?.error as string | undefined) === 'REVIEW_REQUIRED' ? 'REVIEW' : order.status
                })),
                ['orderId', 'status', 'asset', 'contract', 'stake', 'pnl', 'traderExternalId', 'createdAt']
              ),
              ...(nextCursor ? [`nextCursor: ${nextCursor}`] : [])
            ].join('\n')
        }
      )
    )

  orders
    .command('show <orderId>')
    .description('Show everything known about an order')
    .addHelpText('after', examples('orders show ord_01jd…', 'orders show ord_01jd… --json'))
    .action(
      withStore(
        async ({ db }, { orderId }: OrderRef) => {
          const [row] = await findOrders(db, [orderId])
          if (!row) throw new ApiError('NOT_FOUND', `There is no order ${orderId}.`)
          return presentOrder(row)
        },
        { input: OrderRef }
      )
    )

  addOrdersInDoubt(orders)
  addOrdersSettle(orders)
}

function presentListed(row: OrderRow) {
  return { ...presentEntry(row), partnerId: row.partner_id }
}

/** What lists show and, beyond it, how the order got where it is. */
function presentOrder(row: OrderRow) {
  return {
    ...presentListed(row),
    traderId: row.trader_id,
    phase: row.phase,
    attempt: row.attempt,
    queuedAt: row.queued_at,
    expiresAt: row.expires_at,
    sentAt: row.sent_at,
    permitUntil: row.permit_until,
    sender: row.sender,
    reconcileAt: row.reconcile_at,
    looks: row.looks,
    retryable: row.retryable,
    follower: row.follower,
    evidence: row.evidence
  }
}
