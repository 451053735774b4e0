// Wake-ups. A message is a hint (topic and id), never the truth: its receiver reads the row. It may be late, doubled or
// lost; every waiter also re-reads by a slow clock. Without Redis it travels by PostgreSQL LISTEN/NOTIFY, with Redis by
// pub/sub; either way a channel per process, so that one order does not wake every API process, and one channel for all
// workers.
import { randomBytes } from 'node:crypto'
import { postgresTransport } from './bus-postgres.ts'
import { redisTransport } from './bus-redis.ts'
import type { Transport } from './bus-transport.ts'
import type { Log } from './log.ts'

/** Carries what happened, so that a waiter knows which row to read. */
export interface Hint {
  topic: string
  id: string
}

type Listener = (hint: Hint) => void

export interface Bus {
  /** The channel on which this process receives responses; stored with its requests. */
  readonly replyChannel: string
  /** Sends a hint, grouped with others of the same moment; never throws, never waits. */
  publish(channel: string, topic: string, id: string): void
  /** Subscribes to a channel until the returned function is called. */
  listen(channel: string, listener: Listener): Promise<() => void>
  /** Resolves when the topic and id are published to this process, or after `timeoutMs`, or on abort. */
  wait(topic: string, id: string, timeoutMs: number, signal?: AbortSignal): Promise<void>
  /** Whether hints can be received right now. */
  healthy(): boolean
  close(): Promise<void>
}

/** The channel of all workers; topic is the queue's name. */
export const WORK = 'svc_work'

/** The channel of sequencers; the id is a partner whose event log has grown. */
export const EVENTS = 'svc_events'

// PostgreSQL refuses a payload of 8000 bytes and more.
const MAX_PAYLOAD = 7000

/** Opens the bus: through Redis when `redisUrl` is given, else through PostgreSQL. */
export async function openBus(options: { url: string; redisUrl?: string | undefined; log: Log }): Promise<Bus> {
  const replyChannel = `svc_api_${randomBytes(6).toString('hex')}`
  const listeners = new Map<string, Set<Listener>>()
  const waiters = new Map<string, Set<() => void>>()
  const outgoing = new Map<string, Set<string>>()
  let scheduled = false

  function receive(channel: string, payload: string): void {
    for (const line of payload.split('\n')) {
      const space = line.indexOf(' ')
      if (space < 1) continue
      const hint = { topic: line.slice(0, space), id: line.slice(space + 1) }
      for (const listen of listeners.get(channel) ?? []) listen(hint)
    }
  }

  const transport: Transport = options.redisUrl
    ? await redisTransport(options.redisUrl, receive, options.log)
    : postgresTransport(options.url, receive, options.log)

  function flush(): void {
    scheduled = false
    for (const [channel, lines] of outgoing) {
      outgoing.delete(channel)
      let payload = ''
      for (const line of lines) {
        if (payload && payload.length + line.length + 1 > MAX_PAYLOAD) {
          send(channel, payload)
          payload = ''
        }
        payload = payload ? `${payload}\n${line}` : line
      }
      if (payload) send(channel, payload)
    }
  }

  function send(channel: string, payload: string): void {
    transport
      .send(channel, payload)
      .catch((error: unknown) => options.log.debug({ err: error }, 'a wake-up was not sent'))
  }

  async function listen(channel: string, listener: Listener): Promise<() => void> {
    const known = listeners.get(channel)
    if (known) known.add(listener)
    else {
      listeners.set(channel, new Set([listener]))
      await transport.subscribe(channel)
    }
    return () => {
      const set = listeners.get(channel)
      set?.delete(listener)
      if (set?.size === 0) {
        listeners.delete(channel)
        void transport.unsubscribe(channel).catch(() => {})
      }
    }
  }

  await listen(replyChannel, ({ topic, id }) => {
    for (const wake of waiters.get(`${topic} ${id}`) ?? []) wake()
  })

  return {
    replyChannel,
    publish(channel, topic, id) {
      const lines = outgoing.get(channel)
      if (lines) lines.add(`${topic} ${id}`)
      else outgoing.set(channel, new Set([`${topic} ${id}`]))
      if (!scheduled) {
        scheduled = true
        setImmediate(flush)
      }
    },
    listen,
    wait(topic, id, timeoutMs, signal) {
      const key = `${topic} ${id}`
      return new Promise(resolve => {
        const set = waiters.get(key) ?? new Set()
        waiters.set(key, set)
        const done = () => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', done)
          set.delete(done)
          if (set.size === 0 && waiters.get(key) === set) waiters.delete(key)
          resolve()
        }
        const timer = setTimeout(done, Math.max(0, timeoutMs))
        set.add(done)
        signal?.addEventListener('abort', done, { once: true })
        if (signal?.aborted) done()
      })
    },
    healthy: transport.healthy,
    async close() {
      flush()
      for (const set of waiters.values()) for (const wake of [...set]) wake()
      await transport.close()
    }
  }
}
