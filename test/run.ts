// The test runner. It starts one PostgreSQL for all test files, which read its address from TEST_PG_URL, and a few processes. Each process runs
// one file after another; a file with the line OWN_PROCESS below runs in a new one. The last line of the output counts what passed and failed.
import { chmod, glob, mkdtemp, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import pc from 'picocolors'
import { acquire, holderOf } from '../db/embedded/lock.ts'
import { removeEmbedded, startEmbedded } from '../db/embedded.ts'
import { runBeside } from './beside.ts'
import { inLanes } from './lanes.ts'
import { type FileOutcome, runFile } from './run-file.ts'
import { SharedProcesses } from './shared-files.ts'
import { dialects } from './support/dialects.ts'
import { findPlace, GOES_WITH_DATA } from './support/memory-place.ts'

const PREFIX = 'operator-test-'
const FRESH_MS = 60_000
const MIDDLE_SECONDS = 5
const ROOM_BYTES = 3 * 1024 ** 3
const TIMEOUT_SECONDS = '300'
const FULL_RUN_ONLY = '// test in the full run only'
const OWN_PROCESS = '// test in a process of its own'
// Of V8's own in each process: with more of them dozens of processes beside each other wait for one another.
const ONE_THREAD = '--v8-pool-size=1'
const TIMES = join(import.meta.dirname, 'times.json')
const USAGE = `Usage: npm test [-- [options] [NAME ...]]

Runs the test files whose path contains one of the names. Without names it runs the quick part: all files but those
with the line "${FULL_RUN_ONLY}" (kills, outages, floods, browsers, starts of processes), with one dialect of the broker.

  --all              without names, run every file
  --times            print what each file took at the end, most CPU first; a run of all writes test/times.json
  --beside COMMAND   a command that runs beside the files; that it fails is a failure
  --again            a file that fails beside others runs once more alone at the end, and counts by that run
  --timeout SECONDS  for a file without a time-out of its own (${TIMEOUT_SECONDS})
  --dir DIRECTORY    where the files are (test)
  -v, --verbose      print the output of files that pass
  -h, --help         print this

Environment:
  TEST_DATABASE_URL  a PostgreSQL (as superuser) to test against instead of starting one
  TEST_PG_BIN        another PostgreSQL's programs for the one we start, e.g. /usr/lib/postgresql/15/bin
  TEST_CONCURRENCY   files at a time (three for each core, up to six while cores are idle)
  TEST_DIALECT       v3 or next: speak only this one with the broker`

const { flags, filters } = readArguments()
// More failures than that are no accident.
const MAX_AGAIN = 8
const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    interrupted.abort(signal)
  })

// Seconds each file took when they were last written.
const lastSeconds: Record<string, number> = JSON.parse(await readFile(TIMES, 'utf8'))

const counts = { passed: 0, failed: 0, skipped: 0 }
const skips: string[] = []
const unhappy: string[] = []
const times: { name: string; tookMs: number; cpuMs: number }[] = []
let leftOut = 0
await run()

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        dir: { type: 'string', default: import.meta.dirname },
        timeout: { type: 'string', default: TIMEOUT_SECONDS },
        all: { type: 'boolean', default: false },
        times: { type: 'boolean', default: false },
        beside: { type: 'string' },
        // Distinguishes a test that fails from one that fails on a full machine, which is a defect as well, but not of the service.
        again: { type: 'boolean', default: false },
        verbose: { type: 'boolean', short: 'v', default: false },
        help: { type: 'boolean', short: 'h', default: false }
      }
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    if (!(Number(values.timeout) > 0))
      throw new Error(`--timeout has to be a number of seconds, not ${values.timeout}.`)
    return { flags: values, filters: positionals }
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

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
    const shared = new SharedProcesses()
    const options = { url: server.url, shared, verbose, again: flags.again ? again : undefined }
    await Promise.all([inParallel(files, file => runOne(file, options)), flags.beside && beside(flags.beside)])
    await closeShared(shared)
    // Each in a process of its own.
    for (const file of again)
      if (!interrupted.signal.aborted) await runOne({ ...file, shares: false }, { ...options, again: undefined })
  } finally {
    await server.close()
  }
  if (interrupted.signal.aborted) {
    console.error(`Interrupted by ${interrupted.signal.reason}.`)
    return report(130)
  }
  if (flags.times) await reportTimes()
  report(counts.failed > 0 ? 1 : 0)
}

