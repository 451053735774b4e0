// The broker's API v3: one socket per account, authorised with the account's token; requests and responses by its
// schemas. Everything that is not v3's own is in the files beside this.
import Big from 'big.js'
import { BrokerError } from '../broker-error.ts'
import { type ClientOptions, createClient } from '../client.ts'
import { confirmAccount, readToken, tokenRefused } from '../credentials.ts'
import { decimalsOf } from '../market.ts'
import type { MarkupReport, ReportAccess, ReportedMarkup } from '../markup-report.ts'
import type { AccountFacts, Broker, BrokerAccount, ContractState } from '../port.ts'
import type { CallLimits, CallWindows } from '../transport/call-window.ts'
import { readResponse } from '../transport/reconnecting.ts'
import type { BrokerConnection, Frame, Stream } from '../transport/sockets.ts'
import type { Dialect, DialectContext, PipSizeOf } from './dialect.ts'
import { isRateLimit } from './errors.ts'
import { readEvidence, termsOfRequest } from './mapping.ts'
import {
  BadFrame,
  type Body,
  bodyOf,
  decimalOf,
  Fields,
  idOf,
  integerOf,
  listOf,
  numberOf,
  optionalText,
  textOf
} from './reading.ts'
import { readContractState } from './states.ts'

interface V3Options extends ClientOptions {
  /** The WebSocket address, or what returns it whenever a socket is opened; `app_id` and `l` are added to it. */
  url: string | (() => string)
}

/** A broker with API v3. Nothing is opened until it is used. */
export function createV3Broker(options: V3Options): Broker {
  const { url } = options
  return createClient(createV3Dialect(typeof url === 'string' ? () => url : url), options)
}

// Which class buy and sell count in is not published: the tightest they could be in.
const classes: Record<string, string> = {
  proposal: 'pricing',
  proposal_open_contract: 'pricing',
  buy: 'pricing',
  sell: 'pricing',
  portfolio: 'outcome',
  statement: 'outcome',
  profit_table: 'outcome',
  ping: 'uncounted'
}

const uncounted = { perMinute: 0, perHour: 0 }

/** The figures the broker once published; it sends the real ones on every connection. */
const limits = {
  uncounted,
  pricing: { perMinute: 80, perHour: 3_600 },
  outcome: { perMinute: 25, perHour: 1_500 },
  general: { perMinute: 180, perHour: 14_400 }
} satisfies CallLimits

function createV3Dialect(urlNow: () => string): Dialect {
  return {
    name: 'v3',
    limits,
    classOf: call => classes[call] ?? 'general',
    // No limit is documented; this is a bound of ours.
    maxStreams: 1_000,
    probeAddress: appId => addressOf(urlNow(), appId),
    openMarket: async place => openSocket(urlNow(), place),
    openAccount: async (place, account) => {
      const token = await readToken(account, wellFormedToken)
      const connection = await openSocket(urlNow(), place, false)
      try {
        await authorise({ connection, place, account, token })
      } catch (error) {
        connection.close()
        throw error
      }
      watchSite(connection, place)
      return connection
    },
    reportMarkup: async (place, access, day) => reportMarkup(urlNow(), { place, access, day }),
    buy: (contract, maxPrice) => ({
      buy: '1',
      price: Number(maxPrice),
      parameters: termsOfRequest(contract, 'symbol')
    }),
    quoteMultiplier: (asset, { currency, multiplier, stake }) => {
      const terms = { contract_type: 'MULTUP', symbol: asset, currency, amount: stake, basis: 'stake', multiplier }
      return { proposal: 1, ...terms }
    },
    quote: contract => ({ proposal: 1, ...termsOfRequest(contract, 'symbol') }),
    contractsFor: (asset, currency) => ({ contracts_for: asset, currency }),
    exchange: {
      ratesFrom: currency => ({ exchange_rates: 1, base_currency: currency }),
      currencies: { website_status: 1 }
    },
    accountOfBalance: body => textOf(body, 'loginid'),
    readState,
    readPortfolio: row => readEvidence('portfolio', row, { time: 'purchase_time', price: 'buy_price', app: 'app_id' }),
    readStatement: row =>
      readEvidence('statement', row, {
        time: 'transaction_time',
        price: 'amount',
        app: 'app_id'
      }),
    readProfitTable: row =>
      readEvidence('profit_table', row, { time: 'purchase_time', price: 'buy_price', app: 'app_id' }),
    readSymbol: row => ({
      asset: textOf(row, 'symbol'),
      displayName: textOf(row, 'display_name'),
      market: textOf(row, 'market'),
      pipSize: decimalsOf(numberOf(row, 'pip')),
      open: row.exchange_is_open === 1,
      // In close-only mode nothing can be bought either.
      suspended: row.is_trading_suspended === 1 || row.close_only === 1
    }),
    readTradedAsset: row => textOf(row, 'symbol')
  }
}

