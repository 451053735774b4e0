// Webhooks end to end: an endpoint is registered, what happens is sent to it, signed and in order for each record, and every attempt
// is listed. Real worker, real sockets.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { retryWebhookDelivery, testWebhook } from '../../api/webhooks/deliveries.ts'
import { getWebhook, rotateWebhookSecret, updateWebhook } from '../../api/webhooks/endpoints.ts'
import { insertTest, OPEN_TESTS } from '../../db/webhooks/tests.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { sequenceAll } from '../events/reading.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { openReceiver, type ReceivedDelivery } from './receiver.ts'
import { openWorld } from './world.ts'

const WAIT_MS = 60_000

const harness = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200' } })
const { db } = harness.services
await startTestWorker(harness.env)

const world = openWorld(harness)
const { register, tradeOrders, deliveriesOf } = world

const sending = suite('delivery')

sending('sends what happens from registration on, signed, and lists each attempt', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  await partner.makeTrader()
  const { webhookId } = await register(partner, receiver)
  const trader = await partner.makeTrader()
  const { event, headers, verified } = await until('the event', () => receiver.book[0], WAIT_MS)
  assert.ok(verified)
  assert.equal([event.type, event.traderExternalId], ['account.connected', trader.traderExternalId])
  assert.is(headers['webhook-id'], event.id)
  const [attempt] = await until('the attempt', async () => {
    const data = await deliveriesOf(partner, webhookId)
    return data.length > 0 && data
  })
  assert.equal(
    [attempt.eventId, attempt.type, attempt.attempt, attempt.status, attempt.httpStatus, attempt.replay],
    [event.id, event.type, 1, 'DELIVERED', 204, false]
  )
  assert.is(receiver.book.length, 1)
})

sending('is not repeated when the endpoint is given another description meanwhile', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const held = Promise.withResolvers<void>()
  receiver.respond = (_received, response) => void held.promise.then(() => response.writeHead(204).end())
  await partner.makeTrader()
  await until('the request', () => receiver.book.length === 1, WAIT_MS)
  await partner.call(updateWebhook, { params: { id: webhookId }, body: { description: 'of Acme' } })
  held.resolve()
  await until('the attempt', async () => (await deliveriesOf(partner, webhookId))[0]?.status === 'DELIVERED', WAIT_MS)
  // What comes later is sent later: a second request with the first event would have been made before.
  await partner.makeTrader()
  await until('the next event', async () => (await deliveriesOf(partner, webhookId)).length === 2, WAIT_MS)
  assert.is(receiver.book.length, 2)
  assert.is.not(receiver.book[0]?.event.id, receiver.book[1]?.event.id)
})

sending('is signed at the time of the database by a worker whose clock is wrong, a test too', async () => {
  const other = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200' } })
  const worker = await startTestWorker(other.env, { wallMs: 3_600_000 })
  const [partner, receiver] = [await other.makePartner(), await openReceiver()]
  const { webhookId } = await openWorld(other).register(partner, receiver)
  await partner.makeTrader()
  await until('the event', () => receiver.book.length === 1, WAIT_MS)
  assert.is((await partner.call(testWebhook, { params: { id: webhookId } })).body.httpStatus, 204)
  for (const { verified, headers } of receiver.book) assert.ok(verified, headers['webhook-timestamp'])
  const [, { event }] = receiver.book as [ReceivedDelivery, ReceivedDelivery]
  assert.ok(Math.abs(Date.parse(event.createdAt) - Date.now()) < 300_000, event.createdAt)
  await worker.stop()
})

sending('is in order for each record, and every event comes once while nothing fails', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  await register(partner, receiver, { types: ['order.opened', 'order.closed'] })
  await tradeOrders(partner, 100)
  await until('all events', () => receiver.book.length >= 200, WAIT_MS)
  assert.is(new Set(receiver.book.map(({ event }) => event.id)).size, 200)
  assert.is(receiver.book.length, 200)
  assert.ok(receiver.book.every(({ verified }) => verified))
  const opened = new Set<string>()
  for (const { event } of receiver.book) {
    if (event.type === 'order.opened') opened.add(event.data.orderId)
    else assert.ok(opened.has(event.data.orderId), 'closed before opened')
  }
})

