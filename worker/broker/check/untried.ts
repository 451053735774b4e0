// Assumptions that one short run on a demo account cannot try: the report lists them as unknown, with the reason, so that it
// is complete.
import { unknowns } from '../dialects/next-unknowns.ts'
import type { CheckTarget } from './talk.ts'

interface Untried {
  assumption: string
  /** Why the check does not try it. */
  why: string
}

const inBothDialects: Untried[] = [
  { assumption: 'equal purchases are not merged, and one call buys once', why: 'would need a second purchase' },
  { assumption: 'calls beyond the published limits are refused with RateLimit', why: 'not tried on purpose' },
  {
    assumption: 'what the broker has received of a purchase is executed within RECONCILE_AFTER_MS, or never',
    why: 'would need a purchase whose response is lost'
  },
  {
    assumption: 'the statement and the profit table keep all since the last comparison of books',
    why: 'would need an account of some age'
  },
  { assumption: 'amounts in other currencies have the decimals the broker lists', why: 'this is an account in USD' },
  { assumption: 'a connection with a ping every 30 s stays open', why: 'would take minutes' }
]

const inNext: Untried[] = [
  { assumption: 'counts of calls are kept for each account', why: 'would spend the counts' },
  {
    assumption: `a connection takes ${unknowns.streamsOfConnection} streams, and a purchase beyond 100 has not run`,
    why: 'would need a hundred contracts'
  },
  { assumption: 'connections of other programs of the user count as well', why: 'would need another program' },
  {
    assumption: 'a refresh token is replaced when it is used, and the old one ends',
    why: 'would end the token in use'
  },
  {
    assumption: 'a token says nowhere when it ends; tokenExpiresAt is taken as given',
    why: 'would need to wait for its end'
  },
  {
    assumption: 'a token that was revoked is refused at the next opening at the latest',
    why: 'would end the token in use'
  },
  {
    assumption: 'an abnormal close code means the connection is lost, and nothing else',
    why: 'cannot be provoked from here'
  },
  {
    assumption: 'the opening time that a closed market names is UTC',
    why: 'needs a market that opens within the day, and a second source of its hours'
  }
]

/** The assumptions about a dialect that the check leaves open. */
export const untriedOf = (dialect: CheckTarget['dialect']): Untried[] =>
  dialect === 'next' ? [...inBothDialects, ...inNext] : inBothDialects