function addressOf(url: string, appId: string): string {
  const address = new URL(url)
  address.searchParams.set('app_id', appId)
  // Some refusals can only be distinguished by their text, which is English here.
  address.searchParams.set('l', 'EN')
  return address.href
}

async function openSocket(url: string, place: DialectContext, watched = true): Promise<BrokerConnection> {
  const connection = await place.connect(addressOf(url, place.appId))
  if (watched) watchSite(connection, place)
  return connection
}

const wellFormedToken = /^[\w-]{1,128}$/

async function authorise(requested: {
  connection: BrokerConnection
  place: DialectContext
  account: BrokerAccount
  token: string
}): Promise<void> {
  const { connection, place, account, token } = requested
  await place.budget.take('general', { urgent: true })
  const { loginid, mayRead, ...facts } = readResponse(await sendToken(connection, place, token), readAuthorised)
  if (loginid !== account.accountId) throw tokenRefused('WrongAccount', 'ACCOUNT_NOT_FOUND')
  if (!mayRead) throw tokenRefused('MissingScope', 'TOKEN_REFUSED', 'The token does not have the scope to read.')
  await confirmAccount(account, facts)
}

async function sendToken(connection: BrokerConnection, place: DialectContext, token: string): Promise<Frame> {
  try {
    return await connection.call({ authorize: token }, { responseKey: 'authorize', timeoutMs: place.responseTimeoutMs })
  } catch (error) {
    // At this call everything that is wrong with the request is wrong with the token or its account.
    if (error instanceof BrokerError && error.code === 'INVALID_CONTRACT')
      throw tokenRefused(error.brokerCode, 'TOKEN_REFUSED', error.message)
    throw error
  }
}

/** Each of them opens an account's lists and contracts. */
const readingScopes = ['read', 'trading_information']

/**
 * The prefix of a login id proves nothing: only `is_virtual` decides. With a token that may trade and not read, a contract would
 * be bought whose end, or a purchase in doubt whose fate, could never be read.
 */
function readAuthorised({ authorize }: Frame): AccountFacts & { loginid: string; mayRead: boolean } {
  const body = bodyOf(authorize, 'authorize')
  const mode = body.is_virtual === undefined ? null : flag(body, 'is_virtual') ? 'DEMO' : 'REAL'
  const { scopes } = body
  const mayRead = !Array.isArray(scopes) || readingScopes.some(scope => scopes.includes(scope))
  return { loginid: textOf(body, 'loginid'), mode, currency: optionalText(body, 'currency') || null, mayRead }
}

/** Reads the call limits and subscribes to the site's status; no caller waits for it. */
function watchSite(connection: BrokerConnection, place: DialectContext): void {
  const stream: Stream = {
    receive: frame => {
      if (frame.website_status === undefined) return false
      const status = bodyOf(frame.website_status, 'website_status')
      connection.buying = status.site_status === undefined || status.site_status === 'up'
      if (!connection.buying) place.log.warn({ siteStatus: String(status.site_status) }, 'the broker is going down')
      if (status.api_call_limits !== undefined)
        place.learnLimits(readLimits(bodyOf(status.api_call_limits, 'api_call_limits')))
      return true
    }
  }
  place.budget.spend('general')
  const request = { website_status: 1, subscribe: 1 }
  connection
    .call(request, { responseKey: 'website_status', timeoutMs: place.responseTimeoutMs, stream })
    .catch((error: BrokerError) => {
      // The published limits stay in use, and an outage of the site is noticed only when it happens.
      place.log.info({ brokerCode: error.brokerCode }, 'the broker did not send its status')
    })
}

/** Where a figure is missing or not a number, the published one stays in use: 0 would mean no limit. */
function readLimits(body: Body): CallLimits {
  const windows = (field: string, published: CallWindows) => {
    const stated = new Fields(bodyOf(body[field], field))
    const calls = (name: string, known: number) => Number(stated.amount(name) ?? known)
    return { perMinute: calls('minutely', published.perMinute), perHour: calls('hourly', published.perHour) }
  }
  // The third name is misspelt by the broker.
  return {
    uncounted,
    pricing: windows('max_requests_pricing', limits.pricing),
    outcome: windows('max_requests_outcome', limits.outcome),
    general: windows('max_requestes_general', limits.general)
  }
}

