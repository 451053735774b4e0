// One account's session with the broker in any dialect: the port's calls over the account's connection.
import type { ContractLimits } from '../../../schemas/market.ts'
import { BrokerError } from '../broker-error.ts'
import type { Request } from '../dialects/dialect.ts'
import { BadFrame, type Body, bodyOf, decimalOf, idOf, listOf, moneyOf, textOf, timeOf } from '../dialects/reading.ts'
import { endOf, secondsOf } from '../dialects/shortcode.ts'
import { PROFIT_TABLE, readPages } from '../pages.ts'
import type {
  Bought,
  BuyOptions,
  Contract,
  ContractListener,
  ContractState,
  Evidence,
  ListRange,
  Session
} from '../port.ts'
import { readResponse } from './reconnecting.ts'
import type { BrokerConnection, Frame, Stream } from './sockets.ts'
import { notFound, Subscriptions, type SubscriptionsOptions } from './subscriptions.ts'
import { exhausted } from './waiting-calls.ts'

interface SessionOptions extends Omit<SubscriptionsOptions, 'openContracts'> {
  accountId: string
  responseTimeoutMs: number
  /**
   * Seconds until a market that the broker just reported closed opens, at the first possible one of `openings`; null
   * when unknown.
   */
  secondsUntilReopening(asset: string, openings: readonly number[]): Promise<number | null>
}

/** Orders wait longer than the broker's own time-out, so that its response arrives before we record doubt. */
const orderPatience = 1.2
const MAX_EARLY_FRAMES = 16

export class AccountSession implements Session {
  readonly subscriptions: Subscriptions
  readonly #options: SessionOptions

  constructor(options: SessionOptions) {
    this.#options = options
    this.subscriptions = new Subscriptions({
      ...options,
      openContracts: async () => new Set((await this.portfolio()).map(({ contractId }) => contractId))
    })
  }

  async buy(contract: Contract, options: BuyOptions): Promise<Bought> {
    const { dialect, reconnecting, responseTimeoutMs } = this.#options
    const { beforeSend, signal, listener, waitMs, late: onLate } = options
    const request = dialect.buy(contract, options.maxPrice)
    const purchase = listener === undefined ? undefined : this.#purchaseStream(listener)
    const late = onLate && lateStream(onLate, () => purchase?.bought())
    const free = purchase === undefined || this.#mayPark(contract) ? null : this.subscriptions.reserve()
    if (free !== null) request.subscribe = 1
    const timeoutMs = responseTimeoutMs * orderPatience
    try {
      const frame = await reconnecting.call('buy', request, {
        mayRun: true,
        purchase: true,
        timeoutMs,
        waitMs,
        beforeSend,
        signal,
        stream: purchase?.stream,
        late
      })
      return purchase?.bought() ?? readResponse(frame, readBought, true)
    } catch (error) {
      throw await this.#withOpening(error, contract.asset)
    } finally {
      free?.()
    }
  }

  #mayPark(contract: Contract): boolean {
    const seconds = secondsOf(contract)
    return seconds !== null && this.subscriptions.mayPark(this.#options.now() / 1000 + seconds)
  }

  subscribe(contractId: string, listener: ContractListener): Promise<ContractState> {
    if (!isContractId(contractId)) return Promise.reject(notFound())
    return this.subscriptions.subscribe(contractId, listener)
  }

  unsubscribe(contractId: string): void {
    this.subscriptions.unsubscribe(contractId)
  }

  async contract(contractId: string, { leisurely = false } = {}): Promise<ContractState> {
    if (!isContractId(contractId)) throw notFound()
    const { dialect, reconnecting, pipSizeOf } = this.#options
    if (leisurely && !reconnecting.plenty('proposal_open_contract')) throw exhausted('kept for what is urgent')
    const frame = await this.#read('proposal_open_contract', { contract_id: Number(contractId) })
    const state = readResponse(frame, ({ proposal_open_contract: contract }) => {
      const body = bodyOf(contract, 'proposal_open_contract')
      if (Object.keys(body).length === 0) throw notFound()
      return dialect.readState(body, pipSizeOf)
    })
    return state.settled && state.sellPrice === null && !leisurely ? this.#withPaid(contractId, state) : state
  }

