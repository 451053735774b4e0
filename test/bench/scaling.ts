// Scaling: orders a second with 1, 2 and 4 workers and 1 and 2 API processes, behind a broker that takes 100 ms.

import { tickOrder } from '../support/tick-order.ts'
import { print, range } from './report.ts'
import { call, load, median, setStage } from './stage.ts'

const CONNECTIONS = 256
const LATENCY_MS = 100
const ROUNDS = 2

/** Adds processes one by one and measures at each step. */
export async function scaling(seconds: number): Promise<void> {
  const stage = await setStage(['--latency-ms', String(LATENCY_MS)])
  const addresses = [(await stage.startApi()).address]
  let workers = 0
  const traders = await stage.makeTraders(addresses[0] as string, CONNECTIONS)
  const place = (caller: number) =>
    call({
      address: addresses[caller % addresses.length] as string,
      key: stage.key,
      path: '/v1/orders/binary',
      body: tickOrder(traders[caller] as string, { duration: 60, durationUnit: 'm' })
    })
  const body: string[][] = []
  let base = 0
  for (const step of [
    { apis: 1, workers: 1 },
    { apis: 1, workers: 2 },
    { apis: 1, workers: 4 },
    { apis: 2, workers: 4 }
  ]) {
    for (; workers < step.workers; workers++) await stage.startWorker()
    while (addresses.length < step.apis) addresses.push((await stage.startApi()).address)
    // Every worker opens a connection for every account first: orders go to whichever worker is free.
    await load({ connections: CONNECTIONS, seconds: 30, calls: 4 * CONNECTIONS * workers, work: place })
    const loads = []
    for (let round = 0; round < ROUNDS; round++)
      loads.push(await load({ connections: CONNECTIONS, seconds, work: place }))
    const perSecond = loads.map(figure => figure.perSecond)
    base ||= median(perSecond)
    body.push([
      String(step.apis),
      String(step.workers),
      range(perSecond),
      `${(median(perSecond) / base).toFixed(2)} ×`,
      range(
        loads.map(({ p50 }) => p50),
        ' ms'
      )
    ])
  }
  print(
    `Scaling: ${CONNECTIONS} connections, broker latency ${LATENCY_MS} ms; all processes share the cores, so more of them only help while those wait`,
    ['APIs', 'workers', 'orders a second', 'against one each', 'answer p50'],
    body
  )
  await stage.close()
}
