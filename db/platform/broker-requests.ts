// Broker requests: requests of the api and the tool to the workers, with short-lived responses. Equal reads of one
// moment share one row.
import { ApiError, type ErrorCode, type ErrorExtras } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { among, type Db, listing, rows, sql } from '../postgres/connection.ts'
import { serving } from '../traders/account-leases.ts'
import { atCommonMoment, backOff } from './back-off.ts'
import { type Bus, WORK } from './bus.ts'
import type { Queue } from './queue.ts'

export interface BrokerRequestRow {
  id: string
  kind: string
  key: string
  data: Record<string, unknown>
  state: 'waiting' | 'answered' | 'refused'
  response: unknown
  error: { code: ErrorCode; message: string; extras?: ErrorExtras } | null
  reply_channel: string
  trace: string | null
  /** The requesting partner; null for the operator. */
  partner_id: string | null
  expires_at: Date
  /** Whether its time was over when it was read, by the database's clock. */
  expired: boolean
  /** How much of its time was left when it was read, ms. */
  left_ms: number
}

export interface BrokerRequest {
  kind: string
  /** Broker requests of one kind and key are equal. */
  key: string
  data: object
  replyChannel: string
  /** The requesting partner, if any. */
  partnerId?: string
  /** Trace id of the api request it belongs to. */
  trace?: string
  timeoutMs: number
}

/** Sales have a queue of their own, so that none waits behind reads. */
export const queueOf = (kind: string): 'ask' | 'sell' => (kind === 'close' || kind === 'sellOrphan' ? 'sell' : 'ask')

// Queued again: a request that has waited for longer (the worker that took its job may have died, while others who join the request
// extend its time; a worker that still has it ignores the repeat), and one that is newer than now (the database's clock was set
// back, and its job is not due for that long).
const QUEUED_AGAIN_SECONDS = 5
const isOver = 'broker_requests.expires_at < clock_timestamp()'
const isLeft = `(${isOver} or broker_requests.created_at not between clock_timestamp() - interval '${QUEUED_AGAIN_SECONDS} seconds' and clock_timestamp())`

/**
 * Stores broker requests with their jobs in the transaction `trx`; an equal one that is waiting is joined, or replaced
 * past its time. Returns the rows' ids in order; `joined` ones may not wake this process.
 */
export async function storeBrokerRequests(
  trx: Db,
  queue: Queue,
  requests: BrokerRequest[]
): Promise<{ id: string; joined: boolean }[]> {
  const unique = new Map(requests.map(request => [`${request.kind} ${request.key}`, request]))
  const values = [...unique.values()].map(request => ({ id: newId('brokerRequest'), ...request, data: request.data }))
  const found = await rows<{ id: string; kind: string; key: string; queued: boolean }>(
    trx,
    `insert into broker_requests (id, kind, key, data, reply_channel, trace, partner_id, created_at, expires_at)
     select v.id, v.kind, v.key, v.data, v."replyChannel", v.trace, v."partnerId", clock_timestamp(), clock_timestamp() + v."timeoutMs" * interval '1 millisecond'
       from jsonb_to_recordset(:values::jsonb) as v (id text, kind text, key text, data jsonb, "replyChannel" text, trace text, "partnerId" text, "timeoutMs" int)
      order by v.kind, v.key
     on conflict (kind, key) where state = 'waiting' do update
       set id = case when ${isOver} then excluded.id else broker_requests.id end,
           reply_channel = case when ${isOver} then excluded.reply_channel else broker_requests.reply_channel end,
           data = case when ${isOver} then excluded.data else broker_requests.data end,
           created_at = case when ${isLeft} then clock_timestamp() else broker_requests.created_at end,
           expires_at = greatest(broker_requests.expires_at, excluded.expires_at)
     returning id, kind, key, created_at >= statement_timestamp() as queued`,
    { values: JSON.stringify(values) }
  )
  const fresh = new Set(values.map(({ id }) => id))
  for (const name of ['ask', 'sell'] as const) {
    const jobs = found
      .filter(({ kind, queued }) => queued && queueOf(kind) === name)
      .map(({ id }) => ({ brokerRequestId: id }))
    if (jobs.length > 0) await queue.enqueue(trx, name, jobs)
  }
  const byKey = new Map(found.map(row => [`${row.kind} ${row.key}`, row.id]))
  return requests.map(({ kind, key }) => {
    const id = byKey.get(`${kind} ${key}`) as string
    return { id, joined: !fresh.has(id) }
  })
}

/** Several broker requests at once, in the order of their ids. */
export async function findBrokerRequests(db: Db, ids: string[]): Promise<(BrokerRequestRow | undefined)[]> {
  const found = await rows<BrokerRequestRow>(
    db,
    `select *, expires_at < clock_timestamp() as expired, (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as left_ms
       from broker_requests where id = ${among('ids')}`,
    { ids }
  )
  const byId = new Map(found.map(row => [row.id, row]))
  return ids.map(id => byId.get(id))
}

/** The part of a broker request about one account: of which order, and the worker that serves the account (null: another one was just taking it). */
export interface RequestPart {
  orderId: string | null
  worker: string | null
}

/**
 * The parts of these broker requests, by request; accounts that no living worker serves are taken for `worker`. A request about
 * no account has no entry.
 */
