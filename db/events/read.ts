// Reading a partner's part of the event log, from a point on. The partner is in every condition; days before the
// point's own are never read.
import type { EventType } from '../../schemas/events.ts'
import { findArchived } from '../orders/archive.ts'
import type { OrderRow } from '../orders/reading.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import type { Point } from './cursor.ts'

/** An event as the log has it. `order` is its order as it is now, for events of orders. */
export interface EventRow {
  id: string
  partnerId: string
  type: EventType
  subject: string
  position: number
  day: number
  at: Date
  trader: string | null
  facts: Record<string, unknown> | null
  order: OrderRow | null
}

/** How far a partner's log goes. */
export interface LogState {
  epoch: number
  /** Before the oldest event that is kept. */
  oldest: Point
  /** After the newest. */
  latest: Point
}

export interface EventsPage {
  state: LogState
  events: EventRow[]
  /** Where to go on: after the last event of the page, or after what a filter passed over. */
  next: Point
  /** Whether nothing more was there. */
  caughtUp: boolean
}

/** The point's events are not kept, or it is of another epoch; nothing may be skipped in silence. */
export class PointExpired extends Error {
  readonly state: LogState
  constructor(state: LogState) {
    super('The events after this point are not kept any more.')
    this.state = state
  }
}

interface EventSelection {
  types?: readonly string[] | undefined
  /** Only events of these traders; events of the partner itself are left out. */
  traders?: readonly string[] | undefined
}

// Events a filter passes over in one statement.
const SCANNED_AT_MOST = 2000
const DAY_ZERO = `date '1970-01-01'`

const stateOf = `select e.epoch, (e.day - ${DAY_ZERO}) as today, coalesce(p.position, 0) as latest, coalesce(p.dropped, 0) as dropped
   from event_epoch e left join event_positions p on p.partner_id = :partnerId
  where e.single`

interface StateRow {
  epoch: number
  today: number
  latest: number
  dropped: number
}

function oldestAndLatest({ epoch, today, latest, dropped }: StateRow): LogState {
  return {
    epoch,
    oldest: { epoch, position: dropped, day: 0 },
    latest: { epoch, position: latest, day: today }
  }
}

/** How far the partner's log goes now. */
export async function readLogState(db: Db, partnerId: string): Promise<LogState> {
  const [row] = await rows<StateRow>(db, stateOf, { partnerId })
  return oldestAndLatest(row as StateRow)
}

const eventColumns = `e.id as event_id, e.partner_id as event_partner, e.type as event_type, e.subject, e.position as event_position, e.day - ${DAY_ZERO} as event_day,
  e.at as event_at, e.trader, e.facts`

interface PageRow extends StateRow, OrderRow {
  first: number | null
  scanned: number
  scanned_to: number | null
  scanned_day: number | null
  event_id: string | null
  event_partner: string
  event_type: EventType
  subject: string
  event_position: number
  event_day: number
  event_at: Date
  trader: string | null
  facts: Record<string, unknown> | null
}

/** Events with their orders. An order that was archived since is not joined to its event; it is read then. */
async function withOrders(db: Db, found: PageRow[]): Promise<EventRow[]> {
  const missing = found.filter(row => row.id === null && row.event_type.startsWith('order.'))
  if (missing.length === 0) return found.map(splitOrder)
  const archived = await findArchived<OrderRow>(
    db,
    missing.map(({ subject }) => subject)
  )
  const byId = new Map(archived.map(order => [order.id, order]))
  return found.map(row => {
    const order = row.id === null ? byId.get(row.subject) : undefined
    return order?.partner_id === row.event_partner ? { ...splitOrder(row), order } : splitOrder(row)
  })
}

/** A row that has an event beside the columns of its order. */
const splitOrder = (row: PageRow): EventRow => ({
  id: row.event_id as string,
  partnerId: row.event_partner,
  type: row.event_type,
  subject: row.subject,
  position: row.event_position,
  day: row.event_day,
  at: row.event_at,
  trader: row.trader,
  facts: row.facts,
  order: row.id === null ? null : row
})

interface EventsRequest extends EventSelection {
  partnerId: string
  point: Point | undefined
  limit: number
}

// Days are dropped once a day, several of them only after a longer stop.
const READS_FROM_THE_OLDEST = 3

/**
 * The partner's events after `point`, oldest first; `undefined` is before the oldest that is kept. Throws PointExpired.
 */
export async function readEvents(db: Db, { point, ...request }: EventsRequest): Promise<EventsPage> {
  if (point) return readAfter(db, { ...request, point })
  for (let reads = 1; ; reads++) {
    const { oldest } = await readLogState(db, request.partnerId)
    try {
      return await readAfter(db, { ...request, point: oldest })
    } catch (error) {
      // What was the oldest was dropped in between: whoever named no point has not missed anything.
      if (!(error instanceof PointExpired) || reads === READS_FROM_THE_OLDEST) throw error
    }
  }
}

