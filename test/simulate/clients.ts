// The partners' side of a simulation: each life is one clientOrderId, requested, repeated, given up on, closed, and
// every response it received, to be compared with the rows and the books at the end.

import type { ApiServices, Caller } from '../../api/operation.ts'
import { close } from '../../api/orders/orders.ts'
import { place } from '../../api/orders/placing.ts'
import type { OrderTerms } from '../../db/orders/inserting.ts'
import type { Outcome } from '../../db/orders/reading.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Chance, Counts } from './chance.ts'
import type { Actor, Schedule } from './clock.ts'
import type { WorldParty } from './setup.ts'

/** An api process. */
export interface Api {
  actor: Actor
  services: ApiServices
  /** Requests under way; rejected when the process dies. */
  requests: Set<() => void>
}

export interface TimedResponse {
  at: number
  status: 'OPEN' | 'CLOSED' | 'FAILED' | 'PENDING' | 'REFUSED'
  orderId: string | undefined
  brokerOrderId: string | undefined
  pnl: number | undefined
  /** The broker refused these terms: a repeat changes nothing. */
  final?: boolean
  /** Placing was halted, and nothing was stored. */
  halted?: boolean
}

export interface ClientLife {
  clientOrderId: string
  party: WorldParty
  terms: OrderTerms
  settle: boolean
  responses: TimedResponse[]
  /** Requests sent. */
  requests: number
  /** Requests, or plans to make one, that go on. */
  active: number
}

interface ClientWorld {
  schedule: Schedule
  chance: Chance
  counts: Counts
  /** Broker accounts whose traders have turned to other software. */
  gone: ReadonlySet<string>
  /** An api process that takes requests now, if there is one. */
  api(): Api | undefined
}

const MAX_REPEATS = 25
const CLIENT_PATIENCE_MS = 60_000
// Clients begin and repeat in bunches.
const GRID_MS = 100

const types = ['CALL', 'PUT', 'DIGITEVEN', 'DIGITOVER'] as const

/** A life. With enough `stakes` they differ within an account, so that the books show whose contract is whose. */
export function makeLife(chance: Chance, party: WorldParty, number: number, stakes: number): ClientLife {
  const contractType = chance.of(types)
  const kind = chance.weighted({ ticks: 70, seconds: 22, minutes: 2, multiplier: 2 })
  const multiplier = kind === 'multiplier'
  const unit = kind === 'ticks' ? 't' : kind === 'seconds' ? 's' : 'm'
  const terms: OrderTerms = {
    kind: multiplier ? 'MULTIPLIER' : 'BINARY',
    asset: chance.of(['R_10', 'R_100']),
    contractType: multiplier ? null : contractType,
    direction: multiplier ? chance.of(['up', 'down']) : null,
    multiplier: multiplier ? '100' : null,
    stake: (1 + (number % stakes) / 100).toFixed(2),
    duration: multiplier
      ? null
      : kind === 'ticks'
        ? chance.int(1, 5)
        : kind === 'seconds'
          ? chance.int(5, 30)
          : chance.int(1, 2),
    durationUnit: multiplier ? null : unit,
    barrier: contractType === 'DIGITOVER' && !multiplier ? '4' : null,
    stopLoss: null,
    takeProfit: null
  }
  const settle = kind === 'ticks' || (!multiplier && chance.is(0.2))
  return { clientOrderId: `client-${number}`, party, terms, settle, responses: [], requests: 0, active: 0 }
}

/** Lives a life; nothing of it is `active` any more when the client is content or gives up. */
export function live(world: ClientWorld, life: ClientLife): void {
  const { chance, counts, schedule } = world
  life.active += 1
  send(world, life, 0)
  if (chance.is(0.04)) {
    counts.add('client: requests twice at once')
    life.active += 1
    send(world, life, MAX_REPEATS)
  }
  if (chance.is(0.03)) {
    counts.add('client: requests again later')
    life.active += 1
    schedule.onGrid(chance.int(50, 30_000), GRID_MS, null, 'send again', () => send(world, life, MAX_REPEATS))
  }
}

function done(life: ClientLife): void {
  life.active -= 1
}

function send(world: ClientWorld, life: ClientLife, repeats: number): void {
  const { schedule, chance, counts } = world
  if (world.gone.has(life.party.accountId)) {
    done(life)
    return
  }
  const again = (ms: number, why: string) => {
    if (repeats >= MAX_REPEATS) return done(life)
    counts.add(`client: repeats after ${why}`)
    schedule.onGrid(ms, GRID_MS, null, `repeat ${life.clientOrderId}`, () => send(world, life, repeats + 1))
  }
  life.requests += 1
  request(world, api => placeWith(api, life), {
    // The process died, or there was none: nothing is known.
    lost: () => again(chance.int(100, 3000), 'a lost connection'),
    impatient: () => again(chance.int(100, 3000), 'no response'),
    responded(response) {
      life.responses.push({ at: schedule.now, ...response })
      if (response.status === 'PENDING') return again(chance.int(500, 8000), 'PENDING')
      if (response.status === 'FAILED' && chance.is(0.7)) return again(chance.int(50, 5000), 'FAILED')
      if (response.status === 'REFUSED' && response.orderId === undefined && chance.is(0.7))
        return again(chance.int(1000, 8000), 'trouble of ours')
      if (response.halted && chance.is(0.7)) return again(chance.int(500, 8000), 'a halt')
      if (response.status === 'OPEN') {
        const multiplier = life.terms.kind === 'MULTIPLIER'
        if (multiplier || chance.is(0.1)) {
          // Often right when the contract ends by itself.
          const lasts = (life.terms.duration ?? 5) * (life.terms.durationUnit === 'm' ? 60_000 : 1000)
          const ms = chance.is(0.5) ? lasts + chance.int(-200, 200) : chance.int(10, 4000)
          schedule.onGrid(Math.max(1, ms), GRID_MS, null, 'close', () => sell(world, life, response.orderId as string))
          return
        }
      }
      done(life)
    }
  })
}

