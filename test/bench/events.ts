// Events: what the log costs the order path (the same load with the triggers of orders and without them, in turns), how long
// after its change the frame that reports it has arrived, what an idle socket costs, how fast all of them come back, how many ticks
// a process delivers, and what consumers that read slowly cost the others. The consumers run in a process of their own (sockets.ts).
//   BENCH_SOCKETS  idle sockets (10,000; needs as many open files)
//   BENCH_CASES    only parts whose name contains one of these, by comma: cost, frames, idle, forwarding, ticks, slow
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { readEventId } from '../../db/events/present.ts'
import { tickChannelOf } from '../../db/events/ticks.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openBus } from '../../db/platform/bus.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { openLog } from '../../db/platform/log.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import { interval, medianWithInterval, memoryOf, print, range, verdict } from './report.ts'
import type { SocketsAnswer, SocketsRequest } from './sockets.ts'
import { call, ms, type Stage, setStage, spread, TOKEN_KEYS } from './stage.ts'
import { orders } from './throughput.ts'

const ROUNDS = 8
const TURNS = 100
const CONNECTIONS = 64
const RATE = 100
const SOCKETS = Number(process.env.BENCH_SOCKETS ?? 10_000)
const SOCKETS_A_KEY = 190

const EVENTS_MISSED = 3
const FEW_ORDERS = 20
const TICK_SOCKETS = 1000
const TICK_ASSETS = 10
const TICK_ROUNDS_A_SECOND = 25
const SLOW = 20
const FAST = 100

interface EventBench {
  stage: Stage
  address: string
  pid: number
  seconds: number
  /** Keys enough for `count` sockets. */
  keysFor(count: number): Promise<string[]>
  sockets(request: SocketsRequest): Promise<SocketsAnswer>
  place(index: number): Promise<number>
}

/** All parts. */
export async function events(seconds: number): Promise<void> {
  const wanted = process.env.BENCH_CASES?.split(',')
  // Ticks after forwarding: for 10 s after those of the bench a worker's are ignored.
  const parts = { cost, frames, idle, forwarding, ticks, slow }
  const stage = await setStage()
  const { address, child } = await stage.startApi()
  await stage.startWorker()
  const consumers = fork('test/bench/sockets.ts', { execArgv: ['--require', './.node-version.cjs'] })
  const traders = await stage.makeTraders(address, 100)
  const long = { duration: 60, durationUnit: 'm' }
  const pepper = await openPepper(stage.db, openVault(TOKEN_KEYS))
  const { partnerId } = stage
  const keys: string[] = []
  const bench: EventBench = {
    stage,
    address,
    seconds,
    pid: child.pid as number,
    async keysFor(count) {
      while (keys.length * SOCKETS_A_KEY < count)
        keys.push((await insertKey(stage.db, pepper, { partnerId, label: null, scopes: allScopes })).key)
      return keys
    },
    async sockets(request) {
      consumers.send(request)
      const [answer] = (await once(consumers, 'message')) as [SocketsAnswer]
      return answer
    },
    async place(index) {
      const startedAt = performance.now()
      const body = tickOrder(traders[index % traders.length] as string, long)
      await call({ address, key: stage.key, path: '/v1/orders/binary', body })
      return performance.now() - startedAt
    }
  }
  await steady(RATE, seconds, bench.place)
  for (const [name, part] of Object.entries(parts))
    if (wanted?.some(each => name.includes(each)) ?? true) {
      await part(bench)
      await bench.sockets({ do: 'close' })
    }
  consumers.disconnect()
  await stage.close()
}

