// Placing: jobs become claimed orders, and claimed orders are sent (sending.ts); what comes of each is written by
// responses.ts, or the order is given back by releases.ts. What the rows enforce is in db/orders/claiming.ts and placing.ts; the
// worker keeps the rest:
// - a buy is sent only by the run whose own update moved the row to `sending`, after that commit;
// - right before the write the permit is checked on both clocks, counted from before the claim (sending.ts);
// - an outcome in doubt is never resent: the row stays `sending` until resolution decides (responses.ts).

import {
  type Claimed,
  type ClaimOptions,
  type Claims,
  claimOrders,
  listWaitingAccounts,
  type Rooms,
  takeOrders,
  withWaiting
} from '../../db/orders/claiming.ts'
import { type Bus, WORK } from '../../db/platform/bus.ts'
import { Shares } from '../../db/platform/shares.ts'
import { batch, isDataError } from '../../db/postgres/batch.ts'
import { NOTHING_SEEN, type SeenHistory } from '../../db/postgres/lineage.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import { CopyPace } from '../copy/pace.ts'
import { CopyPlaces } from '../copy/places.ts'
import { DatabaseClock } from '../platform/database-clock.ts'
import type { WorkerServices } from '../services.ts'
import type { Halts } from './halts.ts'
import { notifyCallers } from './notify.ts'
import { PassedOver } from './passed-over.ts'
import { Releases } from './releases.ts'
import { Responses } from './responses.ts'
import { type Permit, Sending } from './sending.ts'
import type { Settling } from './settle.ts'

// Jobs taken from the queue in one statement, and buys under way in one worker.
const JOBS_AT_ONCE = 10
const MAX_UNDER_WAY = 1000
// Accounts claimed for at once when places became free, and how long at least until the next time.
const RESUMED_AT_ONCE = 200
const RESUME_EVERY_MS = 25
// Fetch recent jobs; scan the whole queue this often, and while full batches come back.
const CHECK_ALL_EVERY_MS = 5000

// The largest value of the column: a worker that claims hundreds of times a second reaches it within months.
const MAX_CLAIM_NO = 2_147_483_647

/** The number of the next claiming statement. Numbers may repeat: lost statements are resolved within minutes. */
export const nextClaimNo = (last: number): number => (last % MAX_CLAIM_NO) + 1

/** Has the other workers claim for these accounts, of which orders wait, at once. */
export function passOn(bus: Bus, accountIds: string[]): void {
  for (const accountId of accountIds) bus.publish(WORK, 'claim', accountId)
}

type ClaimOptionsOfWorker = Omit<ClaimOptions, 'accountIds'>

export class Placing {
  readonly copyPace: CopyPace
  readonly #services: WorkerServices
  readonly #wakeCopies: () => void
  readonly #releases: Releases
  readonly #sending: Sending
  /** Claims under way, and the lives of the orders that they got. */
  readonly #claims = new Set<Promise<unknown>>()
  readonly #underWay = new Set<Promise<void>>()
  readonly #shares: Shares
  readonly #databaseClock: DatabaseClock
  readonly #passedOver = new PassedOver()
  readonly #copyPlaces: CopyPlaces
  readonly #checkAllAt = { 'order.place': 0, 'order.copy': 0 }
  readonly #claimFor: (accountId: string) => Promise<string>
  readonly #claimNext: (accountId: string) => Promise<string>
  #stopped = false
  #claimNo = 0
  #seen = NOTHING_SEEN
  /** Whether the latest take of orders left some. */
  #ordersWait = false
  #copiesWait = false
  /** Whether copies were left for want of places. */
  #copiesHeldBack = false
  /** Whether orders were left for want of places, and when they may be claimed again at the earliest. */
  #heldBack = false
  #cancelResume: (() => void) | undefined

