// What an operation is, and what its handler receives. The list of all of them is in operations.ts.
import type { PartnerFacts } from '../db/partners/partners.ts'
import type { RequestLog } from '../db/partners/request-log.ts'
import type { UsageCounter } from '../db/partners/usage.ts'
import type { Bus } from '../db/platform/bus.ts'
import type { Pepper, Vault } from '../db/platform/crypto.ts'
import type { RateLimits } from '../db/platform/limits.ts'
import type { Log } from '../db/platform/log.ts'
import type { Queue } from '../db/platform/queue.ts'
import type { Db } from '../db/postgres/connection.ts'
import type { Reads } from '../db/postgres/replica.ts'
import type { Config } from '../schemas/config/config.ts'
import type { ErrorCode } from '../schemas/errors/errors.ts'
import type { Schema } from '../schemas/fields/fields.ts'
import type { Scope } from '../schemas/fields/scopes.ts'
import type { Feed } from './events/feed.ts'
import type { Backlog } from './request/backlog.ts'
import type { Batched } from './request/batched.ts'
import type { ByteAccounts } from './request/byte-accounts.ts'
import type { Deprecated } from './request/deprecation.ts'
import type { HeldKeys } from './request/held-keys.ts'
import type { KnownKeys } from './request/known-keys.ts'
import type { Pace } from './request/pace.ts'
import type { Places } from './request/places.ts'
import type { Stalls } from './request/stalls.ts'
import type { Waits } from './request/waits.ts'

/** What is open while the process runs; handed to every handler. */
export interface ApiServices {
  config: Config
  db: Db
  queue: Queue
  bus: Bus
  reads: Reads
  limits: RateLimits
  log: Log
  vault: Vault
  pepper: Pepper
  batched: Batched
  usage: UsageCounter
  requests: RequestLog
  waits: Waits
  backlog: Backlog
  feed: Feed
  bytes: ByteAccounts
  pace: Pace
  places: Places
  knownKeys: KnownKeys
  heldKeys: HeldKeys
  stalls: Stalls
}

/** What a caller was authenticated by, for a statement that proves it. */
interface Proof {
  lookup: string
  hash: Buffer
  facts: string
  /** The facts are those of an earlier request. */
  remembered: boolean
  /** A statement of this request found that the facts hold: what ends the request now may be sent. */
  proven: boolean
}

/** The partner behind the request's key or session. */
export interface Caller extends PartnerFacts {
  /** The session's id where a session authenticates. */
  keyId: string
  scopes: Scope[]
  /** For an operation with `proves`: what its statement proves. */
  proof?: Proof
}

/** The trader whose session came with the request. */
export interface SessionTrader {
  sessionId: string
  traderId: string
  traderExternalId: string
  expiresAt: Date
}

/** The request, checked against the row's schemas. */
export interface OperationRequest<Input extends { params?: unknown; query?: unknown; body?: unknown }> {
  partner: Caller
  /** There when auth is 'trader', or when `actor` is set and a valid session came with the key. */
  trader?: SessionTrader
  params: Input['params']
  query: Input['query']
  body: Input['body']
  requestId: string
  /** From X-End-User-IP, where the row has `endUser`. */
  endUserIp: string | undefined
  /** Trace id, for what the workers do on this request's behalf. */
  trace: string
  /** How long ago the request may have been sent, ms (request/stalls.ts). */
  ageMs: () => number
  /**
   * Aborts when the caller disconnects or the process stops. Reading it gives the request's place back (request/places.ts): read
   * it where the waiting begins.
   */
  signal: AbortSignal
}

export type Tag =
  | 'Identity'
  | 'Accounts'
  | 'Orders'
  | 'Positions'
  | 'Copy trading'
  | 'AI'
  | 'Templates'
  | 'Keys'
  | 'Traders'
  | 'Trade records'
  | 'Events'
  | 'Webhooks'
  | 'Analytics'
  | 'Usage'
  | 'Community'
  | 'Marketplace'
  | 'Admin'

// biome-ignore lint/suspicious/noExplicitAny: rows of different inputs are in one list
export interface Operation<Input extends { params?: unknown; query?: unknown; body?: unknown } = any> {
  /** operationId of the description; occurs in a test. */
  name: string
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Path parameters in braces. */
  path: string
  tag: Tag
  summary: string
  description: string
  /** 'key': Bearer. 'session': the partner's cookie. 'trader': Bearer and the trader's session. */
  auth: 'key' | 'session' | 'trader'
  /** The acting party is the trader whose session accompanies the key, else the partner itself. */
  actor?: true
  /** null: any valid key will do. */
  scope: Scope | null
  params?: Schema
  query?: Schema
  body?: Schema
  response: Schema
  /** Codes besides those that its auth, scope and schemas bring. */
  errors: ErrorCode[]
  /**
   * All its effects are in the database, through `open.db`: under an Idempotency-Key it runs in one transaction with
   * the storing of its response. It must neither wait for a worker nor hash a password.
   */
  atomic?: true
  /** Its statements are batched with those of other requests (db/postgres/batch.ts): it takes no connection for itself. */
  batched?: true
  /**
   * The statement that does its work proves the caller's facts (request/proof.ts), which may therefore be remembered ones. All
   * that it does before has no effect.
   */
  proves?: true
  /**
   * It only reads, through `open.db`, which is a standby where one is set (db/postgres/replica.ts). Nothing that an order or
   * money depends on may be read so.
   */
  replica?: true
  /** The end user's address may come along in X-End-User-IP, for the bounds on guessing. */
  endUser?: true
  /** As how many calls it counts in the key's limit; 1 unless it costs much more than others. 'page': by its `limit` (request/limit.ts). */
  weight?: number | 'page'
  /** `Accept: text/csv` gets these rows of the response instead: those of `data`, or of another list. */
  csv?: true | 'series'
  /** Set where the operation is deprecated; its description and the header fields of its responses show it. */
  deprecated?: Deprecated
  /** Header fields besides those of every response. */
  headers?: ('Idempotent-Replayed' | 'Set-Cookie')[]
  handle(request: OperationRequest<Input>, services: ApiServices): Promise<unknown>
}
