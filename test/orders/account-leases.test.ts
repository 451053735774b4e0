// test in a process of its own
// One worker serves an account: several workers share the accounts, each account's orders, closes and broker requests
// go over one connection, and another worker takes over when that one ends or dies.
// test time-out: 300 s
// test once for each dialect
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeOrder, placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { takeToClose } from '../../db/copy/closing.ts'
import { claimOrders } from '../../db/orders/claiming.ts'
import { endLease, renewLease } from '../../db/orders/leases.ts'
import { rows } from '../../db/postgres/connection.ts'
import {
  acceptAccounts,
  evenOut,
  releaseAccounts,
  releaseIdle,
  serveAccounts
} from '../../db/traders/account-leases.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, frontOf } from '../support/dialects.ts'
import { closeAll, FEW_LOOKS_MS, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 40, seed: 3, limits: 'off', latencyMs: 5 })
onClose(() => simulator.close())
const harness = await openHarness({
  // Accounts are evened out at the pace of leases, and orders are placed for as long as that takes.
  env: { ...brokerEnv(simulator), LEASE_MS: '3000', SWEEP_MS: '300', ORDER_TTL_MS: '60000' }
})
const { db } = harness.services
const partner = await harness.makePartner()

let most = new Map<string, number>()
/** Counts, while it runs, how many connections each account has at most. */
const watching = setInterval(() => {
  const now = new Map<string, number>()
  for (const { grants } of frontOf(simulator).connections)
    for (const accountId of grants.keys()) now.set(accountId, (now.get(accountId) ?? 0) + 1)
  for (const [accountId, count] of now) most.set(accountId, Math.max(count, most.get(accountId) ?? 0))
}, 5)
onClose(async () => clearInterval(watching))

async function place({ traderExternalId }: TestTrader, duration = 5, durationUnit = 't') {
  const { status, body } = await partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, {
      contractType: durationUnit === 't' ? 'DIGITEVEN' : 'CALL',
      duration,
      durationUnit
    })
  })
  assert.is(status, 200, JSON.stringify(body))
  return body as { orderId: string }
}

const serving = suite('an account')

serving('is served by the worker that took it until its lease is over, and by one alone', async () => {
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  const both = await serveAccounts(db, 'one', ['A1', 'A2'])
  assert.equal(
    both.sort((one, other) => one.accountId.localeCompare(other.accountId)),
    [
      { accountId: 'A1', worker: 'one' },
      { accountId: 'A2', worker: 'one' }
    ]
  )
  assert.equal(await serveAccounts(db, 'other', ['A1']), [{ accountId: 'A1', worker: 'one' }])
  await renewLease(db, 'one', -1)
  assert.equal(await serveAccounts(db, 'other', ['A1']), [{ accountId: 'A1', worker: 'other' }])
  // Back again, it finds that the account has another worker now.
  await renewLease(db, 'one', 60_000)
  assert.equal(await serveAccounts(db, 'one', ['A1']), [{ accountId: 'A1', worker: 'other' }])
  await releaseAccounts(db, 'other')
  assert.equal(await serveAccounts(db, 'one', ['A1']), [{ accountId: 'A1', worker: 'one' }])
})

serving('has its orders left to the worker that serves it, which is named', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  await serveAccounts(db, 'one', [trader.accountId])
  const claimAs = (sender: string) =>
    claimOrders(db, { accountIds: [trader.accountId], sender, claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 })
  const refused = await claimAs('other')
  assert.is(refused.claimed.length, 0)
  assert.equal(refused.elsewhere, [{ accountId: trader.accountId, worker: 'one' }])
  assert.is((await claimAs('one')).claimed.length, 1)
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: trader.accountId })
})

