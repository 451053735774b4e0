// Managing webhook endpoints: what is refused, settings that take effect at once, disabling and enabling, replays. Real worker and
// sockets.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listEvents } from '../../api/events/events.ts'
import {
  listWebhookDeliveries,
  replayWebhook,
  retryWebhookDelivery,
  testWebhook
} from '../../api/webhooks/deliveries.ts'
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook
} from '../../api/webhooks/endpoints.ts'
import { openVault } from '../../db/platform/crypto.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { listDeliveries, PASSED_AT_MOST } from '../../db/webhooks/deliveries.ts'
import {
  deleteWebhook as deleteEndpoint,
  resealWebhooks,
  rotateSecret,
  secretContext
} from '../../db/webhooks/endpoints.ts'
import { newest, readAll, sequenceAll } from '../events/reading.ts'
import { closeAll, openHarness, TOKEN_KEYS, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { startTestWorker } from '../support/processes.ts'
import { rowsRead } from '../support/rows-read.ts'
import { openReceiver } from './receiver.ts'
import { openWorld } from './world.ts'

const WAIT_MS = 60_000

const harness = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200' } })
const strict = await openHarness({ url: harness.url })
const { db } = harness.services
await startTestWorker(harness.env)
const { register, tradeOrders, deliveriesOf } = openWorld(harness)
const types = ['order.opened', 'order.closed']

const refusing = suite('refusals')
const managing = suite('endpoints')
const listing = suite('deliveries')
const replaying = suite('replays')

refusing('of addresses name what is wrong with them', async () => {
  const partner = await strict.makePartner()
  for (const [url, words] of [
    ['http://example.com/', 'https'],
    ['ftp://example.com/', 'https'],
    ['https://user:secret@example.com/', 'user name'],
    ['https://example.com/#part', 'fragment'],
    ['https://127.0.0.1/', 'public'],
    ['https://0x7f.1/', 'public'],
    ['https://[::ffff:10.0.0.1]/', 'public'],
    ['https://localhost./', 'public'],
    ['https://a.localhost/', 'public'],
    ['nonsense', 'must']
  ]) {
    const { status, body } = await partner.call(createWebhook, { body: { url } })
    assert.equal([status, body.details?.[0]?.path], [400, '/body/url'], url)
    assert.match(body.details[0].message, words as string)
  }
})

refusing('of unknown types, a filter on nothing, and an eleventh endpoint', async () => {
  const partner = await harness.makePartner()
  const url = 'https://hooks.example.com/'
  for (const wrong of [['order.nothing'], []])
    assert.is((await partner.call(createWebhook, { body: { url, types: wrong } })).status, 400)
  for (let made = 0; made < 10; made++) assert.is((await partner.call(createWebhook, { body: { url } })).status, 200)
  const { status, body } = await partner.call(createWebhook, { body: { url } })
  assert.equal([status, body.error, body.limit], [409, 'LIMIT_REACHED', 10])
})

refusing('of replays without a beginning or with two, and of a disabled endpoint', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const params = { id: webhookId }
  const since = '2026-01-01T00:00:00Z'
  const leapSecond = '2026-12-31T23:59:60Z'
  const wrongRanges = [{ since: leapSecond }, { since, until: leapSecond }]
  for (const body of [{}, { since, after: await newest(partner) }, { after: 'nonsense' }, ...wrongRanges])
    assert.is((await partner.call(replayWebhook, { params, body })).status, 400, JSON.stringify(body))
  await partner.call(updateWebhook, { params, body: { status: 'DISABLED' } })
  assert.is((await partner.call(replayWebhook, { params, body: { since } })).status, 409)
  const { body: empty } = await partner.call(updateWebhook, { params, body: {} })
  assert.equal(empty.details, [{ path: '/body', message: 'must have at least 1 field' }])
  const { status } = await partner.call(updateWebhook, { params, body: { skip: true } })
  assert.is(status, 400)
})

