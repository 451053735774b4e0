// What carries the bus's messages between processes: PostgreSQL (bus-postgres.ts) or Redis (bus-redis.ts).
import type { Log } from './log.ts'

export interface Transport {
  send(channel: string, payload: string): Promise<void>
  subscribe(channel: string): Promise<void>
  unsubscribe(channel: string): Promise<void>
  healthy(): boolean
  close(): Promise<void>
}

/** Called with every message of a channel that is subscribed to. */
export type Receive = (channel: string, payload: string) => void

export interface TransportOptions {
  log: Log
  /** A server that does not respond for so long is given up; a connection on which hints come is tested, since there may be none. */
  silenceMs: number
}