export async function partsOf(
  db: Db,
  worker: string,
  requests: BrokerRequestRow[]
): Promise<Map<string, RequestPart[]>> {
  const named = requests.flatMap(({ id, data }) => {
    const orderIds = typeof data.orderId === 'string' ? [data.orderId] : ((data.orderIds as string[] | undefined) ?? [])
    const about = orderIds.map(orderId => ({ id, orderId, accountRowId: '' }))
    return typeof data.accountRowId === 'string'
      ? [...about, { id, orderId: '', accountRowId: data.accountRowId }]
      : about
  })
  if (named.length === 0) return new Map()
  const found = await rows<RequestPart & { id: string }>(
    db,
    sql`with named as materialized (
       select n.id, nullif(n.order_id, '') as order_id,
              coalesce((select account_id from orders o where o.id = n.order_id),
                       (select account_id from broker_accounts a where a.id = n.account_row_id)) as account_id
         from ${listing('ids', 'orderIds', 'accountRowIds')} as n (id, order_id, account_row_id)
     ), accounts as (select distinct account_id from named where account_id is not null), ${serving}
     select n.id, n.order_id as "orderId", s.worker from named n join served s using (account_id)`,
    {
      ids: named.map(({ id }) => id),
      orderIds: named.map(({ orderId }) => orderId),
      accountRowIds: named.map(({ accountRowId }) => accountRowId),
      sender: worker
    }
  )
  return Map.groupBy(found, ({ id }) => id)
}

/** Stores a response; only a waiting request takes one. Returns the channel to notify. */
export async function storeResponse(db: Db, id: string, response: unknown): Promise<string | undefined> {
  return finish(db, id, 'answered', { response: JSON.stringify(response), error: null })
}

/** Stores a refusal, which the caller receives unchanged. */
export async function storeRefusal(
  db: Db,
  id: string,
  error: NonNullable<BrokerRequestRow['error']>
): Promise<string | undefined> {
  return finish(db, id, 'refused', { response: null, error: JSON.stringify(error) })
}

async function finish(
  db: Db,
  id: string,
  state: string,
  values: { response: string | null; error: string | null }
): Promise<string | undefined> {
  const [row] = await rows<{ replyChannel: string }>(
    db,
    `update broker_requests set state = :state, response = :response, error = :error, responded_at = now()
      where id = :id and state = 'waiting' returning reply_channel as "replyChannel"`,
    { id, state, ...values }
  )
  return row?.replyChannel
}

// A lost wake-up costs at most this long, more of a request that has waited for long already: many that wait for a slow
// broker must not keep the database and this process busy with reading.
const REREADS = { firstMs: 500, mostMs: 4000 }

/**
 * Sends a broker request from a process that seldom does (the operator's tool). Throws the workers' refusal, or
 * BROKER_UPSTREAM when no response comes in time.
 */
export async function requestFromWorkers<Response>(
  db: Db,
  { queue, bus }: { queue: Queue; bus: Bus },
  request: Omit<BrokerRequest, 'replyChannel'>
): Promise<Response> {
  const [stored] = await db.transaction(trx =>
    storeBrokerRequests(trx, queue, [{ ...request, replyChannel: bus.replyChannel }])
  )
  bus.publish(WORK, queueOf(request.kind), 'new')
  const read = async (id: string) => (await findBrokerRequests(db, [id]))[0]
  const row = await awaitEnd(bus, read, (stored as { id: string }).id, { timeoutMs: request.timeoutMs })
  return responseOf(row) as Response
}

/** The response in a finished row. Throws the workers' refusal, or BROKER_UPSTREAM for undefined: the time is over. */
export function responseOf(row: BrokerRequestRow | undefined): unknown {
  if (row?.state === 'answered') return row.response
  if (row?.state !== 'refused')
    throw new ApiError('BROKER_UPSTREAM', 'There was no answer from the broker in time; try again.')
  const { code, message, extras } = row.error as NonNullable<BrokerRequestRow['error']>
  const headers: Record<string, string> = code === 'RATE_LIMITED' ? { 'Retry-After': '1' } : {}
  throw new ApiError(code, message, { extras: extras ?? {}, headers })
}

/**
 * Waits until a stored broker request has a response or is refused, reading its row with `read`. Resolves with undefined
 * after `timeoutMs`, on abort, and when there is no such row.
 */
export async function awaitEnd(
  bus: Bus,
  read: (id: string) => Promise<BrokerRequestRow | undefined>,
  id: string,
  { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal }
): Promise<BrokerRequestRow | undefined> {
  const deadline = performance.now() + timeoutMs
  for (let reads = 0; ; reads++) {
    // Subscribe before the first read, so that a response between the two is not missed.
    const until = Math.min(atCommonMoment(performance.now() + backOff(reads, REREADS)), deadline)
    const woken = bus.wait('ask', id, until - performance.now(), signal)
    const row = await read(id)
    if (row && row.state !== 'waiting') return row
    if (!row || performance.now() >= deadline || signal?.aborted) return undefined
    await woken
  }
}

/** Deletes requests whose waiters have timed out. */
export async function deleteOldBrokerRequests(db: Db): Promise<number> {
  return db('broker_requests').where('expires_at', '<', db.raw(`now() - interval '5 minutes'`)).del()
}
