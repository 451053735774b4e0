// 7 Analytics: what partners' applications earned in the last 30 days; an opened partner shows its days as bars, exact to the last
// commit.
import { type RevenueRow, readRevenue } from '../../db/analytics/revenue.ts'
import { endOfPresent } from '../../db/analytics/windows.ts'
import { findPartner } from '../../db/partners/partners.ts'
import { type EarningLine, listEarningLines } from '../../db/platform/console.ts'
import { amount } from '../analytics/bars.ts'
import { type Column, clean, cut, fit, instant, sparkline, tones, usd } from './text.ts'
import { type KeyAction, listing, MARK, next, open, type View } from './view.ts'

const DAYS = 30
const LISTED = 200
const DAY_MS = 86_400_000
/** How long a reading of the sums is good: they change with every order, and in those of 30 days a few seconds do not show. */
const KEPT_MS = 5000

const modes = ['REAL', 'DEMO', 'ALL'] as const
const measures = ['markup', 'contracts', 'stake'] as const
type Measure = (typeof measures)[number]

type PartnerDays = { name: string; days: RevenueRow[]; complete: boolean; asOf: Date; readAtMs: number }
type AnalyticsData = { earnings: EarningLine[]; readAtMs: number } | PartnerDays

/** Mode and measure are one filter: `REAL markup`. */
const filterOf = (filter: string): { mode: (typeof modes)[number]; measure: Measure } => {
  const [mode, measure] = filter.split(' ')
  return {
    mode: modes.find(each => each === mode) ?? 'REAL',
    measure: measures.find(each => each === measure) ?? 'markup'
  }
}

const currencyOf = ({ currency }: { currency: string | null }) => currency ?? '–'
const inCents = (currency: string | null) => currency === 'USD' || currency === 'EUR'
const ofList = (value: string, currency: string | null) => (inCents(currency) ? usd(value) : value)
const ofDays = (value: number, currency: string | null) => (inCents(currency) ? usd(value.toFixed(2)) : amount(value))

const earningColumns: Column<EarningLine>[] = [
  { title: 'Partner', width: 10, grow: true, of: line => line.name },
  { title: 'Currency', width: 8, of: currencyOf },
  { title: 'Contracts', width: 10, right: true, of: line => String(line.contracts) },
  { title: 'Markup', width: 13, right: true, of: line => ofList(line.markup, line.currency) },
  { title: `${DAYS} days`, width: DAYS, of: line => sparkline(line.days.map(Number)), tone: () => tones.link },
  { title: 'Stakes', width: 15, right: true, from: 110, of: line => ofList(line.stake, line.currency) },
  { title: 'Partner id', width: 30, from: 150, of: line => line.partnerId }
]

export const analytics: View<AnalyticsData> = {
  name: 'Analytics',

  async read(trx, { opened, filter }, { before }) {
    if (before && Date.now() - before.readAtMs < KEPT_MS) return before
    const { mode } = filterOf(filter)
    const readAtMs = Date.now()
    if (!opened) return { earnings: await listEarningLines(trx, { mode, days: DAYS, limit: LISTED }), readAtMs }
    const partnerId = opened.slice(0, opened.indexOf(' '))
    const from = new Date(Math.floor(readAtMs / DAY_MS) * DAY_MS - (DAYS - 1) * DAY_MS).toISOString()
    const requested = {
      partnerId,
      from,
      to: (await endOfPresent(trx, partnerId)).toISOString(),
      present: true,
      timezone: 'UTC',
      interval: 'day'
    } as const
    const { data, asOf, complete } = await readRevenue(trx, {
      ...requested,
      accountMode: mode,
      currency: null,
      groupBy: null
    })
    const named = await findPartner(trx, partnerId)
    return { name: named?.name ?? partnerId, days: data, asOf, complete, readAtMs }
  },

  draw(data, { opened, filter }, { columns }) {
    const { mode, measure } = filterOf(filter)
    if ('days' in data) return drawDays(data, { partner: opened ?? '', mode, measure, width: columns })
    const idOf = ({ partnerId, currency }: EarningLine) => `${partnerId} ${currency ?? ''}`
    const list = listing(earningColumns, data.earnings, idOf, columns - MARK)
    const about = `Contracts of ${mode} accounts of the last ${DAYS} days, by markup, as far as added up`
    return { head: [tones.quiet(cut(about, columns)), ' '.repeat(MARK) + list.title], lines: list.lines }
  },

  actions(data, place) {
    const { mode, measure } = filterOf(place.filter)
    const change = (key: string, label: string, filter: string): KeyAction => ({
      key,
      label,
      press: () => ({ place: { filter, ...('days' in data ? {} : { chosen: undefined }) } })
    })
    const changes = [change('m', 'mode', `${next(modes, mode)} ${measure}`)]
    if ('days' in data) return [...changes, change('b', 'bars', `${mode} ${next(measures, measure)}`)]
    const { chosen } = place
    if (chosen === undefined) return changes
    return [{ key: 'enter', label: 'open', press: () => open(place, chosen) }, ...changes]
  }
}

const COUNTED = 44

/** A line a day, the newest first, its bar as long as the terminal allows. */
function drawDays(
  { name, days, complete, asOf }: PartnerDays,
  { partner, mode, measure, width }: { partner: string; mode: string; measure: Measure; width: number }
) {
  const currency = partner.slice(partner.indexOf(' ') + 1) || null
  const shown = days.filter(row => row.currency === currency).reverse()
  const most = Math.max(...shown.map(row => Number(row[measure])), 0)
  const room = Math.max(1, width - COUNTED)
  const bar = (row: RevenueRow) => '█'.repeat(most === 0 ? 0 : Math.round((Number(row[measure]) / most) * room))
  const sum = (of: Measure) => shown.reduce((total, row) => total + Number(row[of]), 0)
  const totals = `${sum('contracts')} contracts, stakes ${ofDays(sum('stake'), currency)}, markup ${ofDays(sum('markup'), currency)}`
  const title = [fit('Day', 10), fit('Contracts', 9, true), fit('Traders', 7, true), fit('Markup', 12, true), measure]
  const known = complete ? '' : '; something is still unknown (? where a markup is)'
  return {
    head: [
      tones.title(cut(`${clean(name)}  ${currency ?? ''}  ${mode}`, width)),
      cut(totals, width),
      tones.quiet(cut(title.join('  '), width))
    ],
    lines: [
      ...shown.map(row => ({
        id: row.start.toISOString(),
        text: cut(
          [
            row.start.toISOString().slice(0, 10),
            fit(String(row.contracts), 9, true),
            fit(String(row.traders), 7, true),
            fit(`${ofDays(Number(row.markup), currency)}${row.markupUnknown > 0 ? '?' : ''}`, 12, true),
            bar(row)
          ].join('  '),
          width
        )
      })),
      { id: 'as of', text: tones.quiet(cut(`days by UTC, as of ${instant(asOf)}${known}`, width)) }
    ],
    plain: true
  }
}
