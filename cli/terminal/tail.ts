// What `tail` commands have in common: reading on until the process is interrupted, when woken and every second.

// A hint of something new may be lost.
const REREAD_MS = 1000

interface TailLoop {
  /** Whether the process was interrupted. */
  readonly stopped: boolean
  /** Reads at once instead of after the rest of the second. */
  wake(): void
}

/** Calls the function that `prepare` returns again and again, until SIGINT or SIGTERM. */
export async function tailUntilInterrupted(prepare: (tail: TailLoop) => Promise<() => Promise<void>>): Promise<void> {
  let stopped = false
  let wake = () => {}
  const tail: TailLoop = {
    get stopped() {
      return stopped
    },
    wake: () => wake()
  }
  const stop = () => {
    stopped = true
    wake()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  const read = await prepare(tail)
  while (!stopped) {
    await read()
    if (stopped) break
    await new Promise<void>(resolve => {
      const timer = setTimeout(resolve, REREAD_MS)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
