// What the request log costs: the same load on an api process that writes it and on one that does not, in turns. Orders show what it
// costs a usual mix; GET /v1/me, the cheapest call there is, the worst case.
import { print, range, verdict } from './report.ts'
import { call, load, median, type Stage, setStage } from './stage.ts'
import { orders } from './throughput.ts'

const ROUNDS = 8
const CONNECTIONS = 64
const GOAL_PCT = 2
// A process's last entries are written within this time; they belong to its load.
const WRITTEN_MS = 1000

interface Figures {
  perSecond: number[]
  /** CPU of api and PostgreSQL, microseconds a request. */
  cpuMicros: number[]
}

/** Throughput and CPU of orders and of GET /v1/me with and without the request log. */
export async function requests(seconds: number): Promise<void> {
  const stage = await setStage()
  await stage.startWorker()
  const apis = { with: await stage.startApi(), without: await stage.startApi({ REQUEST_DAYS: '0' }) }
  const loads = {
    orders: (address: string) => orders(stage, { address, connections: CONNECTIONS, seconds }),
    'GET /v1/me': (address: string) =>
      load({ connections: CONNECTIONS, seconds, work: () => call({ address, key: stage.key, path: '/v1/me' }) })
  }
  for (const [what, run] of Object.entries(loads)) {
    const figures: Record<'with' | 'without', Figures> = {
      with: { perSecond: [], cpuMicros: [] },
      without: { perSecond: [], cpuMicros: [] }
    }
    // Warm before the first round that counts.
    for (const { address } of Object.values(apis)) await run(address)
    for (let round = 0; round < ROUNDS; round++)
      // Which comes first changes: the tables grow.
      for (const which of round % 2 ? (['with', 'without'] as const) : (['without', 'with'] as const)) {
        const before = await cpu(stage)
        const { perSecond, calls } = await run(apis[which].address)
        await new Promise(resolve => setTimeout(resolve, WRITTEN_MS))
        figures[which].perSecond.push(perSecond)
        figures[which].cpuMicros.push((1_000_000 * ((await cpu(stage)) - before)) / calls)
      }
    const cost = (1 - median(figures.with.perSecond) / median(figures.without.perSecond)) * 100
    const spent = (median(figures.with.cpuMicros) / median(figures.without.cpuMicros) - 1) * 100
    const goal = (value: number) =>
      what === 'orders' ? verdict(`≤ ${GOAL_PCT} %`, value <= GOAL_PCT) : 'none: the cheapest call there is'
    print(
      `What the request log costs, ${what}: ${CONNECTIONS} connections, ${ROUNDS} rounds each, in turns`,
      ['', 'without', 'with', 'cost', 'goal'],
      [
        [
          `${what}/s`,
          range(figures.without.perSecond),
          range(figures.with.perSecond),
          `${cost.toFixed(1)} %`,
          goal(cost)
        ],
        [
          'CPU of api and PostgreSQL, each',
          range(figures.without.cpuMicros, ' µs'),
          range(figures.with.cpuMicros, ' µs'),
          `${spent.toFixed(1)} %`,
          goal(spent)
        ]
      ]
    )
  }
  await stage.close()
}

async function cpu(stage: Stage): Promise<number> {
  const used = await stage.cpuSeconds()
  return (used.api ?? 0) + (used.PostgreSQL ?? 0)
}
