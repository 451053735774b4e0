// How long requests may have waited before this process read them. While the process does not run (stopped, suspended with its
// machine, or busy) the kernel accepts connections and requests for it; afterwards Node takes one connection in each turn of the
// event loop. An order's time to live counts from when the request was sent (api/orders/placing.ts), so this time counts as well.
import type { EventEmitter } from 'node:events'

const TICK_MS = 100
// Shorter stalls delay requests too little to matter.
const NOTED_MS = 400
// For this long after a stall, a request on an open connection may have waited for its end.
const READING_MS = 1000
// No request that is still being received was affected by an older stall (listen.ts).
const LOST_MS = 60_000
// Connections that the kernel queues for a server at most: Node's default backlog, and one more.
const QUEUE = 512

export interface Stalls {
  /** Notes when each connection of a server may have been opened. */
  watch(server: EventEmitter): void
  /** Call it when a request is read from a connection; the returned function gives the time since it may have been sent, ms. */
  read(socket?: object): () => number
  /** For how much of the last minute this process did not run, ms: that time is not counted against a client that was sending. */
  lostMs(): number
  close(): void
}

/** Watches this process. `clock` counts milliseconds; `every` calls a function at intervals until the function it returned is called. */
export function openStalls(clock: () => number = greaterOfClocks(), every = byTimer): Stalls {
  let tickedAt = clock()
  /** The last stall, from and until; stalls that followed each other within READING_MS are one. */
  let stall: { from: number; until: number } | undefined
  /** The stalls of the last minute, oldest first. */
  let lost: { from: number; until: number }[] = []
  /** When the oldest connection in the kernel's queue may have been opened; undefined while the queue is empty. */
  let queuedFrom: number | undefined
  /** When each of the last QUEUE connections was accepted. */
  const accepted: number[] = new Array(QUEUE).fill(-Infinity)
  let count = 0
  const made = new WeakMap<object, number>()

  /** Notes a stall if the timer runs late. */
  function noteStall(now: number): void {
    if (now - tickedAt < TICK_MS + NOTED_MS) return
    const follows = stall !== undefined && tickedAt - stall.until < READING_MS
    stall = { from: follows ? (stall?.from as number) : tickedAt, until: now }
    // Checked again before the timer ran: it is the same stall, which has become longer.
    if (lost.at(-1)?.from === tickedAt) lost.pop()
    lost.push({ from: tickedAt, until: now })
  }

  function sentSince(now: number): number {
    // A request may be read before the late timer runs.
    noteStall(now)
    return stall !== undefined && now - stall.until < READING_MS ? stall.from : now
  }

  /** The queue is empty at the first turn of the event loop in which no connection was accepted. */
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
      // Begins at the end of this turn.
      setImmediate(followQueue)
    }
    const slot = count % QUEUE
    // The queue holds fewer than QUEUE others: when this connection was opened, the one QUEUE places before it had been accepted.
    made.set(socket, Math.max(queuedFrom, accepted[slot] as number))
    accepted[slot] = now
    count += 1
  }

  const close = every(TICK_MS, () => {
    const now = clock()
    noteStall(now)
    tickedAt = now
  })
  return {
    watch: server => void server.on('connection', accept),
    read(socket = {}) {
      const now = clock()
      // The age of the connection counts for its first request only; over TLS the client sends that after the connection was accepted.
      const sentAt = Math.min(sentSince(now), made.get(socket) ?? now)
      made.delete(socket)
      return () => clock() - sentAt
    },
    lostMs() {
      const now = clock()
      noteStall(now)
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

/** Counts the greater step of two clocks: the monotonic one stops while the machine is suspended, the wall clock may be set. */
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
