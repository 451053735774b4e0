// GET /v1/orders/{id}: one order, at once or as soon as it is final.

import { presentEntry } from '../../db/orders/entry.ts'
import { getOrder as findOrder, notifyOf, type Outcome } from '../../db/orders/reading.ts'
import { atCommonMoment } from '../../db/platform/back-off.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import { OrderEntry, OrderQuery } from '../../schemas/order-entries.ts'
import type { ApiServices, Operation, OperationRequest } from '../operation.ts'

// Upper bound on the delay when a wake-up is lost, or goes to another process that waits for the same order.
const REREAD_MS = 1000

const isFinal = ({ phase }: Pick<Outcome, 'phase'>): boolean => phase === 'closed' || phase === 'failed'

export const getOrder: Operation<{ params: { id: string }; query: OrderQuery }> = {
  name: 'getOrder',
  method: 'GET',
  path: '/v1/orders/{id}',
  tag: 'Orders',
  summary: 'One order',
  description:
    'The order as the list shows it. With `wait` the response waits until the order is CLOSED or FAILED, at most that many seconds; repeat the call while `status` is PENDING or OPEN, instead of polling the list.',
  auth: 'key',
  scope: 'trading:read',
  params: { type: 'object', required: ['id'], properties: { id: pathId('ord', 'orderId of the order.') } },
  query: OrderQuery,
  response: OrderEntry,
  errors: ['NOT_FOUND'],
  async handle(request, services) {
    const { partner, params, query } = request
    const order = await findOrder(services.db, partner.partnerId, params.id)
    if (!query.wait || isFinal(order)) return presentEntry(order)
    await untilFinal(order.id, services, { waitMs: query.wait * 1000, signal: request.signal })
    return presentEntry(await findOrder(services.db, partner.partnerId, params.id))
  }
}

/** Resolves when the order is final, the time is over, or the caller has disconnected. */
async function untilFinal(
  orderId: string,
  { bus, db, batched }: ApiServices,
  { waitMs, signal }: { waitMs: number } & Pick<OperationRequest<object>, 'signal'>
): Promise<void> {
  const deadline = performance.now() + waitMs
  await notifyOf(db, orderId, bus.replyChannel)
  for (;;) {
    // Listen first, read then, sleep last: no wake-up is lost between them.
    const until = Math.min(atCommonMoment(performance.now() + REREAD_MS), deadline)
    const woken = bus.wait('order', orderId, until - performance.now(), signal)
    const row = await batched.order(orderId)
    if (!row || isFinal(row) || performance.now() >= deadline || signal.aborted) return
    await woken
  }
}
