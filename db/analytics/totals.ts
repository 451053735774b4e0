// Running totals of traders by chunks of them: what each closed since the totals began, up to each day of UTC. The difference of two days
// is the sum of the days between. They are made from the rows of traders and days, after those.
import { type Db, rows } from '../postgres/connection.ts'

/** Traders of a chunk: so many that its row fits in a page. */
const CHUNK = 128
/** A day on which so many traders closed contracts begins the totals of their partner, mode and currency. */
const BUSY = 1000

const group = 'partner_id, account_mode, currency'
const chunkKey = `${group}, chunk`
const sameGroup = (a: string, b: string) =>
  `${a}.partner_id = ${b}.partner_id and ${a}.account_mode = ${b}.account_mode and ${a}.currency = ${b}.currency`

/** Begins the totals of groups that were busy on a day of UTC that ended after `from` and by `until`, up to which is added up. */
export async function beginTotals(
  trx: Db,
  { from, until, busy = BUSY }: { from: string; until: string; busy?: number | undefined }
): Promise<void> {
  await rows(
    trx,
    `insert into analytics_total_groups (${group}, since, until)
     select ${group}, min(day), min(day)
       from (select d.* from partners p
              cross join lateral (select ${group}, day from analytics_trader_days
                                   where partner_id = p.id and day >= (:from::timestamptz at time zone 'UTC')::date
                                     and day < (:until::timestamptz at time zone 'UTC')::date
                                   group by ${group}, day having count(*) >= :busy::int offset 0) d) busy
      group by ${group} on conflict do nothing`,
    { from, until, busy }
  )
}

/**
 * Makes some of the late totals anew, and those of one more day of whole days that are added up; returns whether there is more. One
 * caller at a time works. `limit` bounds the late days of traders that it takes.
 */
export async function addUpTotals(db: Db, { limit }: { limit: number }): Promise<boolean> {
  return db.transaction(async trx => {
    const [held] = await rows<{ until: string }>(
      trx,
      // The lock is not that of the sums, beside which this goes on. A process of the version before holds that one here; of two that
      // make the same totals, one ends with a unique violation and does it again.
      `select (u.until at time zone 'UTC')::date::text as until from analytics_until u cross join analytics_closes_until c
        where exists (select from analytics_late_totals)
           or exists (select from analytics_total_groups g where g.until < (u.until at time zone 'UTC')::date)
          for update of c skip locked`
    )
    if (!held) return false
    const late = await makeAnew(trx, limit)
    const days = await addDay(trx, held.until)
    return late || days
  })
}

/** Forgets the totals of days from `day` on; those who call it add up its days again. */
export async function takeBackTotals(trx: Db, day: string): Promise<void> {
  for (const statement of [
    `delete from analytics_totals t using analytics_total_groups g where ${sameGroup('t', 'g')} and t.day >= :day::date`,
    // A trader keeps its place in its chunk.
    'delete from analytics_total_groups where since >= :day::date',
    'update analytics_total_groups set until = least(until, :day::date)'
  ])
    await rows(trx, statement, { day })
}

/** Adds the first day that a group lacks; returns whether there is more. */
async function addDay(trx: Db, until: string): Promise<boolean> {
  const [next] = await rows<{ day: string | null; more: boolean }>(
    trx,
    `select min(until)::text as day, min(until) < :until::date - 1 or count(distinct until) > 1 as more
       from analytics_total_groups where until < :until::date`,
    { until }
  )
  if (!next?.day) return false
  const { day } = next
  // Tables that were just filled have no statistics; by the planner's guess a hundred thousand traders were compared with as many.
  await trx.raw('set local enable_nestloop = off')
  const ofDay = `
    of_day as materialized (
      select g.partner_id, g.account_mode, g.currency, d.*
        from analytics_total_groups g
       cross join lateral (select trader_id, trades, stake, pnl, markup, markup_unknown, last_at from analytics_trader_days t
                            where ${sameGroup('t', 'g')} and t.day = :day::date offset 0) d
       where g.until = :day::date
    )`
  await placeTraders(trx, { source: ofDay, traders: 'of_day' }, { day })
  await writeDay(
    trx,
    {
      source: ofDay,
      chunks: `select c.* from analytics_total_groups g join analytics_total_chunks c on ${sameGroup('c', 'g')} where g.until = :day::date`,
      closed: `left join of_day d on ${sameGroup('d', 'c')} and d.trader_id = b.trader_id`
    },
    { day }
  )
  await rows(trx, 'update analytics_total_groups set until = until + 1 where until = :day::date', { day })
  return next.more
}

