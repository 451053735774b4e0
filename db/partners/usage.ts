// How much each partner uses. Requests are counted in memory and written by each process every few seconds in
// one statement, and once more when it stops in order; a process that is killed loses those seconds.
import type { Plan } from '../../schemas/partners.ts'
import type { Log } from '../platform/log.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { within } from '../postgres/within.ts'

interface CountedCalls {
  partnerId: string
  /** The good key the request came with. */
  keyId?: string | undefined
  status: number
}

export interface UsageCounter {
  count(request: CountedCalls): void
  /** Writes what was counted so far. Throws when the database does; the counts are kept then. */
  flush(): Promise<void>
  /** The last write at a stop; what cannot be written within that time is logged and lost. */
  close(withinMs?: number): Promise<void>
}

interface Tally {
  requests: number
  errors: number
}

const HOUR_MS = 3_600_000
const LAST_TRIES = 3
const LAST_WRITE_MS = 10_000

/** Starts counting. `everyMs` is how often the counts are written. */
export function openUsage({ db, log, everyMs = 5000 }: { db: Db; log: Log; everyMs?: number }): UsageCounter {
  // One entry per partner and hour, and one per key: bounded by what exists.
  let tallies = new Map<string, Map<number, Tally>>()
  let keys = new Map<string, number>()
  let underWay: typeof tallies = new Map()
  let writing: Promise<void> = Promise.resolve()

  function add(partnerId: string, hour: number, { requests, errors }: Tally): void {
    const hours = tallies.get(partnerId) ?? new Map<number, Tally>()
    const tally = hours.get(hour) ?? { requests: 0, errors: 0 }
    hours.set(hour, { requests: tally.requests + requests, errors: tally.errors + errors })
    tallies.set(partnerId, hours)
  }

  async function write(): Promise<void> {
    if (tallies.size === 0 && keys.size === 0) return
    const [counted, used] = [tallies, keys]
    underWay = tallies
    tallies = new Map()
    keys = new Map()
    try {
      await db.transaction(async trx => {
        await addHours(trx, counted)
        await touchKeys(trx, used)
      })
    } catch (error) {
      for (const [partnerId, hours] of counted) for (const [hour, tally] of hours) add(partnerId, hour, tally)
      for (const [keyId, at] of used) keys.set(keyId, Math.max(at, keys.get(keyId) ?? 0))
      throw error
    } finally {
      underWay = new Map()
    }
  }

  // One after another, so that nothing counted before a flush is still under way when it ends.
  const flush = (): Promise<void> => {
    const next = writing.then(write)
    writing = next.catch(() => {})
    return next
  }

  async function writeAll(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await flush()
      } catch (error) {
        if (attempt === LAST_TRIES) throw error
      }
    }
  }

  const timer = setInterval(() => {
    flush().catch((error: unknown) => log.warn({ err: error }, 'usage counts wait for the database'))
  }, everyMs)
  timer.unref()

  return {
    count({ partnerId, keyId, status }) {
      const now = Date.now()
      add(partnerId, now - (now % HOUR_MS), { requests: 1, errors: status >= 400 ? 1 : 0 })
      if (keyId) keys.set(keyId, now)
    },
    flush,
    async close(withinMs = LAST_WRITE_MS) {
      clearInterval(timer)
      try {
        await within(withinMs, writeAll())
      } catch (error) {
        const lost = [...tallies, ...underWay].map(([partnerId, hours]) => ({ partnerId, hours: [...hours.values()] }))
        log.error({ err: error, lost }, 'usage counts could not be written')
      }
    }
  }
}

// Both in the order of their keys, so that two processes never deadlock.
async function addHours(trx: Db, counted: Map<string, Map<number, Tally>>): Promise<void> {
  const flat = [...counted].flatMap(([partnerId, hours]) => [...hours].map(([hour, t]) => ({ partnerId, hour, ...t })))
  if (flat.length === 0) return
  await trx.raw(
    `insert into usage_hours (partner_id, hour, requests, errors)
     select * from unnest(cast(:partners as text[]), cast(:hours as timestamptz[]), cast(:requests as bigint[]),
       cast(:errors as bigint[])) as t (partner_id, hour, requests, errors)
      order by partner_id collate "C", hour
     on conflict (partner_id, hour) do update
       set requests = usage_hours.requests + excluded.requests, errors = usage_hours.errors + excluded.errors`,
    {
      partners: flat.map(({ partnerId }) => partnerId),
      hours: flat.map(({ hour }) => new Date(hour).toISOString()),
      requests: flat.map(({ requests }) => requests),
      errors: flat.map(({ errors }) => errors)
    }
  )
}

async function touchKeys(trx: Db, used: Map<string, number>): Promise<void> {
  if (used.size === 0) return
  await trx.raw(
    `with used as (
       select k.id, t.at
         from api_keys k
         join unnest(cast(:ids as text[]), cast(:times as timestamptz[])) as t (id, at) on t.id = k.id
        order by k.id
          for no key update of k
     )
     update api_keys k set last_used_at = greatest(k.last_used_at, used.at) from used where k.id = used.id`,
    { ids: [...used.keys()], times: [...used.values()].map(at => new Date(at).toISOString()) }
  )
}

export interface UsageRecord {
  periodStart: Date
  periodEnd: Date
  plan: Plan
  /** By day in UTC, oldest first. */
  byDay: { date: string; requests: number; errors: number }[]
  orders: { placed: number; closed: number; failed: number }
  traders: number
}

/** The partner's usage in its present billing period; requests are counted by whole hours. */
export async function readUsage(db: Db, partnerId: string): Promise<UsageRecord> {
  const [period] = await rows<Omit<UsageRecord, 'byDay' | 'orders'>>(
    db,
    `select plan, period_start as "periodStart", period_end as "periodEnd",
            (select count(*) from traders t where t.partner_id = p.id) as traders
       from partners p where id = :partnerId`,
    { partnerId }
  )
  if (!period) throw new Error(`There is no partner ${partnerId}.`)
  const since = { partnerId, start: period.periodStart }
  const [byDay, orders] = await Promise.all([
    rows<{ date: string; requests: number; errors: number }>(
      db,
      `select to_char(hour at time zone 'UTC', 'YYYY-MM-DD') as date, cast(sum(requests) as bigint) as requests,
              cast(sum(errors) as bigint) as errors
         from usage_hours
        where partner_id = :partnerId and hour >= date_trunc('hour', cast(:start as timestamptz), 'UTC')
        group by 1 order by 1`,
      since
    ),
    // Read from the index orders_page_status alone.
    rows<{ status: string; count: number }>(
      db,
      `select status, sum(count)::bigint as count from (
         select status, count(*) as count from orders
          where partner_id = :partnerId and status in ('PENDING', 'OPEN', 'CLOSED', 'FAILED') and created_at >= :start
          group by status
         -- A period may be longer than orders stay there.
         union all
         select status, count(*) from orders_archive where partner_id = :partnerId and created_at >= :start group by status) both_tables
        group by status`,
      since
    )
  ])
  const of = (status: string) => orders.find(row => row.status === status)?.count ?? 0
  return {
    ...period,
    byDay,
    orders: {
      placed: orders.reduce((sum, { count }) => sum + count, 0),
      closed: of('CLOSED'),
      failed: of('FAILED')
    }
  }
}

/** Deletes counts older than 400 days. */
export async function deleteOldUsage(db: Db): Promise<void> {
  await db.raw(`delete from usage_hours where hour < now() - interval '400 days'`)
}
