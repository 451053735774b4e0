// Wake-ups. A message is a hint (topic and id), never the truth: its receiver reads the row. It may be late, doubled or
// lost; every waiter also re-reads by a slow clock. Without Redis it travels by PostgreSQL LISTEN/NOTIFY, with Redis by
// pub/sub; either way a channel per process, so that one order does not wake every API process, and one channel for all
// workers.
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { batch } from '../postgres/batch.ts'
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

interface Transport {
  send(channel: string, payload: string): Promise<void>
  subscribe(channel: string): Promise<void>
  unsubscribe(channel: string): Promise<void>
  healthy(): boolean
  close(): Promise<void>
}

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

  const transport = options.redisUrl
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

const notify = {
  name: 'notify',
  text: 'select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as m (channel, payload)'
}

function postgresTransport(url: string, receive: (channel: string, payload: string) => void, log: Log): Transport {
  const channels = new Set<string>()
  let client: pg.Client | undefined
  let connecting: Promise<pg.Client> | undefined
  let closed = false
  let attempt = 0
  let last: Promise<unknown> = Promise.resolve()

  async function open(): Promise<pg.Client> {
    const next = new pg.Client({
      connectionString: url,
      application_name: 'service-bus',
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      query_timeout: 10_000,
      // A transaction that notifies writes to the log, and would wait for the disk. Nothing else is written here, and a
      // hint need not outlive a crash: the row it points to was on disk before.
      options: '-c synchronous_commit=off',
      // A LISTEN need not wait for the hints on their way.
      pipeline: true
    })
    next.on('error', error => lose(next, error))
    next.on('end', () => lose(next))
    next.on('notification', ({ channel, payload }) => receive(channel, payload ?? ''))
    try {
      await next.connect()
      for (const channel of channels) await next.query(`listen ${next.escapeIdentifier(channel)}`)
      if (closed) throw new Error('The bus was closed.')
    } catch (error) {
      void next.end().catch(() => {})
      throw error
    }
    client = next
    attempt = 0
    // What was published meanwhile is lost: the waiters' slow clocks find it.
    return next
  }

  function lose(gone: pg.Client, error?: Error): void {
    if (client !== gone) return
    client = undefined
    if (closed) return
    if (error) log.warn({ err: error }, 'wake-ups are down, reconnecting')
    reconnect()
  }

  function reconnect(): void {
    if (closed || connecting) return
    const delay = Math.min(5000, 100 * 2 ** attempt++) * (0.5 + Math.random() / 2)
    setTimeout(() => {
      if (!closed) connected().catch(() => reconnect())
    }, delay).unref()
  }

  function connected(): Promise<pg.Client> {
    if (client) return Promise.resolve(client)
    if (closed) return Promise.reject(new Error('The bus is closed.'))
    connecting ??= open().finally(() => {
      connecting = undefined
    })
    return connecting
  }

  // Notifying transactions commit one after the other in the whole cluster: hints of the same moment share one.
  const send = batch(
    async (messages: { channel: string; payload: string }[]) => {
      const channels = messages.map(({ channel }) => channel)
      const payloads = messages.map(({ payload }) => payload)
      await (await connected()).query({ ...notify, values: [channels, payloads] })
      return messages
    },
    { concurrency: 1 }
  )

  return {
    async send(channel, payload) {
      const sent = send({ channel, payload })
      last = sent.catch(() => {})
      await sent
    },
    async subscribe(channel) {
      channels.add(channel)
      const ready = client
      try {
        if (ready) await ready.query(`listen ${ready.escapeIdentifier(channel)}`)
        else await connected()
      } catch (error) {
        // The slow clocks carry on without hints until the connection is back.
        log.warn({ err: error }, 'wake-ups are down, reconnecting')
        reconnect()
      }
    },
    async unsubscribe(channel) {
      channels.delete(channel)
      await client?.query(`unlisten ${client.escapeIdentifier(channel)}`)
    },
    healthy: () => client !== undefined,
    async close() {
      closed = true
      // What was published right before, as by a command, still goes out.
      await last
      const open = client
      client = undefined
      await open?.end().catch(() => {})
    }
  }
}

async function redisTransport(
  url: string,
  receive: (channel: string, payload: string) => void,
  log: Log
): Promise<Transport> {
  // Loaded only here: most installations run without.
  const { Redis } = await import('ioredis')
  const options = {
    lazyConnect: true,
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    connectTimeout: 5000,
    commandTimeout: 5000
  }
  const publisher = new Redis(url, options)
  // Subscribes anew below: ioredis' own resubscription after a reconnect rejects without a handler when it fails, which
  // would end the process.
  const subscriber = new Redis(url, {
    ...options,
    enableOfflineQueue: true,
    autoResubscribe: false,
    maxRetriesPerRequest: null,
    commandTimeout: undefined as never
  })
  const channels = new Set<string>()
  const listen = (wanted: string[]): Promise<unknown> =>
    subscriber.subscribe(...wanted).catch((error: unknown) => log.warn({ err: error }, 'wake-ups through Redis'))
  subscriber.on('ready', () => {
    if (channels.size > 0) void listen([...channels])
  })
  for (const client of [publisher, subscriber])
    client.on('error', error => log.warn({ err: error }, 'wake-ups through Redis'))
  subscriber.on('message', receive)
  await Promise.all([publisher.connect().catch(() => {}), subscriber.connect().catch(() => {})])
  return {
    async send(channel, payload) {
      await publisher.publish(channel, payload)
    },
    async subscribe(channel) {
      channels.add(channel)
      // While Redis is away it is not waited for: that happens when it comes back.
      if (subscriber.status === 'ready') await listen([channel])
    },
    async unsubscribe(channel) {
      channels.delete(channel)
      if (subscriber.status === 'ready') await subscriber.unsubscribe(channel)
    },
    healthy: () => subscriber.status === 'ready' && publisher.status === 'ready',
    async close() {
      publisher.disconnect()
      subscriber.disconnect()
    }
  }
}