serving('has the copies that its leader closed sold by the worker that serves it', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'open' })
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  await serveAccounts(db, 'one', [trader.accountId])
  const { accountId } = trader
  await rows(db, 'update orders set close_at = clock_timestamp() where account_id = :accountId', { accountId })
  assert.equal(await takeToClose(db, { worker: 'other', limit: 10 }), [])
  assert.is((await takeToClose(db, { worker: 'one', limit: 10 })).length, 1)
  await rows(db, 'delete from orders where account_id = :accountId', { accountId })
})

serving('goes to the worker that serves another account of its trader', async () => {
  const externalId = `user-${randomUUID()}`
  const first = await partner.makeTrader({ externalId })
  const second = await partner.makeTrader({ externalId })
  await rows(
    db,
    `update traders t set active_account_id = a.id from broker_accounts a where a.account_id = :accountId and t.id = a.trader_id`,
    {
      accountId: second.accountId
    }
  )
  await insertOrderRows(db, second, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  await serveAccounts(db, 'one', [first.accountId])
  assert.equal(await serveAccounts(db, 'other', [second.accountId]), [{ accountId: second.accountId, worker: 'one' }])
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: second.accountId })
})

const evening = suite('a worker with more accounts than others')

/** How many accounts each of the workers serves. */
async function servedBy(workers: string[]): Promise<number[]> {
  const found = await rows<{ accounts: number }>(
    db,
    `select (select count(*) from account_leases where worker = w.name) as accounts
       from unnest(:workers::text[]) with ordinality w (name, place) order by place`,
    { workers }
  )
  return found.map(({ accounts }) => accounts)
}

evening('gives away what is too much, all accounts of a trader together, none that is busy', async () => {
  await rows(db, 'delete from account_leases')
  const traders = await Promise.all(
    Array.from({ length: 6 }, async () => {
      const externalId = `user-${randomUUID()}`
      const [one, other] = [await partner.makeTrader({ externalId }), await partner.makeTrader({ externalId })]
      return { one, other, accounts: [one.accountId, other.accountId] }
    })
  )
  const all = traders.flatMap(({ accounts }) => accounts)
  await renewLease(db, 'full', 60_000)
  assert.is((await serveAccounts(db, 'full', all)).length, 12)
  const give = (busy: string[] = [], limit = 100) => evenOut(db, { worker: 'full', busy, limit })
  // Nobody there who takes accounts: neither one of the previous version, nor one that is ending.
  await renewLease(db, 'old', 60_000)
  await renewLease(db, 'ending', 60_000)
  await acceptAccounts(db, 'ending')
  await releaseAccounts(db, 'ending')
  assert.equal(await give(), [])
  await renewLease(db, 'empty', 60_000)
  await acceptAccounts(db, 'empty')
  const sending = traders[0]!
  await insertOrderRows(db, sending.one, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const { claimed } = await claimOrders(db, {
    accountIds: [sending.one.accountId],
    sender: 'full',
    claimNo: 1,
    permitMs: 1000,
    reconcileAfterMs: 60_000
  })
  assert.is(claimed.length, 1)
  const busy = traders[1]!
  // A step has as many as wanted, or the accounts of one trader.
  const steps = [await give([busy.other.accountId], 1), await give([busy.other.accountId], 3)]
  assert.equal(
    steps.map(({ length }) => length),
    [2, 2]
  )
  const given = [...steps.flat(), ...(await give([busy.other.accountId]))]
  assert.is(given.length, 6)
  const moved = new Set(given.map(({ accountId }) => accountId))
  for (const { accounts } of traders) assert.is.not(accounts.filter(each => moved.has(each)).length, 1)
  for (const { accounts } of [sending, busy]) assert.not.ok(moved.has(accounts[0]!))
  assert.equal(await servedBy(['full', 'empty', 'old', 'ending']), [6, 6, 0, 0])
  assert.equal(await give(), [])
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: sending.one.accountId })
  for (const name of ['full', 'old', 'ending', 'empty']) await endLease(db, name)
})

