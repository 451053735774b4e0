// The bounds of delivery, without a worker: how many requests an endpoint, a partner and a worker have under way, and when an endpoint gets
// nothing. Times are numbers of the test, ms; what is sent is sent to real endpoints.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { rotateWebhookSecret } from '../../api/webhooks/endpoints.ts'
import type { EventRow } from '../../db/events/read.ts'
import { sequenceEvents } from '../../db/events/sequence.ts'
import { FAILING_FROM, OLD_SECRET_HOURS } from '../../db/webhooks/endpoints.ts'
import { type HeldRow, renewSender } from '../../db/webhooks/leases.ts'
import type { PendingRow } from '../../db/webhooks/outcomes.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import type { Changes } from '../../worker/webhooks/changes.ts'
import { Endpoint, MAX_WAITING, QUICK_MS } from '../../worker/webhooks/endpoint.ts'
import type { Item } from '../../worker/webhooks/items.ts'
import { type DeliveryResponse, openRequests } from '../../worker/webhooks/request.ts'
import { GIVEN_UP_MS, MAX_ATTEMPTS } from '../../worker/webhooks/schedule.ts'
import { Sender } from '../../worker/webhooks/sender.ts'
import { DeliveryTail, entryOf } from '../../worker/webhooks/tail.ts'
import type { Bounds } from '../../worker/webhooks/under-way.ts'
import { FIRST_WINDOW, MAX_WINDOW, SendWindow, SHORTEST_MS, SLOW_MS } from '../../worker/webhooks/window.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { openReceiver, type Receiver } from './receiver.ts'
import { openWorld } from './world.ts'

const harness = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1' } })
const { register, tradeOrders } = openWorld(harness)

/** Has a window's worth of requests settled after `ms(size)`, `rounds` times; returns the sizes between. */
function settle(
  window: SendWindow,
  rounds: number,
  ms: (size: number) => number,
  { full = true, from = 0 } = {}
): number[] {
  return Array.from({ length: rounds }, (_, round) => {
    const { size } = window
    for (let request = 0; request < size; request++) window.settled({ ms: ms(size), full }, from + round * ms(size))
    return window.size
  })
}

const windows = suite('the window of an endpoint')

windows('grows to its bound, by one a round, while requests take as long as one alone', () => {
  const window = new SendWindow(0)
  assert.equal(
    settle(window, 4, () => 100),
    [FIRST_WINDOW + 1, FIRST_WINDOW + 2, FIRST_WINDOW + 3, FIRST_WINDOW + 4]
  )
  settle(window, 100, () => 100)
  assert.is(window.size, MAX_WINDOW)
})

windows('stays where fewer are under way than may be, and where the endpoint is slow', () => {
  const idle = new SendWindow(0)
  settle(idle, 50, () => 100, { full: false })
  assert.is(idle.size, FIRST_WINDOW)
  const slow = new SendWindow(0)
  settle(slow, 50, () => SLOW_MS)
  assert.is(slow.size, FIRST_WINDOW)
})

windows('does not grow into a queue, and shrinks out of one', () => {
  // Requests are handled one after the other, each for 30 ms.
  const serial = new SendWindow(0)
  for (let alone = 0; alone < FIRST_WINDOW; alone++) serial.settled({ ms: 30, full: false }, 0)
  settle(serial, 100, size => 30 * size)
  assert.is(serial.size, 4)
  // Many are handled at a time, until they are handled one after the other.
  const window = new SendWindow(0)
  settle(window, MAX_WINDOW, () => 30)
  assert.is(window.size, MAX_WINDOW)
  settle(window, MAX_WINDOW, size => 30 * size, { from: 1000 })
  assert.is(window.size, 5)
})

windows('is not moved by differences of a few milliseconds', () => {
  const window = new SendWindow(0)
  settle(window, MAX_WINDOW, size => (size % 2 ? 1 : SHORTEST_MS))
  assert.is(window.size, MAX_WINDOW)
})

windows(
  'takes the quickest round anew after a while: an endpoint that has become slower is not one with a queue',
  () => {
    const window = new SendWindow(0)
    settle(window, 10, () => 10)
    settle(window, 20, () => 100, { from: 1000 })
    assert.is(window.size, 4)
    settle(window, 5, () => 100, { from: 70_000 })
    assert.is(window.size, 4)
    settle(window, 100, () => 100, { from: 110_000 })
    assert.is(window.size, MAX_WINDOW)
  }
)

