// The money storm: several processes move money at once, are killed and have their connections cut among it, and
// at every pause all promises about money are checked.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { checkBilling } from '../../db/money/billing-check.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { type Db, openDatabase, rows } from '../../db/postgres/connection.ts'
import { plans } from '../../schemas/partners.ts'
import { type ActorShare, STORM_NAME } from './actor.ts'
import { audit } from './audit.ts'
import { stock } from './market.ts'
import { type Random, seeded } from './random.ts'
import type { MoneyScene } from './scene.ts'

export interface MoneyStormOptions {
  /** A migrated database of its own. */
  url: string
  seed: number
  operations: number
  processes: number
  /** Operations at a time in each process. */
  concurrency: number
  rounds: number
  partners: number
  /** Processes killed, and connections cut, in each round. */
  kills: number
  cuts: number
  print(line: string): void
}

export interface StormReport {
  operations: number
  transfers: number
  transfersPerSecond: number
  kills: number
  cuts: number
}

const ACTOR = fileURLToPath(new URL('./actor.ts', import.meta.url))
const DAY_MS = 86_400_000
const BOTS = 30

/** Runs a storm. Throws at the first promise that does not hold, naming it. */
export async function storm(options: MoneyStormOptions): Promise<StormReport> {
  const { url, seed, rounds, print } = options
  const db = openDatabase({ url, pool: 4, name: 'money-storm-eye' })
  const random = seeded(seed)
  const acknowledged = new Set<string>()
  const made = new Set<string>()
  const report: StormReport = { operations: 0, transfers: 0, transfersPerSecond: 0, kills: 0, cuts: 0 }
  let busyMs = 0
  try {
    const scene = await prepare(db, options)
    const base = scene.now.getTime()
    for (let round = 0; round < rounds; round++) {
      // Half a month a round: in most rounds some fees fall due, and those of a month's end among them.
      scene.now = new Date(base + round * 16 * DAY_MS)
      scene.topUps.round = round
      const [startedAt, before] = [performance.now(), await countTransfers(db)]
      const outcome = await blow(db, { ...options, round, random, scene, acknowledged, made })
      const tookMs = performance.now() - startedAt
      const moved = (await countTransfers(db)) - before
      const { prices, feePct, now } = scene
      await checkBilling(db, { prices, feePct, now })
      const broken = await audit(db, { scene, acknowledged })
      if (broken) throw new Error(`Round ${round + 1}: ${broken}`)
      busyMs += tookMs
      report.operations += outcome.operations
      report.kills += outcome.kills
      report.cuts += outcome.cuts
      report.transfers += moved
      print(
        `round ${round + 1}/${rounds}: ${outcome.operations} operations, ${moved} transfers, ` +
          `${Math.round((moved / tookMs) * 1000)}/s, ${outcome.kills} killed, ${outcome.cuts} cut, ` +
          'all promises hold'
      )
    }
    report.transfersPerSecond = Math.round((report.transfers / busyMs) * 1000)
    return report
  } finally {
    await db.destroy()
  }
}

async function prepare(db: Db, { partners, operations, rounds, seed }: MoneyStormOptions): Promise<MoneyScene> {
  const made: string[] = []
  for (let i = 0; i < partners; i++) {
    const plan = plans[i % plans.length] as (typeof plans)[number]
    const facts = { name: `Storm ${i}`, plan, brokerAppId: '1', brokerDialect: 'v3', trialDays: i % 40 }
    made.push((await insertPartner(db, facts)).partnerId)
  }
  const bots = await stock(db, made, { count: BOTS, seed })
  return {
    partners: made,
    bots,
    now: new Date(),
    prices: { LAUNCH: '4.90', PRO: '19.90', SCALE: '79.90' },
    feePct: '20',
    topUps: { round: 0, references: Math.ceil((operations / rounds) * 0.3) }
  }
}

