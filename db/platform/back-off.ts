// The pauses between attempts at what fails, or between reads of what does not change: twice as long each time, up to a bound. How
// far they are spread is the caller's.

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

/** The same as an interval of SQL; `failures` is an expression. */
export const backOffInSql = (failures: string, { firstMs, mostMs }: BackOff): string =>
  `least(${mostMs}, ${firstMs} * 2 ^ least(${failures}, ${MAX_DOUBLINGS})) * interval '1 millisecond'`

// Long enough that many reads share a moment, short enough that no read is noticeably late.
const MOMENT_MS = 100

/**
 * The moment of a read that was to take place at `atMs`, by the process's monotonic clock: reads of all that wait in the process
 * take place at the same ten moments of a second, so that they share statements (db/postgres/batch.ts).
 */
export const atCommonMoment = (atMs: number): number => Math.ceil(atMs / MOMENT_MS) * MOMENT_MS
