// Consumers of the stream while everything is killed and frozen: each keeps its cursor, and reconnects with it. The auditor
// holds what they received against the rows of the log, and the log against the rows of the orders.
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { writeCursor } from '../../db/events/cursor.ts'
import { eventIdOf } from '../../db/events/present.ts'
import { readLogState } from '../../db/events/read.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { type Random, seeded } from '../money-storm/random.ts'
import { eventViolations, LOGGED, type LoggedEvent } from '../simulate/events.ts'
import { TOKEN_KEYS } from '../support/harness.ts'
import type { ChaosStack } from './stack.ts'

/** Of a key; the places of a killed api are taken for up to 30 s. */
const SOCKETS_A_KEY = 60
// Heartbeats come every ten seconds.
const SILENT_MS = 25_000
const CATCH_UP_MS = 120_000
const ASSETS = ['R_10', 'R_25', 'R_50', 'R_75', 'R_100']

interface ConsumerFilter {
  types?: string[]
  traderExternalIds?: string[]
}

interface StreamConsumer {
  name: string
  key: string
  filter: ConsumerFilter
  /** The assets whose ticks it wants, too. */
  assets: string[]
  cursor: string
  /** Positions of the events, in the order they were dealt with; each once. */
  received: number[]
  connections: number
}

export interface Consumers {
  /** Waits until each has received everything, and returns what is wrong, a sentence each, with a summary. */
  judge(): Promise<{ violations: string[]; received: number; summary: string }>
  stop(): void
}

