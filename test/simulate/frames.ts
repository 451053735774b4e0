// The broker of a simulation on frames: what a worker's real dialect writes is read here, suffers the same faults as above
// the port, and responds in frames, which get lost with their connection.

import type { Log } from '../../db/platform/log.ts'
import type { Config } from '../../schemas/config/config.ts'
import { type Brokers, openBrokers } from '../../worker/broker/brokers.ts'
import type { Contract, ContractListener, ContractState } from '../../worker/broker/port.ts'
import type { DialectName } from '../support/dialects.ts'
import type { Deal } from './books.ts'
import { meetFate } from './buys.ts'
import type { Actor } from './clock.ts'
import { announce, type BrokerWorld, type Pending, SimulatedConnection } from './connection.ts'
import { spoiled } from './invalid-states.ts'
import { receiptOf, rowOf, stateOf } from './messages.ts'
import { Socket, type SocketPeer, serveSockets } from './socket.ts'

type SimulatedBody = Record<string, unknown>

const PATIENCE_MS = 24_000
const GRID_MS = 20
// What the newer dialect grants.
const SOCKETS_OF_USER = 5
const CALLS_A_MINUTE = 300

/** The brokers of one worker, in its real dialect. */
export function openFramedBrokers(
  world: BrokerWorld,
  actor: Actor,
  { config, log, dialect }: { config: Config; log: Log; dialect: DialectName }
): Brokers & { connection: SimulatedConnection } {
  const connection = new SimulatedConnection(world, actor)
  const brokers = openBrokers({ ...config, brokerDialect: dialect }, log)
  return { connection, ...brokers }
}

/** Serves the sockets and the REST calls of whoever runs now. */
export function serveFrames(world: BrokerWorld, dialect: DialectName): void {
  const connectionOfNow = () => [...world.connections].find(({ actor }) => actor === world.schedule.current)
  const calls = new Map<SimulatedConnection, number[]>()

  serveSockets(async url => {
    const connection = connectionOfNow()
    if (!connection) throw new Error('its process is gone')
    await reached(connection)
    const { pathname, searchParams } = new URL(url)
    const accountId = pathname.startsWith('/account/') ? pathname.split('/').at(2) : undefined
    const ofAccount = [...connection.served].filter(each => (each as ServedFrames).account?.accountId === accountId)
    if (dialect === 'next' && accountId && ofAccount.length >= SOCKETS_OF_USER) throw new Error('too many sockets')
    const appId = searchParams.get('app_id') ?? searchParams.get('app') ?? ''
    const socket = new Socket()
    socket.peer = new ServedFrames({ connection, socket, dialect, appId, accountId })
    return socket
  })

  // The newer dialect buys its addresses over REST.
  globalThis.fetch = (async (url: string, { headers }: { headers: Record<string, string> }) => {
    const connection = connectionOfNow()
    if (!connection) throw new Error('its process is gone')
    await reached(connection)
    // That call only checks whether the broker can be reached.
    if (!url.includes('/options/')) return { status: 404, body: null }
    const recent = (calls.get(connection) ?? []).filter(at => at > world.schedule.now - 60_000)
    calls.set(connection, [...recent, world.schedule.now])
    const responseOf = (status: number, body: object) => ({
      status,
      body: [new TextEncoder().encode(JSON.stringify(body))]
    })
    if (recent.length >= CALLS_A_MINUTE) {
      world.counts.add('rest: too many calls')
      return responseOf(429, { errors: [{ code: 'TooManyRequests' }] })
    }
    const token = headers.authorization?.replace('Bearer ', '') as string
    if (world.revoked.has(token)) return responseOf(401, { errors: [{ code: 'Unauthorized' }] })
    const accountId = world.accountOf.get(token) as string
    if (!url.endsWith('/otp'))
      return responseOf(200, { data: [{ account_id: accountId, account_type: 'demo', currency: 'USD' }] })
    if (!url.includes(`/${accountId}/`)) return responseOf(404, { errors: [{ code: 'AccountNotFound' }] })
    const app = headers[APP_HEADER] ?? ''
    return responseOf(200, { data: { url: `ws://broker/account/${accountId}/demo?app=${app}` } })
  }) as unknown as typeof fetch
}