  /** No schema requires what a contract paid in its state: then the list of closed contracts shows it, if it has the contract by now. */
  async #withPaid(contractId: string, state: ContractState): Promise<ContractState> {
    const { purchaseTime, unreadable = [] } = state
    if (purchaseTime === null || unreadable.includes('sell_price')) return state
    const isSought = (row: Evidence) => row.contractId === contractId
    const read = (page: { limit: number; offset: number }) => this.profitTable({ from: purchaseTime, ...page })
    // Usually it is on the first page: the account's calls are few.
    const { rows } = await readPages(PROFIT_TABLE, read, isSought).catch((error: unknown) => {
      this.#options.log.info({ err: error, contractId }, 'what a contract paid could not be read')
      return { rows: [] }
    })
    const { sellPrice = null, sellTime = null } = rows.find(isSought) ?? {}
    return { ...state, sellPrice, sellTime: state.sellTime ?? sellTime }
  }

  async sell(contractId: string): Promise<{ contractId: string; soldFor: string; transactionId: string }> {
    if (!isContractId(contractId)) throw notFound()
    const timeoutMs = this.#options.responseTimeoutMs * orderPatience
    // Price 0: at the market.
    const frame = await this.#options.reconnecting.call(
      'sell',
      { sell: Number(contractId), price: 0 },
      { mayRun: true, timeoutMs }
    )
    return readResponse(frame, readSold, true)
  }

  async changeLimits(contractId: string, { stopLoss, takeProfit }: ContractLimits): Promise<void> {
    if (!isContractId(contractId)) throw notFound()
    const timeoutMs = this.#options.responseTimeoutMs * orderPatience
    const limit_order = { stop_loss: amountOf(stopLoss), take_profit: amountOf(takeProfit) }
    await this.#options.reconnecting.call(
      'contract_update',
      { contract_update: 1, contract_id: Number(contractId), limit_order },
      { mayRun: true, timeoutMs }
    )
  }

  async balance(): Promise<{ balance: string; currency: string | null }> {
    const frame = await this.#read('balance')
    return readResponse(frame, ({ balance }) => {
      const body = bodyOf(balance, 'balance')
      const { dialect, accountId } = this.#options
      if ((dialect.accountOfBalance(body) ?? accountId) !== accountId) throw anotherAccount()
      return { balance: decimalOf(body, 'balance'), currency: textOf(body, 'currency') || null }
    })
  }

  async portfolio(): Promise<Evidence[]> {
    const { dialect } = this.#options
    const frame = await this.#read('portfolio')
    return readResponse(frame, ({ portfolio }) => rowsOf(portfolio, 'contracts').map(row => dialect.readPortfolio(row)))
  }

  async statement({ from, to, limit = 100, offset }: ListRange): Promise<(Evidence | null)[]> {
    const { dialect } = this.#options
    const range = {
      date_from: from,
      ...(to === undefined ? {} : { date_to: to }),
      ...paged({ limit, offset, most: 999 })
    }
    const frame = await this.#read('statement', { action_type: 'buy', description: 1, ...range })
    return readResponse(frame, ({ statement }) =>
      rowsOf(statement, 'transactions').map(row => (isPurchase(row) ? dialect.readStatement(row) : null))
    )
  }

  async profitTable({ from, to, limit = 50, offset }: ListRange): Promise<(Evidence | null)[]> {
    const { dialect } = this.#options
    // In this call, unlike in the statement, times are strings.
    const dates = { date_from: String(from), ...(to === undefined ? {} : { date_to: String(to) }) }
    const page = paged({ limit, offset, most: 500 })
    const frame = await this.#read('profit_table', { description: 1, sort: 'DESC', ...dates, ...page })
    return readResponse(frame, ({ profit_table: table }) =>
      // By its schema a row may belong to no contract.
      rowsOf(table, 'transactions').map(row => (row.contract_id == null ? null : dialect.readProfitTable(row)))
    )
  }

  #read(call: string, fields: Request = {}): Promise<Frame> {
    return this.#options.reconnecting.read(call, { [call]: 1, ...fields })
  }

  /** Takes the purchase's response and then its contract; an update that overtakes the response waits for it. */
  #purchaseStream(listener: ContractListener): { stream: Stream; bought(): Bought | null } {
    const early: Frame[] = []
    let bought: Bought | null = null
    let deliver: ((frame: Frame) => boolean) | null = null
    const stream: Stream<BrokerConnection> = {
      receive: (frame, connection) => {
        if (deliver !== null) return deliver(frame)
        if (frame.buy === undefined) {
          if (early.length < MAX_EARLY_FRAMES) early.push(frame)
          return early.at(-1) === frame
        }
        const source = frame.subscription === undefined ? null : { connection, stream }
        bought = readBought(frame)
        deliver = this.subscriptions.adopt(bought, source, listener)
        for (const each of early.splice(0)) deliver(each)
        // The receipt's frame may have the contract's first state, and of a contract that is over by then no other follows.
        if (frame.proposal_open_contract !== undefined) deliver(frame)
        return true
      }
    }
    return { stream, bought: () => bought }
  }

  /** The error with the opening time of a closed market, by the broker's clock. */
  async #withOpening(error: unknown, asset: string): Promise<unknown> {
    if (!(error instanceof BrokerError) || error.code !== 'MARKET_CLOSED') return error
    const { code, message, brokerCode, ran, openings } = error
    const secondsUntilOpen = await this.#options.secondsUntilReopening(asset, openings)
    return new BrokerError(code, message, {
      brokerCode,
      ran,
      secondsUntilOpen,
      openings,
      cause: error
    })
  }
}