windows('is for what is under way and for what has ended and is not written', () => {
  const endpoint = endpointWith(10)
  const send = () => {
    const item = endpoint.next(0)
    if (item) endpoint.begin(item, 0)
    return item
  }
  const sent = Array.from({ length: FIRST_WINDOW }, send)
  assert.is(send(), undefined)
  const outcome = failed({ error: null, httpStatus: 204 })
  for (const item of sent.slice(1)) endpoint.end(item as Item, 'd', outcome, 0)
  assert.is(send(), undefined)
  const taken = endpoint.takeChanges(0)
  assert.is(send(), undefined)
  // The statement fails, and is repeated.
  endpoint.putBack(taken?.changes as Changes)
  assert.is(send(), undefined)
  write(endpoint, 0)
  assert.is(Array.from({ length: FIRST_WINDOW }, send).filter(Boolean).length, FIRST_WINDOW - 1)
})

windows('is halved by a failure, and one for an endpoint that only fails', () => {
  const window = new SendWindow(0)
  settle(window, 12, () => 100)
  assert.is(window.size, 16)
  window.failed(false)
  assert.is(window.size, 8)
  window.failed(true)
  assert.is(window.size, 1)
})

/** Begins to send the next event at `now`. */
function sendNext(endpoint: Endpoint, now: number): Item {
  const item = endpoint.next(now)
  assert.ok(item, 'nothing to send')
  endpoint.begin(item, now)
  return item
}
const delivered = (ms: number) => failed({ error: null, httpStatus: 204, ms })

windows('grows only while as many are under way as may be', () => {
  const endpoint = endpointWith(3 * FIRST_WINDOW)
  for (let now = 0; now < 300 * FIRST_WINDOW; now += 100) {
    endpoint.end(sendNext(endpoint, now), 'd', delivered(100), now + 100)
    write(endpoint, now + 100)
  }
  assert.is(endpoint.window, FIRST_WINDOW)
})

windows('counts what was delivered alone', () => {
  const endpoint = endpointWith(10)
  fail(endpoint, 0)
  write(endpoint, 100)
  assert.is(endpoint.window, FIRST_WINDOW / 2)
  // A round of two, the second of which fills the window.
  for (const item of [sendNext(endpoint, 100), sendNext(endpoint, 100)]) endpoint.end(item, 'd', delivered(100), 200)
  write(endpoint, 200)
  assert.is(endpoint.window, FIRST_WINDOW / 2 + 1)
})

windows('is one for an endpoint that failed at its last worker', () => {
  const endpoint = endpointWith(3, { failures: FAILING_FROM })
  sendNext(endpoint, 0)
  assert.is(endpoint.next(0), undefined)
})

const reading = suite('what is read of the log ahead')
const waitingAt = (position: number): PendingRow => {
  const names = { endpointId: 'whk', partnerId: 'ptn_1', eventId: `e${position}`, deliveryId: `d${position}` }
  const event = { position, day: 1, type: 'order.closed', subject: `ord_${position}` }
  return { ...names, ...event, attempts: 1, replay: false, nextMs: 60_000 }
}
const waitingAtMost = (count: number) => Array.from({ length: count }, (_, index) => waitingAt(index + 1))

reading('is as much again as may be under way, once fewer are open than may be', () => {
  assert.is(endpointWith(FIRST_WINDOW - 1).room(0), FIRST_WINDOW + 1)
  assert.is(endpointWith(FIRST_WINDOW).room(0), 0)
})

reading('is nothing while too many wait for their next attempt, by a replay neither', () => {
  const endpoint = endpointWith(0)
  assert.is(endpoint.roomForReplay(), 200)
  endpoint.load(waitingAtMost(MAX_WAITING - 1), 0)
  assert.equal([endpoint.room(0), endpoint.roomForReplay()], [2 * FIRST_WINDOW, 1])
  endpoint.load([waitingAt(MAX_WAITING)], 0)
  assert.equal([endpoint.room(0), endpoint.roomForReplay()], [0, 0])
})

