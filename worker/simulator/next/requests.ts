// The requests of the newer dialect, one row a call: the first dialect's without what it dropped.
import type { TokenScope } from '../engine/accounts.ts'
import { contractTypes as olderTypes } from '../engine/requests.ts'
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
} from '../engine/shapes.ts'

const dropped = /^(CALLSPREAD|PUTSPREAD|LB\w+|SNOW\w+)$/
const contractTypes = ['HIGHER', 'LOWER', ...olderTypes.filter(type => !dropped.test(type))]
const contractType = oneOf(...contractTypes)
const granularities = [60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400]
const streams = 'balance candles cashier_payments proposal proposal_open_contract ticks transaction'.split(' ')

const terms = {
  amount: positive,
  barrier,
  barrier2: barrier,
  basis: oneOf('payout', 'stake'),
  cancellation: matching('^\\w+$'),
  contract_type: contractType,
  currency,
  date_expiry: epoch(0),
  duration: { type: 'integer', minimum: 0, maximum: 99_999_999 },
  duration_unit: oneOf('d', 'm', 's', 'h', 't'),
  growth_rate: number,
  limit_order: object({ stop_loss: number, take_profit: number }),
  multiplier: positive,
  payout_per_point: number,
  selected_tick: integer,
  underlying_symbol: symbol
}

const trade: TokenScope[] = ['trade']
const open = { scopes: null, loginid: false, class: 'general' } as const
const own = { scopes: trade, loginid: false, class: 'general' } as const
const someTypes = { type: 'array', items: contractType }

/** Every call the newer dialect understands here. */
export const nextCalls: Record<string, CallRule> = {
  balance: { ...own, fields: { balance: flag, subscribe: bit }, required: ['balance'], class: 'money' },
  active_symbols: {
    ...open,
    fields: { active_symbols: oneOf('brief', 'full'), contract_type: someTypes },
    required: ['active_symbols']
  },
  contracts_for: { ...open, fields: { contracts_for: symbol }, required: ['contracts_for'] },
  trading_times: {
    ...open,
    fields: { trading_times: matching('^([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|today)$') },
    required: ['trading_times']
  },
  proposal: {
    ...open,
    fields: { ...terms, proposal: flag, subscribe: flag },
    required: ['proposal', 'contract_type', 'currency', 'underlying_symbol'],
    class: 'trading'
  },
  buy: {
    ...own,
    fields: {
      buy: matching('^(?:[\\w-]{32,128}|1)$'),
      parameters: object({ ...terms, app_markup_percentage: number, date_expiry: epoch(1) }, [
        'contract_type',
        'currency',
        'underlying_symbol'
      ]),
      price: positive,
      subscribe: flag
    },
    required: ['buy', 'price'],
    class: 'trading'
  },
  proposal_open_contract: {
    ...own,
    fields: { proposal_open_contract: flag, contract_id: integer, subscribe: flag },
    required: ['proposal_open_contract'],
    class: 'trading'
  },
  sell: { ...own, fields: { sell: integer, price: number }, required: ['sell', 'price'], class: 'trading' },
  cancel: { ...own, fields: { cancel: integer }, required: ['cancel'] },
  contract_update: {
    ...own,
    fields: {
      contract_update: flag,
      contract_id: integer,
      limit_order: object({ stop_loss: { type: ['null', 'number'] }, take_profit: { type: ['null', 'number'] } })
    },
    required: ['contract_update', 'contract_id', 'limit_order']
  },
  portfolio: {
    ...own,
    fields: { portfolio: flag, contract_type: someTypes },
    required: ['portfolio'],
    class: 'lists'
  },
  profit_table: {
    ...own,
    fields: {
      profit_table: flag,
      contract_type: { ...someTypes, uniqueItems: true },
      date_from: date,
      date_to: date,
      description: bit,
      limit: { type: 'number', minimum: 0, maximum: 500 },
      offset,
      sort: oneOf('ASC', 'DESC')
    },
    required: ['profit_table'],
    class: 'lists'
  },
  statement: {
    ...own,
    fields: {
      statement: flag,
      action_type: oneOf('buy', 'sell', 'deposit', 'withdrawal'),
      date_from: epoch(0),
      date_to: epoch(0),
      description: bit,
      limit: { type: 'number', minimum: 0, maximum: 999 },
      offset
    },
    required: ['statement'],
    class: 'money'
  },
  transaction: { ...own, fields: { transaction: flag, subscribe: flag }, required: ['transaction', 'subscribe'] },
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
    fields: { forget_all: { oneOf: [oneOf(...streams), { type: 'array', items: oneOf(...streams) }] } },
    required: ['forget_all']
  }
}

/** What is wrong with a request of the newer dialect. */
export const nextComplaints = complaintsOf(nextCalls)
