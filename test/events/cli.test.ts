// operator events, as real processes.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listEvents } from '../../api/events/events.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { listAudit } from '../../db/platform/audit.ts'
import { EVENTS } from '../../db/platform/bus.ts'
import { disableEndpoint } from '../../db/webhooks/leases.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startProcess } from '../support/processes.ts'
import { newest, readAll, sequenceAll } from './reading.ts'

const harness = await openHarness()
const { db, bus } = harness.services
const partner = await harness.makePartner()
const other = await harness.makePartner()
const trader = await partner.makeTrader()
await sequenceAll(db)

const events = suite('operator events')

events('list shows what the partner reads, and goes on after a cursor', async () => {
  const { events: read, cursor } = await readAll(partner)
  const [listed, page, after, shown] = await Promise.all([
    operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--json'),
    operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--limit', '1', '--json'),
    operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--after', cursor, '--json'),
    operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--trader', trader.traderExternalId)
  ])
  assert.equal(listed.json, { data: read, cursor, caughtUp: true })
  assert.equal([page.json.data.length, page.json.caughtUp], [1, false])
  assert.equal(after.json.data, [])
  assert.match(shown.stdout, /account\.connected/)
  assert.not.match(shown.stdout, /key\.created/)
})

events('list shows the record of an event whatever its type is', async () => {
  const { body } = await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/gone' } })
  const id = body.webhookId
  const [{ lease }] = await db('webhook_endpoints').where({ id }).update({ worker: 'gone' }).returning('lease')
  assert.ok(await disableEndpoint(db, { worker: 'gone', id, lease, reason: 'GONE' }))
  await sequenceAll(db)
  const args = ['--partner', partner.partnerId, '--types', 'webhook.disabled']
  const { stdout } = await operator(harness.env, 'events', 'list', ...args)
  assert.ok(stdout.includes(id), stdout)
})

events("list refuses unknown types, what is no cursor, and another partner's", async () => {
  const cursor = await newest(other)
  for (const wrong of [
    ['--types', 'order.sold'],
    ['--after', 'nonsense'],
    ['--after', cursor]
  ]) {
    const { exitCode, stderr } = await operator(harness.env, 'events', 'list', '--partner', partner.partnerId, ...wrong)
    assert.is(exitCode, 2, stderr)
    assert.match(stderr, wrong[0] as string)
  }
})

events('show names whose an event is', async () => {
  const [event] = (await readAll(other)).events
  const { json } = await operator(harness.env, 'events', 'show', event?.id as string, '--json')
  assert.equal(json, { partnerId: other.partnerId, ...event })
  assert.is((await operator(harness.env, 'events', 'show', 'evt_nothing')).exitCode, 1)
})

events('tail shows events of all partners as they happen, a line each, until it is interrupted', async () => {
  const [all, one] = await Promise.all(
    [[], ['--partner', other.partnerId, '--json']].map(async args => {
      const tail = startProcess('cli/main.ts', harness.env, ['events', 'tail', ...args])
      // It listens before it reads where the logs end.
      await until(
        'the tail to listen',
        async () => {
          const { rows } = await db.raw(
            `select 1 from pg_stat_activity
              where datname = current_database() and query like 'listen%${EVENTS}%' and pid <> pg_backend_pid()`
          )
          return rows.length >= 1
        },
        60_000
      )
      return tail
    })
  )
  const happen = async () => {
    await Promise.all([partner.makeTrader(), other.makeTrader()])
    await sequenceAll(db)
    for (const { partnerId } of [partner, other]) bus.publish(EVENTS, 'events', partnerId)
    return all?.lines.some(line => line.includes(other.partnerId)) && (one?.lines.length ?? 0) > 0
  }
  await until('events in both', happen, 60_000)
  assert.ok(
    await until('the other partner, too', () => all?.lines.some(line => line.includes(partner.partnerId)), 60_000)
  )
  const first = JSON.parse(one?.lines[0] as string)
  assert.equal([first.partnerId, first.type], [other.partnerId, 'account.connected'])
  for (const tail of [all, one]) {
    tail?.kill('SIGINT')
    assert.is(await tail?.ended, 0)
  }
})

events('new-epoch expires every cursor after confirmation, and is in the audit log', async () => {
  const cursor = await newest(partner)
  assert.is((await operator(harness.env, 'events', 'new-epoch')).exitCode, 1)
  assert.is((await partner.call(listEvents, { query: { after: cursor } })).status, 200)
  const { json } = await operator(harness.env, 'events', 'new-epoch', '--yes', '--json')
  assert.ok(json.epoch > 0)
  assert.is((await partner.call(listEvents, { query: { after: cursor } })).status, 410)
  const { data } = await listAudit(db, { limit: 1 })
  assert.equal([data[0]?.action, data[0]?.target], ['events.new-epoch', String(json.epoch)])
  const expired = await operator(harness.env, 'events', 'list', '--partner', partner.partnerId, '--after', cursor)
  assert.equal([expired.exitCode, expired.stderr.split(':')[0]], [1, 'CURSOR_EXPIRED'])
})

events.after(closeAll)
events.run()
