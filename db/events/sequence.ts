// The sequencer: moves events from the outbox into the log and gives them their positions. Any process may run it at any time;
// an advisory lock lets one run at a time, so positions of a partner are dense and agree with the order of commits. A run after
// each commit makes it fast, a slow clock finds what a process left that died in between.
import { EVENTS } from '../platform/bus.ts'
import { notifying } from '../platform/hints.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { dropDays, makeDays } from '../postgres/day-partitions.ts'

/** Events moved by one statement, at most. */
export const SEQUENCED_AT_ONCE = 500

const LOCK = 724_202

/** A partner whose log has grown. */
interface Grown {
  partnerId: string
  /** Its newest position. */
  position: number
}

interface Sequenced {
  /** How many events were moved; SEQUENCED_AT_ONCE when there may be more. */
  count: number
  grown: Grown[]
}

const grownNotified = `, ${notifying(`select '${EVENTS}', 'events ' || partner_id from moved`)}`

/**
 * Moves the oldest events of the outbox into the log: one statement, its own transaction. The lock is waited for within it, on
 * a snapshot from before: what was committed in the meantime is left to its own writer, or to the next run. Events of one record
 * are in the order of their ids, since a row is locked while its events are written; a snapshot that has a later one of a record
 * has the earlier ones, too, or they are in the log. With `notify` the sequencers' listeners are notified; without, that is the
 * caller's.
 */
export async function sequenceEvents(db: Db, { notify = false }: { notify?: boolean } = {}): Promise<Sequenced> {
  const found = await rows<Grown & { count: number }>(
    db,
    // `single` shows the planner that it is one row: for a table that was never analysed it assumes thousands, and
    // compiles.
    `with locked as materialized (select pg_advisory_xact_lock(${LOCK})),
     taken as (
       delete from event_outbox
        where id = any(array(select o.id from locked cross join event_outbox o order by o.id limit ${SEQUENCED_AT_ONCE}))
       returning id, partner_id, type, subject, trader, at, facts
     ), counted as (
       select partner_id, count(*) as count from taken group by partner_id
     ), moved as (
       insert into event_positions as p (partner_id, position)
       select partner_id, count from counted order by partner_id
       on conflict (partner_id) do update set position = p.position + excluded.position
       returning partner_id, position
     ), today as (
       -- The day that the run before this one wrote to, which may be newer than the snapshot. The clock may have gone back since.
       select greatest(e.day, (clock_timestamp() at time zone 'UTC')::date) as day
         from (select from taken limit 1) any_taken cross join event_epoch e where e.single for no key update of e
     ), turned as (
       update event_epoch e set day = today.day from today where e.single and e.day < today.day
     ), logged as (
       insert into events (partner_id, day, position, id, type, subject, trader, at, facts)
       select t.partner_id, today.day,
              m.position - c.count + row_number() over (partition by t.partner_id order by t.id),
              event_id(), t.type, t.subject, t.trader, t.at, t.facts
         from taken t join counted c using (partner_id) join moved m using (partner_id) cross join today
     )${notify ? grownNotified : ''}
     select m.partner_id as "partnerId", m.position, c.count${notify ? ', (select messages from woken) as messages' : ''}
       from moved m join counted c using (partner_id)`
  )
  return {
    count: found.reduce((sum, { count }) => sum + count, 0),
    grown: found.map(({ partnerId, position }) => ({ partnerId, position }))
  }
}

/** Makes the partitions of the coming days; safe to repeat and by several at once. Returns how many were made. */
export async function makeEventDays(db: Db): Promise<number> {
  const first = `(select greatest(day, (now() at time zone 'UTC')::date) from event_epoch)`
  return makeDays(db, 'events', { lock: LOCK, first })
}

/** Drops the days that are older than `keepDays`; returns how many. One that is being read stays until the next time. */
export async function dropEventDays(db: Db, keepDays: number): Promise<number> {
  return dropDays(db, 'events', { keepDays, lock: LOCK })
}

/** The outbox now: events not in the log yet, and for how long the oldest has waited, in seconds. */
export async function readOutbox(db: Db): Promise<{ depth: number; oldestSeconds: number }> {
  const [found] = await rows<{ depth: number; oldestSeconds: number }>(
    db,
    `select count(*) as depth, coalesce(extract(epoch from clock_timestamp() - min(at)), 0)::float8 as "oldestSeconds" from event_outbox`
  )
  return found ?? { depth: 0, oldestSeconds: 0 }
}

/** For how many days after today the log has partitions. */
export async function countDaysAhead(db: Db): Promise<number> {
  const [found] = await rows<{ days: number }>(
    db,
    `select count(*) as days from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'events'::regclass and right(c.relname, 8) > to_char(now() at time zone 'UTC', 'YYYYMMDD')`
  )
  return found?.days ?? 0
}

/** Gives the log a new epoch: every cursor given out so far is expired. Returns it. */
export async function newEventEpoch(trx: Db): Promise<number> {
  const [row] = await rows<{ epoch: number }>(
    trx,
    // Random, since the epochs that a restored database never had must not come again.
    `update event_epoch set epoch = case when random.epoch = event_epoch.epoch then random.epoch % 2000000000 + 1 else random.epoch end
       from (select 1 + floor(random() * 2000000000)::int as epoch) random
     returning event_epoch.epoch`
  )
  return (row as { epoch: number }).epoch
}
