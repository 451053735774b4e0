// The partner's side: orders sent as a careful client sends them. An id per order, at times sent twice at once to
// both APIs; after a 408, a 502, a 503 or a lost connection the same id again, until there is an end or patience is
// over. Every response is compared with the contract and with the responses before it.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Operation } from '../../api/operation.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import type { BinaryOrder } from '../../schemas/orders.ts'
import { type Random, seeded } from '../money-storm/random.ts'
import { checkResponse } from '../support/harness.ts'
import type { ChaosStack, Trader } from './stack.ts'

const PATIENCE_MS = 60_000
const MOST_PAUSE_MS = 4000
const CLIENT_TIMEOUT_MS = 40_000
// Codes after which the same request may be repeated, and those that are an order's end.
const again = new Set(['BROKER_UPSTREAM', 'UNAVAILABLE', 'REQUEST_TIMEOUT'])
const final = new Set(['INVALID_CONTRACT', 'INSUFFICIENT_BALANCE', 'MARKET_CLOSED'])

export interface OrderLife {
  body: BinaryOrder
  accountId: string
  tries: number
  /** closed: returned with its result; open: bought; refused: for good; given up: out of patience. */
  end: 'closed' | 'open' | 'refused' | 'given up' | undefined
  orderId: string | undefined
  brokerOrderId: string | undefined
  pnl: number | undefined
  /** The responses, in order, for the trace. */
  log: string[]
}

export interface ChaosLoad {
  lives: OrderLife[]
  /** Responses by status and code, and failed requests by what ended them; with stages, by the stage they began in. */
  responses: Record<string, number>
  /** When the first 200 came to a request begun in a stage; performance.now(). */
  firstSuccess: Record<string, number>
  /** When each 200 to an order came; performance.now(). */
  acknowledged: number[]
  retries: number
  requests: number
  /** Responses that break the contract or contradict each other. */
  complaints: { what: string; life?: OrderLife }[]
  patienceMs: number
  stage(): string
}

/** What `runLoad` fills. */
export function emptyLoad({ patienceMs, stage }: { patienceMs?: number; stage?: () => string } = {}): ChaosLoad {
  return {
    lives: [],
    responses: {},
    firstSuccess: {},
    acknowledged: [],
    retries: 0,
    requests: 0,
    complaints: [],
    patienceMs: patienceMs ?? PATIENCE_MS,
    stage: stage ?? (() => '')
  }
}

/**
 * Sends `count` orders within `ms` (fewer where that would take more than a quarter longer), at most `most` at a time;
 * resolves when each has its end.
 */
export async function runLoad(
  stack: ChaosStack,
  options: {
    seed: number
    count: number
    ms: number
    most: number
    patienceMs?: number
    stage?: () => string
    /** Filled as the run goes on. */
    load?: ChaosLoad
    /** Ends the sending before `count` and `ms` are reached. */
    signal?: AbortSignal
  }
): Promise<ChaosLoad> {
  const load = options.load ?? emptyLoad(options)
  const random = seeded(options.seed)
  const startedAt = performance.now()
  const living = new Set<Promise<void>>()
  const overAt = startedAt + options.ms * 1.25
  for (let index = 0; index < options.count && performance.now() < overAt && !options.signal?.aborted; index++) {
    const dueAt = startedAt + (index * options.ms) / options.count
    const early = dueAt - performance.now()
    if (early > 1) await sleep(early)
    while (living.size >= options.most) await Promise.race(living)
    const trader = pickTrader(random, stack.traders)
    const life: OrderLife = {
      body: makeOrder(random, trader, index),
      accountId: trader.accountId,
      tries: 0,
      end: undefined,
      orderId: undefined,
      brokerOrderId: undefined,
      pnl: undefined,
      log: []
    }
    load.lives.push(life)
    const lived: Promise<void> = live(stack, load, { life, random: seeded(options.seed + index * 7919) })
      .catch((error: Error) => void load.complaints.push({ what: error.message, life }))
      .finally(() => living.delete(lived))
    living.add(lived)
  }
  await Promise.all(living)
  return load
}

