// Running totals: what each trader had closed before a step (an instant between two quarters of an hour), so that the difference
// of two steps is the sum of the time between them. They are made from the lists of closes; triggers store later changes of these
// lists beside the totals.
import { type Db, rows } from '../postgres/connection.ts'
import { UNIT, UNITS } from './units.ts'

/** Traders of a chunk. */
const CHUNK = 4096
/** Contracts between two steps: a quarter of the number of traders, and at least this many. */
const SPACING = 5000
const AT_ONCE = 8

const groupKey = 'partner_id, account_mode, currency'
const sameGroup = (a: string, b: string) =>
  `${a}.partner_id = ${b}.partner_id and ${a}.account_mode = ${b}.account_mode and ${a}.currency = ${b}.currency`
/** Rows of one group, as SQL. */
const ofGroup = (table: string) =>
  `${table}.partner_id = :partnerId and ${table}.account_mode = :accountMode collate "C" and ${table}.currency = :currency collate "C"`

const amounts = ['stake', 'pnl', 'markup']

interface TraderGroup {
  partnerId: string
  accountMode: string
  currency: string
}

/**
 * Makes the next steps of groups of traders that have enough contracts since their last one; returns whether there may be more.
 * One caller at a time works. `spacing` is the least number of contracts between two steps.
 */
export async function addSteps(db: Db, { spacing = SPACING }: { spacing?: number | undefined } = {}): Promise<boolean> {
  for (let made = 0; made < AT_ONCE; made++) if (!(await addStep(db, spacing))) return false
  return true
}

async function addStep(db: Db, spacing: number): Promise<boolean> {
  return db.transaction(async trx => {
    const ready = `g.listed >= greatest(:spacing::int, g.traders / 4)`
    const [held] = await rows<{ until: string }>(
      trx,
      `select until::text as until from analytics_closes_until where exists (select from analytics_step_groups g where ${ready}) for update skip locked`,
      { spacing }
    )
    if (!held) return false
    const { until } = held
    const [next] = await rows<TraderGroup & { from: string; at: string | null; closes: number | null }>(
      trx,
      `select g.partner_id as "partnerId", g.account_mode as "accountMode", g.currency, coalesce(g.until, first.quarter)::text as "from",
              (last.quarter + interval '15 minutes')::text as at, last.closes::int as closes
         from (select * from analytics_step_groups g where ${ready} order by ${groupKey} limit 1) g
         left join lateral (select quarter from analytics_closes c where ${sameGroup('c', 'g')} order by quarter limit 1) first on true
         -- In the order of the index, so that no more lists are read than the step has.
         left join lateral (select * from (select quarter, sum(cardinality(numbers)) over (order by quarter) as closes from analytics_closes c
                                            where ${sameGroup('c', 'g')} and c.quarter >= coalesce(g.until, first.quarter) and c.quarter < :until::timestamptz) q
                             where closes >= greatest(:spacing::int, g.traders / 4) order by quarter limit 1) last on true`,
      { spacing, until }
    )
    if (!next) return false
    const { at, from, closes, ...group } = next
    if (at !== null) await writeStep(trx, { ...group, from, at })
    await rows(
      trx,
      `update analytics_step_groups g
          set until = coalesce(:at::timestamptz, until),
              -- A count that was too large, as where lists were made anew, is set right.
              listed = coalesce(greatest(0, listed - :closes::int),
                                (select coalesce(sum(cardinality(numbers)), 0) from analytics_closes c where ${ofGroup('c')} and c.quarter >= :from::timestamptz)),
              traders = coalesce((select sum(cardinality(numbers)) from analytics_step_chunks c where ${ofGroup('c')}), 0)
        where ${ofGroup('g')}`,
      { ...group, at, from, closes }
    )
    return true
  })
}

