// The connections of a client of the broker, and which of them make room when there are as many as there may be.
import { BrokerError } from './broker-error.ts'
import type { BrokerAccount } from './port.ts'
import type { BrokerTicks } from './ticks.ts'
import type { ReconnectingConnection } from './transport/reconnecting.ts'
import type { AccountSession } from './transport/session.ts'

export interface ConnectionEntry {
  reconnecting: ReconnectingConnection
  session: AccountSession | null
  /** Set for a connection of market data. */
  ticks: BrokerTicks | null
  /** The latest way to the account's token. */
  account: BrokerAccount | null
  /** The user whose connection it is, by the token, where the dialect counts connections by user. */
  user: string | null
  /** The account's owner, known with its token. */
  owner: string | undefined
  /** Aborted when the next, or present, opening is urgent. */
  hurry: AbortController
}

/** A contract that is parked for less keeps its connection, since it would soon be opened again. */
const MIN_PARK_MS = 20_000

/** Whether nothing is under way over the connection, and nothing is subscribed to. */
export function isIdle({ reconnecting, session, ticks }: ConnectionEntry): boolean {
  return !reconnecting.busy && (session === null || session.subscriptions.size === 0) && ticks?.busy !== true
}

/**
 * Closes connections by `hangUp` when there are `most` of them: the longest unused ones, a hundredth at once, of the application
 * that has most connections, so that one partner's many accounts do not close those of others. Where all are in use, the one
 * whose contracts are parked longest is closed; it is opened again before they end. Throws BrokerError TooManyConnections where
 * none can be closed.
 */
export function makeRoom(
  among: ReadonlySet<ConnectionEntry>,
  most: number,
  hangUp: (entry: ConnectionEntry) => void
): void {
  if (among.size < most) return
  const byApp = [...Map.groupBy(among, ({ account }) => account?.appId).values()]
  byApp.sort((a, b) => b.length - a.length)
  const idle = byApp.map(entries => entries.filter(isIdle)).find(entries => entries.length > 0)
  const parked = idle ? undefined : longestParked([...among])
  const leaving = idle
    ?.sort((a, b) => a.reconnecting.usedAt - b.reconnecting.usedAt)
    .slice(0, Math.ceil(most / 100)) ?? [parked]
  if (leaving[0] === undefined) {
    throw new BrokerError('BROKER_UPSTREAM', 'There are too many connections to the broker.', {
      brokerCode: 'TooManyConnections',
      ran: 'no'
    })
  }
  parked?.session?.subscriptions.giveWay()
  for (const entry of leaving) if (entry) hangUp(entry)
}

/**
 * Keeps to `most` connections of the user that `entry` is to connect, among `others`. A user is known by the token, of which there may be
 * several: another one for each account, and a new one after each renewal. Connections of other tokens of the same owner make room where they
 * can, but an owner may also have several users. Throws BrokerError TooManyConnections where none of the same token can be closed.
 */
export function claimSeat(
  entry: ConnectionEntry,
  others: readonly ConnectionEntry[],
  most: number,
  hangUp: (entry: ConnectionEntry) => void
): void {
  makeRoom(new Set(others.filter(({ user }) => user === entry.user)), most, hangUp)
  if (entry.owner === undefined) return
  const isOpen = ({ reconnecting }: ConnectionEntry) => reconnecting.current !== null || reconnecting.busy
  const ofOwner = others.filter(each => each.owner === entry.owner && isOpen(each))
  try {
    makeRoom(new Set(ofOwner), most, hangUp)
  } catch (error) {
    // Whether they are too many is for the broker to decide.
    if (!(error instanceof BrokerError)) throw error
  }
}

/** The connection without a call under way whose contracts are all parked, and remain so longest. */
function longestParked(entries: ConnectionEntry[]): ConnectionEntry | undefined {
  let longest: ConnectionEntry | undefined
  let longestMs = MIN_PARK_MS
  for (const entry of entries) {
    const parkedMs = entry.reconnecting.busy ? 0 : (entry.session?.subscriptions.parkedMs ?? 0)
    if (parkedMs <= longestMs) continue
    longest = entry
    longestMs = parkedMs
  }
  return longest
}
