// The errors of the broker as a port (port.ts).
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import type { RejectedReason } from '../../schemas/traders/accounts.ts'
import type { OrderField } from './port.ts'

/**
 * A failure of a broker call. `ran` is whether the call may have executed all the same: 'no' is a definite refusal or a
 * request that never left, 'unknown' is doubt, to be resolved and never resent. `rejected` means that the token itself
 * was refused, or its account; `reason` has the cause.
 */
export class BrokerError extends Error {
  readonly code: Extract<
    ErrorCode,
    | 'MARKET_CLOSED'
    | 'INVALID_CONTRACT'
    | 'INSUFFICIENT_BALANCE'
    | 'BROKER_DISCONNECTED'
    | 'BROKER_UPSTREAM'
    | 'NOT_FOUND'
  >
  readonly ran: 'no' | 'unknown'
  /** The broker's own code, or ours where it sent none (such as Disconnected, NoAnswer, NotConnected, PermitExpired, QuotaExhausted). */
  readonly brokerCode: string
  readonly rejected: boolean
  /** For a rejection only. */
  readonly reason: RejectedReason | null
  /** For a rejection: the version of the token that was refused, where the account's tokens have versions. */
  tokenVersion: number | undefined
  /** For a refused application: the broker let it in with other tokens lately, so that this token is at fault. */
  ofOneToken = false
  readonly secondsUntilOpen: number | null
  /** For a closed market: its possible openings by the broker's text, in epoch seconds, the most trusted first. */
  readonly openings: readonly number[]
  /** Ms until another attempt may succeed, where that is known. */
  readonly retryMs: number | undefined
  /** The field of the order that was refused, where the broker names it. */
  readonly field: OrderField | undefined

  constructor(
    code: BrokerError['code'],
    message: string,
    facts: {
      brokerCode: string
      ran?: 'no' | 'unknown'
      rejected?: boolean
      /** TOKEN_REFUSED by default. */
      reason?: RejectedReason
      secondsUntilOpen?: number | null
      openings?: readonly number[]
      retryMs?: number | undefined
      field?: OrderField | undefined
      cause?: unknown
    }
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause })
    this.name = 'BrokerError'
    this.code = code
    this.ran = facts.ran ?? 'no'
    this.brokerCode = facts.brokerCode
    this.rejected = facts.rejected ?? false
    this.reason = this.rejected ? (facts.reason ?? 'TOKEN_REFUSED') : null
    this.secondsUntilOpen = facts.secondsUntilOpen ?? null
    this.openings = facts.openings ?? []
    this.retryMs = facts.retryMs
    this.field = facts.field
  }
}

/** The error of what a client was still to do when it was closed. */
export function closed(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection to the broker was closed.', {
    brokerCode: 'Disconnected',
    ran: 'no'
  })
}
