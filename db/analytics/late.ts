// Marks of what has to be made again, as the triggers of orders and sums leave them: taken, so that what changes meanwhile is marked anew.
// And up to when sums may reach for every change to be marked.
import { type Db, rows } from '../postgres/connection.ts'
import { quarterOf } from './contracts.ts'

/** The triggers of orders mark what was opened or closed longer ago than this when it changes: for analytics, and for the sums by trader and day. */
export const MARKED = `interval '5 minutes'`
/** So long ago was opened or closed what is added up, as SQL: longer than what is marked, with room for a transaction that takes its time. */
export const BEHIND = `interval '10 minutes'`
/** What was opened or closed before this instant is added up, as SQL. */
export const ENDED = quarterOf(`now() - ${BEHIND}`)

/**
 * Whether sums that reach to `until` have changes that nothing marks, as SQL: the database's clock went back after they were added up, as
 * where another machine takes over, or the first one had the wrong time.
 */
export const reachesTooFar = (until: string): string => `${until} > now() - ${MARKED}`

/** Up to where sums that reach to `until` are read, as SQL: what they have beyond is not trusted. */
export const trusted = (until: string): string => `least(${until}, ${ENDED})`

/**
 * A high-water mark, locked for the transaction: undefined where the table `late` is empty, or another worker holds it. Locked by a
 * statement of its own, so that the next one sees what its last holder wrote.
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

/** Takes what at most `limit` marks of a table name, each once though it may be marked often; `order` is by its columns. */
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