sending(
  'tries again what failed, holds back the events behind it of the same record, and lets others pass',
  async () => {
    const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
    let refused: string | undefined
    let refusals = 0
    // Until all events of the others have come, which on a busy machine may be after the pause of the first attempt.
    receiver.respond = ({ event }, response) => {
      refused ??= event.data.orderId
      const others = receiver.book.filter(({ event }) => event.data.orderId !== refused)
      const refuses = event.data.orderId === refused && (refusals === 0 || others.length < 8)
      if (refuses) refusals += 1
      response.writeHead(refuses ? 500 : 204).end(refuses ? '<b>not now</b>' : '')
    }
    const { webhookId } = await register(partner, receiver, { types: ['order.opened', 'order.closed'] })
    await tradeOrders(partner, 5)
    await until('all events', () => receiver.book.length >= 10 + Math.max(1, refusals), WAIT_MS)
    const ofRefused = receiver.book.filter(({ event }) => event.data.orderId === refused).map(({ event }) => event.type)
    assert.equal(ofRefused, [...Array(refusals + 1).fill('order.opened'), 'order.closed'])
    const listed = await until('all attempts', async () => {
      const data = await deliveriesOf(partner, webhookId)
      return data.length === 10 + refusals && data
    })
    const failed = listed
      .filter(({ status }: { status: string }) => status === 'RETRYING')
      .sort((a: { attempt: number }, b: { attempt: number }) => a.attempt - b.attempt)
    assert.is(failed.length, refusals)
    assert.equal([failed[0].error, failed[0].httpStatus, failed[0].response], ['HTTP_STATUS', 500, '<b>not now</b>'])
    assert.ok(Date.parse(failed[0].nextAt) - Date.parse(failed[0].at) >= 4900)
    assert.is((await partner.call(getWebhook, { params: { id: webhookId } })).body.status, 'ENABLED')
  }
)

sending('is not held up by events that came while an earlier one of their record waits', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  receiver.respond = ({ event }, response) => response.writeHead(event.type === 'order.opened' ? 500 : 204).end()
  const { webhookId } = await register(partner, receiver)
  const trader = await partner.makeTrader()
  const count = 4
  await insertOrderRows(db, trader, { count, phase: 'open' })
  const ofTrader = () => db('orders').where({ trader_id: trader.traderId })
  await ofTrader().update({ phase: 'queued' })
  await ofTrader().update({ phase: 'open' })
  const waiting = () => db('webhook_pending').where({ endpoint_id: webhookId })
  await until('each to wait', async () => (await waiting()).length === count, WAIT_MS)
  // As hours later: the next attempts are far away, and another worker has the endpoint.
  await waiting().update({ next_at: db.raw(`now() + interval '10 hours'`) })
  await db('webhook_endpoints')
    .where({ id: webhookId })
    .update({ worker: null, lease: db.raw('lease + 1'), next_at: db.fn.now(), paused_until: null })
  for (const { id } of await ofTrader().select('id')) {
    await db('orders').where({ id }).update({ phase: 'closed', pnl: 1, closed_at: new Date() })
    await sequenceAll(db)
  }
  await until('all of them to wait', async () => (await waiting()).length === 2 * count, WAIT_MS)
  const before = receiver.book.length
  const later = await partner.makeTrader()
  await until(
    'an event of another record',
    () => receiver.book.slice(before).some(({ event }) => event.traderExternalId === later.traderExternalId),
    WAIT_MS
  )
  assert.not(receiver.book.some(({ event }) => event.type === 'order.closed'))
})

sending('signs with the old secret and the new one after a rotation', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId, secret } = await register(partner, receiver)
  const { body } = await partner.call(rotateWebhookSecret, { params: { id: webhookId } })
  assert.is.not(body.secret, secret)
  const leftMs = Date.parse(body.oldSecretUntil) - Date.now()
  assert.ok(leftMs > 23.9 * 3_600_000 && leftMs < 24.1 * 3_600_000)
  for (const valid of [secret, body.secret]) {
    receiver.secrets = [valid]
    const { status } = await partner.call(testWebhook, { params: { id: webhookId } })
    assert.is(status, 200)
    assert.ok(receiver.book.at(-1)?.verified)
  }
  // As a day later.
  await db('webhook_endpoints').where({ id: webhookId }).update({ old_until: new Date() })
  receiver.secrets = [secret]
  await partner.call(testWebhook, { params: { id: webhookId } })
  assert.not.ok(receiver.book.at(-1)?.verified)
})

sending('of a test returns how it went, and the list has it', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  receiver.respond = (_received, response) => response.writeHead(418).end('teapot')
  const { body } = await partner.call(testWebhook, { params: { id: webhookId } })
  assert.equal([body.httpStatus, body.error, body.response], [418, 'HTTP_STATUS', 'teapot'])
  const { event } = receiver.book[0] as { event: { type: string; data: object } }
  assert.equal([event.type, event.data], ['webhook.test', { webhookId }])
  const [listed] = await deliveriesOf(partner, webhookId)
  assert.equal([listed.deliveryId, listed.status, listed.type], [body.deliveryId, 'FAILED', 'webhook.test'])
  const again = await partner.call(retryWebhookDelivery, { params: { id: webhookId, deliveryId: body.deliveryId } })
  assert.is(again.status, 409)
  assert.match(again.body.message, 'A test is in no log')
})

