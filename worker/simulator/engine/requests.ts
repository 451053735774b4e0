// The requests of the first dialect, one row a call.
import type { TokenScope } from './accounts.ts'
import {
  barrier,
  bit,
  type CallRule,
  complaintsOf,
  currency,
  date,
  epoch,
  flag,
  integer,
  matching,
  number,
  object,
  offset,
  oneOf,
  positive,
  streamId,
  symbol
} from './shapes.ts'

export const contractTypes =
  `ACCU ASIAND ASIANU CALL CALLE CALLSPREAD DIGITDIFF DIGITEVEN DIGITMATCH DIGITODD DIGITOVER DIGITUNDER
  EXPIRYMISS EXPIRYMISSE EXPIRYRANGE EXPIRYRANGEE LBFLOATCALL LBFLOATPUT LBHIGHLOW MULTDOWN MULTUP NOTOUCH
  ONETOUCH PUT PUTE PUTSPREAD RANGE RESETCALL RESETPUT RUNHIGH RUNLOW SNOWDOWN SNOWUP TICKHIGH TICKLOW
  TURBOSLONG TURBOSSHORT UPORDOWN VANILLALONGCALL VANILLALONGPUT`.split(/\s+/)
const listedTypes = contractTypes.filter(type => !type.startsWith('SNOW'))
const landingCompanies = ['iom', 'malta', 'maltainvest', 'svg', 'virtual', 'vanuatu']
const barrierCategories = ['american', 'asian', 'euro_atm', 'euro_non_atm', 'non_financial', 'lookback', 'reset']
const granularities = [60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400]
const streams = `balance candles cashier_payments p2p_advert p2p_advertiser p2p_order proposal proposal_open_contract
  ticks transaction trading_platform_asset_listing website_status p2p_settings crypto_estimations`.split(/\s+/)

const token = matching('^[\\w\\-]{1,128}$')

/** Terms of a contract that both dialects have alike. */
export const commonTerms = {
  amount: positive,
  barrier,
  barrier2: barrier,
  basis: oneOf('payout', 'stake'),
  cancellation: matching('^\\w+$'),
  currency,
  date_expiry: epoch(0),
  duration: { type: 'integer', minimum: 0, maximum: 99_999_999 },
  duration_unit: oneOf('d', 'm', 's', 'h', 't'),
  growth_rate: number,
  limit_order: object({ stop_loss: number, take_profit: number }),
  multiplier: positive,
  payout_per_point: number,
  selected_tick: integer
}

const terms = {
  ...commonTerms,
  barrier_range: oneOf('tight', 'middle', 'wide'),
  contract_type: oneOf(...contractTypes),
  date_start: epoch(0),
  product_type: oneOf('basic'),
  symbol,
  trade_risk_profile: oneOf('low', 'medium', 'high'),
  trading_period_start: integer
}

// The first dialect's schemas take one instant or the other, anchored at one end each, as here.
const reportTime = matching(
  '^([0-9]{4}-(0?[1-9]|1[012])-(0?[1-9]|[12][0-9]|3[01]) ([01]?[0-9]|2[0-3]):([0-5]?[0-9]):([0-5]?[0-9])|[0-9]{1,10})$'
)

const read: TokenScope[] = ['read', 'trading_information']
const trade: TokenScope[] = ['trade']
const open = { scopes: null, loginid: false, class: 'general' } as const
const typesFilter = { type: 'array', items: oneOf(...listedTypes) }

function ofUser(call: string): CallRule {
  return { ...open, fields: { [call]: flag }, required: [call], loginid: true }
}

function listing(call: string): CallRule {
  const landing = oneOf(...landingCompanies)
  const rule = ofUser(call)
  return { ...rule, fields: { ...rule.fields, landing_company: landing, landing_company_short: landing } }
}

/** The calls without an account that both dialects have alike; `streams` are those of the dialect. */
export function openCalls(streams: string[]): Record<string, CallRule> {
  const streamName = oneOf(...streams)
  return {
    trading_times: {
      ...open,
      fields: { trading_times: matching('^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|today)$') },
      required: ['trading_times']
    },
    // Before `ticks`, so that no request is taken for the other: calls are found in this order.
    ticks_history: {
      ...open,
      fields: {
        ticks_history: symbol,
        adjust_start_time: flag,
        count: integer,
        end: matching('^(latest|[0-9]{1,10})$'),
        granularity: oneOf(...granularities),
        start: epoch(0),
        style: oneOf('candles', 'ticks'),
        subscribe: flag
      },
      required: ['ticks_history', 'end']
    },
    ticks: {
      ...open,
      fields: { ticks: { oneOf: [symbol, { type: 'array', items: symbol }] }, subscribe: flag },
      required: ['ticks'],
      msgType: 'tick'
    },
    time: { ...open, fields: { time: flag }, required: ['time'] },
    ping: { ...open, fields: { ping: flag }, required: ['ping'], class: null },
    forget: { ...open, fields: { forget: streamId }, required: ['forget'] },
    forget_all: {
      ...open,
      fields: { forget_all: { oneOf: [streamName, { type: 'array', items: streamName }] } },
      required: ['forget_all']
    }
  }
}

