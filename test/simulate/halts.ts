// Halts of trading in a simulation: an operator halts and resumes scopes at any moment, and no purchase of a halted scope
// may leave later than every process has to know of the halt.
import type { Halt, HaltedScope } from '../../db/platform/halts.ts'
import type { Chance, Counts } from './chance.ts'
import type { Database } from './database.ts'
import type { WorldParty } from './setup.ts'

/** Within this a halt is effective on every process whose machine and database are well. */
const KNOWN_MS = 1000
// A loop whose rounds failed while the database was away pauses for up to 5 s.
export const RECOVERED_MS = 6000
// Halts end as often as they begin, so that most orders are placed.
const MORE_RESUMED = 0.7
const SCOPES = { all: 1, partner: 2, application: 2, asset: 3 } as const

type Purchase = Pick<WorldParty, 'appId'> & { asset: string }

/** The halts in force, as the operator of a simulation knows them. Times are virtual milliseconds. */
export class HaltWatch {
  readonly #since = new Map<string, HaltedScope & { at: number }>()
  readonly #partnerOf: ReadonlyMap<string, string>

  constructor(parties: WorldParty[]) {
    this.#partnerOf = new Map(parties.map(({ appId, partnerId }) => [appId, partnerId]))
  }

  get inForce(): HaltedScope[] {
    return [...this.#since.values()]
  }

  /** Halts what chance draws, or resumes it if it is halted. */
  async turn(database: Database, { chance, counts, now }: { chance: Chance; counts: Counts; now: number }) {
    if (this.#since.size > 0 && chance.is(MORE_RESUMED)) return this.resume(database, chance.of(this.inForce))
    const scope = chance.weighted(SCOPES)
    const appId = chance.of([...this.#partnerOf.keys()])
    const asset = chance.of(['R_10', 'R_100'])
    const subject = { all: null, partner: this.#partnerOf.get(appId) as string, application: appId, asset }[scope]
    if (this.#since.has(`${scope} ${subject}`)) return this.resume(database, { scope, subject })
    await database.look(
      `insert into trading_halts (scope, subject, reason, actor) values ($1, coalesce($2, ''), 'simulated', 'operator')`,
      [scope, subject]
    )
    counts.add(`halt: ${scope}`)
    this.#since.set(`${scope} ${subject}`, { scope, subject, at: now })
  }

  async resume(database: Database, { scope, subject }: Pick<Halt, 'scope' | 'subject'>): Promise<void> {
    this.#since.delete(`${scope} ${subject}`)
    await database.look(`delete from trading_halts where scope = $1 and subject = coalesce($2, '')`, [scope, subject])
  }

  /** What is wrong with a purchase that leaves now; `wellSince` is when the last trouble of its sender was over. */
  breach({ appId, asset }: Purchase, { now, wellSince }: { now: number; wellSince: number }): string | undefined {
    const of = { all: null, partner: this.#partnerOf.get(appId), application: appId, asset }
    const halts = [...this.#since.values()].filter(({ scope, subject }) => subject === of[scope])
    const longest = Math.max(0, ...halts.map(({ at }) => now - Math.max(at, wellSince)))
    return longest > KNOWN_MS ? `${asset} was bought ${longest} ms after its halt` : undefined
  }
}
