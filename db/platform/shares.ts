// The owners of a number of places. A partner may take one as long as it has fewer than are free: alone it can have
// half of them, two busy ones a third each, and so on, and a partner without any always finds one.

export class Shares {
  readonly #places: number
  readonly #counts = new Map<string, number>()
  #taken = 0

  constructor(places: number) {
    this.#places = places
  }

  /** Free places. */
  get free(): number {
    return this.#places - this.#taken
  }

  /** How many more places the partner may take now; of undefined: a partner without any. */
  roomOf(partner: string | undefined): number {
    const own = partner === undefined ? 0 : (this.#counts.get(partner) ?? 0)
    return Math.max(0, Math.ceil((this.free - own) / 2))
  }

  /** The partners that have places, and how many more each may take. */
  taken(): { partners: string[]; rooms: number[] } {
    const partners = [...this.#counts.keys()]
    return { partners, rooms: partners.map(partner => this.roomOf(partner)) }
  }

  /** The partners that may take none. */
  full(): string[] {
    return [...this.#counts.keys()].filter(partner => this.roomOf(partner) === 0)
  }

  add(partner: string): void {
    this.#taken += 1
    this.#counts.set(partner, (this.#counts.get(partner) ?? 0) + 1)
  }

  remove(partner: string): void {
    const left = (this.#counts.get(partner) ?? 0) - 1
    this.#taken -= 1
    if (left > 0) this.#counts.set(partner, left)
    else this.#counts.delete(partner)
  }
}
