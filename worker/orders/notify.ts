// Changes of orders are passed on: to the event log, and to the api processes whose requests wait for them.
import type { OrderRow } from '../../db/orders/reading.ts'
import type { WorkerServices } from '../services.ts'

/** Call it with changed orders once they are committed. */
export function notifyCallers(
  { bus, changes }: Pick<WorkerServices, 'bus' | 'changes'>,
  orders: readonly Pick<OrderRow, 'reply_channel' | 'id'>[]
): void {
  if (orders.length > 0) changes.give()
  for (const { reply_channel: replyChannel, id } of orders) if (replyChannel) bus.publish(replyChannel, 'order', id)
}
