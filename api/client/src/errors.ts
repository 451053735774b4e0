// One class for whatever can go wrong; `code` distinguishes the cases.
import type { components } from './service.ts'

type Envelope = components['schemas']['Error']

/**
 * A code of the service, or one of the client's. NO_ANSWER: the connection failed or took too long, whether the service acted is
 * not known. UNEXPECTED: the response is not one of the service. DEADLINE: a wait took too long.
 */
export type ErrorCode = Envelope['error'] | 'NO_ANSWER' | 'UNEXPECTED' | 'DEADLINE'

interface Facts extends Partial<Envelope> {
  message: string
  retryAfterMs?: number | undefined
  cause?: unknown
}

/** Decide by `code`, quote `requestId`; `facts` holds what else the code carries: `details`, `orderId`, `secondsUntilOpen` … */
export class ServiceError extends Error {
  override readonly name = 'ServiceError'
  readonly code: ErrorCode
  readonly requestId: string | undefined
  /** Address of the code's section in the reference. */
  readonly docs: string | undefined
  readonly facts: Facts
  /** Of an order: the id under which it may be placed again without buying twice. */
  clientOrderId?: string

  constructor(code: ErrorCode, facts: Facts) {
    super(`${code}: ${facts.message}${facts.requestId ? ` (request ${facts.requestId})` : ''}`, { cause: facts.cause })
    this.code = code
    this.requestId = facts.requestId
    this.docs = facts.docs
    this.facts = facts
  }
}

const TEMPORARY =
  /^(NO_ANSWER|RATE_LIMITED|REQUEST_TIMEOUT|IDEMPOTENCY_IN_PROGRESS|BROKER_UPSTREAM|TRADING_HALTED|UNAVAILABLE)$/

/** Whether an idempotent request may be sent again; `harmless`: also one that may have broken off half-way. */
export function isTemporary({ code, facts }: ServiceError, harmless: boolean): boolean {
  // The settlement is under review: a person decides, and a repeat returns the same until then.
  if (code === 'BROKER_UPSTREAM' && facts.status === 'OPEN') return false
  return TEMPORARY.test(code) || (code === 'INTERNAL' && harmless)
}
