// Revenue: contracts by the time of their purchase. Added-up times come from the sums, the rest from the orders, in one
// statement.
import { type Db, rows } from '../postgres/connection.ts'
import { contractsOf, type Grouping } from './contracts.ts'
import { edges } from './day-traders.ts'
import { facts, sumsOfFacts } from './sums.ts'
import { inDoubt, isOver, MOST_ROWS, quarterlyWindow, READING, refuseTooMany, type Window } from './windows.ts'

export type RevenueGroup = Exclude<Grouping, ''> | 'accountMode'

/** Sums of one bucket, currency and group; amounts in that currency. */
export interface RevenueRow {
  start: Date
  currency: string | null
  /** Only of a request that groups. */
  group: string | null
  contracts: number
  traders: number
  stake: string
  payout: string
  markup: string
  markupUnknown: number
  commission: string
  tradersPnl: string
}

export interface Revenue {
  data: RevenueRow[]
  asOf: Date
  /** Whether all of the window is known: it is over, each contract closed with its markup, no order in doubt. */
  complete: boolean
}

interface FoundRevenue extends Omit<RevenueRow, 'currency'> {
  currency: string | null
  open: number
  asOf: Date
  over: boolean
  doubt: boolean
}

const groupOf: Record<RevenueGroup | 'none', { stored: Grouping; storedValue: string; value: string }> = {
  none: { stored: '', storedValue: 'q.value', value: `''` },
  asset: { stored: 'asset', storedValue: 'q.value', value: 'o.asset' },
  contractType: { stored: 'contractType', storedValue: 'q.value', value: 'o.contract_type' },
  kind: { stored: 'kind', storedValue: 'q.value', value: 'o.kind' },
  accountMode: { stored: '', storedValue: 'q.account_mode', value: 'o.account_mode' }
}

// Traders of each row that is not of a whole day: of a part of a day at its start or end they are known, fresh contracts aside. Sorting one list of numbers takes half of what hashing them with their rows takes, but each row
// looks for its parts among those of all.
const countOfFew = `
       select s.place,
              coalesce(d.traders,
                       (select e.counted + (select count(*)::int
                                              from (select distinct f.number, width_bucket(f.number, e.numbers) as i
                                                      from fresh f where f.n = s.n and f.currency = s.currency) f
                                             where (e.numbers[i] = f.number
                                                    and case when e.from_start then e.places[i] < e.at else e.places[i] >= e.at end) is not true)
                          from edges e where e.n = s.n and e.currency = s.currency),
                       (select count(distinct number)::int
                                     from (select unnest(q.traders) as number from quarterly q where q.n = s.n and q.currency = s.currency and q.value = s.value
                                           union all
                                           select f.number from fresh f where f.n = s.n and f.currency = s.currency and f.value = s.value) parts)) as traders
         from sums s left join daily d using (n, currency, value)`
const countOfMany = `
       select place, count(*)::int as traders
         from (select place, number
                 from (select place, unnest(traders) as number from quarterly join sums using (n, currency, value)
                       union all select place, fresh.number from fresh join sums using (n, currency, value)) parts
                group by place, number) each_once
        group by place
       union all select place, daily.traders from daily join sums using (n, currency, value)`

/**
 * Revenue by buckets of the window. Without `groupBy` each bucket has a row for every currency that occurs in the window; with
 * it only groups that occur. Throws VALIDATION_FAILED for more than 20,000 rows.
 */
