// The request log: each partner's requests to the API and their results. Each process keeps entries in memory for a moment and
// writes them together, away from the requests' path; beyond a bound entries are dropped and counted, never waited for.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Log } from '../platform/log.ts'
import { countUnlogged } from '../platform/metrics.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { dropDays, lacksPartition, makeDays } from '../postgres/day-partitions.ts'
import { within } from '../postgres/within.ts'

/** A finished request. */
export interface RequestEntry {
  partnerId: string
  requestId: string
  /** When it arrived, by performance.now() of this process. */
  startedAt: number
  keyId: string | null
  operation: string
  method: string
  path: string
  status: number
  error: string | null
  trader: string | null
  ms: number
}

export interface RequestLog {
  note(entry: RequestEntry): void
  /** Writes what was noted so far. Throws when the database does; the entries are kept then. */
  flush(): Promise<void>
  /** The last write at a stop; what cannot be written within that time is counted and lost. */
  close(withinMs?: number): Promise<void>
}

export interface RequestLogOptions {
  db: Db
  log: Log
  /** For how many days entries are kept; 0: none is written. */
  keepDays: number
  /** How often entries are written. */
  everyMs?: number
  /** Entries in memory at most. */
  most?: number
}

/** Entries of one statement; that many are written at once, without waiting for the clock. */
const GROUP = 1000
/** The part of the memory that one partner may fill. */
const SHARE = 0.25
// A path is cut here; ours are shorter, but for a trader's id in it.
const MAX_PATH = 256
const LAST_WRITE_MS = 5000

/** Starts the log of this process. */
export function openRequestLog({ db, log, keepDays, everyMs = 500, most = 10_000 }: RequestLogOptions): RequestLog {
  if (keepDays === 0) return { note() {}, async flush() {}, async close() {} }
  const waiting: RequestEntry[] = []
  const counts = new Map<string, number>()
  const share = Math.ceil(most * SHARE)
  let dropped = 0
  let writing: Promise<void> = Promise.resolve()
  let full = false

  async function write(): Promise<void> {
    full = false
    while (waiting.length > 0) {
      const group = waiting.slice(0, GROUP)
      try {
        await insertRequests(db, group)
      } catch (error) {
        if (!lacksPartition(error)) throw error
        // Housekeeping may not have run for days.
        await makeDays(db, 'requests')
        await insertRequests(db, group)
      }
      waiting.splice(0, group.length)
      for (const { partnerId } of group) {
        const left = (counts.get(partnerId) ?? 0) - 1
        if (left > 0) counts.set(partnerId, left)
        else counts.delete(partnerId)
      }
    }
  }

  // One after another: a group is taken from the front only when it is written.
  const flush = (): Promise<void> => {
    const next = writing.then(write)
    writing = next.catch(() => {})
    return next
  }

  function tellDropped(): void {
    if (dropped > 0) log.warn({ requests: dropped }, 'the request log is full: requests were not noted')
    dropped = 0
  }

  const flushOrWait = () => {
    tellDropped()
    if (waiting.length === 0) return
    flush().catch((error: unknown) => log.warn({ err: error }, 'the request log waits for the database'))
  }
  const timer = setInterval(flushOrWait, everyMs)
  timer.unref()

  return {
    note(entry) {
      const held = counts.get(entry.partnerId) ?? 0
      if (waiting.length >= most || held >= share) {
        dropped += 1
        countUnlogged(1)
        return
      }
      counts.set(entry.partnerId, held + 1)
      waiting.push(entry)
      if (waiting.length < GROUP || full) return
      full = true
      setImmediate(flushOrWait)
    },
    flush,
    async close(withinMs = LAST_WRITE_MS) {
      clearInterval(timer)
      tellDropped()
      try {
        await within(withinMs, flush())
      } catch (error) {
        countUnlogged(waiting.length)
        log.error({ err: error, requests: waiting.length }, 'the request log could not be written to its end')
      }
    }
  }
}

