// Traders of each day of UTC by the quarters in which they bought first and last. A part of a day that begins or ends with it has as many
// different traders as have their first, or their last, quarter in it. Made from the quarters; triggers take a day's rows away and mark
// it when these change, so what is there is that of the quarters of the same snapshot.
import { type Db, rows } from '../postgres/connection.ts'
import { holdUntil, takeLate } from './late.ts'

/** The key of analytics_day_traders, and what it has beside. */
export const dayTradersKey = 'partner_id, account_mode, day, currency'
export const dayTradersValues = 'numbers, firsts, lasts, begun, ended'

const QUARTERS = 96
const LATE = 'analytics_late_day_traders'

/** Rows of analytics_day_traders as common table expressions that end with `traders_of_days`, from `wanted_days (partner_id, day)`. */
export const tradersOfDays = `
  day_quarters as materialized (
    select w.partner_id, q.account_mode, w.day, q.currency, q.traders,
           (extract(epoch from q.quarter - w.day::timestamp at time zone 'UTC') / 900)::smallint as quarter
      from wanted_days w
     cross join lateral (select account_mode, currency, quarter, traders from analytics_quarters
                          where partner_id = w.partner_id and grouping_by = '' and account_mode in ('REAL', 'DEMO', 'ALL')
                            and quarter >= w.day::timestamp at time zone 'UTC' and quarter < (w.day + 1)::timestamp at time zone 'UTC' offset 0) q
  ), day_keys as materialized (
    -- Numbered: telling traders apart by numbers alone takes a tenth of what the whole key takes.
    select row_number() over ()::int as place, k.* from (select distinct ${dayTradersKey} from day_quarters) k
  ), each_trader as materialized (
    select place, number, min(quarter) as first, max(quarter) as last
      from (select place, quarter, unnest(traders) as number from day_quarters join day_keys using (${dayTradersKey})) each_once
     group by place, number
  ), day_sets as (
    select place, array_agg(number order by number) as numbers, array_agg(first order by number) as firsts, array_agg(last order by number) as lasts
      from each_trader group by place
  ), day_counts as (
    select place, array_agg(coalesce(f.traders, 0) order by quarter) as begun, array_agg(coalesce(l.traders, 0) order by quarter) as ended
      from day_keys cross join generate_series(0, ${QUARTERS - 1}) quarter
      left join (select place, first as quarter, count(*)::int as traders from each_trader group by 1, 2) f using (place, quarter)
      left join (select place, last as quarter, count(*)::int as traders from each_trader group by 1, 2) l using (place, quarter)
     group by place
  ), traders_of_days as (
    select ${dayTradersKey}, ${dayTradersValues} from day_keys join day_sets using (place) join day_counts using (place)
  )`

/**
 * Makes the rows of at most `limit` marked days, the newest first; returns whether it took so many. `memory` are settings of a
 * transaction. Who holds the high-water mark of the sums is the only one that changes quarters.
 */
export async function addUpDayTraders(db: Db, { limit, memory }: { limit: number; memory: string }): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(memory)
    if ((await holdUntil(trx, 'analytics_until', LATE)) === undefined) return false
    const taken = await takeLate(trx, LATE, { place: 'day', order: 'day desc, partner_id', limit })
    const wanted = `wanted_days as materialized (
       select "partnerId" collate "C" as partner_id, day from jsonb_to_recordset(:taken::jsonb) as l ("partnerId" text, day date))`
    const bindings = { taken: JSON.stringify(taken) }
    await rows(
      trx,
      `with ${wanted} delete from analytics_day_traders d using wanted_days w
        where d.partner_id = w.partner_id and d.account_mode in ('REAL', 'DEMO', 'ALL') and d.day = w.day`,
      bindings
    )
    await rows(
      trx,
      `with ${wanted}, ${tradersOfDays}
       insert into analytics_day_traders (${dayTradersKey}, ${dayTradersValues}) select ${dayTradersKey}, ${dayTradersValues} from traders_of_days`,
      bindings
    )
    return taken.length === limit
  })
}

/**
 * A common table expression `edges (n, currency, from_start, at, counted, numbers, places)`; it needs those of a window by
 * quarters and `fresh`. For buckets that are the first or the last part of a day: how many different traders their stored
 * quarters have, and who they are where fresh contracts have to be compared with them. Bindings: partnerId, accountMode,
 * currency.
 */
export const edges = `edges as materialized (
    select e.n, d.currency, from_start, at,
           (select coalesce(sum(traders), 0)::int
              from unnest(case when from_start then d.begun[1:at] else d.ended[at + 1:] end) as traders) as counted,
           -- Copies that are not in parts: they are searched often.
           case when has_fresh then trim_array(d.numbers, 0) end as numbers,
           case when has_fresh then trim_array(case when from_start then d.firsts else d.lasts end, 0) end as places
      from (select b.n, days.day, from_start,
                   greatest(0, ceil(extract(epoch from case when from_start then least(b.stop, wt, until) else greatest(b.start, wf) end
                                                       - days.start) / 900))::int as at,
                   exists (select from fresh f where f.n = b.n) as has_fresh
              from span cross join buckets b
             cross join lateral (select (b.start at time zone 'UTC')::date as day, date_trunc('day', b.start, 'UTC') as start) days
             cross join lateral (select b.start = days.start as from_start) s
             where not b.whole_day and b.stop <= days.start + interval '1 day'
               and (from_start or (b.stop = days.start + interval '1 day' and b.stop <= until))
               -- The stored row counts a quarter that is late as it was.
               and not exists (select from late where quarter >= b.start and quarter < b.stop)) e
     cross join lateral (select * from analytics_day_traders
                          where partner_id = :partnerId and account_mode = :accountMode collate "C" and day = e.day
                            and (:currency::text is null or currency = :currency collate "C") offset 0) d
  )`
