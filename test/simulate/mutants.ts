// Mutants: each guard of an order's life is taken out in turn, and the test that it names, or simulations, must find that it is gone.
// One that none finds is a failure: of the test or the simulation, or of a guard that guards nothing.
//
//   make mutants                                   every guard
//   node test/simulate/mutants.ts --only 'permit'  those whose name has this
//   node test/simulate/mutants.ts --skip 10        all but the first ten
import { hash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Edit, Guard, TestedGuard } from './guard.ts'
import { guards } from './guards.ts'
import { type LivesRequest, runEdited, runSeed } from './run.ts'
import { withServers } from './server.ts'
import type { LifeVerdict } from './verdict.ts'

interface Caught {
  guard: Guard
  found: boolean
  /** The first seed that found it gone, where one did. */
  seed: number | undefined
  /** Lives lived until then. */
  lives: number
  /** What was found. */
  what: string
}

// Some guards show in one simulation of six only.
const MAX_SEEDS = 24

/**
 * Lives on without a guard until a simulation finds it gone, at most MAX_SEEDS of them. What is found counts when the
 * same seed finds nothing with the guard in its place.
 */
export async function hunt(guard: Guard, { admin, first }: { admin: string; first: number }): Promise<Caught> {
  if ('test' in guard) return huntByTest(guard, admin)
  const { dialect = 'v3', mode, buys = {}, edits = [], sql = [] } = guard
  let lives = 0
  for (let seed = first; seed < first + MAX_SEEDS; seed++) {
    const request = { admin, seed, lives: guard.lives, mode, dialect, buys }
    const verdict = await runSeed({ ...request, sql }, { edits })
    lives += verdict.lives
    const what = complaintOf(verdict)
    if (!what) continue
    const anyway = complaintOf(await unharmed(request))
    if (anyway) throw new Error(`seed ${seed} (${mode}, ${dialect}) complains with every guard in its place: ${anyway}`)
    return { guard, found: true, seed, lives, what }
  }
  return { guard, found: false, seed: undefined, lives, what: 'NOT CAUGHT' }
}

/** A test that passes, and fails without the guard. */
async function huntByTest(guard: TestedGuard, admin: string): Promise<Caught> {
  const { test, edits = [] } = guard
  const anyway = await unharmedTest(test, admin)
  if (anyway) throw new Error(`${test} fails with every guard in its place: ${anyway}`)
  const what = await complaintOfTest(test, edits, admin)
  return { guard, found: what !== undefined, seed: undefined, lives: 0, what: what ?? 'NOT CAUGHT' }
}

const testControls = new Map<string, Promise<string | undefined>>()

function unharmedTest(test: string, admin: string): Promise<string | undefined> {
  const run = () => complaintOfTest(test, [], admin)
  // A full machine may make it fail once.
  const complaint = testControls.get(test) ?? run().then(found => found && run())
  testControls.set(test, complaint)
  return complaint
}

async function complaintOfTest(test: string, edits: Edit[], admin: string): Promise<string | undefined> {
  const file = fileURLToPath(new URL(`../../${test}`, import.meta.url))
  try {
    // A guard in a migration is gone from a database that was migrated without it alone.
    const migrated = edits.find(edit => edit.file.startsWith('db/migrations/'))
    const template: Record<string, string> = migrated
      ? { TEST_TEMPLATE: `operator_template_${hash('sha256', migrated.from).slice(0, 16)}` }
      : {}
    await runEdited([file], { edits, env: { TEST_PG_URL: admin, ...template } })
    return undefined
  } catch (error) {
    const { stdout = '' } = error as { stdout?: string }
    // Its process may end by what the guard kept off, before it names the tests that have failed.
    const failed = /FAIL\s+(.*)/.exec(stdout) ?? /^\s*(.*✘.*)/m.exec(stdout)
    if (!failed) throw error
    return failed[1] as string
  }
}

const controls = new Map<string, Promise<LifeVerdict>>()

function unharmed(request: LivesRequest): Promise<LifeVerdict> {
  const key = JSON.stringify({ ...request, admin: '' })
  const verdict = controls.get(key) ?? runSeed(request)
  controls.set(key, verdict)
  return verdict
}

/** What went wrong; that little was bought may have been the seed's bad luck. */
function complaintOf({ report, violations, errors }: LifeVerdict): string | undefined {
  const [finding] = report.findings
  return finding ? `${finding.kind}: ${finding.what}` : (violations[0] ?? errors[0])
}

export const lineOf = ({ guard, seed, lives, what }: Caught): string =>
  `${guard.name.padEnd(76)} ${('test' in guard ? 'a test' : guard.mode).padEnd(9)} ${String(seed ?? '-').padStart(4)} ${String(lives).padStart(6)}  ${what.slice(0, 110)}`

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      skip: { type: 'string', default: '0' },
      first: { type: 'string', default: '1' }
    }
  })
  const left = guards.slice(Number(values.skip)).filter(({ name }) => name.includes(values.only))
  const all = left.length
  if (all === 0) throw new Error(`no guard is called '${values.only}'`)
  let missed = 0
  console.log(`${'guard taken out'.padEnd(76)} mode      seed  lives  found`)
  await withServers(Math.min(2, availableParallelism()), async admin => {
    for (let guard = left.shift(); guard; guard = left.shift()) {
      const named = guard
      const found = await hunt(guard, { admin, first: Number(values.first) }).catch(
        (error: Error): Caught => ({ guard: named, found: false, seed: undefined, lives: 0, what: error.message })
      )
      if (!found.found) missed += 1
      console.log(lineOf(found))
    }
  })
  console.log(`${all - missed} of ${all} mutants caught`)
  return missed > 0 ? 1 : 0
}

if (import.meta.main) process.exitCode = await main()
