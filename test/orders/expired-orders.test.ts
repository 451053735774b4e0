// An order whose time to live ran out names what it waited for, whoever fails it: an api, a worker at its next claim, or the
// worker that gives it back.
import { createServer } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens } from '../../api/traders/accounts.ts'
import { claimOrders, listWaitingAccounts } from '../../db/orders/claiming.ts'
import { EXPIRED } from '../../db/orders/expired.ts'
import { renewLease } from '../../db/orders/leases.ts'
import { releaseUnsent } from '../../db/orders/placing.ts'
import { expireUnproven, queueProven } from '../../db/orders/proving.ts'
import { expireOrders, findOrders } from '../../db/orders/reading.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { call, closeAll, newAccountId, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startApi, startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()
const WORKER = 'worker of the test'
await renewLease(db, WORKER, 600_000)

async function makeWaiting(trader: TestTrader, changes: object = {}, on: Db = db): Promise<string> {
  const before = await on('orders').where({ account_id: trader.accountId }).pluck('id')
  await insertOrderRows(on, trader, { phase: 'queued', at: new Date(Date.now() + 600_000) })
  const { id } = await on('orders').where({ account_id: trader.accountId }).whereNotIn('id', before).first()
  await on('orders')
    .where({ id })
    .update({ ...changes, id })
  return id
}

const over = () => ({ expires_at: new Date(Date.now() - 1000), created_at: new Date(Date.now() - 60_000) })
const claim = ({ accountId }: TestTrader, sender = WORKER) =>
  claimOrders(db, { accountIds: [accountId], sender, claimNo: 1, permitMs: 10_000, reconcileAfterMs: 1000 })
const messageOf = async (id: string) => {
  const [order] = await findOrders(db, [id])
  assert.equal([order?.phase, order?.error_code, order?.retryable], ['failed', 'BROKER_UPSTREAM', true])
  return order?.error_message
}

const reasons: Record<string, { message: string; make(trader: TestTrader): Promise<unknown> }> = {
  'that no worker serves its account': {
    message: 'No worker had taken its account.',
    make: async () => undefined
  },
  'that its worker did not get to it': {
    message: 'The worker of its account did not get to it.',
    make: ({ accountId }) => serveAccounts(db, WORKER, [accountId])
  },
  'that an order before it is at the broker': {
    message: 'An earlier order of the account was at the broker.',
    make: async trader => {
      await makeWaiting(trader, { queued_at: new Date(Date.now() - 5000) })
      assert.is((await claim(trader)).claimed.length, 1)
    }
  },
  'why an order before it was given back': {
    message: 'Too many calls to the broker for this account right now.',
    make: async trader => {
      const first = await makeWaiting(trader, { queued_at: new Date(Date.now() - 5000) })
      const { claimed } = await claim(trader)
      const reason = 'Too many calls to the broker for this account right now.'
      assert.is(
        (
          await releaseUnsent(
            db,
            claimed.map(({ id, attempt }) => ({ id, attempt, reason })),
            WORKER
          )
        ).length,
        1
      )
      await db('orders').where({ id: first }).del()
    }
  }
}

const expired = suite('an order that ran out of time')

for (const [reason, { message, make }] of Object.entries(reasons))
  expired(`has the reason: ${reason}`, async () => {
    const trader = await partner.makeTrader()
    const id = await makeWaiting(trader, { queued_at: new Date(Date.now() - 4000) })
    await make(trader)
    await db('orders').where({ id }).update(over())
    assert.equal(
      (await expireOrders(db, [id])).map(order => order.id),
      [id]
    )
    assert.is(await messageOf(id), `${EXPIRED} ${message}`)
  })

expired('has the same reason when a worker finds it out of time at the head of its account', async () => {
  const trader = await partner.makeTrader()
  const id = await makeWaiting(trader)
  await reasons['why an order before it was given back']?.make(trader)
  await db('orders')
    .where({ id })
    .update({ ...over(), queued_at: new Date(Date.now() - 60_000) })
  assert.equal(
    (await claim(trader)).expired.map(order => order.id),
    [id]
  )
  assert.is(await messageOf(id), `${EXPIRED} Too many calls to the broker for this account right now.`)
})