/** Takes further receipts of a purchase: those of the contract that is known are repetitions. */
function lateStream(onLate: (bought: Bought) => void, known: () => Bought | null | undefined): Stream {
  return {
    receive(frame) {
      const bought = readBought(frame)
      if (bought.contractId === known()?.contractId) return false
      onLate(bought)
      return true
    }
  }
}

function readBought({ buy }: Frame): Bought {
  const body = bodyOf(buy, 'buy')
  const shortcode = textOf(body, 'shortcode')
  return {
    contractId: idOf(body, 'contract_id'),
    transactionId: idOf(body, 'transaction_id'),
    buyPrice: moneyOf(body, 'buy_price'),
    payout: moneyOf(body, 'payout'),
    purchaseTime: timeOf(body, 'purchase_time'),
    shortcode,
    expiryTime: endOf(shortcode)
  }
}

/** A limit as the broker takes it: a number sets it, null removes it. */
function amountOf(limit: string | null): number | null {
  return limit === null ? null : Number(limit)
}

function readSold({ sell }: Frame): { contractId: string; soldFor: string; transactionId: string } {
  const body = bodyOf(sell, 'sell')
  return {
    contractId: idOf(body, 'contract_id'),
    soldFor: decimalOf(body, 'sold_for'),
    transactionId: idOf(body, 'transaction_id')
  }
}

/**
 * The rows of a list in a response. A row that is no object is one that shows nothing: left out, its contract would count as absent. So
 * would all contracts where the rows are missing, which only the schemas of `transactions` allow, and those of rows that are counted and
 * not there.
 */
function rowsOf(response: unknown, field: 'contracts' | 'transactions'): Body[] {
  const { [field]: listed, count } = bodyOf(response, 'the response')
  const isEmpty = listed === undefined && field === 'transactions' && !count
  const rows = isEmpty ? [] : listOf(listed, field)
  if (Number(count) > rows.length) throw new BadFrame(`${field} has fewer rows than it counts`)
  return rows.map(row => (isBody(row) ? row : {}))
}

function isBody(row: unknown): row is Body {
  return typeof row === 'object' && row !== null && !Array.isArray(row)
}

/**
 * Whether a row of the statement is, or may be, of a purchase: no schema requires its type, and only a purchase of a contract takes
 * money. Where neither type nor contract is there at all, nothing shows that it is of something else.
 */
function isPurchase({ action_type: type, contract_id: contractId, amount }: Body): boolean {
  const mayHaveContract = contractId != null || (contractId === undefined && type == null)
  return type === 'buy' || (type !== 'sell' && mayHaveContract && !(Number(String(amount)) >= 0))
}

function paged({ limit, offset, most }: { limit: number; offset?: number; most: number }): Request {
  return { limit: Math.max(1, Math.min(limit, most)), ...(offset === undefined ? {} : { offset }) }
}

/** Contract ids are sent as numbers; anything else cannot be a contract of this broker. */
function isContractId(contractId: string): boolean {
  return /^[1-9]\d{0,15}$/.test(contractId) && Number.isSafeInteger(Number(contractId))
}

function anotherAccount(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The broker responded for another account.', {
    brokerCode: 'WrongAccount',
    ran: 'no'
  })
}
