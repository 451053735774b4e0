// From a row of the table to a response. One function runs them all, in the order of checks of the contract: path and
// method, credential, standing, the key's limit, scope, the trader's session, body, schema, the trader's limit,
// handler.
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import type KoaRouter from '@koa/router'
import type { Context, Middleware } from 'koa'
import { WORK } from '../db/platform/bus.ts'
import { check, invalid, readQuery } from '../schemas/checks/validator.ts'
import { ApiError } from '../schemas/errors/errors.ts'
import type { Schema } from '../schemas/fields/fields.ts'
import { bodyLimit } from '../schemas/fields/sizes.ts'
import { csvOf } from './analytics/csv.ts'
import type { ApiServices, Caller, Operation } from './operation.ts'
import { authenticateKey, authenticateSession, authenticateTrader, requireScope } from './request/authenticate.ts'
import { checkLength, giveBack, mostBytesOf, parse, readBody } from './request/body.ts'
import type { Held } from './request/byte-accounts.ts'
import { deprecationHeaders } from './request/deprecation.ts'
import { endUserIpOf } from './request/guessing.ts'
import { once } from './request/idempotency.ts'
import { limitKey, limitTrader, rateLimitOf, weightOf } from './request/limit.ts'
import { callsOf } from './request/pace.ts'
import { decideAgain, MAX_DECISIONS } from './request/proof.ts'
import { Reply, setBody } from './request/respond.ts'

// Its CommonJS form: the other one imports node:http, and with that fetch and HTTP/2 (db/platform/http.ts).
const Router = createRequire(import.meta.url)('@koa/router') as typeof KoaRouter

const NO_TRADER = "Send the trader's session in the header X-Trader-Session or the cookie trader_session."
const nothing = { type: 'object' } as const

/** Runs one operation for one request; again where what it was decided on has changed meanwhile. */
async function run(row: Operation, ctx: Context, services: ApiServices): Promise<void> {
  ctx.state.operation = row.name
  if (row.deprecated) ctx.set(deprecationHeaders(row.deprecated, services.config.baseUrl))
  const kept: Kept = { ageMs: services.stalls.read(ctx.req.socket) }
  let partner = await authenticate(row, ctx, services)
  try {
    for (let decision = 1; ; decision++) {
      try {
        return await decide(row, ctx, services, { partner, kept })
      } catch (error) {
        const again = await decideAgain(ctx, services, partner, error)
        if (!again || decision === MAX_DECISIONS) throw error
        partner = again
      }
    }
  } finally {
    kept.bytes?.release()
  }
}

function authenticate(row: Operation, ctx: Context, services: ApiServices): Promise<Caller> {
  // Path parameters are logged once they have passed their schema.
  ctx.state.shownPath = row.path
  if (row.auth === 'session') return authenticateSession(ctx, services)
  return authenticateKey(ctx, services, { proves: row.proves })
}

/** What is kept of a request when it is decided a second time. */
interface Kept {
  ageMs: () => number
  body?: Promise<unknown>
  /** The body's bytes in the partner's account. */
  bytes?: Held
  gone?: AbortSignal
}

/** All that follows the authentication, in the order of the contract. */
async function decide(
  row: Operation,
  ctx: Context,
  services: ApiServices,
  { partner, kept }: { partner: Caller; kept: Kept }
): Promise<void> {
  const weight = weightOf(row, ctx.query)
  await limitKey(ctx, partner, services, weight)
  requireScope(partner, row.scope)
  const actor = row.auth === 'trader' || row.actor ? await authenticateTrader(ctx, partner, services) : undefined
  if (row.auth === 'trader' && !actor) throw new ApiError('UNAUTHENTICATED', NO_TRADER)

  if (!row.body) checkLength(ctx)
  if (row.body) kept.body ??= receive(ctx, partner.partnerId, { limit: limitOf(row.body), services, kept })
  else services.bytes.requireRoom(partner.partnerId)
  const given = await kept.body
  if (row.params) requireUtf8(ctx.path, '/path')
  if (row.query) requireUtf8(ctx.querystring, '/query')
  const params = row.params ? check<Record<string, string>>(row.params, { ...ctx.params }, '/path') : {}
  ctx.state.shownPath = ctx.path
  const queryShape = row.query ?? nothing
  const query = check<Record<string, unknown>>(queryShape, readQuery(queryShape, single(ctx.query, row)), '/query')
  const body = row.body
    ? check<Record<string, unknown>>(row.body, given === undefined ? {} : given, '/body')
    : undefined

  const named =
    (namesTrader(row) ? body?.traderExternalId : undefined) ?? query.traderExternalId ?? params.traderExternalId
  ctx.state.trader = typeof named === 'string' ? named : actor?.traderExternalId
  if (typeof named === 'string') await limitTrader(ctx, partner, named, services)

  let leavePlace = () => {}
  const request = {
    partner,
    trader: actor,
    params,
    query,
    body,
    requestId: ctx.state.requestId,
    endUserIp: row.endUser ? endUserIpOf(ctx) : undefined,
    trace: ctx.state.trace,
    ageMs: kept.ageMs,
    // Created at first use, since most handlers need none. A handler that reads it waits for others, and gives its place back.
    get signal() {
      leavePlace()
      kept.gone ??= services.waits.signalFor(ctx.res, partner.partnerId)
      return kept.gone
    }
  }
  const runOnce = () =>
    once(ctx, services, {
      row,
      partner,
      requested: { party: actor?.traderId ?? partner.partnerId, params, query, body },
      handle: opened =>
        row.replica ? opened.reads.run(db => row.handle(request, { ...opened, db })) : row.handle(request, opened)
    })
  const { perKeyPerMinute } = rateLimitOf(partner, services.config)
  // Calls of weight 1 (closes among them) are not spread over the minute.
  const calls = weight > 1 ? { weight, allowance: callsOf(perKeyPerMinute) } : undefined
  if (row.batched) send(ctx, row, await runOnce())
  else
    await services.places.run(
      partner.partnerId,
      async leave => {
        // Other responses may have filled the partner's account of bytes while this request waited for its place.
        if (!row.body) services.bytes.requireRoom(partner.partnerId)
        leavePlace = leave
        const result = await runOnce()
        // The key of a response that was held back may have been revoked, or its partner suspended, in the meantime.
        if (query.wait) await authenticate(row, ctx, services)
        services.pace.spend(partner.partnerId, send(ctx, row, result))
      },
      calls
    )
  // Its changes may have written events: wake the sequencer.
  if (row.atomic) services.bus.publish(WORK, 'events', 'new')
}

