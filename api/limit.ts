// How often: per key and per trader, told in the IETF draft's two header fields on every answer.
import { createHash } from 'node:crypto'
import type { Context } from 'koa'
import type { Count } from '../db/limits.ts'
import { ApiError } from '../schemas/errors.ts'
import type { Caller, Open } from './operations.ts'

const WINDOW_SECONDS = 60

/** Counts a call of the key. Throws RATE_LIMITED with Retry-After. */
export async function limitKey(ctx: Context, caller: Caller, { limits, config }: Open): Promise<void> {
  tell(ctx, 'key', await limits.hit(`key:${caller.keyId}`, config.rateLimits[caller.plan]))
}

/** Counts a call that names a trader. Throws RATE_LIMITED with Retry-After. */
export async function limitTrader(
  ctx: Context,
  caller: Caller,
  traderExternalId: string,
  { limits, config }: Open
): Promise<void> {
  tell(ctx, 'trader', await limits.hit(`trader:${caller.partnerId}:${traderExternalId}`, config.rateLimits.trader))
}

// Failed logins in a quarter of an hour: of one e-mail, and of all e-mails of a partner together, which
// also bounds how many counters a partner can make us keep.
const LOGIN_WINDOW_SECONDS = 900
const LOGIN_FAILURES = 10
const LOGIN_FAILURES_OF_PARTNER = 2000

/** A login that is counted as failed until it is known how it ended. */
export interface CountedLogin {
  /** It was good: the e-mail's failures are forgotten. */
  succeeded(): Promise<void>
  /** Nobody looked at the password: it counts as nothing. */
  undecided(): Promise<void>
}

/**
 * Counts a login as failed before its password is looked at, so that guesses made at once count as well.
 * Throws RATE_LIMITED with Retry-After.
 */
export async function countLogin(
  { partnerId, email }: { partnerId: string; email: string },
  { limits }: Pick<Open, 'limits'>
): Promise<CountedLogin> {
  // Hashed, so that a counter's name is short and tells no address.
  const digest = createHash('sha256').update(email.toLowerCase()).digest('base64url')
  const ofPartner = [`logins:${partnerId}`, LOGIN_FAILURES_OF_PARTNER, LOGIN_WINDOW_SECONDS] as const
  const ofEmail = [`login:${partnerId}:${digest}`, LOGIN_FAILURES, LOGIN_WINDOW_SECONDS] as const
  refuseLogin(await limits.hit(...ofPartner))
  const count = await limits.hit(...ofEmail)
  // Hammering on one e-mail must not shut out the partner's other traders.
  if (!count.allowed) await limits.giveBack(...ofPartner)
  refuseLogin(count)
  return {
    async succeeded() {
      await Promise.all([limits.giveBack(...ofPartner), limits.forget(...ofEmail)])
    },
    async undecided() {
      await Promise.all([limits.giveBack(...ofPartner), limits.giveBack(...ofEmail)])
    }
  }
}

function refuseLogin({ allowed, resetSeconds }: Count): void {
  if (allowed) return
  throw new ApiError('RATE_LIMITED', 'Too many failed logins: wait as Retry-After says.', {
    headers: { 'Retry-After': String(resetSeconds) }
  })
}

function tell(ctx: Context, policy: 'key' | 'trader', count: Count): void {
  append(ctx, 'RateLimit-Policy', `"${policy}";q=${count.limit};w=${WINDOW_SECONDS}`)
  append(ctx, 'RateLimit', `"${policy}";r=${count.remaining};t=${count.resetSeconds}`)
  if (!count.allowed) {
    throw new ApiError('RATE_LIMITED', `The limit of ${count.limit} calls a minute for this ${policy} is reached.`, {
      headers: { 'Retry-After': String(count.resetSeconds) }
    })
  }
}

function append(ctx: Context, field: string, item: string): void {
  const present = ctx.res.getHeader(field)
  ctx.res.setHeader(field, present ? `${present}, ${item}` : item)
}
