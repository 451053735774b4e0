// Everything a simulation leaves to chance, drawn from its seed, and the count of what came up.
import { random } from '../../worker/simulator/engine/random.ts'
import type { DialectName } from '../support/dialects.ts'

export class Chance {
  readonly #next: () => number

  constructor(seed: number) {
    this.#next = random(seed)
  }

  /** In [0, 1). */
  next(): number {
    return this.#next()
  }

  /** Whether something of probability `p` happens. */
  is(p: number): boolean {
    return this.#next() < p
  }

  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + Math.floor(this.#next() * (high - low + 1))
  }

  of<T>(list: readonly T[]): T {
    return list[Math.floor(this.#next() * list.length)] as T
  }

  /** A key of `weights`, as often as its weight demands. */
  weighted<Key extends string>(weights: Record<Key, number>): Key {
    const entries = Object.entries(weights) as [Key, number][]
    let left = this.#next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [key, weight] of entries) {
      left -= weight
      if (left < 0) return key
    }
    return entries.at(-1)![0]
  }
}

/** What may go wrong, and how often. Probabilities are per occasion, weights relative. */
export interface FaultRates {
  /** Lives for each account, and the most that begin in a virtual second. */
  livesOfAccount: number
  livesPerSecond: number
  /** How many stakes there are; the fewer, the more orders of an account are for the same. */
  stakes: number
  /** What becomes of a buy once it is written. */
  buys: Record<BuyFate, number>
  /** A delivery to a worker or an api process kills, or freezes, it instead. */
  crash: number
  freeze: number
  /** A statement is lost before or after its effect, or times out without one. */
  statement: number
  /** A statement is done, and its response comes seconds later. */
  slow: number
  /** A worker loses its connection to the broker, per virtual second. */
  disconnect: number
  /** A hint is lost, or comes twice. */
  hint: number
  /** A buy waits before it is written, for the budget of calls. */
  wait: number
  /** A call that reads or sells is refused or lost. */
  call: number
  /** A stream ends without its settlement being reported. */
  stream: number
  /** The database is away for seconds, the broker for longer, per virtual second. */
  outage: number
  /** A freeze is that of the whole machine, whose monotonic clock is frozen. */
  suspend: number
  /** How far clocks are off at most, ms, and how often one jumps, per virtual second. */
  clocks: { workers: number; broker: number; database: number; jump: number }
  /** The database's server dies, and what it acknowledged last is gone unless a session insists; per virtual second. */
  forget: number
  /** Whether workers use their real dialect, on frames. */
  frames: boolean
  /** A state has a field that is missing, null, of another type or out of range. */
  spoil: number
  /** An account's token is refused from now on, until its trader comes with another; per virtual second. */
  revoke: number
  /** An operator halts trading in a scope, or resumes it; per virtual second. */
  halt: number
  /** Whether traders follow each other, so that orders are copied. */
  copying: boolean
  /** A job comes once more after it was done. */
  repeat: number
  /** Longer than that no order may remain as it is that its living worker claimed and did not send, ms. */
  standstillMs: number
  /** So long after the last life began nothing goes wrong any more. */
  calmAfterMs: number
}

export type BuyFate =
  | 'done'
  | 'slow'
  | 'late response'
  | 'lost response'
  | 'lost response, lists refused'
  | 'lost request'
  | 'cut before'
  | 'cut after'
  | 'held, run after the reset'
  | 'cut, run late'
  | 'time-out, not run'
  | 'time-out, run late'
  | 'held, run and shown as late as can be'
  | 'rate limit'
  | 'no funds'
  | 'bad contract'
  | 'market closed'
  | 'token refused'
  | 'lost response, bought twice by the trader'
  | 'lost request, bought by another application'
  | 'lost request, bought by the trader before'
  | 'lost request, bought by the trader after'
  | 'lost request, the trader bought something else'
  | 'lost request, the trader bought something unreadable'
  | 'lost response, unreadable'
  | 'frozen before the write'

const usual: FaultRates = {
  livesOfAccount: 1,
  // As many as the processes can serve, for then statements serve the most lives each.
  livesPerSecond: 2500,
  stakes: 900,
  buys: {
    done: 84,
    slow: 1,
    'late response': 1,
    'lost response': 1.2,
    'lost response, lists refused': 0.2,
    'lost request': 1.2,
    'cut before': 0.05,
    'cut after': 0.05,
    // These come with the mode that is about them.
    'held, run after the reset': 0,
    'held, run and shown as late as can be': 0,
    'cut, run late': 0,
    'time-out, not run': 0.6,
    'time-out, run late': 1,
    'rate limit': 1.5,
    'no funds': 1.5,
    'bad contract': 1,
    'market closed': 1,
    'token refused': 0.2,
    'lost response, bought twice by the trader': 0.2,
    'lost request, bought by another application': 0.3,
    'lost request, bought by the trader before': 0.3,
    'lost request, bought by the trader after': 0.3,
    'lost request, the trader bought something else': 0.3,
    'lost request, the trader bought something unreadable': 0.1,
    'lost response, unreadable': 0.1,
    'frozen before the write': 0
  },
  crash: 1 / 100_000,
  freeze: 1 / 150_000,
  statement: 1 / 400,
  slow: 1 / 2000,
  disconnect: 1 / 20,
  hint: 1 / 50,
  wait: 0.03,
  call: 1 / 50,
  stream: 1 / 60,
  outage: 1 / 60,
  suspend: 0,
  clocks: { workers: 400, broker: 7000, database: 0, jump: 0 },
  forget: 0,
  frames: false,
  spoil: 0,
  revoke: 0,
  halt: 0,
  copying: false,
  repeat: 0,
  // A reset and what follows it take a while where nothing responds; a claim nobody knows of would wait for 68 s.
  standstillMs: 40_000,
  // Orders in doubt of the last lives are resolved, more than once, while things go wrong.
  calmAfterMs: 40_000
}

const times = (factor: number, fates: BuyFate[]): FaultRates['buys'] => {
  const buys = { ...usual.buys }
  for (const fate of fates) buys[fate] *= factor
  return buys
}

const fates = Object.keys(usual.buys) as BuyFate[]
const doubts: BuyFate[] = [
  'slow',
  'late response',
  'lost response',
  'lost request',
  'time-out, not run',
  'time-out, run late'
]

// Faults delay the resolution of orders in doubt until nothing can come too late for it any more: what a mode concentrates on is checked
// in a calm world.
const prompt: FaultRates = { ...usual, calmAfterMs: 15_000 }

/** What a simulation concentrates on. */
export const modes = {
  usual,
  /** The database loses statements, or responds late, often. */
  database: { ...prompt, statement: 1 / 25, slow: 1 / 25, outage: 1 / 15 },
  /** The broker leaves orders in doubt. */
  broker: {
    ...prompt,
    buys: times(5, fates.slice(1)),
    disconnect: 1 / 3,
    call: 1 / 12,
    stream: 1 / 10
  },
  /** Processes die and freeze. */
  crashes: { ...prompt, crash: 1 / 25_000, freeze: 1 / 35_000 },
  /** Workers also freeze between their last check and the write, which no protocol can exclude. */
  frozen: { ...prompt, buys: { ...usual.buys, 'frozen before the write': 2 } },
  /** Clocks are seconds off, in both directions, and jump. */
  clocks: {
    ...prompt,
    // Whose a purchase is cannot be decided by times that jump, nor which one it is where its terms cannot be read, either.
    buys: {
      ...times(5, doubts),
      'lost response, unreadable': 0,
      'lost request, bought by another application': 0,
      'lost request, bought by the trader before': 0,
      'lost request, bought by the trader after': 0
    },
    clocks: { workers: 12_000, broker: 9000, database: 2000, jump: 1 / 4 }
  },
  /** What was sent comes as late as anything allows, while its sender lives. */
  late: {
    ...prompt,
    buys: {
      ...usual.buys,
      'held, run after the reset': 4,
      'held, run and shown as late as can be': 1,
      'cut, run late': 0.2
    }
  },
  /** Machines are suspended, clocks and all. */
  suspended: { ...prompt, freeze: 1 / 1500, suspend: 0.8, wait: 0.3 },
  /** The database's server dies with what it has acknowledged. */
  forgetful: { ...prompt, forget: 1 / 6, outage: 1 / 15 },
  /** Workers use the real dialects, within the broker's caps on calls and connections. */
  frames: { ...prompt, frames: true, livesOfAccount: 6, livesPerSecond: 150, buys: times(2, fates.slice(1)) },
  /** States make no sense, and tokens are refused while contracts are open. */
  spoiled: { ...prompt, frames: true, livesOfAccount: 6, livesPerSecond: 150, spoil: 1 / 8, revoke: 1 / 2 },
  /** Trading is halted and resumed while processes die and purchases wait. Statements are not lost: a halt is known in time. */
  halted: {
    ...prompt,
    halt: 1 / 2,
    livesPerSecond: 40,
    statement: 0,
    slow: 0,
    wait: 0.4,
    crash: 1 / 5000,
    freeze: 1 / 10_000
  },
  /** Orders are copied to followers, closed early, and lost on the way there. */
  copying: {
    ...prompt,
    copying: true,
    repeat: 1 / 20,
    livesOfAccount: 5,
    livesPerSecond: 150,
    crash: 1 / 40_000,
    freeze: 1 / 50_000,
    statement: 1 / 100,
    outage: 1 / 40
  },
  /** Many orders of the same terms wait for few accounts. */
  crowded: {
    ...prompt,
    livesOfAccount: 25,
    livesPerSecond: 200,
    stakes: 2,
    // What a trader buys after one order's time would fall into that of the next of its terms.
    buys: { ...times(1 / 4, fates.slice(1)), 'lost request, bought by the trader after': 0 },
    outage: 1 / 100
  }
} as const satisfies Record<string, FaultRates>

export type SimulationMode = keyof typeof modes

const inTurn = [
  ...(['database', 'broker', 'crashes', 'frozen', 'crowded', 'clocks'] as const),
  ...(['late', 'suspended', 'forgetful', 'frames', 'spoiled', 'copying', 'halted'] as const)
]

/** The mode of a seed where none is requested: each has its turn, and nearly a fifth of all are the usual mix. */
export function modeOf(seed: number): SimulationMode {
  return inTurn[seed % 16] ?? 'usual'
}

/** The dialect of a seed where none is requested. The audit, by which `frozen` is judged, needs the first one. */
export function dialectOf(seed: number, mode: SimulationMode): DialectName {
  // Each mode comes in both.
  return mode !== 'frozen' && (seed + Math.floor(seed / 16)) % 4 === 1 ? 'next' : 'v3'
}

// In the newer dialect each connection costs a REST call, of which the broker allows an address 1,000 in ten minutes:
// accounts beyond that, or a network that fails every few seconds, wait longer for it than a simulation lasts.
const FRAMED_NEXT = { lives: 1000, disconnect: 1 / 400 }

/** The faults of a mode in a dialect. */
export function faultRatesOf(mode: SimulationMode, dialect: DialectName): FaultRates {
  const faults: FaultRates = modes[mode]
  return faults.frames && dialect === 'next' ? { ...faults, disconnect: FRAMED_NEXT.disconnect } : faults
}

/** How many of `lives` one simulation of a mode takes. */
export function livesOf(mode: SimulationMode, dialect: DialectName, lives: number): number {
  return modes[mode].frames && dialect === 'next' ? Math.min(lives, FRAMED_NEXT.lives) : lives
}

/** How often each kind of event came up. */
export class Counts {
  readonly #counts = new Map<string, number>()

  add(kind: string, times = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + times)
  }

  all(): Record<string, number> {
    return Object.fromEntries([...this.#counts].sort(([a], [b]) => a.localeCompare(b)))
  }
}
