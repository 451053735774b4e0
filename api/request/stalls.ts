// How long requests may have waited before this process read them. While it does not run (stopped, its machine suspended, or busy
// without a pause) the kernel takes connections and requests for it; whoever sent one may be gone when it is read at last. An
// order's time to live counts from when it was sent (api/orders/orders.ts), so this counts as well.

const TICK_MS = 100
// Shorter ones delay what waits for them by less than anybody notices.
const NOTED_MS = 400
// For so long after a stall a request may be one that waited: what the kernel has taken is read within moments.
const READING_MS = 1000

export interface Stalls {
  /** To be called where a request is read; returns how long ago it may have been sent, ms. */
  read(): () => number
  close(): void
}

/** Watches this process; `clock` has the greater of what its clocks have counted, ms. */
export function openStalls(clock: () => number = greaterOfClocks()): Stalls {
  let tickedAt = clock()
  /** The last stall, and those before it that it followed within moments: from when, and until when. */
  let stall: { from: number; until: number } | undefined

  /** Whether it ran late, which is noted. */
  function look(now: number): void {
    if (now - tickedAt < TICK_MS + NOTED_MS) return
    const follows = stall !== undefined && tickedAt - stall.until < READING_MS
    stall = { from: follows ? (stall?.from as number) : tickedAt, until: now }
  }

  const timer = setInterval(() => {
    const now = clock()
    look(now)
    tickedAt = now
  }, TICK_MS)
  timer.unref()
  return {
    read() {
      const now = clock()
      // What the kernel has taken may be read before the timer is served.
      look(now)
      const sentAt = stall !== undefined && now - stall.until < READING_MS ? stall.from : now
      return () => clock() - sentAt
    },
    close: () => clearInterval(timer)
  }
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
