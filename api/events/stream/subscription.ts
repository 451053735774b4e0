// One subscription to events: a replay from its cursor, then events as they come. It keeps a position and nothing else: while
// its socket reads slowly nothing is sent, and what it missed meanwhile is read from the log again.
import type { Point } from '../../../db/events/cursor.ts'
import { type LogState, PointExpired, readEvents } from '../../../db/events/read.ts'
import { observeFrame } from '../../../db/platform/metrics.ts'
import { type Entry, entryOf, type PartnerTail, type TailServices } from './tail.ts'

// A page takes two or three milliseconds of the process, for which nothing else is sent.
const REPLAYED_AT_ONCE = 50

/** The socket, as far as a subscription needs it. */
interface Outlet {
  /** Sends a text frame; false when more should wait for `drained`. */
  send(frame: string): boolean
  /** Resolves when the socket takes more, or is closed. */
  drained(): Promise<void>
  readonly closed: boolean
}

interface SubscriptionOptions {
  id: string
  partnerId: string
  /** Events carry their position. */
  placed: boolean
  types: readonly string[] | undefined
  traders: readonly string[] | undefined
  /** Begins after this point, as a replay; `text` is the client's own. */
  after: { point: Point; text: string } | undefined
  /** The text of a point for this socket. */
  cursorOf(point: Point): string
  services: TailServices
  tail: PartnerTail
  outlet: Outlet
  /** The subscription ends: its events are not kept any more. */
  expired(state: LogState): void
}

export class Subscription {
  readonly #options: SubscriptionOptions
  readonly #types: ReadonlySet<string> | undefined
  readonly #traders: ReadonlySet<string> | undefined
  readonly #unlisten: () => void
  /** Everything up to here was sent, or does not fit the filter. */
  #point: Point
  /** The cursor of the last event sent. */
  #cursor: string
  /** After what did not fit the filter since then, once a day. */
  #resume: string | undefined
  #resumeDay: number
  #replaying: boolean
  #pumping = false
  #again = false
  #ended = false

  /** Call `start` once `cursor` was sent in `subscribed`. */
  constructor(options: SubscriptionOptions) {
    const { cursorOf, tail, types, traders, after } = options
    this.#options = options
    this.#types = types && new Set(types)
    this.#traders = traders && new Set(traders)
    this.#point = after?.point ?? tail.state.latest
    this.#cursor = after?.text ?? cursorOf(this.#point)
    this.#resumeDay = this.#point.day
    this.#replaying = after !== undefined
    this.#unlisten = tail.listen({ grown: () => this.#pump(), expired: state => this.#expire(state) })
  }

  /** The traders it is for; undefined for all. */
  get traders(): ReadonlySet<string> | undefined {
    return this.#traders
  }

  /** Safe to resume from: of the last event that was sent. */
  get cursor(): string {
    return this.#cursor
  }

  /** A later one, as good to resume from, where events of later days did not fit the filter: that of the last event sent expires. */
  get resume(): string | undefined {
    return this.#resume
  }

  start(): void {
    this.#pump()
  }

  end(): void {
    this.#ended = true
    this.#unlisten()
  }

  get #over(): boolean {
    return this.#ended || this.#options.outlet.closed
  }

  #expire(state: LogState): void {
    if (this.#over) return
    this.end()
    this.#options.expired(state)
  }

  #pump(): void {
    if (this.#pumping) {
      this.#again = true
      return
    }
    this.#pumping = true
    this.#run()
      .catch((error: unknown) => {
        if (error instanceof PointExpired) return this.#expire(error.state)
        this.#options.services.log.warn({ err: error }, 'a subscription could not be served, trying again')
        setTimeout(() => !this.#over && this.#pump(), 500).unref()
      })
      .finally(() => {
        this.#pumping = false
        if (this.#again && !this.#over) this.#pump()
      })
  }

  async #run(): Promise<void> {
    const { id, outlet, tail } = this.#options
    while (!this.#over) {
      this.#again = false
      const recent = tail.after(this.#point.position)
      if (recent?.length === 0) {
        if (this.#replaying) {
          this.#replaying = false
          outlet.send(JSON.stringify({ type: 'caughtUp', id, cursor: this.#cursor }))
        }
        return
      }
      if (recent) await this.#send(recent, tail.state.latest)
      else await this.#replay()
    }
  }

  /** Reads a page of the log from where the subscription is, when it gets a turn among all that replay. */
  async #replay(): Promise<void> {
    const { services, tail, partnerId, types, traders, placed } = this.#options
    this.#replaying = true
    const filter = { types, traders: traders && [...traders] }
    const read = await tail.replay(async () => {
      if (this.#over) return undefined
      const page = await readEvents(services.db, { partnerId, point: this.#point, limit: REPLAYED_AT_ONCE, ...filter })
      const entries = page.events.map(row => entryOf(services, page.state.epoch, row))
      // Made within the turn, since it takes longer than reading.
      for (const entry of entries) entry.json(placed)
      return { entries, next: page.next }
    })
    if (read) await this.#send(read.entries, read.next)
  }

  /** Sends those that fit, then moves on to `upTo`; stops where the socket is closed. */
  async #send(entries: readonly Entry[], upTo: Point): Promise<void> {
    const { id, outlet, placed } = this.#options
    const quoted = JSON.stringify(id)
    for (const entry of entries) {
      if (this.#over) return
      const event = this.#fits(entry) ? entry.json(placed) : null
      if (event !== null) {
        const frame = `{"type":"event","id":${quoted},"cursor":"${entry.cursor}","previous":"${this.#cursor}","event":${event}}`
        const more = outlet.send(frame)
        if (!this.#replaying) observeFrame((Date.now() - entry.at) / 1000)
        this.#cursor = entry.cursor
        this.#point = { epoch: upTo.epoch, position: entry.position, day: entry.day }
        this.#resume = undefined
        this.#resumeDay = entry.day
        if (!more) return outlet.drained()
      }
    }
    this.#point = upTo
    if (upTo.day <= this.#resumeDay) return
    this.#resume = this.#options.cursorOf(upTo)
    this.#resumeDay = upTo.day
  }

  #fits({ type, trader }: Entry): boolean {
    if (this.#types && !this.#types.has(type)) return false
    return !this.#traders || (trader !== null && this.#traders.has(trader))
  }
}
