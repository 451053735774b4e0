// /v1/stream: opening, subscribing, replaying, following, bounds and ends; every frame is checked against its schema.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listEvents } from '../../api/events/events.ts'
import { createStreamTicket } from '../../api/events/stream/tickets.ts'
import { disableTrader } from '../../api/traders/credentials.ts'
import { writeCursor } from '../../db/events/cursor.ts'
import { readLogState } from '../../db/events/read.ts'
import { newEventEpoch } from '../../db/events/sequence.ts'
import { revokeKey } from '../../db/partners/keys.ts'
import { suspendPartner } from '../../db/partners/standing.ts'
import { EVENTS } from '../../db/platform/bus.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import { closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { openClient, openSurplus, openWithPlace, refusedUpgrade, subscribe } from './client.ts'
import { newest, readAll, sequenceAll } from './reading.ts'

const harness = await openHarness()
const { db, bus } = harness.services
const { address } = harness

/** Puts what happened into the log and lets the processes know, as a worker does. */
async function log(...partners: TestPartner[]): Promise<void> {
  await sequenceAll(db)
  for (const { partnerId } of partners) bus.publish(EVENTS, 'events', partnerId)
}
const connect = (partner: TestPartner) => openClient(address, { key: partner.key })

const opening = suite('opening /v1/stream')

opening('is refused as any request is, with the envelope, before the upgrade', async () => {
  const partner = await harness.makePartner()
  const bare = await refusedUpgrade(address, {})
  assert.equal([bare.status, bare.body.error, typeof bare.body.requestId], [401, 'UNAUTHENTICATED', 'string'])
  const narrow = await harness.makePartner({ scopes: ['usage:read'] })
  const unscoped = await refusedUpgrade(address, { key: narrow.key })
  assert.equal([unscoped.status, unscoped.body.error], [403, 'INSUFFICIENT_SCOPE'])
  await revokeKey(db, partner.keyId)
  assert.is((await refusedUpgrade(address, { key: partner.key })).body.error, 'KEY_REVOKED')
  const suspended = await harness.makePartner()
  await suspendPartner(db, suspended.partnerId, 'a test')
  assert.is((await refusedUpgrade(address, { key: suspended.key })).body.error, 'PARTNER_SUSPENDED')
  const unpaid = await harness.makePartner()
  await db('partners').where({ id: unpaid.partnerId }).update({ plan_active: false })
  const inactive = await refusedUpgrade(address, { key: unpaid.key })
  assert.equal([inactive.status, inactive.body.saasStatus], [402, 'INACTIVE'])
})

opening('begins with a hello that has its bounds', async () => {
  const client = await connect(await harness.makePartner())
  const { limits, heartbeatSeconds } = await client.take('hello')
  assert.equal([limits.subscriptions, heartbeatSeconds], [20, 10])
  client.send({ type: 'ping', id: 'p' })
  assert.is((await client.take('pong')).id, 'p')
})

opening(
  'ends with 4429 beyond the sockets of the plan, with a key or a ticket; one that closes leaves its place',
  async () => {
    const partner = await harness.makePartner({ plan: 'LAUNCH' })
    const { traderExternalId } = await partner.makeTrader()
    const { body } = await partner.call(createStreamTicket, { body: { traderExternalId } })
    const place = () => openWithPlace(address, { key: partner.key })
    const clients = await Promise.all([1, 2, 3, 4, 5].map(place))
    for (const by of [{ key: partner.key }, { ticket: body.ticket }])
      assert.is(await openSurplus(address, by), 'The key has 5 sockets open already.')
    clients[0]?.close()
    await clients[0]?.closed
    await until('a free place', place)
  }
)

const subscribing = suite('a subscription')

subscribing('sends what happens from now on, each event once and with the cursor of the one before', async () => {
  const partner = await harness.makePartner()
  await partner.makeTrader()
  await log()
  const client = await connect(partner)
  const { cursor } = await subscribe(client)
  await partner.makeTrader()
  await partner.makeTrader()
  await log(partner)
  const [first, second] = [await client.take('event'), await client.take('event')]
  assert.equal([first.previous, second.previous], [cursor, first.cursor])
  const { events } = await readAll(partner, { after: cursor })
  assert.equal([first.event, second.event], events)
  assert.is((await partner.call(listEvents, { query: { after: second.cursor } })).body.data.length, 0)
})