interface Round extends MoneyStormOptions {
  round: number
  random: Random
  scene: MoneyScene
  acknowledged: Set<string>
  /** References some process was notified it made; each at most once. */
  made: Set<string>
}

/** One round: every process does its share; one that is killed is followed by another that does the rest. */
async function blow(db: Db, round: Round): Promise<{ operations: number; kills: number; cuts: number }> {
  const { random, processes } = round
  const total = Math.ceil(round.operations / round.rounds)
  const moments = (count: number) => Array.from({ length: count }, () => random.below(total)).sort((a, b) => a - b)
  const [killAt, cutAt] = [moments(round.kills), moments(round.cuts)]
  const done = { operations: 0, kills: 0, cuts: 0 }
  const alive: (ChildProcess | undefined)[] = []
  const failures: string[] = []
  const faults: Promise<unknown>[] = []
  let generation = 0

  function receive(line: string): void {
    done.operations += 1
    const [what, ...references] = line.split(' ')
    if (what === 'e') failures.push(line)
    for (const reference of references) {
      // Another process's line about a repeat may be read before the line of who made it: only two makers are wrong.
      if (what === 'm') {
        if (round.made.has(reference)) failures.push(`Doubled: ${reference} was acknowledged as made before.`)
        round.made.add(reference)
      }
      if (what === 'm' || what === 'r') round.acknowledged.add(reference)
    }
    if (done.operations >= (killAt[0] ?? Infinity)) {
      killAt.shift()
      if (random.pick(alive)?.kill('SIGKILL')) done.kills += 1
    }
    if (done.operations >= (cutAt[0] ?? Infinity)) {
      cutAt.shift()
      done.cuts += 1
      faults.push(cutOne(db))
    }
  }

  async function keep(index: number): Promise<void> {
    let left = Math.ceil(total / processes)
    while (left > 0 && failures.length === 0) {
      const { url, seed, concurrency, scene } = round
      const share: ActorShare = {
        url,
        seed: seed + round.round * 1_000 + ++generation,
        operations: left,
        concurrency,
        scene: { ...scene, now: scene.now.toISOString() }
      }
      const child = spawn(process.execPath, [ACTOR, JSON.stringify(share)], { stdio: ['ignore', 'pipe', 'inherit'] })
      alive[index] = child
      const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
      createInterface({ input: child.stdout }).on('line', line => {
        left -= 1
        receive(line)
      })
      const [code, signal] = await ended
      if (code !== 0 && signal !== 'SIGKILL') failures.push(`A process ended with ${code ?? signal}.`)
    }
  }

  try {
    await Promise.all(Array.from({ length: processes }, (_, i) => keep(i)))
  } finally {
    for (const child of alive) child?.kill('SIGKILL')
    await Promise.all(faults)
    await silence(db)
  }
  if (failures.length > 0) throw new Error(`Round ${round.round + 1}: ${failures[0]}`)
  return done
}

/** Ends one connection of the storm on the server's side, whatever it is doing. */
async function cutOne(db: Db): Promise<void> {
  await rows(
    db,
    `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
       where datname = current_database() and application_name = :name and state <> 'idle' order by random() limit 1) s`,
    { name: `service-${STORM_NAME}` }
  )
}

/** Waits until the server has noticed that the killed processes are gone. */
async function silence(db: Db): Promise<void> {
  const deadline = performance.now() + 60_000
  while (performance.now() < deadline) {
    const [row] = await rows<{ busy: number }>(
      db,
      `select count(*)::int as busy from pg_stat_activity where datname = current_database() and application_name = :name`,
      { name: `service-${STORM_NAME}` }
    )
    if (row?.busy === 0) return
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  throw new Error('Connections of the storm were still open after 60 s.')
}

async function countTransfers(db: Db): Promise<number> {
  const [row] = await rows<{ count: number }>(db, 'select count(*)::int as count from ledger_transfers')
  return row?.count ?? 0
}
