// The newest events of one partner, read once for all of its sockets in this process. A subscription that is further back
// than what is kept here reads the log itself.
import { type Point, writeCursor } from '../../../db/events/cursor.ts'
import { showEvent } from '../../../db/events/faults.ts'
import { type EventRow, type LogState, PointExpired, readEvents, readLogState } from '../../../db/events/read.ts'
import type { EventType } from '../../../schemas/events.ts'
import type { ApiServices } from '../../operation.ts'
import { openPlaces, type Places } from '../../request/places.ts'

// Events kept for each partner with open sockets.
const KEPT = 500
const READ_AT_ONCE = 200
// Hints of new events may be lost.
const REREAD_MS = 1000
// Pages of the log that are read at once for subscriptions that are behind, in this process: live events wait for one at most,
// which takes two or three milliseconds.
const REPLAYS = 1
const RETRY_MS = 500
// Subscriptions served before the process does other work.
const LISTENERS_AT_ONCE = 250

/** An event ready to be sent: its JSON is made once, for all subscriptions. */
export interface Entry {
  position: number
  day: number
  type: EventType
  trader: string | null
  cursor: string
  /** When the change was made, ms since the epoch. */
  at: number
  /** null for an event that cannot be shown. */
  json(placed: boolean): string | null
}

export type TailServices = Pick<ApiServices, 'db' | 'pepper' | 'config' | 'feed' | 'log'>

/** An event of the log as an entry. `epoch` is that of the log it was read from. */
export function entryOf(
  open: Pick<TailServices, 'db' | 'log' | 'pepper' | 'config'>,
  epoch: number,
  row: EventRow
): Entry {
  const { pepper, config } = open
  let placed: string | null | undefined
  let unplaced: string | null | undefined
  const { position, day, type, trader } = row
  return {
    position,
    day,
    type,
    trader,
    at: row.at.getTime(),
    cursor: writeCursor(pepper, row.partnerId, { epoch, position, day }),
    json(withPosition) {
      if (withPosition) {
        if (placed === undefined) placed = jsonOf(showEvent(row, config, open))
        return placed
      }
      if (unplaced === undefined) {
        const shown = showEvent(row, config, open)
        unplaced = jsonOf(shown && { ...shown, position: undefined })
      }
      return unplaced
    }
  }
}

const jsonOf = (shown: object | null): string | null => shown && JSON.stringify(shown)

/** Events of a tail: it has more, or the log was restored and no point is good any more. */
interface TailListener {
  grown(): void
  expired(state: LogState): void
}

export class PartnerTail {
  readonly partnerId: string
  readonly #open: TailServices
  readonly #replays: Places
  readonly #listeners = new Set<TailListener>()
  readonly #unwatch: () => void
  readonly #timer: NodeJS.Timeout
  /** Consecutive positions, oldest first, up to `#point`. */
  #entries: Entry[] = []
  #state: LogState
  #reading = false
  #again = false
  #closed = false

  /** `entries` are the newest up to `state.latest`, at consecutive positions; `replays` are those of the process. */
  constructor(
    services: TailServices,
    partnerId: string,
    { state, entries, replays }: { state: LogState; entries: Entry[]; replays: Places }
  ) {
    this.partnerId = partnerId
    this.#open = services
    this.#replays = replays
    this.#state = state
    this.#entries = entries
    this.#unwatch = services.feed.watch(partnerId, () => this.#read())
    this.#timer = setInterval(() => this.#read(), REREAD_MS)
    // Events that were written after the state was read and before the log was watched.
    this.#read()
  }

  /** How far the log goes, as this process knows. */
  get state(): LogState {
    return this.#state
  }

  /** Whether this process knows that the point is within the log; for any other point the log must be read. */
  covers({ epoch, position }: Point): boolean {
    const { oldest, latest } = this.#state
    return epoch === latest.epoch && position >= oldest.position && position <= latest.position
  }

