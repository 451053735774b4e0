// Contracts added up behind the clock, never in the order path: by quarters of an hour of their purchase, by days of UTC (of these also who bought when), and
// closed ones by trader and day. A reader takes these up to the point that they reach and the rest from the orders, in one
// statement and so in one snapshot: its sums are those of the orders, however far behind the addition is.
import { type Db, rows } from '../postgres/connection.ts'
import { addUpCloses } from './closes.ts'
import { closedContractsOf, contractsOf, ORIGIN, quarterOf } from './contracts.ts'
import { addUpDayTraders } from './day-traders.ts'
import { ENDED, holdUntil, reachesTooFar, takeLate } from './late.ts'
import { addSteps, takeBackSteps } from './steps.ts'

// The first addition, or one after a long pause, proceeds in steps of this length; below, how many late entries one statement takes.
const STEP_SECONDS = 86_400
const LATE_QUARTERS = 64
const LATE_DAYS = 256
const LATE_DAY_TRADERS = 16
// The contracts of a day are hashed several times; with the server's default work_mem half of them would go to disk. Sorting is
// off since the planner misjudges the length of lists of traders and would sort by many columns.
const MEMORY = `set local work_mem = '64MB'; set local enable_sort = off`

export const facts = 'contracts, open, stake, payout, markup, markup_unknown, commission, traders_pnl'
export const sumsOfFacts = facts
  .split(', ')
  .map(fact => `sum(${fact})${/contracts|open|unknown/.test(fact) ? '::int' : ''} as ${fact}`)
  .join(', ')
const key = 'partner_id, grouping_by, account_mode, quarter, currency, value'
const allKeys = `grouping_by in ('', 'asset', 'contractType', 'kind') and account_mode in ('REAL', 'DEMO', 'ALL')`

/** Each of `fine (account_mode, asset, contract_type, kind)` once for every grouping and mode that it belongs to. */
const spread = `
  cross join lateral (values ('', ''), ('asset', fine.asset), ('contractType', fine.contract_type), ('kind', fine.kind)) g (grouping_by, value)
  cross join lateral (values (fine.account_mode), ('ALL')) m (account_mode)`

/** Rows of analytics_quarters, computed from the orders in `bought (quarter, number, …)`. */
export const quartersOfBought = `
  fine as materialized (
    select partner_id, quarter, account_mode, currency, asset, contract_type, kind, count(*)::int as contracts, sum(open)::int as open, sum(stake) as stake,
           sum(payout) as payout, sum(markup) as markup, sum(markup_unknown)::int as markup_unknown, sum(commission) as commission,
           sum(traders_pnl) as traders_pnl, array_agg(number) as numbers
      from bought group by 1, 2, 3, 4, 5, 6, 7
  ), spread as materialized (
    -- Numbered, since comparing two numbers is much cheaper than comparing the whole key.
    select *, dense_rank() over (order by ${key})::int as place
      from (select partner_id, g.grouping_by, m.account_mode, quarter, currency, g.value, ${facts}, numbers from fine ${spread}) keyed
  ), sums as (
    select place, ${key}, ${sumsOfFacts} from spread group by place, ${key}
  ), sets as (
    select place, array_agg(distinct number) as traders from (select place, unnest(numbers) as number from spread) each_once group by place
  ), quarters as (
    select ${key}, ${facts}, traders from sums join sets using (place)
  )`

const dayKey = 'partner_id, grouping_by, account_mode, day, currency, value'

/** Rows of analytics_days, from the quarters in `touched_quarters`. */
const daysOfQuarters = `
  sums as materialized (
    select ${dayKey}, ${sumsOfFacts}, row_number() over ()::int as place from touched_quarters group by ${dayKey}
  ), counts as (
    select place, count(*)::int as traders
      from (select distinct place, unnest(touched_quarters.traders) as number from touched_quarters join sums using (${dayKey})) each_once
     group by place
  )
  insert into analytics_days (${dayKey}, ${facts}, traders)
  select ${dayKey}, ${facts}, traders from sums join counts using (place)`