function readState(body: Body, pipSizeOf: PipSizeOf): ContractState {
  const fields = new Fields(body)
  const price = (...names: string[]) => spotOf(fields, names, pipSizeOf)
  return readContractState(fields, {
    entryPrice: price('entry_tick', 'entry_spot'),
    exitPrice: price('exit_tick', 'sell_spot'),
    currentSpot: price('current_spot')
  })
}

/** A price as printed: the display value where there is one, since numbers have lost their last zeros. */
function spotOf(fields: Fields, names: string[], pipSizeOf: PipSizeOf): string | null {
  for (const name of names) {
    const printed = fields.price(`${name}_display_value`)
    if (printed !== null) return printed
    const value = fields.price(name)
    if (value === null) continue
    const asset = fields.text('underlying')
    const decimals = asset === null ? undefined : pipSizeOf(asset)
    return decimals === undefined ? value : new Big(value).toFixed(decimals)
  }
  return null
}

function flag(body: Body, field: string): boolean {
  const value = body[field]
  if (value === 0 || value === 1) return value === 1
  throw new BadFrame(`${field} is not a flag`)
}

const REPORT_PAGE = 1_000
/** More contracts of a day are not read one by one: each page is a call. */
const MAX_REPORT_PAGES = 50
const REPORT_WAIT_MS = 60_000

/** Statistics and details of a day: who the token's owner is does not matter, the report is about the applications. */
async function reportMarkup(
  url: string,
  { place, access, day }: { place: DialectContext; access: ReportAccess; day: string }
): Promise<MarkupReport> {
  const token = await readToken(access, wellFormedToken)
  const connection = await openSocket(url, place, false)
  const request = async (call: string, fields: Body): Promise<Frame> => {
    await place.budget.take('general', { waitMs: REPORT_WAIT_MS })
    try {
      const frame = await connection.call(
        { [call]: 1, ...fields },
        { responseKey: call, timeoutMs: place.responseTimeoutMs }
      )
      place.budget.succeeded('general')
      return frame
    } catch (error) {
      if (error instanceof BrokerError && isRateLimit(error)) place.budget.backOff('general')
      throw error
    }
  }
  try {
    await place.budget.take('general', { waitMs: REPORT_WAIT_MS })
    await sendToken(connection, place, token)
    const range = { date_from: `${day} 00:00:00`, date_to: `${day} 23:59:59` }
    const statistics = await request('app_markup_statistics', range)
    const whole = readResponse(statistics, frame => readStatistics(frame, access.appId))
    if (whole.contracts > REPORT_PAGE * MAX_REPORT_PAGES)
      return { sums: [{ ...whole, currency: 'USD' }], contracts: null, consistent: true }
    const contracts: ReportedMarkup[] = []
    for (let page = 0; page < MAX_REPORT_PAGES; page++) {
      const requested = { app_id: Number(access.appId), limit: REPORT_PAGE, offset: contracts.length, sort: 'ASC' }
      const rows = readResponse(await request('app_markup_details', { ...range, ...requested }), readDetails)
      contracts.push(...rows)
      if (rows.length === 0 || contracts.length >= whole.contracts) break
    }
    return { sums: sumsOf(contracts), contracts, consistent: contracts.length === whole.contracts }
  } finally {
    connection.close()
  }
}

/** The application's own row; one without a markup has none. */
function readStatistics(
  { app_markup_statistics: statistics }: Frame,
  appId: string
): { contracts: number; markup: string } {
  const breakdown = listOf(bodyOf(statistics, 'app_markup_statistics').breakdown ?? [], 'breakdown')
  const own = breakdown.map(row => bodyOf(row, 'a row of breakdown')).find(row => String(row.app_id) === appId)
  if (own === undefined) return { contracts: 0, markup: '0' }
  return { contracts: integerOf(own, 'transactions_count'), markup: decimalOf(own, 'app_markup_usd') }
}

function readDetails({ app_markup_details: details }: Frame): ReportedMarkup[] {
  return listOf(bodyOf(details, 'app_markup_details').transactions ?? [], 'transactions').map(each => {
    const row = bodyOf(each, 'a row of transactions')
    return {
      transactionId: idOf(row, 'transaction_id'),
      accountId: textOf(row, 'client_loginid'),
      currency: textOf(row, 'client_currcode'),
      markup: decimalOf(row, 'app_markup')
    }
  })
}

function sumsOf(contracts: ReportedMarkup[]): MarkupReport['sums'] {
  return [...Map.groupBy(contracts, ({ currency }) => currency)].map(([currency, list]) => ({
    currency,
    contracts: list.length,
    markup: list.reduce((sum, { markup }) => sum.plus(markup), new Big(0)).toFixed()
  }))
}
