// `npm test [-- part of a file's name ...]`: one PostgreSQL for the whole run, every test/**/*.test.ts
// as its own process beside a few others, and one line at the end that says how it went.
//   TEST_DATABASE_URL  a PostgreSQL (as superuser) to test against instead of starting one
//   TEST_PG_BIN        another PostgreSQL's programs for the one we start, e.g. /usr/lib/postgresql/15/bin
//   TEST_CONCURRENCY   files at a time
//   TEST_DIALECT       v3 or next: speak only this one with the broker; else both
// A test file finds its server in TEST_PG_URL.
import { chmod, glob, mkdtemp, readdir, readFile, stat } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import pc from 'picocolors'
import { acquire, holderOf } from '../db/embedded/lock.ts'
import { removeEmbedded, startEmbedded } from '../db/embedded.ts'
import { type Outcome, runFile } from './run-file.ts'
import { dialects } from './support/dialects.ts'

const PREFIX = 'operator-test-'
const FRESH_MS = 60_000
const { values: flags, positionals: filters } = parseArgs({
  allowPositionals: true,
  options: {
    dir: { type: 'string', default: import.meta.dirname },
    timeout: { type: 'string', default: '300' },
    verbose: { type: 'boolean', short: 'v', default: false },
    // A file that fails beside others runs once more alone at the end, and counts by that run; both are printed. It tells
    // a test that fails from one that a full machine made fail, which is a defect as well, but not of the service.
    again: { type: 'boolean', default: false }
  }
})
// More failures than that are no accident.
const MAX_AGAIN = 8

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    interrupted.abort(signal)
  })

// What takes longest begins first, so that no long file is left for the end; measured, longest first.
const LONGEST = [
  'simulate',
  'outages',
  'ending',
  'chaos',
  'ticks-processes',
  'doubt',
  'quotas',
  'operator-run',
  'rotation',
  'cli',
  'copy-storm',
  'cli-commands',
  'outage-cost',
  'stalled',
  'stream',
  'cli-bad-day',
  'operator-settle',
  'cli-finding',
  'billing-killed',
  'startup',
  'copy-limits',
  'job-data',
  'copy-killed',
  'wrong-clocks',
  'money-cli',
  'test-page',
  'switch',
  'flow',
  'ops',
  'currencies',
  'console',
  'bounds',
  'amplification',
  'order-by-id',
  'fair-requests',
  'account-proof',
  'embedded',
  'run',
  'stop',
  'durability',
  'fuzz'
]

const counts = { passed: 0, failed: 0, skipped: 0 }
const skips: string[] = []
const unhappy: string[] = []
await run()

async function run(): Promise<void> {
  const files = await select()
  if (files.length === 0) {
    console.error(
      filters.length > 0 ? `No test file matches ${filters.join(' or ')}.` : `No test files in ${flags.dir}.`
    )
    return report(1)
  }
  const server = await openServer().catch((error: unknown) => {
    console.error(`Cannot start PostgreSQL for the tests: ${error instanceof Error ? error.message : String(error)}`)
  })
  if (!server) return report(1)
  try {
    const verbose = flags.verbose || files.length === 1
    const again: TestRun[] = []
    const runOne = async ({ path, dialect }: TestRun): Promise<Outcome> => {
      const env = {
        ...process.env,
        TEST_PG_URL: server.url,
        ...(dialect ? { TEST_DIALECT: dialect } : {}),
        ...(pc.isColorSupported ? { FORCE_COLOR: '1' } : {})
      }
      const timeoutMs = Number(flags.timeout) * 1000
      return runFile(path, { env, timeoutMs, signal: interrupted.signal })
    }
    await inParallel(files, async file => {
      const outcome = await runOne(file)
      if (interrupted.signal.aborted) return
      if (!flags.again || outcome.failed === 0 || again.length === MAX_AGAIN)
        return tell(nameOf(file), outcome, verbose)
      again.push(file)
      console.log(
        `\n${outcome.output.trimEnd()}\n\n${pc.yellow('!')} ${nameOf(file)} failed beside others; it runs again alone.`
      )
    })
    for (const file of again) {
      if (interrupted.signal.aborted) break
      tell(`${nameOf(file)}, alone`, await runOne(file), verbose)
    }
  } finally {
    await server.close()
  }
  if (interrupted.signal.aborted) {
    console.error(`Interrupted by ${interrupted.signal.reason}.`)
    return report(130)
  }
  report(counts.failed > 0 ? 1 : 0)
}

