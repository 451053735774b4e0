// Deliveries as partners read them: every attempt of 30 days and what waits, and the ways to have events sent again.
import { TypeID } from 'typeid-js'
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId, prefixes } from '../../schemas/fields/ids.ts'
import { MAX_REPLAYS, TEST_TYPE } from '../../schemas/webhooks.ts'
import type { Point } from '../events/cursor.ts'
import { eventIdOf } from '../events/present.ts'
import { PointExpired, readLogState } from '../events/read.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { lockWebhook } from './endpoints.ts'

const DAY_ZERO = `date '1970-01-01'`

interface DeliveryRow {
  id: string
  event_id: string | null
  type: string
  attempt: number
  status: 'PENDING' | 'DELIVERED' | 'RETRYING' | 'FAILED'
  http_status: number | null
  ms: number | null
  error: string | null
  response: string | null
  at: Date
  next_at: Date | null
  replay: boolean
}

/** The id of an attempt on the wire. */
export const deliveryIdOf = (uuid: string): string => TypeID.fromUUID(prefixes.delivery, uuid).toString()

/** The uuid of a new attempt. */
export const newDeliveryId = (): string => TypeID.fromString(newId('delivery')).toUUID()

/** The uuid in an attempt's id; undefined for a text that is none. */
export function readDeliveryId(id: string): string | undefined {
  try {
    const typed = TypeID.fromString(id)
    return typed.getType() === prefixes.delivery ? typed.toUUID() : undefined
  } catch {
    return undefined
  }
}

/** An attempt as its partner sees it. */
export function presentDelivery(row: DeliveryRow) {
  return {
    deliveryId: deliveryIdOf(row.id),
    eventId: row.event_id && eventIdOf(row.event_id),
    type: row.type,
    attempt: row.attempt,
    status: row.status,
    httpStatus: row.http_status,
    ms: row.ms,
    error: row.error,
    response: row.response,
    at: row.at.toISOString(),
    nextAt: row.next_at?.toISOString() ?? null,
    replay: row.replay
  }
}

const attemptColumns = `id, event_id, type, attempt, status, http_status, ms, error, response, at, next_at, replay`
// What has failed before is listed by its attempt; the row that waits is one of its own until it is sent for the first time.
const pendingColumns = `delivery_id as id, event_id, type, attempts + 1 as attempt, 'PENDING' as status, null::int as http_status, null::int as ms,
  null::text as error, null::text as response, created_at as at, next_at, replay`

/** Attempts that a filter passes over for one page, at most. */
export const PASSED_AT_MOST = 10_000

interface DeliveryPageRows {
  deliveries: DeliveryRow[]
  /** The attempt (its uuid) after which the next page begins; null for the last page. */
  next: string | null
}

/**
 * A page of an endpoint's attempts, the newest first, after the attempt `after` (its uuid). With `status` a page may be short, or empty,
 * and still have a next one: it passes over PASSED_AT_MOST attempts.
 */
export async function listDeliveries(
  db: Db,
  {
    endpointId,
    status,
    limit,
    after
  }: { endpointId: string; status: string | null; limit: number; after: string | null }
): Promise<DeliveryPageRows> {
  // None that was attempted is PENDING.
  const passed = status === null ? limit + 1 : status === 'PENDING' ? 0 : PASSED_AT_MOST
  const found = await rows<DeliveryRow & { place: number | null }>(
    db,
    // In one statement, so that what a page passed over is what the next one begins after. The last one that it reaches comes with it.
    sql`with attempted as (
       select * from (
         select *, row_number() over (order by id desc) as place from (
           select ${attemptColumns} from webhook_attempts
            where endpoint_id = :endpointId and id < coalesce(:after::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            order by id desc limit :passed) reached) numbered
        where :status::text is null or status = :status or place = :passed::int
        order by id desc limit :most
     ), waiting as (
       select ${pendingColumns}, null::bigint as place from webhook_pending
        where endpoint_id = :endpointId and attempts = 0 and coalesce(:status::text, 'PENDING') = 'PENDING'
          and delivery_id < coalesce(:after::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by delivery_id desc limit :most
     )
     select * from (select * from attempted union all select * from waiting) as both_kinds order by id desc limit :most`,
    { endpointId, status, passed, most: limit + 1, after }
  )
  const listed = found.filter(row => status === null || row.status === status)
  const deliveries = listed.slice(0, limit)
  const last = listed.length > limit ? deliveries.at(-1) : found.find(({ place }) => place === passed)
  return { deliveries, next: last?.id ?? null }
}

