// What the simulated broker sees of the workers: connections of each account, and REST calls. The broker runs inside the
// program, so that both are its own counts.
import type { Simulator } from '../../worker/simulator/server.ts'

export interface Seen {
  /** Authorised connections an account, of the accounts that have one. */
  perAccount: number
  accounts: number
  /** The most of one account. */
  most: number
}

export interface Watch {
  now(): Seen
  /** The mean and the most of `perAccount` since the last call, one look every 100 ms. */
  since(): { mean: number; most: number; looks: number }
  /** The most REST calls in a minute, and those that the broker refused as too many. */
  rest(): { most: number; all: number; refused: number }
  stop(): void
}

const LOOK_MS = 100
const MINUTE_MS = 60_000

/** Begins to count. */
export function watchBroker({ next }: Pick<Simulator, 'next'>): Watch {
  const looks: number[] = []
  const calls: { at: number; count: number }[] = []
  let most = 0
  const now = (): Seen => {
    const byAccount = new Map<string, number>()
    for (const { grants } of next.front.connections)
      for (const accountId of grants.keys()) byAccount.set(accountId, (byAccount.get(accountId) ?? 0) + 1)
    const counts = [...byAccount.values()]
    const sum = counts.reduce((total, count) => total + count, 0)
    return {
      perAccount: counts.length === 0 ? 0 : sum / counts.length,
      accounts: counts.length,
      most: Math.max(0, ...counts)
    }
  }
  const look = () => {
    const { perAccount, accounts } = now()
    if (accounts > 0) looks.push(perAccount)
    const at = performance.now()
    calls.push({ at, count: next.restCalls })
    while ((calls[0]?.at ?? at) < at - MINUTE_MS) calls.shift()
    most = Math.max(most, next.restCalls - (calls[0]?.count ?? 0))
  }
  const timer = setInterval(look, LOOK_MS)
  return {
    now,
    since() {
      const taken = looks.splice(0)
      return {
        mean: taken.reduce((total, each) => total + each, 0) / Math.max(1, taken.length),
        most: Math.max(0, ...taken),
        looks: taken.length
      }
    },
    rest: () => ({ most, all: next.restCalls, refused: next.refused.rest }),
    stop: () => clearInterval(timer)
  }
}
