// Wake-ups. A message is a hint (topic and id): its receiver reads the row. It may be late, doubled or lost; every waiter also
// re-reads by a slow clock. A hint may carry what was committed, which saves its receiver that read: only the statement that
// committed it may give it. Without Redis hints travel by PostgreSQL LISTEN/NOTIFY, with Redis by pub/sub; either way a
// channel per process, so that one order does not wake every API process, and one channel for all workers.
import { randomBytes } from 'node:crypto'
import { postgresTransport } from './bus-postgres.ts'
import { redisTransport } from './bus-redis.ts'
import type { Transport } from './bus-transport.ts'
import { type Hint, linesOf, readHint } from './hints.ts'
import type { Log } from './log.ts'

type HintListener = (hint: Hint) => void

export interface Bus {
  /** The channel on which this process receives responses; stored with its requests. */
  readonly replyChannel: string
  /** Whether a statement can send its own hints, with its commit (hints.ts). */
  readonly inStatements: boolean
  /**
   * Sends a hint, grouped with others of the same moment; never throws, never waits. `carried` is left out when it is too
   * large, or more than one line.
   */
  publish(channel: string, topic: string, id: string, carried?: string | null): void
  /** Subscribes to a channel until the returned function is called. */
  listen(channel: string, listener: HintListener): Promise<() => void>
  /**
   * Resolves when the topic and id are published to this process, with what the hint carried; with undefined after
   * `timeoutMs` and on abort.
   */
  wait(topic: string, id: string, timeoutMs: number, signal?: AbortSignal): Promise<string | undefined>
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

// A server that disappears silently (its machine loses power) is noticed after this long.
const SILENCE_MS = 10_000

/** Opens the bus: through Redis when `redisUrl` is given, else through PostgreSQL. `silenceMs` is for tests. */
export async function openBus({
  silenceMs = SILENCE_MS,
  ...options
}: {
  url: string
  redisUrl?: string | undefined
  log: Log
  silenceMs?: number
}): Promise<Bus> {
  const replyChannel = `svc_api_${randomBytes(6).toString('hex')}`
  const listeners = new Map<string, Set<HintListener>>()

  function receive(channel: string, payload: string): void {
    for (const line of payload.split('\n')) {
      const hint = readHint(line)
      if (hint) for (const listen of listeners.get(channel) ?? []) listen(hint)
    }
  }

  const transport: Transport = options.redisUrl
    ? await redisTransport(options.redisUrl, receive, { log: options.log, silenceMs })
    : postgresTransport(options.url, receive, { log: options.log, silenceMs })

  const outbox = openOutbox(transport, options.log)

  async function listen(channel: string, listener: HintListener): Promise<() => void> {
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

  const waits = openWaits()
  await listen(replyChannel, waits.wake)

  return {
    replyChannel,
    inStatements: options.redisUrl === undefined,
    publish(channel, topic, id, carried) {
      outbox.add(channel, linesOf({ topic, id, ...(carried ? { carried } : {}) }))
    },
    listen,
    wait: waits.wait,
    healthy: transport.healthy,
    async close() {
      outbox.flush()
      waits.end()
      await transport.close()
    }
  }
}

/** Hints that leave at the end of this turn of the event loop, those of a channel in as few messages as they fit in. */
function openOutbox(transport: Transport, log: Log) {
  const outgoing = new Map<string, Set<string>>()
  let scheduled = false

  function flush(): void {
    scheduled = false
    for (const [channel, lines] of outgoing) {
      outgoing.delete(channel)
      let payload = ''
      let bytes = 0
      for (const line of lines) {
        const more = Buffer.byteLength(line) + 1
        if (payload && bytes + more > MAX_PAYLOAD) {
          send(channel, payload)
          payload = ''
          bytes = 0
        }
        payload = payload ? `${payload}\n${line}` : line
        bytes += more
      }
      if (payload) send(channel, payload)
    }
  }

  function send(channel: string, payload: string): void {
    transport.send(channel, payload).catch((error: unknown) => log.debug({ err: error }, 'a wake-up was not sent'))
  }

  return {
    flush,
    add(channel: string, hint: string): void {
      const lines = outgoing.get(channel)
      if (lines) lines.add(hint)
      else outgoing.set(channel, new Set([hint]))
      if (scheduled) return
      scheduled = true
      setImmediate(flush)
    }
  }
}

/** The waiters in this process, by the hint for which they wait. */
function openWaits(): Pick<Bus, 'wait'> & { wake: HintListener; end(): void } {
  const waiters = new Map<string, Set<(carried?: string) => void>>()
  return {
    wake({ topic, id, carried }) {
      for (const wake of waiters.get(`${topic} ${id}`) ?? []) wake(carried)
    },
    wait(topic, id, timeoutMs, signal) {
      const key = `${topic} ${id}`
      return new Promise(resolve => {
        const set = waiters.get(key) ?? new Set()
        waiters.set(key, set)
        const done = (carried?: string) => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', giveUp)
          set.delete(done)
          if (set.size === 0 && waiters.get(key) === set) waiters.delete(key)
          resolve(carried)
        }
        const giveUp = () => done()
        const timer = setTimeout(giveUp, Math.max(0, timeoutMs))
        set.add(done)
        signal?.addEventListener('abort', giveUp, { once: true })
        if (signal?.aborted) giveUp()
      })
    },
    end() {
      for (const set of waiters.values()) for (const wake of [...set]) wake()
    }
  }
}