  listen(listener: TailListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The entries after a position; undefined when they are no longer all kept here. */
  after(position: number): Entry[] | undefined {
    const newest = this.#state.latest.position
    if (position >= newest) return []
    const first = this.#entries[0]?.position
    if (first === undefined || position < first - 1) return undefined
    return this.#entries.slice(position - first + 1)
  }

  /** Runs `read`, which reads a page for a subscription that is behind; one page at a time, round-robin among partners. */
  replay<T>(read: () => Promise<T>): Promise<T> {
    return this.#replays.run(this.partnerId, async () => {
      const page = await read()
      // What has arrived meanwhile goes first.
      await new Promise(resolve => setImmediate(resolve))
      return page
    })
  }

  close(): void {
    this.#closed = true
    this.#unwatch()
    clearInterval(this.#timer)
  }

  #read(): void {
    if (this.#reading) {
      this.#again = true
      return
    }
    this.#reading = true
    void this.#readOn().finally(() => {
      this.#reading = false
      if (this.#again && !this.#closed) {
        this.#again = false
        this.#read()
      }
    })
  }

  async #notify(): Promise<void> {
    let notified = 0
    for (const { grown } of this.#listeners) {
      grown()
      notified += 1
      if (notified % LISTENERS_AT_ONCE === 0) await new Promise(resolve => setImmediate(resolve))
    }
  }

  async #readOn(): Promise<void> {
    const { db, log } = this.#open
    try {
      for (let caughtUp = false; !caughtUp && !this.#closed; ) {
        const point = this.#state.latest
        const page = await readEvents(db, { partnerId: this.partnerId, point, limit: READ_AT_ONCE })
        caughtUp = page.caughtUp
        if (page.events.length === 0) continue
        this.#entries.push(...page.events.map(row => entryOf(this.#open, point.epoch, row)))
        if (this.#entries.length > KEPT) this.#entries = this.#entries.slice(-KEPT)
        this.#state = { ...page.state, latest: page.next }
        await this.#notify()
      }
    } catch (error) {
      if (error instanceof PointExpired) {
        this.#entries = []
        this.#state = error.state
        for (const { expired } of this.#listeners) expired(error.state)
        return
      }
      log.warn({ err: error }, 'events could not be read for the stream, trying again')
      setTimeout(() => !this.#closed && this.#read(), RETRY_MS).unref()
    }
  }
}

/**
 * Opens a tail with the newest events of today and yesterday. When all sockets of a partner come back at once, after a restart, they
 * share this one reading instead of reading the log each for itself.
 */
async function openTail(services: TailServices, partnerId: string, replays: Places): Promise<PartnerTail> {
  const state = await readLogState(services.db, partnerId)
  const { epoch, position, day } = state.latest
  const point = { epoch, position: Math.max(state.oldest.position, position - READ_AT_ONCE), day: day - 1 }
  try {
    const page = await readEvents(services.db, { partnerId, point, limit: READ_AT_ONCE })
    const entries = page.events.map(row => entryOf(services, epoch, row))
    return new PartnerTail(services, partnerId, { state: { ...page.state, latest: page.next }, entries, replays })
  } catch (error) {
    // Older days have some of them, or the log has another epoch by now.
    if (error instanceof PointExpired)
      return new PartnerTail(services, partnerId, { state: error.state, entries: [], replays })
    throw error
  }
}

/** The tails of the partners that have sockets here, each opened once. */
export class Tails {
  readonly #open: TailServices
  // Subscriptions are bounded, and each waits for one page at most.
  readonly #replays = openPlaces({ places: REPLAYS, waiting: Infinity })
  readonly #tails = new Map<string, { tail: Promise<PartnerTail>; users: number }>()

  constructor(services: TailServices) {
    this.#open = services
  }

  /** The partner's tail; call `release` once it is no longer needed. */
  async take(partnerId: string): Promise<{ tail: PartnerTail; release: () => void }> {
    let held = this.#tails.get(partnerId)
    if (!held) {
      held = { tail: openTail(this.#open, partnerId, this.#replays), users: 0 }
      this.#tails.set(partnerId, held)
    }
    const mine = held
    mine.users += 1
    const release = () => {
      mine.users -= 1
      if (mine.users > 0) return
      if (this.#tails.get(partnerId) === mine) this.#tails.delete(partnerId)
      mine.tail.then(tail => tail.close()).catch(() => {})
    }
    try {
      return { tail: await mine.tail, release }
    } catch (error) {
      release()
      throw error
    }
  }
}
