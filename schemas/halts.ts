// Halts of trading: the scope of a halt, and the error of a refused order.
import { ApiError } from './errors/errors.ts'

/** The widest first: where several halts apply to an order, the first one is named. */
export const haltScopes = ['all', 'partner', 'application', 'asset'] as const
export type HaltScope = (typeof haltScopes)[number]

/** Why an order is not placed. */
export interface HaltFacts {
  scope: HaltScope
  reason: string
}

/** The end of a halt is unknown: seconds until the next try of a refused order. */
const RETRY_AFTER_SECONDS = 30

/** The refusal of an order that a halt applies to; with `orderId` where the order is stored and FAILED. */
export function tradingHalted({ scope, reason }: HaltFacts, orderId?: string): ApiError {
  const extras = { scope, reason, ...(orderId === undefined ? {} : { orderId, status: 'FAILED' as const }) }
  const headers = { 'Retry-After': String(RETRY_AFTER_SECONDS) }
  return new ApiError('TRADING_HALTED', haltMessage(reason), { extras, headers })
}

/** The message of the refusal; the statements that refuse waiting orders store the same. */
export function haltMessage(reason: string): string {
  return `Placing is halted, nothing was bought: ${reason}`
}
