// What a queue promises of its jobs: data that breaks its schema becomes a dead letter and stops nothing, a failure
// counts as a try, and a job that fails is passed by the others.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader } from '../../api/copy.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { conditionOf } from '../../db/platform/job-condition.ts'
import { rows } from '../../db/postgres/connection.ts'
import { matches } from '../../schemas/checks/validator.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { deadLetterOf, type QueueName, queues } from '../../schemas/jobs.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 4, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '60000' } })
const { db, queue } = harness.services
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const place = ({ traderExternalId }: TestTrader) =>
  partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { stake: 2 })
  })

interface DeadLetter {
  data: unknown
  source_name: string
  source_retry_count: number
  source_output: { message: string }
}

const deadLetters = (name: QueueName) =>
  rows<DeadLetter>(
    db,
    `select data, source_name, source_retry_count, source_output from pgboss.job
      where name = :dead and state < 'active' order by created_on`,
    { dead: deadLetterOf(name) }
  )

const conditions = suite('the schema of job data in SQL')

conditions('requires what the schema requires', async () => {
  const requestId = newId('brokerRequest')
  const order = newId('order')
  const samples: unknown[] = [
    ...[null, 0, 1.5, 'x', true, [], {}, [1], { accountIds: null }, { accountIds: 'a' }, { accountIds: [] }],
    ...[
      { accountIds: ['a'] },
      { accountIds: ['a', 'b'], more: 1 },
      { accountIds: ['a', ''] },
      { accountIds: ['a', 1] }
    ],
    ...[{ accountIds: Array(20).fill('a') }, { accountIds: Array(21).fill('a') }, { orderId: order, accountId: 'a' }],
    ...[
      { orderId: order },
      { orderId: order, after: newId('follow') },
      { orderId: order, after: 1 },
      { brokerRequestId: requestId }
    ],
    ...[
      { brokerRequestId: `${requestId}x` },
      { brokerRequestId: 5 },
      { brokerRequestId: requestId, other: null },
      { 'it’s': "'" }
    ],
    ...[1, 0, 1.5, '1', null].map(revision => ({ deploymentId: newId('deployment'), revision }))
  ]
  for (const name of ['order.place', 'ask', 'copy.fanout', 'template.deploy'] as const) {
    const schema = queues[name].data
    const found = await rows<{ fits: boolean }>(
      db,
      `select ${conditionOf(schema, 'value')} as fits from jsonb_array_elements(:samples::jsonb) with ordinality as s (value, place) order by place`,
      { samples: JSON.stringify(samples) }
    )
    const expected = samples.map(sample => matches(schema, structuredClone(sample)))
    assert.equal(
      found.map(({ fits }) => fits),
      expected,
      name
    )
    assert.ok(expected.includes(true), name)
  }
})

conditions('refuses a schema that it cannot express', () => {
  assert.throws(() => conditionOf({ type: 'number' }, 'value'), /no condition for a schema of type "number"/)
})

const broken = suite('a job whose data breaks its schema')

for (const name of ['order.place', 'ask', 'copy.fanout', 'template.deploy'] as const) {
  broken(`becomes a dead letter of ${name}, and what came after it is done`, async () => {
    const bad = [{ wrong: name }, 'text', { accountIds: 'none' }]
    for (const data of bad) await db.transaction(trx => queue.enqueue(trx, name, [data as never]))
    const trader = await partner.makeTrader()
    assert.is((await place(trader)).status, 200)
    const letters = await until(
      'the dead letters',
      async () => {
        const found = await deadLetters(name)
        return found.length === bad.length && found
      },
      20_000
    )
    assert.equal(letters.map(({ data }) => JSON.stringify(data)).sort(), bad.map(data => JSON.stringify(data)).sort())
    for (const { source_name, source_output } of letters) {
      assert.is(source_name, name)
      assert.match(source_output.message, /breaks the schema/)
    }
  })
}

broken('becomes a dead letter of a queue with a schedule', async () => {
  await queue.boss.insert('housekeeping', [{ data: [] as never, retryLimit: 0 }])
  await until('the dead letter', async () => (await deadLetters('housekeeping')).length === 1, 30_000)
})

const failing = suite('a fan-out that fails')

failing('counts its tries, becomes a dead letter, and does not hold up the others', async () => {
  const [unlucky, other] = [await partner.makeTrader(), await partner.makeTrader()]
  const followers = []
  for (const leader of [unlucky, other]) {
    await insertOrderRows(db, leader, { count: 10 })
    const follower = await partner.makeTrader()
    followers.push(follower)
    const { status } = await partner.call(followLeader, {
      body: { traderExternalId: follower.traderExternalId, leaderId: leader.traderId, maxDrawdownPct: 90 }
    })
    assert.is(status, 200)
  }
  const [victim, follower] = followers as [TestTrader, TestTrader]
  await db.raw(
    `create function refuse_copy() returns trigger language plpgsql as $$ begin raise exception 'no copies'; end $$`
  )
  await db.raw(
    `create trigger refuse_copy before insert on orders for each row
      when (new.trader_id = '${victim.traderId}') execute function refuse_copy()`
  )
  const { orderId } = (await place(unlucky)).body
  await place(other)
  const copies = ({ traderId }: TestTrader) => db('orders').where({ trader_id: traderId }).whereNotNull('copied_from')
  await until('the copy behind it', async () => (await copies(follower)).length === 1)
  // Its retries would be over after half a minute.
  for (let tries = 1; tries <= queues['copy.fanout'].retry.limit + 1; tries++) {
    await until(
      `try ${tries}`,
      async () => {
        await db.raw(`update pgboss.job set start_after = now() where name = 'copy.fanout' and state = 'retry'`)
        const [job] = await rows<{ retry_count: number; state: string }>(
          db,
          `select retry_count, state from pgboss.job where name = 'copy.fanout' and state in ('retry', 'failed') and data ->> 'orderId' = :orderId`,
          { orderId }
        )
        return job && (job.state === 'failed' || job.retry_count >= tries)
      },
      20_000
    )
  }
  const [letter] = (await deadLetters('copy.fanout')).filter(({ source_output }) =>
    /no copies/.test(source_output.message)
  )
  assert.is(letter?.source_retry_count, queues['copy.fanout'].retry.limit)
  assert.is((await copies(victim)).length, 0)
})

failing.after(closeAll)
for (const tests of [conditions, broken, failing]) tests.run()