managing('shows the secret once', async () => {
  const partner = await harness.makePartner()
  const url = 'https://hooks.example.com/'
  const { body: made } = await partner.call(createWebhook, { body: { url, types, description: 'mine' } })
  assert.match(made.secret, /^whsec_/)
  const { body: shown } = await partner.call(getWebhook, { params: { id: made.webhookId } })
  assert.equal([shown.url, shown.types, shown.description, shown.status], [url, types, 'mine', 'ENABLED'])
  const { body: list } = await partner.call(listWebhooks)
  assert.equal(list.data, [shown])
  assert.not.ok('secret' in shown)
  const stored = await db('webhook_endpoints').where({ id: made.webhookId }).first()
  assert.not.ok(JSON.stringify(stored).includes(made.secret) || stored.secret_sealed.includes(made.secret.slice(6)))
})

managing('that are disabled get nothing, and go on where they stopped', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver, { types })
  const params = { id: webhookId }
  await tradeOrders(partner, 2)
  await until('the first events', () => receiver.book.length === 4, WAIT_MS)
  const { body } = await partner.call(updateWebhook, { params, body: { status: 'DISABLED' } })
  assert.equal([body.status, body.disabledReason], ['DISABLED', 'PARTNER'])
  await tradeOrders(partner, 2)
  await until('them in the log', async () => (await readAll(partner, { types: types.join() })).events.length === 8)
  const enabled = await partner.call(updateWebhook, { params, body: { status: 'ENABLED' } })
  assert.equal([enabled.body.status, enabled.body.disabledReason], ['ENABLED', null])
  // One that was under way when the endpoint was disabled may come twice.
  const received = () => new Set(receiver.book.map(({ event }) => event.id)).size
  await until('what was missed', () => received() >= 8, WAIT_MS)
  assert.is(received(), 8)
})

managing('that are enabled with skip begin with what happens next', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver, { types })
  const params = { id: webhookId }
  await partner.call(updateWebhook, { params, body: { status: 'DISABLED' } })
  await tradeOrders(partner, 3)
  await sequenceAll(db)
  await until('them in the log', async () => (await readAll(partner, { types: types.join() })).events.length === 6)
  await partner.call(updateWebhook, { params, body: { status: 'ENABLED', skip: true } })
  const later = await tradeOrders(partner, 1)
  await until('what came later', () => receiver.book.length === 2, WAIT_MS)
  assert.ok(receiver.book.every(({ event }) => event.traderExternalId === later.traderExternalId))
})

managing('take new addresses and types at once, and are gone when they are deleted', async () => {
  const [partner, before, after] = [await harness.makePartner(), await openReceiver(), await openReceiver()]
  const { webhookId, secret } = await register(partner, before)
  after.secrets.push(secret)
  const params = { id: webhookId }
  await partner.makeTrader()
  await until('an event at the first address', () => before.book.length === 1, WAIT_MS)
  await until('its attempt', async () => (await deliveriesOf(partner, webhookId)).length === 1)
  await partner.call(updateWebhook, { params, body: { url: after.url, types, description: null } })
  await tradeOrders(partner, 1)
  await until('orders at the second', () => after.book.length === 2, WAIT_MS)
  assert.is(before.book.length, 1)
  assert.equal((await partner.call(deleteWebhook, { params })).body, { webhookId, deleted: true })
  for (const row of [getWebhook, listWebhookDeliveries, rotateWebhookSecret])
    assert.is((await partner.call(row, { params })).status, 404, row.name)
})

managing('that return 410 are disabled, which the other readers of the log get to know', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  receiver.respond = (_received, response) => response.writeHead(410).end()
  await partner.makeTrader()
  const shown = await until(
    'it disabled',
    async () => {
      const { body } = await partner.call(getWebhook, { params: { id: webhookId } })
      return body.status === 'DISABLED' && body
    },
    WAIT_MS
  )
  assert.equal([shown.disabledReason, shown.lastError], ['GONE', 'GONE'])
  const event = await until('the event', async () => {
    const { events } = await readAll(partner, { types: 'webhook.disabled' })
    return events[0]
  })
  assert.equal(event.data, shown)
  receiver.respond = (_received, response) => response.writeHead(200).end()
  await partner.call(updateWebhook, { params: { id: webhookId }, body: { status: 'ENABLED' } })
  // Another event may have been under way when the first was refused.
  const refused = receiver.book[0]?.event.id
  assert.type(refused, 'string')
  await until('what it did not take', () => receiver.book.slice(1).some(({ event: { id } }) => id === refused), WAIT_MS)
})

