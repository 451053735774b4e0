// Many simulations: seed after seed, each in a process of its own, until enough lives were lived or a seed fails.
//
//   make simulate                                     20 000 lives
//   node test/simulate/run.ts --lives 1000000         that many
//   node test/simulate/run.ts --mode broker --dialect next   of one kind
//   node test/simulate/run.ts --minutes 10            as many as the time allows
//   node test/simulate/run.ts --seed 7 --batch 5000   one seed again; --twice shows that it repeats exactly
import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { summary } from '../support/auditor.ts'
import { type DialectName, dialects } from '../support/dialects.ts'
import { dialectOf, type FaultRates, livesOf, modeOf, modes, type SimulationMode } from './chance.ts'
import type { Edit } from './guard.ts'
import { withServers } from './server.ts'
import type { LifeVerdict } from './verdict.ts'

const ONE_MS = 20 * 60_000
const MAX_OUTPUT = 64 * 2 ** 20

export interface LivesRequest {
  admin: string
  seed: number
  lives: number
  mode: SimulationMode
  dialect: DialectName
  /** Fates of purchases that are to come up more often, or less. */
  buys?: Partial<FaultRates['buys']>
  /** Statements that change the simulation's database before it begins. */
  sql?: string[]
  /** Ids whose record the verdict is to hold. */
  traced?: string[]
}

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))

/** Runs one seed in a process of its own, its source edited if need be. Rejects when it ends without a verdict. */
export async function runSeed(request: LivesRequest, { edits = [] }: { edits?: Edit[] } = {}): Promise<LifeVerdict> {
  const stdout = await runEdited([here('one.ts'), JSON.stringify(request)], { edits })
  return JSON.parse(stdout) as LifeVerdict
}

/** Runs a file of ours with its arguments, its source edited if need be; returns what it wrote. */
export async function runEdited(
  command: string[],
  { edits = [], env = {} }: { edits?: Edit[]; env?: Record<string, string> }
): Promise<string> {
  const preload = edits.length > 0 ? ['--import', here('mutate.ts')] : []
  const { stdout } = await promisify(execFile)(process.execPath, ['--max-semi-space-size=32', ...preload, ...command], {
    timeout: ONE_MS,
    maxBuffer: MAX_OUTPUT,
    env: { ...process.env, ...env, SIMULATION_EDITS: JSON.stringify(edits) }
  })
  return stdout
}

/** A verdict in a line, and what is wrong in the next ones. */
export function describe({
  seed,
  mode,
  dialect,
  ...verdict
}: LifeVerdict & Pick<LivesRequest, 'mode' | 'dialect'>): string {
  const { lives, ms, hash, report, violations, errors, excused, events, statements, virtualMs, good } = verdict
  const speed = Math.round((lives / ms) * 1000)
  const frozen = excused.contracts > 0 ? `, ${excused.contracts} sent by a frozen process` : ''
  const lines = [
    `seed ${seed} (${mode}, ${dialect}) ${hash}: ${lives} lives, ${speed}/s, ${statements} statements, ${events} events, ${Math.round(virtualMs / 1000)} virtual s, ${summary(report)}${frozen}`
  ]
  for (const { kind, what, orderId, contractId } of report.findings.slice(0, 10))
    lines.push(`  ${kind}: order ${orderId}, contract ${contractId} ${what}`)
  for (const violation of violations.slice(0, 10)) lines.push(`  violation: ${violation}`)
  for (const each of errors) lines.push(`  error: ${each}`)
  if (!good && report.findings.length + violations.length + errors.length === 0)
    lines.push('  nothing is wrong, but too little was bought to show it')
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
      dialect: { type: 'string' },
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
  const given = dialects.find(each => each === values.dialect)
  if (values.dialect !== undefined && !given) throw new Error(`--dialect is one of ${dialects.join(', ')}`)
  const requestOf = (admin: string, seed: number, lives: number): LivesRequest => {
    const mode = (values.mode as SimulationMode | undefined) ?? modeOf(seed)
    const dialect = given ?? dialectOf(seed, mode)
    return { admin, seed, lives: livesOf(mode, dialect, lives), mode, dialect }
  }
  if (values.seed !== undefined) {
    let code = 1
    await withServers(1, async admin => {
      code = await runOne(requestOf(admin, number('seed'), number('batch')), values.twice)
    })
    return code
  }
  const until = values.minutes === undefined ? Infinity : performance.now() + number('minutes') * 60_000
  const lives = values.minutes === undefined ? number('lives') : Infinity
  const plan = { first: number('first'), batch: number('batch'), jobs: number('jobs'), lives, until }
  return runMany(plan, requestOf, values['keep-going'])
}