export async function readRevenue(db: Db, window: Window & { groupBy: RevenueGroup | null }): Promise<Revenue> {
  const { groupBy, ...requested } = window
  const { stored, storedValue, value } = groupOf[groupBy ?? 'none']
  // Rows of both modes together have the number of different traders; by mode they are counted in each.
  const modes =
    groupBy === 'accountMode' && requested.accountMode === 'ALL' ? ['REAL', 'DEMO'] : [requested.accountMode]
  const storedWhere = `partner_id = :partnerId and grouping_by = :stored and account_mode = any(array(select unnest(:modes::text[])))
       and (:currency::text is null or currency = :currency collate "C")`
  const few = groupBy === null && requested.interval !== 'hour'
  const found = await db.transaction(async trx => {
    await trx.raw(READING)
    return rows<FoundRevenue>(
      trx,
      `with ${quarterlyWindow(requested.interval)}, quarterly as (
       select b.n, q.currency, ${storedValue} as value, ${facts}, traders
         from span cross join buckets b
        cross join lateral (select * from analytics_quarters
                             where ${storedWhere} and quarter >= greatest(b.start, wf) and quarter < least(b.stop, wt, until) offset 0) q
        where not b.whole_day and q.quarter not in (select quarter from late)
     ), daily as (
       -- One walk along the index: a look-up for each of 90 days took longer than all the rest.
       select b.n, q.currency, ${storedValue} as value, ${facts}, traders
         from span
        cross join lateral (select *, day::timestamp at time zone 'UTC' as start from analytics_days
                             where ${storedWhere} and day >= (f at time zone 'UTC')::date
                               and day < (least(t, until) at time zone 'UTC')::date offset 0) q
         join buckets b on b.start = q.start
        where b.whole_day
     ), fresh as materialized (
       select width_bucket(o.opened_at, (select list from starts)) as n, o.currency, ${value} as value, 1 as contracts, open, stake, payout, markup,
              markup_unknown, commission, traders_pnl, t.number
         from ranges r cross join ${contractsOf(':partnerId', 'opened_at >= r.start and opened_at < r.stop')}
         join traders t on t.id = o.trader_id
        where (:accountMode = 'ALL' or o.account_mode = :accountMode) and (:currency::text is null or o.currency = :currency collate "C")
     ), sums as materialized (
       -- Numbered: telling the traders of a row apart by numbers alone takes a tenth of what the whole key takes.
       select row_number() over ()::int as place, n, currency, value, ${sumsOfFacts}
         from (select n, currency, value, ${facts} from quarterly union all select n, currency, value, ${facts} from daily
               union all select n, currency, value, ${facts} from fresh) parts
        group by n, currency, value
     ), ${few ? `${edges}, ` : ''}counts as (${few ? countOfFew : countOfMany}
     )
     select b.start, nullif(s.currency, '') as currency, ${groupBy ? 's.value' : 'null'} as "group", coalesce(s.contracts, 0) as contracts, coalesce(s.open, 0) as open,
            c.traders, s.stake, s.payout, s.markup, coalesce(s.markup_unknown, 0) as "markupUnknown", s.commission,
            s.traders_pnl as "tradersPnl", now() as "asOf", ${isOver('t', window.present)} as over, ${inDoubt} as doubt
       from span cross join buckets b left join sums s on s.n = b.n left join counts c using (place)
      order by b.n, s.currency nulls last, s.value collate "C" limit ${MOST_ROWS + 1}`,
      { ...requested, stored, modes }
    )
  })
  refuseTooMany(found)
  const [first] = found as [FoundRevenue]
  return {
    data: groupBy ? found.filter(({ contracts }) => contracts > 0).map(present) : withEmpty(found),
    asOf: first.asOf,
    complete: first.over && !first.doubt && found.every(({ open, markupUnknown }) => open === 0 && markupUnknown === 0)
  }
}

const present = ({
  start,
  currency,
  group,
  contracts,
  traders,
  stake,
  payout,
  markup,
  markupUnknown,
  commission,
  tradersPnl
}: FoundRevenue) => ({
  start,
  currency,
  group,
  contracts,
  traders,
  stake,
  payout,
  markup,
  markupUnknown,
  commission,
  tradersPnl
})

const nothing = {
  group: null,
  contracts: 0,
  traders: 0,
  stake: '0',
  payout: '0',
  markup: '0',
  markupUnknown: 0,
  commission: '0',
  tradersPnl: '0'
}

/** Adds rows with zeros, so that every bucket has a row for every currency that occurs. */
function withEmpty(found: FoundRevenue[]): RevenueRow[] {
  const currencies = [...new Set(found.filter(({ contracts }) => contracts > 0).map(({ currency }) => currency))].sort()
  const filled = new Map(
    found.filter(({ contracts }) => contracts > 0).map(row => [`${row.start.getTime()} ${row.currency}`, row])
  )
  const starts = [...new Set(found.map(({ start }) => start.getTime()))]
  const data = starts.flatMap(start =>
    currencies.map(currency => {
      const row = filled.get(`${start} ${currency}`)
      return row ? present(row) : { start: new Date(start), currency, ...nothing }
    })
  )
  refuseTooMany(data)
  return data
}
