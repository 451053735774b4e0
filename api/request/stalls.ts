// How long requests may have waited before this process read them. While it does not run (stopped, its machine suspended, or busy
// without a pause) the kernel takes connections and requests for it, and afterwards it accepts one connection in each turn of its
// event loop; whoever sent a request may be gone when it is read at last. An order's time to live counts from when it was sent
// (api/orders/orders.ts), so this counts as well.
import type { EventEmitter } from 'node:events'

const TICK_MS = 100
// Shorter ones delay what waits for them by less than anybody notices.
const NOTED_MS = 400
// For so long after a stall a request on an open connection may be one that waited: it is read in the next turns.
const READING_MS = 1000
// What was lost longer ago is over for any request that is being received (listen.ts).
const LOST_MS = 60_000
// Connections that the kernel keeps for a server at most: Node's own bound, and one more.
const QUEUE = 512

export interface Stalls {
  /** Notes when the connections of a server may have been made. */
  watch(server: EventEmitter): void
  /** To be called where a request is read from a connection; returns how long ago it may have been sent, ms. */
  read(socket?: object): () => number
  /** For how much of the last minute this process did not run, ms: a client that has sent its request may not be held to that time. */
  lostMs(): number
  close(): void
}

/** Watches this process; `clock` has the greater of what its clocks have counted, ms; `every` calls until what it returns is called. */
export function openStalls(clock: () => number = greaterOfClocks(), every = byTimer): Stalls {
  let tickedAt = clock()
  /** The last stall, and those before it that it followed within moments: from when, and until when. */
  let stall: { from: number; until: number } | undefined
  /** All of the last minute, oldest first. */
  let lost: { from: number; until: number }[] = []
  /** When the oldest connection may have been made that the kernel keeps; undefined while it keeps none. */
  let queuedFrom: number | undefined
  /** Of the last connections: when each was accepted. */
  const accepted: number[] = new Array(QUEUE).fill(-Infinity)
  let count = 0
  const made = new WeakMap<object, number>()

  /** Whether it ran late, which is noted. */
  function look(now: number): void {
    if (now - tickedAt < TICK_MS + NOTED_MS) return
    const follows = stall !== undefined && tickedAt - stall.until < READING_MS
    stall = { from: follows ? (stall?.from as number) : tickedAt, until: now }
    // One that is looked at again before the timer is served is the same one.
    if (lost.at(-1)?.from === tickedAt) lost.pop()
    lost.push({ from: tickedAt, until: now })
  }

  function sentSince(now: number): number {
    // What the kernel has taken may be read before the timer is served.
    look(now)
    return stall !== undefined && now - stall.until < READING_MS ? stall.from : now
  }

  /** Ends the queue in the first turn of the event loop in which no connection was accepted. */
  function followQueue(): void {
    const before = count
    setImmediate(() => {
      if (count !== before) followQueue()
      else queuedFrom = undefined
    })
  }

  function accept(socket: object): void {
    const now = clock()
    if (queuedFrom === undefined) {
      queuedFrom = sentSince(now)
      // From the end of this turn on.
      setImmediate(followQueue)
    }
    const slot = count % QUEUE
    // As it was made the kernel kept fewer than QUEUE others, so that the one before those had been accepted.
    made.set(socket, Math.max(queuedFrom, accepted[slot] as number))
    accepted[slot] = now
    count += 1
  }

  const close = every(TICK_MS, () => {
    const now = clock()
    look(now)
    tickedAt = now
  })
  return {
    watch: server => void server.on('connection', accept),
    read(socket = {}) {
      const now = clock()
      // Of the first request on it; over TLS the client sends it after it was accepted.
      const sentAt = Math.min(sentSince(now), made.get(socket) ?? now)
      made.delete(socket)
      return () => clock() - sentAt
    },
    lostMs() {
      const now = clock()
      look(now)
      lost = lost.filter(({ until }) => now - until < LOST_MS)
      return lost.reduce((sum, { from, until }) => sum + until - from, 0)
    },
    close
  }
}

function byTimer(ms: number, tick: () => void): () => void {
  const timer = setInterval(tick, ms)
  timer.unref()
  return () => clearInterval(timer)
}

/** The monotonic clock stops while the machine is suspended, the wall clock may be set: the one that has counted more, each time. */
function greaterOfClocks(): () => number {
  let [monotonic, wall, counted] = [performance.now(), Date.now(), 0]
  return () => {
    const [nextMonotonic, nextWall] = [performance.now(), Date.now()]
    counted += Math.max(nextMonotonic - monotonic, nextWall - wall, 0)
    monotonic = nextMonotonic
    wall = nextWall
    return counted
  }
}
