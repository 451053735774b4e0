// What goes wrong around webhooks: events that cannot be shown, days that are dropped, leases that are lost, endpoints that are down.
// Real worker and sockets.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getEvent, listEvents } from '../../api/events/events.ts'
import { retryWebhookDelivery } from '../../api/webhooks/deliveries.ts'
import { getWebhook, rotateWebhookSecret, updateWebhook } from '../../api/webhooks/endpoints.ts'
import { eventIdOf } from '../../db/events/present.ts'
import { newEventEpoch } from '../../db/events/sequence.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { dropDays } from '../../db/postgres/day-partitions.ts'
import { newDeliveryId } from '../../db/webhooks/deliveries.ts'
import { type HeldRow, takeEndpoints } from '../../db/webhooks/leases.ts'
import { ATTEMPT_DAYS, writeOutcomes } from '../../db/webhooks/outcomes.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { Endpoint } from '../../worker/webhooks/endpoint.ts'
import type { Sender } from '../../worker/webhooks/sender.ts'
import { OutcomeWriting } from '../../worker/webhooks/writing.ts'
import { openClient } from '../events/client.ts'
import { sequenceAll } from '../events/reading.ts'
import { closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { loseCommits } from '../support/lost-commits.ts'
import { operator } from '../support/operator.ts'
import { startTestWorker } from '../support/processes.ts'
import { openReceiver, type Receiver } from './receiver.ts'
import { openWorld } from './world.ts'

const WAIT_MS = 90_000

const harness = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200', LEASE_MS: '3000' } })
const { db } = harness.services
await startTestWorker(harness.env)
const { register, deliveriesOf } = openWorld(harness)

const shown = async (partner: TestPartner, id: string) => (await partner.call(getWebhook, { params: { id } })).body

/** A partner with a disabled endpoint, and an event in its log. */
async function behind(): Promise<{
  partner: TestPartner
  receiver: Receiver
  webhookId: string
  enable(): Promise<unknown>
}> {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const status = (to: string) => partner.call(updateWebhook, { params: { id: webhookId }, body: { status: to } })
  await status('DISABLED')
  await partner.makeTrader()
  await until('it in the log', async () => {
    await sequenceAll(db)
    return db('events').where({ partner_id: partner.partnerId, type: 'account.connected' }).first()
  })
  return { partner, receiver, webhookId, enable: () => status('ENABLED') }
}

/** Has the attempts of an endpoint be of the day before, as if midnight had come since. */
async function moveToYesterday(webhookId: string): Promise<void> {
  await db.raw(
    `with yesterday as (select max(day) - 1 as day from webhook_attempts where endpoint_id = :webhookId)
     select make_day_partitions('webhook_attempts', day, day) from yesterday`,
    { webhookId }
  )
  await db.raw('update webhook_attempts set day = day - 1 where endpoint_id = ?', [webhookId])
}

const faults = suite('faults')

faults('an event that cannot be shown is FAILED, and keeps no reader from the others', async () => {
  const { partner, receiver, webhookId, enable } = await behind()
  const event = () => db('events').where({ partner_id: partner.partnerId, type: 'account.connected' })
  const { id } = await event().first('id')
  await event().update({ facts: {} })
  await enable()
  const good = await partner.makeTrader()
  await until('the good one', () => receiver.book.length === 1, WAIT_MS)
  assert.is(receiver.book[0]?.event.traderExternalId, good.traderExternalId)
  const failed = await until(
    'the failure',
    async () => (await deliveriesOf(partner, webhookId, { status: 'FAILED' }))[0]
  )
  assert.equal([failed.error, failed.eventId], ['INVALID_EVENT', eventIdOf(id)])
  assert.is((await shown(partner, webhookId)).status, 'ENABLED')
  const { body } = await partner.call(listEvents)
  assert.equal(
    body.data.map(({ type }: { type: string }) => type),
    ['key.created', 'account.connected']
  )
  assert.is((await partner.call(getEvent, { params: { id: eventIdOf(id) } })).status, 404)
  const stream = await openClient(harness.address, { key: partner.key })
  stream.send({ type: 'subscribe', id: 'all', channel: 'events', after: await beginning(partner) })
  const received = await stream.take('event', message => message.event.type === 'account.connected')
  assert.is(received.event.traderExternalId, good.traderExternalId)
  stream.close()
  const listed = await operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--json')
  assert.is(listed.exitCode, 0)
  const ofGood = ({ traderExternalId }: { traderExternalId: string }) => traderExternalId === good.traderExternalId
  assert.ok(listed.json.data.some(ofGood))
})

/** The cursor before the partner's first event. */
async function beginning({ partnerId }: TestPartner): Promise<string> {
  const { writeCursor } = await import('../../db/events/cursor.ts')
  const { readLogState } = await import('../../db/events/read.ts')
  return writeCursor(harness.services.pepper, partnerId, (await readLogState(db, partnerId)).oldest)
}

faults('events that the log dropped are counted as missed, and those after them are sent', async () => {
  const { partner, receiver, webhookId, enable } = await behind()
  const { partnerId } = partner
  await db('events').where({ partner_id: partnerId }).delete()
  await db.raw('update event_positions set dropped = position where partner_id = ?', [partnerId])
  await enable()
  await partner.makeTrader()
  await until('the next event', () => receiver.book.length === 1, WAIT_MS)
  const { missedEvents } = await until('its count', async () => {
    const webhook = await shown(partner, webhookId)
    return webhook.missedEvents > 0 && webhook
  })
  assert.is(missedEvents, 1)
})

faults('what a worker had open of several days is sent by the next one', async () => {
  const { partner, receiver, webhookId, enable } = await behind()
  const { partnerId } = partner
  for (let made = 0; made < 2; made++) await partner.makeTrader()
  const logged = () => db('events').where({ partner_id: partnerId }).orderBy('position', 'desc')
  await until('all of them in the log', async () => {
    await sequenceAll(db)
    return (await logged()).length === 4
  })
  const [newest, yesterday, older] = (await logged()).map(({ position }) => position)
  // As of an endpoint that was disabled for a week.
  await db.raw(`select make_day_partitions('events', current_date - 7, current_date)`)
  for (const [position, days] of [
    [older, 7],
    [yesterday, 1]
  ])
    await db('events')
      .where({ partner_id: partnerId, position })
      .update({ day: db.raw('day - ?::int', [days]) })
  await db('webhook_endpoints')
    .where({ id: webhookId })
    .update({ day: db.raw('day - 7') })
  const held: (() => void)[] = []
  receiver.respond = ({ event }, response) => {
    if (event.position === newest) response.writeHead(204).end()
    else held.push(() => response.destroy())
  }
  await enable()
  await until('the newest', async () => (await deliveriesOf(partner, webhookId)).length === 1, WAIT_MS)
  await until('both others to be held', () => held.length === 2, WAIT_MS)
  receiver.respond = (_received, response) => response.writeHead(204).end()
  const from = receiver.book.length
  // As after a kill.
  await db('webhook_endpoints')
    .where({ id: webhookId })
    .update({ worker: 'killed', lease: db.raw('lease + 1') })
  await until('the others', async () => (await deliveriesOf(partner, webhookId)).length === 3, WAIT_MS)
  const again = receiver.book.slice(from).map(({ event }) => event.position)
  assert.equal(again.sort(), [older, yesterday].sort())
  assert.is((await shown(partner, webhookId)).missedEvents, 0)
  for (const end of held) end()
})

faults('a day of attempts without its partition is made', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const day = new Date().toISOString().slice(0, 10).replaceAll('-', '')
  await db.raw(`drop table if exists webhook_attempts_${day}`)
  await partner.makeTrader()
  await until('the attempt', async () => (await deliveriesOf(partner, webhookId)).length > 0, WAIT_MS)
})