/** Rows of analytics_trader_days, from `closed (partner_id, trader_id, day, …)`. */
export const traderDaysOfClosed = `
  select partner_id, day, account_mode, currency, trader_id, count(*)::int as trades, sum(won)::int as won, sum_few(stake) as stake, sum_few(payout) as payout,
         sum_few(pnl) as pnl, sum_few(markup) as markup, sum(markup_unknown)::int as markup_unknown, sum(copied)::int as copied,
         min(closed_at) as first_at, max(closed_at) as last_at
    from closed group by 1, 2, 3, 4, 5`

// A day of which a part was added before; finding that takes time.
const ADDED_TO_DAY = `
    on conflict (partner_id, day, account_mode, currency, trader_id) do update
      set trades = d.trades + excluded.trades, won = d.won + excluded.won, stake = d.stake + excluded.stake,
          payout = d.payout + excluded.payout, pnl = d.pnl + excluded.pnl, markup = d.markup + excluded.markup,
          markup_unknown = d.markup_unknown + excluded.markup_unknown, copied = d.copied + excluded.copied,
          first_at = least(d.first_at, excluded.first_at), last_at = greatest(d.last_at, excluded.last_at)`

const utcDay = (instant: string) => `(${instant} at time zone 'UTC')::date`
const dayStart = (day: string) => `${day}::timestamp at time zone 'UTC'`

/**
 * Adds up what was bought and closed since the last call, and some of what is marked as late; returns whether there is more. One
 * caller at a time works. A step is a day by default; each of `halvings` halves it. `spacing` is the least number of contracts
 * between two steps of running totals.
 */
export async function addUpAnalytics(
  db: Db,
  {
    halvings = 0,
    stepSeconds = STEP_SECONDS,
    spacing
  }: { halvings?: number; stepSeconds?: number; spacing?: number } = {}
): Promise<boolean> {
  const seconds = Math.max(900, stepSeconds / 2 ** halvings)
  const limited = (limit: number) => Math.ceil(limit / 2 ** halvings)
  // Each in a transaction of its own, so that a slow one does not stop the others. What has a high-water mark of its own is made
  // at the same time as the sums.
  const addSums = async () => {
    const behind = await addNew(db, { stepSeconds: seconds })
    const quarters = await addUpLateQuarters(db, limited(LATE_QUARTERS))
    const days = await addUpLateDays(db, limited(LATE_DAYS))
    // Readers work without these, so the sums come first.
    const traders = !behind && (await addUpDayTraders(db, { limit: limited(LATE_DAY_TRADERS), memory: MEMORY }))
    return behind || quarters || days || traders
  }
  const addClosesAndSteps = async () => {
    const closes = await addUpCloses(db, {
      stepSeconds: seconds,
      limit: limited(LATE_QUARTERS),
      ended: ENDED,
      memory: MEMORY
    })
    const steps = await addSteps(db, { spacing })
    return closes || steps
  }
  await takeBack(db)
  const ends = await Promise.allSettled([addSums(), addClosesAndSteps()])
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return ends.some(end => end.status === 'fulfilled' && end.value)
}

/**
 * Deletes sums back to the start of a day of UTC when they reach so far that changes in them would not be marked; they are added
 * up again.
 */
