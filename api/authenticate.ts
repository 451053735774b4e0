// Who is calling: the Bearer key, its partner, and whether that partner may call at all. The standings are
// checked in the order of the contract: credential, revoked, suspended, plan; the scope after the limit.
import type { Context } from 'koa'
import { standingOf } from '../db/billing.ts'
import { hashSecret, parseApiKey, sameHash } from '../db/crypto.ts'
import { ApiError } from '../schemas/errors.ts'
import { shown } from '../schemas/money.ts'
import type { Scope } from '../schemas/scopes.ts'
import type { Caller, Open } from './operations.ts'

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

/** The partner behind the request's Bearer key. Throws 401, 403 or 402. */
export async function authenticateKey(ctx: Context, open: Open): Promise<Caller> {
  const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(ctx.request.headers.authorization ?? '') ?? []
  // A mistyped or made-up key fails its checksum and costs no look at the database.
  const key = token === undefined ? undefined : parseApiKey(token)
  if (!key)
    throw new ApiError('UNAUTHENTICATED', 'Send a valid API key: Authorization: Bearer service_live_…', {
      headers: CHALLENGE
    })
  const caller = await open.gathered.caller(key.lookup)
  if (!caller || !sameHash(caller.hash, hashSecret(open.pepper, key.secret))) {
    throw new ApiError('UNAUTHENTICATED', 'This API key does not exist.', { headers: CHALLENGE })
  }
  ctx.state.partnerId = caller.partnerId
  if (caller.revoked) throw new ApiError('KEY_REVOKED')
  await checkStanding(caller, open)
  return {
    keyId: caller.keyId,
    scopes: caller.scopes,
    partnerId: caller.partnerId,
    partnerName: caller.partnerName,
    plan: caller.plan,
    saasStatus: caller.saasStatus,
    brokerAppId: caller.brokerAppId,
    brokerDialect: caller.brokerDialect
  }
}

/** Throws PARTNER_SUSPENDED, or SUBSCRIPTION_INACTIVE with what the wallet lacks. */
export async function checkStanding(
  { partnerId, saasStatus }: Pick<Caller, 'partnerId' | 'saasStatus'>,
  { db, config }: Open
): Promise<void> {
  if (saasStatus === 'SUSPENDED') throw new ApiError('PARTNER_SUSPENDED')
  if (saasStatus !== 'INACTIVE') return
  const { topUpUsd } = await standingOf(db, partnerId, config.planPrices)
  throw new ApiError('SUBSCRIPTION_INACTIVE', undefined, { extras: { saasStatus, topUpUsd: shown(topUpUsd) } })
}

/** Throws INSUFFICIENT_SCOPE naming the scope. */
export function requireScope(caller: Caller, scope: Scope | null): void {
  if (scope && !caller.scopes.includes(scope)) {
    throw new ApiError('INSUFFICIENT_SCOPE', `This needs a key with the scope ${scope}.`, {
      extras: { requiredScope: scope }
    })
  }
}