subscribing('replays what came after a cursor, reports when it has caught up, and goes on', async () => {
  const partner = await harness.makePartner()
  await log()
  const after = await newest(partner)
  // More than a page of the replay.
  await db.raw(
    `insert into event_outbox (partner_id, type, subject, facts)
     select e.partner_id, e.type, e.subject, e.facts from events e, generate_series(1, 700) where e.partner_id = ?`,
    [partner.partnerId]
  )
  await log()
  const client = await connect(partner)
  assert.is((await subscribe(client, { after })).cursor, after)
  const caughtUp = await client.take('caughtUp')
  const received = client.messages.filter(({ type }) => type === 'event')
  assert.equal(
    received.map(({ event }) => event.position),
    Array.from({ length: 700 }, (_, index) => index + 2)
  )
  assert.equal(
    received.map(({ previous }) => previous),
    [after, ...received.slice(0, -1).map(({ cursor }) => cursor)]
  )
  assert.is(caughtUp.cursor, received.at(-1)?.cursor)
  await partner.makeTrader()
  await log(partner)
  assert.is((await client.take('event', ({ event }) => event.position === 702)).previous, caughtUp.cursor)
})

subscribing('begins right after the cursor that `subscribed` names, however fast events come', async () => {
  const partner = await harness.makePartner()
  await log()
  let writing = true
  const write = async () => {
    await db.raw(
      `insert into event_outbox (partner_id, type, subject, facts)
       select partner_id, type, subject, facts from events where partner_id = ? and position = 1`,
      [partner.partnerId]
    )
    await log(partner)
  }
  const writers = [1, 2, 3].map(async () => {
    while (writing) await write()
  })
  // As many messages as a socket may send in a second.
  const clients = await Promise.all([1, 2, 3, 4].map(() => connect(partner)))
  const ids = Array.from({ length: 15 }, (_, index) => `s${index}`)
  await Promise.all(
    clients.map(async client => {
      for (const id of ids) await subscribe(client, { id })
    })
  )
  writing = false
  await Promise.all(writers)
  await write()
  const last = await newest(partner)
  for (const client of clients)
    for (const id of ids) {
      await client.take('event', message => message.id === id && message.cursor === last)
      const received = client.messages.filter(message => message.id === id && 'cursor' in message)
      for (const [index, { previous }] of received.entries())
        if (index > 0) assert.is(previous, received[index - 1]?.cursor)
    }
})

subscribing('reports that it has caught up after an empty replay, too', async () => {
  const partner = await harness.makePartner()
  await log()
  const after = await newest(partner)
  const client = await connect(partner)
  await subscribe(client, { after })
  assert.is((await client.take('caughtUp')).cursor, after)
})

subscribing('filters by type and trader, and shows gaps under the filter', async () => {
  const partner = await harness.makePartner()
  const [one, two] = ['events-one', 'events-two']
  const client = await connect(partner)
  const { cursor } = await subscribe(client, { types: ['account.connected'], traderExternalIds: [two] })
  for (const externalId of [one, two, one, two]) {
    await partner.makeTrader({ externalId })
    await log(partner)
  }
  const [first, second] = [await client.take('event'), await client.take('event')]
  assert.equal([first.event.traderExternalId, second.event.traderExternalId], [two, two])
  assert.equal([first.previous, second.previous], [cursor, first.cursor])
})

subscribing('finds events whose hints were lost', async () => {
  const partner = await harness.makePartner()
  const client = await connect(partner)
  await subscribe(client)
  await partner.makeTrader()
  await sequenceAll(db)
  await client.take('event', ({ event }) => event.type === 'account.connected')
})

subscribing("never sends another partner's events", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const client = await connect(partner)
  await subscribe(client)
  await other.makeTrader()
  await partner.makeTrader()
  await log(partner, other)
  await client.take('event', ({ event }) => event.type === 'account.connected')
  const ids = (await readAll(other)).events.map(({ id }) => id)
  assert.not.ok(client.messages.some(({ event }) => event && ids.includes(event.id)))
})

