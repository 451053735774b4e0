// Waiting in tests without a clock: a condition is checked on every turn of the event loop.

/** Resolves when the condition holds, within 10 s. */
export async function upTo(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`did not come true: ${condition}`)
    await new Promise(resolve => setImmediate(resolve))
  }
}
