// Reads the request log: a partner's requests, newest first, and those of all partners as they are written.
import { type CursorList, foreignCursor, readListCursor, writeListCursor } from '../platform/list-cursors.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { dropDays, makeDays } from '../postgres/day-partitions.ts'
import {
  type EntryFilter,
  GROUP,
  hashOfId,
  type PlacedRow,
  type RequestRow,
  readGroup,
  SPAN_MS,
  type StoredGroup
} from './request-groups.ts'
import { timeOfRequestId } from './request-ids.ts'

interface RequestFilter extends EntryFilter {
  partnerId: string
  /** When it arrived: at or after, and before. */
  from?: Date | undefined
  to?: Date | undefined
  limit: number
  cursor?: string | undefined
}

interface RequestPageRows {
  requests: RequestRow[]
  nextCursor: string | null
}

/** Entries that the filters pass over for one page, about. */
export const SCANNED_AT_MOST = 20_000
/** Groups whose ids are compared for one page, at most. */
export const COMPARED_AT_MOST = 50_000
const BATCH = 4000
// How far the clock of a process may be from the database's, and how long after its making an id may be used again.
const MADE_BEFORE_MS = 600_000
const USED_AFTER_MS = 3_600_000

/**
 * A page of the partner's requests, newest first. Filters pass over about SCANNED_AT_MOST entries, or COMPARED_AT_MOST groups for a
 * request id: then the page may be short or empty and still have a cursor. Throws VALIDATION_FAILED for a cursor that is
 * none of this list.
 */
export async function listRequests(db: Db, filter: RequestFilter): Promise<RequestPageRows> {
  const { requestId, cursor, from, to } = filter
  const after = cursor === undefined ? undefined : readCursor(cursorList(filter), cursor)
  const madeAt = requestId === undefined || after ? undefined : timeOfRequestId(requestId)
  if (madeAt) {
    const around = {
      from: later(from, new Date(madeAt.getTime() - MADE_BEFORE_MS)),
      to: earlier(to, new Date(madeAt.getTime() + USED_AFTER_MS))
    }
    const page = await readPage(db, { ...filter, ...around }, undefined)
    if (page.requests.length > 0) return page
  }
  return readPage(db, filter, after)
}

const later = (a: Date | undefined, b: Date) => (a && a > b ? a : b)
const earlier = (a: Date | undefined, b: Date) => (a && a < b ? a : b)

/** A place in the order of the list: `at` in milliseconds, the number of the group, the index in it. */
type EntryPlace = [at: number, n: number, index: number]

const placeOf = ({ at, n, index }: PlacedRow): EntryPlace => [at.getTime(), n, index]
const compare = (a: EntryPlace, b: EntryPlace) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]

/** Merges groups, which overlap in time: an entry is on the page once no unread group can have a later one. */
async function readPage(db: Db, filter: RequestFilter, after: EntryPlace | undefined): Promise<RequestPageRows> {
  const { from, to, limit } = filter
  const list = cursorList(filter)
  const found: PlacedRow[] = []
  let wanted = filter.requestId === undefined ? limit + 1 : SCANNED_AT_MOST
  for (let passed = 0, reached: EntryPlace | undefined; ; wanted = Math.min(BATCH, SCANNED_AT_MOST - passed)) {
    const { groups, next } = await readGroups(db, filter, { after, reached, wanted })
    for (const group of groups) {
      const entries = readGroup(group, filter).filter(
        row => (!from || row.at >= from) && (!to || row.at < to) && (!after || compare(placeOf(row), after) < 0)
      )
      found.push(...entries)
      // Groups that reach past the cursor were passed before.
      if (!after || group.lastAt.getTime() <= after[0]) passed += group.entries
    }
    found.sort((a, b) => compare(placeOf(b), placeOf(a)))
    const certain = next ? found.filter(row => compare(placeOf(row), next) > 0) : found
    const requests = certain.slice(0, limit)
    const last = requests.at(-1)
    if (certain.length > limit && last) return { requests, nextCursor: writeListCursor(list, placeOf(last)) }
    if (!next) return { requests, nextCursor: null }
    if (passed >= SCANNED_AT_MOST || filter.requestId !== undefined)
      return { requests, nextCursor: writeListCursor(list, next) }
    reached = next
  }
}

const dayOf = (instant: string) => `(${instant}::timestamptz at time zone 'UTC')::date`
const latestFirst = 'order by last_at desc, n desc'

/**
 * Groups from `reached` on, latest arrival first, with about `wanted` entries; of a request id those that have its hash, among
 * COMPARED_AT_MOST. `next` is where to go on: entries of groups that were not read are not after it. Null when there are none.
 */
