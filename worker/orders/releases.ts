// Orders that were claimed and not sent: each is given back to the queue, and its account is claimed for again after a
// pause. What could not be written because the database was away is written later.
import type { Claimed } from '../../db/orders/claiming.ts'
import { releaseLostClaims, releaseUnsent, type Unsent } from '../../db/orders/placing.ts'
import { batch } from '../../db/postgres/batch.ts'
import { Pauses, pauseAfter } from '../platform/pauses.ts'
import type { WorkerServices } from '../services.ts'
import { notifyCallers } from './notify.ts'
import { persist } from './persist.ts'

// The server may still execute a statement whose outcome was lost for this long: longer than its time-out.
const LOST_CLAIM_MS = 120_000
// More lost claims than that are left to resolution.
const MAX_LOST_CLAIMS = 1000
const MAX_UNRELEASED = 10_000
// Pauses before an account's orders are claimed again after a claim that could not be sent, growing while that goes on.
const UNSENT_PAUSES = { firstMs: 250, mostMs: 2000 }
const LONGEST_PAUSE_MS = 8000

/** How an account's orders are claimed again. */
interface Claiming {
  claimNow(accountId: string): void
  claim(accountIds: string[]): Promise<void>
}

export class Releases {
  readonly #services: WorkerServices
  readonly #claiming: Claiming
  readonly #pauses = new Pauses(UNSENT_PAUSES)
  /** Ends the pauses that are under way, by account. */
  readonly #resuming = new Map<string, () => void>()
  /** Claiming statements whose outcome was lost, by number, and when (monotonic). */
  readonly #lostClaims = new Map<number, number>()
  /** Orders whose release could not be written while the database was away: only this process knows. */
  readonly #unreleased = new Map<string, Unsent & { accountId: string }>()
  readonly #saveUnsent: (unsent: Unsent) => Promise<Unsent>
  #stopped = false

  constructor(services: WorkerServices, claiming: Claiming) {
    this.#services = services
    this.#claiming = claiming
    this.#saveUnsent = batch(async (unsent: Unsent[]) => {
      const { db, worker } = services
      const orders = await persist(services, () => releaseUnsent(db, unsent, worker))
      this.#notifyFailed(orders)
      return unsent
    })
  }

  /**
   * Gives back an order that was not sent, and claims for its account again after a pause. With `waited` the order waited for its
   * whole permit and was refused by nobody: its pause does not grow, since what it waited for may be available at any moment.
   */
  async release(
    order: Claimed,
    reason: string,
    { retryMs = 0, waited = false }: { retryMs?: number | undefined; waited?: boolean } = {}
  ): Promise<'released'> {
    const { id, attempt, account_id: accountId } = order
    const ownPauseMs = waited ? pauseAfter(1, UNSENT_PAUSES) : this.#pauses.failed(accountId)
    const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(retryMs, ownPauseMs))
    await this.#saveUnsent({ id, attempt, reason, pauseMs }).catch((error: unknown) => {
      if (this.#unreleased.size < MAX_UNRELEASED) this.#unreleased.set(id, { id, attempt, reason, accountId })
      throw error
    })
    this.#resuming.get(accountId)?.()
    if (this.#stopped) return 'released'
    const cancel = this.#services.clock.after(pauseMs, () => {
      this.#resuming.delete(accountId)
      this.#claiming.claimNow(accountId)
    })
    this.#resuming.set(accountId, cancel)
    return 'released'
  }

  /** An order of the account was bought: its next pause is a short one. */
  succeeded(accountId: string): void {
    this.#pauses.succeeded(accountId)
  }

  /** Remembers a claiming statement whose outcome was lost. */
  lostClaim(claimNo: number): void {
    if (this.#lostClaims.size < MAX_LOST_CLAIMS) this.#lostClaims.set(claimNo, this.#services.clock.now())
  }

  /** Gives back what claims with a lost outcome have claimed; does nothing where there was none. */
  async recover(): Promise<void> {
    const { db, clock, log, worker } = this.#services
    await this.#releaseAgain()
    if (this.#lostClaims.size === 0) return
    const before = clock.now() - LOST_CLAIM_MS
    const released = await releaseLostClaims(db, { sender: worker, claimNos: [...this.#lostClaims.keys()] })
    for (const [number, at] of this.#lostClaims) if (at < before) this.#lostClaims.delete(number)
    if (released.length === 0) return
    log.warn({ orders: released.length }, 'gave back orders of a claim whose outcome was lost')
    this.#notifyFailed(released)
    await this.#claiming.claim([...new Set(released.map(({ account_id }) => account_id))])
  }

  /** Ends all pauses; no account is claimed for any more. */
  stop(): void {
    this.#stopped = true
    for (const cancel of this.#resuming.values()) cancel()
  }

  /** Writes the releases that failed. Resolution would find the same orders absent, minutes later. */
  async #releaseAgain(): Promise<void> {
    const { db, worker } = this.#services
    const claims = [...this.#unreleased.values()]
    if (claims.length === 0) return
    const released = await releaseUnsent(db, claims, worker)
    for (const { id } of claims) this.#unreleased.delete(id)
    this.#notifyFailed(released)
    await this.#claiming.claim([...new Set(claims.map(({ accountId }) => accountId))])
  }

  /** Orders that ran out of time are decided; the others go back to the queue, which concerns no caller. */
  #notifyFailed(orders: Awaited<ReturnType<typeof releaseUnsent>>): void {
    notifyCallers(
      this.#services,
      orders.filter(({ phase }) => phase === 'failed')
    )
  }
}