/** In which header the newer dialect takes the application here. */
export const APP_HEADER = 'app-id'

/** Waits until the broker can be reached, not for ever. */
async function reached(connection: SimulatedConnection): Promise<void> {
  const { schedule, chance } = connection.world
  const after = (ms: number) =>
    new Promise<void>(resolve => schedule.onGrid(ms, GRID_MS, connection.actor, 'connects', () => resolve()))
  await after(chance.int(1, 20))
  const waitMs = connection.upAt - schedule.now
  if (waitMs <= 0) return
  if (waitMs > 9000 || chance.is(0.5)) throw new Error('ECONNREFUSED')
  await after(waitMs + chance.int(5, 300))
}

/** One connection, as the broker sees it. */
class ServedFrames implements SocketPeer {
  readonly connection: SimulatedConnection
  readonly #socket: Socket
  readonly #dialect: DialectName
  readonly #appId: string
  account: { accountId: string; appId: string } | undefined
  #over = false
  #token: string | undefined
  /** Contract or 'transaction' → how its stream is named. */
  readonly #streams = new Map<string, { id: string; reqId: unknown; listener?: ContractListener }>()

  constructor(given: {
    connection: SimulatedConnection
    socket: Socket
    dialect: DialectName
    appId: string
    accountId: string | undefined
  }) {
    this.connection = given.connection
    this.#socket = given.socket
    this.#dialect = given.dialect
    this.#appId = given.appId
    if (given.accountId) this.account = { accountId: given.accountId, appId: given.appId }
    this.connection.served.add(this)
  }

