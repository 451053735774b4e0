// `make outages`: a whole part away for a while under load. Nothing accepted is lost, responses say what a client can
// act on, and everything recovers without a restart of api or worker. Each ends with the auditor.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { summary } from '../support/auditor.ts'
import type { DialectName } from '../support/dialects.ts'
import { judge } from './judge.ts'
import { type ChaosLoad, runLoad } from './load.ts'
import { startOtherCalls } from './other-calls.ts'
import { type ChaosStack, openStack } from './stack.ts'
import { describeDoubts } from './traces.ts'

export const outages = ['postgres', 'redis', 'broker', 'disk'] as const
export type Outage = (typeof outages)[number]

export interface OutageOptions {
  seed: number
  /** How long the part is away, and how long there is load before and after. */
  awayMs: number
  aroundMs: number
  ordersPerSecond: number
  print(line: string): void
}

export interface OutageReport {
  load: ChaosLoad
  violations: string[]
  /** From the end of the outage to the first order bought that was sent after it. */
  recoveredMs: number | undefined
  /** Responses of each stage (before, during, after), by status and code. */
  responses: Record<string, number>
}

// Small enough to fill in a moment, large enough for a cluster and its log.
const DISK_BYTES = 192 * 1024 * 1024
const smallCluster = { max_wal_size: '64MB', min_wal_size: '32MB', shared_buffers: '16MB' }
const FREE_BYTES = 64 * 1024

/** Whether a file system of its own can be mounted for the full disk. */
export function canMount(): boolean {
  return process.platform === 'linux' && process.getuid?.() === 0
}

export type OutageStack = ChaosStack & {
  /** The small file system PostgreSQL's data lie on. */
  mount?: string
}

/** The stack for outages; for `disk`, with PostgreSQL on a small file system of its own. */
export async function openOutageStack(options: {
  seed: number
  disk: boolean
  redis: boolean
  dialect: DialectName
  accounts: number
}): Promise<OutageStack> {
  const { disk, ...rest } = options
  const common = { ...rest, workers: 2, direct: true }
  if (!disk) return openStack(common)
  const mount = mkdtempSync(join(tmpdir(), 'operator-chaos-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES},mode=0755`, 'tmpfs', mount])
  const onClosed = () => {
    execFileSync('umount', ['-l', mount])
    rmSync(mount, { recursive: true })
  }
  mkdirSync(join(mount, 'postgres'))
  const settings = { postgresDir: join(mount, 'postgres'), postgresSettings: smallCluster }
  return { ...(await openStack({ ...common, ...settings, onClosed })), mount }
}

/** Takes the part away; returns how to bring it back. */
async function takeAway(stack: OutageStack, outage: Outage): Promise<() => Promise<void>> {
  switch (outage) {
    case 'postgres':
      await stack.postgres.stop()
      return () => stack.postgres.start()
    case 'redis':
      await stack.redis?.end('SIGKILL')
      return async () => stack.redis?.start()
    case 'broker':
      await stack.broker.end('SIGKILL')
      return () => stack.broker.start()
    case 'disk': {
      const filler = join(stack.mount as string, 'filler')
      const fill = () => {
        const { bavail, bsize } = statfsSync(stack.mount as string)
        const bytes = bavail * bsize - FREE_BYTES
        try {
          if (bytes > 0) writeFileSync(filler, Buffer.alloc(bytes), { flag: 'a' })
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error // PostgreSQL was faster: full it is.
        }
      }
      fill()
      // What is freed meanwhile (old log segments) is taken as well.
      const filling = setInterval(fill, 200)
      return async () => {
        clearInterval(filling)
        rmSync(filler)
        // A server that could not write its log ends; whoever looks after it starts it again.
        if (!stack.postgres.alive()) await stack.postgres.start()
      }
    }
  }
}

/** Runs load with the part away in the middle. */
export async function runOutage(stack: OutageStack, outage: Outage, options: OutageOptions): Promise<OutageReport> {
  const { awayMs, aroundMs, ordersPerSecond, print } = options
  let stage = 'before'
  const ms = 2 * aroundMs + awayMs
  const pids = stack.members.filter(({ kind }) => kind === 'api' || kind === 'worker').map(({ pid }) => pid)
  const loading = runLoad(stack, {
    seed: options.seed,
    count: Math.ceil((ms * ordersPerSecond) / 1000),
    ms,
    most: 2000,
    patienceMs: awayMs + 60_000,
    stage: () => stage
  })
  const calling = startOtherCalls(stack, { seed: options.seed, stage: () => stage })
  await sleep(aroundMs)
  stage = 'during'
  const bringBack = await takeAway(stack, outage)
  await sleep(awayMs)
  await bringBack()
  stage = 'after'
  const backAt = performance.now()
  const load = await loading
  const outcomes = await calling.stop()
  const { report, violations, doubts } = await judge(stack, load)
  const wrong = violations.map(({ what, orderId }) => `${what}${orderId ? ` (${orderId})` : ''}`)
  wrong.push(...outcomes.complaints)
  const stayed = stack.members.filter(({ kind }) => kind === 'api' || kind === 'worker').map(({ pid }) => pid)
  if (stayed.join() !== pids.join()) wrong.push('a process of ours had to be started again')
  const gaveUp = load.lives.filter(({ end }) => end === 'given up').length
  if (gaveUp > 0) wrong.push(`${gaveUp} clients ran out of patience`)
  const first = load.firstSuccess.after
  const recoveredMs = first === undefined ? undefined : Math.round(first - backAt)
  print(`${outage} away for ${awayMs} ms: ${summary(report)}`)
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .sort()
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  print(
    `  recovered after ${recoveredMs} ms; in doubt: ${describeDoubts(doubts)}; ${load.retries} retries; responses ${list(load.responses)}`
  )
  print(`  other calls: ${list(outcomes.responses)}`)
  for (const line of wrong) print(`  VIOLATION ${line}`)
  return { load, violations: wrong, recoveredMs, responses: load.responses }
}
