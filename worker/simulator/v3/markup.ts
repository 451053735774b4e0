// Calls of the first dialect about what applications earned. Every application counts as the caller's own: applications have
// no owners here.
import { printUnits, toAmount } from '../engine/currencies.ts'
import type { Engine } from '../engine/engine.ts'
import type { MarkupEntry } from '../engine/markup-book.ts'
import { V3Error } from './errors.ts'
import type { CallRequest, Handler } from './v3.ts'

const DEFAULT_LIMIT = 1000
/** The currency of the caller as the developer of applications. */
const DEVELOPER_CURRENCY = 'USD'

const appMarkupDetails: Handler = (request, { v3: { engine }, account }) => {
  const { app_id: appId, client_loginid: loginid, offset = 0, limit = DEFAULT_LIMIT, sort } = request
  const wanted = entriesOf(request, engine).filter(
    entry => (appId === undefined || entry.appId === appId) && (loginid === undefined || entry.loginid === loginid)
  )
  if (sort !== 'ASC') wanted.reverse()
  const transactions = wanted
    .slice(offset as number, (offset as number) + (limit as number))
    .map(entry => presentEntry(entry, { engine, developer: account.loginid }))
  return { body: { app_markup_details: { transactions } } }
}

function presentEntry(
  entry: MarkupEntry,
  { engine, developer }: { engine: Engine; developer: string }
): Record<string, unknown> {
  const usd = inUsd(entry, engine)
  return {
    app_id: entry.appId,
    app_markup: toAmount(entry.units, entry.currency),
    app_markup_usd: usd,
    app_markup_value: usd,
    client_currcode: entry.currency,
    client_loginid: entry.loginid,
    dev_currcode: DEVELOPER_CURRENCY,
    dev_loginid: developer,
    transaction_id: entry.transactionId,
    transaction_time: String(Math.floor(entry.atMs / 1000))
  }
}

const appMarkupStatistics: Handler = (request, { v3: { engine } }) => {
  const byApp = Map.groupBy(entriesOf(request, engine), ({ appId }) => appId)
  const breakdown = [...byApp].map(([appId, entries]) => {
    const usd = sumOf(entries, engine)
    return {
      app_id: appId,
      app_markup_usd: usd,
      app_markup_value: usd,
      dev_currcode: DEVELOPER_CURRENCY,
      transactions_count: entries.length
    }
  })
  return {
    body: {
      app_markup_statistics: {
        breakdown,
        total_app_markup_usd: sumOf([...byApp.values()].flat(), engine),
        total_transactions_count: breakdown.reduce((sum, { transactions_count }) => sum + transactions_count, 0)
      }
    }
  }
}

/** What is reported of the range in a request; applications of the newer dialect are no numbers and cannot be shown here. */
function entriesOf(request: CallRequest, engine: Engine): MarkupEntry[] {
  const range = { from: secondOf(request.date_from), to: secondOf(request.date_to) }
  return engine.books.markups.reported(range, engine.clock.wall()).filter(({ appId }) => typeof appId === 'number')
}

/** An epoch or YYYY-MM-DD HH:MM:SS as epoch seconds. */
function secondOf(text: unknown): number {
  if (!String(text).includes('-')) return Number(text)
  const second = Date.parse(`${String(text).replace(' ', 'T')}Z`) / 1000
  if (!Number.isFinite(second)) throw new V3Error('InputValidationFailed', 'Input validation failed: date.')
  return second
}

/** A markup in US dollars, to the cent; what has no rate counts nothing. */
function inUsd({ units, currency }: MarkupEntry, engine: Engine): number {
  const rate = engine.rates.from('USD')?.[currency]
  return rate === undefined ? 0 : Math.round((Number(printUnits(units, currency)) / rate) * 100) / 100
}

/** A sum of markups in US dollars. */
export function sumOf(entries: MarkupEntry[], engine: Engine): number {
  return entries.reduce((cents, entry) => cents + Math.round(inUsd(entry, engine) * 100), 0) / 100
}

export const markupCalls: Record<string, Handler> = {
  app_markup_details: appMarkupDetails,
  app_markup_statistics: appMarkupStatistics
}
