import { randomUUID } from 'node:crypto'
import type { BinaryOrder } from '../../schemas/orders.ts'

/** The body of an order of one tick, under a clientOrderId of its own. `changes` may also be wrong, as tests want it. */
export function tickOrder(traderExternalId: string, changes: object = {}): BinaryOrder {
  return {
    traderExternalId,
    clientOrderId: randomUUID(),
    asset: 'R_100',
    contractType: 'CALL',
    stake: 1,
    duration: 1,
    durationUnit: 't',
    ...changes
  }
}
