// One failover run from the first machine to the verdict: the service under load, primaries, standbys and etcd taken away
// one after another, then the audit of `test/chaos`.
import { mkdirSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startConsumers } from '../chaos/consumers.ts'
import { judge } from '../chaos/judge.ts'
import { emptyLoad, runLoad } from '../chaos/load.ts'
import { openStack } from '../chaos/stack.ts'
import { trace } from '../chaos/traces.ts'
import { seeded } from '../money-storm/random.ts'
import { summary } from '../support/auditor.ts'
import type { DialectName } from '../support/dialects.ts'
import { operator } from '../support/operator.ts'
import { until } from '../support/until.ts'
import { openCluster } from './cluster.ts'
import { drawFaults } from './faults.ts'
import { type Cost, describe, seconds } from './figures.ts'

export interface FailoverOptions {
  seed: number
  faults: number
  /** Only faults whose kind contains this. */
  only: string | undefined
  /** Orders a second. */
  rate: number
  workers: number
  accounts: number
  sockets: number
  /** Makes the times of orders so many times as long, for a machine that cannot keep up with the short ones. */
  stretch: number
  redis: boolean
  dialect: DialectName
  /** No fault begins later than so long after the first one, ms. */
  withinMs: number
  report(line: string): void
}

/** What a run did and found. */
export interface FailoverOutcome {
  costs: Cost[]
  orders: number
  /** Events that consumers of the stream received. */
  events: number
  wrong: string[]
}

const ACKNOWLEDGED_MS = 180_000
const PATIENCE_MS = 180_000
const HOURS = 24 * 3600

/** Runs it. */
export async function failover(options: FailoverOptions): Promise<FailoverOutcome> {
  const { seed, report } = options
  const dir = join(realpathSync(tmpdir()), 'machines')
  mkdirSync(dir, { mode: 0o711 })
  const cluster = await openCluster(dir)
  report(`three machines with PostgreSQL, three with etcd; logs in ${dir}`)
  const stack = await openStack({
    ...options,
    database: cluster,
    direct: true,
    env: { DATABASE_READ_URL: cluster.readUrl }
  })
  report(
    `${stack.apis.length} APIs, ${stack.workers.length} workers, ${stack.redis ? 'Redis' : 'no Redis'}; logs in ${stack.logs}`
  )
  const ours = () => stack.members.filter(({ kind }) => kind === 'api' || kind === 'worker').map(({ pid }) => pid)
  const pids = ours().join()
  const consumers =
    options.sockets > 0 ? await startConsumers(stack, { count: options.sockets, seed: seed + 3 }) : undefined
  const load = emptyLoad({ patienceMs: PATIENCE_MS })
  const sending = new AbortController()
  const loading = runLoad(stack, {
    seed,
    count: options.rate * HOURS,
    ms: HOURS * 1000,
    most: options.rate * 60,
    load,
    signal: sending.signal
  })
  const acknowledged = async () => {
    const before = load.acknowledged.length
    await until('an acknowledged order', () => load.acknowledged.length > before, ACKNOWLEDGED_MS)
  }
  const random = seeded(seed + 1)
  const costs: Cost[] = []
  const log: { at: Date; what: string }[] = []
  const note = (what: string) => {
    log.push({ at: new Date(), what })
    report(`  ${new Date().toISOString()} ${what}`)
  }
  const wrong: string[] = []
  const drawn = drawFaults(random, options.faults, options.only)
  const startedAt = performance.now()
  let events = 0
  try {
    for (const [index, fault] of drawn.entries()) {
      if (performance.now() - startedAt > options.withinMs) break
      await cluster.whole()
      await acknowledged()
      // The last one acknowledged before.
      const from = load.acknowledged.length - 1
      await fault.run({ cluster, random, note, acknowledged })
      const primary = await cluster.whole()
      await acknowledged()
      const silentMs = longest(load.acknowledged.slice(from))
      costs.push({ kind: fault.kind, of: fault.of, silentMs })
      report(
        `${index + 1} of ${drawn.length}: ${fault.kind}: ${seconds(silentMs)} without an acknowledged order; ${primary.name} is the primary`
      )
    }
  } catch (error) {
    wrong.push(`fault ${costs.length + 1} (${drawn[costs.length]?.kind}): ${(error as Error).message}`)
  }
  sending.abort()
  await loading
  if (wrong.length === 0) {
    const judgement = await judge(stack, load)
    const streamed = await consumers?.judge()
    consumers?.stop()
    report(`audit: ${summary(judgement.report)}; ${judgement.stillOpen} without end`)
    if (streamed) report(streamed.summary)
    events = streamed?.received ?? 0
    for (const violation of judgement.violations.slice(0, 10))
      report(await trace(stack, load, { ...violation, faults: log, ledger: await stack.ledger() }))
    wrong.push(...judgement.violations.map(({ what, orderId }) => `${what}${orderId ? ` (${orderId})` : ''}`))
    wrong.push(...(streamed?.violations ?? []))
    const gaveUp = load.lives.filter(({ end }) => end === 'given up').length
    if (gaveUp > 0) wrong.push(`${gaveUp} clients ran out of patience`)
    for (const line of await lostBooks(stack)) wrong.push(line)
    wrong.push(...(await examine(stack.env, report)))
  }
  if (ours().join() !== pids) wrong.push('a process of ours had to be started again')
  const answers = Object.entries(load.responses).sort(([, a], [, b]) => b - a)
  report(
    `orders: ${load.lives.length}, ${load.retries} retries; answers ${answers.map(each => each.join(' ')).join(', ')}`
  )
  for (const line of describe(costs)) report(line)
  for (const line of wrong) report(`VIOLATION ${line}`)
  await stack.close(true)
  return { costs, orders: load.lives.length, events, wrong }
}

/** Wallets whose balance is not the sum of their entries. */
async function lostBooks({ env }: { env: Record<string, string> }): Promise<string[]> {
  const { exitCode, stderr } = await operator({ ...env, LOG_LEVEL: 'silent' }, 'ledger', 'verify', '--json')
  return exitCode === 0 ? [] : [`operator ledger verify: ${stderr}`]
}

/** What the doctor reports about the machines, all of which work by now. */
async function examine(env: Record<string, string>, report: (line: string) => void): Promise<string[]> {
  const { json } = await operator({ ...env, LOG_LEVEL: 'silent' }, 'doctor', '--json')
  const checks = json.checks as { check: string; status: string; found: string }[]
  const named = ['durability', 'replication', 'database route', 'read replica']
  const found = checks.filter(({ check }) => named.includes(check))
  for (const { check, status, found: what } of found) report(`operator doctor: ${status} ${check}: ${what}`)
  return named
    .filter(name => !found.some(({ check, status }) => check === name && status === 'ok'))
    .map(name => `operator doctor finds no ${name} in order`)
}

function longest(moments: number[]): number {
  return moments.reduce((most, moment, index) => Math.max(most, moment - (moments[index - 1] ?? moment)), 0)
}