faults('an outcome is not written once another worker holds the endpoint, and that one sends again', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  let respond = () => {}
  receiver.respond = (_received, response) => {
    respond = () => response.writeHead(204).end()
  }
  await partner.makeTrader()
  await until('the request', () => receiver.book.length === 1, WAIT_MS)
  const row = () => db('webhook_endpoints').where({ id: webhookId })
  await db.raw(`insert into webhook_senders values ('another', now() + interval '1 hour')`)
  await row().update({ worker: 'another', lease: db.raw('lease + 1') })
  const before = await row().first('position', 'lease')
  respond()
  receiver.respond = (_received, response) => response.writeHead(204).end()
  // Another endpoint's outcome is written after it.
  const [other, others] = [await harness.makePartner(), await openReceiver()]
  const { webhookId: otherId } = await register(other, others)
  await other.makeTrader()
  await until("another endpoint's attempt", async () => (await deliveriesOf(other, otherId)).length === 1, WAIT_MS)
  assert.equal(await row().first('position', 'lease'), before)
  assert.equal(await deliveriesOf(partner, webhookId), [])
  await db('webhook_senders').where({ worker: 'another' }).delete()
  await until('it again', () => receiver.book.length === 2, WAIT_MS)
  assert.is(receiver.book[1]?.event.id, receiver.book[0]?.event.id)
})

