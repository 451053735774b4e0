// The broker's refusals: read from a frame, and made into the error that a call ends with. The meaning of the codes is
// in error-codes.ts.
import { rejectionMessages } from '../../../schemas/traders/accounts.ts'
import { BrokerError } from '../broker-error.ts'
import { secondsUntil, statedOpenings } from '../hours.ts'
import type { OrderField } from '../port.ts'
import { doubt, type ErrorMapping, errorMappings, upstream } from './error-codes.ts'
import { newerErrorMappings } from './newer-error-codes.ts'
import { cut } from './reading.ts'

const known: Readonly<Record<string, ErrorMapping>> = { ...newerErrorMappings, ...errorMappings }
const patterns = Object.entries(known)
  .filter(([code]) => code.includes('*'))
  .map(([code, mapping]) => ({ matches: new RegExp(`^${code.replace('*', '\\w*')}$`), meaning: mapping }))
const marketClosed = /market (is|must be)\b.*\b(closed|open)/i
const dataMissing = /suspended due to missing/i
// No document of the newer API names its code for a purchase to which its back end did not respond in time.
const backEnd = /time_?d?_?out|internal|unavailable|gateway|back_?end|unexpected|unknown_?error/i

/** What a code means; an unknown one is upstream trouble that did not run, unless its name may be of a fault behind the gateway. */
export function mappingOf(code: string): ErrorMapping {
  return findMapping(code) ?? (backEnd.test(code) ? doubt : upstream)
}

function findMapping(code: string): ErrorMapping | undefined {
  if (Object.hasOwn(known, code)) return known[code]
  return patterns.find(({ matches }) => matches.test(code))?.meaning
}

/** The `error` of a frame, as far as it can be read. */
interface BrokerRefusal {
  code: string
  /** The coarser code, where it leaves open whether the call ran and a finer one hides it. */
  doubtful: string | undefined
  message: string
  /** Ordered values of the text; newer brokers put the opening time of a closed market first. */
  args: string[]
  /** The field that the broker names; undefined where it names none that an order has. */
  field: OrderField | undefined
}

/** Reads an error body; one that makes no sense becomes code `BadFrame`. */
export function readRefusal(error: unknown): BrokerRefusal {
  const { code, subcode, message, code_args: args, details } = (error ?? {}) as Record<string, unknown>
  // The finer code wins where we know it.
  const named = typeof subcode === 'string' && findMapping(subcode) !== undefined ? subcode : code
  const doubtful = named !== code && typeof code === 'string' && mappingOf(code).ran === 'unknown'
  return {
    code: typeof named === 'string' && /^\w{1,80}$/.test(named) ? named : 'BadFrame',
    doubtful: doubtful ? code : undefined,
    message: typeof message === 'string' ? printable(message) : 'The broker refused without a reason.',
    args: Array.isArray(args)
      ? args.slice(0, 8).map(each => (typeof each === 'object' ? '' : cut(String(each), 80)))
      : [],
    field: namedField(details)
  }
}

// What the broker calls the fields of an order, in either dialect.
const fields: Readonly<Record<string, OrderField>> = {
  amount: 'stake',
  stake: 'stake',
  symbol: 'asset',
  underlying_symbol: 'asset',
  contract_type: 'contractType',
  duration: 'duration',
  duration_unit: 'durationUnit',
  barrier: 'barrier',
  multiplier: 'multiplier',
  stop_loss: 'stopLoss',
  take_profit: 'takeProfit'
}

/** The only field that the details name: as `field`, or as the key of what is wrong with it, below `parameters` or not. */
function namedField(details: unknown): OrderField | undefined {
  if (typeof details !== 'object' || details === null) return
  const { field } = details as { field?: unknown }
  const names =
    typeof field === 'string' ? [field] : Object.keys(details).map(path => path.split(/[./]/).at(-1) as string)
  const known = names.filter(name => Object.hasOwn(fields, name))
  return known.length === 1 ? fields[known[0] as string] : undefined
}

/** The error a refused call ends with. `mayRun` is true for calls that change something: buy and sell. */
export function refused(given: BrokerRefusal, mayRun: boolean): BrokerError {
  // The finer code must not make certain what the coarser one leaves in doubt: that the call did not run.
  const refusal = mayRun && given.doubtful !== undefined ? { ...given, code: given.doubtful } : given
  const mapping = mappingOf(refusal.code)
  const code = mapping.byText ? codeByText(refusal.message) : mapping.code
  const unreadable = refusal.code === 'BadFrame'
  // Where the time comes first: the text's first value, else the text itself.
  const openings = code === 'MARKET_CLOSED' ? statedOpenings([refusal.args[0] ?? '', refusal.message]) : []
  // The broker's text about a refused token is not for the partner; the way to repair it is.
  const message = mapping.rejected === true ? rejectionMessages.TOKEN_REFUSED : refusal.message
  return new BrokerError(code, message, {
    brokerCode: refusal.code,
    ran: mayRun && (unreadable || mapping.ran === 'unknown') ? 'unknown' : 'no',
    rejected: mapping.rejected === true,
    ...(mapping.rejected === true ? { cause: refusal.message } : {}),
    // By our clock for now; callers with access to the broker's clock compute it again.
    secondsUntilOpen: secondsUntil(openings, Date.now() / 1000),
    openings,
    field: code === 'INVALID_CONTRACT' ? (refusal.field ?? mapping.field) : undefined
  })
}

/** Whether the error means too many calls. */
export function isRateLimit(error: BrokerError): boolean {
  return mappingOf(error.brokerCode).rateLimit === true
}

/** Whether a broker's code means that the application was refused, for every trader. */
export function isAppRefused(brokerCode: string): boolean {
  return mappingOf(brokerCode).application === true
}

/** Whether a freshly authorised connection may accept what this one refused. */
export function wantsReauthorising(error: BrokerError): boolean {
  return mappingOf(error.brokerCode).reauthorise === true
}

/** Whether the error is about our request: a fault of ours or of our configuration. */
export function isOurFault(error: BrokerError): boolean {
  return mappingOf(error.brokerCode).alert === true
}

function codeByText(message: string): BrokerError['code'] {
  if (marketClosed.test(message)) return 'MARKET_CLOSED'
  return dataMissing.test(message) ? 'BROKER_UPSTREAM' : 'INVALID_CONTRACT'
}

/** The broker's text on one line, cut to a bound: it is stored with orders and shown to partners. */
function printable(message: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
  return cut(message.replace(/[\u0000-\u001f\u007f]+/g, ' '), 300)
}