expired(
  'has as its reason that its account could not be opened, where the broker has not accepted its token yet',
  async () => {
    for (const expire of [(id: string) => expireOrders(db, [id]), () => expireUnproven(db, 10)]) {
      const id = await makeWaiting(await partner.makeTrader(), { phase: 'unproven', ...over() })
      await expire(id)
      assert.is(await messageOf(id), `${EXPIRED} The account could not be opened at the broker.`)
    }
  }
)

expired('has the same reason where the broker accepts the token after that', async () => {
  const trader = await partner.makeTrader()
  const [account] = await db('broker_accounts').where({ account_id: trader.accountId })
  await db('broker_accounts').where({ id: account.id }).update({ proven_version: account.token_version })
  const id = await makeWaiting(trader, { phase: 'unproven', ...over() })
  await queueProven(db, account.id)
  await claim(trader)
  await expireUnproven(db, 10)
  assert.is(await messageOf(id), `${EXPIRED} The account could not be opened at the broker.`)
})

expired('has the reason why it was not sent, when its time was over as its worker gave it back', async () => {
  const trader = await partner.makeTrader()
  const id = await makeWaiting(trader)
  const { claimed } = await claim(trader)
  const past = over()
  await db('orders')
    .where({ id })
    .update({ ...past, permit_until: past.expires_at, sent_at: past.created_at })
  const reason = 'The connection of its account was busy.'
  await releaseUnsent(
    db,
    claimed.map(({ attempt }) => ({ id, attempt, reason })),
    WORKER
  )
  assert.is(await messageOf(id), `${EXPIRED} ${reason}`)
})

expired(
  "is the one that was queued later than now: the database's clock was set back, and how long it has waited is unknown",
  async () => {
    const trader = await partner.makeTrader()
    const after = (seconds: number) => db.raw(`clock_timestamp() + make_interval(secs => ?)`, [seconds])
    const id = await makeWaiting(trader, { queued_at: after(3600), expires_at: after(3610) })
    const accounts = await listWaitingAccounts(db, { worker: WORKER, ageMs: 1000, limit: 100 })
    assert.ok(accounts.includes(trader.accountId))
    const found = await claim(trader)
    assert.equal([found.claimed.length, found.expired.map(order => order.id)], [0, [id]])
    await messageOf(id)
    for (const expire of [(own: string) => expireOrders(db, [own]), () => expireUnproven(db, 10)]) {
      const unproven = { phase: 'unproven', queued_at: after(3600), expires_at: after(3610) }
      const other = await makeWaiting(await partner.makeTrader(), unproven)
      await expire(other)
      await messageOf(other)
    }
  }
)

expired('is one whose time its caller has counted, whatever the clock shows, and in no other life of it', async () => {
  const id = await makeWaiting(await partner.makeTrader())
  const [row] = await rows<{ ends: number }>(
    db,
    'select (extract(epoch from expires_at) * 1000)::float8 as ends from orders where id = :id',
    { id }
  )
  const { ends } = row as { ends: number }
  assert.equal(await expireOrders(db, [id]), [])
  assert.equal(await expireOrders(db, [id], ends - 1), [])
  assert.is((await expireOrders(db, [id], ends)).length, 1)
  await messageOf(id)
})

await db.raw('create schema faulty')
await db.raw(`create table faulty.clock as select interval '0' as back, timestamptz '-infinity' as since`)
for (const name of ['clock_timestamp', 'statement_timestamp'])
  await db.raw(
    `create function faulty.${name}() returns timestamptz language sql as
       'select pg_catalog.${name}() - case when pg_catalog.${name}() >= since then back else interval ''0'' end from faulty.clock'`
  )