/** The parsed body. Its bytes stay in the partner's account until the request ends; a large one is read at the partner's pace. */
async function receive(
  ctx: Context,
  partnerId: string,
  { limit, services, kept }: { limit: number; services: ApiServices; kept: Kept }
): Promise<unknown> {
  checkLength(ctx, limit)
  const { pace } = services
  const mostBytes = mostBytesOf(ctx, limit)
  const held = services.bytes.admit(partnerId, mostBytes)
  kept.bytes = held
  let spent = 0
  // Large bodies of one partner are admitted one after another, each after the bytes of the one before were spent.
  const mayGoOn = async () => {
    for (let waitMs = pace.waitMs(partnerId); waitMs > 0; waitMs = pace.waitMs(partnerId)) await sleep(waitMs)
    spent = mostBytes
    pace.spend(partnerId, spent)
  }
  const bytes = await readBody(ctx, limit, mayGoOn)
  held.resize(bytes.length)
  // Without Content-Length the spent bytes were an upper bound.
  if (spent > 0) pace.spend(partnerId, bytes.length - spent)
  if (bytes.length === 0) return undefined
  try {
    return parse(bytes)
  } finally {
    giveBack(bytes)
  }
}

/** Sets status and body of the response, as CSV where that is wanted; returns its length in bytes. */
function send(ctx: Context, row: Operation, result: unknown): number {
  ctx.status = 200
  if (row.csv) ctx.vary('Accept')
  const sent =
    row.csv && ctx.accepts('json', 'csv') === 'csv'
      ? csvOf(row.response, result as Record<string, unknown>, row.csv === true ? 'data' : row.csv)
      : result
  if (!(sent instanceof Reply)) return setBody(ctx, sent)
  ctx.set(sent.headers)
  return setBody(ctx, sent.body)
}

// A field that the schema does not name is ignored: it was not checked.
const namesTrader = ({ body }: Operation): boolean =>
  Object.hasOwn((body?.properties ?? {}) as object, 'traderExternalId')

const limits = new Map<Schema, number>()

function limitOf(body: Schema): number {
  const known = limits.get(body) ?? bodyLimit(body)
  limits.set(body, known)
  return known
}

/** Throws VALIDATION_FAILED where bytes are not UTF-8: decoding would replace or keep them, and so name another trader. */
function requireUtf8(text: string, path: '/path' | '/query'): void {
  if (!/%[89a-f]/i.test(text)) return
  try {
    // A % without two hexadecimal digits is a plain character.
    decodeURIComponent(text.replaceAll(/%(?![0-9a-f]{2})/gi, '%25'))
  } catch {
    throw invalid([{ path, message: 'must be percent-encoded UTF-8' }])
  }
}

// A repeated query key arrives as a list: of the known ones none may be.
function single(query: Record<string, string | string[] | undefined>, row: Operation): Record<string, string> {
  const known = Object.keys((row.query?.properties as object | undefined) ?? {})
  const values: Record<string, string> = {}
  for (const name of known) {
    const value = query[name]
    if (Array.isArray(value)) {
      throw invalid([{ path: `/query/${name}`, message: 'must be given once' }])
    }
    if (value !== undefined) values[name] = value
  }
  return values
}

/** The router over all rows; an unknown path is 404, a known one with another method 405 with Allow. */
export function routes(operations: Operation[], services: ApiServices): Middleware {
  const router = new Router({ strict: true, sensitive: true })
  const methods = new Map<string, string[]>()
  // Most paths have no parameter: one look-up finds their row, while the router tries every pattern in turn.
  const fixed = new Map<string, Operation>()
  for (const row of operations) {
    const path = row.path.replaceAll(/\{(\w+)\}/g, ':$1')
    if (path === row.path) fixed.set(`${row.method} ${path}`, row)
    router.register(path, [row.method], ctx => run(row, ctx as Context, services))
    methods.set(path, [...(methods.get(path) ?? []), row.method])
  }
  // Paths that no row matches: the same path with another method, or an unknown one.
  for (const [path, allowed] of methods) router.all(path, () => refuseMethod(allowed))
  const others = router.routes() as unknown as Middleware
  return (ctx, next) => {
    const row = fixed.get(`${ctx.method} ${ctx.path}`)
    if (row) return run(row, ctx, services)
    // Before the patterns: /v1/orders/binary must not be read as the order with the id `binary`.
    // One that is written as a pattern, /v1/orders/:id, is the order with that id.
    const allowed = ctx.path.includes(':') ? undefined : methods.get(ctx.path)
    if (allowed && !(ctx.method === 'HEAD' && allowed.includes('GET'))) refuseMethod(allowed)
    return others(ctx, next)
  }
}

function refuseMethod(allowed: string[]): never {
  const Allow = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ')
  throw new ApiError('METHOD_NOT_ALLOWED', `This path takes ${Allow}.`, { headers: { Allow } })
}