// The commit is not waited for on the disk: a crash of the server may take the last moments of the log, and nothing else.
async function insertRequests(db: Db, group: RequestEntry[]): Promise<void> {
  const now = performance.now()
  const texts = (of: (entry: RequestEntry) => string | null) => group.map(of)
  await rows(
    db,
    `insert into requests (partner_id, day, at, request_id, key_id, operation, method, path, status, error, trader, ms)
     select r.partner_id, (clock_timestamp() at time zone 'UTC')::date, clock_timestamp() - r.ago * interval '1 millisecond',
            r.request_id, r.key_id, r.operation, r.method, r.path, r.status, r.error, r.trader, r.ms
       from set_config('synchronous_commit', 'off', true),
            unnest(:partners::text[], :ids::text[], :keys::text[], :operations::text[], :methods::text[], :paths::text[],
                   :statuses::smallint[], :errors::text[], :traders::text[], :agos::float8[], :times::real[])
              as r (partner_id, request_id, key_id, operation, method, path, status, error, trader, ago, ms)`,
    {
      partners: texts(({ partnerId }) => partnerId),
      ids: texts(({ requestId }) => requestId),
      keys: texts(({ keyId }) => keyId),
      operations: texts(({ operation }) => operation),
      methods: texts(({ method }) => method),
      paths: texts(({ path }) => shownPath(path)),
      statuses: group.map(({ status }) => status),
      errors: texts(({ error }) => error),
      traders: texts(({ trader }) => trader),
      agos: group.map(({ startedAt }) => Math.max(0, now - startedAt)),
      times: group.map(({ ms }) => ms)
    }
  )
}

// What has the form of our keys, wherever a caller has put it.
const KEYS = /service_(live|test)_[0-9a-zA-Z_]*/g

function shownPath(path: string): string {
  const shown = path.includes('service_') ? path.replace(KEYS, 'service_$1_…') : path
  return shown.slice(0, MAX_PATH)
}

/** A request as it is listed. */
export interface RequestRow {
  partnerId: string
  requestId: string
  at: Date
  operation: string
  method: string
  path: string
  status: number
  error: string | null
  trader: string | null
  keyId: string | null
  ms: number
}

export interface RequestFilter {
  partnerId: string
  status?: number | undefined
  error?: string | undefined
  operation?: string | undefined
  trader?: string | undefined
  requestId?: string | undefined
  /** When it arrived: at or after, and before. */
  from?: Date | undefined
  to?: Date | undefined
  limit: number
  cursor?: string | undefined
}

/** Entries that the filters pass over for one page, at most. */
export const SCANNED_AT_MOST = 20_000

const columns = `partner_id as "partnerId", request_id as "requestId", at, operation, method, path, status, error, trader, key_id as "keyId",
  ms::float8 as ms`
const position = `(extract(epoch from at) * 1000000)::bigint || ',' || n as position`
const dayOf = (instant: string) => `(${instant}::timestamptz at time zone 'UTC')::date`

/**
 * A page of the partner's requests, newest first. Filters pass over SCANNED_AT_MOST entries at most: then the page may be short,
 * or empty, and has a cursor all the same. Throws VALIDATION_FAILED for a cursor that is none of this list.
 */
