// Chance from a seed: the same seed draws the same things, whatever the machine.

export interface Random {
  /** A whole number from 0 up to, not including, `limit`. */
  below(limit: number): number
  pick<T>(from: readonly T[]): T
  /** An amount from 0.01 to `most`, small ones as likely as large ones. */
  amount(most: number): string
}

/** mulberry32: 32 bits of state, good enough to stir a storm. */
export function seeded(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    below,
    pick: from => from[below(from.length)] as (typeof from)[number],
    amount: most => (Math.max(1, Math.round(most * 100 * next() ** 4)) / 100).toFixed(2)
  }
}
