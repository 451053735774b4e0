// A worker's writes while it delivers: outcomes of attempts, of all its endpoints at once, in one statement. Outcomes
// of an endpoint that another worker holds by now are left out.
import { type Db, rows } from '../postgres/connection.ts'

/** Where an endpoint is; times are ms from now. */
export interface Progress {
  id: string
  lease: number
  position: number
  day: number
  gaps: number[]
  failures: number
  /** Time since the first of an unbroken series of failures; null after a success. */
  failingMs: number | null
  lastError: string | null
  /** For how long nothing is sent; null: no pause. */
  pausedMs: number | null
  missed: number
}

/** An event that is neither delivered nor FAILED. */
export interface PendingRow {
  endpointId: string
  partnerId: string
  position: number
  day: number
  eventId: string
  type: string
  subject: string
  deliveryId: string
  attempts: number
  replay: boolean
  /** ms from now. */
  nextMs: number
}

/** A row of webhook_pending to be written, with the ids that it has had: one under another id was added since, and stays. */
export interface WaitingRow extends PendingRow {
  rows: string[]
}

export interface AttemptRow {
  endpointId: string
  partnerId: string
  id: string
  eventId: string | null
  position: number | null
  eventDay: number | null
  type: string
  subject: string | null
  attempt: number
  status: 'DELIVERED' | 'RETRYING' | 'FAILED'
  httpStatus: number | null
  ms: number | null
  error: string | null
  response: string | null
  /** How long ago it was sent, ms. */
  agoMs: number
  nextMs: number | null
  replay: boolean
}

export interface Outcomes {
  progress: Progress[]
  pending: WaitingRow[]
  /** Rows of webhook_pending that are done, with the ids that they have had; under another id an event is to be sent again. */
  done: { endpointId: string; position: number; rows: string[] }[]
  attempts: AttemptRow[]
}

const DAY_ZERO = `date '1970-01-01'`
const inMs = (column: string) => `clock_timestamp() + ${column} * interval '1 millisecond'`
const TODAY = `(clock_timestamp() at time zone 'UTC')::date`

const inserted = `insert into webhook_attempts (endpoint_id, partner_id, day, id, event_id, position, event_day, type, subject, attempt,
    status, http_status, ms, error, response, at, next_at, replay)
  select a."endpointId", a."partnerId", ${TODAY}, a.id, a."eventId", a.position, ${DAY_ZERO} + a."eventDay", a.type, a.subject, a.attempt,
         a.status, a."httpStatus", a.ms, a.error, a.response, ${inMs('-a."agoMs"')}, ${inMs('a."nextMs"')}, a.replay
    from jsonb_to_recordset(:attempts::jsonb) as a ("endpointId" text, "partnerId" text, id uuid, "eventId" uuid, position bigint,
           "eventDay" int, type text, subject text, attempt int, status text, "httpStatus" int, ms int, error text, response text,
           "agoMs" float8, "nextMs" float8, replay boolean)`

// An attempt is stored under the day on which it is written: on the next day its key is another one.
const notWritten = `where not exists (select from webhook_attempts w where w.endpoint_id = a."endpointId" and w.id = a.id)`

/**
 * Writes outcomes; returns the endpoints that are still the worker's, with their versions. With `again` some of them may have been
 * written before, by a statement whose acknowledgement was lost.
 */
export async function writeOutcomes(
  db: Db,
  worker: string,
  { progress, pending, done, attempts }: Outcomes,
  { again = false }: { again?: boolean } = {}
): Promise<{ id: string; version: number }[]> {
  return rows(
    db,
    `with held as (
       update webhook_endpoints e
          set position = g.position, day = ${DAY_ZERO} + g.day, gaps = g.gaps, failures = g.failures,
              failing_since = case when g."failingMs" is null then null else coalesce(e.failing_since, ${inMs('-g."failingMs"')}) end,
              last_error = g."lastError", paused_until = ${inMs('g."pausedMs"')}, missed = g.missed
         from jsonb_to_recordset(:progress::jsonb) as g (id text, lease int, position bigint, day int, gaps bigint[], failures int,
                "failingMs" float8, "lastError" text, "pausedMs" float8, missed bigint)
        where e.id = g.id and e.lease = g.lease and e.worker = :worker
       returning e.id, e.version
     ), given as materialized (
       select * from jsonb_to_recordset(:pending::jsonb) as p ("endpointId" text, "partnerId" text, position bigint, day int, "eventId" uuid,
                type text, subject text, "deliveryId" uuid, attempts int, replay boolean, "nextMs" float8, rows uuid[])
     ), put as (
       insert into webhook_pending as w (endpoint_id, partner_id, position, day, event_id, type, subject, delivery_id, attempts, replay, next_at)
       select p."endpointId", p."partnerId", p.position, ${DAY_ZERO} + p.day, p."eventId", p.type, p.subject, p."deliveryId", p.attempts,
              p.replay, ${inMs('p."nextMs"')}
         from given p join held on held.id = p."endpointId"
       on conflict (endpoint_id, position) do update
         set attempts = excluded.attempts, next_at = excluded.next_at, delivery_id = excluded.delivery_id, replay = excluded.replay
         -- A retry that was requested during the attempt stays: its worker reads it after this.
         where not w.replay
            or exists (select from given g where g."endpointId" = w.endpoint_id and g.position = w.position and w.delivery_id = any(g.rows))
     ), gone as (
       delete from webhook_pending w
        using jsonb_to_recordset(:done::jsonb) as d ("endpointId" text, position bigint, rows uuid[]) join held on held.id = d."endpointId"
        where w.endpoint_id = d."endpointId" and w.position = d.position and w.delivery_id = any(d.rows)
     ), logged as (
       ${inserted} join held on held.id = a."endpointId" ${again ? notWritten : ''}
       on conflict do nothing
     )
     select id, version from held`,
    {
      worker,
      progress: JSON.stringify(progress),
      pending: JSON.stringify(pending),
      done: JSON.stringify(done),
      attempts: JSON.stringify(attempts)
    }
  )
}

/** Writes an attempt of a test, which belongs to no event. */
export async function writeTestAttempt(db: Db, attempt: AttemptRow): Promise<void> {
  await rows(db, inserted, { attempts: JSON.stringify([attempt]) })
}

/** The events that wait at an endpoint; `nextMs` from now. */
export async function listPending(db: Db, endpointId: string): Promise<PendingRow[]> {
  return rows<PendingRow>(
    db,
    `select endpoint_id as "endpointId", partner_id as "partnerId", position, day - ${DAY_ZERO} as day, event_id as "eventId", type, subject,
            delivery_id as "deliveryId", attempts, replay,
            (extract(epoch from next_at - clock_timestamp()) * 1000)::float8 as "nextMs"
       from webhook_pending where endpoint_id = :endpointId order by position`,
    { endpointId }
  )
}

/** For how many days attempts are kept. */
export const ATTEMPT_DAYS = 30