subscribing('is refused by error, and the socket stays: unknown fields, cursors, ids in use, too many', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  await log()
  const client = await connect(partner)
  const refused = async (message: object) => {
    client.send({ type: 'subscribe', id: 'x', channel: 'events', ...message })
    return (await client.take('error')).error
  }
  assert.is(await refused({ channel: 'prices' }), 'VALIDATION_FAILED')
  assert.is(await refused({ types: ['order.sold'] }), 'VALIDATION_FAILED')
  assert.is(await refused({ after: 'nonsense' }), 'VALIDATION_FAILED')
  assert.is(await refused({ after: await newest(other) }), 'VALIDATION_FAILED')
  await subscribe(client)
  assert.is(await refused({ id: 's' }), 'CONFLICT')
  client.send({ type: 'unsubscribe', id: 's' })
  await subscribe(client)
  const many = await connect(partner)
  for (let count = 0; count < 19; count++) await subscribe(many, { id: `s${count}` })
  const sentAt = performance.now()
  // A socket may send 20 messages in a second.
  await until('another second', () => performance.now() - sentAt > 1000)
  await subscribe(many, { id: 's19' })
  many.send({ type: 'subscribe', id: 'more', channel: 'events' })
  assert.is((await many.take('error')).error, 'LIMIT_REACHED')
})

subscribing(
  'returns CURSOR_EXPIRED with what is kept after a new epoch, to new subscriptions and to those that run',
  async () => {
    const partner = await harness.makePartner()
    await partner.makeTrader()
    await log()
    const after = await newest(partner)
    const client = await connect(partner)
    await subscribe(client)
    await newEventEpoch(db)
    const running = await client.take('error')
    assert.equal([running.id, running.error], ['s', 'CURSOR_EXPIRED'])
    client.send({ type: 'subscribe', id: 'again', channel: 'events', after })
    const { oldest, latest, error } = await client.take('error')
    assert.is(error, 'CURSOR_EXPIRED')
    await subscribe(client, { id: 'oldest', after: oldest })
    assert.is((await client.take('event')).event.position, 1)
    await subscribe(client, { id: 'latest', after: latest })
  }
)

subscribing('is not made when it is given up while the log is read for it, and its id is free at once', async () => {
  const partner = await harness.makePartner()
  await log()
  const client = await connect(partner)
  await subscribe(client, { id: 'before' })
  await partner.makeTrader()
  // Nobody sees what is put into the log, nor reads how far it goes, until it is committed.
  const writing = await db.transaction()
  await writing.raw('lock table event_epoch in access exclusive mode')
  await sequenceAll(writing)
  const { latest } = await readLogState(writing, partner.partnerId)
  const after = writeCursor(harness.services.pepper, partner.partnerId, latest)
  client.send({ type: 'subscribe', id: 's', channel: 'events', after })
  client.send({ type: 'unsubscribe', id: 's' })
  client.send({ type: 'subscribe', id: 's', channel: 'events', after, types: ['account.connected'] })
  client.send({ type: 'ping', id: 'after-all-of-them' })
  await client.take('pong')
  await writing.commit()
  assert.equal(
    [(await client.take('subscribed')).id, client.messages.filter(({ type }) => type === 'error')],
    ['s', []]
  )
  await partner.makeTrader()
  await log(partner)
  const { event } = await client.take('event', ({ id }) => id === 's')
  assert.is(event.type, 'account.connected')
  client.send({ type: 'unsubscribe', id: 's' })
  client.send({ type: 'unsubscribe', id: 's' })
  assert.is((await client.take('error')).message, 'There is no subscription s.')
  assert.is(client.messages.filter(({ type }) => type === 'subscribed').length, 2)
})

const ending = suite('a socket ends')

ending('with 4400 for what is not JSON or not of the grammar', async () => {
  const partner = await harness.makePartner()
  for (const wrong of ['{', '[]', '"text"', '{"type":"order","id":"a"}', '{"type":"ping"}', '{"type":"ping","id":7}']) {
    const client = await connect(partner)
    client.send(wrong)
    assert.is(await client.closed, 4400, wrong)
  }
})

