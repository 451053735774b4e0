// How often: per key and per trader, told in the IETF draft's two header fields on every answer.
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
