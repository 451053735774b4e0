// What traders made in each mode and currency, day by day: closed orders added up behind the clock, never in the order path. A reader takes
// whole days from here and the rest from the orders themselves, in one statement, and so in one snapshot: the
// part of the first day that is in its window, whatever closed since the last addition, and days that an order
// closed late has changed. So its sums are those of the orders, however far behind the addition is.
import { BEHIND, reachesTooFar } from '../analytics/late.ts'
import { type Db, rows } from '../postgres/connection.ts'

// Once this is true, stored days are not read until they are recomputed.
const REACHES_TOO_FAR = reachesTooFar('until')
const LAST_DAY = `((now() - ${BEHIND}) at time zone 'UTC')::date`
// A first addition, or one after a long pause, goes on by this much at a time, and a statement takes so many late entries.
const STEP_SECONDS = 86_400
const LATE_DAYS = 256
/** Days that are kept: the longest window read, and the day in which it begins. */
const KEPT_DAYS = 31

// `offset 0` keeps each lookup a walk along the index from bound to bound: joined freely, all orders were read.
const ordersOf = (partner: string, bounds: string) => `lateral (
             select partner_id, trader_id, account_mode collate "C" as account_mode,
                    coalesce(currency, '') collate "C" as currency, closed_at, pnl,
                    -- a stake is in USD; what is counted beside pnl is in the account's currency, too
                    coalesce(stake_in_account, stake) as stake,
                    copied_from is null as own from orders
              where partner_id = ${partner} and phase = 'closed' and ${bounds} offset 0) o`

/** Bounds of `ordersOf`: the `day` of a table, up to `until`. */
const duringDay = (table: string, until: string) =>
  `closed_at >= ${table}.day::timestamp at time zone 'UTC' and closed_at < least((${table}.day + 1)::timestamp at time zone 'UTC', ${until})`

/** What sums are kept for. */
const account = 'account_mode, currency'
const key = `partner_id, trader_id, day, ${account}`

/**
 * The facts of orders in `closed (partner_id, trader_id, day, account_mode, currency, closed_at, pnl, stake, own)`, by
 * trader, day, mode and currency, in the order of the table's columns. Of two contracts that ended in the same second the loss comes first.
 */
const factsOfClosed = `
  steps as (
    select *, coalesce(sum(pnl) filter (where own) over run, 0) as running, row_number() over run as place
      from closed
    window run as (partition by ${key} order by closed_at, pnl, stake rows unbounded preceding)
  ), falls as (
    select *, greatest(0, max(running) over (partition by ${key} order by place)) - running as fall
      from steps
  ), facts as (
    select partner_id, trader_id, day, count(*)::int as trades, (count(*) filter (where pnl > 0))::int as wins, sum(pnl) as pnl,
           (count(*) filter (where own))::int as own_trades, (count(*) filter (where own and pnl > 0))::int as own_wins,
           coalesce(sum(pnl) filter (where own), 0) as own_pnl, coalesce(sum(stake) filter (where own), 0) as own_stake,
           greatest(0, max(running)) as own_peak, least(0, min(running)) as own_low, max(fall) as own_fall, ${account}
      from falls group by ${key}
  )`

/** The facts of the days in `touched (partner_id, trader_id, day)`, from all their orders closed before `:until`. */
const factsOfTouched = `
  closed as (
    select o.partner_id, o.trader_id, t.day, o.account_mode, o.currency, o.closed_at, o.pnl, o.stake, o.own
      from (select distinct partner_id, day from touched) s
     cross join ${ordersOf('s.partner_id', duringDay('s', ':until::timestamptz'))}
      join touched t on t.partner_id = o.partner_id and t.trader_id = o.trader_id and t.day = s.day
  ), ${factsOfClosed}`

/**
 * Adds up what closed since the last time, and recomputes some of the days marked as late; returns whether there is
 * more of either. One caller at a time works. A step is a day at most; `halvings` makes it smaller.
 */
export async function addUpTraderDays(db: Db, { halvings = 0 }: { halvings?: number } = {}): Promise<boolean> {
  // Each in a transaction of its own: what takes too long does not keep the other from going on.
  await takeBack(db)
  const behind = await addNewOrders(db, STEP_SECONDS / 2 ** halvings)
  const late = await addUpLateDays(db, Math.ceil(LATE_DAYS / 2 ** halvings))
  return behind || late
}

