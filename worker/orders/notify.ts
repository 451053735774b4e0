// Changes of orders are passed on: to the event log, and to the api processes whose requests wait for them.
import type { Notifiable } from '../../db/orders/notifying.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import type { WorkerServices } from '../services.ts'

/** Call it with changed orders once they are committed; those whose statement has notified already need no hint. */
export function notifyCallers(
  { bus, changes }: Pick<WorkerServices, 'bus' | 'changes'>,
  orders: readonly (Pick<OrderRow, 'reply_channel' | 'id'> & Partial<Notifiable>)[]
): void {
  if (orders.length > 0) changes.give()
  for (const { reply_channel: replyChannel, id, notified, outcome } of orders)
    if (replyChannel && !notified) bus.publish(replyChannel, 'order', id, outcome)
}
