// When an event is sent again, and for how long an endpoint that fails is left alone.

import { backOff } from '../../db/platform/back-off.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

const delays = [
  5 * SECOND,
  30 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR
]

/** Attempts of one event: the first and one after each delay. */
export const MAX_ATTEMPTS = delays.length + 1

/** An endpoint that has only failed for so long is disabled. */
export const GIVEN_UP_MS = 5 * 24 * HOUR

// Spread, so that events that fail together are not sent again together.
const spread = (ms: number): number => ms * (1 + Math.random() / 10)

/** How long after failed attempt number `attempt` the event is sent again, ms; null: not again. */
export function delayAfter(attempt: number): number | null {
  const delay = delays[attempt - 1]
  return delay === undefined ? null : spread(delay)
}

const PROBES = { firstMs: 5 * SECOND, mostMs: MINUTE }

/** How long a FAILING endpoint is left alone, ms, by the failures since it became so: twice as long each time, up to a minute. */
export const probeDelay = (failures: number): number => spread(backOff(failures, PROBES))
