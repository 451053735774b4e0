// Events: what the log costs the order path (the same load with the triggers of orders and without them, in turns), how long
// after its change the frame that tells of it has arrived, and what an idle socket weighs.
import { WebSocket } from 'ws'
import { insertKey } from '../../db/partners/keys.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { steady } from './added-time.ts'
import { memoryOf, print, range, verdict } from './report.ts'
import { call, each, median, ms, type Stage, setStage, spread, TOKEN_KEYS, tickOrder } from './stage.ts'
import { orders } from './throughput.ts'

const ROUNDS = 6
const CONNECTIONS = 64
const RATE = 100
const SOCKETS = Number(process.env.BENCH_SOCKETS ?? 10_000)
const SOCKETS_A_KEY = 190

/** Throughput and time of orders with and without the events of orders. */
export async function events(seconds: number): Promise<void> {
  const stage = await setStage()
  const { address, child } = await stage.startApi()
  await stage.startWorker()
  const told = (on: boolean) => stage.db.raw(`alter table orders ${on ? 'enable' : 'disable'} trigger events`)
  const figures = {
    with: [] as number[],
    without: [] as number[],
    timeWith: [] as number[],
    timeWithout: [] as number[]
  }
  const traders = await stage.makeTraders(address, 100)
  const long = { duration: 60, durationUnit: 'm' }
  const place = async (index: number) => {
    const startedAt = performance.now()
    const body = tickOrder(traders[index % traders.length] as string, long)
    await call({ address, key: stage.key, path: '/v1/orders/binary', body })
    return performance.now() - startedAt
  }
  for (let round = 0; round < 3; round++) await orders(stage, { address, connections: CONNECTIONS, seconds })
  for (let round = 0; round < ROUNDS; round++) {
    // Which comes first changes: the table grows.
    for (const on of round % 2 ? [true, false] : [false, true]) {
      await told(on)
      figures[on ? 'with' : 'without'].push(
        (await orders(stage, { address, connections: CONNECTIONS, seconds })).perSecond
      )
      figures[on ? 'timeWith' : 'timeWithout'].push(spread(await steady(RATE, seconds, place)).p50)
    }
  }
  await told(true)
  const cost = (1 - median(figures.with) / median(figures.without)) * 100
  const added = median(figures.timeWith) - median(figures.timeWithout)
  print(
    `What the event log costs the order path: ${CONNECTIONS} connections, then ${RATE} orders/s; ${ROUNDS} rounds each, in turns`,
    ['', 'without', 'with', 'cost', 'goal'],
    [
      ['orders/s', range(figures.without), range(figures.with), `${cost.toFixed(1)} %`, verdict('≤ 8 %', cost <= 8)],
      [
        `p50 at ${RATE}/s`,
        range(figures.timeWithout, ' ms', 2),
        range(figures.timeWith, ' ms', 2),
        `${added.toFixed(2)} ms`,
        verdict('≤ 0.5 ms', added <= 0.5)
      ]
    ]
  )
  await frames(stage, { address, seconds, place })
  await idle(stage, { address, pid: child.pid as number })
  await stage.close()
}

async function frames(
  stage: Stage,
  { address, seconds, place }: { address: string; seconds: number; place: (index: number) => Promise<number> }
): Promise<void> {
  const times: number[] = []
  const socket = await open(address, stage.key, event => {
    if (event.type === 'order.opened') times.push(Date.now() - Date.parse(event.createdAt))
  })
  await steady(RATE, seconds, place)
  times.length = 0
  await steady(RATE, 3 * seconds, place)
  const { p50, p99 } = spread(times)
  print(
    `From the change (before its commit) to the frame in the client, at ${RATE} orders/s`,
    ['frames', 'p50', 'p99', 'goal'],
    [[String(times.length), ms(p50), ms(p99), verdict('4 ms, 20 ms', p50 <= 4 && p99 <= 20)]]
  )
  socket.terminate()
}

async function idle(stage: Stage, { address, pid }: { address: string; pid: number }): Promise<void> {
  const pepper = await openPepper(stage.db, openVault(TOKEN_KEYS))
  const { partnerId } = stage
  const keys = await Promise.all(
    Array.from({ length: Math.ceil(SOCKETS / SOCKETS_A_KEY) }, () =>
      insertKey(stage.db, pepper, { partnerId, label: null, scopes: allScopes })
    )
  )
  const me = async () => {
    const startedAt = performance.now()
    await call({ address, key: stage.key, path: '/v1/me' })
    return performance.now() - startedAt
  }
  const before = { memory: await memoryOf(pid), p99: spread(await steady(200, 5, me)).p99 }
  const sockets: WebSocket[] = []
  const startedAt = performance.now()
  await each(
    Array.from({ length: SOCKETS }, (_, index) => keys[index % keys.length]?.key as string),
    50,
    async key => void sockets.push(await open(address, key, () => {}))
  )
  const tookMs = performance.now() - startedAt
  // Two heartbeats.
  await new Promise(resolve => setTimeout(resolve, 20_000))
  const after = { memory: await memoryOf(pid), p99: spread(await steady(200, 5, me)).p99 }
  const open10k = sockets.filter(({ readyState }) => readyState === WebSocket.OPEN).length
  const each10k = ((after.memory - before.memory) * 1024) / SOCKETS
  print(
    `${SOCKETS.toLocaleString('en')} idle sockets with a subscription in one api process, opened in ${ms(tookMs)}`,
    ['open', 'memory each', 'goal', 'GET /v1/me p99 before / beside', 'goal'],
    [
      [
        String(open10k),
        `${each10k.toFixed(1)} kB`,
        verdict('≤ 15 kB', each10k <= 15),
        `${ms(before.p99)} / ${ms(after.p99)}`,
        verdict('≤ 1.2 ×', after.p99 <= 1.2 * before.p99)
      ]
    ]
  )
  for (const socket of sockets) socket.terminate()
}

/** A socket with a subscription to all events. */
async function open(
  address: string,
  key: string,
  hear: (event: { type: string; createdAt: string }) => void
): Promise<WebSocket> {
  const socket = new WebSocket(`${address.replace('http', 'ws')}/v1/stream`, {
    headers: { authorization: `Bearer ${key}` },
    perMessageDeflate: false
  })
  await new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.on('message', data => {
      const message = JSON.parse(String(data)) as { type: string; event: { type: string; createdAt: string } }
      if (message.type === 'subscribed') resolve(undefined)
      if (message.type === 'event') hear(message.event)
    })
    socket.once('open', () => socket.send(JSON.stringify({ type: 'subscribe', id: 'all', channel: 'events' })))
  })
  return socket
}
