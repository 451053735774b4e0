// Authentication: the Bearer key or the partner's session, the partner behind it, its standing, and the trader whose
// session came along. The standings are checked in the order of the contract: credential, revoked, suspended, plan; the
// scope after the limit.
import type { Context } from 'koa'
import { standingOf } from '../../db/money/billing.ts'
import { findPartnerSession, findTraderSession } from '../../db/partners/sessions.ts'
import { hashSecret, parseApiKey, sameHash } from '../../db/platform/crypto.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { isCrossSite, PARTNER_COOKIE, readCookie, TRADER_COOKIE } from '../../schemas/fields/cookies.ts'
import { shown } from '../../schemas/fields/money.ts'
import type { Scope } from '../../schemas/fields/scopes.ts'
import type { ApiServices, Caller, SessionTrader } from '../operation.ts'

const CHALLENGE = { 'WWW-Authenticate': 'Bearer' }

/**
 * The partner behind the request's Bearer key. Throws 401, 403 or 402. With `proves` for a request whose work proves the
 * caller's facts: they come with a proof, and may be those of the key's last request.
 */
export async function authenticateKey(
  ctx: Context,
  services: ApiServices,
  { proves = false }: { proves?: boolean | undefined } = {}
): Promise<Caller> {
  // A second decision starts without the key of the first one.
  ctx.state.keyId = undefined
  const [, token] = /^Bearer +([\x21-\x7e]+) *$/i.exec(ctx.request.headers.authorization ?? '') ?? []
  // A mistyped or made-up key fails its checksum and costs no database read.
  const key = token === undefined ? undefined : parseApiKey(token)
  if (!key)
    throw new ApiError(
      'UNAUTHENTICATED',
      'Send a valid API key: Authorization: Bearer service_live_… (or service_test_…)',
      {
        headers: CHALLENGE
      }
    )
  const presented = { lookup: key.lookup, hash: hashSecret(services.pepper, key.secret) }
  const known = proves ? services.knownKeys.recall(presented) : undefined
  const caller = known ?? (await services.batched.caller(key.lookup))
  const held = caller && sameHash(caller.hash, presented.hash)
  // A live key never works on the test side, nor a test key on the live side, whatever its row contains.
  if (!caller || !held || key.test !== (caller.testOf !== null)) {
    throw new ApiError('UNAUTHENTICATED', 'This API key does not exist.', { headers: CHALLENGE })
  }
  if (key.test) ctx.set('Test-Mode', 'true')
  ctx.state.partnerId = caller.partnerId
  // usedKeyId is for the request log, which also lists calls of revoked keys; keyId is set for valid keys only.
  ctx.state.usedKeyId = caller.keyId
  if (caller.revoked) throw new ApiError('KEY_REVOKED')
  ctx.state.keyId = caller.keyId
  await checkStanding(caller, services)
  if (proves && !known) services.knownKeys.remember(presented, caller)
  const { facts } = caller
  return {
    ...(proves ? { proof: { ...presented, facts, remembered: known !== undefined, proven: false } } : {}),
    keyId: caller.keyId,
    scopes: caller.scopes,
    partnerId: caller.partnerId,
    partnerName: caller.partnerName,
    plan: caller.plan,
    saasStatus: caller.saasStatus,
    brokerAppId: caller.brokerAppId,
    brokerDialect: caller.brokerDialect,
    limits: caller.limits,
    testOf: caller.testOf
  }
}

/** The partner behind the request's service_session cookie. Throws 401, 403 or 402. */
export async function authenticateSession(ctx: Context, services: ApiServices): Promise<Caller> {
  const token = readCookie(ctx.request.headers.cookie, PARTNER_COOKIE)
  const session = token === undefined ? undefined : await findPartnerSession(services.db, services.pepper, token)
  if (!session) throw new ApiError('UNAUTHENTICATED', `Send a valid session in the cookie ${PARTNER_COOKIE}.`)
  ctx.state.partnerId = session.partnerId
  refuseCrossSite(ctx, services)
  await checkStanding(session, services)
  // What is counted against the plan's limit is the session; a session has no scopes.
  const { sessionId, ...partner } = session
  return { keyId: sessionId, scopes: [], ...partner }
}

/**
 * The trader whose session came with the key, in the header X-Trader-Session or else in the cookie; without
 * one, undefined. Throws UNAUTHENTICATED for a session that is unknown, expired, ended or another partner's.
 */
export async function authenticateTrader(
  ctx: Context,
  { partnerId }: Caller,
  services: ApiServices
): Promise<SessionTrader | undefined> {
  const header = ctx.request.headers['x-trader-session']
  const cookie = header === undefined ? readCookie(ctx.request.headers.cookie, TRADER_COOKIE) : undefined
  const token = header === undefined ? cookie : String(header)
  if (token === undefined) return undefined
  const session = await findTraderSession(services.db, services.pepper, { partnerId, token })
  if (!session) throw new ApiError('UNAUTHENTICATED', "The trader's session is unknown or has ended: log in again.")
  if (cookie !== undefined) refuseCrossSite(ctx, services)
  return session
}

// A browser attaches cookies to requests that pages of other sites make it send.
function refuseCrossSite(ctx: Context, { config }: ApiServices): void {
  if (ctx.method === 'GET' || ctx.method === 'HEAD') return
  const { origin, 'sec-fetch-site': fetchSite } = ctx.request.headers
  const request = { origin, fetchSite: fetchSite === undefined ? undefined : String(fetchSite), hostname: ctx.hostname }
  if (isCrossSite(request, config)) throw new ApiError('CROSS_SITE_REFUSED')
}

/** Throws PARTNER_SUSPENDED, or SUBSCRIPTION_INACTIVE with what the wallet lacks. */
export async function checkStanding(
  { partnerId, saasStatus, testOf }: Pick<Caller, 'partnerId' | 'saasStatus' | 'testOf'>,
  { db, config }: ApiServices
): Promise<void> {
  if (saasStatus === 'SUSPENDED') throw new ApiError('PARTNER_SUSPENDED')
  if (saasStatus !== 'INACTIVE') return
  const { topUpUsd } = await standingOf(db, testOf ?? partnerId, config.planPrices)
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
