// The options of a simulated broker, in code and on the command line.
import { parseArgs } from 'node:util'
import type { AccountPreset } from './engine/accounts.ts'
import type { WallClock } from './engine/agenda.ts'
import type { Markup } from './engine/engine.ts'
import type { Journal } from './engine/journal.ts'
import type { CallQuotas } from './engine/quota.ts'
import type { AppId } from './engine/records.ts'
import type { FaultSettings } from './faults.ts'

export interface SimulatorOptions {
  /** The address it listens at. Default 127.0.0.1. */
  host?: string
  /** Its port; 0, the default, takes a free one. */
  port?: number
  /** Interval of all ticks; null (default) for the symbols' real ones of one or two seconds. */
  tickMs?: number | null
  /** Same seed, same prices, same faults. Default 1. */
  seed?: number
  latencyMs?: number
  jitterMs?: number
  /** File that purchases and sales are appended to, and read from at the start. */
  journal?: string
  /** Instead of a file: a journal that writes later, and `after`, which runs something once all so far is written. */
  books?: { journal: Journal; after(run: () => void): void }
  /** Whether there are controls under /control. Default true. */
  controlled?: boolean
  /** Call budgets of both dialects: the published ones (default), others, or none. A class left out is not limited. */
  limits?: 'published' | 'off' | CallQuotas
  /** REST calls of the newer dialect granted to an address in a minute; ten minutes in proportion. Default 300, as published. */
  restCalls?: number
  /** From the end of a contract to its settlement; default half a tick with tickMs, else 500. */
  settlementDelayMs?: number
  /** Divides the real length of timed contracts; never shorter than three ticks. Default 1. */
  timeScale?: number
  /** Lenient accepts numbers for strings and the reverse, as the live broker does. Default strict. */
  mode?: 'strict' | 'lenient'
  /** Idle connections are closed after this. Default 120 000. */
  idleMs?: number
  /** Where the newer dialect's one-time addresses lead, ws://host:port; default the broker's own port. */
  socketBase?: string
  /** Application ids that are refused. */
  revokedAppIds?: AppId[]
  /** Accounts there are from the start. */
  accounts?: AccountPreset[]
  /** What applications charge on every purchase; none by default. */
  markup?: Markup
  faults?: Partial<FaultSettings>
  /** Stakes of magic.ts provoke their trouble. Default false. */
  magic?: boolean
  /** Most contracts remembered; older closed ones are forgotten. Default 500 000. */
  maxContracts?: number
  clock?: WallClock
}

/** A wrong command line; the message names the option. */
export class OptionsError extends Error {}

export const usage = `Options of the simulated broker:
  --port N                 port on 127.0.0.1 (0: any free one)
  --tick-ms MS             interval of all ticks, instead of the real one or two seconds
  --seed N                 same seed, same prices and same faults (1)
  --latency-ms MS          time between a request and its response (0)
  --jitter-ms MS           added to the latency at random (0)
  --settlement-delay-ms MS time between the end of a contract and its settlement
  --time-scale N           divides the length of contracts in seconds and more (1)
  --limits published|off   call budgets (published)
  --rest-calls N           REST calls a minute granted to an address (300)
  --lenient                accept numbers for strings and strings for numbers
  --idle-ms MS             close connections that say nothing for so long (120000)
  --journal FILE           keep contracts in a file over restarts
  --socket-base ADDRESS    where one-time addresses lead: ws://host:port of what is before this broker
  --revoked-app-ids A,B    application ids to refuse
  --markup-pct N           markup of every application in percent, 0 to 3 (0)
  --markup-on-top          charge the markup beside the stake instead of taking it from what a win pays
  --magic                  stakes like 4.01 USD provoke refusals, doubts and delays (see Testing in the reference)
  --help                   show this`

const numbers = {
  port: { min: 0, max: 65_535 },
  'tick-ms': { min: 1, max: 60_000 },
  seed: { min: 0, max: 4_294_967_295 },
  'latency-ms': { min: 0, max: 60_000 },
  'jitter-ms': { min: 0, max: 60_000 },
  'settlement-delay-ms': { min: 0, max: 3_600_000 },
  'time-scale': { min: 1, max: 1_000_000 },
  'idle-ms': { min: 100, max: 86_400_000 },
  'rest-calls': { min: 1, max: 1_000_000 },
  'markup-pct': { min: 0, max: 3 }
} as const

/** Parses a command line; returns null for --help. Throws OptionsError. */
export function parseOptions(argv: string[]): SimulatorOptions | null {
  const text = { type: 'string' } as const
  let values: Record<string, string | boolean | undefined>
  try {
    values = parseArgs({
      args: argv,
      options: {
        ...Object.fromEntries(Object.keys(numbers).map(name => [name, text])),
        limits: text,
        journal: text,
        'socket-base': text,
        'revoked-app-ids': text,
        lenient: { type: 'boolean' },
        magic: { type: 'boolean' },
        'markup-on-top': { type: 'boolean' },
        help: { type: 'boolean', short: 'h' }
      }
    }).values
  } catch (cause) {
    throw new OptionsError((cause as Error).message, { cause })
  }
  if (values.help) return null
  const given = (name: keyof typeof numbers) => readNumber(name, values[name])
  return defined({
    port: given('port'),
    tickMs: given('tick-ms'),
    seed: given('seed'),
    latencyMs: given('latency-ms'),
    jitterMs: given('jitter-ms'),
    settlementDelayMs: given('settlement-delay-ms'),
    timeScale: given('time-scale'),
    idleMs: given('idle-ms'),
    limits: readLimits(values.limits),
    restCalls: given('rest-calls'),
    journal: values.journal as string | undefined,
    mode: values.lenient ? 'lenient' : undefined,
    magic: values.magic ? true : undefined,
    markup: readMarkup(given('markup-pct'), values['markup-on-top'] === true),
    socketBase: readBase(values['socket-base']),
    revokedAppIds: readIds(values['revoked-app-ids'])
  })
}

function readNumber(name: keyof typeof numbers, value: string | boolean | undefined): number | undefined {
  if (value === undefined) return undefined
  const { min, max } = numbers[name]
  const number = Number(value)
  if (value === '' || !Number.isInteger(number) || number < min || number > max) {
    throw new OptionsError(`--${name} must be a whole number from ${min} to ${max}`)
  }
  return number
}

function readLimits(value: string | boolean | undefined): 'published' | 'off' | undefined {
  if (value === undefined || value === 'published' || value === 'off') return value
  throw new OptionsError('--limits must be published or off')
}

function readMarkup(pct: number | undefined, onTop: boolean): Markup | undefined {
  if (pct !== undefined) return { pct, onTop }
  if (onTop) throw new OptionsError('--markup-on-top needs --markup-pct')
  return undefined
}

function readBase(value: string | boolean | undefined): string | undefined {
  if (typeof value !== 'string') return undefined
  if (/^wss?:\/\/[^/?#]+$/.test(value)) return value
  throw new OptionsError('--socket-base must be ws://host:port')
}

function readIds(value: string | boolean | undefined): AppId[] | undefined {
  if (typeof value !== 'string') return undefined
  const ids = value.split(',')
  if (ids.every(id => /^[\w-]{1,64}$/.test(id))) return ids.map(id => (/^\d{1,15}$/.test(id) ? Number(id) : id))
  throw new OptionsError('--revoked-app-ids must be application ids between commas')
}

function defined(options: { [K in keyof SimulatorOptions]: SimulatorOptions[K] | undefined }): SimulatorOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
