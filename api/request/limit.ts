// Rate limits per key and per trader, shown in the IETF draft's two header fields of every response.
import type { Context } from 'koa'
import type { Count, RateLimits } from '../../db/platform/limits.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices, Caller, Operation } from '../operation.ts'

const WINDOW_SECONDS = 60

/** All keys of a partner together have the limit of so many keys, however many there are. */
const KEYS_OF_PARTNER = 5

// Reading and presenting a full page takes more than ten times as long as most calls do.
const ROWS_OF_A_CALL = 50
const LARGE_PAGE_ROWS = 20
const MOST_ROWS = 200

/** How a page counts, in words. */
export const PAGE_WEIGHT = `A page of more than ${ROWS_OF_A_CALL} entries counts as one call for each ${LARGE_PAGE_ROWS} of its \`limit\``

/** As how many calls a request counts. Its query has not been checked yet: a `limit` that is none counts as one call. */
export function weightOf({ weight = 1 }: Pick<Operation, 'weight'>, query: Record<string, unknown>): number {
  if (weight !== 'page') return weight
  const rows = Math.min(Number(query.limit), MOST_ROWS)
  return rows > ROWS_OF_A_CALL ? Math.ceil(rows / LARGE_PAGE_ROWS) : 1
}

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
