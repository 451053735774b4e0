// Webhooks while workers are killed: some endpoints fail now and then, orders open and close, and at the end each endpoint's own book is
// compared with the log. For a test at modest size, and for `make chaos-webhooks`.
import { setTimeout as sleep } from 'node:timers/promises'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import type { EventRecord } from '../../schemas/events.ts'
import { readAll, sequenceAll } from '../events/reading.ts'
import { type Harness, until } from '../support/harness.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'
import { openReceiver, type Receiver } from './receiver.ts'
import { openWorld } from './world.ts'

export interface WebhookStormOptions {
  harness: Harness
  seed: number
  workers: number
  kills: number
  endpoints: number
  /** Of these, how many fail now and then. */
  failing: number
  orders: number
  /** Between two kills. */
  killEveryMs: number
  say?: (line: string) => void
}

export interface WebhookStormReport {
  kills: number
  events: number
  deliveries: number
  /** Requests with an event that the endpoint had taken before. */
  again: number
  /** Of these, how long before the next kill the endpoint had taken it first, ms (less than 0: the request was under way), ascending. */
  agesMs: number[]
  /** The most that a single kill repeated. */
  mostAtOnce: number
  refused: number
  /** What must not be, a sentence each. */
  violations: string[]
}

// Orders that open and close together.
const BATCH = 20
const PATIENCE_MS = 300_000

/** A small generator of numbers in [0, 1), the same for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** An endpoint, with the ids it has taken in order; it refuses some requests. */
interface Book {
  receiver: Receiver
  taken: EventRecord[]
  /** When each of `taken` came, ms. */
  at: number[]
  refused: number
}

async function openBook(random: () => number, failing: boolean): Promise<Book> {
  const book: Book = { receiver: await openReceiver(), taken: [], at: [], refused: 0 }
  book.receiver.respond = ({ event }, response, request) => {
    const fate = failing ? random() : 1
    if (fate < 0.03) {
      book.refused += 1
      // As often with a response as without one.
      if (fate < 0.015) response.writeHead(503).end('busy')
      else request.socket.destroy()
      return
    }
    book.taken.push(event)
    book.at.push(performance.now())
    response.writeHead(204).end()
  }
  return book
}

/** Runs it to the end and judges the books. */
export async function storm(options: WebhookStormOptions): Promise<WebhookStormReport> {
  const { harness, seed, workers: count, kills, endpoints, failing, orders, killEveryMs, say = () => {} } = options
  const { db } = harness.services
  const random = randomOf(seed)
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  await sequenceAll(db)
  const { cursor } = await readAll(partner)
  const books = await Promise.all(Array.from({ length: endpoints }, (_, index) => openBook(random, index < failing)))
  for (const { receiver } of books) {
    const { status, body } = await partner.call(createWebhook, { body: { url: receiver.url } })
    if (status !== 200) throw new Error(JSON.stringify(body))
    receiver.secrets.push(body.secret)
  }
  const workers: TestProcess[] = await Promise.all(Array.from({ length: count }, () => startWorker(harness.env)))
  const { tradeOrders } = openWorld(harness)
  let traded = 0
  let killed = 0
  const killedAt: number[] = []
  let goOn = (): void => {}
  const trading = (async () => {
    while (traded < orders) {
      await tradeOrders(partner, BATCH, trader)
      traded += BATCH
      // Spread over the kills, however long those take.
      while (traded * kills > orders * (killed + 1) && killed < kills) {
        await new Promise<void>(resolve => {
          goOn = resolve
        })
      }
    }
  })()
  for (; killed < kills; killed++) {
    await sleep(killEveryMs * (0.5 + random()))
    const index = Math.floor(random() * count)
    killedAt.push(performance.now())
    workers[index]?.kill('SIGKILL')
    await workers[index]?.ended
    workers[index] = await startWorker(harness.env)
    goOn()
    if (killed % 20 === 19)
      say(`${killed + 1} kills, ${traded} orders, ${books.map(({ taken }) => taken.length).join(' ')} taken`)
  }
  await trading
  await until('everything in the log', async () => (await db('event_outbox').first()) === undefined, PATIENCE_MS)
  const { events } = await readAll(partner, { after: cursor, limit: 200 })
  const distinct = ({ taken }: Book) => new Set(taken.map(({ id }) => id)).size
  await until(
    'every event at every endpoint',
    () => books.every(book => distinct(book) >= events.length),
    PATIENCE_MS
  ).catch(() => say('not everything arrived'))
  for (const worker of workers) worker.kill('SIGTERM')
  await Promise.all(workers.map(({ ended }) => ended))
  const repeats = books.flatMap(book => repeatsOf(book, killedAt))
  const atKill = new Map<number, number>()
  for (const { kill } of repeats) atKill.set(kill, (atKill.get(kill) ?? 0) + 1)
  return {
    agesMs: repeats.map(({ ageMs }) => ageMs).sort((a, b) => a - b),
    mostAtOnce: Math.max(0, ...atKill.values()),
    kills: killed,
    events: events.length,
    deliveries: books.reduce((sum, { taken }) => sum + taken.length, 0),
    again: books.reduce((sum, book) => sum + book.taken.length - distinct(book), 0),
    refused: books.reduce((sum, { refused }) => sum + refused, 0),
    violations: books.flatMap((book, index) => judge(book, events).map(words => `endpoint ${index + 1}: ${words}`))
  }
}

// A request that had left before a kill is read by the endpoint a moment after it.
const UNDER_WAY_MS = 100

/** For each repeat in a book: the kill after the first time, and how long before it that was. */
function repeatsOf({ taken, at }: Book, killedAt: number[]): { kill: number; ageMs: number }[] {
  const first = new Map<string, number>()
  return taken.flatMap(({ id }, index) => {
    const now = at[index] as number
    const before = first.get(id)
    if (before === undefined) {
      first.set(id, now)
      return []
    }
    const kill = killedAt.findIndex(ms => ms + UNDER_WAY_MS >= before)
    return [{ kill, ageMs: (killedAt[kill] ?? now) - before }]
  })
}

/** What is wrong with an endpoint's book. */
function judge({ taken, receiver }: Book, events: EventRecord[]): string[] {
  const found: string[] = []
  const known = new Set(events.map(({ id }) => id))
  const got = new Set(taken.map(({ id }) => id))
  const missing = events.filter(({ id }) => !got.has(id))
  if (missing.length > 0) found.push(`${missing.length} events never came, the first ${missing[0]?.id}`)
  const strange = [...got].filter(id => !known.has(id))
  if (strange.length > 0) found.push(`${strange.length} events that are not in the log`)
  const opened = new Set<string>()
  let early = 0
  for (const { type, data } of taken) {
    const { orderId } = data as { orderId?: string }
    if (type === 'order.opened' && orderId) opened.add(orderId)
    if (type === 'order.closed' && orderId && !opened.has(orderId)) early += 1
  }
  if (early > 0) found.push(`${early} orders closed before they opened`)
  const unsigned = receiver.book.filter(({ verified }) => !verified).length
  if (unsigned > 0) found.push(`${unsigned} requests whose signature is wrong`)
  return found
}