/**
 * Makes the totals of at most `limit` late days of traders, and of all days since, anew; those of the other traders of their chunks stay.
 * Returns whether it took so many.
 */
async function makeAnew(trx: Db, limit: number): Promise<boolean> {
  // The rows that the totals are made from come first.
  const taken = await rows<{ partnerId: string; traderId: string; day: string }>(
    trx,
    `with late as (
       delete from analytics_late_totals
        where (partner_id, day, trader_id) in (
                select distinct partner_id, day, trader_id from analytics_late_totals l
                 where not exists (select from analytics_late_days d
                                    where d.partner_id = l.partner_id and d.day = l.day and d.trader_id = l.trader_id)
                 order by 1, 2, 3 limit :limit)
       returning partner_id, trader_id, day
     )
     select distinct partner_id as "partnerId", trader_id as "traderId", day::text as day from late`,
    { limit }
  )
  if (taken.length === 0) return false
  // Days before the totals began, or that they do not reach yet, are not in them.
  const listed = `jsonb_to_recordset(:touched::jsonb) as l ("partnerId" text, "traderId" text, day date)
      join analytics_total_groups g on g.partner_id = l."partnerId" collate "C" and l.day >= g.since and l.day < g.until`
  const touched = JSON.stringify(taken)
  const closed = `closed as materialized (
      select d.partner_id, d.account_mode, d.currency, d.trader_id
        from ${listed} join analytics_trader_days d on ${sameGroup('d', 'g')} and d.day = l.day and d.trader_id = l."traderId" collate "C")`
  await placeTraders(trx, { source: closed, traders: 'closed' }, { touched })
  const places = await rows<object>(
    trx,
    `with late as materialized (
       select ${group}, l."traderId" collate "C" as trader_id, min(l.day)::text as first, max(g.until)::text as until from ${listed} group by 1, 2, 3, 4
     )
     select l.*, c.chunk, c.place
       from late l join (select ${chunkKey}, u.trader_id, u.place
                           from (select distinct ${group} from late) g join analytics_total_chunks using (${group})
                          cross join lateral unnest(traders) with ordinality u (trader_id, place)) c using (${group}, trader_id)`,
    { touched }
  )
  if (places.length > 0) await writePlaces(trx, places)
  return taken.length === limit
}