async function readAfter(
  db: Db,
  { partnerId, point: from, limit, types, traders }: EventsRequest & { point: Point }
): Promise<EventsPage> {
  const filtered = types !== undefined || traders !== undefined
  const found = await rows<PageRow>(
    db,
    sql`with state as (${stateOf}), scanned as materialized (
       select e.partner_id, e.day, e.position, e.id, e.type, e.subject, e.at, e.trader, e.facts from events e
        where e.partner_id = :partnerId and e.day >= ${DAY_ZERO} + :day::int and e.position > :position
        order by e.day, e.position limit :scan
     ), page as (
       select * from scanned
        ${filtered ? 'where (:types::text[] is null or type = any(:types::text[])) and (:traders::text[] is null or trader = any(:traders::text[]))' : ''}
        order by day, position limit :limit
     )
     select s.*, c.*, ${eventColumns}, o.*
       from state s
      cross join (select min(position) as first, count(*)::int as scanned, max(position) as scanned_to, max(day) - ${DAY_ZERO} as scanned_day
                    from scanned) c
       left join page e on true
       left join orders o on o.id = e.subject and o.partner_id = e.partner_id and e.type like 'order.%'
      order by e.position`,
    {
      partnerId,
      day: from.day,
      position: from.position,
      scan: filtered ? Math.max(SCANNED_AT_MOST, limit) : limit,
      limit,
      ...(filtered ? { types: types ? [...types] : null, traders: traders ? [...traders] : null } : {})
    }
  )
  const head = found[0] as PageRow
  const state = oldestAndLatest(head)
  const { epoch } = state
  const gone = from.epoch !== epoch || from.position < state.oldest.position || from.position > state.latest.position
  // Positions are dense: a partition that was dropped while this ran shows as a gap.
  const gap = head.first !== null ? head.first !== from.position + 1 : from.position < state.latest.position
  if (gone || gap) throw new PointExpired(gap && !gone ? await readLogState(db, partnerId) : state)
  const events = await withOrders(
    db,
    found.filter(({ event_id }) => event_id !== null)
  )
  const last = events.at(-1)
  const full = events.length === limit && last !== undefined
  const next = full
    ? { epoch, position: last.position, day: last.day }
    : { epoch, position: head.scanned_to ?? from.position, day: head.scanned_day ?? from.day }
  return { state, events, next, caughtUp: next.position === state.latest.position }
}

/**
 * One event of the partner, or of any partner where it is null (for the operator); undefined for another partner's.
 * `uuid` and the instant in it are those of its id.
 */
export async function findEvent(
  db: Db,
  { partnerId, uuid, createdMs }: { partnerId: string | null; uuid: string; createdMs: number }
): Promise<EventRow | undefined> {
  // The day of the log is that of the id, or a day later; after a step of the database's clock that was undone it is days ahead.
  const [found] = await rows<PageRow>(
    db,
    `select ${eventColumns}, o.*
       from events e left join orders o on o.id = e.subject and o.partner_id = e.partner_id and e.type like 'order.%'
      where (:partnerId::text is null or e.partner_id = :partnerId) and e.id = :uuid::uuid
        and e.day >= ${DAY_ZERO} + :day::int - 1`,
    { partnerId, uuid, day: Math.floor(createdMs / 86_400_000) }
  )
  return found && (await withOrders(db, [found]))[0]
}

/** Where an event is in the logs of all partners. */
export interface EventPlace {
  partnerId: string
  /** Days since 1970; it may be up to one day later than this. */
  day: number
  position: number
}

/** Several events by their places, of any partners; those that are not kept are left out. */
export async function findEventsAt(db: Db, places: readonly EventPlace[]): Promise<EventRow[]> {
  if (places.length === 0) return []
  const found = await rows<PageRow>(
    db,
    sql`select ${eventColumns}, o.*
       from jsonb_to_recordset(:places::jsonb) as p ("partnerId" text, day int, position bigint)
       join events e on e.partner_id = p."partnerId" and e.position = p.position
                    and e.day between ${DAY_ZERO} + p.day and ${DAY_ZERO} + p.day + 1
       left join orders o on o.id = e.subject and o.partner_id = e.partner_id and e.type like 'order.%'`,
    { places: JSON.stringify(places) }
  )
  return withOrders(db, found)
}

/**
 * Events of a partner by their positions, of `day` or any day before it; those that are not kept are left out. Most are of that day
 * or the one before, where they are looked for first.
 */
export async function findEventsUpTo(
  db: Db,
  { partnerId, day, positions }: { partnerId: string; day: number; positions: readonly number[] }
): Promise<EventRow[]> {
  if (positions.length === 0) return []
  const found = await rows<PageRow>(
    db,
    sql`with kept as materialized (select min(e.day) - ${DAY_ZERO} as first from events e where e.partner_id = :partnerId)
     select ${eventColumns}, o.*
       from unnest(:positions::bigint[]) as p (position) cross join kept
      cross join lateral (
         select l.* from generate_series(:day::int, kept.first, -1) as d (day)
          cross join lateral (select * from events l where l.partner_id = :partnerId and l.day = ${DAY_ZERO} + d.day
                                 and l.position = p.position limit 1) l
          limit 1) e
       left join orders o on o.id = e.subject and o.partner_id = e.partner_id and e.type like 'order.%'`,
    { partnerId, day, positions: [...positions] }
  )
  return withOrders(db, found)
}

/** The newest position of each partner, for readers of all partners. */
export async function listLatest(db: Db): Promise<{ partnerId: string; position: number }[]> {
  return rows(db, `select partner_id as "partnerId", position from event_positions`)
}
