// Which accounts are claimed for again once their order is out of the way. The statement that opens an order shows what waited
// when it began; what is queued later is passed over by a claim that still finds the order being sent, and noted here. So the
// end of an order needs no read of its own.

interface PendingClaim {
  /** Its outcome: the accounts for which it claimed nothing. Returns those that are to be claimed for at once. */
  found(unclaimed: string[]): string[]
  /** Its outcome is not known: it may have passed over any account. */
  lost(): void
}

export class PassedOver {
  readonly #underWay = new Map<string, number>()
  readonly #passed = new Set<string>()
  /** For each claim under way, the accounts whose orders ended meanwhile: it may not have seen that. */
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

  /** It is out of the way; returns whether a claim has passed over the account meanwhile. */
  end(accountId: string): boolean {
    const left = (this.#underWay.get(accountId) ?? 0) - 1
    if (left > 0) this.#underWay.set(accountId, left)
    else this.#underWay.delete(accountId)
    for (const ended of this.#claims) ended.add(accountId)
    return this.#passed.delete(accountId)
  }
}
