// One contract that an account's session is subscribed to.
import type { ContractListener, ContractState } from '../port.ts'
import type { BrokerConnection, Stream } from './sockets.ts'

/** Where a contract streams. */
export interface Source {
  connection: BrokerConnection
  stream: Stream
}

export interface ContractSubscription {
  contractId: string
  listeners: Set<ContractListener>
  last: ContractState | null
  /** When it ends (epoch seconds), where that is known beforehand and its value is not needed until then. */
  endsAt: number | null
  /** It seems to have ended and must not be parked. */
  mustStream: boolean
  /** Where it streams now; null while it is parked or waits for a connection. */
  source: Source | null
  /** The subscription under way. */
  requesting: Promise<ContractState> | null
  /** Whether that request subscribes to a stream. */
  subscribing: boolean
  awaySince: number
  over: boolean
}

export function newSubscription(contractId: string): ContractSubscription {
  return {
    contractId,
    listeners: new Set(),
    last: null,
    endsAt: null,
    mustStream: false,
    source: null,
    requesting: null,
    subscribing: false,
    awaySince: performance.now(),
    over: false
  }
}