faults('an outcome is written once although its first acknowledgement is lost', async () => {
  const { partner, webhookId } = await behind()
  await db('webhook_endpoints').where({ id: webhookId }).update({ worker: 'unsure' })
  const { lease, position } = await db('webhook_endpoints').where({ id: webhookId }).first('lease', 'position')
  const event = await db('events').where({ partner_id: partner.partnerId, type: 'account.connected' }).first()
  const day = Math.floor(Date.now() / 86_400_000)
  const about = { endpointId: webhookId, partnerId: partner.partnerId, type: event.type, subject: event.subject }
  const outcomes = {
    progress: [
      {
        ...{ id: webhookId, lease, position: Number(position) + 1, day, gaps: [], missed: 0 },
        ...{ failures: 0, failingMs: null, lastError: null, pausedMs: null }
      }
    ],
    pending: [],
    done: [],
    attempts: [
      {
        ...{ ...about, id: newDeliveryId(), eventId: event.id, position: Number(event.position), eventDay: day },
        ...{ attempt: 1, status: 'DELIVERED' as const, httpStatus: 204, ms: 1, error: null, response: '' },
        ...{ agoMs: 1, nextMs: null, replay: false }
      }
    ]
  }
  const write = async (again: boolean) =>
    assert.equal(
      (await writeOutcomes(db, 'unsure', outcomes, { again })).map(({ id }) => id),
      [webhookId]
    )
  await write(false)
  await write(true)
  assert.is((await deliveriesOf(partner, webhookId)).length, 1)
  // As if midnight had come in between.
  await moveToYesterday(webhookId)
  await write(true)
  assert.is((await deliveriesOf(partner, webhookId)).length, 1)
})

faults('an outcome is written once, too, where midnight comes before its worker repeats the write', async () => {
  const { partner, webhookId } = await behind()
  await db('webhook_endpoints').where({ id: webhookId }).update({ worker: 'unsure' })
  const row = await db('webhook_endpoints').where({ id: webhookId }).first()
  const lossy = openDatabase({
    url: await loseCommits(harness.env.DATABASE_URL as string, { statement: 'into webhook_attempts' }),
    pool: 1
  })
  // The pause before the repeat ends when the test says so.
  let repeat: (() => void) | undefined
  const after = (_ms: number, run: () => void) => {
    repeat = run
    return () => {}
  }
  const clock = { ...systemClock, after }
  const services = { ...harness.services, db: lossy, worker: 'unsure', clock } as unknown as WorkerServices
  const held = { position: Number(row.position), day: Math.floor(Date.now() / 86_400_000), missed: 0 }
  const endpoint = new Endpoint({ ...row, ...held, failing_ms: null, paused_ms: 0 } as HeldRow, 0)
  const attempt = {
    ...{ endpointId: webhookId, partnerId: partner.partnerId, id: newDeliveryId(), eventId: null, position: null },
    ...{ eventDay: null, type: 'account.connected', subject: null, attempt: 1, status: 'DELIVERED' as const },
    ...{ httpStatus: 204, ms: 1, error: null, response: '', agoMs: 1, nextMs: null, replay: false }
  }
  endpoint.putBack({ pending: [], done: [], attempts: [attempt], ended: [] })
  const sender = { endpoints: [endpoint], written() {}, drop() {}, wake() {} } as unknown as Sender
  const written = new OutcomeWriting(services, sender).write()
  await until('the lost acknowledgement', () => repeat)
  assert.is((await deliveriesOf(partner, webhookId)).length, 1)
  await moveToYesterday(webhookId)
  repeat?.()
  await written
  assert.is((await deliveriesOf(partner, webhookId)).length, 1)
  await lossy.destroy()
})

