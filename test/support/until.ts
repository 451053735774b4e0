// Waiting for changes without a notification.
import { stretched } from './busy.ts'

/** A time-out for looks that take long by themselves: a few of them, and more while the machine is busy. */
export const FEW_LOOKS_MS = 20

/**
 * Waits until `look` returns something; throws with `what` when it has paused for `timeoutMs` without. Only the pauses
 * count, and more of them while the machine is busy, so that a slow one waits longer, not in vain. Pauses grow to a twentieth of what
 * was waited, at most 100 ms: looking is not free.
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false | null> | T | undefined | false | null,
  timeoutMs = 10_000
): Promise<T> {
  let pausedMs = 0
  for (;;) {
    const found = await look()
    if (found) return found
    if (pausedMs >= stretched(timeoutMs)) throw new Error(`waited ${Math.round(pausedMs)} ms for ${what}`)
    const pauseMs = Math.min(100, Math.max(10, pausedMs / 20))
    await new Promise(resolve => setTimeout(resolve, pauseMs))
    pausedMs += pauseMs
  }
}