/** Lives a seed that failed again, for the record of the first order, contract or client that has to do with it. */
async function printTrace(request: LivesRequest, { report, violations }: LifeVerdict): Promise<void> {
  const [{ orderId, contractId } = {}] = report.findings
  const [first = ''] = violations
  const traced = [orderId, contractId, ...(orderId || contractId ? [] : first.split(' ', 1))].flatMap(id => id || [])
  if (traced.length === 0) return
  const { trace } = await runSeed({ ...request, traced })
  console.log(`seed ${request.seed}, what happened to ${traced.join(' and ')}:`)
  for (const line of trace) console.log(`  ${line}`)
}

async function runOne(request: LivesRequest, twice: boolean): Promise<number> {
  const verdict = await runSeed(request)
  console.log(describe({ ...request, ...verdict }))
  printCounts([verdict])
  if (!verdict.good) await printTrace(request, verdict)
  if (!twice) return verdict.good ? 0 : 1
  const again = await runSeed(request)
  const same = again.hash === verdict.hash
  console.log(`seed ${request.seed} again: ${again.hash}, ${same ? 'the same to the last event' : 'NOT THE SAME'}`)
  return verdict.good && same ? 0 : 1
}

async function runMany(
  plan: { first: number; batch: number; jobs: number; lives: number; until: number },
  requestOf: (admin: string, seed: number, lives: number) => LivesRequest,
  keepGoing: boolean
): Promise<number> {
  const began = performance.now()
  const verdicts: LifeVerdict[] = []
  let next = plan.first
  let begun = 0
  let bad = 0
  async function job(admin: string): Promise<void> {
    while (begun < plan.lives && performance.now() < plan.until && (keepGoing || bad === 0)) {
      const seed = next++
      const request = requestOf(admin, seed, Math.min(plan.batch, plan.lives - begun))
      begun += request.lives
      const verdict = await runSeed(request)
      verdicts.push(verdict)
      console.log(describe({ ...request, ...verdict }))
      if (!verdict.good && ++bad === 1) await printTrace(request, verdict)
    }
  }
  await withServers(plan.jobs, job)
  printCounts(verdicts)
  const seconds = (performance.now() - began) / 1000
  const sum = (of: (verdict: LifeVerdict) => number) => verdicts.reduce((total, verdict) => total + of(verdict), 0)
  const lived = sum(({ lives }) => lives)
  console.log(
    `${lived} lives of ${verdicts.length} seeds in ${seconds.toFixed(0)} s (${(lived / seconds).toFixed(0)}/s): ` +
      `${sum(v => v.report.doubled)} doubled, ${sum(v => v.report.lost)} lost, ${sum(v => v.report.late)} late, ` +
      `${sum(v => v.report.money)} money, ${sum(v => v.report.stuck)} without end, ${sum(v => v.violations.length)} violations; ` +
      `${sum(v => v.excused.contracts)} sent by frozen processes, of which ${sum(v => v.excused.unknown)} only the audit knows`
  )
  if (bad > 0) console.log(`${bad} seeds FAILED`)
  return bad > 0 ? 1 : 0
}

function printCounts(verdicts: LifeVerdict[]): void {
  const totals = new Map<string, number>()
  for (const { counts } of verdicts)
    for (const [kind, count] of Object.entries(counts)) totals.set(kind, (totals.get(kind) ?? 0) + count)
  const sorted = [...totals].sort(([a], [b]) => a.localeCompare(b))
  for (const [kind, count] of sorted) console.log(`${String(count).padStart(9)}  ${kind}`)
}

if (import.meta.main) process.exitCode = await main()