evening('gives away accounts of others where those of its first trader are more than it has too many', async () => {
  await rows(db, 'delete from account_leases')
  const externalId = `user-${randomUUID()}`
  const large = await partner.makeTrader({ externalId })
  const others = []
  for (let more = 0; more < 4; more++) others.push(await partner.makeTrader({ externalId }))
  const small = await Promise.all(Array.from({ length: 4 }, () => partner.makeTrader()))
  const taken = await Promise.all(Array.from({ length: 4 }, () => partner.makeTrader()))
  const accountsOf = (traders: TestTrader[]) => traders.map(({ accountId }) => accountId)
  for (const name of ['full', 'empty']) {
    await renewLease(db, name, 60_000)
    await acceptAccounts(db, name)
  }
  await serveAccounts(db, 'full', accountsOf([large, ...others, ...small]))
  await serveAccounts(db, 'empty', accountsOf(taken))
  // 9 and 4: two are too many, and the trader whose id comes first has five.
  const given = await evenOut(db, { worker: 'full', busy: [], limit: 100 })
  assert.is(given.length, 2)
  for (const { accountId } of given) assert.ok(accountsOf(small).includes(accountId))
  for (const name of ['full', 'empty']) await endLease(db, name)
})

evening('gives up what it has not in use, unless orders wait there', async () => {
  await rows(db, 'delete from account_leases')
  await renewLease(db, 'one', 60_000)
  const waiting = await partner.makeTrader()
  await insertOrderRows(db, waiting, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await serveAccounts(db, 'one', ['used', 'idle', waiting.accountId])
  assert.equal(await releaseIdle(db, { worker: 'one', inUse: ['used'], idleMs: 60_000 }), [])
  assert.equal(await releaseIdle(db, { worker: 'one', inUse: ['used'], idleMs: 0 }), ['idle'])
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: waiting.accountId })
  await endLease(db, 'one')
})

const waking = suite('a worker that was frozen for longer than its lease')

waking('closes the connections of accounts that others serve by now, and opens none for them', async () => {
  await rows(db, 'delete from account_leases')
  const worker = await startTestWorker(harness.env)
  const trader = await partner.makeTrader()
  const { orderId } = await place(trader, 10, 'm')
  const connectionsOf = ({ accountId }: TestTrader) =>
    [...frontOf(simulator).connections].filter(({ grants }) => grants.has(accountId)).length
  assert.is(connectionsOf(trader), 1)
  // What it finds when it wakes up.
  await renewLease(db, 'other', 120_000)
  const { accountId } = trader
  await rows(db, `update account_leases set worker = 'other' where account_id = :accountId`, { accountId })
  await rows(db, `update orders set lease_holder = 'other' where id = :orderId`, { orderId })
  await until('the connection to be closed', () => connectionsOf(trader) === 0, 30_000)
  assert.equal(await rows(db, 'select lease_holder from orders where id = :orderId', { orderId }), [
    { lease_holder: 'other' }
  ])
  await worker.stop()
  await endLease(db, 'other')
})

// On a busy machine all these contracts are open by then, and move.
const MOVED_MS = 90_000