/** Writes the totals of single traders anew: `places` are the traders' groups, chunks and places, with the days that are written. */
async function writePlaces(trx: Db, places: object[]): Promise<void> {
  const source = `places as materialized (
      select partner_id collate "C" as partner_id, account_mode collate "C" as account_mode, currency collate "C" as currency, chunk, place,
             trader_id collate "C" as trader_id, first, until
        from jsonb_to_recordset(:places::jsonb) as p (partner_id text, account_mode text, currency text, chunk int, place int, trader_id text, first date,
             until date)
    ), of_days as materialized (
      select p.*, d.*
        from places p cross join lateral generate_series(0, p.until - p.first - 1) k
       cross join lateral (select day, trades, stake, pnl, markup, markup_unknown, last_at from analytics_trader_days t
                            where ${sameGroup('t', 'p')} and t.day = p.first + k and t.trader_id = p.trader_id offset 0) d
    )`
  const bindings = { places: JSON.stringify(places) }
  // A chunk has a row for each day on which one of its traders closed something.
  await rows(
    trx,
    `with ${source}
     insert into analytics_totals (${chunkKey}, day, trades, stake, pnl, markup, last_at, markup_unknown)
     select ${chunkKey}, o.day, coalesce(b.trades, '{}'), coalesce(b.stake, '{}'), coalesce(b.pnl, '{}'), coalesce(b.markup, '{}'),
            coalesce(b.last_at, '{}'), b.markup_unknown
       from (select distinct ${chunkKey}, day from of_days) o
       left join lateral (select trades, stake, pnl, markup, last_at, markup_unknown from analytics_totals t
                           where ${sameGroup('t', 'o')} and t.chunk = o.chunk and t.day < o.day order by t.day desc limit 1) b on true
     on conflict (${chunkKey}, day) do nothing`,
    bindings
  )
  await rows(
    trx,
    `with ${source}, written as materialized (
       select p.partner_id, p.account_mode, p.currency, p.chunk, p.place, t.day, coalesce(b.trades, 0) + coalesce(sum(d.trades) over upto, 0)::int as trades,
              coalesce(b.stake, 0) + coalesce(sum(d.stake) over upto, 0) as stake, coalesce(b.pnl, 0) + coalesce(sum(d.pnl) over upto, 0) as pnl,
              coalesce(b.markup, 0) + coalesce(sum(d.markup) over upto, 0) as markup, greatest(b.last_at, max(d.last_at) over upto) as last_at,
              coalesce(b.markup_unknown, 0) + coalesce(sum(d.markup_unknown) over upto, 0)::int as markup_unknown
         from places p join analytics_totals t on ${sameGroup('t', 'p')} and t.chunk = p.chunk and t.day >= p.first
         left join of_days d on ${sameGroup('d', 'p')} and d.trader_id = p.trader_id and d.day = t.day
         left join lateral (select trades[p.place] as trades, stake[p.place] as stake, pnl[p.place] as pnl, markup[p.place] as markup,
                                   last_at[p.place] as last_at, markup_unknown[p.place] as markup_unknown
                              from analytics_totals b where ${sameGroup('b', 'p')} and b.chunk = p.chunk and b.day < p.first
                             order by b.day desc limit 1) b on true
       window upto as (partition by p.partner_id, p.account_mode, p.currency, p.chunk, p.place order by t.day)
     ), made as (
       -- A list is made as long as its last place needs; what has no sum in between has 0.
       select ${chunkKey}, day, array_agg(coalesce(w.trades, u.trades, 0) order by place) as trades, array_agg(coalesce(w.stake, u.stake, 0) order by place) as stake,
              array_agg(coalesce(w.pnl, u.pnl, 0) order by place) as pnl, array_agg(coalesce(w.markup, u.markup, 0) order by place) as markup,
              array_agg(case when w.trades is null then u.last_at else w.last_at end order by place) as last_at,
              array_agg(coalesce(w.markup_unknown, u.markup_unknown, 0) order by place) as markup_unknown,
              max(coalesce(w.markup_unknown, u.markup_unknown)) as most_unknown
         from (select ${chunkKey}, day, max(place)::int as last from written group by ${chunkKey}, day) l join analytics_totals t using (${chunkKey}, day)
        cross join lateral unnest(t.trades, t.stake, t.pnl, t.markup, t.last_at, t.markup_unknown, array_fill(0, array[l.last]))
                   with ordinality u (trades, stake, pnl, markup, last_at, markup_unknown, filler, place)
         left join written w using (${chunkKey}, day, place)
        group by ${chunkKey}, day
     )
     update analytics_totals t
        set trades = m.trades, stake = m.stake, pnl = m.pnl, markup = m.markup, last_at = m.last_at,
            markup_unknown = case when m.most_unknown > 0 then m.markup_unknown end
       from made m where ${sameGroup('t', 'm')} and t.chunk = m.chunk and t.day = m.day`,
    bindings
  )
}

/** Gives a place to each of `traders (partner_id, account_mode, currency, trader_id)`, a table of `source`, that has none in its group. */
async function placeTraders(
  trx: Db,
  { source, traders }: { source: string; traders: string },
  bindings: Record<string, unknown>
): Promise<void> {
  await rows(
    trx,
    `with ${source}, wanted as materialized (
       select distinct ${group}, trader_id from ${traders}
     ), known as materialized (
       select ${group}, trader_id from (select distinct ${group} from wanted) g
         join analytics_total_chunks using (${group}) cross join lateral unnest(traders) t (trader_id)
     ), placed as (
       select ${group}, trader_id,
              coalesce(k.many, 0) + row_number() over (partition by ${group} order by trader_id) - 1 as place
         from (select ${group}, trader_id from wanted except select ${group}, trader_id from known) n
         left join (select ${group}, count(*) as many from known group by ${group}) k using (${group})
     )
     insert into analytics_total_chunks as c (${chunkKey}, traders)
     select ${group}, place / ${CHUNK}, array_agg(trader_id order by place) from placed group by ${group}, place / ${CHUNK}
     on conflict (${chunkKey}) do update set traders = c.traders || excluded.traders`,
    bindings
  )
}

