// Cursors on the socket of a ticket: a browser holds them, which must not learn how much happens to the partner.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listEvents } from '../../api/events/events.ts'
import { createStreamTicket } from '../../api/events/stream/tickets.ts'
import { newEventEpoch } from '../../db/events/sequence.ts'
import { EVENTS } from '../../db/platform/bus.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { type Client, openClient } from './client.ts'
import { sequenceAll } from './reading.ts'

const harness = await openHarness()
const { db, bus } = harness.services

async function log({ partnerId }: TestPartner): Promise<void> {
  await sequenceAll(db)
  bus.publish(EVENTS, 'events', partnerId)
}

async function openTicket(partner: TestPartner, traderExternalId: string): Promise<Client> {
  const { body } = await partner.call(createStreamTicket, { body: { traderExternalId } })
  return openClient(harness.address, { ticket: body.ticket })
}

async function subscribe(client: Client, id: string, after?: string): Promise<string> {
  client.send({ type: 'subscribe', id, channel: 'events', ...(after ? { after } : {}) })
  return (await client.take('subscribed', message => message.id === id)).cursor
}

/** A partner with a trader whose events are all in the log, and a socket by a ticket of that trader. */
async function begin(): Promise<{ partner: TestPartner; traderExternalId: string; client: Client }> {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  await log(partner)
  return { partner, traderExternalId, client: await openTicket(partner, traderExternalId) }
}

const cursors = suite('cursors of a ticket')

cursors('do not show whether anything happened to the partner between two subscriptions', async () => {
  const { client } = await begin()
  const first = await subscribe(client, 'first')
  assert.is.not(await subscribe(client, 'second'), first)
  const begun = await subscribe(client, 'third', first)
  assert.is(begun, first)
  assert.is((await client.take('caughtUp')).cursor, first)
})

cursors('are good to resume from, on the stream and in the list, and in no altered form', async () => {
  const { partner, traderExternalId, client: before } = await begin()
  const cursor = await subscribe(before, 'before')
  await partner.makeTrader()
  await partner.makeTrader({ externalId: traderExternalId })
  await log(partner)
  const client = await openTicket(partner, traderExternalId)
  assert.is(await subscribe(client, 'again', cursor), cursor)
  const { event, previous } = await client.take('event')
  assert.equal([event.type, event.traderExternalId, previous], ['account.connected', traderExternalId, cursor])
  const { body } = await partner.call(listEvents, { query: { after: cursor } })
  assert.is(body.data.length, 2)
  const altered = `${cursor.slice(0, 30)}${cursor[30] === 'A' ? 'B' : 'A'}${cursor.slice(31)}`
  assert.is((await partner.call(listEvents, { query: { after: altered } })).status, 400)
  const other = await harness.makePartner()
  assert.is((await other.call(listEvents, { query: { after: cursor } })).status, 400)
})

cursors('do not show it either where they name what is kept', async () => {
  const { client } = await begin()
  const old = await subscribe(client, 'old')
  await newEventEpoch(db)
  const expired = async () => {
    client.send({ type: 'subscribe', id: 'expired', channel: 'events', after: old })
    return client.take('error', ({ id }) => id === 'expired')
  }
  const [first, second] = [await expired(), await expired()]
  assert.is(first.error, 'CURSOR_EXPIRED')
  assert.is.not(second.latest, first.latest)
  assert.is(await subscribe(client, 'latest', first.latest), first.latest)
})

cursors.after(closeAll)
cursors.run()