managing('of a suspended partner get nothing until it is in good standing again', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  await register(partner, receiver)
  await db('partners').where({ id: partner.partnerId }).update({ suspended_at: new Date() })
  await db.raw(
    `insert into event_outbox (partner_id, type, subject, facts) select partner_id, 'key.created', id, to_jsonb(k) from api_keys k where partner_id = ?`,
    [partner.partnerId]
  )
  await until('it in the log', async () => {
    await sequenceAll(db)
    return (await db('event_outbox').where({ partner_id: partner.partnerId })).length === 0
  })
  await harness.services.bus.publish('svc_events', 'events', partner.partnerId)
  // Another partner's event comes through meanwhile.
  const [other, others] = [await harness.makePartner(), await openReceiver()]
  await register(other, others)
  await other.makeTrader()
  await until('an event of another', () => others.book.length === 1, WAIT_MS)
  assert.is(receiver.book.length, 0)
  await db('partners').where({ id: partner.partnerId }).update({ suspended_at: null })
  await until('its own', () => receiver.book.length === 1, WAIT_MS)
})

managing('keep the secret that their partner requested while the keys are rotated', async () => {
  const { vault } = harness.services
  const partner = await harness.makePartner()
  const { body: made } = await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/rotated' } })
  const id = made.webhookId as string
  const rotating = await db.transaction()
  const { secret } = await rotateSecret(rotating, vault, id, partner.partnerId)
  const next = openVault(`next:${Buffer.alloc(32, 5).toString('base64')},${TOKEN_KEYS}`)
  // This endpoint alone: others are sent to by a worker without the new key.
  const resealing = resealWebhooks(db, next, { oldKeyId: vault.keyId, after: id.slice(0, -1), limit: 1 })
  await untilLockWaits(db, { work: resealing }).finally(() => rotating.commit())
  assert.equal([(await resealing).resealed, (await resealing).unreadable], [0, []])
  const row = await db('webhook_endpoints').where({ id }).first()
  const stored = { keyId: row.secret_key_id, sealed: row.secret_sealed }
  assert.is(vault.open(stored, secretContext(id)), secret)
})

listing('of a rare status pass over so many others for a page, and go on after them', async () => {
  const partner = await harness.makePartner()
  const { body: made } = await partner.call(createWebhook, { body: { url: 'http://127.0.0.1:9/' } })
  const { webhookId } = made
  const count = 4 * PASSED_AT_MOST - 500
  // The first and the last but one failed.
  await db.raw(
    `insert into webhook_attempts (endpoint_id, partner_id, day, id, type, attempt, status, at, replay)
     select :webhookId, :partnerId, cast(now() at time zone 'UTC' as date) + 1 - i % 2, cast('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0') as uuid),
            'order.closed', 1, case when i in (1, :count - 1) then 'FAILED' else 'DELIVERED' end, now(), false
       from generate_series(1, :count) i`,
    { webhookId, partnerId: partner.partnerId, count }
  )
  await db.raw('analyze webhook_attempts')
  const pages: number[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { status: 'FAILED', ...(cursor ? { cursor } : {}) }
    const { body } = await partner.call(listWebhookDeliveries, { params: { id: webhookId }, query })
    pages.push(body.data.length)
    cursor = body.nextCursor
  }
  assert.equal(pages, [1, 0, 0, 1])
  const list = (trx: Db, status: string | null, limit: number, after: string | null = null) =>
    listDeliveries(trx, { endpointId: webhookId, status, limit, after })
  const read = (status: string | null) => rowsRead(db, 'webhook_attempts', trx => list(trx, status, 50))
  const failed = await read('FAILED')
  assert.ok(failed >= PASSED_AT_MOST && failed < PASSED_AT_MOST + 100, `${failed} attempts read`)
  // Those of a status that is not rare are read until the page is full.
  for (const status of [null, 'PENDING', 'DELIVERED'] as const) {
    const others = await read(status)
    assert.ok(others < 100, `${others} attempts read for ${status}`)
  }
  // All of them, each once.
  const ids: string[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const { deliveries, next } = await list(db, 'DELIVERED', 3000, after ?? null)
    ids.push(...deliveries.map(({ id }) => id))
    after = next
  }
  assert.equal([ids.length, new Set(ids).size], [count - 2, count - 2])
})