reading('is one event at a time of an endpoint that fails, and none while too many wait', () => {
  const endpoint = endpointWith(0, { failures: FAILING_FROM })
  endpoint.load(waitingAtMost(MAX_WAITING - 1), 0)
  assert.is(endpoint.room(0), 1)
  endpoint.load([waitingAt(MAX_WAITING)], 0)
  assert.is(endpoint.room(0), 0)
})

/** The event at `position`, of one record with every other such event. */
const behind = (position: number) => ({
  position,
  day: 1,
  eventId: `e${position}`,
  type: 'order.closed',
  subject: 'ord_held',
  at: 0,
  message: () => ({ id: `evt_${position}`, body: '{}' })
})

for (const failures of [0, FAILING_FROM])
  reading(`passes over what is behind an event that waits, of an endpoint with ${failures} failures`, () => {
    const endpoint = endpointWith(0, { failures })
    endpoint.load([{ ...waitingAt(1), subject: 'ord_held' }], 0)
    const most = endpoint.room(0)
    // Each is read alone, as a record has its events over hours.
    for (let position = 2; position < 2 + 2 * most; position++) {
      assert.is(endpoint.room(0), most)
      endpoint.add([behind(position)], { position, day: 1 }, 0)
      assert.is(endpoint.next(0), undefined)
    }
    assert.is(endpoint.room(0), most)
    assert.equal(
      write(endpoint, 0)?.pending.map(({ position }) => position),
      Array.from({ length: 2 * most }, (_, index) => index + 2)
    )
    // They are sent after it, in their order.
    for (let position = 1; position < 2 + 2 * most; position++) {
      const item = sendNext(endpoint, 60_000)
      assert.is(item.position, position)
      endpoint.end(item, 'd', delivered(10), 60_000)
      write(endpoint, 60_000)
    }
  })

reading('passes over them where they were open at the worker that held the endpoint before', () => {
  const endpoint = endpointWith(0)
  endpoint.add(
    Array.from({ length: FIRST_WINDOW }, (_, index) => behind(index + 2)),
    { position: 9, day: 1 },
    0
  )
  assert.is(endpoint.room(0), 0)
  endpoint.load([{ ...waitingAt(1), subject: 'ord_held' }], 0)
  assert.is(endpoint.room(0), 2 * FIRST_WINDOW)
})

reading('is read for several endpoints of a partner at once from the first time on', async () => {
  const { db, config } = harness.services
  const { partnerId, makeTrader } = await harness.makePartner()
  await makeTrader()
  while ((await sequenceEvents(db)).count > 0);
  const entry = (row: EventRow) => entryOf(row, config, () => {})
  const tail = new DeliveryTail(db, partnerId, entry)
  const read = (position: number) => tail.read({ position, day: 0, limit: 1, types: null })
  const found = await Promise.all([read(1), read(0)])
  assert.equal(
    found.map(({ entries }) => entries.map(({ position }) => position)),
    [[2], [1]]
  )
})

reading('takes an event that is to be sent again right after it ended, and not the row that it had', () => {
  const endpoint = endpointWith(1)
  fail(endpoint, 0)
  const [row] = write(endpoint, 0)?.pending ?? []
  assert.ok(row)
  const item = endpoint.next(6000) as Item
  endpoint.begin(item, 6000)
  endpoint.end(item, 'd', delivered(10), 6000)
  endpoint.beginLoading(6000)
  // Read before its end was written.
  endpoint.load([row], 6000)
  assert.is(endpoint.next(60_000), undefined)
  write(endpoint, 6000)
  const again = { ...row, deliveryId: 'again', attempts: 0, replay: true, nextMs: 0 }
  endpoint.load([again], 6000)
  assert.is(endpoint.next(6000)?.deliveryId, 'again')
})

windows('is that of a slow endpoint once a response took more than a second', () => {
  const endpoint = endpointWith(2)
  endpoint.end(sendNext(endpoint, 0), 'd', delivered(SLOW_MS / 2), 1000)
  assert.is(endpoint.slow, false)
  endpoint.end(sendNext(endpoint, 1000), 'd', delivered(SLOW_MS / 2 + 1), 3000)
  assert.is(endpoint.slow, true)
})