/** What the lists of a group from one step until the next have of each trader; `amounts` are SQL. */
const closedOf = (amounts: string) => `closed as materialized (
       select number, ${amounts}
         from (select unnest(numbers) as number, unnest(closed_at) as at, unnest(stake) as stake, unnest(pnl) as pnl, unnest(markup) as markup
                 from analytics_closes c where ${ofGroup('c')} and c.quarter >= :from::timestamptz and c.quarter < :at::timestamptz offset 0) u
        group by number
     )`
const sums = amounts.map(amount => `sum_few(coalesce(${amount}, 0)) as ${amount}`).join(', ')
// Most amounts are in units: whole numbers add up much faster.
const whole = amounts
  .map(
    amount =>
      `case when ${amount} * ${UNITS} = trunc(${amount} * ${UNITS}) and abs(${amount}) < 1e10 then (${amount} * ${UNITS})::bigint end as ${amount}`
  )
  .join(', ')
// The difference of two totals is a bigint too.
const fits = amounts.map(amount => `abs(${amount}_before + ${amount}) < 4000000000000000000`).join(' and ')

async function writeStep(trx: Db, step: TraderGroup & { from: string; at: string }): Promise<void> {
  const bindings = { ...step }
  // The planner takes lists for much shorter than they are.
  await trx.raw(`set local work_mem = '64MB'; set local enable_nestloop = off`)
  await rows(
    trx,
    `with ${closedOf('0')}, known as (
       select unnest(numbers) as number from analytics_step_chunks c where ${ofGroup('c')}
     ), placed as (
       insert into analytics_step_places (${groupKey}, number, place)
       select :partnerId, :accountMode, :currency, number, (select count(*) from known) + row_number() over (order by number) - 1
         from closed c where not exists (select from known k where k.number = c.number)
       returning number, place
     )
     insert into analytics_step_chunks as c (${groupKey}, chunk, numbers)
     select :partnerId, :accountMode, :currency, place / ${CHUNK}, array_agg(number order by place) from placed group by place / ${CHUNK}
     on conflict (${groupKey}, chunk) do update set numbers = c.numbers || excluded.numbers`,
    bindings
  )
  await rows(
    trx,
    `with ${closedOf(`count(*)::int as trades, ${sums}, max(at) as last_at`)}, more as (
       select number, trades, last_at, ${whole} from closed
     ), before as (
       select c.chunk, unnest(c.numbers) as number, generate_subscripts(c.numbers, 1) as place, unnest(b.trades) as trades,
              ${amounts.map(amount => `unnest(b.${amount}) as ${amount}`).join(', ')}, unnest(b.last_at) as last_at
         from analytics_step_chunks c
         left join lateral (select * from analytics_step_totals b
                             where ${ofGroup('b')} and b.chunk = c.chunk and b.at < :at::timestamptz order by b.at desc limit 1) b on true
        where ${ofGroup('c')} offset 0
     ), each_trader as (
       select b.chunk, b.place, m.number, coalesce(b.trades, 0) + coalesce(m.trades, 0) as trades,
              ${amounts.map(amount => `coalesce(b.${amount}, 0) as ${amount}_before, m.${amount}`).join(', ')}, greatest(b.last_at, m.last_at) as last_at
         from before b left join more m on m.number = b.number offset 0
     ), made as materialized (
       select chunk, array_agg(trades order by place) as trades,
              ${amounts.map(amount => `array_agg(case when ${fits} then ${amount}_before + ${amount} else ${amount}_before end order by place) as ${amount}`).join(', ')},
              array_agg(last_at order by place) as last_at, array_agg(number) filter (where (${fits}) is not true and number is not null) as odd
         from each_trader group by chunk having count(number) > 0
     ), odd as (
       -- All of the interval counts where both steps are between a reader's.
       insert into analytics_step_changes (${groupKey}, quarter, number, odd, trades, stake, pnl, markup, markup_unknown)
       select :partnerId, :accountMode, :currency, :from::timestamptz, number, true, 0, stake, pnl, markup, 0
         from closed where number in (select unnest(odd) from made)
     )
     insert into analytics_step_totals (${groupKey}, chunk, at, trades, stake, pnl, markup, last_at)
     select :partnerId, :accountMode, :currency, chunk, :at::timestamptz, trades, stake, pnl, markup, last_at from made`,
    bindings
  )
  // Before the first quarter of all nothing was closed: a step too.
  await rows(
    trx,
    `insert into analytics_steps (${groupKey}, at, markup_unknown)
     select :partnerId, :accountMode, :currency, :from::timestamptz, 0 where not exists (select from analytics_steps s where ${ofGroup('s')})`,
    bindings
  )
  await rows(
    trx,
    `insert into analytics_steps (${groupKey}, at, markup_unknown)
     select :partnerId, :accountMode, :currency, :at::timestamptz,
            (select markup_unknown from analytics_steps s where ${ofGroup('s')} order by s.at desc limit 1)
              + (select coalesce(sum(markup_unknown), 0) from analytics_closes c
                  where ${ofGroup('c')} and c.quarter >= :from::timestamptz and c.quarter < :at::timestamptz)`,
    bindings
  )
}

