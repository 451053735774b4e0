// What the fuzzer requests: a request, the operation it is meant for, and what may come of it.
import fc, { type Arbitrary } from 'fast-check'
import type { Described, Description } from './description.ts'
import type { RawRequest } from './raw-request.ts'
import { valid } from './values.ts'

export interface FuzzCase {
  operation: Described
  /** The class of requests this is one of. */
  kind: string
  raw: RawRequest
  /** The only statuses that may be returned, or those that must not, the time for it; and the check that demands it. */
  expected?: { check: string; only?: readonly number[]; never?: readonly number[]; withinMs?: number }
  /** Never to be found in the response. */
  secret?: string
  /** Never to be found in the response, in place of the scene's canary: the request is not of the partner that fuzzes. */
  hidden?: string[]
  /** The request need not reach its operation: what responds to unknown paths and methods may respond to it. */
  stray?: true
}

/** A broker account of two partners, and who uses it. */
export interface Sharing {
  accountId: string
  /** Owners have the account's token. The names of each hold a mark of that partner. */
  parties: { key: string; owns: boolean; traderExternalId: string; mark: string }[]
}

/** Who sends the request, and what it has. */
export interface FuzzScene {
  address: string
  /** How many times as long a response may take as on an idle machine. */
  stretch: number
  description: Description
  key: string
  /** Keys that are good for nothing any more, or not for all, by the only status they may get. */
  badKeys: { key: string; status: number; needs?: 'scope' }[]
  cookie: string
  /** Sessions that live through the campaign, each of a trader of its own. */
  traderSessions: string[]
  /** Sessions for the operations that end the one they are sent. */
  endingSessions: string[]
  /** Values of fields by name: what was made before and what responses had. */
  known: Map<string, unknown[]>
  /** The same of another partner: nobody but that one may know them. */
  others: Record<string, string[]>
  /** A broker account that several partners use. */
  sharing: Sharing
  /** The other partner's key, for a service made to take us for it. */
  otherKey: string
  /** Is in every text of the other partner that is for itself only. */
  canary: string
}

/** The parts of a request before it is bytes. */
export interface Input {
  params: Record<string, unknown>
  query: Record<string, unknown>
  body?: unknown
}

const KNOWN_LIMIT = 200

/** Remembers the value of a field for later requests. */
export function learn(scene: FuzzScene, name: string, value: unknown): void {
  const values = scene.known.get(name) ?? []
  scene.known.set(name, values)
  if (values.includes(value)) return
  values.push(value)
  if (values.length > KNOWN_LIMIT) values.shift()
}

// A path parameter is called id wherever it is: what it identifies is in the path.
const identified: [RegExp, string][] = [
  [/^\/v1\/orders\/multiplier/, 'multiplierOrderId'],
  [/^\/v1\/orders/, 'orderId'],
  [/^\/v1\/keys/, 'keyId'],
  [/^\/v1\/webhooks/, 'webhookId'],
  [/^\/v1\/community\/messages/, 'messageId'],
  [/^\/v1\/community\/bots/, 'communityBotId'],
  [/^\/v1\/marketplace\/subscriptions/, 'subscriptionId'],
  [/^\/v1\/marketplace\/creator/, 'ownBotId'],
  [/^\/v1\/marketplace/, 'botId'],
  [/^\/v1\/admin/, 'purchaseId'],
  [/^\/v1\/templates/, 'slug'],
  [/^\/v1\/multipliers/, 'asset']
]

/** The name under which values for a path parameter are known. */
export function identifierIn(path: string): string {
  return identified.find(([pattern]) => pattern.test(path))?.[1] ?? 'id'
}

// Fields that an operation needs where another part of the request is left out: schemas of bodies cannot express that.
const NEEDED: Record<string, string[]> = { endSessions: ['traderId'], replayWebhook: ['since'] }
// Fields of bodies that are good only beside another one, or that only the service can make.
const LEFT_OUT: Record<string, string[]> = {
  replayWebhook: ['after'],
  // With it, not every scope is good.
  createKey: ['test'],
  updateWebhook: ['skip'],
  createStreamTicket: ['assets']
}

const CURSORS = new Set(['cursor', 'after'])
// May differ from page to page.
const PAGING = new Set(['cursor', 'limit', 'from', 'to'])

/** The name under which values of a cursor are known: a list takes its own alone, under the filters and of the party that they were made for. */
export function cursorOf(cursor: string, { path, headers }: Pick<RawRequest, 'path' | 'headers'>): string {
  const { pathname, searchParams } = new URL(path, 'http://service')
  // Events have one log, whatever of it is shown.
  const filters = cursor === 'after' ? [] : [...searchParams].filter(([name]) => !PAGING.has(name))
  return `${cursor} of ${pathname} ${new URLSearchParams(filters.sort())} ${headers['x-trader-session'] ?? ''}`
}