let made = 0
const rowOf = (changes: Partial<HeldRow> = {}): HeldRow => ({
  id: `whk_${++made}`,
  partner_id: 'ptn_1',
  url: 'http://127.0.0.1:9/',
  types: null,
  secret_key_id: 't1',
  secret_sealed: Buffer.alloc(0),
  old_key_id: null,
  old_sealed: null,
  old_ms: null,
  position: 0,
  day: 1,
  gaps: [],
  failures: 0,
  last_error: null,
  failing_ms: null,
  paused_ms: 0,
  missed: 0,
  lease: 1,
  version: 0,
  ...changes
})
const failed = (changes: Partial<DeliveryResponse> = {}): DeliveryResponse => ({
  error: 'HTTP_STATUS',
  httpStatus: 500,
  ms: 10,
  response: '',
  retryAfterS: null,
  ...changes
})

/** An endpoint with the first `count` events of its log read, each of a record of its own. */
function endpointWith(count: number, changes: Partial<HeldRow> = {}): Endpoint {
  const endpoint = new Endpoint(rowOf(changes), 0)
  const entries = Array.from({ length: count }, (_, index) => ({
    position: index + 1,
    day: 1,
    eventId: `e${index}`,
    type: 'order.closed',
    subject: `ord_${index}`,
    at: 0,
    message: () => ({ id: `evt_${index}`, body: '{}' })
  }))
  endpoint.add(entries, { position: count, day: 1 }, 0)
  return endpoint
}

/** Has the next event fail at `now`. */
function fail(endpoint: Endpoint, now: number, outcome = failed()): void {
  const item = endpoint.next(now)
  assert.ok(item, 'nothing to send')
  endpoint.begin(item, now)
  endpoint.end(item, 'd', outcome, now)
}

/** Has what has ended written; returns it. */
function write(endpoint: Endpoint, now: number): Changes | undefined {
  const taken = endpoint.takeChanges(now)
  if (taken) endpoint.written(taken.changes, now)
  return taken?.changes
}

const leaving = suite('an endpoint is left alone')

leaving('for as long as it requested, with everything, and no longer', () => {
  const endpoint = endpointWith(3)
  fail(endpoint, 1000, failed({ httpStatus: 429, retryAfterS: 120 }))
  const [row] = write(endpoint, 1000)?.pending ?? []
  assert.equal([row?.position, row?.nextMs], [1, 120_000])
  assert.is(write(endpoint, 1000), undefined)
  assert.is(endpoint.next(120_999), undefined)
  assert.is(endpoint.room(120_999), 0)
  assert.is(endpoint.next(121_000)?.position, 1)
})

leaving('for as long as it requested, although a request that was under way by then succeeds', () => {
  const endpoint = endpointWith(3)
  const [first, second] = [0, 1].map(now => {
    const item = endpoint.next(now)
    assert.ok(item)
    endpoint.begin(item, now)
    return item
  }) as [Item, Item]
  endpoint.end(second, 'd2', failed({ httpStatus: 429, retryAfterS: 120 }), 1000)
  endpoint.end(first, 'd1', { ...failed(), error: null, httpStatus: 204 }, 2000)
  const taken = endpoint.takeChanges(2000)
  assert.ok(taken)
  assert.is(taken.progress.pausedMs, 119_000)
  endpoint.written(taken.changes, 2000)
  assert.is(endpoint.next(120_999), undefined)
  assert.is(endpoint.next(121_000)?.position, 2)
})

leaving('for as long as it requested of the worker that held it before', () => {
  const endpoint = endpointWith(2, { paused_ms: 120_000 })
  assert.is(endpoint.room(119_999), 0)
  assert.is(endpoint.next(119_999), undefined)
  assert.is(endpoint.next(120_000)?.position, 1)
})

leaving('for the time until the next attempt where that is later', () => {
  const endpoint = endpointWith(1)
  fail(endpoint, 0, failed({ retryAfterS: 1 }))
  write(endpoint, 0)
  assert.is(endpoint.next(4999), undefined)
  assert.is(endpoint.next(5500)?.position, 1)
})