replaying('send past events again under their ids, in order, and return how many', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const params = { id: webhookId }
  const before = await newest(partner)
  await tradeOrders(partner, 10)
  await until('all events', () => receiver.book.length === 21, WAIT_MS)
  await until('all attempts', async () => (await deliveriesOf(partner, webhookId)).length === 21, WAIT_MS)
  const first = receiver.book.map(({ event }) => event.id)
  receiver.book.length = 0
  const { body } = await partner.call(replayWebhook, { params, body: { after: before, types } })
  assert.equal(body, { events: 20 })
  await until('them again', () => receiver.book.length === 20, WAIT_MS)
  assert.ok(receiver.book.every(({ event, verified }) => verified && first.includes(event.id)))
  const opened = new Set<string>()
  for (const { event } of receiver.book) {
    if (event.type === 'order.opened') opened.add(event.data.orderId)
    else assert.ok(opened.has(event.data.orderId), 'closed before opened')
  }
  const listed = await until(
    'their attempts',
    async () => {
      const data = await deliveriesOf(partner, webhookId, { limit: 200 })
      return data.length === 41 && data
    },
    WAIT_MS
  )
  assert.is(listed.filter(({ replay }: { replay: boolean }) => replay).length, 20)
})

replaying('take a time window, and refuse a cursor that is expired', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const params = { id: webhookId }
  await partner.makeTrader()
  await until('the attempt', async () => (await deliveriesOf(partner, webhookId)).length === 1, WAIT_MS)
  const { body: page } = await partner.call(listEvents)
  const { createdAt } = page.data.at(-1)
  const replay = (body: object) => partner.call(replayWebhook, { params, body })
  assert.equal((await replay({ since: createdAt, until: createdAt })).body, { events: 0 })
  assert.equal((await replay({ since: createdAt, types: ['order.closed'] })).body, { events: 0 })
  assert.equal((await replay({ since: createdAt })).body, { events: 1 })
  await until('it again', () => receiver.book.length === 2, WAIT_MS)
  await db('event_positions').where({ partner_id: partner.partnerId }).update({ dropped: 2 })
  const { body: oldest } = await partner.call(listEvents, { query: { after: page.cursor } })
  assert.ok(oldest)
  const gone = await partner.call(replayWebhook, { params, body: { after: await firstCursor(partner) } })
  assert.equal([gone.status, gone.body.error], [410, 'CURSOR_EXPIRED'])
})

replaying('hold no endpoint while they count events: its deliveries go on', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const since = new Date().toISOString()
  await partner.makeTrader()
  await until('the event', () => receiver.book.length === 1, WAIT_MS)
  const { replay } = await db.transaction(async trx => {
    await trx.raw('lock table events in access exclusive mode')
    const replay = partner.call(replayWebhook, { params: { id: webhookId }, body: { since } })
    await untilLockWaits(db, { text: 'count(*)', timeoutMs: WAIT_MS })
    await db.raw('select from webhook_endpoints where id = ? for update nowait', [webhookId])
    return { replay }
  })
  const { status, body } = await replay
  assert.equal([status, body], [200, { events: 1 }])
})