ending('with 4429 for more than twenty messages in a second', async () => {
  const client = await connect(await harness.makePartner())
  for (let count = 0; count < 60; count++) client.send({ type: 'ping', id: 'p' })
  assert.is(await client.closed, 4429)
})

ending('with 4408 without a subscription', async () => {
  const client = await connect(await harness.makePartner())
  assert.is(await client.closed, 4408)
})

ending('soon after the revocation of its key, the suspension or the end of the plan', async () => {
  const [revoked, suspended, unpaid] = [
    await harness.makePartner(),
    await harness.makePartner(),
    await harness.makePartner()
  ]
  const clients = await Promise.all([revoked, suspended, unpaid].map(connect))
  // Without a subscription they would end by themselves.
  for (const client of clients) await subscribe(client)
  await revokeKey(db, revoked.keyId)
  await suspendPartner(db, suspended.partnerId, 'a test')
  await db('partners').where({ id: unpaid.partnerId }).update({ plan_active: false })
  let codes: number[] | undefined
  void Promise.all(clients.map(({ closed }) => closed)).then(all => {
    codes = all
  })
  assert.equal(await until('all of them to end', () => codes, 3000), [4403, 4403, 4402])
})

ending('never from slowness: who reads late gets everything from the log, and memory stays', async () => {
  const partner = await harness.makePartner()
  await log()
  const slow = await connect(partner)
  await subscribe(slow)
  const fast = await connect(partner)
  await subscribe(fast)
  slow.ws.pause()
  const rounds = 6
  for (let round = 0; round < rounds; round++) {
    await db.raw(
      `insert into event_outbox (partner_id, type, subject, facts)
       select e.partner_id, e.type, e.subject, jsonb_set(e.facts, '{label}', to_jsonb(repeat('x', 60)))
         from (select * from events where partner_id = ? and position = 1) e, generate_series(1, 2000)`,
      [partner.partnerId]
    )
    await log(partner)
    // Some of it: who reads nothing for a minute is closed, and a busy machine may need that long for all rounds.
    const known = slow.messages.length
    slow.ws.resume()
    await until('a few more', () => slow.messages.length > known)
    slow.ws.pause()
  }
  await fast.take('event', ({ event }) => event.position === 1 + rounds * 2000)
  slow.ws.resume()
  await slow.take('event', ({ event }) => event.position === 1 + rounds * 2000)
  const received = slow.messages.filter(({ type }) => type === 'event')
  assert.equal(
    received.map(({ event }) => event.position),
    Array.from({ length: rounds * 2000 }, (_, index) => index + 2)
  )
  for (const [index, { previous }] of received.entries())
    if (index > 0) assert.is(previous, received[index - 1]?.cursor)
})

const tickets = suite('a ticket')

tickets('is made for a trader that was exchanged, by a key that may read events', async () => {
  const partner = await harness.makePartner()
  assert.is(
    (await partner.call(createStreamTicket, { body: { traderExternalId: 'nobody' } })).body.error,
    'TRADER_NOT_FOUND'
  )
  const narrow = await harness.makePartner({ scopes: ['trading:read', 'trading:write'] })
  const { traderExternalId } = await narrow.makeTrader()
  assert.is((await narrow.call(createStreamTicket, { body: { traderExternalId } })).body.requiredScope, 'events:read')
  const other = await harness.makePartner()
  assert.is((await other.call(createStreamTicket, { body: { traderExternalId } })).status, 404)
})

tickets("opens one socket, once, and sends that trader's events alone, without positions", async () => {
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  const { body } = await partner.call(createStreamTicket, { body: { traderExternalId: trader.traderExternalId } })
  const client = await openClient(address, { ticket: body.ticket })
  assert.is(client.ws.protocol, 'service.v1')
  assert.is((await refusedUpgrade(address, { ticket: body.ticket })).status, 401)
  await log()
  const { cursor } = await subscribe(client)
  client.send({ type: 'subscribe', id: 'other', channel: 'events', traderExternalIds: ['somebody-else'] })
  assert.is((await client.take('error')).error, 'INSUFFICIENT_SCOPE')
  await partner.makeTrader()
  await partner.makeTrader({ externalId: trader.traderExternalId })
  await log(partner)
  const { event, previous } = await client.take('event')
  assert.equal([event.traderExternalId, 'position' in event, previous], [trader.traderExternalId, false, cursor])
  const heartbeat = await client.take('heartbeat')
  assert.not.ok('latest' in heartbeat)
  await revokeKey(db, partner.keyId)
  assert.is(await client.closed, 4403)
})