/**
 * Writes the totals of a day of `chunks` that closed something on it, on top of those of the last day before. `closed` joins a row d
 * of the day for a trader of a chunk, if there is one.
 */
async function writeDay(
  trx: Db,
  { source, chunks, closed }: { source: string; chunks: string; closed: string },
  bindings: Record<string, unknown> & { day: string }
): Promise<void> {
  await rows(
    trx,
    `with ${source}, chunks as materialized (
       select row_number() over () as n, c.*, b.trades, b.stake, b.pnl, b.markup, b.last_at, b.markup_unknown
         from (${chunks}) c
         left join lateral (select * from analytics_totals t
                             where ${sameGroup('t', 'c')} and t.chunk = c.chunk and t.day < :day::date order by t.day desc limit 1) b on true
     ), each_trader as (
       select n, place, d.trader_id, coalesce(b.trades, 0) + coalesce(d.trades, 0) as trades, coalesce(b.stake, 0) + coalesce(d.stake, 0) as stake,
              coalesce(b.pnl, 0) + coalesce(d.pnl, 0) as pnl, coalesce(b.markup, 0) + coalesce(d.markup, 0) as markup,
              greatest(b.last_at, d.last_at) as last_at, coalesce(b.markup_unknown, 0) + coalesce(d.markup_unknown, 0) as markup_unknown
         from chunks c
        cross join lateral unnest(traders, trades, stake, pnl, markup, last_at, markup_unknown)
                   with ordinality b (trader_id, trades, stake, pnl, markup, last_at, markup_unknown, place)
         ${closed}
     ), added as (
       select n, array_agg(trades order by place) as trades, array_agg(stake order by place) as stake, array_agg(pnl order by place) as pnl,
              array_agg(markup order by place) as markup, array_agg(last_at order by place) as last_at,
              case when max(markup_unknown) > 0 then array_agg(markup_unknown order by place) end as markup_unknown
         from each_trader group by n having count(trader_id) > 0
     )
     insert into analytics_totals (${chunkKey}, day, trades, stake, pnl, markup, last_at, markup_unknown)
     select ${chunkKey}, :day::date, a.trades, a.stake, a.pnl, a.markup, a.last_at, a.markup_unknown from chunks join added a using (n)`,
    bindings
  )
}

/** What the totals of a partner's traders grew by on days from `first` to `last`, as SQL: rows like those of a trader and day. */
export function growthOfTotals(partner: string, first: string, last: string): string {
  return `
    select x.*
      from (select c.traders, t.*, b as before from analytics_totals t join analytics_total_chunks c using (${chunkKey})
              left join lateral (select * from analytics_totals b where ${sameGroup('b', 't')} and b.chunk = t.chunk and b.day < t.day
                                  order by b.day desc limit 1) b on true
             where t.partner_id = ${partner} and t.day between ${first} and ${last}) t
     cross join lateral (
       select t.partner_id, t.day, t.account_mode, t.currency, u.trader_id, u.trades - coalesce(was.trades, 0) as trades,
              u.stake - coalesce(was.stake, 0) as stake, u.pnl - coalesce(was.pnl, 0) as pnl, u.markup - coalesce(was.markup, 0) as markup,
              coalesce(u.markup_unknown, 0) - coalesce(was.markup_unknown, 0) as markup_unknown, u.last_at, was.last_at as last_before
         from unnest(t.traders, t.trades, t.stake, t.pnl, t.markup, t.last_at, t.markup_unknown)
              with ordinality u (trader_id, trades, stake, pnl, markup, last_at, markup_unknown, place)
         left join unnest((t.before).trades, (t.before).stake, (t.before).pnl, (t.before).markup, (t.before).last_at, (t.before).markup_unknown)
              with ordinality was (trades, stake, pnl, markup, last_at, markup_unknown, place) using (place)
        -- Later traders have no place in it.
        where u.trades is not null) x
     where (x.trades, x.stake, x.pnl, x.markup, x.markup_unknown, x.last_at) is distinct from (0, 0, 0, 0, 0, x.last_before)`
}
