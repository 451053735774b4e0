// The requests of the newer dialect, one row a call: the first dialect's without what it dropped.
import type { TokenScope } from '../engine/accounts.ts'
import { commonTerms, contractTypes as olderTypes, openCalls } from '../engine/requests.ts'
import {
  bit,
  type CallRule,
  complaintsOf,
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
  symbol
} from '../engine/shapes.ts'

const dropped = /^(CALLSPREAD|PUTSPREAD|LB\w+|SNOW\w+)$/
const contractTypes = ['HIGHER', 'LOWER', ...olderTypes.filter(type => !dropped.test(type))]
const contractType = oneOf(...contractTypes)
const streams = 'balance candles cashier_payments proposal proposal_open_contract ticks transaction'.split(' ')

const terms = {
  ...commonTerms,
  contract_type: contractType,
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
  ...openCalls(streams)
}

/** What is wrong with a request of the newer dialect. */
export const nextComplaints = complaintsOf(nextCalls)