faults('an endpoint that is down becomes FAILING, and gets all that waits when it is back', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  receiver.respond = (_received, response) => response.writeHead(500).end()
  for (let made = 0; made < 8; made++) await partner.makeTrader()
  const failing = await until(
    'it FAILING',
    async () => {
      const webhook = await shown(partner, webhookId)
      return webhook.status === 'FAILING' && webhook
    },
    WAIT_MS
  )
  assert.equal([failing.lastError, typeof failing.failingSince], ['HTTP_STATUS', 'string'])
  receiver.respond = (_received, response) => response.writeHead(200).end()
  const taken = () => new Set(receiver.book.map(({ event }) => event.id)).size
  await until('all events', () => taken() === 8, WAIT_MS)
  await until('it well', async () => (await shown(partner, webhookId)).status === 'ENABLED', WAIT_MS)
  await until(
    'nothing that waits',
    async () => (await db('webhook_pending').where({ endpoint_id: webhookId })).length === 0,
    WAIT_MS
  )
})

/** An endpoint that responds with `status`, with a partner's first event to be sent to it. */
async function refusing(status: number, headers: Record<string, string> = {}) {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  receiver.respond = (_received, response) => response.writeHead(status, headers).end()
  return { partner, receiver, webhookId, row: () => db('webhook_endpoints').where({ id: webhookId }) }
}

faults('an endpoint that requests a pause gets nothing for as long, not from another worker either', async () => {
  const { partner, receiver, webhookId, row } = await refusing(429, { 'retry-after': '1800' })
  await partner.makeTrader()
  const [attempt] = await until('the attempt', async () => {
    const data = await deliveriesOf(partner, webhookId)
    return data.length > 0 && data
  })
  const seconds = (Date.parse(attempt.nextAt) - Date.parse(attempt.at)) / 1000
  assert.ok(seconds >= 1800 && seconds < 1900, `${seconds}`)
  const [{ left }] = await row().select(db.raw('extract(epoch from paused_until - now())::float8 as left'))
  assert.ok(left > 1700 && left <= 1800, `${left}`)
  // As after a stop: its worker gives it back, and the next event is in the log.
  const given = { worker: null, next_at: db.ref('paused_until'), lease: db.raw('lease + 1') }
  await row().update(given)
  await partner.makeTrader()
  await until('the next event in the log', async () => {
    await sequenceAll(db)
    const [{ newer }] = await row().select(
      db.raw(
        'position < (select max(position) from events e where e.partner_id = webhook_endpoints.partner_id) as newer'
      )
    )
    return newer
  })
  const take = () => takeEndpoints(db, { worker: 'another', limit: 10, endpointId: webhookId })
  assert.equal(await take(), [])
  // As after a kill: what was under way must be sent again by someone, who gets to know of the pause.
  await row().update({ worker: 'killed' })
  const heldBy = async () => (await row().first('worker')).worker
  await until('its next worker', async () => (await heldBy()) !== 'killed' && (await heldBy()), WAIT_MS)
  // What another endpoint got after it shows that this worker had its turn.
  const [other, others] = [await harness.makePartner(), await openReceiver()]
  await register(other, others)
  await other.makeTrader()
  await until('an event at another endpoint', () => others.book.length === 1, WAIT_MS)
  assert.is(receiver.book.length, 1)
  await row().update({ ...given, worker: null, paused_until: db.fn.now(), next_at: null })
  await until('the next event once the pause is over', () => receiver.book.length > 1, WAIT_MS)
})

