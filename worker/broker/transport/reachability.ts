// Whether the broker can be reached at all. After two failures in a row, or a call during which nothing arrived from it, only one
// probe at growing pauses tries until the broker is back, and new connections fail at once. The change is logged once in each direction.
import { pauseAfter } from '../../platform/pauses.ts'
import { BrokerError } from '../broker-error.ts'
import type { BrokerLog, Unreachable } from '../port.ts'

interface ReachabilityOptions {
  what: string
  log?: BrokerLog | undefined
  /** Resolves when the broker gave any response, rejects when it cannot be reached. */
  probe(): Promise<unknown>
}

const FAILURES_UNTIL_DOWN = 2
const PROBE_PAUSES = { firstMs: 250, mostMs: 2_000 }
/** For so long nothing may arrive after something was sent, before the broker is reported: as long as a pong may take. */
const SILENT_AFTER_MS = 5_000
const SILENT = 'it does not respond'

export class Reachability {
  readonly #options: ReachabilityOptions
  #failures = 0
  #probes = 0
  #nextProbeAt = 0
  #timer: NodeJS.Timeout | undefined
  #down: Unreachable | null = null
  #reachedAt: number | null = null
  #closed = false
  /** What was sent and has neither got a response nor ended. */
  #pending = 0
  /** When the first of what was sent since the last response was sent. Monotonic, as the next one is. */
  #unansweredSince: number | null = null
  #receivedAt = 0

  constructor(options: ReachabilityOptions) {
    this.#options = options
  }

  /** Since when the broker cannot be reached, or has not responded to anything, and why; null while it does. */
  get unreachable(): Unreachable | null {
    if (this.#down !== null || this.#unansweredSince === null) return this.#down
    const silentMs = performance.now() - this.#unansweredSince
    if (silentMs < SILENT_AFTER_MS) return null
    return { what: this.#options.what, since: Date.now() - silentMs, cause: SILENT }
  }

  /** When something of the broker last responded, in epoch ms; null before the first time. */
  get reachedAt(): number | null {
    return this.#reachedAt
  }

  /** Runs `attempt` unless the broker is known to be away; then rejects at once with BrokerError NotConnected. */
  async guard<T>(attempt: () => Promise<T>): Promise<T> {
    if (this.#down !== null) throw unreachable(this.#down.cause, Math.max(0, this.#nextProbeAt - performance.now()))
    const startedAt = performance.now()
    this.sent()
    try {
      const result = await attempt()
      this.#reached()
      return result
    } catch (error) {
      if (!isUnreachable(error)) this.#reached()
      else {
        this.unanswered(performance.now() - startedAt, startedAt)
        this.#missed(error)
      }
      throw error
    } finally {
      this.ended()
    }
  }

  /** Something was sent to which the broker responds; `ended` is called once for it, with or without a response. */
  sent(): void {
    this.#pending += 1
    this.#unansweredSince ??= performance.now()
  }

  ended(): void {
    this.#pending -= 1
    if (this.#pending === 0) this.#unansweredSince = null
  }

  /** Anything arrived from the broker. */
  received(): void {
    this.#receivedAt = performance.now()
    this.#unansweredSince = null
  }

  /**
   * What was sent at `sentAt`, by performance.now(), got no response in `withinMs`. Where nothing else has arrived since either, the broker
   * is taken for away.
   */
  unanswered(withinMs: number, sentAt: number): void {
    if (withinMs <= SILENT_AFTER_MS || this.#receivedAt > sentAt) return
    this.#lost(SILENT, Date.now() - withinMs)
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  #reached(): void {
    this.received()
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
    if (this.#failures < FAILURES_UNTIL_DOWN) return
    this.#lost(typeof error.cause === 'string' ? error.cause : error.message)
  }

  #lost(cause: string, since = Date.now()): void {
    if (this.#down !== null || this.#closed) return
    const { what, log } = this.#options
    this.#down = { what, since, cause }
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
  if (error.brokerCode === 'NotConnected' || error.brokerCode === 'NoAnswer') return true
  return error.brokerCode === 'Refused' && /^status 5/.test(`${error.cause}`)
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