/**
 * Has the event of an attempt sent again now, under its id; returns the delivery that waits. Throws NOT_FOUND, and CONFLICT for a
 * test or an event that is not kept any more.
 */
export async function retryDelivery(
  trx: Db,
  { endpointId, partnerId, deliveryId }: { endpointId: string; partnerId: string; deliveryId: string }
): Promise<DeliveryRow> {
  const uuid = readDeliveryId(deliveryId)
  const missing = new ApiError('NOT_FOUND', `There is no delivery ${deliveryId} of this endpoint.`)
  if (!uuid) throw missing
  type Found = {
    type: string
    position: number | null
    event_day: number | null
    event_id: string | null
    subject: string
    kept: boolean
  }
  const [attempt] = await rows<Found>(
    trx,
    `select a.type, a.position, a.event_day - ${DAY_ZERO} as event_day, a.event_id, a.subject,
            exists (select 1 from events e where e.partner_id = a.partner_id and e.position = a.position
                      and e.day between a.event_day and a.event_day + 1) as kept
       from (select type, position, event_day, event_id, subject, partner_id from webhook_attempts
              where endpoint_id = :endpointId and partner_id = :partnerId and id = :uuid::uuid
             union all
             select type, position, day, event_id, subject, partner_id from webhook_pending
              where endpoint_id = :endpointId and partner_id = :partnerId and delivery_id = :uuid::uuid) a limit 1`,
    { endpointId, partnerId, uuid }
  )
  if (!attempt) throw missing
  if (attempt.type === TEST_TYPE)
    throw new ApiError('CONFLICT', 'A test is in no log and cannot be sent again: send another one.')
  if (!attempt.kept) throw new ApiError('CONFLICT', 'The event of this delivery is not kept any more.')
  // The endpoint before what waits at it, as a worker locks them that writes outcomes.
  await lockWebhook(trx, endpointId)
  const [row] = await rows<DeliveryRow>(
    trx,
    sql`insert into webhook_pending as w (endpoint_id, partner_id, position, day, event_id, type, subject, delivery_id, attempts, replay, next_at)
     values (:endpointId, :partnerId, :position, ${DAY_ZERO} + :day::int, :eventId, :type, :subject, event_id(), 0, true, now())
     on conflict (endpoint_id, position) do update set next_at = now(), replay = true, delivery_id = excluded.delivery_id
     returning ${pendingColumns}`,
    {
      endpointId,
      partnerId,
      position: attempt.position,
      day: attempt.event_day,
      eventId: attempt.event_id,
      type: attempt.type,
      subject: attempt.subject
    }
  )
  await noticeWork(trx, endpointId)
  await endLongPause(trx, endpointId)
  return row as DeliveryRow
}

/**
 * Ends a pause that the endpoint requested: whoever has an event sent again now knows that it takes events. Not the pause of a FAILING
 * endpoint, which is over within 66 s. Its worker has the pause in memory, so that the endpoint is taken from it.
 */
async function endLongPause(trx: Db, endpointId: string): Promise<void> {
  await rows(
    trx,
    `update webhook_endpoints set paused_until = null, worker = null, lease = lease + 1
      where id = :endpointId and paused_until > clock_timestamp() + interval '70 seconds'`,
    { endpointId }
  )
}

/** Has a new delivery noticed: by the worker that holds the endpoint, or the next one that takes it. */
async function noticeWork(trx: Db, endpointId: string): Promise<void> {
  await rows(trx, 'update webhook_endpoints set version = version + 1, next_at = now() where id = :endpointId', {
    endpointId
  })
}

/** Which events are to be sent again: after a point of the log or from an instant on, up to an instant, of some types. */
interface ReplayRange {
  point: Point | null
  since: Date | null
  until: Date | null
  types: readonly string[] | null
}

/** Whether an event `e` happened in a window of time, as SQL; either end may be null. */
const within = (since: string, until: string) =>
  `(${since} is null or e.at >= ${since}) and (${until} is null or e.at < ${until})`

/**
 * Has events that the endpoint has passed sent again, under their ids; returns how many. Throws PointExpired for a point that is not
 * kept, LIMIT_REACHED past the bound on replays.
 */
