// What carries the bus's messages between processes: PostgreSQL (bus-postgres.ts) or Redis (bus-redis.ts).

export interface Transport {
  send(channel: string, payload: string): Promise<void>
  subscribe(channel: string): Promise<void>
  unsubscribe(channel: string): Promise<void>
  healthy(): boolean
  close(): Promise<void>
}

/** Called with every message of a channel that is subscribed to. */
export type Receive = (channel: string, payload: string) => void