leaving('from the fifth failure on, with one probe at a time and twice as long after each, to a minute', () => {
  const endpoint = endpointWith(8)
  const pauses: number[] = []
  let now = 0
  for (let failure = 1; failure <= 12; failure++) {
    fail(endpoint, now)
    write(endpoint, now)
    if (endpoint.failing) {
      const pause = endpoint.pausedUntil - now
      pauses.push(pause)
      assert.is(endpoint.next(now + pause - 1), undefined)
      assert.is(endpoint.window, 1)
    }
    now = Math.max(endpoint.pausedUntil, now + 40_000)
  }
  assert.is(pauses.length, 8)
  for (const [index, pause] of pauses.entries()) {
    const atLeast = Math.min(60_000, 5000 * 2 ** index)
    assert.ok(pause >= atLeast && pause <= atLeast * 1.1, `${index}: ${pause}`)
  }
})

leaving('for good after five days of nothing but failures, and not before', () => {
  const before = endpointWith(1, { failures: 9, failing_ms: GIVEN_UP_MS - 1000 })
  fail(before, 999)
  assert.is(before.disable, undefined)
  const after = endpointWith(1, { failures: 9, failing_ms: GIVEN_UP_MS - 1000 })
  fail(after, 1000)
  assert.is(after.disable, 'FAILURES')
  write(after, 1000)
  assert.is(after.next(10_000_000), undefined)
})

leaving('by an event after its last attempt, which is FAILED then', () => {
  const endpoint = endpointWith(1)
  let now = 0
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    // A success of another event between them: it does not only fail.
    endpoint.failures = 0
    endpoint.failingSince = null
    fail(endpoint, now)
    const { attempts } = write(endpoint, now) ?? { attempts: [] }
    assert.equal([attempts[0]?.attempt, attempts[0]?.status], [attempt, attempt < MAX_ATTEMPTS ? 'RETRYING' : 'FAILED'])
    now += 30 * 3_600_000
  }
  assert.is(endpoint.next(now), undefined)
})

const pausing = suite('Retry-After')

pausing('is read as seconds or as a date, and is an hour at most', async () => {
  const receiver = await openReceiver()
  const requests = openRequests({ allowPrivate: true })
  onClose(async () => requests.close())
  const pauseOf = async (text: string, headers = {}) => {
    receiver.respond = (_received, response) => response.writeHead(503, { 'retry-after': text, ...headers }).end()
    return (await requests.post(receiver.url, {}, '{}')).retryAfterS
  }
  assert.is(await pauseOf('120'), 120)
  assert.is(await pauseOf('999999'), 3600)
  const by = (await pauseOf(new Date(Date.now() + 600_000).toUTCString())) ?? 0
  assert.ok(by > 500 && by <= 600, `${by}`)
  assert.is(await pauseOf(new Date(Date.now() - 600_000).toUTCString()), 0)
  assert.is(await pauseOf('soon'), null)
  // By an endpoint whose clock is an hour behind this worker's.
  const [date, later] = [3_600_000, 3_540_000].map(ms => new Date(Date.now() - ms).toUTCString())
  assert.is(await pauseOf(later as string, { date }), 60)
})

const sharing = suite('a worker')

/** A sender of its own, with these bounds. With `ms` every response took so long for it, however long it took here. */
async function openSender(
  worker: string,
  changes: Partial<Bounds>,
  { clock = systemClock, ms }: { clock?: typeof systemClock; ms?: number } = {}
) {
  const services: WorkerServices = {
    ...harness.services,
    worker,
    clock,
    changes: openSignal()
  } as unknown as WorkerServices
  // None times out before its test does.
  const opened = openRequests({ allowPrivate: true, timeoutMs: 120_000 })
  onClose(async () => opened.close())
  const requests =
    ms === undefined
      ? opened
      : {
          ...opened,
          post: async (...request: Parameters<typeof opened.post>) => ({ ...(await opened.post(...request)), ms })
        }
  const bounds = { sending: 1000, ofPartner: 1000, slow: 1000, unwritten: 1000, quick: 1000, ...changes }
  await renewSender(services.db, worker, 600_000)
  // Everything counts as written at once, and goes on counting for the worker's bound.
  const sender = new Sender(
    services,
    requests,
    () => sender.endpoints.forEach(endpoint => void write(endpoint, 0)),
    bounds
  )
  sender.goodUntil = Number.POSITIVE_INFINITY
  onClose(async () => sender.stop())
  return sender
}