tickets('that is expired is refused', async () => {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await partner.call(createStreamTicket, { body: { traderExternalId, ttlSeconds: 1 } })
  await db('stream_tickets').update({ expires_at: new Date(Date.now() - 1000) })
  assert.is((await refusedUpgrade(address, { ticket: body.ticket })).body.error, 'UNAUTHENTICATED')
})

tickets('opens none, and closes the one it opened, once its trader is disabled or erased', async () => {
  const partner = await harness.makePartner()
  const ends: Record<string, (traderId: string) => Promise<unknown>> = {
    disabled: traderId => partner.call(disableTrader, { params: { traderId } }),
    erased: traderId => db.transaction(trx => eraseTrader(trx, harness.services.vault, traderId))
  }
  for (const [how, end] of Object.entries(ends)) {
    const { traderExternalId, traderId } = await partner.makeTrader()
    const make = () => partner.call(createStreamTicket, { body: { traderExternalId } })
    const [used, late] = [await make(), await make()]
    const client = await openClient(address, { ticket: used.body.ticket })
    await subscribe(client)
    const endedAt = performance.now()
    await end(traderId)
    // Whoever gets the name afterwards is somebody else.
    if (how === 'erased') await partner.makeTrader({ externalId: traderExternalId })
    assert.is(await client.closed, 4403, how)
    // All traders are looked up once a minute: the one before closed then at the earliest, this one a minute later.
    const waitedMs = performance.now() - endedAt
    if (how === 'erased') assert.ok(waitedMs < 50_000, `${waitedMs} ms`)
    assert.is((await refusedUpgrade(address, { ticket: late.body.ticket })).status, 401, how)
    assert.is((await make()).status, how === 'erased' ? 200 : 409)
  }
})

const beating = suite('heartbeats')

beating('name the last position sent on each subscription, and the newest one', async () => {
  const partner = await harness.makePartner()
  const client = await connect(partner)
  await subscribe(client, { types: ['account.connected'] })
  await partner.makeTrader()
  const { keyId } = partner
  await log(partner)
  const { cursor } = await client.take('event')
  await db('api_keys').where({ id: keyId }).update({ label: 'a change that is no event' })
  // One may have come before the event.
  const known = client.messages.length
  const { subscriptions, latest } = await client.take(
    'heartbeat',
    beat => !client.messages.slice(0, known).includes(beat)
  )
  assert.equal([subscriptions, latest], [[{ id: 's', cursor }], 2])
})

beating('name a later cursor to resume from where others than its own events came on a later day', async () => {
  const partner = await harness.makePartner()
  await log()
  const { latest } = await readLogState(db, partner.partnerId)
  const after = writeCursor(harness.services.pepper, partner.partnerId, { ...latest, day: latest.day - 1 })
  const client = await connect(partner)
  const filter = { traderExternalIds: ['wanted'] }
  await subscribe(client, { after, ...filter })
  await partner.makeTrader()
  await log(partner)
  const passed = await newest(partner)
  const { subscriptions } = await client.take('heartbeat', ({ subscriptions: [{ resume }] }) => resume !== undefined)
  assert.equal(subscriptions, [{ id: 's', cursor: after, resume: passed }])
  const later = await connect(partner)
  await subscribe(later, { after: passed, ...filter })
  await partner.makeTrader({ externalId: 'wanted' })
  await log(partner)
  const event = await client.take('event')
  assert.is(event.previous, after)
  assert.equal((await later.take('event')).event, event.event)
  const beat = await client.take('heartbeat', ({ subscriptions: [{ cursor }] }) => cursor !== after)
  assert.equal(beat.subscriptions, [{ id: 's', cursor: event.cursor }])
})

beating.after(closeAll)
opening.run()
subscribing.run()
ending.run()
tickets.run()
beating.run()
