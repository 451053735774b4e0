// The newer dialect's REST side: a user's accounts, the one-time addresses of their sockets, and whether the broker is up.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Ajv } from 'ajv'
import type { Grant } from '../engine/accounts.ts'
import { startIn, toAmount } from '../engine/currencies.ts'
import type { Engine } from '../engine/engine.ts'
import type { MarkupEntry } from '../engine/markup-book.ts'
import type { AppId, SimulatedAccount, SimulatedContract } from '../engine/records.ts'
import { SimulatedRefusal } from '../engine/refusal.ts'
import { simulatorAjv } from '../engine/shapes.ts'
import { addressOf } from '../request-address.ts'
import { sumOf } from '../v3/markup.ts'
import { APP_ID_HEADER, kindOf, type Next } from './next.ts'
import type { OAuth } from './oauth.ts'

interface RestServices {
  next: Next
  oauth: OAuth
  /** ws://host:port */
  socketBase(): string
  revokedAppIds: readonly AppId[]
  /** Calls a minute granted to an address, where there are limits. */
  callsOfAddress: number
}

interface RestRequest {
  appId: AppId
  grant: Grant
  /** The account the path names. */
  account: SimulatedAccount | null
  query: URLSearchParams
  body: unknown
}

interface RestResult {
  status?: number
  data: unknown
  /** The data alone, without an envelope. */
  bare?: true
}

/** A failure, as sent in the response. */
class SimulatedRestError extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const ROOT = '/trading/v1/options'
const STATISTICS = '/applications/v1/markup-statistics'
/** Calls a minute that the broker published for an address, and for ten minutes. */
export const OF_ADDRESS = 300
const OF_ADDRESS_IN_TEN = 1_000
const OF_USER = [{ ms: 60_000, most: 60 }]
const MAX_BODY_BYTES = 65_536
const MAX_COUNTS = 50_000
const RESET_CENTS = 1_000_000

const isAccount = new Ajv(simulatorAjv).compile({
  type: 'object',
  required: ['currency', 'group', 'account_type'],
  properties: {
    currency: { type: 'string', enum: ['USD'] },
    group: { type: 'string', enum: ['row'] },
    account_type: { type: 'string', enum: ['demo', 'real'] }
  }
})

/** Serves the calls under /trading/v1 and the health check; `others` gets the rest. */
export function nextRest(rest: RestServices, others: RequestListener): RequestListener {
  const counts = new CallCounts(rest.next)
  return (request, response) => {
    const { pathname: path, searchParams: query } = addressOf(request)
    if (path === '/oauth2/token' && request.method === 'POST') {
      rest.oauth.respond(request, response).catch(() => response.destroy())
      return
    }
    if (path !== '/v1/health' && path !== STATISTICS && !path.startsWith(`${ROOT}/`)) {
      others(request, response)
      return
    }
    const began = performance.now()
    const meta = () => ({ endpoint: path, method: request.method, timing: Math.round(performance.now() - began) })
    respond(rest, counts, request, { path, query })
      .then(found => {
        if (found === 'cut') response.destroy()
        else if (found === 'up') send(response, 200, 'OK')
        else if (found !== 'silent')
          send(response, found.status ?? 200, found.bare ? found.data : { data: found.data, meta: meta() })
      })
      .catch((error: unknown) => {
        const { status, code, message } = toRestError(error)
        send(response, status, { errors: [{ status, code, message }], meta: meta() })
      })
  }
}

