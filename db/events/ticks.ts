// Live prices: the assets the api processes need, and the lease of the one worker that forwards the ticks of a dialect.
// Ticks themselves are never stored.
import { type Db, rows } from '../postgres/connection.ts'

/** The bus channel of a dialect's ticks: topic `tick` with `term asset epoch price`, topic `unknown` with `term asset`. */
export const tickChannelOf = (dialect: string): string => `svc_ticks_${dialect}`

/** The queue-like topic that notifies workers of changes of the wanted assets. */
export const TICKS = 'ticks'

/** The assets of a dialect that one api process needs. */
export interface TickWant {
  process: string
  dialect: string
  appIds: string[]
  assets: string[]
}

/** Stores the assets a process needs for `forMs` from now; removes the row without assets. */
export async function putTickWant(
  db: Db,
  { process, dialect, appIds, assets }: TickWant,
  forMs: number
): Promise<void> {
  if (assets.length === 0) {
    await rows(db, 'delete from tick_wants where process = :process and dialect = :dialect', { process, dialect })
    return
  }
  await rows(
    db,
    `insert into tick_wants as w (process, dialect, app_ids, assets, wanted_until)
     values (:process, :dialect, :appIds, :assets, clock_timestamp() + :forMs * interval '1 millisecond')
     on conflict (process, dialect) do update
        set app_ids = excluded.app_ids, assets = excluded.assets, wanted_until = excluded.wanted_until`,
    { process, dialect, appIds, assets, forMs }
  )
}

/** The assets of a dialect that any process needs. */
export interface WantedTicks {
  dialect: string
  /** Sorted, each once. */
  appIds: string[]
  assets: string[]
  processes: number
  /** For how long at least one process has wanted some. */
  forSeconds: number
  /** The worker that forwards them; null where none does. */
  worker: string | null
}

/** What is wanted now, by dialect. */
export async function listWantedTicks(db: Db): Promise<WantedTicks[]> {
  return rows<WantedTicks>(
    db,
    `with wanted as (
       select dialect, app_ids, assets, wanted_since from tick_wants where wanted_until > clock_timestamp()
     )
     select w.dialect, count(*)::int as processes,
            extract(epoch from clock_timestamp() - min(w.wanted_since))::float8 as "forSeconds",
            array(select distinct unnest(o.app_ids) from wanted o where o.dialect = w.dialect order by 1) as "appIds",
            array(select distinct unnest(o.assets) from wanted o where o.dialect = w.dialect order by 1) as assets,
            (select l.worker from tick_leases l where l.dialect = w.dialect and l.lease_until > clock_timestamp()) as worker
       from wanted w group by w.dialect order by w.dialect`
  )
}

/**
 * Takes or extends the lease of a dialect's ticks for `forMs`; returns its term, or null while another worker has it.
 */
export async function leaseTicks(
  db: Db,
  { dialect, worker, forMs }: { dialect: string; worker: string; forMs: number }
): Promise<number | null> {
  const [lease] = await rows<{ term: number }>(
    db,
    `insert into tick_leases as l (dialect, worker, term, lease_until)
     values (:dialect, :worker, 1, clock_timestamp() + :forMs * interval '1 millisecond')
     on conflict (dialect) do update
        set worker = excluded.worker, lease_until = excluded.lease_until,
            term = case when l.worker = excluded.worker and l.lease_until > clock_timestamp() then l.term else l.term % 2000000000 + 1 end
      where l.worker = excluded.worker or l.lease_until <= clock_timestamp()
     returning l.term`,
    { dialect, worker, forMs }
  )
  return lease?.term ?? null
}

/** Ends the leases of a worker that stops; returns whether it had any. */
export async function releaseTicks(db: Db, worker: string): Promise<boolean> {
  const ended = await rows(
    db,
    `update tick_leases set lease_until = clock_timestamp() where worker = :worker and lease_until > clock_timestamp()
     returning dialect`,
    { worker }
  )
  return ended.length > 0
}

/** Forgets what processes wanted that are gone for a day. */
export async function deleteOldTickWants(db: Db): Promise<void> {
  await rows(db, `delete from tick_wants where wanted_until < clock_timestamp() - interval '1 day'`)
}