faults(
  'a pause that an endpoint requested outlasts changes of its description, types and secret, and ends when it is enabled',
  async () => {
    const { partner, receiver, webhookId, row } = await refusing(429, { 'retry-after': '1800' })
    await partner.makeTrader()
    await until('the attempt', async () => (await deliveriesOf(partner, webhookId)).length > 0, WAIT_MS)
    const paused = () => row().first('paused_until', 'failures')
    const before = await paused()
    const change = (body: object) => partner.call(updateWebhook, { params: { id: webhookId }, body })
    for (const body of [{ description: 'orders of Acme' }, { types: null }]) assert.is((await change(body)).status, 200)
    assert.is((await partner.call(rotateWebhookSecret, { params: { id: webhookId } })).status, 200)
    assert.equal(await paused(), before)
    await partner.makeTrader()
    const [other, others] = [await harness.makePartner(), await openReceiver()]
    await register(other, others)
    await other.makeTrader()
    await until('a later event at another endpoint', () => others.book.length === 1, WAIT_MS)
    assert.is(receiver.book.length, 1)
    await change({ status: 'ENABLED' })
    await until('both events', () => new Set(receiver.book.map(({ event }) => event.position)).size === 2, WAIT_MS)
  }
)

faults(
  'an event that is sent again by hand is sent at once, whatever pause the endpoint requested before',
  async () => {
    const { partner, receiver, webhookId, row } = await refusing(429, { 'retry-after': '1800' })
    await partner.makeTrader()
    const [{ deliveryId }] = await until(
      'the attempt',
      async () => {
        const data = await deliveriesOf(partner, webhookId)
        return data.length > 0 && data
      },
      WAIT_MS
    )
    receiver.respond = (_received, response) => response.writeHead(200).end()
    assert.is((await partner.call(retryWebhookDelivery, { params: { id: webhookId, deliveryId } })).status, 200)
    await until('the event again', () => receiver.book.length === 2, WAIT_MS)
    assert.is((await row().first('paused_until')).paused_until, null)
  }
)

faults(
  'the time since which an endpoint has only failed is kept across workers, and forgotten after a success',
  async () => {
    const { partner, receiver, webhookId, row } = await refusing(500)
    const stateOf = () => row().first('failures', 'failing_since')
    const moreThan = (failures: number) =>
      until('a failure', async () => (await stateOf()).failures > failures && (await stateOf()), WAIT_MS)
    await partner.makeTrader()
    await moreThan(0)
    // As three days later, at a worker that was not there at the first failure.
    const [{ failing_since: since }] = await row()
      .update({
        failing_since: db.raw(`now() - interval '3 days'`),
        worker: null,
        next_at: db.fn.now(),
        paused_until: null,
        lease: db.raw('lease + 1')
      })
      .returning('failing_since')
    const { failures } = await stateOf()
    await partner.makeTrader()
    assert.equal((await moreThan(failures)).failing_since, since)
    assert.is((await shown(partner, webhookId)).failingSince, since.toISOString())
    receiver.respond = (_received, response) => response.writeHead(204).end()
    await partner.makeTrader()
    await until('a success', async () => (await stateOf()).failures === 0, WAIT_MS)
    assert.is((await stateOf()).failing_since, null)
  }
)

