// The broker's quotas: many orders at once on one account with one worker, and over many accounts with four, in the newer
// dialect, with the quotas that the broker publishes. Each order is placed, or its response has the reason; nothing is called
// once too often, and no user has a connection too many.

import { tickOrder } from '../support/tick-order.ts'
import { exchange } from './client.ts'
import { print, verdict } from './report.ts'
import { each, type Stage, setStage, spread } from './stage.ts'

/** Connections of one order that may break: an api ends what waits longer than it is let. */
const MOST_BROKEN = 10

interface Case {
  name: string
  workers: number
  accounts: number
  orders: number
  /** ORDER_TTL_MS */
  ttlMs: number
}

// The default time to live, and one in which the quotas let all orders through.
const cases: Case[] = [
  { name: 'one account', workers: 1, accounts: 1, orders: 1000, ttlMs: 10_000 },
  { name: 'one account', workers: 1, accounts: 1, orders: 1000, ttlMs: 300_000 },
  { name: '200 accounts', workers: 4, accounts: 200, orders: 2000, ttlMs: 10_000 },
  { name: '200 accounts', workers: 4, accounts: 200, orders: 2000, ttlMs: 300_000 }
]

/** Runs every case on a stage of its own. */
export async function quotas(): Promise<void> {
  const body = []
  for (const each of cases) body.push(await measure(each))
  print(
    'Quotas: all orders at once, contracts of an hour, newer dialect with its published quotas (360 orders a minute and account, 300 REST calls a minute)',
    [
      'orders on',
      'workers',
      'TTL',
      'placed',
      'refused with a reason',
      'neither',
      'last placed',
      'RateLimit, sixth connections',
      'sessions an account'
    ],
    body
  )
}

async function measure({ name, workers, accounts, orders, ttlMs }: Case): Promise<string[]> {
  const stage = await setStage(['--limits', 'published'], 'next')
  const env = { ORDER_TTL_MS: String(ttlMs) }
  const { address } = await stage.startApi(env)
  for (let started = 0; started < workers; started++) await stage.startWorker(env)
  const traders = await stage.makeTraders(address, accounts)
  const placedAfter: number[] = []
  const why = new Map<string, number>()
  let neither = 0
  let most = 0
  const watching = setInterval(async () => {
    const { connections } = await stateOf(stage)
    most = Math.max(most, connections)
  }, 500)
  const startedAt = performance.now()
  await each(Array.from({ length: orders }), orders, async (_, index) => {
    const traderExternalId = traders[index % traders.length] as string
    const order = tickOrder(traderExternalId, { duration: 60, durationUnit: 'm' })
    const { status, text } = await post(stage, address, order)
    const { message = '' } = JSON.parse(text) as { message?: string }
    if (status === 200) placedAfter.push((performance.now() - startedAt) / 1000)
    else if (message === '' || /to live; it was not placed\.\s*$/.test(message)) neither += 1
    else why.set(message, (why.get(message) ?? 0) + 1)
  })
  clearInterval(watching)
  const { refused, contracts } = await stateOf(stage)
  await stage.close()
  for (const [message, count] of why) console.log(`  ${count} × ${message}`)
  const explained = orders - placedAfter.length - neither
  return [
    `${orders} on ${name}`,
    String(workers),
    `${ttlMs / 1000} s`,
    `${placedAfter.length} (${contracts.known} contracts)`,
    String(explained),
    verdict(`${neither}`, neither === 0),
    `${Math.max(0, ...placedAfter).toFixed(0)} s, half after ${spread(placedAfter).p50.toFixed(0)} s`,
    verdict(
      `${refused.calls + refused.rest}, ${refused.sockets}`,
      refused.calls + refused.rest + refused.sockets === 0
    ),
    // Each worker has one connection for market data besides.
    (Math.max(0, most - workers) / accounts).toFixed(2)
  ]
}

interface QuotaState {
  connections: number
  contracts: { known: number }
  refused: { calls: number; rest: number; sockets: number }
}

async function stateOf(stage: Stage): Promise<QuotaState> {
  const response = await fetch(new URL('/control/state', stage.broker.control))
  return (await response.json()) as QuotaState
}

/**
 * Places an order; repeats it with the same clientOrderId where the connection broke, and while the order is neither placed nor
 * failed, as a partner does.
 */
async function post(stage: Stage, address: string, order: object): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${stage.key}`, 'content-type': 'application/json' }
  const ask = () =>
    exchange(address, { method: 'POST', path: '/v1/orders/binary', headers, body: JSON.stringify(order) })
  for (let broken = 0; ; ) {
    const answer = await ask().catch((error: unknown) => {
      if (++broken === MOST_BROKEN) throw error
    })
    if (answer && (JSON.parse(answer.text) as { status?: string }).status !== 'PENDING') return answer
  }
}
