// Calls of a quota that all workers of a machine share: each batch is taken from a common count, in which calls of a killed
// worker stay counted. Urgent calls go first, and only they may use the reserve.

import type { CallRecords, SharedQuota } from '../../../db/platform/call-records.ts'
import type { BrokerLog } from '../port.ts'
import type { CallWindows } from './call-window.ts'
import { exhausted, type TakeOptions } from './waiting-calls.ts'

interface SharedCallsOptions {
  records: CallRecords
  scope: string
  windows: CallWindows
  log: BrokerLog | undefined
}

const AT_ONCE = 20
const AGAIN_MS = 1_000
const MOST_WAITING = 5_000

interface Waiting {
  go(): void
}

export class SharedCalls {
  readonly #options: SharedCallsOptions
  readonly #queues = { urgent: [] as Waiting[], ordinary: [] as Waiting[] }
  #pumping = false
  #wake: () => void = () => {}

  constructor(options: SharedCallsOptions) {
    this.#options = options
  }

  /** Resolves when one call may be made; rejects with QuotaExhausted when that would be too late. */
  take({ urgent = false, waitMs = 5_000, signal }: TakeOptions): Promise<void> {
    const queue = urgent ? this.#queues.urgent : this.#queues.ordinary
    if (queue.length >= MOST_WAITING) return Promise.reject(exhausted('calls of this address'))
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', giveUp)
        const place = queue.indexOf(waiting)
        if (place !== -1) queue.splice(place, 1)
      }
      const giveUp = () => {
        leave()
        reject(exhausted('calls of this address'))
      }
      const waiting: Waiting = {
        go() {
          leave()
          resolve()
        }
      }
      const timer = setTimeout(giveUp, waitMs)
      signal?.addEventListener('abort', giveUp, { once: true })
      queue.push(waiting)
      if (urgent) this.#wake()
      if (!this.#pumping) void this.#pump()
    })
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    const { urgent, ordinary } = this.#queues
    while (urgent.length + ordinary.length > 0) {
      const queue = urgent.length > 0 ? urgent : ordinary
      const { granted, retryMs } = await this.#spend(queue === urgent, Math.min(AT_ONCE, queue.length))
      // Callers that gave up meanwhile leave their calls unused.
      for (const waiting of queue.slice(0, granted)) waiting.go()
      // An urgent call that came meanwhile may use the reserve.
      if (granted === 0 && (queue === urgent || urgent.length === 0)) await this.#pause(retryMs)
    }
    this.#pumping = false
  }

  async #spend(urgent: boolean, calls: number): Promise<{ granted: number; retryMs: number }> {
    const { records, log } = this.#options
    try {
      return await records.spend(this.#quota(urgent), calls)
    } catch (error) {
      log?.warn({ err: error }, 'the calls of all workers could not be counted')
      return { granted: 0, retryMs: AGAIN_MS }
    }
  }

  #quota(urgent: boolean): SharedQuota {
    const { scope, windows } = this.#options
    const part = (calls: number) => (urgent ? calls : Math.ceil(calls * (1 - (windows.reserve ?? 0))))
    return {
      scope,
      windows: [
        { windowMs: 60_000, limit: part(windows.perMinute) },
        { windowMs: 600_000, limit: part(windows.perTenMinutes ?? 0) },
        { windowMs: 3_600_000, limit: part(windows.perHour) }
      ]
    }
  }

  /** Waits until there may be calls left, or an urgent caller comes. */
  #pause(retryMs: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, Math.min(AGAIN_MS, Math.max(20, retryMs)))
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