  receive(text: string): void {
    const frame = JSON.parse(text) as SimulatedBody
    if (frame.buy !== undefined) return void this.#buy(frame)
    const { schedule, chance, counts, faults, spentUntil, books } = this.connection.world
    const call = ['authorize', ...Object.keys(this.#calls)].find(name => frame[name] !== undefined) as string
    const lists = call === 'portfolio' || call === 'statement' || call === 'profit_table'
    const slow = chance.is(faults().call)
    const refuses =
      chance.is(faults().call) && !['authorize', 'ping', 'time', 'forget', 'website_status'].includes(call)
    schedule.after(chance.int(2, 30), null, call, () => {
      if (this.#over && call !== 'sell') return
      const spent = lists && schedule.now < (spentUntil.get(this.account?.accountId ?? '') ?? 0)
      if (spent || refuses) {
        counts.add('read: refused')
        return void this.#refuse(frame, 'RateLimit')
      }
      const read = this.#calls[call]
      if (call !== 'authorize' && this.#token !== undefined && this.connection.world.revoked.has(this.#token))
        return void this.#refuse(frame, 'AuthorizationRequired')
      const body = read?.(frame, books)
      if (typeof body === 'string') this.#refuse(frame, body)
      else this.#respond(frame, call, body as SimulatedBody, slow ? chance.int(1000, 8000) : chance.int(5, 60))
    })
  }

  ended(): void {
    this.#over = true
    this.connection.served.delete(this)
    for (const pending of this.#pending) pending.reset?.()
    for (const [contractId, { listener }] of this.#streams) this.#unfollow(contractId, listener)
    this.#streams.clear()
  }

  /** The network takes the connection away. */
  drop(): void {
    const { schedule, chance } = this.connection.world
    this.ended()
    schedule.after(chance.int(0, 20), this.connection.actor, 'disconnected', () => this.#socket.terminate())
  }

  /** A contract of the account was sold: sent to whoever subscribed to movements. */
  moved(deal: Deal): void {
    const stream = deal.accountId === this.account?.accountId ? this.#streams.get('transaction') : undefined
    if (!stream) return
    const transaction = { action: 'sell', contract_id: Number(deal.id), transaction_id: Number(`${deal.id}2`) }
    this.#send({ transaction, subscription: { id: stream.id }, req_id: stream.reqId }, 20)
  }

  readonly #pending = new Set<Pending>()

  readonly #calls: Record<string, (frame: SimulatedBody, books: BrokerWorld['books']) => SimulatedBody | string> = {
    authorize: ({ authorize }) => {
      const token = authorize as string
      const accountId = this.connection.world.accountOf.get(token)
      if (!accountId || this.connection.world.revoked.has(token)) return 'InvalidToken'
      this.#token = token
      this.account = { accountId, appId: this.#appId }
      return { loginid: accountId, is_virtual: 1, currency: 'USD' }
    },
    ping: () => ({ ping: 'pong' }),
    time: (_, books) => ({ time: books.epoch(this.connection.world.schedule.now) }),
    website_status: () => ({ site_status: 'up' }),
    trading_times: () => ({ markets: [] }),
    balance: () => ({
      balance: 1000,
      currency: 'USD',
      ...(this.#dialect === 'v3' ? { loginid: this.account?.accountId } : {})
    }),
    forget: ({ forget }) => {
      for (const [contractId, { id, listener }] of this.#streams)
        if (id === forget) {
          this.#unfollow(contractId, listener)
          this.#streams.delete(contractId)
        }
      return { forget: 1 }
    },
    transaction: frame => {
      this.#stream('transaction', frame.req_id)
      return {}
    },
    proposal_open_contract: frame => {
      const { books } = this.connection.world
      const deal = books.deals.get(String(frame.contract_id))
      if (!deal || deal.accountId !== this.account?.accountId) return {}
      if (frame.subscribe === 1 && !deal.sale) this.#follow(deal, frame.req_id)
      return this.#stateOf(deal)
    },
    portfolio: () => ({ contracts: this.#rows('portfolio', deal => deal.sale === null) }),
    statement: ({ date_from: from, limit }) => ({
      transactions: this.#rows('statement', deal => deal.boughtEpoch >= Number(from)).slice(0, Number(limit))
    }),
    profit_table: ({ date_from: from, limit }) => ({
      transactions: this.#rows('profit_table', deal => deal.sale !== null && deal.boughtEpoch >= Number(from)).slice(
        0,
        Number(limit)
      )
    }),
    sell: frame => {
      const { books, schedule, counts } = this.connection.world
      const deal = books.deals.get(String(frame.sell)) as Deal
      const sold = schedule.now < deal.endsAt && books.sell(deal, schedule.now, true)
      counts.add(sold ? 'sale' : 'sale: too late')
      if (!sold) return 'InvalidSellContractProposal'
      announce(this.connection.world, deal)
      return { contract_id: Number(deal.id), sold_for: deal.sale!.price, transaction_id: Number(`${deal.id}2`) }
    }
  }

  #rows(list: 'portfolio' | 'statement' | 'profit_table', shows: (deal: Deal) => boolean): SimulatedBody[] {
    const { books, schedule } = this.connection.world
    const deals = books.of(this.account?.accountId ?? '').filter(deal => deal.visibleAt <= schedule.now && shows(deal))
    return deals.map(deal => rowOf(list, deal, books)).reverse()
  }

  #stateOf(deal: Deal): SimulatedBody {
    const { world } = this.connection
    return spoiled(world, deal, stateOf(world.books, deal, this.#dialect))
  }

  #buy(frame: SimulatedBody): void {
    const { connection, account } = this
    const { world } = connection
    const { schedule, chance, faults } = world
    if (!account) return void this.#refuse(frame, 'AuthorizationRequired')
    if (this.#token !== undefined && world.revoked.has(this.#token))
      return void this.#refuse(frame, 'AuthorizationRequired')
    const fate = chance.weighted(faults().buys)
    world.watchHalts({ appId: account.appId, asset: contractOf(frame).asset })
    const responded = world.books.written(account.accountId, { at: schedule.now, by: connection.actor.name })
    let waiting = true
    const pending: Pending = { written: true, reject() {} }
    this.#pending.add(pending)
    const over = () => {
      waiting = false
      this.#pending.delete(pending)
    }
    meetFate(connection, fate, {
      account: { ...account, token: async () => '' },
      contract: contractOf(frame),
      givesUpAt: schedule.now + PATIENCE_MS,
      onReset: then => {
        pending.reset = then
      },
      waiting: () => waiting && !this.#over,
      done: (deal, ms) =>
        this.#respond(frame, 'buy', receiptOf(deal, this.#dialect), ms, () => {
          over()
          responded()
          if (frame.subscribe !== 1) return undefined
          const { id } = this.#follow(deal, frame.req_id)
          if (deal.sale || chance.is(0.2)) this.#notify(deal)
          return id
        }),
      refused: (error, ms) => {
        this.#refuse(frame, error.brokerCode, ms, () => {
          over()
          if (error.ran === 'no') responded()
        })
      }
    })
  }

  #follow(deal: Deal, reqId: unknown): { id: string } {
    const known = this.#streams.get(deal.id)
    if (known) return known
    const listener: ContractListener = {
      update: (_: ContractState) => this.#notify(deal),
      // A stream that ends is reported with an error, or not at all.
      lost: () => this.#lose(deal.id)
    }
    this.connection.listen(deal.id, listener)
    return this.#stream(deal.id, reqId, listener)
  }

  #stream(name: string, reqId: unknown, listener?: ContractListener): { id: string } {
    const stream = {
      id: this.connection.world.chance.int(1e15, 9e15).toString(16),
      reqId,
      ...(listener ? { listener } : {})
    }
    this.#streams.set(name, stream)
    return stream
  }

  #notify(deal: Deal): void {
    const stream = this.#streams.get(deal.id)
    if (!stream) return
    if (deal.sale) this.#streams.delete(deal.id)
    this.#send(
      { proposal_open_contract: this.#stateOf(deal), subscription: { id: stream.id }, req_id: stream.reqId },
      1
    )
  }

  #lose(contractId: string): void {
    const stream = this.#streams.get(contractId)
    this.#streams.delete(contractId)
    if (stream)
      this.#send(
        {
          error: { code: 'InternalServerError', message: 'gone' },
          req_id: stream.reqId,
          subscription: { id: stream.id }
        },
        1
      )
  }

  #unfollow(contractId: string, listener: ContractListener | undefined): void {
    const listeners = this.connection.follows.get(contractId)
    if (listener) listeners?.delete(listener)
    if (listeners?.size === 0) this.connection.follows.delete(contractId)
  }