async function takeBack(db: Db): Promise<void> {
  await db.transaction(async trx => {
    const [held] = await rows<{ day: string }>(
      trx,
      `select ${utcDay(ENDED)}::text as day from analytics_until u cross join analytics_closes_until c
        where ${reachesTooFar('greatest(u.until, c.until)')} for update skip locked`
    )
    if (!held) return
    await takeBackSteps(trx, { after: `${held.day}T00:00:00Z` })
    for (const statement of [
      `delete from analytics_quarters q using partners p where q.partner_id = p.id and ${allKeys} and q.quarter >= ${dayStart(':day::date')}`,
      `delete from analytics_days d using partners p where d.partner_id = p.id and ${allKeys} and d.day >= :day::date`,
      `delete from analytics_trader_days d using partners p where d.partner_id = p.id and d.day >= :day::date`,
      `delete from analytics_closes c using partners p
        where c.partner_id = p.id and c.account_mode in ('REAL', 'DEMO') and c.quarter >= ${dayStart(':day::date')}`,
      `update analytics_until set until = least(until, ${dayStart(':day::date')})`,
      `update analytics_closes_until set until = least(until, ${dayStart(':day::date')})`
    ])
      await rows(trx, statement, held)
  })
}

/** The rows and the point up to which they reach are written in one transaction, so that each order counts once. */
async function addNew(db: Db, { stepSeconds }: { stepSeconds: number }): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(MEMORY)
    // The lock is taken by a statement of its own, so that the next one sees what its last holder wrote.
    const [span] = await rows<{ from: string; until: string; more: boolean; wholeDays: boolean }>(
      trx,
      `select until::text as "from", date_bin('1 day', until, ${ORIGIN}) = until as "wholeDays", least(until + step, ${ENDED})::text as until,
              until + step < ${ENDED} as more
         from analytics_until cross join make_interval(secs => :stepSeconds::float8) step
        where until < ${ENDED} for update of analytics_until skip locked`,
      { stepSeconds: Math.floor(stepSeconds / 900) * 900 }
    )
    if (!span) return false
    const { from, until } = span
    await rows(
      trx,
      `with bought as (
         select o.*, ${quarterOf('o.opened_at')} as quarter, t.number
           from partners p cross join ${contractsOf('p.id', 'opened_at >= :from::timestamptz and opened_at < :until::timestamptz')}
           join traders t on t.id = o.trader_id
       ), ${quartersOfBought}
       insert into analytics_quarters (${key}, ${facts}, traders) select ${key}, ${facts}, traders from quarters`,
      { from, until }
    )
    // The days that are complete by this.
    await rows(
      trx,
      `with touched_quarters as materialized (
         select q.*, d.day from partners p
          cross join (select generate_series(${utcDay(':from::timestamptz')}, ${utcDay(':until::timestamptz')} - 1, '1 day')::date as day) d
          cross join lateral (select * from analytics_quarters
                               where partner_id = p.id and ${allKeys}
                                 and quarter >= ${dayStart('d.day')} and quarter < ${dayStart('(d.day + 1)')} offset 0) q
       ), ${daysOfQuarters}`,
      { from, until }
    )
    await rows(
      trx,
      `with closed as (
         select o.*, ${utcDay('o.closed_at')} as day
           from partners p cross join ${closedContractsOf('p.id', 'closed_at >= :from::timestamptz and closed_at < :until::timestamptz')}
       )
       insert into analytics_trader_days as d (partner_id, day, account_mode, currency, trader_id, trades, won, stake, payout, pnl, markup,
              markup_unknown, copied, first_at, last_at)
       -- In the order of the last column of the key, which the others hardly change, readers find each page of the table once.
       ${traderDaysOfClosed} order by trader_id
       ${span.wholeDays ? '' : ADDED_TO_DAY}`,
      { from, until }
    )
    await rows(trx, 'update analytics_until set until = :until::timestamptz', { until })
    return span.more
  })
}