async function beside(command: string): Promise<void> {
  const { passed, output, tookMs, cpuMs } = await runBeside(command, interrupted.signal)
  if (interrupted.signal.aborted) return
  if (!passed) {
    counts.failed++
    unhappy.push(command)
    console.log(`\n${output.trimEnd()}\n`)
  }
  console.log(`${passed ? pc.green('✔') : pc.red('✘')} ${command}  ${pc.dim(costOf(tookMs, cpuMs))}`)
}

function costOf(tookMs: number, cpuMs: number): string {
  return `${(tookMs / 1000).toFixed(1)} s, CPU ${(cpuMs / 1000).toFixed(1)} s`
}

interface RunOptions {
  url: string
  shared: SharedProcesses
  verbose: boolean
  /** A file that fails is put here instead of being counted, as long as they are few. */
  again?: TestRun[] | undefined
}

async function runOne({ path, dialect, shares }: TestRun, { url, shared, verbose, again }: RunOptions): Promise<void> {
  const env = {
    ...process.env,
    TEST_PG_URL: url,
    NODE_OPTIONS: [process.env.NODE_OPTIONS, ONE_THREAD].filter(Boolean).join(' '),
    // One process for files that say nothing of dialects and for those of the dialect they are run in.
    ...(dialect || shares ? { TEST_DIALECT: dialect ?? (process.env.TEST_DIALECT || dialects[0]) } : {}),
    ...(pc.isColorSupported ? { FORCE_COLOR: '1' } : {})
  }
  const outcome = await runFile(path, {
    env,
    timeoutMs: Number(flags.timeout) * 1000,
    shared: shares ? shared : undefined,
    signal: interrupted.signal
  })
  if (interrupted.signal.aborted) return
  times.push({ name: keyOf(path, dialect), tookMs: outcome.tookMs, cpuMs: outcome.cpuMs })
  if (!again || outcome.failed === 0 || again.length === MAX_AGAIN)
    return printOutcome(nameOf({ path, dialect }), outcome, verbose)
  again.push({ path, dialect })
  const name = nameOf({ path, dialect })
  const why = outcome.complaints.map(complaint => `${name} ${complaint}.\n`).join('')
  console.log(
    `\n${outcome.output.trimEnd()}\n\n${why}${pc.yellow('!')} ${name} failed beside others; it runs again alone.`
  )
}

/** Ends the processes that files shared; one that does not end, or not well, is a failure. */
async function closeShared(shared: SharedProcesses): Promise<void> {
  for (const complaint of await shared.close()) {
    if (interrupted.signal.aborted) return
    counts.failed++
    unhappy.push('a process that files share')
    console.log(`${pc.red('✘')} A process that files share ${complaint}`)
  }
}

/** Prints the times of this run's files, most CPU first, and keeps those of a whole run for the order of the next. */
async function reportTimes(): Promise<void> {
  const seconds = (ms: number) => (ms / 1000).toFixed(1)
  const row = (cpu: string, took: string, name: string) => `${cpu.padStart(8)}${took.padStart(8)}  ${name}`
  console.log(`\n${row('CPU s', 'wall s', 'file')}`)
  for (const { name, tookMs, cpuMs } of times.toSorted((a, b) => b.cpuMs - a.cpuMs))
    console.log(row(seconds(cpuMs), seconds(tookMs), name))
  const sum = (of: 'tookMs' | 'cpuMs') => seconds(times.reduce((total, time) => total + time[of], 0))
  console.log(row(sum('cpuMs'), sum('tookMs'), 'all files'))
  if (!flags.all || filters.length > 0 || flags.dir !== import.meta.dirname || process.env.TEST_DIALECT) return
  const sorted = times.toSorted((a, b) => a.name.localeCompare(b.name, 'en'))
  const kept = Object.fromEntries(sorted.map(({ name, tookMs }) => [name, Math.round(tookMs / 100) / 10]))
  await writeFile(TIMES, `${JSON.stringify(kept, null, 2)}\n`)
}

interface TestRun {
  path: string
  /** The broker's dialect of this run, where that makes a difference. */
  dialect?: string | undefined
  /** Whether it runs in a process with other files. */
  shares?: boolean
}