/** The database with a clock that is set back by `setBack`. */
const faultyUrl = new URL(harness.env.DATABASE_URL as string)
faultyUrl.searchParams.set('options', '-c search_path=faulty,pg_catalog,public')
const setBack = (back: string, { on = db, since = '-infinity' as string | Date } = {}) =>
  on.raw('update faulty.clock set back = ?, since = ?', [back, since])

expired(
  "is one that has waited for its time, though the database's clock was set back meanwhile, by less than that",
  async () => {
    // Of the process that waits, and no worker runs.
    const api = await startApi({ ...harness.env, DATABASE_URL: faultyUrl.href, ORDER_TTL_MS: '12000' })
    const trader = await partner.makeTrader()
    const body = tickOrder(trader.traderExternalId)
    // What that clock shows when the order ends.
    await db.raw('create table faulty.ends (early boolean)')
    await db.raw(
      `create function faulty.note() returns trigger language plpgsql as
         $$ begin insert into faulty.ends values (new.expires_at > clock_timestamp()); return new; end $$`
    )
    await db.raw(
      `create trigger note before update on orders for each row when (new.phase = 'failed') execute function faulty.note()`
    )
    const placing = call(api.address, placeBinaryOrder, { body, headers: { authorization: `Bearer ${partner.key}` } })
    const { queued_at } = await until('the order', () =>
      db('orders').where({ client_order_id: body.clientOrderId }).first()
    )
    // Once it has waited for longer than that; by much, as a busy machine may end it seconds after its time.
    await setBack('10 s', { since: new Date(queued_at.getTime() + 10_500) })
    const { body: response } = await placing
    await db.raw('drop trigger note on orders')
    assert.is(response.status, 'FAILED', JSON.stringify(response))
    assert.equal(await db('faulty.ends').pluck('early'), [true], 'by that clock it still had time')
  }
)

expired(
  "is not bought by a worker that has seen the database's clock set back since it was queued; a later one is",
  async () => {
    const simulator = await startSimulator({ tickMs: 20, seed: 3, limits: 'off' })
    onClose(() => simulator.close())
    const env = { ...harness.env, DATABASE_URL: faultyUrl.href, BROKER_URL: simulator.url, SWEEP_MS: '200' }
    const worker = await startTestWorker(env)
    const [first, second] = [await partner.makeTrader(), await partner.makeTrader()]
    const bought = ({ accountId }: TestTrader) =>
      simulator.ledger().filter(({ loginid }) => loginid === accountId).length
    const from = (seconds: number) => db.raw('clock_timestamp() + make_interval(secs => ?)', [seconds])
    const terms = { contract_type: 'DIGITEVEN', duration: 1, duration_unit: 't' }
    // The worker sees neither without the other.
    const id = await db.transaction(async trx => {
      await setBack('5 s', { on: trx })
      const times = { queued_at: from(-9.5), expires_at: from(0.5), not_before: from(3600) }
      return makeWaiting(first, { ...terms, ...times }, trx)
    })
    await until('its time to be over', async () => {
      const { rows: over } = await db.raw('select from orders where id = ? and expires_at < clock_timestamp()', [id])
      return over.length > 0
    })
    await db('orders').where({ id }).update({ not_before: null })
    await until('its end', async () => (await findOrders(db, [id]))[0]?.phase === 'failed', 60_000)
    assert.is(await messageOf(id), `${EXPIRED} The clock of the database was set back.`)
    assert.is(bought(first), 0)
    await db.transaction(trx => makeWaiting(second, { ...terms, queued_at: from(-5), expires_at: from(60) }, trx))
    await until('the contract of the later one', () => bought(second) === 1)
    await worker.stop()
  }
)

