// Waiting: 2,000 requests that wait for their settlement in one API process; what that costs in memory, in
// event-loop delay, and what another caller of the same process feels of it.
import { type Db, rows } from '../../db/postgres/connection.ts'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import { memoryOf, print, verdict } from './report.ts'
import { call, ms, setStage, spread } from './stage.ts'

const WAITING = 2000
const TRADERS = 200
const TICK_MS = 4000
const TICKS = 8
const OTHERS_A_SECOND = 100

/** Places the orders, then measures for `seconds` while all of them wait. */
export async function waiting(seconds: number): Promise<void> {
  const stage = await setStage(['--tick-ms', String(TICK_MS)])
  const metricsPort = 20_000 + (process.pid % 20_000)
  const { address, child } = await stage.startApi({ METRICS_PORT: String(metricsPort) })
  await stage.startWorker()
  const traders = await stage.makeTraders(address, TRADERS)
  const idle = await memoryOf(child.pid)
  const orders = Promise.all(
    Array.from({ length: WAITING }, (_, index) =>
      call({
        address,
        key: stage.key,
        path: '/v1/orders/binary',
        body: tickOrder(traders[index % TRADERS] as string, { duration: TICKS })
      })
    )
  )
  // A failure shows at the end; until then nobody listens.
  orders.catch(() => {})
  const gauge = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  }
  const deadline = performance.now() + 20_000
  while ((await countOpen(stage.db)) < WAITING) {
    if (performance.now() > deadline) throw new Error(`not all ${WAITING} orders were bought within 20 s`)
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  // Reading the delay starts it afresh.
  await gauge('nodejs_eventloop_lag_p99_seconds')
  const times = await steady(OTHERS_A_SECOND, seconds, async () => {
    const startedAt = performance.now()
    await call({ address, key: stage.key, path: '/v1/me' })
    return performance.now() - startedAt
  })
  const lag = (await gauge('nodejs_eventloop_lag_p99_seconds')) * 1000
  const under = await gauge('service_http_requests_under_way')
  const memory = await memoryOf(child.pid)
  const answers = (await orders).map(text => JSON.parse(text) as { status: string })
  const { p50, p99 } = spread(times)
  print(
    `${WAITING} requests wait for settlement in one API process (${TRADERS} accounts, ${TICKS} ticks of ${TICK_MS} ms); meanwhile ${OTHERS_A_SECOND} GET /v1/me a second for ${seconds} s`,
    ['waiting', 'API memory, idle → then', 'event-loop delay p99', "others' p50 / p99", 'answered CLOSED', 'goals'],
    [
      [
        String(under),
        `${idle.toFixed(0)} → ${memory.toFixed(0)} MB`,
        ms(lag),
        `${ms(p50)} / ${ms(p99)}`,
        `${answers.filter(({ status }) => status === 'CLOSED').length} of ${WAITING}`,
        `${verdict('< 250 MB', memory < 250)}\n${verdict("others' p99 < 50 ms", p99 < 50)}`
      ]
    ]
  )
  await stage.close()
}

async function countOpen(db: Db): Promise<number> {
  const [row] = await rows<{ count: number }>(db, `select count(*) as count from orders where phase = 'open'`)
  return row?.count ?? 0
}