  /** `wakeCopies` is called when copies that were left for want of places may be taken. */
  constructor(
    services: WorkerServices,
    settling: Settling,
    halts: Pick<Halts, 'of'>,
    wakeCopies: () => void,
    { places = MAX_UNDER_WAY, databaseClock = new DatabaseClock() } = {}
  ) {
    const { db, bus, clock } = services
    this.#databaseClock = databaseClock
    this.#shares = new Shares(places)
    this.#services = services
    this.#wakeCopies = wakeCopies
    this.#copyPlaces = new CopyPlaces(clock)
    this.copyPace = new CopyPace(clock)
    this.#releases = new Releases(services, this)
    const responses = new Responses(services, { releases: this.#releases, settling })
    this.#sending = new Sending(services, { settling, halts, releases: this.#releases, responses })
    this.#claimFor = batch(
      async (accountIds: string[]) => {
        if (!this.#stopped) await this.#claimAndSend(options => claimOrders(db, { ...options, accountIds }))
        return accountIds
      },
      { isolate: isDataError }
    )
    this.#claimNext = batch(
      async (accountIds: string[]) => {
        // Most accounts have nothing more waiting: one cheap read saves the two statements of a claim.
        const waiting = await withWaiting(db, accountIds).catch((error: unknown) => {
          // While the worker stops, another worker's sweep finds what waits.
          if (this.#stopped) return []
          throw error
        })
        if (this.#stopped) passOn(bus, waiting)
        else if (waiting.length > 0)
          await this.#claimAndSend(options => claimOrders(db, { ...options, accountIds: waiting }))
        return accountIds
      },
      { isolate: isDataError }
    )
  }

  /** Takes queued jobs, commits the intent and sends; returns whether there may be more. */
  async take(): Promise<boolean> {
    this.#ordersWait = await this.#takeFrom('order.place')
    return this.#ordersWait
  }

  /** The same for copies, while no orders wait and as the pace of copies allows. */
  async takeCopies(): Promise<boolean> {
    this.#copiesWait = this.#ordersWait
    if (this.#ordersWait) return false
    return (await this.copyPace.wait()) ? this.#takeFrom('order.copy') : true
  }

  /** Whether copies were left because orders waited, and no orders wait now. */
  copiesWait(): boolean {
    return this.#copiesWait && !this.#ordersWait
  }

  /** How many more orders of which partners may be claimed now. */
  rooms(): Rooms {
    return { ...this.#shares.taken(), room: this.#shares.roomOf(undefined), copies: this.#copyPlaces.room }
  }

  /** Sends whatever may be sent next on these accounts. */
  async claim(accountIds: string[]): Promise<void> {
    await Promise.all(accountIds.map(accountId => this.#claimNext(accountId)))
  }

  /** Another worker took a job of this account, which this worker serves: claims for it at once. */
  claimNow(accountId: string): void {
    this.#claimFor(accountId).catch((error: unknown) =>
      this.#services.log.warn({ err: error, accountId }, 'an account could not be claimed for')
    )
  }

  /** How far this worker has seen the database come. */
  get seenHistory(): SeenHistory {
    return this.#seen
  }

  /** Notes how far the database has come; returns how far this worker has seen it. Nothing is claimed on one that is behind that. */
  sawHistory({ generation, position }: SeenHistory): SeenHistory {
    const seen = this.#seen
    if (generation > seen.generation) this.#seen = { generation, position }
    else if (generation === seen.generation) this.#seen = { generation, position: Math.max(position, seen.position) }
    return this.#seen
  }

  /** Gives back what claiming statements claimed whose outcome was lost; does nothing where there was none. */
  recover(): Promise<void> {
    return this.#releases.recover()
  }

  /** Claims no more: what waits behind a buy under way is passed on to other workers. */
  stop(): void {
    this.#stopped = true
    this.#cancelResume?.()
  }

  /** Stops; resolves when every buy under way, also those of claims under way, has its response or is in doubt. */
  async drain(): Promise<void> {
    this.stop()
    this.#releases.stop()
    // A claim starts orders when its statement returns, and the end of an order may begin another claim.
    while (this.#claims.size + this.#underWay.size > 0) await Promise.allSettled([...this.#claims, ...this.#underWay])
  }

  async #takeFrom(name: 'order.place' | 'order.copy'): Promise<boolean> {
    const { db, queue, clock } = this.#services
    const isCopies = name === 'order.copy'
    const room = isCopies ? Math.min(this.#shares.free, this.#copyPlaces.room) : this.#shares.free
    const limit = Math.min(JOBS_AT_ONCE, Math.floor(room / ORDERS_A_JOB))
    if (isCopies) this.#copiesHeldBack = limit <= 0
    if (this.#stopped || limit <= 0) return false
    const requestedAt = clock.now()
    const among = requestedAt >= this.#checkAllAt[name] ? 'all' : 'recent'
    const { taken, claimed } = await this.#claimAndSend(options =>
      takeOrders(db, queue, { ...options, name, limit, among })
    )
    if (isCopies) this.copyPace.noteCopies(claimed.length)
    else if (taken > 0) this.copyPace.noteOrders(clock.now() - requestedAt)
    const more = taken === limit
    // When more jobs wait than one statement takes, the oldest go first, whatever their age.
    if (more) this.#checkAllAt[name] = 0
    else if (among === 'all') this.#checkAllAt[name] = requestedAt + CHECK_ALL_EVERY_MS
    return more
  }

  /** Claims with `run` and sends what was claimed; a permit counts from before the claim, so it can only end earlier here. */
  async #claimAndSend<Found extends Claims>(run: (options: ClaimOptionsOfWorker) => Promise<Found>): Promise<Found> {
    const claim = this.#claimThenSend(run)
    this.#claims.add(claim)
    try {
      return await claim
    } finally {
      this.#claims.delete(claim)
    }
  }

  async #claimThenSend<Found extends Claims>(run: (options: ClaimOptionsOfWorker) => Promise<Found>): Promise<Found> {
    const { bus, config, clock, worker } = this.#services
    const claimNo = nextClaimNo(this.#claimNo)
    this.#claimNo = claimNo
    const permit = { from: clock.now(), wallFrom: clock.wall() }
    const { permitMs, reconcileAfterMs } = config
    const full = this.#shares.full()
    if (full.length > 0) this.#heldBack = true
    const claim = this.#passedOver.claiming()
    const found = await run({
      sender: worker,
      claimNo,
      permitMs,
      reconcileAfterMs,
      seen: this.#seen,
      full
    }).catch((error: unknown) => {
      claim.lost()
      this.#releases.lostClaim(claimNo)
      throw error
    })
    notifyCallers(this.#services, found.expired)
    // Failing a copy costs the database as much as claiming it.
    this.copyPace.noteCopies(found.expired.filter(({ copied_from }) => copied_from !== null).length)
    for (const { generation } of found.claimed) this.sawHistory({ generation, position: 0 })
    for (const { clock_ms: clockMs } of found.claimed) this.#databaseClock.observe(clockMs, clock.now())
    for (const order of found.claimed)
      this.#start(
        order,
        this.#inTime(order, {
          deadline: permit.from + order.permit_ms,
          wallDeadline: permit.wallFrom + order.permit_ms
        })
      )
    for (const accountId of claim.found(found.unclaimed)) this.claimNow(accountId)
    for (const { accountId, worker: other } of found.elsewhere) {
      // A lost hint costs the time until that worker's next sweep.
      if (other !== null) bus.publish(channelOf(other), 'claim', accountId)
      else this.claimNow(accountId)
    }
    return found
  }

  /** Shortens the permit to the order's time to live as it was before the database's clock was set back. */
  #inTime({ ends_ms: endsMs }: Claimed, permit: Permit): Permit {
    const endsAt = this.#databaseClock.endOf({ beganMs: endsMs - this.#services.config.orderTtlMs, endsMs })
    return endsAt < permit.deadline ? { ...permit, deadline: endsAt, isSetBack: true } : permit
  }

  #start(order: Claimed, permit: Permit): void {
    const isCopy = order.copied_from !== null
    const life = this.#sendAndGoOn(order, permit)
      .catch((error: unknown) =>
        this.#services.log.error({ err: error, orderId: order.id }, 'placing an order failed on our side')
      )
      .finally(() => {
        this.#underWay.delete(life)
        this.#shares.remove(order.partner_id)
        if (isCopy) this.#copyPlaces.remove()
        if (this.#copiesHeldBack && this.#copyPlaces.room >= ORDERS_A_JOB) {
          this.#copiesHeldBack = false
          this.#wakeCopies()
        }
        this.#resumeSoon()
      })
    this.#underWay.add(life)
    this.#passedOver.begin(order.account_id)
    this.#shares.add(order.partner_id)
    if (isCopy) this.#copyPlaces.add()
  }

  async #sendAndGoOn(order: Claimed, permit: Permit): Promise<void> {
    let passedOver = false
    const left = await this.#sending.send(order, permit).finally(() => {
      passedOver = this.#passedOver.end(order.account_id)
    })
    if (left === 'released' || (left === 'last' && !passedOver)) return
    // Only now, with this order out of the way, the next one of the account can be claimed.
    await this.#claimNext(order.account_id)
  }

  /** Claims again, round-robin among partners, when places are free for orders that were left for want of them. */
  #resumeSoon(): void {
    const { clock, log } = this.#services
    if (!this.#heldBack || this.#cancelResume || this.#stopped) return
    this.#cancelResume = clock.after(RESUME_EVERY_MS, () => {
      this.#resume()
        .catch((error: unknown) => log.warn({ err: error }, 'claiming orders that were held back'))
        .finally(() => {
          this.#cancelResume = undefined
          this.#resumeSoon()
        })
    })
  }

  async #resume(): Promise<void> {
    const { db, worker } = this.#services
    const limit = Math.min(RESUMED_AT_ONCE, this.#shares.free)
    if (this.#stopped || limit <= 0) return
    const accountIds = await listWaitingAccounts(db, { worker, ageMs: 0, limit }, this.rooms())
    this.#heldBack = accountIds.length > 0 || this.#shares.full().length > 0
    if (accountIds.length > 0) await this.#claimAndSend(options => claimOrders(db, { ...options, accountIds }))
  }
}
