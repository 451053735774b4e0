// Orders: the time the service adds to one, how many a second it places beside bare peers, and what that leaves
// in the memory of its processes.
import { setTimeout as sleep } from 'node:timers/promises'
import { addedTime, TICK_MS } from './added-time.ts'
import { copies } from './copies.ts'
import { memoryOf, print, range, verdict } from './report.ts'
import { median, setStage } from './stage.ts'
import { bareKoa, commits, orders, plainQueue } from './throughput.ts'

const ROUNDS = 3
// A process is slower by a fifth in its first ten seconds of load, since V8 is still compiling.
const WARM_ROUNDS = 3

/** Tick orders through the service and straight to the broker, in turns. */
export async function added(seconds: number): Promise<void> {
  const stage = await setStage(['--tick-ms', String(TICK_MS)])
  const { address } = await stage.startApi()
  await stage.startWorker()
  print(
    'Time added to a tick order (same broker, same ticks); goals p50 ≤ 6 ms, p99 ≤ 25 ms quiet, 12 and 60 ms at 200 orders/s',
    ['load', 'direct p50 / p99', 'service p50 / p99', 'added p50 / p95 / p99', 'orders'],
    await addedTime(stage, { address, seconds })
  )
  await stage.close()
}

/** Orders a second beside pg-boss used plainly, bare Koa and single commits, in turns; rounds of each before warm up. */
export async function throughput(seconds: number): Promise<void> {
  const body: string[][] = []
  for (const { connections, goal } of [
    { connections: 64, goal: 1.7 },
    { connections: 256, goal: 3 }
  ]) {
    // A stage each: what the first left open would go on streaming into the second.
    const stage = await setStage()
    const { address } = await stage.startApi()
    await stage.startWorker()
    const figures = { orders: [] as number[], queue: [] as number[], koa: [] as number[], commits: [] as number[] }
    // Not counted: code is compiled, statements are planned, connections are opened.
    for (let round = 0; round < WARM_ROUNDS; round++) {
      await orders(stage, { address, connections, seconds })
      await plainQueue(stage, { connections, seconds })
      await bareKoa({ connections, seconds: seconds / 2, method: 'POST' })
    }
    for (let round = 0; round < ROUNDS; round++) {
      figures.orders.push((await orders(stage, { address, connections, seconds })).perSecond)
      figures.queue.push((await plainQueue(stage, { connections, seconds })).perSecond)
      figures.koa.push((await bareKoa({ connections, seconds, method: 'POST' })).perSecond)
      figures.commits.push((await commits(stage, { seconds: seconds / 2 })).perSecond)
    }
    await stage.close()
    const service = median(figures.orders)
    const ratio = service / median(figures.queue)
    const against = (values: number[]) => `${(service / median(values)).toFixed(2)} × of ${range(values)}`
    body.push([
      `${connections}`,
      range(figures.orders),
      against(figures.queue),
      verdict(`≥ ${goal} ×`, ratio >= goal),
      against(figures.koa),
      against(figures.commits)
    ])
  }
  print(
    'Orders a second through API, worker, broker and back, not waiting for settlement; broker without latency',
    ['connections', 'orders', 'plain pg-boss', 'goal', 'bare Koa POST', 'single commits'],
    body
  )
}

// A process is at rest so long after its last order: V8 has given back by then what it keeps for the next burst.
const AT_REST_MS = 120_000

/** Memory of an API and a worker process: idle, right after 10,000 orders, all of them open, and at rest. */
export async function memory(): Promise<void> {
  const count = 10_000
  const stage = await setStage()
  const { address, child } = await stage.startApi()
  const worker = await stage.startWorker()
  const figures = async () => [await memoryOf(child.pid), await memoryOf(worker.pid)] as const
  const idle = await figures()
  await orders(stage, { address, connections: 64, calls: count })
  const then = await figures()
  await sleep(AT_REST_MS)
  const atRest = await figures()
  const row = (name: string, at: 0 | 1) => [
    name,
    ...[idle, then, atRest].map(found => `${found[at].toFixed(0)} MB`),
    verdict('< 150 MB', atRest[at] < 150)
  ]
  print(
    `Resident memory, idle, right after ${count.toLocaleString('en')} orders over 64 connections, and two minutes later`,
    ['process', 'idle', 'after the orders', 'at rest', 'goal'],
    [row('api', 0), row('worker', 1)]
  )
  await stage.close()
}

/** Copies of one leader's order to 1,000 followers. */
export async function fanout(): Promise<void> {
  const stage = await setStage(['--tick-ms', '1000', '--latency-ms', '50'])
  const { address } = await stage.startApi()
  print(
    "Copies of one leader's order, three workers, broker latency 50 ms",
    ['run', 'copies bought', 'after the leader p50 / p99', 'last', 'not bought', 'left in doubt by a kill'],
    await copies(stage, { address, followers: 1000 })
  )
  await stage.close()
}
