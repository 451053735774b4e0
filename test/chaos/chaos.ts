// One chaos run from the first process to the verdict.

import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import type { FaultRule } from '../../worker/simulator/faults.ts'
import { summary } from '../support/auditor.ts'
import type { DialectName } from '../support/dialects.ts'
import { startConsumers } from './consumers.ts'
import { countKills, type InjectedFaults, startFaults } from './faults.ts'
import { type Judgement, judge } from './judge.ts'
import { type ChaosLoad, runLoad } from './load.ts'
import { openStack } from './stack.ts'
import { describeDoubts, type TracedViolation, trace } from './traces.ts'

export interface ChaosOptions {
  seed: number
  orders: number
  kills: number
  /** So many have to be, up to four times as long. */
  leastKills?: number
  /** How long orders and faults are spread over, on a machine that is not busy otherwise. */
  minutes: number
  workers: number
  accounts: number
  redis: boolean
  dialect: DialectName
  stretch?: number
  /** Sockets of the stream that read along (0). */
  sockets?: number
  /** How far the workers' wall clocks are off at most, ms. */
  skewMs: number
  /** Whether everything ends at once half-way. */
  restartAll: boolean
  /** Keeps logs and data, and prints where they are. */
  keep: boolean
  print(line: string): void
}

export interface ChaosReport {
  violations: TracedViolation[]
  judgement: Judgement
  load: ChaosLoad
  injected: InjectedFaults
  kills: number
  seconds: number
}

const STARTS = 2
const MAX_START_MS = 30_000
const PATIENCE_MS = 60_000

// What the broker does by itself. A late execution stays within its own time-out, together with held traffic.
const brokerFaults: FaultRule[] = [
  { effect: 'drop-before', call: 'buy', probability: 0.004 },
  { effect: 'drop-after', call: 'buy', probability: 0.006 },
  { effect: 'mute', call: 'buy', probability: 0.005 },
  { effect: 'ignore', call: 'buy', probability: 0.003 },
  { effect: 'timeout', call: 'buy', probability: 0.003 },
  { effect: 'timeout-late', call: 'buy', probability: 0.005, delayMs: 700 },
  { effect: 'slow', call: 'buy', probability: 0.01, delayMs: 400 },
  { effect: 'error', call: 'buy', probability: 0.004, code: 'InternalServerError', message: 'Try again.' },
  { effect: 'error', call: 'buy', probability: 0.004, code: 'RateLimit', message: 'Too many requests.' },
  { effect: 'error', call: 'buy', probability: 0.004, code: 'PriceMoved', message: 'The price has moved.' },
  { effect: 'error', call: 'buy', probability: 0.002, code: 'InsufficientBalance', message: 'Too little money.' },
  { effect: 'duplicate', probability: 0.02 },
  { effect: 'reorder', probability: 0.02, delayMs: 100 },
  { effect: 'mute', call: 'statement', probability: 0.02 },
  { effect: 'drop-before', call: 'portfolio', probability: 0.02 },
  { effect: 'mute', call: 'proposal_open_contract', probability: 0.005 },
  { effect: 'error', call: 'sell', probability: 0.05, code: 'InternalServerError', message: 'Try again.' },
  { effect: 'drop-after', call: 'sell', probability: 0.05 }
]

/** Runs it; throws only when the stack itself gives way. */
export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const { seed, print } = options
  const openedAt = performance.now()
  const stack = await openStack({ ...options, rules: brokerFaults })
  // On a machine that is slow now, the time and a client's patience grow with what the start of all processes took, within
  // bounds: what is killed has to come back within them.
  const startMs = Math.min(MAX_START_MS, performance.now() - openedAt)
  const ms = Math.max(options.minutes * 60_000, STARTS * startMs)
  let clean = false
  let watch: NodeJS.Timeout | undefined
  try {
    print(
      `${options.dialect}: ${stack.apis.length} APIs, ${stack.workers.length} workers, ${stack.redis ? 'Redis' : 'no Redis'}, ` +
        `${stack.traders.length} accounts, workers' clocks up to ${options.skewMs} ms off; logs in ${stack.logs}`
    )
    const startedAt = performance.now()
    const { sockets = 0 } = options
    const consumers = sockets > 0 ? await startConsumers(stack, { count: sockets, seed: seed + 3 }) : undefined
    const { kills, leastKills, restartAll } = options
    const injected = startFaults(stack, { seed: seed + 1, kills, leastKills, ms, restartAll })
    const patienceMs = Math.max(PATIENCE_MS, 2 * STARTS * startMs)
    const loading = runLoad(stack, { seed, count: options.orders, ms, most: 150, patienceMs })
    watch = setInterval(() => {
      const memory = Math.round(process.memoryUsage().rss / 1e6)
      print(
        `${Math.round((performance.now() - startedAt) / 1000)} s: ${countKills(injected.faults)} kills and freezes, ${memory} MB here`
      )
    }, 30_000)
    const [load] = await Promise.all([loading, injected.done])
    const seconds = (performance.now() - startedAt) / 1000
    await stack.spoil([])
    const judgement = await judge(stack, load)
    const streamed = await consumers?.judge()
    consumers?.stop()
    if (streamed) {
      print(streamed.summary)
      for (const what of streamed.violations) judgement.violations.push({ what, orderId: null, contractId: null })
    }
    const report = {
      violations: judgement.violations,
      judgement,
      load,
      injected,
      kills: countKills(injected.faults),
      seconds
    }
    clean = report.violations.length === 0
    for (const line of describe(report)) print(line)
    print(complaintsOf(stack.members))
    const ledger: LedgerEntry[] = clean ? [] : await stack.ledger()
    for (const violation of report.violations.slice(0, 25))
      print(await trace(stack, load, { ...violation, faults: injected.log, ledger }))
    if (!clean || options.keep) print(`Logs and data are kept in ${stack.dir}`)
    return report
  } finally {
    clearInterval(watch)
    await stack.close(options.keep || !clean)
  }
}

function describe({ judgement, load, injected, kills, seconds, violations }: ChaosReport): string[] {
  const { report, doubts, stillOpen, markups } = judgement
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .sort(([, a], [, b]) => b - a)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  const ends: Record<string, number> = {}
  for (const { end } of load.lives) ends[end ?? 'none'] = (ends[end ?? 'none'] ?? 0) + 1
  return [
    `audit: ${summary(report)}`,
    `faults: ${kills} kills and freezes in ${Math.round(seconds)} s (${Math.round((kills / seconds) * 60)}/min): ${list(injected.faults)}`,
    `orders: ${load.lives.length} (${Math.round(load.lives.length / seconds)}/s) ended for their clients as ${list(ends)}; ${stillOpen} without end`,
    `responses: ${load.requests} requests, ${load.retries} retries: ${list(load.responses)}`,
    ...markups.map(
      ({ partnerId, currency, ours, theirs, unknown }) =>
        `markup of ${partnerId}, ${currency}: ours ${ours}, the broker's ledger ${theirs}, difference ${(Number(ours) - Number(theirs)).toFixed(2)}, ${unknown} unknown`
    ),
    `in doubt, decided so long after their sending: ${describeDoubts(doubts)}`,
    `violations: ${violations.length}`
  ]
}

function complaintsOf(members: { name: string; failedStarts: number; exits: (number | string)[] }[]): string {
  const parts = members.map(({ name, failedStarts, exits }) => {
    const odd = exits.filter(exit => exit !== 0)
    return `${name} ${exits.length} stopped in order${odd.length ? ` (not in order: ${odd.join(' ')})` : ''}, ${failedStarts} starts failed`
  })
  return `processes: ${parts.join('; ')}`
}
