// Identifiers on the wire: a prefix for the kind of record, and a time-ordered suffix (TypeID, UUIDv7 inside), so that
// a stray id in a log names its own table and new rows land at the end of their index.
import { typeid } from 'typeid-js'

/** The prefix of each record's identifier. */
export const prefixes = {
  partner: 'ptn',
  key: 'key',
  trader: 'trd',
  account: 'acc',
  order: 'ord',
  follow: 'fol',
  deployment: 'dep',
  trade: 'rec',
  message: 'msg',
  communityBot: 'cbt',
  bot: 'bot',
  review: 'rev',
  purchase: 'pur',
  subscription: 'sub',
  payout: 'pay',
  session: 'ses',
  brokerRequest: 'ask',
  audit: 'aud',
  entry: 'ent',
  transfer: 'trf',
  event: 'evt',
  webhook: 'whk',
  delivery: 'dlv'
} as const

export type IdKind = keyof typeof prefixes

/** A new identifier, for example `ord_01jd…`; later ones sort after earlier ones of the same process. */
export function newId(kind: IdKind): string {
  return typeid(prefixes[kind]).toString()
}

// The 26 characters behind the prefix are 128 bits in groups of five, the first 48 of them milliseconds.
const digits = '0123456789abcdefghjkmnpqrstvwxyz'

/** When an order of this id was made, ms since 1970, by the clock of the process that made it; undefined for what is no such id. */
export function timeOfOrderId(id: string): number | undefined {
  const suffix = /^ord_([0-9a-hjkmnp-tv-z]{26})$/.exec(id)?.[1]
  if (suffix === undefined) return undefined
  let bits = 0n
  for (const digit of suffix) bits = (bits << 5n) | BigInt(digits.indexOf(digit))
  return Number(bits >> 80n)
}

/** The least id of an order that was made at `ms` since 1970. */
export function orderIdAt(ms: number): string {
  let bits = BigInt(Math.max(0, Math.floor(ms))) << 80n
  let suffix = ''
  for (let i = 0; i < 26; i++) {
    suffix = digits[Number(bits & 31n)] + suffix
    bits >>= 5n
  }
  return `${prefixes.order}_${suffix}`
}
