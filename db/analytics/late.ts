// Marks of quarters and days that have to be added up again; triggers of orders and sums write them. A mark is deleted when it is
// read, so that a change in the meantime sets a new one. Also: up to which instant sums may reach, so that every later change is
// marked.
import { type Db, rows } from '../postgres/connection.ts'
import { quarterOf } from './contracts.ts'

/** Triggers mark a change of an order that was opened or closed longer ago than this, for analytics and for the sums by trader and day. */
export const MARKED = `interval '5 minutes'`
/** Orders opened or closed longer ago than this are added up, as SQL: more than MARKED, to leave time for slow transactions. */
export const BEHIND = `interval '10 minutes'`
/** Orders opened or closed before this instant are added up, as SQL. */
export const ENDED = quarterOf(`now() - ${BEHIND}`)

/**
 * Whether sums up to `until` may have changes that nothing marks, as SQL. That is so when the database's clock went back after
 * they were added up: another machine took over, or a wrong clock was corrected.
 */
export const reachesTooFar = (until: string): string => `${until} > now() - ${MARKED}`

/** Up to which instant sums that reach to `until` are read, as SQL; later ones are not trusted. */
export const trusted = (until: string): string => `least(${until}, ${ENDED})`

/**
 * A high-water mark, locked for the transaction; undefined where the table `late` is empty or another worker has the lock. The
 * lock is a statement of its own, so that the next one sees what its last holder wrote.
 */
export async function holdUntil(
  trx: Db,
  mark: 'analytics_until' | 'analytics_closes_until',
  late: string
): Promise<string | undefined> {
  const [held] = await rows<{ until: string }>(
    trx,
    `select until::text as until from ${mark} where exists (select from ${late}) for update skip locked`
  )
  return held?.until
}

/** Deletes the marks of at most `limit` places from a table and returns each place once; `order` is by its columns. */
export async function takeLate<Place extends 'quarter' | 'day'>(
  trx: Db,
  late: string,
  { place, order, limit }: { place: Place; order: string; limit: number }
): Promise<({ partnerId: string } & Record<Place, string>)[]> {
  return rows<{ partnerId: string } & Record<Place, string>>(
    trx,
    `with late as (
       delete from ${late}
        where (partner_id, ${place}) in (select distinct partner_id, ${place} from ${late} order by ${order} limit :limit)
       returning partner_id, ${place}
     )
     select distinct partner_id as "partnerId", ${place}::text as ${place} from late`,
    { limit }
  )
}
