// Which accounts to claim for again when their order is no longer under way. The statement that opens an order returns whether
// others were waiting when it began; of what is queued later, a claim that still found the order under way is noted here. So the
// end of an order needs no read.

interface PendingClaim {
  /** The claim returned: `unclaimed` are accounts for which it claimed nothing. Returns those to claim for again at once. */
  found(unclaimed: string[]): string[]
  /** The claim's outcome is unknown: it may have passed over any account. */
  lost(): void
}

export class PassedOver {
  readonly #underWay = new Map<string, number>()
  readonly #passed = new Set<string>()
  /** For each claim under way, the accounts whose orders ended meanwhile: the claim may not have seen that. */
  readonly #claims = new Set<Set<string>>()

  /** A claiming statement begins. */
  claiming(): PendingClaim {
    const ended = new Set<string>()
    this.#claims.add(ended)
    return {
      found: unclaimed => {
        this.#claims.delete(ended)
        for (const accountId of unclaimed) if (this.#underWay.has(accountId)) this.#passed.add(accountId)
        return unclaimed.filter(accountId => !this.#underWay.has(accountId) && ended.has(accountId))
      },
      lost: () => {
        this.#claims.delete(ended)
        for (const accountId of this.#underWay.keys()) this.#passed.add(accountId)
      }
    }
  }

  /** An order of the account was claimed. */
  begin(accountId: string): void {
    this.#underWay.set(accountId, (this.#underWay.get(accountId) ?? 0) + 1)
  }

  /** The order is no longer under way; returns whether a claim has passed over the account meanwhile. */
  end(accountId: string): boolean {
    const left = (this.#underWay.get(accountId) ?? 0) - 1
    if (left > 0) this.#underWay.set(accountId, left)
    else this.#underWay.delete(accountId)
    for (const ended of this.#claims) ended.add(accountId)
    return this.#passed.delete(accountId)
  }
}
