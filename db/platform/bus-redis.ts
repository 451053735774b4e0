// The bus through Redis' publish and subscribe.
import type { Receive, Transport, TransportOptions } from './bus-transport.ts'
import { logOutages } from './redis-outage.ts'

const MEANWHILE = 'wake-ups come late, by the slow clock'

/** One connection that publishes and one that subscribes. */
export async function redisTransport(
  url: string,
  receive: Receive,
  { log, silenceMs }: TransportOptions
): Promise<Transport> {
  // Loaded only here: most installations run without.
  const { Redis } = await import('ioredis')
  const options = {
    lazyConnect: true,
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    connectTimeout: 5000,
    commandTimeout: 5000,
    // A command without a response for this long ends the connection.
    socketTimeout: silenceMs
  }
  const publisher = new Redis(url, options)
  // Subscriptions are renewed below: ioredis' own resubscription after a reconnect rejects without a handler when it fails, which
  // would end the process.
  const subscriber = new Redis(url, {
    ...options,
    enableOfflineQueue: true,
    autoResubscribe: false,
    maxRetriesPerRequest: null,
    commandTimeout: undefined as never
  })
  const channels = new Set<string>()
  // The user's rights do not allow it: no connection breaks for that, so only a subscription that succeeds ends it.
  let refused = false
  const listen = (wanted: string[]): Promise<void> =>
    subscriber.subscribe(...wanted).then(
      () => {
        if (wanted.length === channels.size) refused = false
      },
      (error: unknown) => {
        if (!refused) log.warn({ err: error }, 'Redis refused a subscription, trying again')
        refused = true
      }
    )
  // The channel to which the user's rights let nothing be published: only a message that is taken ends it.
  let unsent: string | undefined
  const publish = async (channel: string, payload: string): Promise<void> => {
    try {
      await publisher.publish(channel, payload)
      if (channel === unsent) unsent = undefined
    } catch (error) {
      if ((error as Error).name === 'ReplyError') {
        if (unsent === undefined)
          log.warn({ err: error, meanwhile: MEANWHILE }, 'Redis refused a message, trying again')
        unsent ??= channel
      }
      throw error
    }
  }
  subscriber.on('ready', () => {
    if (channels.size > 0) void listen([...channels])
  })
  logOutages([publisher, subscriber], { log, meanwhile: MEANWHILE })
  subscriber.on('message', receive)
  // A replica accepts PUBLISH but delivers to its own subscribers only: a process that stays connected to a primary that has
  // become a replica would notify nobody. The address may lead to the new primary by now.
  let replica = false
  let closed = false
  const readRole = async () => {
    const was = replica
    // A user without the right to INFO gets no role: its server counts as a primary.
    replica = /^role:slave/m.test(await publisher.info('replication').catch(() => ''))
    if (replica && !was) log.warn({ meanwhile: MEANWHILE }, 'Redis has become a replica, connecting again')
  }
  publisher.on('ready', () => void readRole())
  const leaveReplica = async () => {
    if (publisher.status === 'ready') await readRole()
    if (replica && !closed) for (const client of [publisher, subscriber]) client.disconnect(true)
  }
  // A connection that only listens never fails on a write: a beat finds out that it is broken.
  const beating = setInterval(() => {
    void leaveReplica()
    // An empty message, which who listens passes over.
    if (unsent !== undefined) void publish(unsent, '').catch(() => {})
    if (subscriber.status !== 'ready') return
    if (refused) void listen([...channels])
    else void subscriber.ping().catch(() => {})
  }, silenceMs)
  beating.unref()
  await Promise.all([publisher.connect().catch(() => {}), subscriber.connect().catch(() => {})])
  return {
    send: publish,
    async subscribe(channel) {
      channels.add(channel)
      // While Redis is away this does not wait: the channels are subscribed to when it is back.
      if (subscriber.status === 'ready') await listen([channel])
    },
    async unsubscribe(channel) {
      channels.delete(channel)
      if (subscriber.status === 'ready') await subscriber.unsubscribe(channel)
    },
    healthy: () =>
      subscriber.status === 'ready' && publisher.status === 'ready' && !refused && unsent === undefined && !replica,
    async close() {
      closed = true
      clearInterval(beating)
      publisher.disconnect()
      subscriber.disconnect()
    }
  }
}