/** Time and throughput of orders with and without the events of orders; what is compared are neighbours, since the machine drifts. */
async function cost({ stage, address, seconds, place }: EventBench): Promise<void> {
  const emit = (on: boolean) => stage.db.raw(`alter table orders ${on ? 'enable' : 'disable'} trigger events`)
  const inTurns = async (turns: number, measure: () => Promise<number>) => {
    const figures = { with: [] as number[], without: [] as number[] }
    for (let turn = 0; turn < turns; turn++)
      // Which comes first changes: the table grows.
      for (const on of turn % 2 ? [true, false] : [false, true]) {
        await emit(on)
        figures[on ? 'with' : 'without'].push(await measure())
      }
    await emit(true)
    return figures
  }
  // Before the throughput: its orders leave contracts behind that are followed for an hour.
  await steady(RATE, seconds, place)
  const times = await inTurns(TURNS, async () => spread(await steady(RATE, 1, place)).p50)
  const loaded = () => orders(stage, { address, connections: CONNECTIONS, seconds })
  for (let round = 0; round < 3; round++) await loaded()
  const rates = await inTurns(ROUNDS, async () => (await loaded()).perSecond)
  const pairs = (figures: typeof times, compare: (on: number, off: number) => number) =>
    medianWithInterval(figures.with.map((on, turn) => compare(on, figures.without[turn] as number)))
  const percent = pairs(rates, (on, off) => 100 * (1 - on / off))
  const added = pairs(times, (on, off) => on - off)
  print(
    'What the event log costs the order path, in turns; the cost is the median of the differences of neighbours (95 % interval)',
    ['', 'without', 'with', 'cost', 'goal'],
    [
      [
        `orders/s, ${CONNECTIONS} connections, ${ROUNDS} pairs`,
        range(rates.without),
        range(rates.with),
        interval(percent, ' %', 1),
        verdict('≤ 8 %', percent.median <= 8)
      ],
      [
        `p50 at ${RATE}/s, ${TURNS} pairs of a second`,
        range(times.without, ' ms', 2),
        range(times.with, ' ms', 2),
        interval(added, ' ms', 2),
        verdict('≤ 0.5 ms', added.median <= 0.5)
      ]
    ]
  )
}

async function frames({ stage, address, seconds, place, sockets, keysFor }: EventBench): Promise<void> {
  const subscribe = { channel: 'events' } as const
  await sockets({ do: 'open', address, keys: await keysFor(1), count: 1, subscribe, note: true })
  await steady(RATE, seconds, place)
  await sockets({ do: 'take' })
  await steady(RATE, 3 * seconds, place)
  const { arrivals } = await sockets({ do: 'take' })
  // The time in the frame has whole milliseconds, the row has the rest.
  const uuidOf = (id: string) => (readEventId(id) as { uuid: string }).uuid
  const { rows } = await stage.db.raw(
    `select id, extract(epoch from at)::float8 * 1000 as "changedAt" from events where id = any(?)`,
    [arrivals.map(([id]) => uuidOf(id))]
  )
  const changedAt = new Map((rows as { id: string; changedAt: number }[]).map(row => [row.id, row.changedAt]))
  const agesMs = arrivals.map(([id, at]) => at - (changedAt.get(uuidOf(id)) as number))
  const { p50, p99 } = spread(agesMs)
  print(
    `From the change (before its commit) to the frame in the client, at ${RATE} orders/s`,
    ['frames', 'p50', 'p99', 'goal'],
    [[String(agesMs.length), ms(p50), ms(p99), verdict('4 ms, 20 ms', p50 <= 4 && p99 <= 20)]]
  )
}

