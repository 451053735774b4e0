// A loop over work: runs when a hint arrives or on its clock, never twice at once, and goes on while there is work. A
// hint is only a reason to check; the row or the queue is the truth.
import { backOff } from '../../db/platform/back-off.ts'
import type { Log } from '../../db/platform/log.ts'
import type { Clock } from './clock.ts'

const ERROR_PAUSES = { firstMs: 100, mostMs: 5000 }

interface Loop {
  /** There may be work now. */
  wake(): void
  /** Ends the loop; resolves when the round under way has ended, and so has all that rounds have begun. */
  stop(): Promise<void>
}

interface LoopPlan {
  everyMs: number
  round(): Promise<boolean>
  /** Resolves once all that the rounds have begun has ended; without it nothing continues after a round. */
  drain?(): Promise<void>
}

/**
 * Starts a loop. `round` returns whether to run again at once. Without hints it runs every `everyMs` (spread by a
 * tenth, so that workers do not run in step); after an error it waits, up to 5 s.
 */
export function startLoop(options: LoopPlan & { name: string; log: Log; clock: Clock }): Loop {
  let stopped = false
  let hinted = false
  let errors = 0
  let wakeUp: (() => void) | undefined

  async function run(): Promise<void> {
    while (!stopped) {
      hinted = false
      let more = false
      try {
        more = await options.round()
        errors = 0
      } catch (error) {
        errors += 1
        options.log.warn({ err: error, loop: options.name }, 'a round failed, trying again')
      }
      if (stopped || more || (hinted && errors === 0)) continue
      const pauseMs = errors > 0 ? backOff(errors, ERROR_PAUSES) : options.everyMs * (0.95 + Math.random() / 10)
      await new Promise<void>(resolve => {
        const cancel = options.clock.after(pauseMs, resolve)
        wakeUp = () => {
          cancel()
          resolve()
        }
      })
      wakeUp = undefined
    }
  }

  const running = run()
  return {
    wake() {
      hinted = true
      if (errors === 0) wakeUp?.()
    },
    async stop() {
      stopped = true
      wakeUp?.()
      await running
      await options.drain?.()
    }
  }
}

/** Starts the loops of a table, each by its name. */
export function startLoops<Name extends string>(
  { log, clock }: { log: Log; clock: Clock },
  plans: Record<Name, LoopPlan>
): Record<Name, Loop> {
  const started = Object.entries<LoopPlan>(plans).map(([name, plan]) => [
    name,
    startLoop({ ...plan, name, log, clock })
  ])
  return Object.fromEntries(started)
}
