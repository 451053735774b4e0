// Sending one claimed order: a buy that leaves at most once, and only while the order's permit lasts. Right before the
// write the permit is checked on the monotonic clock and on the wall clock, counted from before the claim.
import type { Claimed } from '../../db/orders/claiming.ts'
import { observeBuy } from '../../db/platform/metrics.ts'
import { type HaltFacts, tradingHalted } from '../../schemas/halts.ts'
import { currencyOf, openSession } from '../accounts/accounts.ts'
import { compareBooks } from '../accounts/books.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { Bought, Contract, Session } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import type { Halts } from './halts.ts'
import { openLate } from './late-receipts.ts'
import { receiptOf } from './receipts.ts'
import type { Releases } from './releases.ts'
import type { Responses } from './responses.ts'
import type { Expected, Settling } from './settle.ts'
import { ceilingOf, openStakes } from './stake.ts'
import { contractOf, refOf } from './terms.ts'

// How long before a permit's end an order stops waiting for its account's quota.
const QUOTA_AHEAD_MS = 100

/** Until when an order may be sent, by this process's monotonic and by its wall clock (both ms). */
export interface Permit {
  deadline: number
  wallDeadline: number
  /** It ends before the database's clock shows the order's end, since that clock was set back. */
  isSetBack?: boolean
}

interface Parts {
  settling: Pick<Settling, 'expect' | 'watch'>
  halts: Pick<Halts, 'of'>
  releases: Releases
  responses: Responses
}

export class Sending {
  readonly #services: WorkerServices
  readonly #parts: Parts
  readonly #stakeOf: ReturnType<typeof openStakes>

  constructor(services: WorkerServices, parts: Parts) {
    this.#services = services
    this.#parts = parts
    this.#stakeOf = openStakes(services)
  }

  /**
   * Sends the order and writes the result. Returns 'released' when the order was given back and waits for its next attempt,
   * 'last' when no other order of the account was queued at the time of the statement that opened it.
   */
  async send(order: Claimed, permit: Permit): Promise<'released' | 'last' | undefined> {
    const { settling, halts, responses } = this.#parts
    const expected = settling.expect(order)
    const startedAt = this.#services.clock.now()
    const attempt = new Attempt(this.#services, permit, () => halts.of(order))
    try {
      const { session, contract } = await attempt.inTime(this.#openFor(order))
      const bought = await this.#buy({ order, attempt, expected }, session, contract)
      return await responses.bought(order, { bought, contract }, expected)
    } catch (error) {
      expected.cancel()
      const { halt, written } = attempt
      return responses.failed(order, halt ? tradingHalted(halt) : error, { written, startedAt })
    }
  }

  async #buy(
    { order, attempt, expected }: { order: Claimed; attempt: Attempt; expected: Expected },
    session: Session,
    contract: Contract
  ): Promise<Bought> {
    const { clock, log } = this.#services
    const { settling } = this.#parts
    attempt.missing = 'The connection of its account was busy.'
    const sentAt = clock.now()
    const bought = await attempt.inTime(
      session.buy(contract, {
        beforeSend: () => attempt.beforeSend(),
        signal: attempt.signal,
        listener: expected.listener,
        maxPrice: ceilingOf(contract),
        late: bought => void openLate(this.#services, settling, order, receiptOf(order, bought, contract)),
        // The quota's refusal comes before the permit ends, so that the order's error names the quota.
        waitMs: Math.max(0, attempt.deadline - sentAt - QUOTA_AHEAD_MS)
      })
    )
    const ms = clock.now() - sentAt
    observeBuy('done', ms / 1000)
    this.#parts.releases.succeeded(order.account_id)
    log.info({ orderId: order.id, trace: order.trace, contractId: bought.contractId, ms: Math.round(ms) }, 'bought')
    return bought
  }

  async #openFor(order: Claimed): Promise<{ session: Session; contract: Contract }> {
    const session = await openSession(this.#services, refOf(order))
    const { broker_account_id: accountRowId, currency: known } = order
    const currency = await currencyOf(this.#services, session, { accountRowId, currency: known })
    const contract = contractOf({ ...order, currency, ...(await this.#stakeOf(order, currency)) })
    if (order.books_due) await compareBooks(this.#services, order, contract)
    return { session, contract }
  }
}

/** One attempt to send an order: whether it was written, and until when it may be. */
class Attempt {
  readonly deadline: number
  /** What the order waits for. */
  missing = 'The connection of its account was not ready.'
  written = false
  /** The halt that was found in force when the order was about to leave. */
  halt: HaltFacts | undefined
  readonly #clock: WorkerServices['clock']
  readonly #wallDeadline: number
  readonly #isSetBack: boolean
  readonly #findHalt: () => HaltFacts | undefined
  readonly #late = new AbortController()

  constructor(
    { clock }: WorkerServices,
    { deadline, wallDeadline, isSetBack = false }: Permit,
    findHalt: () => HaltFacts | undefined
  ) {
    this.#clock = clock
    this.#isSetBack = isSetBack
    this.deadline = deadline
    this.#wallDeadline = wallDeadline
    this.#findHalt = findHalt
  }

  /** Aborted when the order may not be written any more. */
  get signal(): AbortSignal {
    return this.#late.signal
  }

  /** Right before the write: throws unless the permit lasts and no halt is in force. */
  beforeSend(): void {
    const clock = this.#clock
    // The monotonic clock stops while the machine is suspended, the wall clock may be set: whichever is later counts.
    if (this.signal.aborted || clock.now() >= this.deadline || clock.wall() >= this.#wallDeadline) throw this.#expired()
    this.halt = this.#findHalt()
    if (this.halt) throw this.#expired()
    this.written = true
  }

  /** Unless something was written by the end of the permit, the order is given back before anybody takes it for in doubt. */
  inTime<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const leftMs = Math.max(0, this.deadline - this.#clock.now())
      const expired = this.#expired()
      const cancel = this.#clock.after(leftMs, () => this.#giveUp() && reject(expired))
      work.then(resolve, reject).finally(cancel)
    })
  }

  /** From then on it cannot be written any more, whatever the clock shows; false: it was written before. */
  #giveUp(): boolean {
    if (!this.written) this.#late.abort()
    return !this.written
  }

  #expired(): BrokerError {
    return permitExpired(this.#isSetBack ? 'The clock of the database was set back.' : this.missing)
  }
}

/** The order was not sent by the end of its permit; `missing` names what it waited for. */
function permitExpired(missing: string): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', missing, { brokerCode: 'PermitExpired' })
}