faults('days in which the partner was suspended do not count among the five of nothing but failures', async () => {
  const { partner, webhookId, row } = await refusing(500)
  const failures = async () => (await row().first('failures')).failures
  await partner.makeTrader()
  await until('a failure', async () => (await failures()) > 0, WAIT_MS)
  const suspended = await operator(
    harness.env,
    'partners',
    'suspend',
    partner.partnerId,
    '--reason',
    'a while',
    '--yes'
  )
  assert.is(suspended.exitCode, 0, suspended.stderr)
  await until('no worker to hold it', async () => (await row().first('worker')).worker === null, WAIT_MS)
  // As six days later.
  const [{ failing_since: since }] = await row()
    .update({ failing_since: db.raw(`failing_since - interval '6 days'`) })
    .returning('failing_since')
  const before = await failures()
  const resumed = await operator(harness.env, 'partners', 'resume', partner.partnerId)
  assert.is(resumed.exitCode, 0, resumed.stderr)
  await partner.makeTrader()
  await until('one more failure', async () => (await failures()) > before, WAIT_MS)
  const { status, failingSince } = await shown(partner, webhookId)
  assert.not.equal(status, 'DISABLED')
  assert.is(failingSince, since.toISOString())
})

faults(
  'an endpoint of which nothing but failures came for five days is disabled, and other readers get to know',
  async () => {
    const { partner, webhookId, row } = await refusing(500)
    const failingFor = (time: string) =>
      row().update({
        failures: 40,
        failing_since: db.raw(`now() - interval '${time}'`),
        worker: null,
        next_at: db.fn.now(),
        paused_until: null,
        lease: db.raw('lease + 1')
      })
    const failures = async () => (await row().first('failures')).failures
    await failingFor('4 days 23 hours')
    await partner.makeTrader()
    await until('a failure', async () => (await failures()) > 40, WAIT_MS)
    assert.is((await shown(partner, webhookId)).status, 'FAILING')
    await failingFor('5 days 1 second')
    const disabled = await until(
      'it disabled',
      async () => {
        const webhook = await shown(partner, webhookId)
        return webhook.status === 'DISABLED' && webhook
      },
      WAIT_MS
    )
    assert.equal([disabled.disabledReason, disabled.lastError], ['FAILURES', 'HTTP_STATUS'])
    const event = await until('the event', async () => {
      await sequenceAll(db)
      const { body } = await partner.call(listEvents, { query: { types: 'webhook.disabled' } })
      return body.data[0]
    })
    assert.equal([event.data.webhookId, event.data.status], [webhookId, 'DISABLED'])
  }
)

faults('attempts are kept for 30 days', async () => {
  const { partner, webhookId } = await refusing(204)
  const days = [ATTEMPT_DAYS + 2, ATTEMPT_DAYS + 1, ATTEMPT_DAYS]
  const day = (ago: number) => `(now() at time zone 'UTC')::date - ${ago}`
  await db.raw(`select make_webhook_days(${day(ATTEMPT_DAYS + 2)}, ${day(ATTEMPT_DAYS)})`)
  for (const ago of days)
    await db.raw(
      `insert into webhook_attempts (endpoint_id, partner_id, day, id, type, attempt, status, at, replay)
       values (:webhookId, :partnerId, ${day(ago)}, event_id(), :type, 1, 'DELIVERED', now() - :ago * interval '1 day', false)`,
      { webhookId, partnerId: partner.partnerId, type: `${ago} days ago`, ago }
    )
  assert.is(await dropDays(db, 'webhook_attempts', { keepDays: ATTEMPT_DAYS }), 2)
  const listed = await deliveriesOf(partner, webhookId)
  assert.equal(
    listed.map(({ type }: { type: string }) => type),
    [`${ATTEMPT_DAYS} days ago`]
  )
  assert.is(await dropDays(db, 'webhook_attempts', { keepDays: ATTEMPT_DAYS }), 0)
})

faults('an endpoint goes on from where it is when the log gets another epoch', async () => {
  const { partner, receiver, webhookId } = await refusing(204)
  await partner.makeTrader()
  await until('the first', async () => (await deliveriesOf(partner, webhookId)).length === 1, WAIT_MS)
  await newEventEpoch(db)
  await partner.makeTrader()
  await until('the second', async () => (await deliveriesOf(partner, webhookId)).length === 2, WAIT_MS)
  assert.equal(
    receiver.book.map(({ event }) => event.position),
    [2, 3]
  )
  assert.is((await shown(partner, webhookId)).missedEvents, 0)
})

faults.after(closeAll)
faults.run()
