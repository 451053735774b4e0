// Writes the request log: each partner's requests to the API and their results. Each process keeps entries in memory for a moment and
// writes them together, away from the requests' path; beyond a bound entries are dropped and counted, never waited for.
import type { Log } from '../platform/log.ts'
import { countUnlogged } from '../platform/metrics.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { lacksPartition, makeDays } from '../postgres/day-partitions.ts'
import { within } from '../postgres/within.ts'
import { addEntry, GROUP, type LoggedRequest, newGroup, type RequestGroup, shapesOf, spanOf } from './request-groups.ts'

export interface RequestLog {
  note(entry: LoggedRequest): void
  /** Writes what was noted so far. Throws when the database does; the entries are kept then. */
  flush(): Promise<void>
  /** The last write at a stop; what cannot be written within that time is counted and lost. */
  close(withinMs?: number): Promise<void>
}

interface RequestLogOptions {
  db: Db
  log: Log
  /** For how many days entries are kept; 0: none is written. */
  keepDays: number
  /** How often entries are written. */
  everyMs?: number
  /** Entries in memory at most. */
  most?: number
}

/** The part of the memory that one partner may fill. */
const SHARE = 0.25
const LAST_WRITE_MS = 5000

/** What of a partner is in memory: the groups that still grow, and the entries of all its groups. */
interface HeldEntries {
  entries: number
  open: RequestGroup[]
}

/** Starts the log of this process. A group that is full is written without waiting for the clock. */
export function openRequestLog({ db, log, keepDays, everyMs = 1000, most = 10_000 }: RequestLogOptions): RequestLog {
  if (keepDays === 0) return { note() {}, async flush() {}, async close() {} }
  const partners = new Map<string, HeldEntries>()
  /** Groups that do not grow any more, in the order of writing. */
  const closed: RequestGroup[] = []
  const share = Math.ceil(most * SHARE)
  let entries = 0
  let dropped = 0
  let writing: Promise<void> = Promise.resolve()
  let fullWaits = false

  async function writeClosed(): Promise<void> {
    fullWaits = false
    while (closed.length > 0) {
      const groups = [...closed]
      try {
        await insertGroups(db, groups)
      } catch (error) {
        if (!lacksPartition(error)) throw error
        // Housekeeping may not have run for days.
        await makeDays(db, 'request_groups')
        await insertGroups(db, groups)
      }
      closed.splice(0, groups.length)
      for (const { partnerId, ids } of groups) release(partnerId, ids.length)
    }
  }

  function release(partnerId: string, count: number): void {
    entries -= count
    const held = partners.get(partnerId)
    if (!held) return
    held.entries -= count
    if (held.entries === 0) partners.delete(partnerId)
  }

  // One after another: groups leave memory only when they are written.
  const write = (): Promise<void> => {
    const next = writing.then(writeClosed)
    writing = next.catch(() => {})
    return next
  }

  const flush = (): Promise<void> => {
    for (const { open } of partners.values()) closed.push(...open.splice(0))
    return write()
  }

  function logDropped(): void {
    if (dropped > 0) log.warn({ requests: dropped }, 'the request log is full: requests were not noted')
    dropped = 0
  }

  const logFailure = (error: unknown) => log.warn({ err: error }, 'the request log waits for the database')
  const timer = setInterval(() => {
    logDropped()
    if (entries > 0) flush().catch(logFailure)
  }, everyMs)
  timer.unref()

  function closeFull({ open }: HeldEntries, group: RequestGroup): void {
    open.splice(open.indexOf(group), 1)
    closed.push(group)
    if (fullWaits) return
    fullWaits = true
    setImmediate(() => write().catch(logFailure))
  }

  return {
    note(entry) {
      const { partnerId } = entry
      const held = partners.get(partnerId)
      if (entries >= most || (held && held.entries >= share)) {
        dropped += 1
        countUnlogged(1)
        return
      }
      const span = spanOf(entry.startedAt)
      const mine = held ?? { entries: 0, open: [] }
      if (!held) partners.set(partnerId, mine)
      let group = mine.open.findLast(({ startedAt }) => startedAt === span)
      if (!group) {
        group = newGroup(partnerId, span)
        mine.open.push(group)
      }
      addEntry(group, entry)
      mine.entries += 1
      entries += 1
      if (group.ids.length === GROUP) closeFull(mine, group)
    },
    flush,
    async close(withinMs = LAST_WRITE_MS) {
      clearInterval(timer)
      logDropped()
      try {
        await within(withinMs, flush())
      } catch (error) {
        countUnlogged(entries)
        log.error({ err: error, requests: entries }, 'the request log could not be written to its end')
      }
    }
  }
}

// The commit is not waited for on the disk: a crash of the server may take the last moments of the log, and nothing else.
async function insertGroups(db: Db, groups: RequestGroup[]): Promise<void> {
  const now = performance.now()
  await rows(
    db,
    `insert into request_groups (partner_id, day, from_at, last_at, entries, worst, ids, shapes, data)
     select g.partner_id, (clock_timestamp() at time zone 'UTC')::date, g.from_at, g.from_at + g.last_ms * interval '1 millisecond',
            g.entries, g.worst, g.ids::int4[], g.shapes, g.data
       from set_config('synchronous_commit', 'off', true),
            lateral (select r.*, date_trunc('milliseconds', clock_timestamp() - r.ago * interval '1 millisecond') as from_at
                       from unnest(:partners::text[], :agos::float8[], :lasts::int[], :entries::smallint[], :worsts::smallint[],
                                   :ids::text[], :shapes::text[], :data::text[])
                              as r (partner_id, ago, last_ms, entries, worst, ids, shapes, data)) g`,
    {
      partners: groups.map(({ partnerId }) => partnerId),
      agos: groups.map(({ startedAt }) => now - startedAt),
      lasts: groups.map(({ lastMs }) => lastMs),
      entries: groups.map(({ ids }) => ids.length),
      worsts: groups.map(({ worst }) => worst),
      ids: groups.map(({ ids }) => `{${ids.join()}}`),
      shapes: groups.map(shapesOf),
      data: groups.map(({ data }) => data)
    }
  )
}
