// Many simulations: seed after seed, each in a process of its own, until enough lives were lived or a seed fails.
//
//   make simulate                                     20 000 lives
//   node test/simulate/run.ts --lives 1000000         that many
//   node test/simulate/run.ts --minutes 10            as many as the time allows
//   node test/simulate/run.ts --seed 7 --batch 5000   one seed again; --twice shows that it repeats exactly
import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { summary } from '../auditor.ts'
import { type Mode, modeOf, modes } from './chance.ts'
import { type Server, startServer } from './server.ts'
import type { Verdict } from './verdict.ts'

const ONE_MS = 20 * 60_000
const MAX_OUTPUT = 64 * 2 ** 20

export interface Asked {
  admin: string
  seed: number
  lives: number
  mode: Mode
}

/** Runs one seed in a process of its own, in the tree at `root`. Rejects when it ends without a verdict. */
export async function runSeed(asked: Asked, root = new URL('../../', import.meta.url)): Promise<Verdict> {
  const file = fileURLToPath(new URL('test/simulate/one.ts', root))
  const { stdout } = await promisify(execFile)(process.execPath, [file, JSON.stringify(asked)], {
    timeout: ONE_MS,
    maxBuffer: MAX_OUTPUT
  })
  return JSON.parse(stdout) as Verdict
}

/** A verdict in a line, and what is wrong in the next ones. */
export function describe({ seed, mode, ...verdict }: Verdict & { mode: Mode }): string {
  const { lives, ms, hash, report, lies, trouble, excused } = verdict
  const speed = Math.round((lives / ms) * 1000)
  const frozen = excused.contracts > 0 ? `, ${excused.contracts} sent by a frozen process` : ''
  const lines = [`seed ${seed} (${mode}) ${hash}: ${lives} lives, ${speed}/s, ${summary(report)}${frozen}`]
  for (const { kind, what, orderId, contractId } of report.findings.slice(0, 10))
    lines.push(`  ${kind}: order ${orderId}, contract ${contractId} ${what}`)
  for (const lie of lies.slice(0, 10)) lines.push(`  lie: ${lie}`)
  for (const each of trouble) lines.push(`  error: ${each}`)
  return lines.join('\n')
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      lives: { type: 'string', default: '20000' },
      minutes: { type: 'string' },
      seed: { type: 'string' },
      first: { type: 'string', default: '1' },
      batch: { type: 'string', default: '10000' },
      mode: { type: 'string' },
      jobs: { type: 'string', default: String(Math.min(2, availableParallelism())) },
      twice: { type: 'boolean', default: false },
      'keep-going': { type: 'boolean', default: false }
    }
  })
  const number = (name: 'lives' | 'minutes' | 'seed' | 'first' | 'batch' | 'jobs') => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} takes a whole number, not '${values[name]}'`)
    return value
  }
  if (values.mode !== undefined && !(values.mode in modes))
    throw new Error(`--mode is one of ${Object.keys(modes).join(', ')}`)
  const server = await startServer()
  try {
    const modeFor = (seed: number) => (values.mode as Mode | undefined) ?? modeOf(seed)
    if (values.seed !== undefined) {
      const asked = { admin: server.url, seed: number('seed'), lives: number('batch'), mode: modeFor(number('seed')) }
      return await runOne(asked, values.twice)
    }
    const until = values.minutes === undefined ? Infinity : performance.now() + number('minutes') * 60_000
    const lives = values.minutes === undefined ? number('lives') : Infinity
    const plan = { first: number('first'), batch: number('batch'), jobs: number('jobs'), lives, until }
    return await runMany(server, plan, modeFor, values['keep-going'])
  } finally {
    await server.stop()
  }
}

async function runOne(asked: Asked, twice: boolean): Promise<number> {
  const verdict = await runSeed(asked)
  console.log(describe({ ...verdict, mode: asked.mode }))
  printCounts([verdict])
  if (!twice) return verdict.good ? 0 : 1
  const again = await runSeed(asked)
  const same = again.hash === verdict.hash
  console.log(`seed ${asked.seed} again: ${again.hash}, ${same ? 'the same to the last event' : 'NOT THE SAME'}`)
  return verdict.good && same ? 0 : 1
}

async function runMany(
  server: Server,
  plan: { first: number; batch: number; jobs: number; lives: number; until: number },
  modeFor: (seed: number) => Mode,
  keepGoing: boolean
): Promise<number> {
  const began = performance.now()
  const verdicts: Verdict[] = []
  let next = plan.first
  let begun = 0
  let bad = 0
  async function job(): Promise<void> {
    while (begun < plan.lives && performance.now() < plan.until && (keepGoing || bad === 0)) {
      const seed = next++
      const lives = Math.min(plan.batch, plan.lives - begun)
      begun += lives
      const mode = modeFor(seed)
      const verdict = await runSeed({ admin: server.url, seed, lives, mode })
      verdicts.push(verdict)
      if (!verdict.good) bad += 1
      console.log(describe({ ...verdict, mode }))
    }
  }
  await Promise.all(Array.from({ length: plan.jobs }, job))
  printCounts(verdicts)
  const seconds = (performance.now() - began) / 1000
  const sum = (of: (verdict: Verdict) => number) => verdicts.reduce((total, verdict) => total + of(verdict), 0)
  const lived = sum(({ lives }) => lives)
  console.log(
    `${lived} lives of ${verdicts.length} seeds in ${seconds.toFixed(0)} s (${(lived / seconds).toFixed(0)}/s): ` +
      `${sum(v => v.report.doubled)} doubled, ${sum(v => v.report.lost)} lost, ${sum(v => v.report.late)} late, ` +
      `${sum(v => v.report.money)} money, ${sum(v => v.report.stuck)} without end, ${sum(v => v.lies.length)} lies; ` +
      `${sum(v => v.excused.contracts)} sent by frozen processes, of which ${sum(v => v.excused.unknown)} only the audit knows`
  )
  if (bad > 0) console.log(`${bad} seeds FAILED`)
  return bad > 0 ? 1 : 0
}

function printCounts(verdicts: Verdict[]): void {
  const totals = new Map<string, number>()
  for (const { counts } of verdicts)
    for (const [kind, count] of Object.entries(counts)) totals.set(kind, (totals.get(kind) ?? 0) + count)
  const sorted = [...totals].sort(([a], [b]) => a.localeCompare(b))
  for (const [kind, count] of sorted) console.log(`${String(count).padStart(9)}  ${kind}`)
}

if (import.meta.main) process.exitCode = await main()
