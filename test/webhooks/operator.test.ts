// The operator's side of webhooks: commands, forwarding to a developer's machine, the change of the token key, the doctor.
import type { Knex } from 'knex'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createWebhook, getWebhook, updateWebhook } from '../../api/webhooks/endpoints.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { countWebhooks } from '../../db/webhooks/counts.ts'
import { secretContext } from '../../db/webhooks/endpoints.ts'
import { releaseEndpoints, renewSender, takeEndpoints } from '../../db/webhooks/leases.ts'
import { sequenceAll } from '../events/reading.ts'
import { closeAll, openHarness, TOKEN_KEYS, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startProcess, startTestWorker, startWorker } from '../support/processes.ts'
import { openReceiver } from './receiver.ts'
import { openWorld } from './world.ts'

const WAIT_MS = 60_000

const harness = await openHarness({
  env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200', OPERATOR_NAME: 'test' }
})
const { db } = harness.services
const worker = await startTestWorker(harness.env)
const { register, deliveriesOf } = openWorld(harness)
const run = (...args: string[]) => operator(harness.env, ...args)

const commands = suite('operator webhooks')
const forwarding = suite('operator listen')
const keys = suite('operator tokens rotate')

commands('list, show, replay and disable an endpoint', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const since = new Date().toISOString()
  await partner.makeTrader()
  await until('the attempt', async () => (await deliveriesOf(partner, webhookId)).length === 1, WAIT_MS)
  const list = await run('webhooks', 'list', '--partner', partner.partnerId, '--json')
  assert.equal(JSON.parse(list.stdout).data[0].webhookId, webhookId)
  const shown = JSON.parse((await run('webhooks', 'show', webhookId, '--json')).stdout)
  assert.equal([shown.partnerId, shown.deliveries.length], [partner.partnerId, 1])
  const replay = await run('webhooks', 'replay', webhookId, '--since', since, '--json')
  assert.equal(JSON.parse(replay.stdout), { events: 1 })
  await until('it again', () => receiver.book.length === 2, WAIT_MS)
  for (const none of ['2026-11-21T23:59:60Z', '2026-02-30T00:00:00Z', '2026-11-21T08:00:00+05']) {
    const { exitCode, stderr } = await run('webhooks', 'replay', webhookId, '--since', since, '--until', none)
    assert.is(exitCode, 2, stderr)
    assert.match(stderr, /^error: --until /)
  }
  const disabled = await run('webhooks', 'disable', webhookId, '--reason', 'floods a third party', '--json')
  assert.is(JSON.parse(disabled.stdout).disabledReason, 'OPERATOR')
  const { body } = await partner.call(getWebhook, { params: { id: webhookId } })
  assert.equal([body.status, body.disabledReason], ['DISABLED', 'OPERATOR'])
  // A change by its partner does not make it the partner's decision.
  const changed = await partner.call(updateWebhook, { params: { id: webhookId }, body: { description: 'mine' } })
  assert.equal([changed.body.description, changed.body.disabledReason], ['mine', 'OPERATOR'])
  const again = await run('webhooks', 'replay', webhookId, '--since', since)
  assert.equal([again.exitCode, again.stderr], [1, `CONFLICT: The endpoint ${webhookId} is DISABLED.\n`])
  assert.is((await run('webhooks', 'show', 'whk_nothing')).exitCode, 1)
})

forwarding("sends a partner's events from now on, signed", async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  await sequenceAll(db)
  const args = ['--json', 'listen', '--partner', partner.partnerId, '--forward-to', receiver.url]
  const listening = startProcess('cli/main.ts', harness.env, args)
  receiver.secrets.push(JSON.parse(await listening.line(/"secret"/)).secret)
  await partner.makeTrader()
  const { event, verified } = await until('the event', () => receiver.book[0], WAIT_MS)
  assert.equal([event.type, verified], ['account.connected', true])
  assert.is(JSON.parse(await listening.line(/account\.connected/)).httpStatus, 204)
  listening.kill('SIGINT')
  assert.is(await listening.ended, 0)
})

forwarding('refuses an address that no event can be sent to', async () => {
  const { partnerId } = await harness.makePartner()
  for (const url of ['localhost:3000/hooks', 'ftp://example.com/']) {
    const { exitCode, stderr } = await run('listen', '--partner', partnerId, '--forward-to', url)
    assert.is(exitCode, 2, stderr)
    assert.is(stderr, 'error: --forward-to must be an address that begins with https:// or http://\n')
  }
})

keys('seals the secrets of webhooks again, and only the new key opens them', async () => {
  const partner = await harness.makePartner()
  const { body } = await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/' } })
  const newKey = `t2:${Buffer.alloc(32, 9).toString('base64')}`
  const done = await operator({ ...harness.env, TOKEN_KEYS: `${newKey},${TOKEN_KEYS}` }, 'tokens', 'rotate', '--json')
  assert.is(done.exitCode, 0, done.stderr)
  assert.ok(JSON.parse(done.stdout).webhooks >= 1)
  const row = await db('webhook_endpoints').where({ id: body.webhookId }).first()
  const opened = openVault(newKey).open({ keyId: row.secret_key_id, sealed: row.secret_sealed }, secretContext(row.id))
  assert.is(opened, body.secret)
})

