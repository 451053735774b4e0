// Time as the order path sees it. The process's own clock in production; the simulation of the order path
// puts a virtual one in its place.

export interface Clock {
  /** Monotonic milliseconds: permits are checked against it. */
  now(): number
  /** Milliseconds since the epoch. */
  wall(): number
  /** Calls `then` after `ms`; the returned function cancels it. */
  after(ms: number, then: () => void): () => void
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms)
    return () => clearTimeout(timer)
  }
}

/** Resolves after `ms`. */
export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise(resolve => void clock.after(ms, resolve))
}
