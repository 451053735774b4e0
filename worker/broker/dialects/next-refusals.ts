// Refusals of the newer dialect's REST side. Only their code shows what was refused: the call for a socket's address has no
// statuses but 400, 401 and 500. Errors come as a list or as a single object.

import { BrokerError } from '../broker-error.ts'
import { tokenRefused } from '../credentials.ts'
import { isAppRefused } from './errors.ts'
import { unknowns } from './next-unknowns.ts'
import { cut } from './reading.ts'

interface RestError {
  /** null where the response has none that can be read. */
  code: string | null
  message: string
  field: string
}

/** Codes for refusals that the status may not show. */
const accountCodes = new Set(['AccountNotFound', 'InvalidAccount'])
const tokenCodes = new Set(['Unauthorized', 'UnauthorizedAccess', 'InvalidToken', 'AccessDenied', 'PermissionDenied'])
const expiredCodes = new Set(['TokenExpired', 'ExpiredToken'])
const busyCodes = new Set(['RateLimit', 'RateLimitExceeded', 'TooManyRequests'])
const requestCodes = new Set(['ValidationError', 'FieldIsRequired', 'BadInputRequest'])
/** Codes that mean something else than too many calls, whatever the status. A code that is new means less than the status. */
const knownCodes = new Set([...accountCodes, ...tokenCodes, ...expiredCodes, ...requestCodes])

/** The first error of a response, in either form; null when the body is no error. */
export function readRestError(body: unknown): RestError | null {
  const { errors, error } = (body ?? {}) as { errors?: unknown; error?: unknown }
  const first: unknown = Array.isArray(errors) ? errors[0] : error
  if (first === undefined || first === null) return null
  if (typeof first === 'string') return { code: word(first), message: '', field: '' }
  const { code, message, detail, field } = first as Record<string, unknown>
  const sentence = message ?? (detail as { message?: unknown } | undefined)?.message
  return { code: word(code), message: text(sentence), field: text(field) }
}

/** Whether a response means that there were too many calls. */
export function isBusy(status: number, body: unknown): boolean {
  const code = readRestError(body)?.code ?? null
  if (code !== null && busyCodes.has(code)) return true
  return status === 429 && (code === null || !knownCodes.has(code))
}

/** The error that a refused call for a socket's address ends with. `appIdHeader` is how the application was named. */
export function restRefusal(status: number, body: unknown, { appIdHeader }: { appIdHeader: string }): BrokerError {
  const error = readRestError(body)
  const code = error?.code ?? null
  const named = `Rest${code ?? status}`
  const cause = `status ${status} ${code ?? 'without a code'}`
  if (isBusy(status, body)) return upstream('The broker is called too often.', 'RateLimit', cause)
  if (error !== null && isAboutApplication(error, appIdHeader)) return applicationRefused(cause)
  if (code !== null) {
    if (accountCodes.has(code)) return tokenRefused(named, 'ACCOUNT_NOT_FOUND', cause)
    if (expiredCodes.has(code)) return tokenRefused(named, 'TOKEN_EXPIRED', cause)
    if (tokenCodes.has(code)) return tokenRefused(named, 'TOKEN_REFUSED', cause)
    if (requestCodes.has(code) && /^account_?id$/i.test(error?.field ?? ''))
      return tokenRefused(named, 'ACCOUNT_NOT_FOUND', cause)
  }
  // Other statuses without a code come from a proxy, not from the broker.
  if (code === null && status === 401) return tokenRefused(named, 'TOKEN_REFUSED', cause)
  // A fault that the broker names itself is of this call: others need not wait for it.
  if (status > 500 || (status === 500 && code === null)) return unreachable(cause)
  return upstream('The broker did not open the account.', named, cause)
}

/** A call without a response, or with one that means the broker is down. */
export function unreachable(cause: string): BrokerError {
  return upstream('The broker could not be reached.', 'NotConnected', cause)
}

/** The broker does not know the partner's application, or does not let it in; the trader's token may well be good. */
function applicationRefused(cause: string): BrokerError {
  const message = "The broker refused the partner's application id, or the token belongs to another application."
  return upstream(message, 'InvalidApplication', cause)
}

function isAboutApplication({ code, message, field }: RestError, appIdHeader: string): boolean {
  if (code !== null && isAppRefused(code)) return true
  // The documents have one code for a refused token and a refused application; only the rest of the error differs.
  const unauthorised = code === null || tokenCodes.has(code) || requestCodes.has(code)
  if (!unauthorised) return false
  return field.toLowerCase() === appIdHeader.toLowerCase() || unknowns.applicationNamed.test(message)
}

function upstream(message: string, brokerCode: string, cause: string): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', message, { brokerCode, ran: 'no', cause })
}

function word(value: unknown): string | null {
  return typeof value === 'string' && /^\w{1,80}$/.test(value) ? value : null
}

function text(value: unknown): string {
  return typeof value === 'string' ? cut(value, 300) : ''
}

const RETRY_MS = 10_000
const MAX_APPLICATIONS = 1_000
/** How long an application counts as known to the broker after it was let in. */
const KNOWN_MS = 600_000

interface KnownApplication {
  letInAt: number
  /** The user that was first refused since then. */
  refusedUser: string | null
}

/**
 * Applications that the broker refused a moment ago: their calls fail at once, without a call to the broker. A token that belongs to
 * another application is refused in the same words, so a refusal counts for its user alone, until a second user meets one and the
 * application was not let in lately.
 */
export class RefusedApplications {
  readonly #refused = new Map<string, { error: BrokerError; until: number }>()
  readonly #known = new Map<string, KnownApplication>()

  /** Throws the refusal while it is fresh. */
  check(appId: string, user: string): void {
    for (const key of [appId, `${appId} ${user}`]) {
      const refused = this.#refused.get(key)
      if (refused === undefined) continue
      if (performance.now() < refused.until) throw refused.error
      this.#refused.delete(key)
    }
  }

  /** The broker let the application in with some token. */
  letIn(appId: string): void {
    this.#refused.delete(appId)
    this.#remember(appId, { letInAt: performance.now(), refusedUser: null })
  }

  /** Remembers the error if it refuses the application. */
  note(appId: string, user: string, error: unknown): void {
    if (!(error instanceof BrokerError) || !isAppRefused(error.brokerCode)) return
    const { letInAt, refusedUser } = this.#known.get(appId) ?? { letInAt: -KNOWN_MS, refusedUser: null }
    error.ofOneToken = performance.now() - letInAt < KNOWN_MS
    const isOfAll = !error.ofOneToken && refusedUser !== null && refusedUser !== user
    this.#remember(appId, { letInAt, refusedUser: refusedUser ?? user })
    if (this.#refused.size >= MAX_APPLICATIONS) this.#refused.clear()
    this.#refused.set(isOfAll ? appId : `${appId} ${user}`, { error, until: performance.now() + RETRY_MS })
  }

  #remember(appId: string, known: KnownApplication): void {
    if (this.#known.size >= MAX_APPLICATIONS && !this.#known.has(appId)) this.#known.clear()
    this.#known.set(appId, known)
  }
}