/**
 * Forgets the steps after an instant, of a partner or of all; workers make them again. Before lists after it are deleted, since these count as
 * changed otherwise.
 */
export async function takeBackSteps(
  trx: Db,
  { after, partnerId = null }: { after: string; partnerId?: string | null }
): Promise<void> {
  const ofPartner = '(:partnerId::text is null or partner_id = :partnerId)'
  for (const statement of [
    `delete from analytics_step_totals where ${ofPartner} and at > :after::timestamptz`,
    `delete from analytics_steps where ${ofPartner} and at > :after::timestamptz`,
    // How many contracts there are since is counted where so many are expected.
    `update analytics_step_groups g
        set until = (select max(at) from analytics_steps s where ${sameGroup('s', 'g')}), listed = 1000000000
      where ${ofPartner} and until > :after::timestamptz`,
    `delete from analytics_step_changes c using analytics_step_groups g
      where ${ofPartner.replaceAll('partner_id', 'c.partner_id')} and ${sameGroup('c', 'g')} and (g.until is null or c.quarter >= g.until)`
  ])
    await rows(trx, statement, { after, partnerId })
}

/** Takes the steps of groups back that have so much beside them that reading it takes as long as reading the totals. */
export async function takeBackChanged(trx: Db): Promise<void> {
  const found = await rows<{ partnerId: string; after: string }>(
    trx,
    `select c.partner_id as "partnerId", min(first)::text as after
       from (select ${groupKey}, min(quarter) as first, count(*) as many from analytics_step_changes where not odd group by ${groupKey}) c
       join analytics_step_groups g on ${sameGroup('g', 'c')} and c.many > greatest(${SPACING}, g.traders) group by c.partner_id`
  )
  for (const taken of found) await takeBackSteps(trx, taken)
}

/**
 * What the totals of a partner's traders grew by, with what is kept beside them, and what the lists have, as common table expressions
 * `of_steps` and `of_lists (partner_id, account_mode, currency, quarter, trader_id, trades, stake, pnl, markup, markup_unknown, last_at)`: of each step
 * within `bounds`, a condition on its instant `quarter`. Of all traders there is a row with an empty trader_id that has the unknown markups.
 */