/** Opens `count` sockets that read the whole log, and go on reading it. */
export async function startConsumers(
  stack: ChaosStack,
  { count, seed }: { count: number; seed: number }
): Promise<Consumers> {
  const { db, apis, traders } = stack
  const random = seeded(seed)
  const [partner] = await rows<{ id: string }>(db, 'select id from partners', {})
  const partnerId = partner?.id as string
  const pepper = await openPepper(db, openVault(TOKEN_KEYS))
  const keys = await Promise.all(
    Array.from({ length: Math.ceil(count / SOCKETS_A_KEY) }, () =>
      insertKey(db, pepper, { partnerId, label: null, scopes: allScopes })
    )
  )
  const { oldest } = await readLogState(db, partnerId)
  const begin = writeCursor(pepper, partnerId, oldest)
  /** Ids by position: the same for everybody. */
  const ids = new Map<number, string>()
  const violations: string[] = []
  const wrong = (what: string) => violations.length < 1000 && violations.push(what)
  let stopped = false
  let repeated = 0
  let ticks = 0

  const consumers = Array.from(
    { length: count },
    (_, index): StreamConsumer => ({
      name: `socket ${index}`,
      key: keys[index % keys.length]?.key as string,
      filter: filterOf(random, { index, trader: random.pick(traders).traderExternalId }),
      assets: index % 20 === 0 ? ASSETS : [],
      cursor: begin,
      received: [],
      connections: 0
    })
  )

  /** One connection, until it ends in any way. */
  function connect(consumer: StreamConsumer, address: string): Promise<void> {
    const { name, filter, assets } = consumer
    return new Promise(resolve => {
      const ws = new WebSocket(`${address.replace('http', 'ws')}/v1/stream`, {
        headers: { authorization: `Bearer ${consumer.key}` },
        perMessageDeflate: false,
        handshakeTimeout: 10_000
      })
      const silence = setTimeout(() => ws.terminate(), SILENT_MS)
      const epochs = new Map<string, number>()
      const end = () => {
        clearTimeout(silence)
        ws.terminate()
        resolve()
      }
      ws.on('error', end)
      ws.on('close', end)
      ws.on('open', () => {
        consumer.connections += 1
        ws.send(JSON.stringify({ type: 'subscribe', id: 'e', channel: 'events', after: consumer.cursor, ...filter }))
        if (assets.length > 0) ws.send(JSON.stringify({ type: 'subscribe', id: 't', channel: 'ticks', assets }))
      })
      ws.on('message', data => {
        silence.refresh()
        if (stopped) return end()
        const message = JSON.parse(String(data))
        if (message.type === 'event') take(consumer, message)
        else if (message.type === 'subscribed' && message.id === 'e' && message.cursor !== consumer.cursor)
          wrong(`${name} requested ${consumer.cursor} and received ${message.cursor}`)
        else if (message.type === 'error' && message.error !== 'UNAVAILABLE')
          wrong(`${name} was refused: ${message.error} ${message.message}`)
        else if (message.type === 'error') end()
        else if (message.type === 'ticks')
          for (const { asset, epoch } of message.data) {
            ticks += 1
            if (epoch < (epochs.get(asset) ?? 0)) wrong(`${name} got a tick of ${asset} that is older than the last`)
            epochs.set(asset, epoch)
          }
      })
    })
  }

  function take(
    consumer: StreamConsumer,
    { cursor, previous, event }: { cursor: string; previous: string; event: { id: string; position: number } }
  ): void {
    const { id, position } = event
    if (previous !== consumer.cursor)
      wrong(`${consumer.name} has a gap before position ${position}: after ${consumer.cursor}, not ${previous}`)
    const known = ids.get(position)
    if (known === undefined) ids.set(position, id)
    else if (known !== id) wrong(`position ${position} is ${known} and ${id}`)
    const last = consumer.received.at(-1) ?? 0
    if (position <= last) repeated += 1
    if (position <= last) wrong(`${consumer.name} got position ${position} after ${last}, on one cursor`)
    else consumer.received.push(position)
    consumer.cursor = cursor
  }

  const living = consumers.map(async (consumer, index) => {
    for (let attempt = index; !stopped; attempt++) {
      await connect(consumer, apis[attempt % apis.length]?.address as string)
      await sleep(100 + random.below(900))
    }
  })

  return {
    async judge() {
      await until(db, 'select count(*)::int as count from event_outbox', CATCH_UP_MS)
      const logged = await rows<{ id: string; position: number; type: string; trader: string | null }>(
        db,
        'select id, position, type, trader from events where partner_id = :partnerId order by position',
        { partnerId }
      )
      const expected = consumers.map(({ filter }) => logged.filter(event => fits(event, filter)))
      const deadline = performance.now() + CATCH_UP_MS
      const complete = () =>
        consumers.every(({ received }, index) => received.length >= (expected[index]?.length as number))
      while (!complete() && performance.now() < deadline) await sleep(200)
      for (const [index, { name, received }] of consumers.entries()) {
        const events = expected[index] as typeof logged
        if (received.length !== events.length)
          wrong(`${name} received ${received.length} of ${events.length} events, the last at ${received.at(-1)}`)
        else if (events.some(({ position }, at) => received[at] !== position)) wrong(`${name} received other events`)
      }
      for (const { id, position } of logged) {
        const earlier = ids.get(position)
        if (earlier !== undefined && earlier !== eventIdOf(id)) wrong(`position ${position} was received as ${earlier}`)
      }
      for (const position of ids.keys()) if (position > logged.length) wrong(`position ${position} is not in the log`)
      const orders = await rows<{ id: string; phase: string }>(db, 'select id, phase from orders', {})
      for (const violation of eventViolations(await rows<LoggedEvent>(db, LOGGED, {}), orders)) wrong(violation)
      const sum = (of: (consumer: StreamConsumer) => number) => consumers.reduce((total, each) => total + of(each), 0)
      const received = sum(consumer => consumer.received.length)
      return {
        violations,
        received,
        summary: `stream: ${count} sockets, ${sum(({ connections }) => connections)} connections, ${received} events received of a log of ${logged.length}, ${repeated} again, ${ticks} ticks; ${violations.length} violations`
      }
    },
    stop() {
      stopped = true
      void Promise.allSettled(living)
    }
  }
}

function filterOf(random: Random, { index, trader }: { index: number; trader: string }): ConsumerFilter {
  if (index % 10 === 3) return { types: ['order.closed', 'order.failed'] }
  if (index % 10 === 7) return { traderExternalIds: [trader] }
  if (index % 10 === 9) return { types: [random.pick(['order.opened', 'account.connected'])] }
  return {}
}

function fits(
  { type, trader }: { type: string; trader: string | null },
  { types, traderExternalIds }: ConsumerFilter
): boolean {
  return (
    (!types || types.includes(type)) && (!traderExternalIds || (trader !== null && traderExternalIds.includes(trader)))
  )
}

async function until(db: Db, countNone: string, ms: number): Promise<void> {
  const deadline = performance.now() + ms
  for (;;) {
    const [found] = await rows<{ count: number }>(db, countNone, {})
    if (found?.count === 0 || performance.now() > deadline) return
    await sleep(100)
  }
}
