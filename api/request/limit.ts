// Rate limits per key and per trader, shown in the IETF draft's two header fields of every response.
import type { Context } from 'koa'
import type { Count, RateLimits } from '../../db/platform/limits.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices, Caller } from '../operation.ts'

const WINDOW_SECONDS = 60

/** All keys of a partner together have the limit of so many keys, however many there are. */
const KEYS_OF_PARTNER = 5

/** The limits of a partner's calls: its own, or those of its plan and of the configuration. */
export function rateLimitOf({ limits, plan }: Pick<Caller, 'limits' | 'plan'>, { rateLimits }: ApiServices['config']) {
  return {
    perKeyPerMinute: limits.perKeyPerMinute ?? rateLimits[plan],
    perTraderPerMinute: limits.perTraderPerMinute ?? rateLimits.trader
  }
}

/** Counts a call of the key, of the weight of its operation. Throws RATE_LIMITED with Retry-After. */
export async function limitKey(ctx: Context, caller: Caller, services: ApiServices, weight = 1): Promise<void> {
  const { limits, config } = services
  const limit = rateLimitOf(caller, config).perKeyPerMinute
  const count = (name: string, most: number) => hit(ctx, limits, { name, limit: most, points: Math.min(weight, most) })
  setHeaders(ctx, 'key', await count(`key:${caller.keyId}`, limit))
  const { allowed, resetSeconds } = await count(`keys:${caller.partnerId}`, limit * KEYS_OF_PARTNER)
  if (!allowed)
    throw limited(
      `The limit of ${limit * KEYS_OF_PARTNER} calls a minute for all keys of the partner is reached.`,
      resetSeconds
    )
}

/** Counts a call that names a trader. Throws RATE_LIMITED with Retry-After. */
export async function limitTrader(
  ctx: Context,
  caller: Caller,
  traderExternalId: string,
  { limits, config }: ApiServices
): Promise<void> {
  const { perTraderPerMinute } = rateLimitOf(caller, config)
  const name = `trader:${caller.partnerId}:${traderExternalId}`
  setHeaders(ctx, 'trader', await hit(ctx, limits, { name, limit: perTraderPerMinute, points: 1 }))
}

interface Hit {
  name: string
  limit: number
  points: number
}

function hit(ctx: Context, limits: RateLimits, counted: Hit): Promise<Count> {
  ctx.state.hits = [...((ctx.state.hits as Hit[] | undefined) ?? []), counted]
  return limits.hit(counted.name, counted.limit, undefined, counted.points)
}

/** Takes back what was counted of a request, and no longer shows it: it is decided again. */
export async function uncount(ctx: Context, { limits }: ApiServices): Promise<void> {
  for (const { name, limit, points } of (ctx.state.hits as Hit[] | undefined) ?? [])
    for (let point = 0; point < points; point++) await limits.giveBack(name, limit)
  ctx.state.hits = []
  for (const field of ['RateLimit-Policy', 'RateLimit']) ctx.res.removeHeader(field)
}

function setHeaders(ctx: Context, policy: 'key' | 'trader', count: Count): void {
  append(ctx, 'RateLimit-Policy', `"${policy}";q=${count.limit};w=${WINDOW_SECONDS}`)
  append(ctx, 'RateLimit', `"${policy}";r=${count.remaining};t=${count.resetSeconds}`)
  if (!count.allowed) {
    throw limited(`The limit of ${count.limit} calls a minute for this ${policy} is reached.`, count.resetSeconds)
  }
}

function limited(message: string, resetSeconds: number): ApiError {
  return new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': String(resetSeconds) } })
}

function append(ctx: Context, field: string, item: string): void {
  const present = ctx.res.getHeader(field)
  ctx.res.setHeader(field, present ? `${present}, ${item}` : item)
}
