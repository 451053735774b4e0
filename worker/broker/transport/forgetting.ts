// Ends subscriptions at the broker. A stream stays open there, and counts against the connection's limit, until it is
// forgotten; so every stream we stop using is forgotten, one after the other and within the call budget.
import { setTimeout as delay } from 'node:timers/promises'
import { BrokerError } from '../broker-error.ts'
import { isRateLimit } from '../dialects/errors.ts'
import type { BrokerLog } from '../port.ts'

/** The call budget that `forget` counts in. */
export interface ForgetBudget {
  /** Waits for a free call; nothing where there is one. Rejects with BrokerError when there is none for long. */
  take(): Promise<void> | undefined
  /** The broker refused a call of this class: no call leaves for a while. */
  backOff(): void
}

interface ForgettingOptions {
  /** Sends one forget call and resolves with its response. Rejects with BrokerError. */
  send(subscriptionId: string): Promise<unknown>
  budget: ForgetBudget
  log: BrokerLog
}

interface WaitingForget {
  subscriptionId: string
  attempts: number
  done(): void
}

const MAX_WAITING = 500
const MAX_ATTEMPTS = 3
const RETRY_MS = 1_000
/** Ids whose late updates must not cause another forget. */
const MAX_REMEMBERED = 1_000

export class Forgetting {
  readonly #options: ForgettingOptions
  readonly #waiting: WaitingForget[] = []
  readonly #remembered = new Set<string>()
  readonly #stop = new AbortController()
  #underWay = 0
  #running = false

  constructor(options: ForgettingOptions) {
    this.#options = options
  }

  /** Streams that are still open at the broker although they are not used here any more. */
  get size(): number {
    return this.#waiting.length + this.#underWay
  }

  /** Whether the stream has been, or is about to be, forgotten. */
  has(subscriptionId: string): boolean {
    return this.#remembered.has(subscriptionId)
  }

  /** Forgets a stream; resolves once the broker has ended it, or the connection is gone. */
  add(subscriptionId: string): Promise<void> {
    if (this.#stop.signal.aborted || this.has(subscriptionId) || this.#waiting.length >= MAX_WAITING)
      return Promise.resolve()
    this.#remember(subscriptionId)
    return new Promise(done => {
      this.#waiting.push({ subscriptionId, attempts: 0, done })
      if (!this.#running) void this.#run()
    })
  }

  /** The connection is gone, and its streams with it. */
  close(): void {
    this.#stop.abort()
    for (const { done } of this.#waiting.splice(0)) done()
  }

  #remember(subscriptionId: string): void {
    this.#remembered.add(subscriptionId)
    if (this.#remembered.size <= MAX_REMEMBERED) return
    for (const oldest of this.#remembered) {
      this.#remembered.delete(oldest)
      break
    }
  }

  async #run(): Promise<void> {
    this.#running = true
    const { signal } = this.#stop
    while (this.#waiting.length > 0) {
      try {
        const wait = this.#options.budget.take()
        if (wait !== undefined) await wait
      } catch (error) {
        this.#options.log.debug({ err: error, waiting: this.size }, 'streams wait to be forgotten')
        await delay(RETRY_MS, undefined, { signal }).catch(() => undefined)
        continue
      }
      const next = this.#waiting.shift()
      if (next !== undefined) void this.#forget(next)
    }
    this.#running = false
  }

  async #forget(stream: WaitingForget): Promise<void> {
    this.#underWay += 1
    try {
      await this.#options.send(stream.subscriptionId)
    } catch (error) {
      if (await this.#tryAgain(stream, error)) return
    } finally {
      this.#underWay -= 1
    }
    stream.done()
  }

  /** Puts a stream back in the queue after a failure; false when it is given up. */
  async #tryAgain(stream: WaitingForget, error: unknown): Promise<boolean> {
    const { budget, log } = this.#options
    const slow = error instanceof BrokerError && isRateLimit(error)
    if (slow) budget.backOff()
    else stream.attempts += 1
    if (this.#stop.signal.aborted || stream.attempts >= MAX_ATTEMPTS) {
      log.debug({ err: error }, 'a stream could not be forgotten')
      return false
    }
    await delay(RETRY_MS, undefined, { signal: this.#stop.signal }).catch(() => undefined)
    if (this.#stop.signal.aborted) return false
    this.#waiting.push(stream)
    if (!this.#running) void this.#run()
    return true
  }
}
