// operator orders: orders of all partners, as the operator sees them.
import type { Command } from 'commander'
import pc from 'picocolors'
import { presentEntry } from '../../db/orders/entry.ts'
import { listOrders } from '../../db/orders/listing.ts'
import { mayRepeat, type OrderRow, triesOf } from '../../db/orders/reading.ts'
import { sellOrder } from '../../db/orders/selling.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { type AuditRecord, recordAudit } from '../../db/platform/audit.ts'
import { getNamedOrder } from '../../db/platform/named.ts'
import { OrderClose, OrderName, OrderSearch } from '../../schemas/commands/orders.ts'
import { eventsOf, type OrderEvent, offsetText, readOrderWithAudit } from '../console/order.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { instantOf } from '../terminal/instants.ts'
import { lines, table } from '../terminal/output.ts'
import { UsageError } from '../terminal/refusals.ts'
import { watchable } from '../terminal/watching.ts'
import { addOrdersInDoubt, withWorkers } from './doubt.ts'
import { addOrdersSettle } from './settle.ts'

export function addOrders(program: Command): void {
  const orders = program.command('orders').description('Orders: list, show, close, reconcile, audit, settle')

  watchable(orders.command('list'))
    .description('List orders, newest first')
    .option('--partner <partnerId>', 'of one partner')
    .option('--trader <traderExternalId>', "of one trader, by the partner's own id")
    .option('--status <status>', 'PENDING, OPEN, CLOSED, FAILED, or REVIEW for those waiting for a decision')
    .option('--error <code>', 'that failed with this code, such as MARKET_CLOSED')
    .option('--asset <symbol>', 'on one asset')
    .option('--account <accountId>', "on one of the broker's accounts")
    .option('--from <instant>', 'placed at or after: a day, or ISO 8601 with its zone')
    .option('--to <instant>', 'placed before')
    .option('--limit <count>', 'how many at most', '50')
    .option('--cursor <text>', 'nextCursor of the page before')
    .addHelpText(
      'after',
      examples(
        'orders list --status REVIEW --watch',
        'orders list --error BROKER_UPSTREAM --from 2026-11-21T08:00Z --to 2026-11-21T09:00Z',
        'orders list --partner ptn_01jd… --limit 1000 --csv > orders.csv'
      )
    )
    .action(
      withStore(
        async ({ db }, query: OrderSearch) => {
          const { partner, trader, status, error, asset, account, from, to, limit, cursor } = query
          const review = status === 'REVIEW'
          const filter = {
            partnerId: partner,
            traderExternalId: trader,
            errorCode: error,
            asset,
            accountId: account,
            from: from === undefined ? undefined : instantOf('--from', from),
            to: to === undefined ? undefined : instantOf('--to', to),
            limit,
            cursor
          }
          if (filter.from && filter.to && filter.from >= filter.to)
            throw new UsageError(`--from ${from} is not before --to ${to}: nothing is placed between them`)
          if (partner) await getPartner(db, partner)
          const page = await listOrders(db, review ? { ...filter, review } : { ...filter, status })
          return { data: page.orders.map(presentListed), nextCursor: page.nextCursor }
        },
        {
          input: OrderSearch,
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

  watchable(orders.command('show <order>'))
    .description("Show an order's history, by its orderId, its clientOrderId or its contract id")
    .addHelpText(
      'after',
      examples('orders show ord_01jd…', 'orders show 290769704688 --watch', 'orders show ord_01jd… --json')
    )
    .action(
      withStore(
        async ({ db }, { order: name }: OrderName) => {
          const { id } = await getNamedOrder(db, name)
          const { order, audit } = await readOrderWithAudit(db, id)
          return { ...presentOrder(order as OrderRow), story: eventsOf(order as OrderRow), decisions: audit }
        },
        { input: OrderName, show: describeHistory }
      )
    )

  orders
    .command('close <order>')
    .description(
      "Sell an OPEN order's contract at the market, by the workers, as its partner could; named as in `orders show`"
    )
    .requiredOption('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('orders close ord_01jd… --reason "requested by the trader, ticket 4711"'))
    .action(withStore(close, { input: OrderClose, acts: true }))

  addOrdersInDoubt(orders)
  addOrdersSettle(orders)
}

function presentListed(row: OrderRow) {
  return { ...presentEntry(row), partnerId: row.partner_id }
}

interface OrderHistory {
  orderId: string
  story: OrderEvent[]
  decisions: AuditRecord[]
}

/** What happened, with the time since the order was placed, then everything known, then what operators decided. */
function describeHistory({ story, decisions, ...order }: OrderHistory): string {
  const known = Object.fromEntries(Object.entries(order).filter(([, value]) => value !== null))
  const width = Math.max(...story.map(({ event }) => event.length))
  const happened = story.map(({ event, at, offsetMs, note }) =>
    [event.padEnd(width), at.toISOString(), offsetText(offsetMs).padEnd(10), note].join('  ').trimEnd()
  )
  const decided = decisions.map(({ at, actor, action, details }) =>
    [at.toISOString(), actor, action, JSON.stringify(details)].join('  ')
  )
  return [pc.bold(order.orderId), ...happened, '', lines(known), ...(decided.length > 0 ? ['', ...decided] : [])].join(
    '\n'
  )
}

/** Has the workers sell an order's contract, after confirmation. */
async function close(opened: Opened, { order: name, reason }: OrderClose): Promise<object> {
  const { db, actor, confirm } = opened
  const order = await getNamedOrder(db, name)
  const value =
    order.current_value === null ? '' : `, worth ${order.current_value} ${order.currency ?? ''} when last seen`
  await confirm(
    `Sell the contract of ${order.id} (${order.asset}, bought for ${order.buy_price ?? 'nothing yet'}${value}) at the market? A sale cannot be taken back.`
  )
  const details = { reason, contractId: order.broker_order_id, accountId: order.account_id, status: order.status }
  await recordAudit(db, { actor, action: 'orders.close', target: order.id, details })
  return withWorkers(opened, async tools => presentEntry(await sellOrder(db, tools, order)))
}

/** What lists show and, beyond it, how the order got where it is. */
function presentOrder(row: OrderRow) {
  return {
    ...presentListed(row),
    traderId: row.trader_id,
    phase: row.phase,
    tries: triesOf(row),
    queuedAt: row.queued_at,
    expiresAt: row.expires_at,
    sentAt: row.sent_at,
    permitUntil: row.permit_until,
    sender: row.sender,
    reconcileAt: row.resolve_at,
    looks: row.checks,
    retryable: mayRepeat(row),
    follower: row.lease_holder,
    evidence: row.evidence
  }
}