/** Recomputes at most `limit` of the quarters marked as late from all their orders; returns whether there were that many. */
async function addUpLateQuarters(db: Db, limit: number): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(MEMORY)
    const until = await holdUntil(trx, 'analytics_until', 'analytics_late_quarters')
    if (until === undefined) return false
    // Quarters after the high-water mark are added with the next step in any case.
    const taken = await takeLate(trx, 'analytics_late_quarters', {
      place: 'quarter',
      order: 'partner_id, quarter',
      limit
    })
    const touched = JSON.stringify(taken)
    const listed = `jsonb_to_recordset(:touched::jsonb) as l ("partnerId" text, quarter timestamptz)`
    await rows(
      trx,
      `delete from analytics_quarters q using (select * from ${listed}) l
        where q.partner_id = l."partnerId" collate "C" and ${allKeys} and q.quarter = l.quarter`,
      { touched }
    )
    await rows(
      trx,
      `with bought as (
         select o.*, l.quarter, t.number from (select * from ${listed} where l.quarter < :until::timestamptz) l
          cross join ${contractsOf('l."partnerId" collate "C"', `opened_at >= l.quarter and opened_at < l.quarter + interval '15 minutes'`)}
           join traders t on t.id = o.trader_id
       ), ${quartersOfBought}
       insert into analytics_quarters (${key}, ${facts}, traders) select ${key}, ${facts}, traders from quarters`,
      { touched, until }
    )
    const days = `(select distinct "partnerId" collate "C" as partner_id, ${utcDay('l.quarter')} as day from ${listed}
                    where ${dayStart(`(${utcDay('l.quarter')} + 1)`)} <= :until::timestamptz) t`
    await rows(
      trx,
      `delete from analytics_days d using ${days} where d.partner_id = t.partner_id and ${allKeys} and d.day = t.day`,
      {
        touched,
        until
      }
    )
    await rows(
      trx,
      `with touched_quarters as materialized (
         select q.*, t.day from ${days}
          cross join lateral (select * from analytics_quarters
                               where partner_id = t.partner_id and ${allKeys}
                                 and quarter >= ${dayStart('t.day')} and quarter < ${dayStart('(t.day + 1)')} offset 0) q
       ), ${daysOfQuarters}`,
      { touched, until }
    )
    return taken.length === limit
  })
}

/** Recomputes at most `limit` of the traders' days marked as late from all their orders; returns whether there were that many. */
async function addUpLateDays(db: Db, limit: number): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(MEMORY)
    const until = await holdUntil(trx, 'analytics_until', 'analytics_late_days')
    if (until === undefined) return false
    const taken = await rows<{ partnerId: string; traderId: string; day: string }>(
      trx,
      `with late as (
         delete from analytics_late_days
          where (partner_id, day, trader_id) in (
                  select distinct partner_id, day, trader_id from analytics_late_days order by 1, 2, 3 limit :limit)
         returning partner_id, trader_id, day
       )
       select distinct partner_id as "partnerId", trader_id as "traderId", day::text as day from late`,
      { limit }
    )
    const touched = JSON.stringify(taken)
    const listed = `jsonb_to_recordset(:touched::jsonb) as l ("partnerId" text, "traderId" text, day date)`
    await rows(
      trx,
      `delete from analytics_trader_days d using (select * from ${listed}) l
        where d.partner_id = l."partnerId" collate "C" and d.day = l.day and d.account_mode in ('REAL', 'DEMO')
          and d.trader_id = l."traderId" collate "C"`,
      { touched }
    )
    await rows(
      trx,
      `with closed as (
         select o.*, s.day from (select distinct "partnerId" collate "C" as partner_id, l.day from ${listed}) s
          cross join ${closedContractsOf('s.partner_id', `closed_at >= ${dayStart('s.day')} and closed_at < least(${dayStart('(s.day + 1)')}, :until::timestamptz)`)}
          where (o.partner_id, o.trader_id, s.day) in (select "partnerId" collate "C", "traderId" collate "C", l.day from ${listed})
       )
       insert into analytics_trader_days (partner_id, day, account_mode, currency, trader_id, trades, won, stake, payout, pnl, markup,
              markup_unknown, copied, first_at, last_at)
       ${traderDaysOfClosed}`,
      { touched, until }
    )
    return taken.length === limit
  })
}
