// operator orders settle: the end of a contract that the broker no longer shows.
import type { Command } from 'commander'
import { announce } from '../../db/orders/deciding.ts'
import { presentEntry } from '../../db/orders/entry.ts'
import { checkHandSettlement, settleByHand } from '../../db/orders/past-end.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { WORK } from '../../db/platform/bus.ts'
import { getNamedOrder } from '../../db/platform/named.ts'
import { SettleOrder } from '../../schemas/commands/contracts.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { instantOf } from '../terminal/instants.ts'
import { withWorkers } from './doubt.ts'

export function addOrdersSettle(orders: Command): void {
  orders
    .command('settle <order>')
    .description(
      'Settle an OPEN order by hand whose contract is over and cannot be read at the broker; names an orderId, a clientOrderId or a contract id. A settled order stays settled'
    )
    .requiredOption('--sold-for <amount>', "what the contract paid, in the account's currency; 0 for a loss")
    .requiredOption('--closed-at <instant>', 'when it ended, ISO 8601 with its zone')
    .requiredOption('--reason <text>', 'how that is known, for the audit log')
    .addHelpText(
      'after',
      examples(
        'orders settle ord_01jd… --sold-for 19.53 --closed-at 2026-11-21T08:00:10Z --reason "statement of the broker"',
        'orders settle 290769704688 --sold-for 0 --closed-at 2026-11-21T08:00:10Z --reason "lost" --yes'
      )
    )
    .action(withStore(settle, { input: SettleOrder, acts: true }))
}

async function settle(opened: Opened, { order: name, soldFor, closedAt, reason }: SettleOrder): Promise<object> {
  const { db, actor, confirm } = opened
  const order = await getNamedOrder(db, name)
  const settlement = { soldFor, closedAt: instantOf('--closed-at', closedAt) }
  await checkHandSettlement(db, order, settlement)
  const bought = `${order.asset}, bought for ${order.buy_price}${order.kind === 'BINARY' ? `, payout ${order.payout}` : ''}`
  await confirm(
    `Settle ${order.id} (${bought}) as paid ${soldFor} at ${closedAt}? A settled order cannot be opened again.`
  )
  await withWorkers(opened, async ({ queue, bus }) => {
    const closed = await db.transaction(async trx => {
      const details = {
        reason,
        soldFor,
        closedAt,
        contractId: order.broker_order_id,
        accountId: order.account_id,
        before: order.error_code
      }
      const closed = await settleByHand(trx, queue, order, settlement)
      await recordAudit(trx, { actor, action: 'orders.settle', target: order.id, details })
      return closed
    })
    announce(bus, order)
    if (closed.closes_copies) bus.publish(WORK, 'copy.close', 'new')
  })
  return presentEntry((await findOrders(db, [order.id]))[0] as OrderRow)
}
