// A queue with one lane for each owner. Owners take turns, so that one with many items does not delay one with few.

export class Turns<Item> {
  // Owners in the order of their turns, each with its items in theirs.
  readonly #waiting = new Map<string, Item[]>()

  /** How many items of the owner wait. */
  countOf(owner: string): number {
    return this.#waiting.get(owner)?.length ?? 0
  }

  add(owner: string, item: Item): void {
    const own = this.#waiting.get(owner)
    if (own) own.push(item)
    else this.#waiting.set(owner, [item])
  }

  /** Takes the oldest item of the first owner that `may` take a turn, which puts it behind all others; undefined where none may. */
  take(may: (owner: string) => boolean = () => true): Item | undefined {
    for (const [owner, own] of this.#waiting) {
      if (!may(owner)) continue
      const item = own.shift()
      this.#waiting.delete(owner)
      if (own.length > 0) this.#waiting.set(owner, own)
      return item
    }
    return undefined
  }
}