async function respond(
  rest: RestServices,
  counts: CallCounts,
  request: IncomingMessage,
  { path, query }: { path: string; query: URLSearchParams }
): Promise<RestResult | 'up' | 'cut' | 'silent'> {
  const { front } = rest.next
  if (front.faults.settings.down)
    throw new SimulatedRestError(503, 'InternalServerError', 'The service is unavailable.')
  if (path === '/v1/health') return 'up'
  const text = await readText(request)
  rest.next.restCalls++
  if (rest.next.limited) counts.check(`address ${request.socket.remoteAddress}`, ofAddress(rest.callsOfAddress))
  const appId = appIdOf(request, rest.revokedAppIds)
  const grant = grantOf(rest, request, path === STATISTICS ? 'read' : 'trade')
  if (rest.next.limited) counts.check(`user ${grant.account.userId}`, OF_USER)
  const [, accountId, verb] = /^\/trading\/v1\/options\/accounts\/([^/]+)\/([\w-]+)$/.exec(path) ?? []
  const route = routes[`${request.method} ${accountId === undefined ? path : verb}`]
  if (!route) throw new SimulatedRestError(404, 'NotFound', 'There is no such call.')
  const account = accountId === undefined ? null : ownAccount(rest, grant, decodeURIComponent(accountId))
  const fate = front.faults.fate({
    call: verb ?? path.split('/').at(-1) ?? 'accounts',
    class: null,
    loginid: account?.loginid ?? grant.account.loginid,
    symbol: undefined,
    appId
  })
  const latencyMs = front.faults.latencyMs() + (fate?.effect === 'slow' ? (fate.delayMs ?? 1_000) : 0)
  if (latencyMs > 0) await new Promise<void>(resolve => void front.engine.clock.after(latencyMs, resolve))
  switch (fate?.effect) {
    case 'error':
    case 'error-late':
      throw new SimulatedRestError(
        statuses[fate.code ?? ''] ?? 500,
        fate.code ?? 'InternalServerError',
        fate.message ?? 'Failed.'
      )
    case 'timeout':
    case 'timeout-late':
      throw new SimulatedRestError(504, 'InternalServerError', 'The request timed out.')
    case 'drop-before':
    case 'drop-after':
      return 'cut'
    case 'ignore':
    case 'mute':
      return 'silent'
  }
  return route(rest, { appId, grant, account, query, body: parse(text) })
}

const ofAddress = (calls: number) => [
  { ms: 60_000, most: calls },
  { ms: 600_000, most: Math.floor((calls / OF_ADDRESS) * OF_ADDRESS_IN_TEN) }
]

const statuses: Record<string, number> = {
  Unauthorized: 401,
  UnauthorizedAccess: 401,
  AccessDenied: 403,
  AccountNotFound: 400,
  BadInputRequest: 400,
  ValidationError: 422,
  RateLimit: 429
}

const routes: Record<string, (rest: RestServices, requested: RestRequest) => RestResult> = {
  [`GET ${ROOT}/accounts`]: (rest, { grant }) => ({ data: accountsOf(rest, grant).map(presentAccount) }),
  [`POST ${ROOT}/accounts`]: (rest, { grant, body }) => {
    if (!isAccount(body))
      throw new SimulatedRestError(400, 'ValidationError', 'The requested account cannot be opened.')
    const kind = (body as { account_type: string }).account_type
    const known = accountsOf(rest, grant).find(account => kindOf(account) === kind)
    if (known) return { data: presentAccount(known) }
    const loginid = `${kind === 'demo' ? 'DOT' : 'ROT'}${grant.account.userId}`
    return { status: 201, data: [presentAccount(rest.next.front.engine.accounts.create({ loginid }))] }
  },
  [`GET ${STATISTICS}`]: ({ next }, { query }) => ({ data: statisticsOf(next.front.engine, query) }),
  [`GET ${ROOT}/legacy/migration-status`]: () => ({ data: { status: 'complete' }, bare: true }),
  'POST otp': (rest, { grant, account, appId }) => ({
    data: { url: `${rest.socketBase()}${rest.next.issue({ ...grant, account: account as SimulatedAccount }, appId)}` }
  }),
  'POST reset-demo-balance': (rest, { account }) => {
    if (!account?.isVirtual) throw new SimulatedRestError(400, 'BadInputRequest', 'Only play money can be reset.')
    rest.next.front.engine.books.deposited(account, startIn(account.currency, RESET_CENTS) - account.balanceCents)
    return { data: presentAccount(account) }
  }
}

function appIdOf(request: IncomingMessage, revoked: readonly AppId[]): AppId {
  const text = request.headers[APP_ID_HEADER.toLowerCase()]
  if (typeof text !== 'string' || !/^[\w-]{1,64}$/.test(text))
    throw new SimulatedRestError(401, 'Unauthorized', `The ${APP_ID_HEADER} header is required.`)
  // The first dialect's numbers are no applications here.
  if (/^\d+$/.test(text) || revoked.includes(text))
    throw new SimulatedRestError(401, 'Unauthorized', 'Invalid application.')
  return text
}

/** The broker's scope `application_read` is the first dialect's `read`. */
function grantOf({ next }: RestServices, request: IncomingMessage, scope: 'read' | 'trade'): Grant {
  const [, token] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '') ?? []
  const { accounts } = next.front.engine
  const grant = accounts.grant(token ?? '')
  accounts.check(grant)
  if (!grant.scopes.has(scope)) throw new SimulatedRestError(403, 'AccessDenied', `The token lacks the scope ${scope}.`)
  return grant
}

