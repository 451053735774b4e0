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
