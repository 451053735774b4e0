// The owners of a number of places. A partner may take one as long as it has fewer than are free: alone it can have
// half of them, two busy ones a third each, and so on. The last tenth is for partners without any, one each.

const RESERVED = 0.1

export class Shares {
  readonly #places: number
  readonly #reserved: number
  readonly #counts = new Map<string, number>()
  #taken = 0

  constructor(places: number) {
    this.#places = places
    this.#reserved = Math.ceil(places * RESERVED)
  }

  /** Free places. */
  get free(): number {
    return this.#places - this.#taken
  }

  /** How many more places the partner may take now; of undefined: a partner without any. */
  roomOf(partner: string | undefined): number {
    const own = partner === undefined ? 0 : (this.#counts.get(partner) ?? 0)
    const least = own === 0 && this.free > 0 ? 1 : 0
    return Math.max(least, Math.min(Math.ceil((this.free - own) / 2), this.free - this.#reserved))
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
