// The archive by months: what is in it, what is still to move, its export, and the end of a month that was exported.
import { hash } from 'node:crypto'
import { orderIdAt } from '../../schemas/fields/ids.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { CLOCK_SLACK_MS } from './archive.ts'
import { archivedBefore, wasOver } from './archiving.ts'

interface ArchiveMonth {
  /** YYYY-MM. */
  month: string
  orders: number
  bytes: number
  /** Orders that were dropped. */
  dropped: number
  droppedAt: Date | null
}

interface ArchiveStatus {
  months: ArchiveMonth[]
  orders: number
  bytes: number
  /** Size of the table of clientOrderIds, which dropping a month does not reduce. */
  namesBytes: number
}

/** What the archive holds, oldest month first. */
export async function readArchive(db: Db): Promise<ArchiveStatus> {
  const months = await rows<ArchiveMonth>(
    db,
    `select to_char(month, 'YYYY-MM') as month, orders, coalesce(pg_total_relation_size(to_regclass(archive_partition(month))), 0) as bytes,
            dropped, dropped_at as "droppedAt"
       from archive_months order by archive_months.month`
  )
  const [names] = await rows<{ bytes: number }>(db, `select pg_total_relation_size('archived_names') as bytes`)
  return {
    months,
    orders: months.reduce((sum, { orders }) => sum + orders, 0),
    bytes: months.reduce((sum, { bytes }) => sum + bytes, 0),
    namesBytes: names?.bytes ?? 0
  }
}

interface Unmoved {
  /** Orders that may move now, counted up to `most`. */
  orders: number
  /** When the first of them ended; null when there is none. */
  oldestEnded: Date | null
}

/** What is to move with orders archived after so many days; none for 0, which is never. */
export async function readUnmoved(db: Db, { days, most }: { days: number; most: number }): Promise<Unmoved> {
  if (days === 0) return { orders: 0, oldestEnded: null }
  const before = archivedBefore(days)
  const [found] = await rows<Unmoved>(
    db,
    `select count(*)::int as orders, min(ended) as "oldestEnded"
       from (select coalesce(closed_at, expires_at) as ended from orders where id < :beyond and ${wasOver(':before')} order by id limit :most) o`,
    { before, beyond: orderIdAt(before.getTime() + CLOCK_SLACK_MS), most }
  )
  return found as Unmoved
}

/** From the first instant of a month (YYYY-MM) to that of the next, as bindings. */
function boundsOf(month: string): { from: Date; to: Date } {
  const from = new Date(`${month}-01T00:00:00Z`)
  return { from, to: new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1)) }
}

const FETCHED = 1000
const CURSOR = 'exported_orders'

/** The archived orders of a month (YYYY-MM), oldest first, each as the text of a JSON object, in batches. */
export async function* exportMonth(trx: Db, month: string): AsyncGenerator<string[]> {
  await trx.raw(`set local timezone = 'UTC'`)
  await rows(
    trx,
    `declare ${CURSOR} no scroll cursor for select to_jsonb(o)::text as line from orders_archive o
      where created_at >= :from and created_at < :to order by id`,
    boundsOf(month)
  )
  for (;;) {
    const found = (await trx.raw(`fetch ${FETCHED} from ${CURSOR}`)).rows as { line: string }[]
    if (found.length > 0) yield found.map(({ line }) => line)
    if (found.length < FETCHED) break
  }
  await trx.raw(`close ${CURSOR}`)
}

/** Counts lines of an export and adds them up as sum_archive_month (schema.sql) does with the orders. */
export class ExportSum {
  orders = 0
  #sum = 0n

  add(line: string): void {
    this.orders += 1
    this.#sum += BigInt(`0x${hash('sha256', line).slice(0, 14)}`)
  }

  get checksum(): string {
    return this.#sum.toString()
  }
}

/** The months before `before` (YYYY-MM) that have a partition, oldest first. */
export async function listMonthsBefore(db: Db, before: string): Promise<string[]> {
  const found = await rows<{ month: string }>(
    db,
    `select to_char(a.month, 'YYYY-MM') as month from archive_months a
      where a.month < :before::date and to_regclass(archive_partition(a.month)) is not null order by a.month`,
    { before: `${before}-01` }
  )
  return found.map(({ month }) => month)
}

/** How many orders of the month are not in the archive, counted up to `most`: they run, or ended not long enough ago. */
export async function countLive(db: Db, month: string, most: number): Promise<number> {
  const { from, to } = boundsOf(month)
  const [found] = await rows<{ orders: number }>(
    db,
    `select count(*)::int as orders
       from (select from orders where id >= :first and id < :beyond and created_at >= :from and created_at < :to limit :most) o`,
    {
      from,
      to,
      first: orderIdAt(from.getTime() - CLOCK_SLACK_MS),
      beyond: orderIdAt(to.getTime() + CLOCK_SLACK_MS),
      most
    }
  )
  return found?.orders ?? 0
}

/**
 * How many orders that are not final may still change sums that contain contracts of the month, counted up to `most`. They were
 * sent no later than on the day on which the last of these contracts ended; sums are recomputed from the orders that exist.
 */
export async function countStillChanging(db: Db, month: string, most: number): Promise<number> {
  const [found] = await rows<{ orders: number }>(
    db,
    `with last as materialized (
       select date_trunc('day', max(greatest(opened_at, closed_at)), 'UTC') + interval '1 day' as at
         from orders_archive where created_at >= :from and created_at < :to
     )
     select count(*)::int as orders
       from (select from last cross join partners p cross join lateral (
               select from orders
                where partner_id = p.id and status in ('PENDING', 'OPEN') and phase in ('sending', 'review', 'open')
                  and created_at < last.at + interval '1 day' and coalesce(opened_at, sent_at) < last.at
                limit :most) o
              limit :most) o`,
    { ...boundsOf(month), most }
  )
  return found?.orders ?? 0
}

/** Whether the event log still has events of the month's orders: they are shown from the orders. */
export async function hasEvents(db: Db, month: string): Promise<boolean> {
  const [found] = await rows<{ some: boolean }>(
    db,
    `select exists (select from events e join orders_archive o on o.id = e.subject
                     where e.type like 'order.%' and o.created_at >= :from and o.created_at < :to) as some`,
    boundsOf(month)
  )
  return found?.some ?? false
}

/** Drops the month if its orders are exactly those that were exported; returns whether it did. Call it in a transaction. */
export async function dropMonth(
  trx: Db,
  { month, orders, checksum }: { month: string; orders: number; checksum: string }
): Promise<boolean> {
  // Readers of the archive wait behind this one while it waits for those before it.
  await trx.raw('set local lock_timeout = 5000')
  const [done] = await rows<{ dropped: boolean }>(
    trx,
    'select drop_archive_month(:month::date, :orders, :checksum) as dropped',
    { month: `${month}-01`, orders, checksum }
  )
  return done?.dropped ?? false
}
