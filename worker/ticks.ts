// Live prices from the broker to the api processes, over the bus. One worker forwards the ticks of a dialect, under a short
// lease; when it is gone another one takes over within seconds. Each message has the lease's term, so that messages of a worker
// that was frozen are ignored.
import { setTimeout as delay } from 'node:timers/promises'
import {
  leaseTicks,
  listWantedTicks,
  releaseTicks,
  TICKS,
  tickChannelOf,
  type WantedTicks
} from '../db/events/ticks.ts'
import { WORK } from '../db/platform/bus.ts'
import { countForwarded } from '../db/platform/metrics.ts'
import type { Tick, TickStreams } from './broker/port.ts'
import type { WorkerServices } from './services.ts'

/** How often the lease is extended, or checked. */
export const TICKS_MS = 1000
const LEASE_MS = 4000
// Ticks of the same moment share a message: many assets tick in the same second.
const GROUP_MS = 8
// After so many failures in a row another partner's application is tried.
const FAILURES_OF_APP = 3

interface ForwardedTicks {
  term: number
  appId: string
  streams: TickStreams
  unlisten(): void
}

export interface TickForwarding {
  /** A round of the loop; returns whether there is more to do at once. */
  round(): Promise<boolean>
  /** Stops, and lets another worker take over at once. */
  stop(): Promise<void>
}

type ForwardingServices = Pick<WorkerServices, 'db' | 'bus' | 'brokers' | 'worker' | 'log'>

export function openTicks({ db, bus, brokers, worker, log }: ForwardingServices): TickForwarding {
  const forwarding = new Map<string, ForwardedTicks>()
  const grouped = new Map<string, string[]>()
  let timer: NodeJS.Timeout | undefined
  let stopped = false

  function flush(): void {
    timer = undefined
    for (const [dialect, lines] of grouped) {
      for (const line of lines) bus.publish(tickChannelOf(dialect), 'tick', line)
      countForwarded(dialect, lines.length)
    }
    grouped.clear()
  }

  function forward(dialect: string, term: number, { asset, epoch, price }: Tick): void {
    const lines = grouped.get(dialect)
    const line = `${term} ${asset} ${epoch} ${price}`
    if (lines) lines.push(line)
    else grouped.set(dialect, [line])
    timer ??= setTimeout(flush, GROUP_MS)
  }

  function end(dialect: string): void {
    const current = forwarding.get(dialect)
    if (!current) return
    forwarding.delete(dialect)
    current.unlisten()
    current.streams.want(new Set())
  }

  function start(dialect: string, appId: string, term: number): ForwardedTicks {
    const { ticks: streams } = brokers.of(dialect).market(appId)
    const unlisten = streams.listen(tick => forward(dialect, term, tick))
    const started = { term, appId, streams, unlisten }
    forwarding.set(dialect, started)
    log.info({ dialect, term }, 'forwarding ticks')
    return started
  }

  async function serve({ dialect, appIds, assets, worker: holder }: WantedTicks): Promise<void> {
    const current = forwarding.get(dialect)
    const term =
      holder === null || holder === worker ? await leaseTicks(db, { dialect, worker, forMs: LEASE_MS }) : null
    if (term === null || stopped) {
      if (current) log.info({ dialect, holder }, 'another worker forwards ticks')
      return end(dialect)
    }
    const appId = chosen(appIds, current)
    if (current && (current.term !== term || current.appId !== appId)) end(dialect)
    const { streams } = forwarding.get(dialect) ?? start(dialect, appId, term)
    streams.want(new Set(assets))
    for (const asset of streams.unknown) bus.publish(tickChannelOf(dialect), 'unknown', `${term} ${asset}`)
  }

  return {
    async round() {
      if (stopped) return false
      const wanted = (await listWantedTicks(db)).filter(({ dialect }) => brokers.speaks(dialect))
      for (const dialect of forwarding.keys()) if (!wanted.some(each => each.dialect === dialect)) end(dialect)
      for (const each of wanted) await serve(each)
      return false
    },
    async stop() {
      stopped = true
      for (const dialect of [...forwarding.keys()]) end(dialect)
      clearTimeout(timer)
      if (await releaseTicks(db, worker)) {
        bus.publish(WORK, TICKS, 'released')
        // For the message to leave before the bus is closed.
        await delay(0)
      }
    }
  }
}

/** The application to read market data under: the same one while it works. */
function chosen(appIds: string[], current: ForwardedTicks | undefined): string {
  const [first] = appIds as [string]
  if (!current) return first
  const at = appIds.indexOf(current.appId)
  if (at >= 0 && current.streams.failures < FAILURES_OF_APP) return current.appId
  return appIds[(at + 1) % appIds.length] as string
}