async function takeBack(db: Db): Promise<void> {
  await rows(
    db,
    `with back as (
       update trader_days_until set until = ${LAST_DAY}::timestamp at time zone 'UTC' where ${REACHES_TOO_FAR} returning ${LAST_DAY} as day
     )
     delete from trader_days d using back where d.day >= back.day`
  )
}

/**
 * Adds the orders that closed since the last time; none of an earlier minute is read again. Sums and high-water mark
 * are written in one transaction, so each order counts once.
 */
async function addNewOrders(db: Db, stepSeconds: number): Promise<boolean> {
  return db.transaction(async trx => {
    // The lock is taken by a statement of its own, so that the next one sees what its last holder wrote.
    const [span] = await rows<{ from: string; until: string; more: boolean }>(
      trx,
      `select until::text as "from", least(until + step, now() - ${BEHIND})::text as until, until + step < now() - ${BEHIND} as more
         from trader_days_until cross join make_interval(secs => :stepSeconds::float8) step
        where until < now() - ${BEHIND} for update of trader_days_until skip locked`,
      { stepSeconds }
    )
    if (!span) return false
    // Orders of one instant are never in two spans, so the order within a day is that of all.
    await rows(
      trx,
      `with closed as (
         select o.partner_id, o.trader_id, (o.closed_at at time zone 'UTC')::date as day, o.account_mode, o.currency, o.closed_at,
                o.pnl, o.stake, o.own
           from partners p cross join ${ordersOf('p.id', 'closed_at >= :from::timestamptz and closed_at < :until::timestamptz')}
       ), ${factsOfClosed}
       insert into trader_days as d select * from facts
       on conflict (${key}) do update
         set trades = d.trades + excluded.trades, wins = d.wins + excluded.wins, pnl = d.pnl + excluded.pnl,
             own_trades = d.own_trades + excluded.own_trades, own_wins = d.own_wins + excluded.own_wins,
             own_pnl = d.own_pnl + excluded.own_pnl, own_stake = d.own_stake + excluded.own_stake,
             own_peak = greatest(d.own_peak, d.own_pnl + excluded.own_peak),
             own_low = least(d.own_low, d.own_pnl + excluded.own_low),
             own_fall = greatest(d.own_fall, excluded.own_fall, d.own_peak - (d.own_pnl + excluded.own_low))`,
      { from: span.from, until: span.until }
    )
    await rows(trx, 'update trader_days_until set until = :until::timestamptz', { until: span.until })
    return span.more
  })
}

/** Recomputes at most `limit` of the days marked as late from all their orders; returns whether there were that many. */
async function addUpLateDays(db: Db, limit: number): Promise<boolean> {
  return db.transaction(async trx => {
    // The lock keeps `until` where it is: what closed later is added by the next span, and must not be here as well.
    const [standing] = await rows<{ until: string }>(
      trx,
      `select until::text as until from trader_days_until
        where exists (select from trader_days_late) for update skip locked`
    )
    if (!standing) return false
    const [taken] = await rows<{ days: number }>(
      trx,
      `with late as (
         delete from trader_days_late
          where (partner_id, trader_id, day) in (
                  select distinct partner_id, trader_id, day from trader_days_late order by partner_id, day, trader_id limit :limit)
         returning partner_id, trader_id, day
       ), touched as materialized (
         select distinct partner_id, trader_id, day from late
       ), ${factsOfTouched}, stored as (
         insert into trader_days select * from facts
         on conflict (${key}) do update
           set trades = excluded.trades, wins = excluded.wins, pnl = excluded.pnl, own_trades = excluded.own_trades,
               own_wins = excluded.own_wins, own_pnl = excluded.own_pnl, own_stake = excluded.own_stake,
               own_peak = excluded.own_peak, own_low = excluded.own_low, own_fall = excluded.own_fall
       )
       select count(*)::int as days from touched`,
      { until: standing.until, limit }
    )
    return taken?.days === limit
  })
}

/** Deletes the days past every reader's window. */
export async function deleteOldTraderDays(db: Db): Promise<void> {
  await rows(db, `delete from trader_days where day < (now() at time zone 'UTC')::date - ${KEPT_DAYS}`)
}

export interface WrongDay {
  partnerId: string
  traderId: string
  day: string
}

/**
 * Days whose sums are not those of their orders, at most 100; days marked as late are left out. Of the last `days` days
 * up to today, or of all that a reader may see: it reads every order closed in them. Any result is an error.
 */