evening('shares with one that joins, while orders are placed and contracts are open', async () => {
  await rows(db, 'delete from account_leases')
  for (const name of ['one', 'other']) await endLease(db, name)
  const traders = await Promise.all(Array.from({ length: 12 }, () => partner.makeTrader()))
  const first = await startTestWorker(harness.env)
  const open = await Promise.all(traders.map(trader => place(trader, 10, 'm')))
  const second = await startTestWorker(harness.env)
  let evened = false
  // Orders go on meanwhile, and none fails; on a busy machine they end before, so that what moves does not grow with it.
  const trading = traders.map(async trader => {
    for (let orders = 0; orders < 10 && !evened; orders++) await place(trader, 10, 'm')
  })
  await until(
    'the accounts to be evened out',
    async () => {
      const [one, other] = (await servedBy([first.services.worker, second.services.worker])) as [number, number]
      return one <= 7 && other >= 5
    },
    60_000
  ).finally(() => {
    evened = true
  })
  await Promise.all(trading)
  // The contracts are followed where the accounts are, and one connection each is left.
  await until(
    'each account to have one connection',
    async () => {
      const counts = new Map<string, number>()
      for (const { grants } of frontOf(simulator).connections)
        for (const id of grants.keys()) counts.set(id, (counts.get(id) ?? 0) + 1)
      return traders.every(({ accountId }) => (counts.get(accountId) ?? 0) <= 1)
    },
    MOVED_MS
  )
  await until(
    'the contracts to be followed by who serves them',
    async () => {
      const wrong = await rows(
        db,
        `select from orders o join account_leases l using (account_id) where o.phase = 'open' and o.lease_holder is distinct from l.worker`
      )
      return wrong.length === 0
    },
    MOVED_MS
  )
  await Promise.all(
    open.map(async ({ orderId }) => {
      const { status, body } = await partner.call(closeOrder, { params: { id: orderId } })
      assert.is(status, 200, JSON.stringify(body))
    })
  )
  for (const worker of [first, second]) await worker.stop()
})

const together = suite('three workers')

together('place, close and read over one connection an account', async () => {
  await rows(db, 'delete from account_leases')
  const workers = await Promise.all([1, 2, 3].map(() => startTestWorker(harness.env)))
  const traders = await Promise.all(Array.from({ length: 12 }, () => partner.makeTrader()))
  await Promise.all(traders.map(trader => place(trader)))
  await until(
    'the accounts to be evened out',
    async () => {
      const accounts = await servedBy(workers.map(({ services }) => services.worker))
      const share = Math.ceil(accounts.reduce((sum, each) => sum + each, 0) / 3)
      return Math.max(...accounts) <= share * 1.1 + 1
    },
    30_000
  )
  // An account that moves has two for a moment: its old worker closes one after the new one may open another.
  await until('the connections left behind to be closed', async () => {
    const open = frontOf(simulator).connections
    return traders.every(({ accountId }) => [...open].filter(({ grants }) => grants.has(accountId)).length <= 1)
  })
  // On a busy machine leases end, and accounts move again, with two connections for a moment each: then once more.
  await until(
    'one connection an account',
    async () => {
      most = new Map()
      await Promise.all(traders.flatMap(trader => [place(trader), place(trader), place(trader)]))
      const long = await Promise.all(traders.map(trader => place(trader, 10, 'm')))
      await Promise.all(
        traders.map(async ({ traderExternalId }) => {
          const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
          assert.is(status, 200, JSON.stringify(body))
        })
      )
      await Promise.all(
        long.map(async ({ orderId }) => {
          const { status, body } = await partner.call(closeOrder, { params: { id: orderId } })
          assert.is(status, 200, JSON.stringify(body))
        })
      )
      return traders.every(({ accountId }) => most.get(accountId) === 1)
    },
    FEW_LOOKS_MS
  )

  // One ends in order: its accounts are served by the others at once.
  await workers[0]!.stop()
  assert.equal(await servedBy([workers[0]!.services.worker]), [0])
  await Promise.all(traders.map(trader => place(trader)))
  assert.equal(await servedBy([workers[0]!.services.worker]), [0])

  // One dies: its lease is over after LEASE_MS, and then so is its claim to the accounts.
  await renewLease(db, 'dead', 1500)
  await rows(db, `update account_leases set worker = 'dead'`)
  await Promise.all(traders.map(trader => place(trader)))
  await until('its accounts to be served', async () => {
    const accounts = traders.map(({ accountId }) => accountId)
    const found = await rows(db, `select from account_leases where worker = 'dead' and account_id = any(:accounts)`, {
      accounts
    })
    return found.length === 0
  })
  for (const worker of workers) await worker.stop()
})

together.after(closeAll)
for (const tests of [serving, evening, waking, together]) tests.run()
