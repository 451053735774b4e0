// Wakes the sequencer of the event log after orders changed. Code that writes orders gives the signal, startWork
// listens.

export interface OrderSignal {
  give(): void
  /** Calls `listener` at each signal from now on. */
  listen(listener: () => void): void
}

export function openSignal(): OrderSignal {
  const listeners: (() => void)[] = []
  return {
    give() {
      for (const listener of listeners) listener()
    },
    listen(listener) {
      listeners.push(listener)
    }
  }
}
