// The state of analytics: how far sums are behind, what is marked as late, and the result of the last comparison.
import { type Db, rows } from '../postgres/connection.ts'
import { type Difference, findAnalyticsDifferences } from './verify.ts'

interface AnalyticsState {
  /** Up to when is added up. */
  until: Date
  behindSeconds: number
  /** The same, but not before these sums existed: a new database begins with a day to add up. */
  overdueSeconds: number
  /** Entries of what changed after it was added up. */
  late: number
  /** When samples were compared last, and how many sums differed; null where that never happened. */
  checkedAt: Date | null
  differences: number | null
}

/** The state of analytics, for metrics and the operator. */
export async function readAnalyticsState(db: Db): Promise<AnalyticsState> {
  const [state] = await rows<AnalyticsState>(
    db,
    `select least(u.until, l.until) as until, greatest(0, extract(epoch from now() - least(u.until, l.until)))::float8 as "behindSeconds",
            greatest(0, extract(epoch from now() - least(greatest(u.until, u.since), greatest(l.until, l.since))))::float8 as "overdueSeconds",
            (select count(*)::int from (select from analytics_late_quarters limit 10000) l)
              + (select count(*)::int from (select from analytics_late_days limit 10000) l)
              + (select count(*)::int from (select from analytics_late_closes limit 10000) l) as late,
            c.checked_at as "checkedAt", c.differences
       from analytics_until u cross join analytics_closes_until l left join analytics_checks c on true`
  )
  return state as AnalyticsState
}

const SAMPLES = 5
const SAMPLED_DAYS = 60

/**
 * Compares the sums of a few partners, each of one day of the last SAMPLED_DAYS chosen at random, with the orders; stores how many differ
 * and returns them.
 */
export async function checkSamples(db: Db): Promise<Difference[]> {
  const samples = await rows<{ partnerId: string; day: Date }>(
    db,
    // A random choice of partners with recent purchases; of each, today counts as often as any other day.
    `select partner_id as "partnerId", (now() - floor(random() * least(:days::int, 1 + extract(day from now() - first)))::int * interval '1 day') as day
       from (select partner_id, min(quarter) as first from analytics_quarters
              where grouping_by = '' and account_mode = 'ALL' and quarter > now() - :days::int * interval '1 day' group by partner_id) active
      order by random() limit ${SAMPLES}`,
    { days: SAMPLED_DAYS }
  )
  const found: Difference[] = []
  for (const { partnerId, day } of samples)
    found.push(...(await findAnalyticsDifferences(db, { from: day, to: day, partnerId })))
  await rows(
    db,
    `insert into analytics_checks (samples, differences) values (:samples, :differences)
     on conflict (single) do update set checked_at = now(), samples = excluded.samples, differences = excluded.differences`,
    { samples: samples.length, differences: found.length }
  )
  return found
}