export function growthOfSteps(partners: string, bounds: string): string {
  const nothing = '0 as trades, 0 as stake, 0 as pnl, 0 as markup'
  return `
    intervals as materialized (
      select * from (select ${groupKey}, at as quarter, markup_unknown - lag(markup_unknown) over (partition by ${groupKey} order by at) as markup_unknown,
                            lag(at) over (partition by ${groupKey} order by at) as first
                       from analytics_steps where partner_id in (select id from ${partners})) s
       where first is not null and ${bounds}
    ), changed as materialized (
      select ${groupKey}, i.quarter, number, odd, trades, stake, pnl, markup, c.markup_unknown
        from intervals i join analytics_step_changes c using (${groupKey}) where c.quarter >= first and c.quarter < i.quarter
    ), grown as (
      select t.*, u.*
        from (select i.quarter, t.*, c.numbers, b as before
                from intervals i join analytics_step_totals t on ${sameGroup('t', 'i')} and t.at = i.quarter
                join analytics_step_chunks c on ${sameGroup('c', 't')} and c.chunk = t.chunk
                left join lateral (select * from analytics_step_totals b where ${sameGroup('b', 't')} and b.chunk = t.chunk and b.at < t.at
                                    order by b.at desc limit 1) b on true) t
       cross join lateral (
         select now.number, now.trades - coalesce(was.trades, 0) as more, (now.stake - coalesce(was.stake, 0)) * ${UNIT} as stakes,
                (now.pnl - coalesce(was.pnl, 0)) * ${UNIT} as pnls, (now.markup - coalesce(was.markup, 0)) * ${UNIT} as markups, now.last_at as now_last_at,
                was.last_at as last_before
           from unnest(t.numbers, t.trades, t.stake, t.pnl, t.markup, t.last_at) with ordinality now (number, trades, stake, pnl, markup, last_at, place)
           left join unnest((t.before).trades, (t.before).stake, (t.before).pnl, (t.before).markup, (t.before).last_at)
                with ordinality was (trades, stake, pnl, markup, last_at, place) using (place)
          -- Later traders have no value.
          where now.trades is not null) u
       where (more, stakes, pnls, markups, now_last_at) is distinct from (0, 0, 0, 0, last_before)
    ), listed as materialized (
      select ${groupKey}, i.quarter, number, at, u.stake, u.pnl, u.markup
        from intervals i join analytics_closes c using (${groupKey}) cross join lateral unnest(numbers, closed_at, c.stake, c.pnl, c.markup) u (number, at, stake, pnl, markup)
       where c.quarter >= first and c.quarter < i.quarter
    ), of_numbers as (
      select ${groupKey}, quarter, number, sum(trades)::int as trades, sum(stake) as stake, sum(pnl) as pnl, sum(markup) as markup, max(last_at) as last_at
        from (select ${groupKey}, quarter, number, more as trades, stakes as stake, pnls as pnl, markups as markup,
                     case when now_last_at is distinct from last_before then now_last_at end as last_at from grown
              union all select ${groupKey}, quarter, number, trades, stake, pnl, markup, null from changed) parts
       group by ${groupKey}, quarter, number
    ), in_lists as (
      select ${groupKey}, quarter, number, count(*)::int as trades, sum(stake) as stake, sum(pnl) as pnl, sum(coalesce(markup, 0)) as markup, max(at) as last_at
        from listed group by ${groupKey}, quarter, number
    ), of_steps as (
      select ${groupKey}, quarter, ${traderId}, trades, stake, pnl, markup, 0 as markup_unknown, ${lastAt}
        from of_numbers n where (trades, stake, pnl, markup) <> (0, 0, 0, 0) or last_at is not null and not ${lateInStep}
      union all
      select ${groupKey}, quarter, '', ${nothing},
             markup_unknown + coalesce((select sum(markup_unknown) from changed c where ${sameGroup('c', 'i')} and c.quarter = i.quarter), 0), null from intervals i
    ), of_lists as (
      select ${groupKey}, quarter, ${traderId}, trades, stake, pnl, markup, 0 as markup_unknown, ${lastAt}
        from in_lists n
      union all
      select ${groupKey}, quarter, '', ${nothing}, (select count(*) from listed l where ${sameGroup('l', 'i')} and l.quarter = i.quarter and markup is null), null
        from intervals i
    )`
}

// When a trader of whom something changed closed last is known to readers of the changes alone.
const lateInStep = `(partner_id, account_mode, currency, quarter, number) in (select partner_id, account_mode, currency, quarter, number from changed where not odd)`
const traderId = '(select t.id from traders t where t.number = n.number) as trader_id'
const lastAt = `case when not ${lateInStep} then last_at end as last_at`