export async function findWrongTraderDays(db: Db, { days = KEPT_DAYS }: { days?: number } = {}): Promise<WrongDay[]> {
  // In one snapshot, since a worker may add up meanwhile.
  return db.transaction(
    async trx => {
      const [standing] = await rows<{ until: string }>(trx, 'select until::text as until from trader_days_until')
      return rows<WrongDay>(
        trx,
        `with read as (
           select * from trader_days where day > (now() at time zone 'UTC')::date - :days::int
         ), touched as materialized (
           select partner_id, trader_id, day from read
           union
           select o.partner_id, o.trader_id, (o.closed_at at time zone 'UTC')::date
             from partners p join orders o on o.partner_id = p.id and o.phase = 'closed'
              and o.closed_at >= ((now() at time zone 'UTC')::date - (:days::int - 1))::timestamp at time zone 'UTC'
              and o.closed_at < :until::timestamptz
         ), ${factsOfTouched}, wrong as (
           (select * from facts except select * from read) union (select * from read except select * from facts)
         )
         select distinct w.partner_id as "partnerId", w.trader_id as "traderId", w.day::text as day from wrong w
          where (w.partner_id, w.trader_id, w.day) not in (select partner_id, trader_id, day from trader_days_late)
          order by 2, 3 limit 100`,
        { until: standing?.until, days }
      )
    },
    { isolationLevel: 'repeatable read', readOnly: true }
  )
}

/**
 * Segments of the closed orders of a window of 30 days up to now, as common table expressions to begin a
 * statement with: `traded (partner_id, trader_id, account_mode, currency, at, trades, wins, pnl, own_trades, own_wins, own_pnl, own_stake,
 * own_peak, own_low, own_fall)`, each a day or a single order. `partners` is the condition on `p.id`.
 */
export function tradedSegments(partners: string): string {
  const orders = (spans: string, bounds: string) => `
    select o.partner_id, o.trader_id, o.account_mode, o.currency, o.closed_at, 1, (o.pnl > 0)::int, o.pnl, own::int, (own and o.pnl > 0)::int,
           case when own then o.pnl else 0 end, case when own then o.stake else 0 end, case when own then greatest(0, o.pnl) else 0 end,
           case when own then least(0, o.pnl) else 0 end, case when own then greatest(0, -o.pnl) else 0 end
      from ${spans} cross join span cross join ${ordersOf('requested.id', bounds)}`
  return `span as materialized (
    select case when ${REACHES_TOO_FAR} then ${LAST_DAY}::timestamp at time zone 'UTC' else until end as until,
           case when ${REACHES_TOO_FAR} then ${LAST_DAY} else 'infinity' end as days_until, now() - interval '30 days' as since, (now() at time zone 'UTC' - interval '30 days')::date as first_day,
           ((now() at time zone 'UTC' - interval '30 days')::date + 1)::timestamp at time zone 'UTC' as whole_from
      from trader_days_until
  ), late as materialized (
    select distinct l.partner_id, l.trader_id, l.day from trader_days_late l cross join span where l.day > span.first_day
  ), requested as materialized (
    select p.id from partners p where ${partners}
  ), traded (partner_id, trader_id, account_mode, currency, at, trades, wins, pnl, own_trades, own_wins, own_pnl, own_stake,
            own_peak, own_low, own_fall) as (
    select d.partner_id, d.trader_id, d.account_mode, d.currency, d.day::timestamp at time zone 'UTC', d.trades, d.wins, d.pnl, d.own_trades, d.own_wins,
           d.own_pnl, d.own_stake, d.own_peak, d.own_low, d.own_fall
      from requested cross join span cross join lateral (
             select * from trader_days where partner_id = requested.id and day > span.first_day and day < span.days_until offset 0) d
     where (d.partner_id, d.trader_id, d.day) not in (select partner_id, trader_id, day from late)
    union all ${orders('requested', 'closed_at > span.since and closed_at < span.whole_from')}
    union all ${orders('requested', 'closed_at >= greatest(span.whole_from, span.until)')}
    union all ${orders(
      'requested join (select distinct partner_id, day from late) l on l.partner_id = requested.id',
      duringDay('l', 'span.until')
    )}
     where (o.partner_id, o.trader_id, (o.closed_at at time zone 'UTC')::date) in (select partner_id, trader_id, day from late)
  )`
}
