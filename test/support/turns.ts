// Waiting in tests without a clock: a condition is checked on every turn of the event loop.
import { stretched } from './busy.ts'

const WAIT_MS = 10_000

/** Resolves when the condition holds, within 10 s, longer while the machine is busy. */
export async function upTo(condition: () => boolean | Promise<boolean>): Promise<void> {
  const startedAt = performance.now()
  while (!(await condition())) {
    const waitedMs = performance.now() - startedAt
    if (waitedMs > WAIT_MS && waitedMs > stretched(WAIT_MS)) throw new Error(`did not come true: ${condition}`)
    await new Promise(resolve => setImmediate(resolve))
  }
}
