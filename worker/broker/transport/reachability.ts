// Whether the broker can be reached at all. After two failures in a row only one probe at growing pauses tries until
// the broker is back, and all other calls fail at once. The change is logged once in each direction.
import { pauseAfter } from '../../platform/pauses.ts'
import { BrokerError, type BrokerLog, type Unreachable } from '../port.ts'

interface ReachabilityOptions {
  what: string
  log?: BrokerLog | undefined
  /** Resolves when the broker gave any response, rejects when it cannot be reached. */
  probe(): Promise<unknown>
}

const FAILURES_UNTIL_DOWN = 2
const PROBE_PAUSES = { firstMs: 250, mostMs: 2_000 }

export class Reachability {
  readonly #options: ReachabilityOptions
  #failures = 0
  #probes = 0
  #nextProbeAt = 0
  #timer: NodeJS.Timeout | undefined
  #down: Unreachable | null = null
  #reachedAt: number | null = null
  #closed = false

  constructor(options: ReachabilityOptions) {
    this.#options = options
  }

  /** Since when the broker cannot be reached, and why; null while it can. */
  get down(): Unreachable | null {
    return this.#down
  }

  /** When something of the broker last responded, in epoch ms; null before the first time. */
  get reachedAt(): number | null {
    return this.#reachedAt
  }

  /** Runs `attempt` unless the broker is known to be away; then rejects at once with BrokerError NotConnected. */
  async guard<T>(attempt: () => Promise<T>): Promise<T> {
    if (this.#down !== null) throw unreachable(this.#down.cause, Math.max(0, this.#nextProbeAt - performance.now()))
    try {
      const result = await attempt()
      this.#reached()
      return result
    } catch (error) {
      if (isUnreachable(error)) this.#missed(error)
      else this.#reached()
      throw error
    }
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #reached(): void {
    this.#failures = 0
    this.#reachedAt = Date.now()
    if (this.#down === null) return
    const { what, log } = this.#options
    log?.info({ what, seconds: Math.round((Date.now() - this.#down.since) / 1000) }, 'the broker can be reached again')
    clearTimeout(this.#timer)
    this.#down = null
  }

  #missed(error: BrokerError): void {
    this.#failures += 1
    if (this.#failures < FAILURES_UNTIL_DOWN || this.#down !== null || this.#closed) return
    const { what, log } = this.#options
    this.#down = { what, since: Date.now(), cause: typeof error.cause === 'string' ? error.cause : error.message }
    this.#probes = 0
    log?.error({ what, cause: this.#down.cause }, 'the broker is unreachable')
    this.#probeLater()
  }

  #probeLater(): void {
    if (this.#closed || this.#down === null) return
    this.#probes += 1
    const pauseMs = pauseAfter(this.#probes, PROBE_PAUSES)
    this.#nextProbeAt = performance.now() + pauseMs
    this.#timer = setTimeout(() => {
      this.#options.probe().then(
        () => this.#reached(),
        (error: unknown) => (isUnreachable(error) ? this.#probeLater() : this.#reached())
      )
    }, pauseMs).unref()
  }
}

/** Whether the broker's address gave no response of its own. */
function isUnreachable(error: unknown): error is BrokerError {
  if (!(error instanceof BrokerError)) return false
  return error.brokerCode === 'NotConnected' || (error.brokerCode === 'Refused' && /^status 5/.test(`${error.cause}`))
}

/** The error of a call while the broker cannot be reached; `retryMs` is when that may have changed. */
function unreachable(cause: string, retryMs?: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The broker could not be reached.', {
    brokerCode: 'NotConnected',
    ran: 'no',
    cause,
    retryMs
  })
}