async function idle({ stage, address, pid, seconds, sockets, place }: EventBench): Promise<void> {
  const me = async () => {
    const startedAt = performance.now()
    await call({ address, key: stage.key, path: '/v1/me' })
    return performance.now() - startedAt
  }
  const reads = async () => spread(await steady(200, 2 * seconds, me)).p99
  // A partner of their own: the orders beside them are no events of theirs.
  const { partnerId } = await insertPartner(stage.db, {
    name: 'Idle',
    plan: 'SCALE',
    brokerAppId: '1',
    brokerDialect: 'v3'
  })
  const pepper = await openPepper(stage.db, openVault(TOKEN_KEYS))
  const makeKey = () => insertKey(stage.db, pepper, { partnerId, label: null, scopes: allScopes })
  const keys: string[] = []
  while (keys.length * SOCKETS_A_KEY < SOCKETS) keys.push((await makeKey()).key)
  await reads()
  const before = { memory: await memoryOf(pid), p99: await reads() }
  const orders = spread(await steady(FEW_ORDERS, 2 * seconds, place))
  const opened = await sockets({ do: 'open', address, keys, count: SOCKETS, subscribe: { channel: 'events' } })
  // Two heartbeats.
  await sleep(20_000)
  const after = { memory: await memoryOf(pid), p99: await reads() }
  const { open } = await sockets({ do: 'take' })
  const eachKb = ((after.memory - before.memory) * 1024) / SOCKETS
  print(
    `${SOCKETS.toLocaleString('en')} idle sockets with a subscription in one api process, opened in ${ms(opened.tookMs)}`,
    ['open', 'memory each', 'goal', 'GET /v1/me p99 before / beside', 'goal'],
    [
      [
        String(open),
        `${eachKb.toFixed(1)} kB`,
        verdict('≤ 15 kB', eachKb <= 15),
        `${ms(before.p99)} / ${ms(after.p99)}`,
        verdict('≤ 1.2 ×', after.p99 <= 1.2 * before.p99)
      ]
    ]
  )
  await sockets({ do: 'drop' })
  for (let made = 0; made < EVENTS_MISSED; made++) await makeKey()
  await sleep(3000)
  let over = false
  const times: number[] = []
  const ordering = (async () => {
    while (!over) times.push(...(await steady(FEW_ORDERS, 1, place)))
  })()
  const returned = await sockets({ do: 'return', events: EVENTS_MISSED })
  over = true
  await ordering
  const meanwhile = spread(times)
  print(
    `All of them drop and come back with their cursors, ${EVENTS_MISSED} events each missed, beside ${FEW_ORDERS} orders/s`,
    ['open', 'back, with everything', 'goal', 'lost', 'goal', 'order p99 before / meanwhile', 'goal'],
    [
      [
        String(returned.open),
        ms(returned.tookMs),
        verdict('≤ 10 s', returned.tookMs <= 10_000 && returned.open === SOCKETS),
        String(returned.lost),
        verdict('0', returned.lost === 0),
        `${ms(orders.p99)} / ${ms(meanwhile.p99)}`,
        verdict('≤ 2 ×', meanwhile.p99 <= 2 * orders.p99)
      ]
    ]
  )
}

/** Ticks written by the bench as a worker forwards them, to sockets that share their assets. */
async function ticks({ stage, address, seconds, keysFor, sockets }: EventBench): Promise<void> {
  const bus = await openBus({ url: stage.url, log: openLog({ level: 'silent', name: 'bench' }) })
  const assets = Array.from({ length: TICK_ASSETS }, (_, index) => `A_${index}`)
  const keys = await keysFor(TICK_SOCKETS)
  await sockets({ do: 'open', address, keys, count: TICK_SOCKETS, subscribe: { channel: 'ticks', assets } })
  // Of a term that no worker has.
  const term = 1_000_000_000
  let epoch = Math.floor(Date.now() / 1000)
  const forward = () => {
    epoch += 1
    for (const asset of assets) bus.publish(tickChannelOf('v3'), 'tick', `${term} ${asset} ${epoch} 1234.5678`)
  }
  const tickBytes = `{"asset":"A_0","epoch":${epoch},"price":1234.5678},`.length
  const run = async (length: number) => {
    const end = performance.now() + length * 1000
    for (let next = performance.now(); next < end; next += 1000 / TICK_ROUNDS_A_SECOND) {
      await sleep(Math.max(0, next - performance.now()))
      forward()
    }
  }
  await run(seconds)
  await sockets({ do: 'take' })
  const [startedAt, before] = [performance.now(), await stage.cpuSeconds()]
  await run(2 * seconds)
  const [tookS, after] = [(performance.now() - startedAt) / 1000, await stage.cpuSeconds()]
  const { frames: count, bytes } = await sockets({ do: 'take' })
  const delivered = Math.round((bytes - 25 * count) / tickBytes) / tookS
  const cores = ((after.api ?? 0) - (before.api ?? 0)) / tookS
  print(
    `Ticks of ${TICK_ASSETS} assets to ${TICK_SOCKETS.toLocaleString('en')} sockets, ${TICK_ROUNDS_A_SECOND} times a second`,
    ['deliveries/s', 'in frames/s', 'cores of the api', 'deliveries/s of one core', 'goal'],
    [
      [
        delivered.toFixed(0),
        (count / tookS).toFixed(0),
        cores.toFixed(2),
        (delivered / cores).toFixed(0),
        verdict('≥ 300,000', delivered / cores >= 300_000)
      ]
    ]
  )
  await bus.close()
}