replaying(
  'of a window of time send what they count, also where events happened in another order than they are in',
  async () => {
    const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
    const { webhookId } = await register(partner, receiver)
    const params = { id: webhookId }
    for (let made = 0; made < 3; made++) await partner.makeTrader()
    await until('all events', () => receiver.book.length === 3, WAIT_MS)
    await until('all attempts', async () => (await deliveriesOf(partner, webhookId)).length === 3, WAIT_MS)
    const [first, between, last] = (await partner.call(listEvents)).body.data.slice(-3)
    // Its change was made an hour before, and committed after the first one's.
    await db('events')
      .where({ partner_id: partner.partnerId, position: between.position })
      .update({ at: new Date(new Date(between.createdAt).getTime() - 3_600_000) })
    receiver.book.length = 0
    const { body } = await partner.call(replayWebhook, { params, body: { since: first.createdAt } })
    assert.equal(body, { events: 2 })
    const left = async (table: string) => (await db(table).where({ endpoint_id: webhookId })).length
    await until(
      'the end of the replay',
      async () =>
        (await left('webhook_replays')) + (await left('webhook_pending')) === 0 &&
        (await deliveriesOf(partner, webhookId)).length >= 5,
      WAIT_MS
    )
    assert.equal(receiver.book.map(({ event }) => event.id).sort(), [first.id, last.id].sort())
  }
)

/** The cursor after the partner's first event. */
async function firstCursor(partner: Awaited<ReturnType<typeof harness.makePartner>>): Promise<string> {
  const { writeCursor } = await import('../../db/events/cursor.ts')
  const { readLogState } = await import('../../db/events/read.ts')
  const { epoch } = await readLogState(db, partner.partnerId)
  return writeCursor(harness.services.pepper, partner.partnerId, { epoch, position: 1, day: 0 })
}

replaying('of one delivery are refused where there is none', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  for (const deliveryId of ['nothing', 'dlv_01k3hv9c7bf5tvxkz1qd3rn8ma', 'evt_01k3hv9c7bf5tvxkz1qd3rn8ma'])
    assert.is((await partner.call(retryWebhookDelivery, { params: { id: webhookId, deliveryId } })).status, 404)
})

/** A new endpoint of the partner with a delivery that has come to this status. */
async function makeDelivery(
  partner: Awaited<ReturnType<typeof harness.makePartner>>,
  receiver: Awaited<ReturnType<typeof openReceiver>>,
  wanted: 'DELIVERED' | 'RETRYING'
) {
  const { webhookId: id } = await register(partner, receiver)
  await partner.makeTrader()
  const find = async () => (await deliveriesOf(partner, id)).find(({ status }: { status: string }) => status === wanted)
  const { deliveryId } = await until(`a delivery that is ${wanted}`, find, WAIT_MS)
  return { id, deliveryId }
}

replaying('are a 404 where the endpoint is deleted at the same time, and so are tests', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { id, deliveryId } = await makeDelivery(partner, receiver, 'DELIVERED')
  const deleting = await db.transaction()
  await deleteEndpoint(deleting, id, partner.partnerId)
  const calls = Promise.all([
    partner.call(replayWebhook, { params: { id }, body: { since: new Date(Date.now() - 3_600_000).toISOString() } }),
    partner.call(retryWebhookDelivery, { params: { id, deliveryId } }),
    partner.call(testWebhook, { params: { id } })
  ])
  await untilLockWaits(db, { count: 3, work: calls }).finally(() => deleting.commit())
  assert.equal(
    (await calls).map(({ body }) => body.error),
    ['NOT_FOUND', 'NOT_FOUND', 'NOT_FOUND']
  )
})

replaying('of one delivery lock the endpoint before the delivery, as a worker that writes its outcome', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  receiver.respond = (_received, response) => response.writeHead(500).end()
  const { id, deliveryId } = await makeDelivery(partner, receiver, 'RETRYING')
  const writing = await db.transaction()
  await writing('webhook_endpoints').where({ id }).forNoKeyUpdate().first('id')
  const retried = partner.call(retryWebhookDelivery, { params: { id, deliveryId } })
  await untilLockWaits(db, { text: 'webhook_endpoints', work: retried })
  const waiting = await writing('webhook_pending').where({ endpoint_id: id }).forUpdate().skipLocked().first('type')
  await writing.commit()
  assert.equal([waiting?.type, (await retried).status], ['account.connected', 200])
})

replaying.after(closeAll)
refusing.run()
managing.run()
listing.run()
replaying.run()
