// What the request log costs: the same load on api processes that write it and on ones that do not, in turns, two of each, since a
// process may be faster than another by chance. At 1,000 requests a second, a fifth of them orders, and at full throughput: of
// orders, and of GET /v1/me, the cheapest call there is. The costs are medians of the differences of neighbours.
//   BENCH_CASES    only parts whose title contains one of these, by comma: alone, a fifth, connections
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { newRequestId } from '../../db/partners/request-ids.ts'
import { openRequestLog } from '../../db/partners/request-log.ts'
import { openLog } from '../../db/platform/log.ts'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import { interval, medianWithInterval, print, range, verdict } from './report.ts'
import { call, load, type Stage, setStage } from './stage.ts'

const PAIRS = 12
const CONNECTIONS = 64
const RATE = 1000
const ORDERS_OF_FIVE = 1
const GOAL_PCT = 2
/** Partners, and entries that are written together of each. */
const ENTRIES = [
  [1, 500],
  [10, 100],
  [100, 10],
  [1000, 1]
] as const
const ALONE = 100_000
// A process's last entries are written within this time; they belong to its load.
const WRITTEN_MS = 1200

interface RequestTurn {
  perSecond: number
  /** CPU of api and PostgreSQL, microseconds a request. */
  cpuMicros: number
}

type RequestLoad = (address: string) => Promise<{ perSecond: number; calls: number }>

/** Throughput and CPU with and without the request log. */
export async function requests(seconds: number): Promise<void> {
  const stage = await setStage()
  await stage.startWorker()
  const without = { REQUEST_DAYS: '0' }
  const cases = process.env.BENCH_CASES?.split(',')
  const wanted = (name: string) => cases?.some(each => name.includes(each)) ?? true
  if (wanted('alone')) await alone(stage)
  // One after another: all at once they would take the same moment to compile.
  const apis = [
    await stage.startApi(),
    await stage.startApi(without),
    await stage.startApi(),
    await stage.startApi(without)
  ]
  const [first, second] = [apis.slice(0, 2), apis.slice(2)].map(pair => pair.map(({ address }) => address))
  const traders = await stage.makeTraders(apis[0]?.address as string, CONNECTIONS)
  const me = (address: string) => call({ address, key: stage.key, path: '/v1/me' })
  const place = (address: string, index: number) => {
    const body = tickOrder(traders[index % CONNECTIONS] as string, { duration: 60, durationUnit: 'm' })
    return call({ address, key: stage.key, path: '/v1/orders/binary', body })
  }
  const loads: Record<string, RequestLoad> = {
    [`${RATE} requests/s, a fifth of them orders`]: async address => {
      const startedAt = performance.now()
      const send = (index: number) => (index % 5 < ORDERS_OF_FIVE ? place(address, index) : me(address))
      const calls = (await steady(RATE, seconds, async index => (await send(index)).length)).length
      return { calls, perSecond: (calls / (performance.now() - startedAt)) * 1000 }
    },
    [`orders, ${CONNECTIONS} connections`]: address =>
      load({ connections: CONNECTIONS, seconds, work: caller => place(address, caller) }),
    [`GET /v1/me, ${CONNECTIONS} connections`]: address =>
      load({ connections: CONNECTIONS, seconds, work: () => me(address) })
  }
  for (const [what, run] of Object.entries(loads).filter(([what]) => wanted(what))) {
    for (const { address } of apis) await run(address)
    const turns: { on: RequestTurn; off: RequestTurn }[] = []
    for (let pair = 0; pair < PAIRS; pair++) {
      const [on, off] = (pair % 2 ? second : first) as [string, string]
      // Which comes first changes: the tables grow.
      const onFirst = pair % 4 < 2
      const one = await turn(stage, run, onFirst ? on : off)
      const other = await turn(stage, run, onFirst ? off : on)
      turns.push(onFirst ? { on: one, off: other } : { on: other, off: one })
    }
    report(what, turns)
  }
  await stage.close()
}

/** CPU of this process and PostgreSQL for an entry, noted and written, without any request: the machine's noise is not in it. */
async function alone(stage: Stage): Promise<void> {
  const log = openLog({ level: 'silent', name: 'bench' })
  const { db } = stage
  const rows: string[][] = []
  for (const [partners, each] of ENTRIES) {
    const entries = openRequestLog({ db, log, keepDays: 1, everyMs: 3_600_000, most: 100_000 })
    const names = Array.from({ length: partners }, () => `ptn_${randomUUID()}`)
    const prepared = Array.from({ length: partners * each }, (_, index) => ({
      ...{
        partnerId: names[index % partners] as string,
        requestId: newRequestId(),
        startedAt: 0,
        keyId: `key_${stage.partnerId}`
      },
      ...{ operation: 'placeBinaryOrder', method: 'POST', path: '/v1/orders/binary', status: 200, error: null },
      ...{ trader: names[(index * 7) % partners] as string, ms: Math.round(Math.random() * 1000) / 10 }
    }))
    const write = async () => {
      const startedAt = performance.now()
      for (const entry of prepared) {
        entry.startedAt = startedAt
        entries.note(entry)
      }
      await entries.flush()
    }
    const rounds = Math.ceil(ALONE / (partners * each))
    for (let round = 0; round < rounds / 10; round++) await write()
    const before = { own: process.cpuUsage(), all: await stage.cpuSeconds() }
    for (let round = 0; round < rounds; round++) await write()
    const { user, system } = process.cpuUsage(before.own)
    const written = rounds * partners * each
    const server = (((await stage.cpuSeconds()).PostgreSQL ?? 0) - (before.all.PostgreSQL ?? 0)) * 1_000_000
    const [ours, theirs] = [(user + system) / written, server / written]
    rows.push([
      `${each} of each of ${partners}`,
      ...[ours, theirs, ours + theirs].map(value => `${value.toFixed(1)} µs`)
    ])
    await entries.close()
  }
  print(
    'An entry of the request log alone, CPU each',
    ['entries a second, of partners', 'noting', 'PostgreSQL', 'both'],
    rows
  )
}

async function turn(stage: Stage, run: RequestLoad, address: string): Promise<RequestTurn> {
  const before = await cpu(stage)
  const { perSecond, calls } = await run(address)
  await sleep(WRITTEN_MS)
  return { perSecond, cpuMicros: (1_000_000 * ((await cpu(stage)) - before)) / calls }
}

async function cpu(stage: Stage): Promise<number> {
  const used = await stage.cpuSeconds()
  return (used.api ?? 0) + (used.PostgreSQL ?? 0)
}

function report(what: string, turns: { on: RequestTurn; off: RequestTurn }[]): void {
  const row = (title: string, of: (turn: RequestTurn) => number, unit: string, sign: 1 | -1) => {
    const cost = medianWithInterval(turns.map(({ on, off }) => sign * 100 * (of(on) / of(off) - 1)))
    return [
      title,
      range(
        turns.map(({ off }) => of(off)),
        unit
      ),
      range(
        turns.map(({ on }) => of(on)),
        unit
      ),
      interval(cost, ' %', 1),
      verdict(`≤ ${GOAL_PCT} %`, cost.median <= GOAL_PCT)
    ]
  }
  print(
    `What the request log costs, ${what}: ${turns.length} pairs in turns; the cost is the median of the differences (95 % interval)`,
    ['', 'without', 'with', 'cost', 'goal'],
    [
      row('requests/s', ({ perSecond }) => perSecond, '', -1),
      row('CPU of api and PostgreSQL, each', ({ cpuMicros }) => cpuMicros, ' µs', 1)
    ]
  )
}