/** From the broker's frame to the socket: the same tick over a connection of the bench's own, and over worker, bus and api. */
async function forwarding({ stage, address, seconds, keysFor }: EventBench): Promise<void> {
  const broker = createV3Broker({ url: stage.broker.url, log: openLog({ level: 'silent', name: 'bench' }) })
  const market = broker.market('1')
  const assets = (await market.symbols()).map(({ asset }) => asset).slice(0, 50)
  const direct = new Map<string, number>()
  const times: number[] = []
  market.ticks.listen(({ asset, epoch, price }) => direct.set(`${asset} ${epoch} ${Number(price)}`, performance.now()))
  market.ticks.want(new Set(assets))
  const [key] = (await keysFor(1)) as [string]
  const socket = await listen(address, { key, assets }, tick => {
    const at = direct.get(`${tick.asset} ${tick.epoch} ${tick.price}`)
    if (at !== undefined) times.push(performance.now() - at)
  })
  await sleep(2000)
  times.length = 0
  await sleep(5 * seconds * 1000)
  socket.terminate()
  await broker.close()
  const { p50, p99 } = spread(times)
  print(
    `From the broker's frame to the socket, ${assets.length} assets, over worker, bus and api`,
    ['ticks', 'p50', 'p99', 'goal'],
    [[String(times.length), ms(p50), ms(p99), verdict('p50 ≤ 30 ms', p50 <= 30)]]
  )
}

/** Opens a socket in this process that gets ticks. */
async function listen(
  address: string,
  { key, assets }: { key: string; assets: string[] },
  onTick: (tick: { asset: string; epoch: number; price: number }) => void
): Promise<WebSocket> {
  const ws = new WebSocket(`${address.replace('http', 'ws')}/v1/stream`, {
    headers: { authorization: `Bearer ${key}` }
  })
  await new Promise((resolve, reject) => {
    ws.once('error', reject)
    ws.on('message', text => {
      const message = JSON.parse(String(text)) as { type: string; data: Parameters<typeof onTick>[0][] }
      if (message.type === 'subscribed') resolve(undefined)
      if (message.type === 'ticks') for (const tick of message.data) onTick(tick)
    })
    ws.once('open', () => ws.send(JSON.stringify({ type: 'subscribe', id: 'all', channel: 'ticks', assets })))
  })
  return ws
}

async function slow({ stage, address, pid, seconds, keysFor, sockets, place }: EventBench): Promise<void> {
  const keys = await keysFor(FAST + SLOW)
  await sockets({ do: 'open', address, keys, count: FAST, subscribe: { channel: 'events' } })
  const fast = async () => {
    await sockets({ do: 'take' })
    await steady(RATE, 3 * seconds, place)
    const { agesMs, lost } = await sockets({ do: 'take' })
    return { ...spread(agesMs), count: agesMs.length, lost, memory: await memoryOf(pid) }
  }
  await fast()
  const before = await fast()
  // From the beginning of the log: far more than what the system keeps for a socket.
  const { cursor } = JSON.parse(await call({ address, key: stage.key, path: '/v1/events?limit=1' })) as {
    cursor: string
  }
  await sockets({ do: 'slow', address, key: keys.at(-1) as string, count: SLOW, after: cursor })
  const beside = await fast()
  const later = await fast()
  const ratio = later.p99 / before.p99
  print(
    `${FAST} consumers at ${RATE} orders/s, alone and beside ${SLOW} that read 1 kB a second from the beginning of the log`,
    ['', 'frames', 'p50', 'p99', 'lost', 'memory of the api'],
    [
      ['alone', before],
      ['beside', beside],
      ['later', later]
    ].map(([what, found]) => {
      const { count, p50, p99, lost, memory } = found as typeof before
      return [what as string, String(count), ms(p50), ms(p99), String(lost), `${memory.toFixed(0)} MB`]
    })
  )
  console.log(
    verdict(
      `Memory flat (≤ 10 MB more), p99 of the others ≤ 1.2 × (${ratio.toFixed(2)})`,
      later.memory - before.memory <= 10 && ratio <= 1.2
    )
  )
}
