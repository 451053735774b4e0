// The operator closes an order: the workers sell its contract, as they do when the partner closes it.
import { ApiError } from '../../schemas/errors/errors.ts'
import { requestFromWorkers } from '../platform/broker-requests.ts'
import type { Bus } from '../platform/bus.ts'
import type { Queue } from '../platform/queue.ts'
import type { Db } from '../postgres/connection.ts'
import { findOrders, type OrderRow } from './reading.ts'

const SELL_TIMEOUT_MS = 30_000

/**
 * Sells an order's contract at the market. Returns the order, CLOSED; one that was closed before as it is. Throws
 * CONFLICT when it is not OPEN, INVALID_CONTRACT when the broker does not buy it back, BROKER_DISCONNECTED, or
 * BROKER_UPSTREAM when no worker responds in time or the sale is not confirmed yet.
 */
export async function sellOrder(db: Db, tools: { queue: Queue; bus: Bus }, order: OrderRow): Promise<OrderRow> {
  if (order.phase === 'closed') return order
  if (order.phase !== 'open')
    throw new ApiError('CONFLICT', `The order is ${order.status}; only an OPEN order can be CLOSED.`)
  const sale = { kind: 'close', key: order.id, data: { orderId: order.id }, timeoutMs: SELL_TIMEOUT_MS }
  const refusal = await requestFromWorkers<object>(db, tools, sale).then(
    () => new ApiError('BROKER_UPSTREAM', 'The sale is not confirmed yet; repeat the command.'),
    (error: unknown) => error
  )
  // Its contract may have ended while the sale waited, or was refused.
  const [now] = await findOrders(db, [order.id])
  if (now?.phase === 'closed') return now
  throw refusal
}