expired('is placed again by a repeat that expects the mode of its account, and by no other', async () => {
  const quick = await openHarness({ url: harness.url, env: { ORDER_TTL_MS: '300' } })
  const owner = await quick.makePartner()
  const { traderExternalId, accountId } = await owner.makeTrader()
  const body = tickOrder(traderExternalId)
  const place = (changes: object = {}) => owner.call(placeBinaryOrder, { body: { ...body, ...changes } })
  const { orderId } = (await place({ expectedAccountMode: 'DEMO' })).body
  const attempts = async () => (await db('orders').where({ id: orderId }).first()).queued_at.getTime()
  const queuedAt = await attempts()
  const refusal = async (expectedAccountMode: string) => {
    const { status, body: refused } = await place({ expectedAccountMode })
    assert.equal([status, refused.error], [409, 'CONFLICT'])
    return refused.message
  }
  assert.match(await refusal('REAL'), `Account ${accountId} is DEMO, and the order is for one that is REAL`)
  const real = newAccountId()
  const accounts = [{ accountId: real, token: `sim-${real}`, accountMode: 'REAL', currency: 'USD' }]
  assert.is((await owner.call(exchangeTokens, { body: { traderExternalId, accounts } })).status, 200)
  assert.is((await owner.call(activateAccount, { body: { traderExternalId, accountId: real } })).status, 200)
  assert.match(await refusal('DEMO'), `Account ${real} is REAL, and the order is for one that is DEMO`)
  assert.match(await refusal('REAL'), `The account of order ${orderId} is DEMO, and the order is for one that is REAL`)
  assert.is(await attempts(), queuedAt)
  assert.equal([(await place()).body.orderId, (await attempts()) > queuedAt], [orderId, true])
})

expired('is not one whose clock is a little ahead', async () => {
  const trader = await partner.makeTrader()
  const id = await makeWaiting(trader, { queued_at: db.raw(`clock_timestamp() + interval '500 ms'`) })
  assert.equal(
    (await claim(trader)).claimed.map(order => order.id),
    [id]
  )
})

/** A broker that accepts connections and never responds. */
async function startSilent(): Promise<string> {
  const silent = createServer(socket => socket.on('error', () => undefined)).listen(0, '127.0.0.1')
  onClose(async () => void silent.close())
  await new Promise(resolve => silent.once('listening', resolve))
  return `ws://127.0.0.1:${(silent.address() as { port: number }).port}`
}

expired('is tried again soon, however often its permit has ended while its account was being opened', async () => {
  const id = await makeWaiting(await partner.makeTrader(), { expires_at: new Date(Date.now() + 60_000) })
  const env = { ...harness.env, BROKER_URL: await startSilent(), PERMIT_MS: '200', SWEEP_MS: '100' }
  const worker = await startTestWorker(env)
  onClose(worker.stop)
  let longestMs = 0
  await until('the sixth attempt', async () => {
    const [row] = await rows<{ attempt: number; pauseMs: number | null }>(
      db,
      `select attempt, (extract(epoch from not_before - clock_timestamp()) * 1000)::float8 as "pauseMs" from orders where id = :id`,
      { id }
    )
    longestMs = Math.max(longestMs, row?.pauseMs ?? 0)
    return (row?.attempt ?? 0) >= 6
  })
  assert.ok(longestMs < 500, `${longestMs} ms`)
})

expired(
  'has as its reason that the connection was not ready, with a broker that accepts connections and is silent',
  async () => {
    const url = await startSilent()
    const env = { ...harness.env, BROKER_URL: url, PERMIT_MS: '1000', SWEEP_MS: '100' }
    const worker = await startTestWorker(env)
    onClose(worker.stop)
    const trader = await partner.makeTrader()
    // From here on it is tried, which starting a worker delays on a busy machine.
    const id = await makeWaiting(trader, { expires_at: new Date(Date.now() + 5000) })
    await until('its end', async () => (await findOrders(db, [id]))[0]?.phase === 'failed', 60_000)
    // Where a busy machine takes seconds longer, it is known by then that the broker does not respond to anybody.
    const reasons = ['The connection of its account was not ready.', 'The broker could not be reached.']
    const message = await messageOf(id)
    assert.ok(
      reasons.some(reason => message === `${EXPIRED} ${reason}`),
      String(message)
    )
  }
)

expired.after.each(async () => void (await setBack('0')))
expired.after(closeAll)
expired.run()
