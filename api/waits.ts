// How long a request may go on waiting for a worker or a settlement: until its caller is gone, or this process stops.
import type { ServerResponse } from 'node:http'

export interface Waits {
  /** Aborts when the caller goes away before its answer is out, or when all waits end. */
  signalFor(response: ServerResponse): AbortSignal
  /** From now on nobody waits: each request answers with what is known. */
  endAll(): void
}

/** The waits of one process. */
export function openWaits(): Waits {
  const waiting = new Set<AbortController>()
  let ended = false
  return {
    signalFor(response) {
      const wait = new AbortController()
      if (ended || response.destroyed) wait.abort()
      else waiting.add(wait)
      response.once('close', () => {
        waiting.delete(wait)
        if (!response.writableFinished) wait.abort()
      })
      return wait.signal
    },
    endAll() {
      ended = true
      for (const wait of waiting) wait.abort()
    }
  }
}
