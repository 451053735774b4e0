// Requests whose facts are proven by the statement that does their work, instead of by reads before it: when the facts have
// changed, the request is decided again in the documented order, on facts that were just read.
import type { Context } from 'koa'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices, Caller } from '../operation.ts'
import { authenticateKey } from './authenticate.ts'
import { uncount } from './limit.ts'

/** Thrown when a statement found that the facts no longer hold; it did nothing. Sent only if they change again and again. */
export class FactsChanged extends ApiError {
  constructor() {
    super('UNAVAILABLE', 'The key or the account changed while the request was handled: repeat it.', {
      headers: { 'Retry-After': '1' }
    })
  }
}

/** How often a request is decided at most. */
export const MAX_DECISIONS = 3

/**
 * The caller by whose facts a request is decided again that ended in `error`; undefined where the error is to be sent: it was
 * decided on facts that were read by this request, or hold. Throws the refusal of a caller who would not be let in now.
 */
export async function decideAgain(
  ctx: Context,
  services: ApiServices,
  { proof }: Caller,
  error: unknown
): Promise<Caller | undefined> {
  if (!proof || proof.proven) return undefined
  const changed = error instanceof FactsChanged
  if (!proof.remembered && !changed) return undefined
  services.knownKeys.forget(proof)
  let caller: Caller
  try {
    caller = await authenticateKey(ctx, services, { proves: true })
  } catch (refusal) {
    await startOver(ctx, services)
    throw refusal
  }
  if (!changed && caller.proof?.facts === proof.facts) return undefined
  await startOver(ctx, services)
  return caller
}

/** Takes back what the first decision left behind: counts, and what the request log would show. */
async function startOver(ctx: Context, services: ApiServices): Promise<void> {
  await uncount(ctx, services)
  ctx.state.trader = undefined
}