/** A user's accounts go by the number in their ids. */
function accountsOf({ next }: RestServices, { account }: Grant): SimulatedAccount[] {
  return [...next.front.engine.accounts.all.values()].filter(each => each.userId === account.userId)
}

function ownAccount(rest: RestServices, grant: Grant, loginid: string): SimulatedAccount {
  const account = rest.next.front.engine.accounts.all.get(loginid)
  if (account?.userId === grant.account.userId) return account
  // The documents give the call for a socket's address no status 404.
  throw new SimulatedRestError(400, 'AccountNotFound', 'There is no such account.')
}

function presentAccount(account: SimulatedAccount): Record<string, unknown> {
  return {
    account_id: account.loginid,
    account_type: kindOf(account),
    balance: toAmount(account.balanceCents, account.currency),
    currency: account.currency,
    group: 'row',
    status: account.disabled ? 'inactive' : 'active'
  }
}

/** What applications earned on some days of UTC, both included, in US dollars. Those of the first dialect are not shown. */
function statisticsOf(engine: Engine, query: URLSearchParams): Record<string, unknown> {
  const [from, to] = ['date_from', 'date_to'].map(name => {
    const text = query.get(name) ?? ''
    const day = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
    if (Number.isNaN(day)) throw new SimulatedRestError(400, 'ValidationError', `${name} is no date.`)
    return day / 1000
  }) as [number, number]
  const entries = engine.books.markups.reported({ from, to: to + 86_399 }, engine.clock.wall())
  const byApp = Map.groupBy(
    entries.filter(({ appId }) => typeof appId === 'string'),
    ({ appId }) => appId
  )
  const totals = (list: MarkupEntry[]) => {
    const contracts = list.flatMap(({ contractId }) => engine.contracts.get(contractId) ?? [])
    const usd = (cents: (contract: SimulatedContract) => number) =>
      contracts.reduce((sum, contract) => sum + cents(contract), 0) / 100
    return {
      app_markup_usd: sumOf(list, engine),
      volume_usd: usd(({ buyCents }) => buyCents),
      payout_usd: usd(({ payoutCents }) => payoutCents),
      contract_count: list.length,
      client_count: new Set(list.map(({ loginid }) => loginid)).size
    }
  }
  const all = Object.entries(totals([...byApp.values()].flat()))
  return {
    ...Object.fromEntries(all.map(([name, value]) => [`total_${name}`, value])),
    breakdown: [...byApp].map(([appId, list]) => ({ app_id: appId, ...totals(list) }))
  }
}

function toRestError(error: unknown): SimulatedRestError {
  if (error instanceof SimulatedRestError) return error
  if (error instanceof SimulatedRefusal && error.reason === 'InvalidToken')
    return new SimulatedRestError(401, 'Unauthorized', 'The token is invalid.')
  if (error instanceof SimulatedRefusal) return new SimulatedRestError(403, 'AccessDenied', error.message)
  return new SimulatedRestError(500, 'InternalServerError', error instanceof Error ? error.message : String(error))
}

/** Calls counted in fixed windows that begin with the first one. */
class CallCounts {
  #next: Next
  #counts = new Map<string, { since: number; calls: number }>()

  constructor(next: Next) {
    this.#next = next
  }

  check(who: string, windows: readonly { ms: number; most: number }[]): void {
    if (this.#counts.size > MAX_COUNTS) this.#counts.clear()
    const now = this.#next.front.engine.clock.wall()
    for (const { ms, most } of windows) {
      const key = `${ms} ${who}`
      const count = this.#counts.get(key)
      if (!count || now - count.since >= ms) this.#counts.set(key, { since: now, calls: 1 })
      else if (++count.calls > most) {
        this.#next.refused.rest++
        throw new SimulatedRestError(429, 'RateLimit', 'Too many requests.')
      }
    }
  }
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request as AsyncIterable<Buffer>) {
    text += chunk
    if (text.length > MAX_BODY_BYTES) throw new SimulatedRestError(400, 'BadInputRequest', 'The body is too large.')
  }
  return text
}

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch (cause) {
    throw Object.assign(new SimulatedRestError(400, 'BadInputRequest', 'The body is not JSON.'), { cause })
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
