// Maps the newer dialect's requests to the first dialect's, and the first dialect's responses and updates to the newer
// one's. Fields are renamed or left out; a contract's money and prices become strings.

import { digitsOf } from '../engine/currencies.ts'
import type { DialectMapping } from '../engine/dialect-mapping.ts'
import { SimulatedRefusal } from '../engine/refusal.ts'
import { toNextError } from './errors.ts'
import { nextCalls, nextComplaints } from './requests.ts'

type FrameBody = Record<string, unknown>

const MAX_STREAMS = 100
const perSecond = { calls: 100, pings: 10 }
const barrierless = new Set<unknown>(['CALL', 'PUT', 'CALLE', 'PUTE'])
const isDisplayed = /_display_value$/
const isMarked = /_display$/

/** The newer dialect over the handlers of the first. */
export const nextMapping: DialectMapping = {
  calls: nextCalls,
  complaints: nextComplaints,
  read(call, request) {
    if (call === 'proposal') return readTerms(request)
    if (call === 'buy' && request.parameters)
      return { ...request, parameters: readTerms(request.parameters as FrameBody) }
    return request
  },
  present: (field, body) => presenters[field]?.(body as never) ?? body,
  refuse: toNextError,
  maxStreams: MAX_STREAMS,
  perSecond
}

/** Up or down against a barrier has types of its own here, which this broker does not offer. */
function readTerms({ underlying_symbol: symbol, ...rest }: FrameBody): FrameBody {
  if (rest.barrier !== undefined && barrierless.has(rest.contract_type))
    throw new SimulatedRefusal('BarrierNotAllowed', 'Barrier is not allowed for this contract type.', {
      field: 'barrier'
    })
  return { ...rest, symbol }
}

const presenters: Record<string, (body: never) => unknown> = {
  proposal: (body: FrameBody) => without(body, 'display_value'),
  proposal_open_contract: toNextContract,
  portfolio: ({ contracts }: { contracts: FrameBody[] }) => ({
    contracts: contracts.map(row => underlying(row, 'app_id'))
  }),
  statement: (body: { transactions: FrameBody[] }) => ({
    ...body,
    transactions: body.transactions.map(row => ({
      ...without(row, 'app_id'),
      action_type: toNextAction(row.action_type)
    }))
  }),
  profit_table: (body: { transactions: FrameBody[] }) => ({
    ...body,
    transactions: body.transactions.map(row => without(row, 'app_id'))
  }),
  transaction: (body: FrameBody) => ({
    ...(body.symbol === undefined ? body : underlying(body, 'barrier', 'display_name')),
    ...(body.action === undefined ? {} : { action: toNextAction(body.action) })
  }),
  active_symbols: (rows: FrameBody[]) =>
    rows.map(row => ({
      exchange_is_open: row.exchange_is_open,
      is_trading_suspended: row.is_trading_suspended,
      market: row.market,
      pip_size: row.pip,
      subgroup: row.subgroup,
      submarket: row.submarket,
      trade_count: 0,
      underlying_symbol: row.symbol,
      underlying_symbol_name: row.display_name,
      underlying_symbol_type: row.symbol_type
    })),
  contracts_for: ({ available, hit_count }: { available: FrameBody[]; hit_count: number }) => ({
    available: available.map(row => {
      const kept = without(row, 'barrier_category', 'start_type', 'exchange_name')
      return Object.fromEntries(Object.entries(kept).filter(([field]) => !isMarked.test(field)))
    }),
    hit_count
  }),
  trading_times: ({
    markets
  }: {
    markets: { name: string; submarkets: { name: string; symbols: FrameBody[] }[] }[]
  }) => ({
    markets: markets.map(({ name, submarkets }) => ({
      name,
      submarkets: submarkets.map(each => ({ name: each.name, symbols: each.symbols.map(row => underlying(row)) }))
    }))
  })
}

/** A contract: its prices as printed, its money as text with the currency's decimals. */
function toNextContract(body: FrameBody): FrameBody {
  // There is no such contract.
  if (body.contract_id === undefined) return body
  const mapped: FrameBody = { underlying_symbol: body.underlying }
  const digits = digitsOf(String(body.currency))
  for (const [field, value] of Object.entries(body)) {
    if (left.has(field) || field.startsWith('sell_spot') || isDisplayed.test(field)) continue
    mapped[field] = money.has(field) && typeof value === 'number' ? value.toFixed(digits) : value
  }
  const print = (field: string) => body[`${field}_display_value`] ?? null
  if (body.entry_tick !== undefined) {
    mapped.entry_spot = print('entry_tick')
    mapped.entry_spot_time = body.entry_tick_time
  }
  if (body.exit_tick !== undefined) {
    mapped.exit_spot = print('exit_tick')
    mapped.exit_spot_time = body.exit_tick_time
  }
  mapped.current_spot = print('current_spot')
  return mapped
}

const left = new Set(
  'underlying display_name is_forward_starting entry_tick entry_tick_time exit_tick exit_tick_time'.split(' ')
)
const money = new Set('bid_price buy_price commission payout profit sell_price'.split(' '))

/** A row whose asset has the newer name, without these fields. */
function underlying({ symbol, ...rest }: FrameBody, ...fields: string[]): FrameBody {
  return { ...without(rest, ...fields), underlying_symbol: symbol }
}

function without(body: FrameBody, ...fields: string[]): FrameBody {
  const rest = { ...body }
  for (const field of fields) delete rest[field]
  return rest
}

/** Play money is a deposit like any other. */
function toNextAction(action: unknown): unknown {
  return action === 'virtual_credit' ? 'deposit' : action
}
