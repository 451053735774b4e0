import { randomUUID } from 'node:crypto'
import type { Draft } from '../../db/orders/storing.ts'
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

/** An order of five ticks as the api gives it to be stored, under a clientOrderId of its own. */
export const draftOf = (
  trader: Pick<Draft, 'partnerId' | 'traderExternalId'>,
  changes: Partial<Draft> = {}
): Draft => ({
  ...trader,
  clientOrderId: randomUUID(),
  accountMode: null,
  caller: null,
  replyChannel: null,
  ttlMs: 10_000,
  terms: {
    kind: 'BINARY',
    asset: 'R_100',
    contractType: 'CALL',
    direction: null,
    multiplier: null,
    stake: '1',
    duration: 5,
    durationUnit: 't',
    barrier: null,
    stopLoss: null,
    takeProfit: null
  },
  ...changes
})
