// The processes of a chaos run, looked after as an init system would: what ends is started again, and what
// ends without having been stopped is remembered. Their output goes to files, for the traces at the end.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export type MemberKind = 'api' | 'worker' | 'broker' | 'redis'

export interface MemberOptions {
  kind: MemberKind
  name: string
  command: string
  args: string[]
  env: Record<string, string>
  /** More of its environment, computed at each start. */
  envOfStart?: () => Record<string, string>
  /** File that gets the output. */
  log: string
  /** Where it listens; without one it reports by itself that it is ready. */
  port?: number
  /** Called each time it is ready. */
  onReady?: () => Promise<void>
}

const ROOT = resolve(import.meta.dirname, '../..')
const READY_TIMEOUT_MS = 60_000
const AGAIN_MS = 250
/** What was compiled before, which a process that is killed does not keep for the next one. */
const COMPILED = process.env.NODE_COMPILE_CACHE ?? join(tmpdir(), 'operator-chaos-cache')

export class ChaosMember {
  readonly kind: MemberKind
  readonly name: string
  /** Ready, and not being stopped. */
  up = false
  frozen = false
  /** When it last was not in order: killed, frozen, stopping or starting; performance.now(). */
  troubledAt = 0
  /** How it ended when nobody stopped it, after it was ready. */
  readonly crashes: string[] = []
  /** Starts that ended before it was ready. */
  failedStarts = 0
  /** When which process was killed or frozen, and until when. */
  readonly blows: { pid: number | undefined; at: Date; until: Date }[] = []
  /** Exit codes after SIGTERM. */
  readonly exits: (number | string)[] = []
  readonly #options: MemberOptions
  #child: ChildProcess | undefined
  #ending = false
  #retired = false

  constructor(options: MemberOptions) {
    this.#options = options
    this.kind = options.kind
    this.name = options.name
  }

  /** Whether it is in order now, or was not at some moment since `at`. */
  troubledSince(at: number): boolean {
    return !this.up || this.frozen || this.troubledAt >= at
  }

  /** Starts it, again and again until it is ready. Rejects after a minute. */
  async start(): Promise<void> {
    const deadline = performance.now() + READY_TIMEOUT_MS
    while (!this.#retired) {
      if (await this.#startOnce()) {
        await this.#options.onReady?.()
        this.troubledAt = performance.now()
        this.up = true
        return
      }
      this.failedStarts += 1
      if (performance.now() > deadline) throw new Error(`${this.name} does not start; see ${this.#options.log}`)
      await sleep(AGAIN_MS)
    }
  }

  async #startOnce(): Promise<boolean> {
    const { command, args, env, envOfStart, log, port } = this.#options
    const inherited = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LANG|USER)$/.test(name))
    )
    const file = openSync(log, 'a')
    const child = spawn(command, args, {
      cwd: ROOT,
      env: { ...inherited, NODE_COMPILE_CACHE: COMPILED, ...env, ...envOfStart?.() },
      stdio: port === undefined ? ['ignore', file, file, 'ipc'] : ['ignore', file, file]
    })
    closeSync(file)
    this.#child = child
    this.#ending = false
    const gone = once(child, 'exit').then(() => false)
    void gone.then(() => this.#ended(child))
    const ready = port === undefined ? once(child, 'message').then(() => true) : listens(port, child)
    return Promise.race([ready, gone])
  }

  #ended(child: ChildProcess): void {
    const was = this.up
    this.up = false
    this.frozen = false
    this.troubledAt = performance.now()
    const how = child.exitCode ?? child.signalCode ?? 'unknown'
    if (was && !this.#ending) {
      this.crashes.push(`${this.name} (${child.pid}) ended by itself: ${how}`)
      if (!this.#retired) void this.start().catch((error: Error) => this.crashes.push(error.message))
    }
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Sends a signal that ends it; resolves with how it ended. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | string> {
    const child = this.#child as ChildProcess
    this.#ending = true
    this.up = false
    this.troubledAt = performance.now()
    const gone = child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : once(child, 'exit')
    if (signal === 'SIGKILL') this.blows.push({ pid: child.pid, at: new Date(), until: new Date(8.64e15) })
    child.kill(signal)
    if (signal === 'SIGKILL') child.kill('SIGCONT')
    await gone
    const how = child.exitCode ?? child.signalCode ?? 'unknown'
    if (signal === 'SIGTERM') this.exits.push(how)
    this.troubledAt = performance.now()
    return how
  }

  freeze(): void {
    this.frozen = true
    this.troubledAt = performance.now()
    this.blows.push({ pid: this.pid, at: new Date(), until: new Date(8.64e15) })
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    if (!this.frozen) return
    this.frozen = false
    this.troubledAt = performance.now()
    Object.assign(this.blows.at(-1) ?? {}, { until: new Date() })
    this.#child?.kill('SIGCONT')
  }

  /** Ends it for good. */
  async retire(): Promise<void> {
    this.#retired = true
    this.#ending = true
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    child.kill('SIGCONT')
    await gone
  }
}

async function listens(port: number, child: ChildProcess): Promise<boolean> {
  for (const deadline = performance.now() + READY_TIMEOUT_MS; performance.now() < deadline; await sleep(20)) {
    if (child.exitCode !== null || child.signalCode !== null) return false
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const reached = await Promise.race([
      once(socket, 'connect').then(
        () => true,
        () => false
      ),
      sleep(1000, false)
    ])
    socket.destroy()
    if (reached) return true
  }
  return false
}