/** A tenth of the orders goes to the first few accounts, the rest everywhere. */
function pickTrader(random: Random, traders: Trader[]): Trader {
  return random.below(10) === 0 ? (traders[random.below(4)] as Trader) : random.pick(traders)
}

const digits = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER', 'DIGITEVEN', 'DIGITODD'] as const

function makeOrder(random: Random, { traderExternalId }: Trader, index: number): BinaryOrder {
  const order = {
    traderExternalId,
    clientOrderId: randomUUID(),
    asset: random.pick(['R_10', 'R_25', 'R_50', 'R_75', 'R_100']),
    // Half of the orders differ in their stake, the other half are all alike.
    stake: random.below(2) === 0 ? 1 : Math.round(50 + (index % 4000)) / 100
  }
  if (random.below(12) === 0) {
    // At a hundredth: from a tick to six seconds.
    const wait = random.below(4) === 0
    const [duration, durationUnit] = random.pick([
      [15, 's'],
      [2, 'm'],
      [10, 'm']
    ] as const)
    const contractType = random.pick(['CALL', 'PUT'] as const)
    return { ...order, contractType, duration, durationUnit, ...(wait ? { waitForSettle: true } : {}) }
  }
  const duration = 1 + random.below(5)
  if (random.below(2) === 0)
    return { ...order, contractType: random.pick(['CALL', 'PUT'] as const), duration, durationUnit: 't' }
  const contractType = random.pick(digits)
  const barrier = /MATCH|DIFF|OVER|UNDER/.test(contractType) ? { barrier: String(1 + random.below(8)) } : {}
  return { ...order, contractType, duration, durationUnit: 't', ...barrier }
}

interface LoadResponse {
  status: number
  body: Record<string, unknown>
}

async function live(
  stack: ChaosStack,
  load: ChaosLoad,
  { life, random }: { life: OrderLife; random: Random }
): Promise<void> {
  const startedAt = performance.now()
  for (;;) {
    life.tries += 1
    if (life.tries > 1) load.retries += 1
    const both = random.below(5) === 0
    const first = random.below(2)
    const bought = life.brokerOrderId !== undefined
    const sends = (both ? [first, 1 - first] : [first]).map(api =>
      request(stack, load, { api, life, row: placeBinaryOrder, path: '/v1/orders/binary', body: life.body })
    )
    // In the order they come: one of two may have failed before the other placed the order again.
    await Promise.all(sends.map(async send => take(load, life, await send, bought)))
    if (life.end) break
    if (performance.now() - startedAt > load.patienceMs) {
      life.end = 'given up'
      return
    }
    await sleep(100 + random.below(Math.min(MOST_PAUSE_MS, 100 * 2 ** life.tries)))
  }
  if (life.end === 'open' && random.below(3) === 0) await close(stack, load, { life, random })
  if (random.below(40) === 0) await list(stack, load, { life, random })
}

/** Holds a response against the ones before, and the order's end with it; `bought`: that was known when it was requested. */
function take(load: ChaosLoad, life: OrderLife, response: LoadResponse | undefined, bought: boolean): void {
  if (!response) return
  const { status, body } = response
  const complain = (what: string) =>
    load.complaints.push({ what: `${what}: ${status} ${JSON.stringify(body).slice(0, 300)}`, life })
  const same = <T>(known: T | undefined, received: unknown, name: string): T | undefined => {
    if (received === undefined || received === null) return known
    if (known !== undefined && known !== received) complain(`${name} was ${known} before`)
    return received as T
  }
  life.orderId = same(life.orderId, body.orderId, 'orderId')
  if (status === 200) {
    life.brokerOrderId = same(life.brokerOrderId, body.brokerOrderId, 'brokerOrderId')
    if (body.status === 'CLOSED') life.pnl = same(life.pnl, body.pnl, 'pnl')
    else if (life.end === 'closed' && body.status !== 'OPEN') complain('the order was closed before')
    if (body.status === 'CLOSED') life.end = 'closed'
    else if (life.end !== 'closed') life.end = 'open'
    // A tick order whose response is late is OPEN and settles by itself.
    return
  }
  if (bought && body.status === 'FAILED') complain('the order was bought before')
  if (again.has(body.error as string)) return
  if (final.has(body.error as string)) life.end = 'refused'
  else {
    complain('nothing a client can act on')
    life.end = 'refused'
  }
}

