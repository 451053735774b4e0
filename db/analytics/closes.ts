// Closed contracts in lists, one for each quarter of an hour; an entry names its trader by number. A window of traders reads them
// for what it has besides whole days. They have a high-water mark of their own, so that they are made at the same time as the
// sums.
import { type Db, rows } from '../postgres/connection.ts'
import { closedContractsOf, quarterOf } from './contracts.ts'
import { holdUntil, takeLate } from './late.ts'
import { takeBackChanged } from './steps.ts'
import { isInUnits, UNITS } from './units.ts'

export const closesKey = 'partner_id, account_mode, currency, quarter'
export const lists = 'numbers, closed_at, stake, pnl, markup, markup_unknown'
const units = 'stake_units, pnl_units, markup_units'

// A total order, also for contracts of a trader that closed at the same instant.
const order = 'order by number, closed_at, stake, pnl, markup'

/** The amounts of `list` in units (units.ts), as SQL; null for an amount of which one cannot be in units. */
export const unitsOf = (list: string): string => `
     select ${['stake', 'pnl', 'markup']
       .map(
         amount =>
           `case when every(${amount} is null or ${isInUnits(amount)}) then array_agg(case when ${isInUnits(amount)} then (${amount} * ${UNITS})::bigint end order by place) end as ${amount}_units`
       )
       .join(', ')}
       from unnest(${list}.stake, ${list}.pnl, ${list}.markup) with ordinality u (stake, pnl, markup, place)`

/** Rows of analytics_closes, from `closed (partner_id, trader_id, closed_at, …)`. */
export const closesOfClosed = `
  select ${closesKey}, sorted.*, units.*
    -- Grouped first: sorting all by the whole key took most of the time.
    from (select c.partner_id, c.account_mode, c.currency, ${quarterOf('c.closed_at')} as quarter, array_agg(t.number) as n, array_agg(c.closed_at) as c,
                 array_agg(c.stake) as s, array_agg(c.pnl) as p, array_agg(case when c.markup_unknown = 0 then c.markup end) as m
            from closed c join traders t on t.id = c.trader_id group by 1, 2, 3, 4 offset 0) grouped
   cross join lateral (
     select array_agg(number ${order}) as numbers, array_agg(closed_at ${order}) as closed_at, array_agg(stake ${order}) as stake,
            array_agg(pnl ${order}) as pnl, array_agg(markup ${order}) as markup, (count(*) - count(markup))::int as markup_unknown
       from unnest(n, c, s, p, m) u (number, closed_at, stake, pnl, markup)) sorted
   cross join lateral (${unitsOf('sorted')}) units`

/**
 * Lists what was closed since the last call, at most `stepSeconds` of it, and rebuilds lists that are marked as late; returns
 * whether there is more. `ended` is SQL: contracts closed before it are listed. `memory` are settings of the transaction. One
 * caller at a time works.
 */
export async function addUpCloses(
  db: Db,
  { stepSeconds, limit, ended, memory }: { stepSeconds: number; limit: number; ended: string; memory: string }
): Promise<boolean> {
  const behind = await addNew(db, { stepSeconds, ended, memory })
  const late = await addLate(db, { limit, memory })
  return behind || late
}

/** The lists and the point up to which they reach are written in one transaction, so that each contract counts once. */
async function addNew(
  db: Db,
  { stepSeconds, ended, memory }: { stepSeconds: number; ended: string; memory: string }
): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(memory)
    const [span] = await rows<{ from: string; until: string; more: boolean }>(
      trx,
      `select until::text as "from", least(until + step, ${ended})::text as until, until + step < ${ended} as more
         from analytics_closes_until cross join make_interval(secs => :stepSeconds::float8) step
        where until < ${ended} for update of analytics_closes_until skip locked`,
      { stepSeconds: Math.floor(stepSeconds / 900) * 900 }
    )
    if (!span) return false
    const { from, until } = span
    await rows(
      trx,
      `with closed as (
         select o.* from partners p
          cross join ${closedContractsOf('p.id', 'closed_at >= :from::timestamptz and closed_at < :until::timestamptz')}
       )
       insert into analytics_closes (${closesKey}, ${lists}, ${units}) ${closesOfClosed}`,
      { from, until }
    )
    await rows(trx, 'update analytics_closes_until set until = :until::timestamptz', { until })
    return span.more
  })
}

async function addLate(db: Db, { limit, memory }: { limit: number; memory: string }): Promise<boolean> {
  return db.transaction(async trx => {
    await trx.raw(memory)
    const until = await holdUntil(trx, 'analytics_closes_until', 'analytics_late_closes')
    if (until === undefined) return false
    const taken = await takeLate(trx, 'analytics_late_closes', {
      place: 'quarter',
      order: 'partner_id, quarter',
      limit
    })
    const touched = JSON.stringify(taken)
    const listed = `(select "partnerId" collate "C" as partner_id, quarter
                       from jsonb_to_recordset(:touched::jsonb) as l ("partnerId" text, quarter timestamptz)) l`
    // One statement: the trigger that changes the running totals compares the new list with the one it replaces.
    await rows(
      trx,
      `with closed as (
         select o.* from ${listed}
          cross join ${closedContractsOf('l.partner_id', `closed_at >= l.quarter and closed_at < l.quarter + interval '15 minutes'`)}
          where l.quarter < :until::timestamptz
       ), written as (
         insert into analytics_closes (${closesKey}, ${lists}, ${units}) ${closesOfClosed}
         on conflict (${closesKey}) do update set ${`${lists}, ${units}`
           .split(', ')
           .map(list => `${list} = excluded.${list}`)
           .join(', ')}
         returning ${closesKey}
       )
       delete from analytics_closes c using ${listed}
        where c.partner_id = l.partner_id and c.account_mode in ('REAL', 'DEMO') and c.quarter = l.quarter
          and (c.partner_id, c.account_mode, c.currency, c.quarter) not in (select ${closesKey} from written)`,
      { touched, until }
    )
    await takeBackChanged(trx)
    return taken.length === limit
  })
}
