// Two checkouts of the service in turns on one machine, each with a PostgreSQL and a simulated broker of its own: orders a second
// with many connections, the time added to a tick order, and the CPU of every process. Only ratios of neighbours count: the
// machine's speed changes from minute to minute.
//   BENCH_BEFORE  the other checkout, with its dependencies installed
//   BENCH_PAIRS   how many pairs (10)
//   BENCH_CASES   of 64, 256, alone, 200, me
//   BENCH_SQL     run in this checkout's database before it is measured: what fewer indexes would give, for example
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openTickOrders, steady, TICK_MS } from './added-time.ts'
import { interval, medianWithInterval, print, range } from './report.ts'
import { call, load, median, type Stage, setStage } from './stage.ts'
import { openMinuteOrders } from './throughput.ts'

const PAIRS = Number(process.env.BENCH_PAIRS ?? 10)
const WARM_SECONDS = 3

interface Figure {
  /** Orders a second, or milliseconds added at the median. */
  value: number
  /** CPU of an order or a read by process, microseconds; all of them together under `all`. */
  cpu: Record<string, number>
}

interface Side {
  measure(): Promise<Figure>
  close(): Promise<void>
}

type Open = (stage: Stage, address: string, seconds: number) => Promise<Side>

const cases: Record<string, { what: string; simulator: string[]; open: Open }> = {
  64: { what: 'orders/s, 64 connections', simulator: [], open: throughput(64) },
  256: { what: 'orders/s, 256 connections', simulator: [], open: throughput(256) },
  alone: { what: 'ms added at p50, one at a time', simulator: ['--tick-ms', String(TICK_MS)], open: added(0) },
  200: { what: 'ms added at p50, 200 orders/s', simulator: ['--tick-ms', String(TICK_MS)], open: added(200) },
  me: { what: 'GET /v1/me a second, 64 connections', simulator: [], open: reads('/v1/me', 64) }
}

/** Runs each case in pairs and prints both sides and the median ratio, `after` to `before`. */
export async function pairs(seconds: number): Promise<void> {
  const { BENCH_BEFORE: before, BENCH_CASES: chosen = Object.keys(cases).join(',') } = process.env
  if (!before) throw new Error('BENCH_BEFORE: name the folder of the checkout to compare with.')
  for (const name of chosen.split(',')) {
    const found = cases[name]
    if (!found) throw new Error(`BENCH_CASES: there is no case ${name}; there are ${Object.keys(cases).join(', ')}.`)
    await runCase(found, { checkouts: [resolve(before), process.cwd()], seconds })
  }
}

async function runCase(
  { what, simulator, open }: (typeof cases)[string],
  { checkouts, seconds }: { checkouts: [string, string]; seconds: number }
): Promise<void> {
  const sides = await Promise.all(
    checkouts.map(async checkout => {
      const stage = await setStage(simulator, 'v3', { checkout })
      if (checkout === process.cwd() && process.env.BENCH_SQL) await stage.db.raw(process.env.BENCH_SQL)
      const { address } = await stage.startApi()
      await stage.startWorker()
      return { stage, side: await open(stage, address, seconds), figures: [] as Figure[] }
    })
  )
  for (let pair = 0; pair < PAIRS; pair++)
    for (const each of pair % 2 ? sides : sides.toReversed()) each.figures.push(await each.side.measure())
  const [before, after] = sides.map(({ figures }) => figures) as [Figure[], Figure[]]
  const row = (name: string, of: (figure: Figure) => number, unit: string, digits: number) => [
    name,
    range(before.map(of), unit, digits),
    range(after.map(of), unit, digits),
    interval(medianWithInterval(before.map((figure, pair) => of(after[pair] as Figure) / of(figure))), ' ×', 2)
  ]
  print(
    `${what}: ${PAIRS} pairs in turns`,
    ['', 'before', 'after', 'after / before'],
    [
      row(what, ({ value }) => value, '', what.startsWith('ms') ? 2 : 0),
      ...Object.keys(before[0]?.cpu ?? {})
        .filter(name => before.some(({ cpu }) => cpu[name]))
        .map(name => row(`CPU of one, ${name}`, ({ cpu }) => cpu[name] as number, ' µs', 0))
    ]
  )
  for (const { stage, side } of sides) {
    await side.close()
    await stage.close()
  }
}

function throughput(connections: number): Open {
  return busy(connections, (stage, address) => openMinuteOrders(stage, { address, connections }))
}

function reads(path: string, connections: number): Open {
  return busy(connections, async ({ key }, address) => {
    return () => call({ address, key, path })
  })
}

type Work = (caller: number) => Promise<unknown>

/** Keeps so many connections busy. */
function busy(connections: number, prepare: (stage: Stage, address: string) => Promise<Work>): Open {
  return async (stage, address, seconds) => {
    const work = await prepare(stage, address)
    await load({ connections, seconds: WARM_SECONDS, work })
    return {
      measure: () =>
        withCpu(stage, async () => {
          const { perSecond, calls } = await load({ connections, seconds, work })
          return { value: perSecond, calls }
        }),
      async close() {}
    }
  }
}

function added(rate: number): Open {
  return async (stage, address, seconds) => {
    const { direct, through, close } = await openTickOrders(stage, address)
    const each = (run: (index: number) => Promise<number>) =>
      rate === 0 ? oneByOne(seconds, run) : steady(rate, seconds, run)
    return {
      async measure() {
        const alone = median(await each(direct))
        return withCpu(stage, async () => {
          const times = await each(through)
          return { value: median(times) - alone, calls: times.length }
        })
      },
      close
    }
  }
}

/** Each begins at any time between two ticks. */
async function oneByOne(seconds: number, run: (index: number) => Promise<number>): Promise<number[]> {
  const times: number[] = []
  const end = performance.now() + seconds * 1000
  for (let index = 0; performance.now() < end; index++) {
    await sleep(Math.random() * TICK_MS)
    times.push(await run(index))
  }
  return times
}

async function withCpu(stage: Stage, run: () => Promise<{ value: number; calls: number }>): Promise<Figure> {
  const before = await stage.cpuSeconds()
  const { value, calls } = await run()
  const after = await stage.cpuSeconds()
  const cpu: Record<string, number> = { all: 0 }
  for (const [name, used] of Object.entries(after)) {
    const micros = (1_000_000 * (used - (before[name] ?? 0))) / calls
    cpu[name] = micros
    if (name !== 'broker') cpu.all = (cpu.all ?? 0) + micros
  }
  return { value, cpu }
}