function sell(world: ClientWorld, life: ClientLife, orderId: string): void {
  const { schedule, chance, counts } = world
  const again = () => {
    counts.add('client: repeats a close')
    schedule.onGrid(chance.int(200, 4000), GRID_MS, null, 'close again', () => sell(world, life, orderId))
  }
  counts.add('client: closes')
  request(world, api => closeWith(api, life, orderId), {
    lost: again,
    impatient: again,
    responded(response) {
      if (response.status === 'CLOSED') {
        life.responses.push({ at: schedule.now, ...response })
        return done(life)
      }
      // Too late to sell means that it ends by itself.
      if (response.status === 'REFUSED' && life.terms.kind === 'BINARY') return done(life)
      again()
    }
  })
}

type ClientResponse = Omit<TimedResponse, 'at'>

/** Sends a request to some api process, and is notified of one of three ends of it. */
function request(
  { schedule, chance, counts, api: find }: ClientWorld,
  run: (api: Api) => Promise<ClientResponse>,
  ends: { responded(response: ClientResponse): void; lost(): void; impatient(): void }
): void {
  const api = find()
  if (!api) return void schedule.after(500, null, 'refused', ends.lost)
  let ended = false
  const once = (end: () => void) => {
    if (ended) return
    ended = true
    cancel()
    api.requests.delete(died)
    end()
  }
  const died = () => once(() => schedule.after(5, null, 'lost', ends.lost))
  api.requests.add(died)
  const cancel = schedule.after(CLIENT_PATIENCE_MS, null, 'impatient', () =>
    once(() => {
      counts.add('client: lost patience')
      ends.impatient()
    })
  )
  schedule.after(chance.int(1, 5), api.actor, 'request', () => {
    void run(api).then(response =>
      schedule.after(chance.int(1, 15), null, `received ${response.status}`, () => once(() => ends.responded(response)))
    )
  })
}

const callerOf = ({ partnerId, appId, dialect }: WorldParty): Caller => ({
  keyId: 'key',
  scopes: [],
  partnerId,
  partnerName: 'Simulated',
  plan: 'SCALE',
  saasStatus: 'ACTIVE',
  brokerAppId: appId,
  brokerDialect: dialect,
  limits: { perKeyPerMinute: null, perTraderPerMinute: null },
  testOf: null
})

const present = (row: Outcome) => ({
  orderId: row.id,
  brokerOrderId: row.broker_order_id,
  status: row.status,
  pnl: row.pnl === null ? undefined : Number(row.pnl)
})

async function placeWith(
  { services }: Api,
  { party, clientOrderId, terms, settle }: ClientLife
): Promise<ClientResponse> {
  const requested = {
    partner: callerOf(party),
    trace: ''.padStart(32, '5'),
    ageMs: () => 0,
    signal: new AbortController().signal
  }
  try {
    const { traderExternalId } = party
    const { body } = await place(requested, services, { clientOrderId, traderExternalId, terms, settle, present })
    return body as ClientResponse
  } catch (error) {
    return refused(error)
  }
}

async function closeWith({ services }: Api, { party, terms }: ClientLife, id: string): Promise<ClientResponse> {
  const requested = {
    partner: callerOf(party),
    trace: ''.padStart(32, '5'),
    signal: new AbortController().signal
  }
  try {
    return present(await close(requested, services, { orderId: id, kind: terms.kind })) as ClientResponse
  } catch (error) {
    return refused(error)
  }
}

/** An error as a client sees it: without an order's id nothing is known of the order. */
function refused(error: unknown): ClientResponse {
  const extras = error instanceof ApiError ? error.extras : {}
  const orderId = (extras as { orderId?: string }).orderId
  const status = (extras as { status?: TimedResponse['status'] }).status
  const code = error instanceof ApiError ? error.code : 'BROKER_UPSTREAM'
  return {
    status: status ?? 'REFUSED',
    orderId: orderId ?? (code === 'BROKER_UPSTREAM' ? undefined : ''),
    brokerOrderId: undefined,
    pnl: undefined,
    halted: code === 'TRADING_HALTED',
    final: code === 'INVALID_CONTRACT' || code === 'INSUFFICIENT_BALANCE' || code === 'MARKET_CLOSED'
  }
}