keys('a secret is sealed for its endpoint: as that of another nothing opens it', async () => {
  const partner = await harness.makePartner()
  const made = async () =>
    (await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/' } })).body.webhookId
  const [mine, other] = [await made(), await made()]
  const { secret_key_id: keyId, secret_sealed: sealed } = await db('webhook_endpoints').where({ id: mine }).first()
  const { vault } = harness.services
  assert.match(vault.open({ keyId, sealed }, secretContext(mine)), /^whsec_/)
  assert.throws(() => vault.open({ keyId, sealed }, secretContext(other)))
})

keys('a secret that no key opens is a state that its partner sees', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  await db('webhook_endpoints').where({ id: webhookId }).update({ secret_key_id: 'lost' })
  await partner.makeTrader()
  const shown = await until(
    'its state',
    async () => {
      const { body } = await partner.call(getWebhook, { params: { id: webhookId } })
      return body.lastError === 'SECRET_UNREADABLE' && body
    },
    WAIT_MS
  )
  assert.is(shown.status, 'FAILING')
  assert.is(receiver.book.length, 0)
  const { failing } = await countWebhooks(worker.services.db)
  assert.is(failing, 1)
})

keys('a secret that one worker cannot open is left to another one, which can', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId, secret } = await register(partner, receiver)
  const newKey = `t2:${Buffer.alloc(32, 9).toString('base64')}`
  const { keyId, sealed } = openVault(newKey).seal(secret, secretContext(webhookId))
  const row = () => db('webhook_endpoints').where({ id: webhookId })
  await row().update({ secret_key_id: keyId, secret_sealed: sealed })
  await partner.makeTrader()
  await until('the failure', async () => (await row().first()).last_error === 'SECRET_UNREADABLE', WAIT_MS)
  const able = await startWorker({ ...harness.env, TOKEN_KEYS: `${TOKEN_KEYS},${newKey}` })
  await until(
    'the delivery',
    async () => {
      // Both workers may take it now; whoever cannot open it pauses it again.
      await row().where({ worker: null }).update({ paused_until: null, next_at: new Date() })
      return receiver.book.length === 1
    },
    WAIT_MS
  )
  assert.ok(receiver.book[0]?.verified)
  able.kill('SIGTERM')
  await able.ended
})

const doctor = suite('operator doctor')

doctor('warns of events that no worker sends, also of those of an endpoint whose worker died', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  await worker.stop()
  const { webhookId } = await register(partner, receiver)
  const unheld = async () => (await countWebhooks(db)).unheld
  const before = await unheld()
  await partner.makeTrader()
  await sequenceAll(db)
  // An event of this moment may be sent yet.
  assert.is(await unheld(), before)
  await db('events')
    .where({ partner_id: partner.partnerId })
    .update({ at: db.raw(`at - interval '1 minute'`) })
  assert.is(await unheld(), before + 1)
  await renewSender(db, 'killed', 60_000)
  assert.is((await takeEndpoints(db, { worker: 'killed', limit: 1, endpointId: webhookId })).length, 1)
  assert.is(await unheld(), before)
  await db('webhook_senders').update({ lease_until: db.raw(`now() - interval '1 minute'`) })
  assert.is(await unheld(), before + 1)
  assert.match((await run('doctor')).stdout, /endpoints have events to be sent, and no worker holds them/)
})

doctor('counts no endpoint that has nothing to send, also where it had requested a pause', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId } = await register(partner, receiver)
  const before = (await countWebhooks(db)).unheld
  const take = () => takeEndpoints(db, { worker: 'one', limit: 1, endpointId: webhookId })
  await renewSender(db, 'one', 60_000)
  await db('webhook_endpoints').where({ id: webhookId }).update({ next_at: db.fn.now() })
  const [held] = await take()
  await db('webhook_endpoints')
    .where({ id: webhookId })
    .update({ paused_until: db.raw(`now() - interval '1 minute'`) })
  await releaseEndpoints(db, 'one', [{ id: webhookId, lease: held?.lease as number }])
  assert.equal([await take(), (await countWebhooks(db)).unheld], [[], before])
})

doctor('counts no endpoint whose failed event waits for the end of a requested pause, until that is over', async () => {
  const [partner, receiver] = [await harness.makePartner(), await openReceiver()]
  const { webhookId: id } = await register(partner, receiver)
  await partner.makeTrader()
  await sequenceAll(db)
  const before = (await countWebhooks(db)).unheld
  const {
    partner_id,
    position,
    day,
    id: event_id,
    type,
    subject
  } = await db('events').where({ partner_id: partner.partnerId }).orderBy('position', 'desc').first()
  const ago = db.raw(`now() - interval '1 minute'`)
  const event = { endpoint_id: id, partner_id, position, day, event_id, type, subject }
  await db('webhook_pending').insert({
    ...event,
    delivery_id: db.raw('event_id()'),
    attempts: 1,
    replay: false,
    next_at: ago
  })
  const end = (at: Knex.Raw) => db('webhook_endpoints').where({ id }).update({ position, paused_until: at })
  await end(db.raw(`now() + interval '1 hour'`))
  assert.equal(
    [await takeEndpoints(db, { worker: 'one', limit: 1, endpointId: id }), (await countWebhooks(db)).unheld],
    [[], before]
  )
  await end(ago)
  assert.is((await countWebhooks(db)).unheld, before + 1)
})

doctor.after(closeAll)
commands.run()
forwarding.run()
keys.run()
doctor.run()
