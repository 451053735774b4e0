// Added time: tick orders through the service against the same contracts through the broker port alone, in
// turns on the same simulated broker, at 1 order at a time and at a steady rate. Each begins at any time between two
// ticks: begun where the last one ended, on a tick, every time would be a multiple of a tick.
import { setTimeout as sleep } from 'node:timers/promises'
import { openLog } from '../../db/platform/log.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import { tickOrder } from '../support/tick-order.ts'
import { call, ms, type Stage, spread } from './stage.ts'

const contract = {
  kind: 'BINARY',
  contractType: 'CALL',
  asset: 'R_100',
  stake: '1',
  currency: 'USD',
  duration: 1,
  durationUnit: 't',
  barrier: null
} as const

export const TICK_MS = 10
const WARM_ROUNDS = 20

export interface TickOrders {
  /** A tick contract straight to the broker, and a tick order through the service; each returns its time, ms. */
  direct(index: number): Promise<number>
  through(index: number): Promise<number>
  close(): Promise<void>
}

/** A hundred accounts and a hundred traders, connected, and what runs for them compiled. */
export async function openTickOrders(stage: Stage, address: string): Promise<TickOrders> {
  const traders = await stage.makeTraders(address, 100)
  const broker = createV3Broker({ url: stage.broker.url, log: openLog({ level: 'silent', name: 'bench' }) })
  const direct = async (account: string): Promise<number> => {
    const session = await broker.session({ accountId: account, appId: '1', token: async () => `sim-${account}` })
    const startedAt = performance.now()
    await new Promise<void>((resolve, reject) => {
      const listener = { update: ({ settled }: { settled: boolean }) => settled && resolve(), lost: reject }
      session.buy(contract, { beforeSend: () => {}, maxPrice: '1', listener }).catch(reject)
    })
    return performance.now() - startedAt
  }
  const through = async (trader: string): Promise<number> => {
    const startedAt = performance.now()
    await call({ address, key: stage.key, path: '/v1/orders/binary', body: tickOrder(trader) })
    return performance.now() - startedAt
  }
  const accounts = traders.map((_, index) => `VRTC${900_000_000 + index}`)
  for (let round = 0; round < WARM_ROUNDS; round++)
    await Promise.all([...accounts.map(direct), ...traders.map(through)])
  return {
    direct: index => direct(accounts[index % accounts.length] as string),
    through: index => through(traders[index % traders.length] as string),
    close: () => broker.close()
  }
}

/** Alone, at 50 and at 200 orders a second: a row each. */
export async function addedTime(
  stage: Stage,
  { address, seconds }: { address: string; seconds: number }
): Promise<string[][]> {
  const { direct, through, close } = await openTickOrders(stage, address)
  const rows: string[][] = []
  for (const rate of [0, 50, 200]) {
    const times: { direct: number[]; through: number[] } = { direct: [], through: [] }
    if (rate === 0) {
      const end = performance.now() + seconds * 1000
      for (let index = 0; performance.now() < end; index++) {
        await sleep(Math.random() * TICK_MS)
        times.direct.push(await direct(index))
        await sleep(Math.random() * TICK_MS)
        times.through.push(await through(index))
      }
    } else {
      for (const kind of ['direct', 'through', 'direct', 'through'] as const) {
        times[kind].push(...(await steady(rate, seconds / 2, kind === 'direct' ? direct : through)))
      }
    }
    const [a, b] = [spread(times.direct), spread(times.through)]
    rows.push([
      rate === 0 ? 'one at a time' : `${rate} orders/s`,
      `${ms(a.p50)} / ${ms(a.p99)}`,
      `${ms(b.p50)} / ${ms(b.p99)}`,
      `${ms(b.p50 - a.p50)} / ${ms(b.p95 - a.p95)} / ${ms(b.p99 - a.p99)}`,
      String(times.through.length)
    ])
  }
  await close()
  return rows
}

/** Starts `work` at a steady rate, whether or not the ones before have ended. */
export async function steady(
  rate: number,
  seconds: number,
  work: (index: number) => Promise<number>
): Promise<number[]> {
  const startedAt = performance.now()
  const under: Promise<number>[] = []
  for (let index = 0; index < rate * seconds; index++) {
    const due = startedAt + ((index + Math.random()) * 1000) / rate
    const wait = due - performance.now()
    if (wait > 0) await sleep(wait)
    under.push(work(index))
  }
  return Promise.all(under)
}