async function readGroups(
  db: Db,
  { partnerId, requestId, status, error, from, to }: RequestFilter,
  { after, reached, wanted }: { after: EntryPlace | undefined; reached: EntryPlace | undefined; wanted: number }
): Promise<{ groups: StoredGroup[]; next: EntryPlace | null }> {
  const until = Math.min(after ? after[0] + 1 : Number.POSITIVE_INFINITY, to?.getTime() ?? Number.POSITIVE_INFINITY)
  const bindings = {
    partnerId,
    ...(from ? { from: from.toISOString() } : {}),
    ...(Number.isFinite(until) ? { until: new Date(until).toISOString() } : {}),
    ...(reached ? { lastAt: new Date(reached[0]).toISOString(), lastN: reached[1] } : {})
  }
  const window = [
    'partner_id = :partnerId',
    // A group is of the day on which it was written, soon after the arrivals; the days leave partitions out.
    ...(from ? [`last_at >= :from::timestamptz and day >= ${dayOf(':from')}`] : []),
    ...(Number.isFinite(until)
      ? [
          `from_at < :until::timestamptz and last_at < :until::timestamptz + ${SPAN_MS} * interval '1 millisecond'`,
          `day <= ${dayOf(':until')} + 1`
        ]
      : []),
    ...(reached ? ['(last_at, n) <= (:lastAt::timestamptz, :lastN::bigint)'] : [])
  ].join(' and ')
  // One more than are read, for where to go on.
  const [most, compared] =
    requestId === undefined ? [wanted + 1, ''] : [COMPARED_AT_MOST, 'where :hash::int = any(ids)']
  // What is compared is in the index; only groups that are returned are read themselves.
  const groups = await rows<StoredGroup & { nextAt: Date | null; nextN: number }>(
    db,
    `select g.*, m.next_at as "nextAt", m.next_n as "nextN"
       from (select day, n, last_at, sum(entries) over latest - entries as before,
                    lead(last_at) over latest as next_at, lead(n) over latest as next_n
               from (select day, n, last_at, entries, ids from request_groups where ${window} ${latestFirst} limit :most::int) c
              ${compared} window latest as (${latestFirst})) m
      cross join lateral (select ${columns(':least::int')} from request_groups where day = m.day and n = m.n offset 0) g
      where m.before < :wanted::int
      order by m.last_at desc, m.n desc`,
    {
      ...bindings,
      most,
      wanted,
      least: status ?? (error === undefined ? 0 : 400),
      ...(requestId === undefined ? {} : { hash: hashOfId(requestId) })
    }
  )
  const last = groups.at(-1)
  if (last?.nextAt) return { groups, next: endOf(last.nextAt, last.nextN) }
  if (requestId === undefined) return { groups, next: null }
  const [more] = await rows<{ lastAt: Date; n: number }>(
    db,
    `select last_at as "lastAt", n from request_groups where ${window} ${latestFirst} offset ${COMPARED_AT_MOST} limit 1`,
    bindings
  )
  return { groups, next: more ? endOf(more.lastAt, more.n) : null }
}

/** After every entry of a group. */
const endOf = (lastAt: Date, n: number): EntryPlace => [lastAt.getTime(), n, GROUP]

/** A group's columns; its data only where a status of `least` or more is in it. */
const columns = (
  least: string
) => `partner_id as "partnerId", n, from_at as "fromAt", last_at as "lastAt", entries, shapes,
  case when worst >= ${least} then data end as data`

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
    ms
  }
}

function cursorList({ partnerId, status, error, operation, trader, requestId }: RequestFilter): CursorList {
  return { name: 'requests', partnerId, filters: { status, error, operation, trader, requestId } }
}

// Milliseconds, the number of a group, an index.
const PLACE_DIGITS = [14, 15, 5]

function readCursor(list: CursorList, cursor: string): EntryPlace {
  const place = readListCursor(list, cursor, PLACE_DIGITS.length) ?? placeOfVersionBefore(cursor)
  const isPlace = PLACE_DIGITS.every(
    (digits, part) =>
      Number.isInteger(place[part]) && (place[part] as number) >= 0 && (place[part] as number) < 10 ** digits
  )
  if (!isPlace) throw foreignCursor()
  return place as EntryPlace
}

/** The previous version wrote the parts of a place between commas, without a mark. */
function placeOfVersionBefore(cursor: string): unknown[] {
  const text = Buffer.from(cursor, 'base64url').toString('latin1')
  return /^\d+,\d+,\d+$/.test(text) ? text.split(',').map(Number) : []
}

/** Requests of one partner, or of all, that were written together. */
interface WrittenGroup {
  n: number
  requests: RequestRow[]
}

/** Groups after the number `after` but for those of `shown`, in the order of writing, of one partner or of all. */
export async function tailRequests(
  db: Db,
  {
    partnerId,
    after,
    shown,
    least,
    limit
  }: { partnerId: string | null; after: number; shown: number[]; least: number; limit: number }
): Promise<WrittenGroup[]> {
  const groups = await rows<StoredGroup>(
    db,
    `select ${columns(':least::int')} from request_groups
      where day >= (now() at time zone 'UTC')::date - 1 and n > :after::bigint and n <> all(:shown::bigint[])
        and (:partner::text is null or partner_id = :partnerId)
      order by n limit :limit::int`,
    { partner: partnerId, partnerId, after, shown, least, limit }
  )
  return groups.map(group => ({
    n: group.n,
    requests: readGroup(group, {}).filter(({ status }) => status >= least)
  }))
}

/** The number of the newest group; 0 without one. */
export async function newestRequest(db: Db): Promise<number> {
  const [found] = await rows<{ n: number }>(
    db,
    `select coalesce(max(n), 0) as n from request_groups where day >= (now() at time zone 'UTC')::date - 1`
  )
  return found?.n ?? 0
}

/**
 * Makes the partitions of the coming days and drops those that are not kept any more; also those of `requests`, into which only
 * processes of the previous version write.
 */
export async function keepRequestDays({ db, config }: { db: Db; config: { requestDays: number } }): Promise<void> {
  await makeDays(db, 'request_groups')
  for (const table of ['request_groups', 'requests'] as const)
    await dropDays(db, table, { keepDays: config.requestDays })
}
