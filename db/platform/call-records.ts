// What of the broker's call quotas was spent, as far as other workers must know of it. Each worker counts the calls of
// a scope in its memory; a quarter of every quota may be spent without a record, calls beyond it are recorded first.
// The successor of a killed worker counts that quarter as spent, plus the recorded calls.

import { batch, isDataError } from '../postgres/batch.ts'
import { type Db, listing, rows, sql } from '../postgres/connection.ts'

/** Calls of a class, counted against the window of `windowMs`, that are made within `validMs` from now. */
export interface CallRecord {
  class: string
  windowMs: number
  calls: number
  validMs: number
}

/** What other workers may have spent of a scope. */
export interface PastCalls {
  /** How long ago each other worker was last alive that may have spent its unrecorded part; 0 while it lives. */
  counters: { ageMs: number }[]
  /** What they recorded, and how long ago it was spent at the latest (0: it may be spent yet). */
  records: (Pick<CallRecord, 'class' | 'windowMs' | 'calls'> & { ageMs: number })[]
}

/** The records of one scope. */
export interface ScopeRecords {
  /** Notes that this worker counts the scope's calls; returns what others spent. */
  load(): Promise<PastCalls>
  /** Records calls before they are made. */
  record(records: CallRecord[]): Promise<void>
  /** Records what was not recorded so far, and takes the note back that this worker counts. */
  settle(records: CallRecord[]): Promise<void>
}

/** A quota that all workers spend together. */
export interface SharedQuota {
  scope: string
  windows: { windowMs: number; limit: number }[]
}

export interface CallRecords {
  of(scope: string): ScopeRecords
  /** Spends up to `calls` of a shared quota; where none are left, `retryMs` is when some will be. */
  spend(quota: SharedQuota, calls: number): Promise<{ granted: number; retryMs: number }>
}

const HOUR_MS = 3_600_000
// A call of a shared quota reaches the broker within so long.
const SPENT_WITHIN_MS = 2000

/** The records as `worker` keeps them. */
export function openCallRecords(db: Db, worker: string): CallRecords {
  const load = batch((scopes: string[]) => loadCalls(db, worker, scopes), { isolate: isDataError })
  const record = batch(
    async (items: ScopedRecord[]) => {
      await recordCalls(db, worker, items)
      return items
    },
    { isolate: isDataError }
  )
  const settle = batch(
    async (items: { scope: string; records: CallRecord[] }[]) => {
      await settleCalls(db, worker, items)
      return items
    },
    { isolate: isDataError }
  )
  return {
    of: scope => ({
      load: () => load(scope),
      record: async records => void (await Promise.all(records.map(each => record({ scope, ...each })))),
      settle: async records => void (await settle({ scope, records }))
    }),
    spend: (quota, calls) => spendShared(db, worker, quota, calls)
  }
}

type ScopedRecord = CallRecord & { scope: string }

async function loadCalls(db: Db, worker: string, scopes: string[]): Promise<PastCalls[]> {
  const found = await rows<{
    scope: string
    class: string | null
    windowMs: number
    calls: number
    ageMs: number
  }>(
    db,
    // A few scopes among thousands of records, each by its key (`offset 0`): joined freely, all records were read.
    sql`with requested as (select distinct scope from ${listing('scopes')} as a (scope)),
     noted as (
       insert into call_counters (scope, worker) select scope, :worker from requested order by scope
       on conflict (scope, worker) do nothing
     )
     select c.scope, null as class, 0 as "windowMs", 0 as calls,
            greatest(0, extract(epoch from clock_timestamp() - f.lease_until) * 1000)::float8 as "ageMs"
       from requested q
      cross join lateral (select * from call_counters where scope = q.scope and worker <> :worker offset 0) c
       left join lease_holders f on f.name = c.worker
      where f.lease_until is null or f.lease_until > clock_timestamp() - interval '1 hour'
      union all
     select r.scope, r.class, r.window_ms, r.calls,
            greatest(0, extract(epoch from clock_timestamp() - r.spent_until) * 1000)::float8
       from requested q
      cross join lateral (select * from call_records where scope = q.scope and spent_until > now() - interval '1 hour' offset 0) r
      where r.worker <> :worker and r.spent_until > clock_timestamp() - r.window_ms * interval '1 millisecond'`,
    { scopes: [...new Set(scopes)], worker }
  )
  const byScope = Map.groupBy(found, ({ scope }) => scope)
  return scopes.map(scope => {
    const past: PastCalls = { counters: [], records: [] }
    for (const { class: name, windowMs, calls, ageMs } of byScope.get(scope) ?? []) {
      // A worker that ended has no lease any more: when it did is not known.
      if (name === null) past.counters.push({ ageMs: ageMs ?? 0 })
      else past.records.push({ class: name, windowMs, calls, ageMs })
    }
    return past
  })
}

async function recordCalls(db: Db, worker: string, records: ScopedRecord[]): Promise<void> {
  if (records.length === 0) return
  await rows(db, inserting, { records: JSON.stringify(records), worker })
}

const inserting = `insert into call_records (scope, worker, class, window_ms, calls, spent_until)
     select r.scope, :worker, r.class, r."windowMs", r.calls, clock_timestamp() + r."validMs" * interval '1 millisecond'
       from jsonb_to_recordset(:records::jsonb) as r (scope text, class text, "windowMs" int, calls int, "validMs" float8)`

async function settleCalls(db: Db, worker: string, items: { scope: string; records: CallRecord[] }[]): Promise<void> {
  const records = items.flatMap(({ scope, records }) => records.map(each => ({ scope, ...each })))
  await rows(
    db,
    `with recorded as (${inserting})
     delete from call_counters where worker = :worker and scope = any(:scopes::text[])`,
    { records: JSON.stringify(records), worker, scopes: items.map(({ scope }) => scope) }
  )
}

async function spendShared(
  db: Db,
  worker: string,
  { scope, windows }: SharedQuota,
  calls: number
): Promise<{ granted: number; retryMs: number }> {
  const limited = windows.filter(({ limit }) => limit > 0)
  if (limited.length === 0) return { granted: calls, retryMs: 0 }
  // One statement: what others wait for is not held while this process waits for the processor.
  const [row] = await rows<{ granted: number; retryMs: number }>(
    db,
    `select granted, retry_ms as "retryMs"
       from spend_calls(:scope, :worker, :calls::int, :windows::jsonb, ${HOUR_MS}, ${SPENT_WITHIN_MS})`,
    { scope, worker, calls, windows: JSON.stringify(limited) }
  )
  return { granted: row?.granted ?? 0, retryMs: row?.retryMs ?? 0 }
}

/** Forgets what no quota counts any more. */
export async function forgetCalls(db: Db): Promise<void> {
  await rows(db, `delete from call_records where spent_until < now() - interval '70 minutes'`)
  await rows(
    db,
    `delete from call_counters c
      where c.since < now() - interval '70 minutes'
        and not exists (select 1 from lease_holders f where f.name = c.worker and f.lease_until > now() - interval '70 minutes')`
  )
}