/** Two endpoints each of so many partners, with events that nothing has sent yet. */
async function makeReceivers(partners: number): Promise<Receiver[]> {
  const made = await Promise.all(
    Array.from({ length: partners }, async () => {
      const [partner, receivers] = [await harness.makePartner(), [await openReceiver(), await openReceiver()]]
      for (const receiver of receivers) await register(partner, receiver, { types: ['order.closed'] })
      await tradeOrders(partner, EVENTS)
      return receivers
    })
  )
  return made.flat()
}

const EVENTS = 12

/**
 * Has endpoints hold requests until `held` wait, and then end one for each that comes, until one of them has everything. Returns the most
 * that the sender had under way.
 */
async function most(sender: Sender, receivers: Receiver[], held: number): Promise<number> {
  const waiting: (() => void)[] = []
  let sending = 0
  for (const receiver of receivers)
    receiver.respond = (_received, response) => {
      sending = Math.max(sending, sender.sending)
      waiting.push(() => response.writeHead(204).end())
      // The others alone may not have as many under way.
      const over = receivers.some(({ book }) => book.length === EVENTS)
      if (over) for (const end of waiting.splice(0)) end()
      else if (waiting.length >= held) waiting.shift()?.()
    }
  await begin(sender)
  await until('everything', () => receivers.every(({ book }) => book.length === EVENTS), 60_000)
  await until('the end of all', () => sender.sending === 0, 60_000)
  return sending
}

async function begin(sender: Sender): Promise<void> {
  while ((await sequenceEvents(harness.services.db)).count > 0);
  await sender.take(null)
}

sharing('has no more under way to one partner than it may, however many endpoints that has', async () => {
  const receivers = await makeReceivers(1)
  assert.is(await most(await openSender('of-partner', { ofPartner: 5 }), receivers, 5), 5)
})

sharing('has no more under way than it may', async () => {
  const receivers = await makeReceivers(2)
  // Two of each, or three and one: one place is reserved, and of the other two each partner has as many or more.
  assert.is(await most(await openSender('in-all', { sending: 6 }), receivers, 4), 4)
})

sharing('has a place for a partner whose endpoints respond, however many others have some that hang', async () => {
  const hanging = await makeReceivers(3)
  for (const receiver of hanging) receiver.respond = () => {}
  const sender = await openSender('hanging', { sending: 6 })
  await begin(sender)
  await until('as many as may be', () => sender.sending >= 4, 60_000)
  const good = await makeReceivers(1)
  await begin(sender)
  await until('everything at the others', () => good.every(({ book }) => book.length === EVENTS), 60_000)
})

sharing('sends nothing more while too many outcomes are not written', async () => {
  const receivers = await makeReceivers(1)
  const sender = await openSender('unwritten', { unwritten: 3 })
  await begin(sender)
  await until('as many as may be', () => sender.underWay.unwritten >= 3 && sender.sending === 0, 60_000)
  const sent = () => receivers.reduce((sum, { book }) => sum + book.length, 0)
  const count = sent()
  // What was under way when the third ended has ended, too.
  assert.ok(count <= 2 + 2 * FIRST_WINDOW, `${count} of ${2 * EVENTS}`)
  sender.underWay.unwritten = 0
  sender.pump()
  await until('more', () => sent() > count, 60_000)
})

sharing(
  'has few young or unwritten requests to endpoints that respond soon, and old ones keep nobody waiting',
  async () => {
    const receivers = await makeReceivers(1)
    const held: (() => void)[] = []
    for (const receiver of receivers)
      receiver.respond = (_received, response) => void held.push(() => response.writeHead(204).end())
    const aged: (() => void)[] = []
    const sender = await openSender(
      'quick',
      { quick: 3 },
      {
        ms: 1,
        clock: {
          ...systemClock,
          after: (ms, then) => {
            if (ms !== QUICK_MS) return systemClock.after(ms, then)
            aged.push(then)
            return () => {}
          }
        }
      }
    )
    await begin(sender)
    await until('as many as may be', () => held.length === 3, 60_000)
    await turns()
    assert.is(sender.sending, 3)
    for (const end of held.splice(0)) end()
    await until('their ends', () => sender.sending === 0, 60_000)
    await turns()
    assert.equal([sender.sending, sender.underWay.quickUnwritten], [0, 3])
    // As once they are written.
    sender.underWay.quickUnwritten = 0
    sender.pump()
    await until('the next', () => held.length === 3, 60_000)
    await turns()
    assert.is(sender.sending, 3)
    for (const age of aged.splice(0)) age()
    // Beside the old ones, not instead of them once they have timed out.
    await until('more', () => held.length === 6 && sender.sending === 6, 20_000)
  }
)