const DAY_MS = 86_400_000
const dayFromToday = (days: number) => new Date((Math.floor(Date.now() / DAY_MS) + days) * DAY_MS).toISOString()
// Parts of a window of time, any of which go together: schemas cannot express that one lies before the other, or how far.
const WINDOW: Record<string, Arbitrary<unknown>> = {
  from: fc.integer({ min: -20, max: -1 }).map(dayFromToday),
  to: fc.integer({ min: 1, max: 9 }).map(dayFromToday),
  timezone: fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kathmandu', 'America/New_York')
}

/** A query with one of the cursors that were made for it, where there are any, or without. */
function withCursor(
  query: Record<string, unknown>,
  cursor: { name: string; values: unknown[] }
): Arbitrary<Record<string, unknown>> {
  if (cursor.values.length === 0) return fc.constant(query)
  return fc
    .constantFrom(undefined, ...cursor.values)
    .map(value => (value === undefined ? query : { ...query, [cursor.name]: value }))
}

/** Inputs that fit the description of an operation, sent with the credentials of `pick`. */
export function inputsFor(operation: Described, scene: FuzzScene, pick = 0): Arbitrary<Input> {
  const known = (name: string) => scene.known.get(name) ?? []
  const resolved = scene.description.resolve(operation.body ?? {})
  const required = [...((resolved.required ?? []) as string[]), ...(NEEDED[operation.name] ?? [])]
  const left = LEFT_OUT[operation.name] ?? []
  const properties = Object.fromEntries(
    Object.entries((resolved.properties ?? {}) as object).filter(([name]) => !left.includes(name))
  )
  const body = { ...resolved, required, ...(left.length > 0 ? { properties } : {}) }
  const params = Object.fromEntries(
    Object.entries(operation.params).map(([name, schema]) => [name, valid(schema, known, identifierIn(operation.path))])
  )
  const query = Object.fromEntries(
    Object.entries(operation.query)
      // Only the service can make a cursor.
      .filter(([name]) => !CURSORS.has(name))
      .map(([name, schema]) => {
        if (operation.path.startsWith('/v1/analytics/') && WINDOW[name]) return [name, WINDOW[name]]
        // A request that is held back for long keeps others from being made.
        return [name, name === 'wait' ? fc.constantFrom(0, 0, 0, 1) : valid(schema, known, name)]
      })
  )
  const cursor = Object.keys(operation.query).find(name => CURSORS.has(name))
  const chosen = fc.record({
    params: fc.record(params, { noNullPrototype: true }),
    query: fc.record(query, { requiredKeys: operation.requiredQuery, noNullPrototype: true }),
    ...(operation.body ? { body: valid(body, known, operation.name) } : {})
  }) as Arbitrary<Input>
  if (!cursor) return chosen
  return chosen.chain(input => {
    const sent = { path: pathOf(operation, input), headers: credentials(operation, scene, pick) }
    const values = known(cursorOf(cursor, sent))
    return withCursor(input.query, { name: cursor, values }).map(query => ({ ...input, query }))
  })
}

/** Whether the session sent is over afterwards; a later request with it is a 401 before its body is looked at. */
export const endsItsSession = ({ name }: Described) => name === 'logOutTrader' || name === 'endSessions'

/** Header fields with the credentials an operation takes. */
export function credentials(operation: Described, scene: FuzzScene, pick = 0): Record<string, string> {
  const { auth, actor } = operation
  if (auth === 'session') return { cookie: scene.cookie }
  const sessions = endsItsSession(operation) ? scene.endingSessions : scene.traderSessions
  const session = sessions[pick % Math.max(1, sessions.length)]
  const withTrader = session !== undefined && (auth === 'trader' || (actor && pick % 2 === 1))
  return { authorization: `Bearer ${scene.key}`, ...(withTrader ? { 'x-trader-session': session } : {}) }
}

/** The path with its parameters put in, and the query. */
export function pathOf({ path }: Described, { params, query }: Pick<Input, 'params' | 'query'>): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const search = Object.entries(query).map(
    ([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`
  )
  return search.length > 0 ? `${filled}?${search.join('&')}` : filled
}

/** A request with a body of JSON, where there is one. */
export function rawRequestOf(operation: Described, input: Input, headers: Record<string, string>): RawRequest {
  const base = { method: operation.method, path: pathOf(operation, input) }
  if (input.body === undefined) return { ...base, headers }
  return {
    ...base,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(input.body))
  }
}

/** Fields of a body by their path, those inside objects and lists among them. */
export function placesIn(value: unknown, at: (string | number)[] = []): (string | number)[][] {
  const inner = Array.isArray(value)
    ? value.slice(0, 5).flatMap((item, index) => placesIn(item, [...at, index]))
    : value !== null && typeof value === 'object'
      ? Object.entries(value).flatMap(([key, item]) => placesIn(item, [...at, key]))
      : []
  return at.length > 0 ? [at, ...inner] : inner
}

/** The value with what is at a place changed; `undefined` takes it away. */
export function changed(value: unknown, [key, ...rest]: (string | number)[], change: unknown): unknown {
  if (key === undefined) return change
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>
  copy[key] = changed(copy[key], rest, change)
  if (copy[key] === undefined) delete copy[key]
  return copy
}
