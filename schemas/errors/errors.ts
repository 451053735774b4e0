// The one list of errors a caller can see: code, HTTP status, and the default message. Every thrown error is turned
// into a response in api/request/respond.ts alone.

export const errors = {
  VALIDATION_FAILED: { status: 400, message: 'The request does not match its schema; see details.' },
  MALFORMED_REQUEST: { status: 400, message: 'This is not HTTP as it is spoken.' },
  MALFORMED_JSON: { status: 400, message: 'The body is not valid JSON, or has a field called __proto__.' },
  UNAUTHENTICATED: { status: 401, message: 'A valid credential is required.' },
  INVALID_CREDENTIALS: { status: 401, message: 'The e-mail or the password is wrong.' },
  SUBSCRIPTION_INACTIVE: { status: 402, message: 'The plan is inactive: top up the wallet to resume.' },
  WALLET_INSUFFICIENT: { status: 402, message: 'The wallet cannot pay for this.' },
  KEY_REVOKED: { status: 403, message: 'This key was revoked: create a new one.' },
  PARTNER_SUSPENDED: { status: 403, message: 'The operator account is suspended.' },
  HTTPS_REQUIRED: { status: 403, message: 'Use HTTPS.' },
  CROSS_SITE_REFUSED: { status: 403, message: 'A session cookie is not accepted with a request from another site.' },
  INSUFFICIENT_SCOPE: { status: 403, message: 'The key lacks the scope this needs; see requiredScope.' },
  NOT_FOUND: { status: 404, message: 'There is no such path or record.' },
  TRADER_NOT_FOUND: { status: 404, message: 'This traderExternalId was never sent through the token exchange.' },
  ACCOUNT_NOT_FOUND: { status: 404, message: 'The trader has no such broker account.' },
  LEADER_NOT_FOUND: { status: 404, message: 'There is no such leader.' },
  BROKER_DISCONNECTED: { status: 404, message: 'There is no usable broker token for this trader: exchange a new one.' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'This path does not take that method; see Allow.' },
  REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive.' },
  CLIENT_ORDER_ID_REUSED: { status: 409, message: 'This clientOrderId was used with other parameters.' },
  FOLLOW_MISMATCH: { status: 409, message: 'The two accounts differ in mode or currency.' },
  CONFLICT: { status: 409, message: 'The state of the record does not allow this.' },
  PRICE_CHANGED: { status: 409, message: 'The price is not the expected one; see priceUsd.' },
  LIMIT_REACHED: { status: 409, message: 'The bound on what one party may keep is reached; see limit.' },
  IDEMPOTENCY_IN_PROGRESS: { status: 409, message: 'The first request under this Idempotency-Key is still running.' },
  EMAIL_TAKEN: { status: 409, message: 'This e-mail already has an account.' },
  TENANT_SLUG_TAKEN: { status: 409, message: 'This tenantSlug is taken.' },
  CURSOR_EXPIRED: { status: 410, message: 'Events after this cursor are not kept any more; see oldest and latest.' },
  PAYLOAD_TOO_LARGE: { status: 413, message: 'The body is larger than this operation takes.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'Send the body as application/json, in UTF-8 and uncompressed.' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, message: 'This Idempotency-Key came with another request before.' },
  MARKET_CLOSED: { status: 422, message: 'The market is closed.' },
  INVALID_CONTRACT: {
    status: 422,
    message: 'This combination of asset, contract, barrier and duration is not offered.'
  },
  INSUFFICIENT_BALANCE: { status: 422, message: "The trader's account cannot fund this order." },
  RATE_LIMITED: { status: 429, message: 'Too many requests: wait as Retry-After says.' },
  HEADERS_TOO_LARGE: { status: 431, message: 'The header fields are larger than 16 KiB, or more than a hundred.' },
  INTERNAL: { status: 500, message: 'Something failed on our side; quote the requestId.' },
  BROKER_UPSTREAM: { status: 502, message: 'The broker did not respond as expected; the call may be repeated.' },
  TRADING_HALTED: { status: 503, message: 'Placing is halted; see reason. Contracts may still be closed.' },
  UNAVAILABLE: { status: 503, message: 'The service cannot respond right now; try again shortly.' }
} as const

export type ErrorCode = keyof typeof errors

/** What an error carries beyond code, message and requestId; the envelope's schema allows just these. */
export interface ErrorExtras {
  details?: { path: string; message: string }[]
  /** How many details there would be without their bound; at most 1,000. */
  violations?: number
  requiredScope?: string
  secondsUntilOpen?: number | null
  orderId?: string
  status?: 'PENDING' | 'OPEN' | 'FAILED'
  requiredUsd?: number
  balanceUsd?: number
  saasStatus?: string
  topUpUsd?: number
  priceUsd?: number
  limit?: number
  scope?: 'all' | 'partner' | 'application' | 'asset'
  reason?: string
  oldest?: string
  latest?: string
}

/**
 * An expected failure, safe to show to the caller. `headers` are added to the response (Retry-After, Allow); `cause`
 * goes to the log only.
 */
export class ApiError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly extras: ErrorExtras
  readonly headers: Record<string, string>

  constructor(
    code: ErrorCode,
    message: string = errors[code].message,
    options: { extras?: ErrorExtras; headers?: Record<string, string>; cause?: unknown } = {}
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'ApiError'
    this.code = code
    this.status = errors[code].status
    this.extras = options.extras ?? {}
    this.headers = options.headers ?? {}
  }
}