sending('of tests is refused while as many of the partner as may be have no result', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const test = () => partner.call(testWebhook, { params: { id: webhookId } })
  const held: (() => void)[] = []
  receiver.respond = (_received, response) => void held.push(() => response.writeHead(204).end())
  const tests = Promise.all(Array.from({ length: OPEN_TESTS }, test))
  await until('all at the endpoint', () => held.length === OPEN_TESTS, WAIT_MS)
  const refused = await test()
  assert.equal([refused.status, refused.headers.get('retry-after')], [429, '1'])
  for (const end of held) end()
  assert.equal(new Set((await tests).map(({ body }) => body.httpStatus)), new Set([204]))
  receiver.respond = (_received, response) => response.writeHead(204).end()
  assert.is((await test()).status, 200)
})

sending('of tests is held to that bound also where two are requested at once', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId: endpointId } = await register(partner, receiver)
  const { partnerId } = partner
  const mine = { endpoint_id: endpointId, partner_id: partnerId, channel: 'none' }
  // Of a worker that has died: nobody sends them.
  const gone = Array.from({ length: OPEN_TESTS - 1 }, () => ({ ...mine, id: newId('delivery'), worker: 'gone' }))
  await db('webhook_tests').insert(gone)
  const holding = await db.transaction()
  await holding('webhook_endpoints').where({ id: endpointId }).forUpdate().first('id')
  const both = Promise.allSettled([1, 2].map(() => insertTest(db, { endpointId, partnerId, channel: 'none' })))
  await untilLockWaits(db, { count: 2, work: both }).finally(() => holding.commit())
  assert.equal((await both).map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
})

sending('of one event again is requested by its attempt', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  await partner.makeTrader()
  const [first] = await until('the attempt', async () => {
    const data = await deliveriesOf(partner, webhookId)
    return data.length > 0 && data
  })
  const { body } = await partner.call(retryWebhookDelivery, {
    params: { id: webhookId, deliveryId: first.deliveryId }
  })
  assert.equal([body.status, body.eventId, body.replay], ['PENDING', first.eventId, true])
  await until('it again', () => receiver.book.length === 2, WAIT_MS)
  assert.is(receiver.book[1]?.event.id, first.eventId)
  const listed = await until('both attempts', async () => {
    const data = await deliveriesOf(partner, webhookId, { status: 'DELIVERED' })
    return data.length === 2 && data
  })
  assert.equal([listed[0].deliveryId, listed[0].attempt, listed[0].replay], [body.deliveryId, 1, true])
  const refusal = async () => {
    const params = { id: webhookId, deliveryId: first.deliveryId }
    const { status, body: refused } = await partner.call(retryWebhookDelivery, { params })
    return `${status} ${refused.message}`
  }
  await partner.call(updateWebhook, { params: { id: webhookId }, body: { status: 'DISABLED' } })
  assert.is(await refusal(), `409 The endpoint ${webhookId} is DISABLED: enable it first.`)
  await partner.call(updateWebhook, { params: { id: webhookId }, body: { status: 'ENABLED' } })
  await db('events').where({ partner_id: partner.partnerId }).delete()
  assert.is(await refusal(), '409 The event of this delivery is not kept any more.')
})

sending('of an event again is made at once where it was requested during an attempt that then failed', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  receiver.respond = (_received, response) => response.writeHead(503).end()
  await partner.makeTrader()
  const [first] = await until('the first attempt', async () => {
    const data = await deliveriesOf(partner, webhookId, { status: 'RETRYING' })
    return data.length > 0 && data
  })
  const retry = () => partner.call(retryWebhookDelivery, { params: { id: webhookId, deliveryId: first.deliveryId } })
  let refuse: (() => void) | undefined
  receiver.respond = (_received, response) => {
    refuse = () => response.writeHead(503).end()
  }
  await retry()
  await until('the second attempt at the endpoint', () => refuse, WAIT_MS)
  const { body } = await retry()
  receiver.respond = (_received, response) => response.writeHead(204).end()
  refuse?.()
  const [delivered] = await until(
    'the third attempt',
    async () => {
      const data = await deliveriesOf(partner, webhookId, { status: 'DELIVERED' })
      return data.length > 0 && data
    },
    WAIT_MS
  )
  assert.equal([delivered.deliveryId, delivered.attempt, delivered.replay], [body.deliveryId, 3, true])
})

sending('goes on after an event was tried again before its first failure could be written', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  await partner.makeTrader()
  await until('an attempt', async () => (await deliveriesOf(partner, webhookId)).length === 1, WAIT_MS)
  receiver.respond = (_received, response) => response.writeHead(500).end()
  const holding = await db.transaction()
  try {
    await holding('webhook_endpoints').where({ id: webhookId }).forUpdate()
    await partner.makeTrader()
    await until('the event again', () => receiver.book.length === 3, WAIT_MS)
    // As when a primary is lost, or after a statement's time.
    const broken = await db.raw(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%webhook_endpoints%'`
    )
    assert.is(broken.rows.length, 1)
  } finally {
    await holding.rollback()
  }
  receiver.respond = (_received, response) => response.writeHead(204).end()
  const failures = async () => (await deliveriesOf(partner, webhookId, { status: 'RETRYING' })).length === 2
  await until('both failures', failures, WAIT_MS)
})

sending.after(closeAll)
sending.run()
