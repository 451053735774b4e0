// A count over the last minute, or hour. It is unknown whether the broker's windows are fixed or sliding. This one
// slides, in steps, and drops a step only when it lies wholly in the past: then no minute of the broker's, however it
// is cut, holds more calls than it allows.

export class SlidingCount {
  limit: number
  readonly #stepMs: number
  readonly #counts: number[]
  #newest = 0
  #total = 0

  constructor(limit: number, windowMs: number, steps: number) {
    this.limit = limit
    this.#stepMs = windowMs / steps
    this.#counts = new Array(steps + 1).fill(0)
  }

  add(now: number): void {
    this.addPast(now, { ageMs: 0, calls: 1 })
  }

  /** Counts calls that were made `ageMs` ago. */
  addPast(now: number, { ageMs, calls }: { ageMs: number; calls: number }): void {
    this.#roll(now)
    const step = Math.floor((now - ageMs) / this.#stepMs)
    if (step < 0 || this.#newest - step >= this.#counts.length) return
    this.#counts[step % this.#counts.length]! += calls
    this.#total += calls
  }

  forget(): void {
    this.#counts.fill(0)
    this.#total = 0
  }

  used(now: number): number {
    this.#roll(now)
    return this.#total
  }

  left(now: number): number {
    if (this.limit <= 0) return 1
    return Math.max(0, 1 - this.used(now) / this.limit)
  }

  /** When one more call fits beside `reserve` of the limit kept free; in the past when it fits now. */
  readyAt(now: number, reserve: number): number {
    if (this.limit <= 0) return 0
    const allowed = Math.max(1, this.limit - Math.floor(this.limit * reserve))
    this.#roll(now)
    let over = this.#total - allowed + 1
    if (over <= 0) return 0
    // The oldest steps leave one by one.
    for (let age = this.#counts.length - 1; age >= 0; age--) {
      const step = this.#newest - age
      if (step < 0) continue
      over -= this.#counts[step % this.#counts.length]!
      if (over <= 0) return (step + this.#counts.length) * this.#stepMs
    }
    return now + this.#counts.length * this.#stepMs
  }

  #roll(now: number): void {
    const step = Math.floor(now / this.#stepMs)
    if (step <= this.#newest) return
    const gone = Math.min(step - this.#newest, this.#counts.length)
    for (let each = 1; each <= gone; each++) {
      const place = (this.#newest + each) % this.#counts.length
      this.#total -= this.#counts[place]!
      this.#counts[place] = 0
    }
    this.#newest = step
  }
}