export async function listRequests(
  db: Db,
  { partnerId, status, error, operation, trader, requestId, from, to, limit, cursor }: RequestFilter
): Promise<{ requests: RequestRow[]; nextCursor: string | null }> {
  const after = cursor === undefined ? undefined : readCursor(cursor)
  const bindings = {
    partnerId,
    status: status ?? null,
    error: error ?? null,
    operation: operation ?? null,
    trader: trader ?? null,
    ...(requestId === undefined ? {} : { requestId }),
    ...(from ? { from: from.toISOString() } : {}),
    ...(to ? { to: to.toISOString() } : {}),
    ...(after ?? {}),
    limit: limit + 1
  }
  // An entry is of the day on which it was written, soon after the request's arrival; the days leave partitions out.
  const window = [
    'partner_id = :partnerId',
    ...(from ? [`at >= :from::timestamptz and day >= ${dayOf(':from')}`] : []),
    ...(to ? [`at < :to::timestamptz and day <= ${dayOf(':to')} + 1`] : []),
    ...(after ? [`(at, n) < (timestamptz 'epoch' + :micros::bigint * interval '1 microsecond', :n::bigint)`] : [])
  ].join(' and ')
  // Entries of one id are few; their order must not keep the planner from the index of the ids.
  const source = requestId
    ? `with requests as materialized (select * from requests where request_id = :requestId and partner_id = :partnerId limit ${SCANNED_AT_MOST})`
    : ''
  const ordered = `${window} order by at desc, n desc`
  const found = await rows<RequestRow & { position: string }>(
    db,
    `${source}
     select ${columns}, ${position}
       from (select * from requests where ${ordered} limit ${SCANNED_AT_MOST}) r
      where (:status::int is null or status = :status) and (:error::text is null or error = :error)
        and (:operation::text is null or operation = :operation) and (:trader::text is null or trader = :trader)
      order by at desc, n desc limit :limit::int`,
    bindings
  )
  const requests = found.slice(0, limit)
  const last = found[limit - 1]
  if (found.length > limit && last) return { requests, nextCursor: writeCursor(last.position) }
  if (requestId !== undefined) return { requests, nextCursor: null }
  const [passed] = await rows<{ position: string }>(
    db,
    `select ${position} from requests where ${ordered} offset ${SCANNED_AT_MOST - 1} limit 1`,
    bindings
  )
  return { requests, nextCursor: passed ? writeCursor(passed.position) : null }
}

/** A request as the API and the operator's tool show it. */
export function presentRequest({
  requestId,
  at,
  operation,
  method,
  path,
  status,
  error,
  trader,
  keyId,
  ms
}: RequestRow) {
  return {
    requestId,
    at: at.toISOString(),
    operation,
    method,
    path,
    status,
    error,
    traderExternalId: trader,
    keyId,
    ms: Math.round(ms * 10) / 10
  }
}

const writeCursor = (text: string): string => Buffer.from(text).toString('base64url')

function readCursor(cursor: string): { micros: string; n: string } {
  const [, micros, n] = /^(\d{1,17}),(\d{1,18})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (micros === undefined || n === undefined) {
    const details = [{ path: '/query/cursor', message: 'is not a cursor of this list' }]
    throw new ApiError('VALIDATION_FAILED', 'cursor is not a cursor of this list', { extras: { details } })
  }
  return { micros, n }
}

/** Requests written after the entry `after`, in the order of writing, of one partner or of all. */
export async function tailRequests(
  db: Db,
  { partnerId, after, limit }: { partnerId: string | null; after: number; limit: number }
): Promise<(RequestRow & { n: number })[]> {
  return rows(
    db,
    `select n, ${columns} from requests
      where day >= (now() at time zone 'UTC')::date - 1 and n > :after::bigint and (:partner::text is null or partner_id = :partnerId)
      order by n limit :limit::int`,
    { partner: partnerId, partnerId, after, limit }
  )
}

/** The number of the newest entry; 0 without one. */
export async function newestRequest(db: Db): Promise<number> {
  const [found] = await rows<{ n: number }>(
    db,
    `select coalesce(max(n), 0) as n from requests where day >= (now() at time zone 'UTC')::date - 1`
  )
  return found?.n ?? 0
}

/** Makes the partitions of the coming days and drops those that are not kept any more. */
export async function keepRequestDays({ db, config }: { db: Db; config: { requestDays: number } }): Promise<void> {
  await makeDays(db, 'requests')
  await dropDays(db, 'requests', { keepDays: config.requestDays })
}