interface TestRun {
  path: string
  /** The broker's dialect this run speaks, where that makes a difference. */
  dialect?: string
}

/** The files to run, those that speak with the broker once for each dialect. */
async function select(): Promise<TestRun[]> {
  const files: string[] = []
  for await (const name of glob('**/*.test.ts', { cwd: flags.dir }))
    if (filters.length === 0 || filters.some(part => name.includes(part))) files.push(resolve(flags.dir, name))
  const wanted = process.env.TEST_DIALECT ? [process.env.TEST_DIALECT] : dialects
  const runs = await Promise.all(
    files.sort().map(async (path): Promise<TestRun[]> => {
      const speaks = /^\/\/ test once for each dialect$/m.test(await readFile(path, 'utf8'))
      return speaks ? wanted.map(dialect => ({ path, dialect })) : [{ path }]
    })
  )
  return runs.flat()
}

function nameOf({ path, dialect }: TestRun): string {
  return `${relative(process.cwd(), path)}${dialect ? ` (${dialect})` : ''}`
}

function orderOf({ path }: TestRun): number {
  const place = LONGEST.indexOf(basename(path, '.test.ts'))
  return place < 0 ? LONGEST.length : place
}

async function inParallel(files: TestRun[], work: (file: TestRun) => Promise<void>): Promise<void> {
  // Tests wait for events a good part of the time: two files for each core keep the cores busy.
  const width = Number(process.env.TEST_CONCURRENCY) || Math.min(8, 2 * availableParallelism())
  const waiting = [...files].sort((a, b) => orderOf(a) - orderOf(b))
  const lane = async () => {
    for (let file = waiting.shift(); file && !interrupted.signal.aborted; file = waiting.shift()) await work(file)
  }
  await Promise.all(Array.from({ length: width }, lane))
}

function tell(name: string, outcome: Outcome, verbose: boolean): void {
  const { passed, failed, skipped, complaints, output, tookMs } = outcome
  counts.passed += passed
  counts.failed += failed
  counts.skipped += skipped
  skips.push(...outcome.skips.map(reason => `${name}: ${reason}`))
  const words = [`${passed} passed`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`]
  const mark = failed > 0 ? pc.red('✘') : pc.green('✔')
  if (failed > 0) unhappy.push(name)
  if ((failed > 0 || verbose) && output) console.log(`\n${output.trimEnd()}\n`)
  console.log(`${mark} ${name}  ${words.filter(Boolean).join(', ')}  ${pc.dim(`${(tookMs / 1000).toFixed(1)} s`)}`)
  for (const complaint of complaints) console.log(`  ${pc.red(`${name} ${complaint}.`)}`)
}

function report(exitCode: number): void {
  if (skips.length > 0) console.log(`\nSkipped:\n${skips.map(line => `  ${line}`).join('\n')}`)
  if (unhappy.length > 0) console.log(`\nFailed: ${unhappy.join(' ')}`)
  const failed = Math.max(counts.failed, exitCode === 0 ? 0 : 1)
  console.log(`\n${counts.passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`)
  process.exitCode = exitCode
}

/** The server named in the environment, or one of our own in a directory that goes with it. */
async function openServer(): Promise<{ url: string; close(): Promise<void> }> {
  const given = process.env.TEST_DATABASE_URL
  if (given) return { url: given, close: async () => {} }
  await dropStale()
  const dataDir = await mkdtemp(join(tmpdir(), PREFIX))
  await chmod(dataDir, 0o711) // Root's server runs as another user.
  const unlock = await acquire(join(dataDir, 'run.lock'))
  // The data die with the run, so nothing has to survive a power cut.
  const settings = { fsync: 'off', full_page_writes: 'off', log_min_messages: 'fatal' }
  const embedded = await startEmbedded({ dataDir, settings, binDir: process.env.TEST_PG_BIN })
  return {
    url: embedded.url,
    async close() {
      await embedded.stop()
      await unlock?.()
      await removeEmbedded(dataDir)
    }
  }
}

/** Deletes the directories of runs that were killed, with a server that may still run in them. */
async function dropStale(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue
    const dir = join(tmpdir(), name)
    try {
      // One just made may not be locked yet.
      if (Date.now() - (await stat(dir)).mtimeMs < FRESH_MS || (await holderOf(join(dir, 'run.lock')))) continue
      await removeEmbedded(dir)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'EACCES' && code !== 'EPERM' && code !== 'ENOENT' && code !== 'ENOTDIR') throw error // Another user's, gone, or no directory of ours.
    }
  }
}
