// A clock for the simulated broker that holds what is due after a certain time until the test lets it happen.
import { type Clock, systemClock } from '../../worker/platform/clock.ts'

/** What is due after so many ms is held. */
export const HELD_MS = 123_457

/** The system's clock, what it holds, and `letGo`, which runs that in the order in which it began to wait. */
export function openHeldClock(): { clock: Clock; held: readonly unknown[]; letGo(): void } {
  const held: (() => void)[] = []
  const after = (ms: number, run: () => void) => {
    if (ms !== HELD_MS) return systemClock.after(ms, run)
    held.push(run)
    return () => {}
  }
  return {
    clock: { ...systemClock, after },
    held,
    letGo() {
      for (const run of held.splice(0)) run()
    }
  }
}