/** The files to run, those that use the broker once for each dialect; counts what the quick part leaves out. */
async function select(): Promise<TestRun[]> {
  const quick = !flags.all && filters.length === 0
  const files: string[] = []
  for await (const name of glob('**/*.test.ts', { cwd: flags.dir }))
    if (filters.length === 0 || filters.some(part => name.includes(part))) files.push(resolve(flags.dir, name))
  const wanted = process.env.TEST_DIALECT ? [process.env.TEST_DIALECT] : dialects
  const runs = await Promise.all(
    files.sort().map(async (path): Promise<TestRun[]> => {
      const lines = (await readFile(path, 'utf8')).split('\n')
      if (quick && lines.includes(FULL_RUN_ONLY)) {
        leftOut++
        return []
      }
      const shares = !lines.includes(OWN_PROCESS)
      const speaks = lines.includes('// test once for each dialect')
      if (!speaks) return [{ path, shares }]
      if (quick) leftOut += wanted.length - 1
      return wanted.slice(0, quick ? 1 : wanted.length).map(dialect => ({ path, dialect, shares }))
    })
  )
  return runs.flat()
}

function nameOf({ path, dialect }: TestRun): string {
  return `${relative(process.cwd(), path)}${dialect ? ` (${dialect})` : ''}`
}

/** What it took last; a file that is not known yet is taken for one of middle length. */
function secondsOf({ path, dialect }: TestRun): number {
  return lastSeconds[keyOf(path, dialect)] ?? MIDDLE_SECONDS
}

function keyOf(path: string, dialect?: string): string {
  return `${relative(flags.dir, path)}${dialect ? ` (${dialect})` : ''}`
}

async function inParallel(files: TestRun[], run: (file: TestRun) => Promise<void>): Promise<void> {
  const cores = availableParallelism()
  const given = Number(process.env.TEST_CONCURRENCY)
  const width = given || Math.min(12, 3 * cores)
  // What takes longest begins first, so that no long file is left for the end.
  const longest = files.toSorted((a, b) => secondsOf(b) - secondsOf(a))
  await inLanes(longest, { width, most: given || Math.min(24, 6 * cores), run, signal: interrupted.signal })
}

function printOutcome(name: string, outcome: FileOutcome, verbose: boolean): void {
  const { passed, failed, skipped, complaints, output, tookMs, cpuMs } = outcome
  counts.passed += passed
  counts.failed += failed
  counts.skipped += skipped
  skips.push(...outcome.skips.map(reason => `${name}: ${reason}`))
  const words = [`${passed} passed`, failed > 0 && `${failed} failed`, skipped > 0 && `${skipped} skipped`]
  const mark = failed > 0 ? pc.red('✘') : pc.green('✔')
  if (failed > 0) unhappy.push(name)
  if ((failed > 0 || verbose) && output) console.log(`\n${output.trimEnd()}\n`)
  console.log(`${mark} ${name}  ${words.filter(Boolean).join(', ')}  ${pc.dim(costOf(tookMs, cpuMs))}`)
  for (const complaint of complaints) console.log(`  ${pc.red(`${name} ${complaint}.`)}`)
}

function report(exitCode: number): void {
  if (skips.length > 0) console.log(`\nSkipped:\n${skips.map(line => `  ${line}`).join('\n')}`)
  if (unhappy.length > 0) console.log(`\nFailed: ${unhappy.join(' ')}`)
  if (leftOut > 0)
    console.log(
      `\n${leftOut} runs of files were left out (--all): kills, outages, floods, browsers, starts of processes, the second dialect.`
    )
  const failed = Math.max(counts.failed, exitCode === 0 ? 0 : 1)
  console.log(`\n${counts.passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`)
  process.exitCode = exitCode
}

/** The server named in the environment, or one of our own in a directory that goes with it. */
async function openServer(): Promise<{ url: string; close(): Promise<void> }> {
  const given = process.env.TEST_DATABASE_URL
  if (given) return { url: given, close: async () => {} }
  const place = await findPlace(ROOM_BYTES)
  await dropStale(place)
  const dataDir = await mkdtemp(join(place, PREFIX))
  await chmod(dataDir, 0o711) // Root's server runs as another user.
  const unlock = await acquire(join(dataDir, 'run.lock'))
  // The data die with the run, so nothing has to survive a power cut, and checkpoints are needless work.
  const settings = {
    fsync: 'off',
    full_page_writes: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
    // A file with a worker of its own has pools of some forty connections, and up to two dozen files run beside each other.
    max_connections: '1000',
    checkpoint_timeout: '1h',
    log_min_messages: 'fatal',
    ...GOES_WITH_DATA
  }
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
async function dropStale(place: string): Promise<void> {
  for (const name of await readdir(place)) {
    if (!name.startsWith(PREFIX)) continue
    const dir = join(place, name)
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