async function close(
  stack: ChaosStack,
  load: ChaosLoad,
  { life, random }: { life: OrderLife; random: Random }
): Promise<void> {
  const path = `/v1/orders/${life.orderId}/close`
  for (let tries = 0; tries < 6; tries++) {
    const response = await request(stack, load, { api: random.below(2), life, row: closeOrder, path })
    if (response?.status === 200) return take(load, life, response, true)
    // Not for sale any more: it settles.
    if (response && !again.has(response.body.error as string)) {
      if (response.body.error !== 'INVALID_CONTRACT' && response.body.error !== 'MARKET_CLOSED')
        load.complaints.push({ what: `closing: ${response.status} ${JSON.stringify(response.body)}`, life })
      return
    }
    await sleep(100 + random.below(300))
  }
}

async function list(
  stack: ChaosStack,
  load: ChaosLoad,
  { life, random }: { life: OrderLife; random: Random }
): Promise<void> {
  const path = `/v1/orders?traderExternalId=${life.body.traderExternalId}&limit=200`
  const response = await request(stack, load, { api: random.below(2), life, row: listOrders, path })
  if (response?.status !== 200) return
  const entries = response.body.data as { clientOrderId: string; orderId: string }[]
  const entry = entries.find(({ clientOrderId }) => clientOrderId === life.body.clientOrderId)
  if (life.orderId && entries.length < 200 && entry?.orderId !== life.orderId)
    load.complaints.push({ what: 'an acknowledged order is not in the list', life })
}

/** One request; undefined when the connection was lost, which must have had a reason. */
async function request(
  stack: ChaosStack,
  load: ChaosLoad,
  requested: { api: number; life: OrderLife; row: Operation; path: string; body?: object }
): Promise<LoadResponse | undefined> {
  const { life, row, path, body } = requested
  const api = stack.apis[requested.api] as ChaosStack['apis'][number]
  const startedAt = performance.now()
  const stage = load.stage()
  const count = (what: string) => {
    const name = stage ? `${stage}: ${what}` : what
    load.responses[name] = (load.responses[name] ?? 0) + 1
    if (what === '200') load.firstSuccess[stage] ??= performance.now()
    if (what === '200' && row === placeBinaryOrder) load.acknowledged.push(performance.now())
    life.log.push(`${row.name} at ${api.name} after ${Math.round(performance.now() - startedAt)} ms: ${name}`)
  }
  load.requests += 1
  let response: Response
  let content: Record<string, unknown>
  try {
    response = await fetch(api.address + path, {
      method: row.method,
      headers: { authorization: `Bearer ${stack.key}`, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(CLIENT_TIMEOUT_MS)
    })
    content = (await response.json()) as Record<string, unknown>
  } catch (error) {
    const { name, cause } = error as Error & { cause?: { code?: string } }
    const why = name === 'TimeoutError' ? 'no response' : 'connection lost'
    count(why)
    // Whoever was not killed, stopped or frozen in the meantime owes a response.
    if (!api.troubledSince(startedAt - 1000))
      load.complaints.push({ what: `${why} (${cause?.code ?? name}) at ${api.name}, which was well`, life })
    return undefined
  }
  count(`${response.status}${content.error ? ` ${content.error}${content.status ? ` ${content.status}` : ''}` : ''}`)
  if (response.status === 503 && !response.headers.has('retry-after'))
    load.complaints.push({ what: `${row.name} returned 503 without Retry-After`, life })
  try {
    // Any path returns it, and no operation declares it.
    if (content.error !== 'REQUEST_TIMEOUT') checkResponse(row, response, content)
  } catch (error) {
    load.complaints.push({ what: (error as Error).message, life })
  }
  return { status: response.status, body: content }
}