export async function insertReplay(
  trx: Db,
  { endpointId, partnerId }: { endpointId: string; partnerId: string },
  { point, since, until, types }: ReplayRange
): Promise<number> {
  const state = await readLogState(trx, partnerId)
  if (
    point &&
    (point.epoch !== state.epoch || point.position < state.oldest.position || point.position > state.latest.position)
  )
    throw new PointExpired(state)
  await requireFewReplays(trx, endpointId)
  type Range = { count: number; first: number | null; last: number | null; day: number | null }
  const [range] = await rows<Range>(
    trx,
    // The type filter of the endpoint holds for replays, too.
    `select count(*) as count, min(e.position) as first, max(e.position) as last, min(e.day) - ${DAY_ZERO} as day
       from events e join webhook_endpoints w on w.id = :endpointId
      where e.partner_id = :partnerId and e.position > :position and e.position <= w.position
        and e.day >= ${DAY_ZERO} + :day::int
        and ${within(':since::timestamptz', ':until::timestamptz')}
        and (:types::text[] is null or e.type = any(:types::text[])) and (w.types is null or e.type = any(w.types))`,
    {
      endpointId,
      partnerId,
      position: point?.position ?? 0,
      // An event is written to the log after it happened.
      day: point?.day ?? (since ? Math.floor(since.getTime() / 86_400_000) : 0),
      since,
      until,
      types: types && [...types]
    }
  )
  if (!range || range.count === 0 || range.first === null) return 0
  // Locked only now: counting events may take seconds, and a worker writes the outcomes of all of its endpoints in one statement.
  await lockWebhook(trx, endpointId)
  await requireFewReplays(trx, endpointId)
  await rows(
    trx,
    `insert into webhook_replays (endpoint_id, partner_id, position, day, until_position, types, since, until)
     values (:endpointId, :partnerId, :position, ${DAY_ZERO} + :day::int, :last, :types::text[], :since::timestamptz, :until::timestamptz)`,
    {
      endpointId,
      partnerId,
      position: range.first - 1,
      day: range.day,
      last: range.last,
      types: types && [...types],
      since,
      until
    }
  )
  await noticeWork(trx, endpointId)
  return range.count
}

/** Throws LIMIT_REACHED where the endpoint has as many replays as it may have. */
async function requireFewReplays(trx: Db, endpointId: string): Promise<void> {
  const [found] = await rows<{ replays: number }>(
    trx,
    'select count(*) as replays from webhook_replays where endpoint_id = :endpointId',
    { endpointId }
  )
  if ((found?.replays ?? 0) >= MAX_REPLAYS)
    throw new ApiError('LIMIT_REACHED', `${MAX_REPLAYS} replays of this endpoint are under way.`, {
      extras: { limit: MAX_REPLAYS }
    })
}

/**
 * Moves the next events of an endpoint's oldest replay to those that wait, at most `limit`. Returns whether a replay is left. Only
 * for the worker that holds the endpoint under `lease`.
 */
export async function stepReplay(
  db: Db,
  { endpointId, lease, limit }: { endpointId: string; lease: number; limit: number }
): Promise<boolean> {
  const [step] = await rows<{ left: boolean }>(
    db,
    `with held as materialized (
       select w.id, w.types from webhook_endpoints w where w.id = :endpointId and w.lease = :lease for no key update
     ), replay as materialized (
       select r.*, held.types as own_types from webhook_replays r join held on held.id = r.endpoint_id order by r.id limit 1
     ), page as materialized (
       select e.position, e.day, e.id, e.type, e.subject from replay r join events e on e.partner_id = r.partner_id and e.day >= r.day
          and e.position > r.position and e.position <= r.until_position
        where ${within('r.since', 'r.until')} and (r.types is null or e.type = any(r.types)) and (r.own_types is null or e.type = any(r.own_types))
        order by e.day, e.position limit :limit
     ), put as (
       insert into webhook_pending (endpoint_id, partner_id, position, day, event_id, type, subject, delivery_id, attempts, replay, next_at)
       select r.endpoint_id, r.partner_id, p.position, p.day, p.id, p.type, p.subject, event_id(), 0, true, now() from page p cross join replay r
       on conflict (endpoint_id, position) do nothing
     ), reached as (
       select count(*) as count, max(position) as position, max(day) as day from page
     ), moved as (
       update webhook_replays w set position = reached.position, day = reached.day from reached, replay r
        where w.id = r.id and reached.count = :limit returning w.id
     ), ended as (
       delete from webhook_replays w using replay r, reached where w.id = r.id and reached.count < :limit returning w.id
     )
     select exists (select 1 from replay)
        and (select count(*) from webhook_replays r where r.endpoint_id = :endpointId) > (select count(*) from ended) as left`,
    { endpointId, lease, limit }
  )
  return step?.left ?? false
}