  /** Responds to a call; `then` runs right before, and may name the stream that the response opens. */
  #respond(
    frame: SimulatedBody,
    call: string,
    body: SimulatedBody,
    ms: number,
    then: () => string | undefined = () => undefined
  ): void {
    const plain = call === 'ping' || call === 'time' || call === 'forget'
    this.connection.deliver(ms, call, () => {
      if (this.#over) return
      const id = then() ?? this.#streams.get(call === 'transaction' ? call : String(frame.contract_id))?.id
      const subscription = frame.subscribe === 1 && id ? { subscription: { id } } : {}
      const content = plain ? body : { [call]: body }
      this.#socket.arrive({ ...content, ...subscription, msg_type: call, req_id: frame.req_id })
    })
  }

  #refuse(frame: SimulatedBody, code: string, ms = 10, then = () => {}): void {
    this.connection.deliver(ms, `refused ${code}`, () => {
      if (this.#over) return
      then()
      const error = { code, message: `The broker said ${code}.` }
      this.#socket.arrive({ error, req_id: frame.req_id, ...(frame.buy === undefined ? {} : { msg_type: 'buy' }) })
    })
  }

  #send(frame: SimulatedBody, ms: number): void {
    this.connection.deliver(ms, 'frame', () => this.#over || this.#socket.arrive(frame))
  }
}

/** The contract that a frame requests. */
function contractOf({ parameters }: SimulatedBody): Contract {
  const terms = parameters as SimulatedBody
  const common = {
    asset: (terms.symbol ?? terms.underlying_symbol) as string,
    stake: Number(terms.amount).toFixed(2),
    currency: terms.currency as string
  }
  if (terms.multiplier !== undefined)
    return {
      ...common,
      kind: 'MULTIPLIER',
      direction: terms.contract_type === 'MULTUP' ? 'up' : 'down',
      multiplier: Number(terms.multiplier),
      stopLoss: null,
      takeProfit: null
    }
  return {
    ...common,
    kind: 'BINARY',
    contractType: terms.contract_type as 'CALL',
    duration: Number(terms.duration),
    durationUnit: terms.duration_unit as 't',
    barrier: (terms.barrier as string | undefined) ?? null
  }
}
