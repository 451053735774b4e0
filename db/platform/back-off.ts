// The pauses between attempts at what fails: twice as long each time, up to a bound. How far they are spread is the caller's.

export interface BackOff {
  firstMs: number
  mostMs: number
}

// Far enough for every bound, and no overflow.
const MAX_DOUBLINGS = 20

/** The pause in ms after `failures` further failures in a row; 0 gives `firstMs`. */
export function backOff(failures: number, { firstMs, mostMs }: BackOff): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, MAX_DOUBLINGS))
}