/** Every call this broker understands. */
export const calls: Record<string, CallRule> = {
  authorize: {
    ...open,
    fields: { authorize: token, add_to_login_history: bit, tokens: { type: 'array', items: token, maxItems: 25 } },
    required: ['authorize']
  },
  balance: {
    fields: {
      balance: flag,
      account: matching('^(current|all|[A-Z]{2,4}[0-9]{1,10})$'),
      subscribe: bit
    },
    required: ['balance'],
    scopes: read,
    loginid: true,
    class: 'general'
  },
  active_symbols: {
    ...open,
    fields: {
      active_symbols: oneOf('brief', 'full'),
      barrier_category: { type: 'array', items: oneOf(...barrierCategories) },
      contract_type: { type: 'array', items: oneOf(...listedTypes) },
      landing_company: oneOf(...landingCompanies),
      landing_company_short: oneOf(...landingCompanies),
      product_type: oneOf('basic')
    },
    required: ['active_symbols'],
    loginid: true
  },
  contracts_for: {
    ...open,
    fields: {
      contracts_for: symbol,
      currency,
      landing_company: oneOf(...landingCompanies),
      landing_company_short: oneOf(...landingCompanies),
      product_type: oneOf('basic')
    },
    required: ['contracts_for'],
    loginid: true
  },
  proposal: {
    fields: { ...terms, proposal: flag, subscribe: flag },
    required: ['proposal', 'contract_type', 'currency', 'symbol'],
    scopes: null,
    loginid: true,
    class: 'pricing'
  },
  buy: {
    fields: {
      buy: matching('^(?:[\\w-]{32,128}|1)$'),
      parameters: object(
        { ...terms, app_markup_percentage: number, date_expiry: epoch(1), trading_period_start: epoch(1) },
        ['contract_type', 'currency', 'symbol']
      ),
      price: positive,
      subscribe: flag
    },
    required: ['buy', 'price'],
    scopes: trade,
    loginid: true,
    class: 'pricing'
  },
  proposal_open_contract: {
    fields: { proposal_open_contract: flag, contract_id: integer, subscribe: flag },
    required: ['proposal_open_contract'],
    scopes: read,
    loginid: true,
    class: 'pricing'
  },
  sell: {
    fields: { sell: integer, price: number },
    required: ['sell', 'price'],
    scopes: trade,
    loginid: true,
    class: 'pricing'
  },
  cancel: { fields: { cancel: integer }, required: ['cancel'], scopes: trade, loginid: true, class: 'general' },
  sell_expired: {
    fields: { sell_expired: flag },
    required: ['sell_expired'],
    scopes: trade,
    loginid: true,
    class: 'general'
  },
  contract_update: {
    fields: {
      contract_update: flag,
      contract_id: integer,
      limit_order: object({
        stop_loss: { type: ['null', 'number'] },
        take_profit: { type: ['null', 'number'] }
      })
    },
    required: ['contract_update', 'contract_id', 'limit_order'],
    scopes: trade,
    loginid: true,
    class: 'general'
  },
  portfolio: {
    fields: { portfolio: flag, contract_type: typesFilter },
    required: ['portfolio'],
    scopes: read,
    loginid: true,
    class: 'outcome'
  },
  profit_table: {
    fields: {
      profit_table: flag,
      contract_type: typesFilter,
      date_from: date,
      date_to: date,
      description: bit,
      limit: { type: 'number', minimum: 0, maximum: 500 },
      offset,
      sort: oneOf('ASC', 'DESC')
    },
    required: ['profit_table'],
    scopes: read,
    loginid: true,
    class: 'outcome'
  },
  statement: {
    fields: {
      statement: flag,
      action_type: oneOf('buy', 'sell', 'deposit', 'withdrawal', 'escrow', 'adjustment', 'virtual_credit', 'transfer'),
      date_from: epoch(0),
      date_to: epoch(0),
      description: bit,
      limit: { type: 'number', minimum: 0, maximum: 999 },
      offset
    },
    required: ['statement'],
    scopes: read,
    loginid: true,
    class: 'outcome'
  },
  app_markup_details: {
    fields: {
      app_markup_details: flag,
      app_id: integer,
      client_loginid: matching('^[A-Za-z]{2,5}[0-9]{2,20}$'),
      date_from: reportTime,
      date_to: reportTime,
      description: bit,
      limit: { type: 'number', minimum: 0, maximum: 1000 },
      offset,
      sort: oneOf('ASC', 'DESC'),
      sort_fields: {
        type: 'array',
        items: oneOf('app_id', 'client_loginid', 'transaction_time'),
        maxItems: 3,
        uniqueItems: true
      }
    },
    required: ['app_markup_details', 'date_from', 'date_to'],
    scopes: ['read'],
    loginid: true,
    class: 'general'
  },
  app_markup_statistics: {
    fields: { app_markup_statistics: flag, date_from: reportTime, date_to: reportTime },
    required: ['app_markup_statistics', 'date_from', 'date_to'],
    scopes: ['read'],
    loginid: true,
    class: 'general'
  },
  transaction: {
    fields: { transaction: flag, subscribe: flag },
    required: ['transaction', 'subscribe'],
    scopes: read,
    loginid: true,
    class: 'general'
  },
  ...openCalls(streams),
  website_status: { ...open, fields: { website_status: flag, subscribe: bit }, required: ['website_status'] },
  // The documents name this call without a schema; this one follows its known response. No stream of rates here.
  exchange_rates: {
    ...open,
    fields: { exchange_rates: flag, base_currency: currency, target_currency: currency },
    required: ['exchange_rates', 'base_currency'],
    loginid: true
  },
  account_list: { ...open, fields: { account_list: flag }, required: ['account_list'], scopes: ['read'] },
  // The folder of schemas has none of this one; its fields are those all calls have.
  get_account_status: { ...ofUser('get_account_status'), scopes: ['read'] },
  topup_virtual: { ...ofUser('topup_virtual'), scopes: trade },
  payout_currencies: ofUser('payout_currencies'),
  asset_index: listing('asset_index'),
  trading_durations: listing('trading_durations'),
  logout: { ...open, fields: { logout: flag }, required: ['logout'], loginid: true }
}

/** What is wrong with a request of the first dialect. */
export const complaints = complaintsOf(calls)
