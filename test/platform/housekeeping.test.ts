// What is deleted by its age is deleted whatever happens to the rest of it.
import { randomBytes, randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { newId } from '../../schemas/fields/ids.ts'
import { runHousekeeping } from '../../worker/housekeeping.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const harness = await openHarness()
const { services } = harness
const { db } = services

const housekeeping = suite('housekeeping')

housekeeping('deletes the other kinds when one of them fails, and reports that', async () => {
  const partner = await harness.makePartner()
  const { traderId } = await partner.makeTrader()
  await db('password_resets').insert({
    trader_id: traderId,
    hash: Buffer.alloc(32),
    expires_at: new Date(Date.now() - 60_000)
  })
  const lasting = await partner.makeTrader()
  await db('password_resets').insert({
    trader_id: lasting.traderId,
    hash: Buffer.alloc(32, 1),
    expires_at: new Date(Date.now() + 600_000)
  })
  await db.raw(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no session goes'; end $$`
  )
  await db.raw('create trigger refuse before delete on sessions for each statement execute function refuse()')
  const failure = await runHousekeeping(services).then(
    () => undefined,
    (error: Error) => error.message
  )
  assert.match(failure ?? '', /no session goes/)
  assert.equal(await db('password_resets').select('trader_id'), [{ trader_id: lasting.traderId }])
  await db.raw('drop trigger refuse on sessions')
  await runHousekeeping(services)
})

housekeeping(
  'keeps a job that is the only trace of its work while no worker runs for days, and none of the clock',
  async () => {
    const { queue } = services
    const orderId = newId('order')
    await db.transaction(async trx => {
      await queue.enqueue(trx, 'copy.close', [{ orderId }])
      await queue.enqueue(trx, 'billing.check', [{}])
    })
    const days = 29
    const names = ['copy.close', 'billing.check']
    await db.raw(
      `update pgboss.job set created_on = created_on - ?::int * interval '1 day', start_after = start_after - ?::int * interval '1 day',
            keep_until = keep_until - ?::int * interval '1 day' where name = any(?)`,
      [days, days, days, names]
    )
    for (const name of names) await queue.boss.supervise(name)
    assert.equal(await db('pgboss.job').whereIn('name', names).select('name', 'data'), [
      { name: 'copy.close', data: { orderId } }
    ])
  }
)

const MINUTE_MS = 60_000
const HOUR = 60
const DAY = 24 * HOUR

housekeeping('deletes of each kind what is too old, and keeps what is a little younger', async () => {
  const { partnerId: partner_id, keyId: key_id } = await harness.makePartner()
  const request = { kind: 'balance', data: {}, reply_channel: 'nobody' }
  const calls = { worker: 'gone', class: 'buy', window_ms: 3_600_000, calls: 1 }
  const taken = { partner_id, fingerprint: Buffer.alloc(32), holder: randomUUID(), leased_until: new Date() }
  const ofKey = { partner_id, key_id, channels: ['ticks'] }
  // The column of a row's name, the one of its age, and the minutes after which it is deleted.
  const kinds: [table: string, name: string, age: string, minutes: number, columns?: () => object][] = [
    ['broker_requests', 'id', 'expires_at', 5, () => ({ ...request, key: randomUUID() })],
    ['lease_holders', 'name', 'lease_until', DAY],
    ['account_leases', 'account_id', 'leased_at', DAY, () => ({ worker: 'gone' })],
    ['processes', 'name', 'seen_at', DAY, () => ({ kind: 'api', version: '1' })],
    ['call_records', 'scope', 'spent_until', 70, () => calls],
    ['call_counters', 'scope', 'since', 70, () => ({ worker: 'gone' })],
    ['unowned_contracts', 'contract_id', 'found_at', 30 * DAY, () => ({ account_id: 'CR1', evidence: {} })],
    ['sessions', 'id', 'expires_at', HOUR, () => ({ partner_id, hash: randomBytes(32) })],
    ['idempotency_keys', 'key', 'created_at', DAY, () => taken],
    ['webhook_senders', 'worker', 'lease_until', HOUR],
    ['stream_tickets', 'trader_external_id', 'expires_at', 0, () => ({ ...ofKey, hash: randomBytes(32) })],
    ['tick_wants', 'process', 'wanted_until', DAY, () => ({ dialect: 'v3', app_ids: [], assets: [] })]
  ]
  const insert = ([table, name, age, minutes, columns]: (typeof kinds)[number], called: string, more: number) =>
    db(table).insert({ ...columns?.(), [name]: called, [age]: new Date(Date.now() - (minutes + more) * MINUTE_MS) })
  for (const kind of kinds) {
    await insert(kind, 'long past', 1)
    await insert(kind, 'still kept', -1)
  }
  // Of a worker that lives: what it holds or counts in is in use, however old.
  await db('lease_holders').insert({ name: 'living', lease_until: new Date() })
  const old = new Date(Date.now() - 2 * DAY * MINUTE_MS)
  await db('account_leases').insert({ account_id: 'of the living', worker: 'living', leased_at: old })
  await db('call_counters').insert({ scope: 'of the living', worker: 'living', since: old })
  await runHousekeeping(services)
  for (const [table, name] of kinds) {
    const left = await db(table).whereIn(name, ['long past', 'still kept', 'of the living']).orderBy(name).pluck(name)
    const living = ['account_leases', 'call_counters'].includes(table) ? ['of the living'] : []
    assert.equal([table, ...left], [table, ...living, 'still kept'])
  }
})

housekeeping.after(closeAll)
housekeeping.run()
