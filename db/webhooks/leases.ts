// Which worker delivers to which endpoint. A worker has one lease for all of its endpoints; the endpoints of a worker
// whose lease ran out are taken by the first worker that sees them. `lease` of an endpoint changes each time, and an
// older one writes nothing.
import { type Db, rows } from '../postgres/connection.ts'

/** An endpoint with all that a worker needs to deliver to it. */
export interface HeldRow {
  id: string
  partner_id: string
  url: string
  types: string[] | null
  secret_key_id: string
  secret_sealed: Buffer
  old_key_id: string | null
  old_sealed: Buffer | null
  /** For how long the old secret signs, ms from now; null without one. */
  old_ms: number | null
  position: number
  day: number
  gaps: number[]
  failures: number
  last_error: string | null
  /** Time since the first of an unbroken series of failures, or since the partner is in good standing again, ms; null without any. */
  failing_ms: number | null
  /** For how long nothing is to be sent, ms from now; 0 or less: now. */
  paused_ms: number
  missed: number
  lease: number
  version: number
}

const DAY_ZERO = `date '1970-01-01'`
const ms = (interval: string) => `(extract(epoch from ${interval}) * 1000)::float8`

const ALIVE = `exists (select 1 from webhook_senders s where s.worker = e.worker and s.lease_until > clock_timestamp())`
// A partner that may not read its events gets none sent; they are sent when it is in good standing again.
const IN_STANDING = `exists (select 1 from partners p where p.id = e.partner_id and p.suspended_at is null and p.plan_active)`

// Time without good standing does not count as time of failures, since nothing is tried then.
const FAILING_SINCE = `greatest(e.failing_since, (select p.active_since from partners p where p.id = e.partner_id))`

/** Renews the worker's lease. */
export async function renewSender(db: Db, worker: string, leaseMs: number): Promise<void> {
  await rows(
    db,
    `insert into webhook_senders (worker, lease_until) values (:worker, clock_timestamp() + :leaseMs * interval '1 millisecond')
     on conflict (worker) do update set lease_until = excluded.lease_until`,
    { worker, leaseMs }
  )
}

/** What the database has the worker hold: the lease of each endpoint and its version; and whether its partner is in good standing. */
export async function listHeld(
  db: Db,
  worker: string
): Promise<{ id: string; lease: number; version: number; standing: boolean }[]> {
  return rows(
    db,
    `select e.id, e.lease, e.version, ${IN_STANDING} as standing from webhook_endpoints e where e.worker = :worker`,
    { worker }
  )
}

/**
 * Takes endpoints for `worker` that have something to do and that no living worker holds: of some partners, one endpoint, or of
 * all (null). At most `limit`.
 */
export async function takeEndpoints(
  db: Db,
  {
    worker,
    limit,
    partnerIds = null,
    endpointId = null
  }: { worker: string; limit: number; partnerIds?: readonly string[] | null; endpointId?: string | null }
): Promise<HeldRow[]> {
  return rows<HeldRow>(
    db,
    `with due as (
       select e.id from webhook_endpoints e left join event_positions p on p.partner_id = e.partner_id
        where e.enabled and (:partnerIds::text[] is null or e.partner_id = any(:partnerIds::text[])) and (:endpointId::text is null or e.id = :endpointId)
          and (e.worker is null or not ${ALIVE}) and ${IN_STANDING}
          and (e.next_at <= clock_timestamp() or e.worker is not null
               or (p.position > e.position and (e.paused_until is null or e.paused_until <= clock_timestamp())))
        order by e.id limit :limit for update of e skip locked)
     update webhook_endpoints e set worker = :worker, lease = e.lease + 1 from due where e.id = due.id
     returning e.id, e.partner_id, e.url, e.types, e.secret_key_id, e.secret_sealed, e.old_key_id, e.old_sealed,
       ${ms('e.old_until - clock_timestamp()')} as old_ms, e.position, e.day - ${DAY_ZERO} as day, e.gaps::text[]::float8[] as gaps,
       e.failures, e.last_error, case when e.failing_since is not null then ${ms(`clock_timestamp() - ${FAILING_SINCE}`)} end as failing_ms,
       coalesce(${ms('e.paused_until - clock_timestamp()')}, 0) as paused_ms, e.missed, e.lease, e.version`,
    { worker, limit, partnerIds: partnerIds && [...partnerIds], endpointId }
  )
}

/**
 * Gives endpoints back that have nothing to do, that this worker cannot send to, or whose partner is not in good standing; the next
 * waiting item and the pause set when they are due.
 */
export async function releaseEndpoints(
  db: Db,
  worker: string,
  leases: readonly { id: string; lease: number }[]
): Promise<void> {
  if (leases.length === 0) return
  await rows(
    db,
    `update webhook_endpoints e
        set worker = null, lease = e.lease + 1,
            next_at = case when cardinality(e.gaps) > 0 or exists (select 1 from webhook_replays r where r.endpoint_id = e.id)
                           then greatest(now(), e.paused_until)
                           -- Where nothing waits, a pause that is over would have it taken again and again.
                           else greatest((select min(w.next_at) from webhook_pending w where w.endpoint_id = e.id),
                                         case when e.paused_until > now() then e.paused_until end) end
       from jsonb_to_recordset(:leases::jsonb) as g (id text, lease int)
      where e.id = g.id and e.lease = g.lease and e.worker = :worker`,
    { worker, leases: JSON.stringify(leases) }
  )
}

/** Gives back everything the worker holds, and its lease. */
export async function releaseSender(db: Db, worker: string): Promise<void> {
  const held = await rows<{ id: string; lease: number }>(
    db,
    'select id, lease from webhook_endpoints where worker = :worker',
    { worker }
  )
  await releaseEndpoints(db, worker, held)
  await rows(db, 'delete from webhook_senders where worker = :worker', { worker })
}

/** Deletes the leases of workers that are gone. */
export async function forgetSenders(db: Db): Promise<void> {
  await rows(
    db,
    `delete from webhook_senders s where s.lease_until < clock_timestamp() - interval '1 hour'
        and not exists (select 1 from webhook_endpoints e where e.worker = s.worker)`
  )
}

/** Disables an endpoint that its worker gave up, with the event for the other readers of the log. Returns whether it was still its. */
export async function disableEndpoint(
  db: Db,
  { worker, id, lease, reason }: { worker: string; id: string; lease: number; reason: 'GONE' | 'FAILURES' }
): Promise<boolean> {
  const done = await rows(
    db,
    `with disabled as (
       update webhook_endpoints e
          set enabled = false, disabled_reason = :reason, disabled_at = now(), worker = null, lease = e.lease + 1
        where e.id = :id and e.lease = :lease and e.worker = :worker and e.enabled
       returning e.*
     )
     insert into event_outbox (partner_id, type, subject, facts)
     select partner_id, 'webhook.disabled', id,
            jsonb_build_object('id', id, 'url', url, 'types', types, 'description', description, 'enabled', enabled,
              'disabled_reason', disabled_reason, 'failures', failures, 'failing_since', failing_since, 'last_error', last_error,
              'missed', missed, 'created_at', created_at)
       from disabled returning id`,
    { worker, id, lease, reason }
  )
  return done.length > 0
}
