// An event that cannot be shown keeps nobody from those after it: pages, the stream and the operator go on, and it is noted.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getEvent, listEvents } from '../../api/events/events.ts'
import { eventIdOf } from '../../db/events/present.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { openClient } from './client.ts'
import { sequenceAll } from './reading.ts'

const harness = await openHarness()
const { db } = harness.services

const passing = suite('an event that cannot be shown')

passing('is left out by pages, the stream and named by the operator', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  await db.raw(
    `insert into event_outbox (partner_id, type, subject, facts)
     values (:id, 'order.closed', 'ord_gone', null), (:id, 'payout.paid', 'pay_gone', null), (:id, 'key.created', 'key_gone', '{}')`,
    { id: partner.partnerId }
  )
  await partner.makeTrader()
  await sequenceAll(db)
  const { body } = await partner.call(listEvents)
  assert.equal(
    body.data.map(({ position, type }: { position: number; type: string }) => [position, type]),
    [
      [1, 'key.created'],
      [5, 'account.connected']
    ]
  )
  assert.is(body.caughtUp, true)

  const client = await openClient(harness.address, { key: partner.key })
  client.send({ type: 'subscribe', id: 's', channel: 'events', after: await firstCursor(partner) })
  const event = await client.take('event', message => message.event.position === 5)
  assert.is(event.previous, (await client.take('subscribed')).cursor)
  assert.is((await client.take('caughtUp')).cursor, event.cursor)

  const [gone] = await db('events').where({ partner_id: partner.partnerId, position: 2 })
  assert.is((await partner.call(getEvent, { params: { id: eventIdOf(gone.id) } })).status, 404)

  const listed = await operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--json')
  assert.equal(
    listed.json.data.map(({ position }: { position: number }) => position),
    [1, 2, 3, 4, 5]
  )
  assert.match(listed.json.data[1].data.cannotBeShown, 'The order of the event')
  await until('the notes', async () => (await db('event_faults').where({ partner_id: partner.partnerId })).length === 3)
  const doctor = await operator(harness.env, 'doctor', '--json')
  const { status, found } = doctor.json.checks.find(({ check }: { check: string }) => check === 'events')
  assert.is(status, 'warn')
  assert.match(found, /^3 events cannot be shown and are left out/)
})

/** After the partner's first event. */
async function firstCursor(partner: Awaited<ReturnType<typeof harness.makePartner>>): Promise<string> {
  return (await partner.call(listEvents, { query: { limit: 1 } })).body.cursor
}

passing.after(closeAll)
passing.run()
