// The bus through LISTEN and NOTIFY.
import type { Socket } from 'node:net'
import pg from 'pg'
import { batch } from '../postgres/batch.ts'
import { sessionAt } from '../postgres/connection.ts'
import { backOff } from './back-off.ts'
import type { Receive, Transport, TransportOptions } from './bus-transport.ts'

const RECONNECTS = { firstMs: 100, mostMs: 5000 }

const notify = {
  name: 'notify',
  text: 'select pg_notify(channel, payload) from unnest($1::text[], $2::text[]) as m (channel, payload)'
}

/** Ends a connection without waiting for the other end, which does not respond. */
function breakOff(client: pg.Client): void {
  ;(client as unknown as { connection: { stream: Socket } }).connection.stream.destroy()
}

/** A connection of its own that listens and notifies; made again when it broke. */
export function postgresTransport(url: string, receive: Receive, { log, silenceMs }: TransportOptions): Transport {
  const channels = new Set<string>()
  let client: pg.Client | undefined
  let connecting: Promise<pg.Client> | undefined
  let closed = false
  let attempt = 0
  let last: Promise<unknown> = Promise.resolve()

  async function open(): Promise<pg.Client> {
    const next = new pg.Client({
      // A transaction that notifies writes to the log, and would wait for the disk. Nothing else is written here, and a
      // hint need not outlive a crash: the row it points to was on disk before.
      ...sessionAt(url, '-c synchronous_commit=off'),
      application_name: 'service-bus',
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      query_timeout: silenceMs,
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
    const delay = backOff(attempt++, RECONNECTS) * (0.5 + Math.random() / 2)
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

  // A connection that only listens never fails on a write: a beat finds out that it is broken.
  const beating = setInterval(() => {
    const beaten = client
    beaten?.query('select 1').catch((error: Error) => {
      lose(beaten, error)
      breakOff(beaten)
    })
  }, silenceMs)
  beating.unref()

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
      clearInterval(beating)
      // What was published right before, as by a command, still goes out.
      await last
      const open = client
      client = undefined
      await open?.end().catch(() => {})
    }
  }
}