/** Two turns of the event loop: what is ready to be sent has been sent by then. */
const turns = () => new Promise<void>(resolve => setImmediate(() => setImmediate(resolve)))

sharing('sends nothing more once its lease has run out: another worker may hold its endpoints', async () => {
  const receivers = await makeReceivers(1)
  const waiting: (() => void)[] = []
  for (const receiver of receivers)
    receiver.respond = (_received, response) => void waiting.push(() => response.writeHead(204).end())
  const sender = await openSender('expired', {})
  await begin(sender)
  await until('a window of each', () => waiting.length === 2 * FIRST_WINDOW, 60_000)
  sender.goodUntil = 0
  for (const end of waiting.splice(0)) end()
  await until('their ends', () => sender.sending === 0, 60_000)
  await turns()
  const sent = () => receivers.reduce((sum, { book }) => sum + book.length, 0)
  assert.equal([sender.sending, sent()], [0, 2 * FIRST_WINDOW])
  for (const receiver of receivers) receiver.respond = (_received, response) => response.writeHead(204).end()
  sender.goodUntil = Number.POSITIVE_INFINITY
  sender.pump()
  await until('everything', () => sent() === 2 * EVENTS, 60_000)
})

sharing('has few requests under way to endpoints that fail, and others pass', async () => {
  const [bad, good] = [await makeReceivers(1), await makeReceivers(1)]
  const held: (() => void)[] = []
  let refused = 0
  for (const receiver of bad)
    receiver.respond = (_received, response) => {
      // The first ones are sent before anything is known; fewer than make it FAILING.
      if (receiver.book.length <= FIRST_WINDOW) {
        refused += 1
        response.writeHead(500).end()
      } else held.push(() => response.writeHead(204).end())
    }
  const sender = await openSender('slow', { slow: 1 })
  await begin(sender)
  await until('an event held', () => refused === 2 * FIRST_WINDOW && held.length > 0, 60_000)
  await until('everything at the others', () => good.every(({ book }) => book.length === EVENTS), 60_000)
  await turns()
  assert.equal([sender.sending, held.length], [1, 1])
  // Its end makes room for the other endpoint.
  held.shift()?.()
  await until('the next', () => held.length > 0, 60_000)
})

sharing('signs with a rotated secret until its day is over', async () => {
  let passedMs = 0
  const sender = await openSender('rotated', {}, { clock: { ...systemClock, now: () => systemClock.now() + passedMs } })
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId, secret } = await register(partner, receiver, { types: ['order.closed'] })
  const { body } = await partner.call(rotateWebhookSecret, { params: { id: webhookId } })
  const trader = await tradeOrders(partner, 1)
  receiver.secrets = [secret]
  await begin(sender)
  await until('the first event', () => receiver.book.length === 1, 60_000)
  assert.ok(receiver.book[0]?.verified, 'by the old secret')
  passedMs = OLD_SECRET_HOURS * 3_600_000
  receiver.respond = (_received, response) => {
    receiver.secrets = [body.secret]
    response.writeHead(500).end()
  }
  await tradeOrders(partner, 1, trader)
  while ((await sequenceEvents(harness.services.db)).count > 0);
  sender.grown(partner.partnerId)
  await until('the second event', () => receiver.book.length === 2, 60_000)
  assert.not.ok(receiver.book[1]?.verified)
  passedMs += 60_000
  sender.grown(partner.partnerId)
  await until('it again', () => receiver.book.length === 3, 60_000)
  assert.ok(receiver.book[2]?.verified, 'by the new secret')
})

sharing.after(closeAll)
windows.run()
reading.run()
leaving.run()
pausing.run()
sharing.run()
