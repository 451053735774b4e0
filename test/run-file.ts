// Runs one test file, as a process of its own or in one that it shares, and judges the outcome. uvu alone would let several
// kinds of broken file pass: one that never calls run(), one with only(), a setup hook that throws. So the source is
// looked at first, and afterwards the summary has to add up.
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import {
  type Ended,
  killGroup,
  LINGER_MS,
  nodeArgs,
  OUTPUT_LIMIT,
  PRINT_MS,
  takeChildrenCpuMs
} from './file-process.ts'
import type { SharedProcesses } from './shared-files.ts'
import { stretched } from './support/busy.ts'

const PIPE_LINGER_MS = 2_000

export interface FileOutcome {
  passed: number
  failed: number
  skipped: number
  /** Why tests were left out, as the file printed in lines `SKIPPED: reason`. */
  skips: string[]
  /** What is wrong with the file as a whole, beyond single failed tests. */
  complaints: string[]
  output: string
  tookMs: number
  /** CPU time of the file's processes that were waited for; PostgreSQL's and killed grandchildren's are not in it. 0 where unknown. */
  cpuMs: number
}

export interface FileOptions {
  env: NodeJS.ProcessEnv
  /** For the whole file, unless it sets its own with a line `// test time-out: 300 s`. */
  timeoutMs: number
  signal: AbortSignal
  /** The processes to run it in one of; one of its own without. */
  shared?: SharedProcesses | undefined
}

/** Runs a test file; never rejects for what the file does. Ends every process of the file's group. */
export async function runFile(path: string, { timeoutMs, shared, ...options }: FileOptions): Promise<FileOutcome> {
  const startedAt = Date.now()
  const source = await readFile(path, 'utf8')
  const complaints = inspect(source)
  if (complaints.length > 0)
    return {
      passed: 0,
      failed: 1,
      skipped: 0,
      skips: [],
      complaints,
      output: '',
      tookMs: Date.now() - startedAt,
      cpuMs: 0
    }

  const ownTimeout = /^\/\/ test time-out: (\d+) s$/m.exec(source)?.[1]
  const limited = { ...options, timeoutMs: ownTimeout ? Number(ownTimeout) * 1000 : timeoutMs }
  const ended = await (shared ? shared.execute(path, limited) : execute(path, limited))
  return { ...judge(ended), output: ended.output, tookMs: Date.now() - startedAt, cpuMs: ended.cpuMs }
}

/** Faults visible in the source: a suite that is never run, or one that leaves the others out. */
export function inspect(source: string): string[] {
  const complaints: string[] = []
  if (/\.only\(/.test(source)) complaints.push('calls .only( and so leaves other tests out')
  if (!/\.run\(\)/.test(source)) complaints.push('never calls .run(), so none of its tests would run')
  // One by one, or in a loop over a list: for (const tests of [placing, closing]) tests.run()
  const looped = [...source.matchAll(/\bfor \(const (\w+) of \[([^\]]*)\]\)[\s{]*\1\.run\(\)/g)].flatMap(
    ([, , list]) => list?.match(/\w+/g) ?? []
  )
  for (const [, name = ''] of source.matchAll(/^const (\w+) = suite\b/gm))
    if (!looped.includes(name) && !new RegExp(`\\b${name}\\.run\\(\\)`).test(source))
      complaints.push(`never calls ${name}.run()`)
  return complaints
}

function judge({ code, killedBy, output, cut, timeoutMs }: Ended): Omit<FileOutcome, 'output' | 'tookMs' | 'cpuMs'> {
  const plain = stripVTControlCharacters(output)
  const summaries = [...plain.matchAll(/^ {2}Total: +(\d+)\n {2}Passed: +(\d+)\n {2}Skipped: +(\d+)$/gm)]
  const [total, passed, uvuSkips] = (summaries.at(-1) ?? []).slice(1).map(Number)
  const skips = [...plain.matchAll(/^SKIPPED: (.+)$/gm)].map(([, reason]) => reason ?? '')
  const skipped = skips.length + (uvuSkips ?? 0)
  const complaints: string[] = []

  if (cut === 'time') complaints.push(`was still running after ${timeoutMs / 1000} s`)
  if (cut === 'linger') complaints.push('did not end soon after its last test: it left something open')
  if (summaries.length === 0) {
    if (!cut)
      complaints.push(`ended ${killedBy ? `by ${killedBy}` : `with exit code ${code}`} before its tests were done`)
  } else {
    if (summaries.length > 1)
      complaints.push('started its tests twice: put every top-level await before the first run()')
    if (total === 0 && skipped === 0) complaints.push('ran no test')
    if (passed === total && code !== 0 && !cut)
      complaints.push(`ended ${killedBy ? `by ${killedBy}` : `with exit code ${code}`} although its tests passed`)
  }
  const unpassed = (total ?? 0) - (passed ?? 0)
  return { passed: passed ?? 0, failed: Math.max(unpassed, complaints.length > 0 ? 1 : 0), skipped, skips, complaints }
}

function execute(path: string, { env, timeoutMs, signal }: FileOptions): Promise<Ended> {
  return new Promise(done => {
    // A group of its own, so that whatever the file starts can be ended with it.
    const child = spawn(process.execPath, [...nodeArgs, path], {
      detached: true,
      env,
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let output = ''
    let cut: Ended['cut']
    let linger: NodeJS.Timeout | undefined
    const end = (why?: Ended['cut']) => {
      cut ??= why
      killGroup(child.pid)
    }
    // One that takes too long first reports what it waits for.
    const stopLate = (why: Ended['cut']) => {
      if (child.exitCode !== null || child.signalCode !== null) return
      cut ??= why
      child.kill('SIGUSR2')
      setTimeout(end, stretched(PRINT_MS), why)
    }
    const stop = () => end()
    const timer = setTimeout(stopLate, timeoutMs, 'time')
    signal.addEventListener('abort', stop, { once: true })
    // Aborted before, while the file was read, it raises no further event.
    if (signal.aborted) stop()
    const receive = (chunk: string) => {
      output = (output + chunk).slice(-OUTPUT_LIMIT)
      if (!linger && /^ {2}Duration: /m.test(stripVTControlCharacters(output.slice(-chunk.length - 200))))
        // In the turn after: a runner that had no CPU itself for so long looks whether it has ended meanwhile first.
        linger = setTimeout(() => setImmediate(stopLate, 'linger'), stretched(LINGER_MS))
    }
    child.stdout.setEncoding('utf8').on('data', receive)
    child.stderr.setEncoding('utf8').on('data', receive)
    const closed = new Promise(resolve => child.once('close', resolve))
    const finish = async (code: number | null, killedBy: NodeJS.Signals | null) => {
      const cpuMs = takeChildrenCpuMs()
      clearTimeout(timer)
      clearTimeout(linger)
      signal.removeEventListener('abort', stop)
      killGroup(child.pid)
      // A process outside the group may still hold the pipe; it is not waited for.
      await Promise.race([closed, sleep(PIPE_LINGER_MS, undefined, { ref: false })])
      done({ code, killedBy, output, cut, timeoutMs, cpuMs })
    }
    child.once('error', error => {
      output += `${error.message}\n`
      void finish(null, null)
    })
    child.once('exit', (code, killedBy) => void finish(code, killedBy))
  })
}
