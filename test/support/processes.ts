// Real processes for tests: api, worker and operator as they run in production, and a worker inside the test
// for when its process does not matter.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { openBus } from '../../db/platform/bus.ts'
import { openCallRecords } from '../../db/platform/call-records.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { openLog } from '../../db/platform/log.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { startWork } from '../../worker/jobs.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import { openTestBroker } from '../../worker/test-broker.ts'
import { onClose, TOKEN_KEYS } from './harness.ts'

/** How long the output of a process that has ended may take to arrive. */
const STREAMS_MS = 2000
// A worker's start takes all connections there are, and each of them plans every statement anew.
const WORKER_POOL = 4

interface TestWorker {
  services: WorkerServices
  stop(): Promise<void>
}

/**
 * A worker inside this process, on the environment of a harness, its wall clock off by `wallMs`. What was opened is closed as well when
 * the rest cannot be.
 */
export async function startTestWorker(env: Record<string, string>, { wallMs = 0 } = {}): Promise<TestWorker> {
  const config = readConfig(env)
  const url = config.databaseUrl as string
  const opened: (() => unknown)[] = []
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= closeInTurn(opened.reverse())
    return stopping
  }
  onClose(stop)
  const log = openLog({ level: config.logLevel, name: 'worker' })
  const db = openDatabase({ url, pool: WORKER_POOL, name: 'test-worker' })
  opened.push(() => db.destroy())
  const bus = await openBus({ url, redisUrl: config.redisUrl, log })
  opened.push(() => bus.close())
  const queue = await openQueue({ url, role: 'worker', log })
  opened.push(() => queue.close())
  const worker = `test:${process.pid}:${randomBytes(3).toString('hex')}`
  const testBroker = await openTestBroker({ config, databaseUrl: url, db, log, clock: systemClock, worker })
  opened.push(() => testBroker?.close())
  const brokers = openBrokers(config, log, { records: openCallRecords(db, worker), testBroker })
  opened.push(() => brokers.close())
  const services: WorkerServices = {
    config,
    db,
    bus,
    queue,
    log,
    brokers,
    worker,
    vault: openVault(TOKEN_KEYS),
    clock: { ...systemClock, wall: () => systemClock.wall() + wallMs },
    changes: openSignal()
  }
  const work = await startWork(services)
  opened.push(() => work.stop())
  return { services, stop }
}

/** Closes one after the other, also behind one that could not be closed; throws what the first of those threw. */
async function closeInTurn(closing: (() => unknown)[]): Promise<void> {
  const failures: unknown[] = []
  for (const close of closing)
    try {
      await close()
    } catch (error) {
      failures.push(error)
    }
  if (failures.length > 0) throw failures[0]
}

export interface TestProcess {
  child: ChildProcess
  /** Lines written so far, stdout and stderr. */
  lines: string[]
  /** Resolves with the first line that matches; rejects when the process ends first. */
  line(pattern: RegExp): Promise<string>
  kill(signal: NodeJS.Signals): void
  /** Resolves with exit code or signal, once all lines are there. */
  ended: Promise<number | NodeJS.Signals | null>
}

/** Starts one of our main files with this environment and nothing else of ours, without the guards that a mutant has taken out. */
export function startProcess(file: string, env: Record<string, string>, args: string[] = []): TestProcess {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LANG|USER|NODE_.*|SIMULATION_EDITS)$/.test(name))
  )
  const child = spawn(process.execPath, [file, ...args], {
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const lines: string[] = []
  const waiting = new Set<(line: string) => void>()
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', line => {
      lines.push(line)
      for (const receive of waiting) receive(line)
    })
  }
  const closed = once(child, 'close')
  const ended = once(child, 'exit').then(async ([code, signal]) => {
    // What it wrote last may come after it has ended. What it started may hold its streams for longer.
    await Promise.race([closed, sleep(STREAMS_MS, undefined, { ref: false })])
    return (code ?? signal) as number | NodeJS.Signals | null
  })
  const kill = (signal: NodeJS.Signals) => void child.kill(signal)
  onClose(async () => {
    child.kill('SIGCONT')
    child.kill('SIGKILL')
    await ended
  })
  return {
    child,
    lines,
    kill,
    ended,
    line(pattern) {
      const known = lines.find(line => pattern.test(line))
      if (known !== undefined) return Promise.resolve(known)
      return new Promise((resolve, reject) => {
        const receive = (line: string) => {
          if (!pattern.test(line)) return
          waiting.delete(receive)
          resolve(line)
        }
        waiting.add(receive)
        void ended.then(how =>
          reject(new Error(`${file} ended (${how}) before it said ${pattern}:\n${lines.slice(-10).join('\n')}`))
        )
      })
    }
  }
}

const STARTS = 3

/**
 * Starts one of our main files and waits for a line of it. One that ends because the database did not respond within its first seconds, as
 * on a busy machine, is started again, as a supervisor would.
 */
async function startUntil(file: string, env: Record<string, string>, pattern: RegExp) {
  for (let starts = 1; ; starts++) {
    const started = startProcess(file, env)
    try {
      return { started, line: await started.line(pattern) }
    } catch (error) {
      if (starts === STARTS || !/does not respond \(timeout expired\)/.test(String(error))) throw error
    }
  }
}

/** An API process; resolves with its address once it listens. */
export async function startApi(env: Record<string, string>): Promise<TestProcess & { address: string }> {
  const { started, line } = await startUntil(
    'api/main.ts',
    { ...env, LOG_LEVEL: 'info', PORT: '0' },
    /"msg":"listening"/
  )
  return { ...started, address: (JSON.parse(line) as { address: string }).address }
}

/** A worker process; resolves once it works. */
export async function startWorker(env: Record<string, string>): Promise<TestProcess> {
  return (await startUntil('worker/main.ts', { ...env, LOG_LEVEL: 'info' }, /"msg":"working"/)).started
}
