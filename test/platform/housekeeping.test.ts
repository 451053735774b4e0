// What is deleted by its age is deleted whatever happens to the rest of it.
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

housekeeping.after(closeAll)
housekeeping.run()
