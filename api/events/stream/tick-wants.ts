// The assets whose ticks this process's sockets subscribe to, kept in the database so that a worker forwards them. The
// row expires when the process is gone.

import { putTickWant, TICKS, type TickWant } from '../../../db/events/ticks.ts'
import { WORK } from '../../../db/platform/bus.ts'
import type { ApiServices } from '../../operation.ts'

const KEPT_MS = 15_000
const RENEW_MS = 5000
const RETRY_MS = 500
// Sockets that subscribe in the same moment share a statement.
const GROUP_MS = 10

export class TickWants {
  readonly #services: Pick<ApiServices, 'db' | 'bus' | 'log'>
  readonly #dialect: string
  readonly #want: () => Pick<TickWant, 'appIds' | 'assets'>
  readonly #renewing: NodeJS.Timeout
  #timer: NodeJS.Timeout | undefined
  #storing: Promise<void> | undefined
  #stored = ''
  #closed = false

  /** `want` returns the assets needed now; call `changed` after each change of them. */
  constructor(
    services: Pick<ApiServices, 'db' | 'bus' | 'log'>,
    { dialect, want }: { dialect: string; want: () => Pick<TickWant, 'appIds' | 'assets'> }
  ) {
    this.#services = services
    this.#dialect = dialect
    this.#want = want
    this.#renewing = setInterval(() => this.#store(true), RENEW_MS)
    this.#renewing.unref()
  }

  changed(): void {
    this.#later(GROUP_MS)
  }

  /** Removes the row. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#renewing)
    clearTimeout(this.#timer)
    await this.#storing
    if (this.#stored !== '') await this.#put({ appIds: [], assets: [] }).catch(() => {})
  }

  #later(ms: number): void {
    if (this.#closed) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#store(false)
    }, ms)
  }

  #store(renew: boolean): void {
    if (this.#closed) return
    if (this.#storing !== undefined) {
      this.#later(GROUP_MS)
      return
    }
    const want = this.#want()
    const text = want.assets.length === 0 ? '' : JSON.stringify(want)
    if (text === this.#stored && (!renew || text === '')) return
    this.#storing = this.#put(want)
      .then(() => {
        this.#stored = text
      })
      .catch((error: unknown) => {
        this.#services.log.warn({ err: error }, 'wanted ticks could not be stored, trying again')
        this.#later(RETRY_MS)
      })
      .finally(() => {
        this.#storing = undefined
      })
  }

  async #put(want: Pick<TickWant, 'appIds' | 'assets'>): Promise<void> {
    const { db, bus } = this.#services
    const text = want.assets.length === 0 ? '' : JSON.stringify(want)
    await putTickWant(db, { process: bus.replyChannel, dialect: this.#dialect, ...want }, KEPT_MS)
    if (text !== this.#stored) bus.publish(WORK, TICKS, this.#dialect)
  }
}
