// The broker's quotas over processes: what a killed worker spent counts for the one that takes over, a user has five
// connections at most whoever opens them, and an order that a quota keeps from being placed names the quota.
// test in the full run only
// test time-out: 600 s
// test once for each dialect
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { endLease, renewLease } from '../../db/orders/leases.ts'
import { type CallRecord, openCallRecords, type ScopeRecords } from '../../db/platform/call-records.ts'
import { rows } from '../../db/postgres/connection.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { giveAwayAccounts } from '../../worker/accounts/account-leases.ts'
import type { ClientOptions } from '../../worker/broker/client.ts'
import { createNextBroker } from '../../worker/broker/dialects/next.ts'
import { Rest } from '../../worker/broker/dialects/next-rest.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import type { Broker, BrokerAccount } from '../../worker/broker/port.ts'
import type { CallLimits } from '../../worker/broker/transport/call-window.ts'
import { Budget, settleAll } from '../../worker/broker/transport/quota.ts'
import { SharedCalls } from '../../worker/broker/transport/shared-calls.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect, frontOf } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

// Hundreds of contracts stay open, and each of them sends an update with each tick.
const simulator = await startSimulator({ tickMs: 1000, seed: 5, limits: 'published' })
onClose(() => simulator.close())
const ORDER_TTL_MS = 15_000
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    LEASE_MS: '1500',
    SWEEP_MS: '300',
    ORDER_TTL_MS: String(ORDER_TTL_MS),
    // What a killed worker had sent is executed at once here, or never.
    RECONCILE_AFTER_MS: '1000',
    RECONCILE_CRASHED_MS: '1000'
  }
})
const { db, log, config } = harness.services
const partner = await harness.makePartner()
const front = frontOf(simulator)

const limits: CallLimits = { trading: { perMinute: 40, perHour: 400 } }

/** A budget of a scope as the worker of that name keeps it. */
async function budgetOf(scope: string, worker: string): Promise<Budget> {
  await renewLease(db, worker, 60_000)
  return new Budget(limits, { records: openCallRecords(db, worker).of(scope) })
}

/** How many calls a budget lets go at once. */
async function drain(budget: Budget, most = 1000): Promise<number> {
  for (let calls = 0; calls < most; calls++) {
    try {
      await budget.take('trading', { urgent: true, waitMs: 5000 })
    } catch {
      return calls
    }
  }
  return most
}

const recordsOf = (scope: string) =>
  rows<{ calls: number }>(db, `select calls from call_records where scope = :scope and window_ms = 60000`, { scope })

const counted = suite('what a worker spent of a quota')

counted('is not recorded as long as it is a quarter', async () => {
  const scope = `scope ${randomUUID()}`
  assert.is(await drain(await budgetOf(scope, 'frugal'), 10), 10)
  assert.is((await recordsOf(scope)).length, 0)
})

counted('counts for the worker that comes after it, killed as it may be at any moment', async () => {
  for (const spent of [1, 9, 10, 11, 25, 40]) {
    const scope = `scope ${randomUUID()}`
    const killed = `killed ${randomUUID()}`
    assert.is(await drain(await budgetOf(scope, killed), spent), spent)
    await renewLease(db, killed, 1)
    const next = await drain(await budgetOf(scope, `next ${randomUUID()}`))
    assert.ok(spent + next <= 40, `${spent} and ${next} of 40`)
    // A quarter, and what is recorded ahead, is what may be lost of it.
    assert.ok(spent + next >= 40 - 10 - 2, `${spent} and ${next} of 40`)
  }
})

counted('counts to the call once it ended in order', async () => {
  const scope = `scope ${randomUUID()}`
  const first = await budgetOf(scope, 'orderly')
  assert.is(await drain(first, 7), 7)
  await first.settle()
  await endLease(db, 'orderly')
  const second = await budgetOf(scope, 'second')
  assert.is(await drain(second), 33)
  // Whoever had it before counts what the other spent meanwhile.
  assert.is(await drain(first), 0)
})

counted('is recorded although another budget could not be', async () => {
  const budget = (settle: (stored: ScopeRecords, records: CallRecord[]) => Promise<void>) => {
    const stored = openCallRecords(db, 'settling').of(`scope ${randomUUID()}`)
    return new Budget(limits, { records: { ...stored, settle: records => settle(stored, records) } })
  }
  let recorded = false
  const budgets = [
    budget(() => Promise.reject(new Error('away'))),
    budget(async (stored, records) => {
      await stored.settle(records)
      recorded = true
    })
  ]
  for (const each of budgets) assert.is(await drain(each, 3), 3)
  const [ended] = await Promise.allSettled([settleAll(budgets)])
  assert.match(String((ended as PromiseRejectedResult).reason), /away/)
  assert.ok(recorded)
})

counted('by three killed ones in a row is never more than the quota', async () => {
  const scope = `scope ${randomUUID()}`
  let all = 0
  for (const worker of ['a', 'b', 'c', 'd']) {
    const name = `${worker} ${randomUUID()}`
    all += await drain(await budgetOf(scope, name), 15)
    await renewLease(db, name, 1)
  }
  assert.ok(all <= 40, `${all} of 40`)
})

counted('without a record by one that lives is counted once, however often it is read', async () => {
  const scope = `scope ${randomUUID()}`
  assert.is(await drain(await budgetOf(scope, `living ${randomUUID()}`), 1), 1)
  const name = `reader ${randomUUID()}`
  await renewLease(db, name, 60_000)
  const stored = openCallRecords(db, name).of(scope)
  let readings = 0
  let reading: Promise<unknown> = Promise.resolve()
  const load = () => {
    readings += 1
    const calls = stored.load()
    reading = calls
    return calls
  }
  let now = 1_000_000
  const clock = { now: () => now, after: systemClock.after }
  const budget = new Budget(limits, { clock, records: { ...stored, load } })
  for (let minute = 0; minute < 6; minute++) {
    await budget.take('trading')
    await reading
    // What was read is counted in the turn after.
    await new Promise(resolve => setImmediate(resolve))
    now += 61_000
  }
  assert.is(readings, 6)
  // A quarter of the hour is the other's, and six calls.
  assert.ok(budget.leftOf('trading') > 0.7, String(budget.leftOf('trading')))
})

counted('of a quota that workers share is counted in one place, urgent calls first', async () => {
  const windows = { perMinute: 30, perTenMinutes: 100, perHour: 0, reserve: 0.4 }
  const scope = `shared ${randomUUID()}`
  /** Takes calls until none is left: how many of forty a worker gets. */
  function takerOf(worker: string) {
    const records = openCallRecords(db, worker)
    let none = () => {}
    const spend: typeof records.spend = async (...given) => {
      const found = await records.spend(...given)
      if (found.granted === 0) none()
      return found
    }
    const calls = new SharedCalls({ records: { ...records, spend }, scope, windows, log })
    return async (urgent: boolean) => {
      const off = new AbortController()
      none = () => off.abort()
      const { signal } = off
      const taken = Array.from({ length: 40 }, () => calls.take({ urgent, waitMs: 60_000, signal }))
      const ended = await Promise.allSettled(taken)
      return ended.filter(({ status }) => status === 'fulfilled').length
    }
  }
  const [one, other] = [takerOf('one'), takerOf('other')]
  const ordinary = await Promise.all([one(false), other(false)])
  assert.is(ordinary[0] + ordinary[1], 18)
  const urgent = await Promise.all([one(true), takerOf('new')(true)])
  assert.is(urgent[0] + urgent[1], 12)
})

counted('of a quota that workers share is counted without a transaction, which would hold the others up', async () => {
  const begun: string[] = []
  // A statement outside of a transaction is not reported.
  const note = ({ sql }: { sql: string }) => void begun.push(sql)
  db.on('query', note)
  const windows = [{ windowMs: 60_000, limit: 3 }]
  const { spend } = openCallRecords(db, 'one')
  const quota = { scope: `shared ${randomUUID()}`, windows }
  assert.equal(await spend(quota, 2), { granted: 2, retryMs: 0 })
  db.off('query', note)
  assert.equal(begun, [])
  assert.is((await spend(quota, 2)).granted, 1)
  const { granted, retryMs } = await spend(quota, 2)
  assert.is(granted, 0)
  assert.ok(retryMs > 50_000 && retryMs <= 63_000, `${retryMs}`)
})

counted(
  'of a quota that workers share goes on at once for an urgent call while the others have used their part',
  async () => {
    const records = openCallRecords(db, 'one')
    const held = Promise.withResolvers<void>()
    let spends = 0
    let paused: boolean | undefined
    const spend: typeof records.spend = async (quota, calls) => {
      spends += 1
      if (spends !== 4) return await records.spend(quota, calls)
      await held.promise
      const found = await records.spend(quota, calls)
      // What is called without a pause is called before this turn of the loop ends.
      setImmediate(() => {
        paused ??= spends < 5
      })
      return found
    }
    const scope = `shared ${randomUUID()}`
    const windows = { perMinute: 5, perHour: 0, reserve: 0.4 }
    const calls = new SharedCalls({ records: { ...records, spend }, scope, windows, log })
    // The ordinary ones have three of five.
    for (let call = 0; call < 3; call++) await calls.take({ waitMs: 10_000 })
    const ordinary = calls.take({ waitMs: 10_000 }).then(
      () => 'made',
      () => 'refused'
    )
    await until('the spending of the next one', () => spends === 4)
    const urgent = calls.take({ urgent: true, waitMs: 10_000 })
    held.resolve()
    await urgent
    assert.is(paused, false)
    assert.is(await ordinary, 'refused')
  }
)

/** A client of the broker as a worker of that name has it. */
async function clientOf(worker: string, options: Partial<ClientOptions> = {}): Promise<Broker> {
  await renewLease(db, worker, 60_000)
  const shared = { log, records: openCallRecords(db, worker), ...options }
  const client =
    dialect === 'v3'
      ? createV3Broker({ url: simulator.url, ...shared })
      : createNextBroker({ url: simulator.nextUrl, appIdHeader: simulator.appIdHeader, ...shared })
  onClose(() => client.close())
  return client
}

async function accountOfBroker(): Promise<BrokerAccount> {
  const { accountId } = await partner.makeTrader()
  return { appId: appIds[dialect], accountId, credentialId: accountId, token: async () => `sim-${accountId}` }
}

counted('before it gave an account to another worker that lives is known to that one to the call', async () => {
  const account = await accountOfBroker()
  // More workers than there are quarters of a quota.
  for (let place = 1; place <= 6; place++) {
    const client = await clientOf(`holder ${place} ${randomUUID()}`)
    const session = await client.session(account)
    await session.balance()
    await client.leave([account.accountId])
    assert.equal([client.accounts(), client.counted()], [[], []])
  }
})

counted('of an account that others serve by now is known to them, also when its connection is closed', async () => {
  const account = await accountOfBroker()
  const { accountId } = account
  const worker = `frozen ${randomUUID()}`
  const brokers = await clientOf(worker, { idleCloseMs: 50 })
  await (await brokers.session(account)).balance()
  await until('the connection to be closed for want of use', () => brokers.accounts().length === 0)
  assert.equal(brokers.counted(), [accountId])
  const other = `other ${randomUUID()}`
  await renewLease(db, other, 60_000)
  await serveAccounts(db, other, [accountId])
  const settling = { busyAccounts: () => new Set<string>(), leave: async () => {} }
  await giveAwayAccounts({ ...harness.services, brokers, clock: systemClock, worker }, settling)
  assert.equal(brokers.counted(), [])
  assert.equal(await rows(db, 'select scope from call_counters where worker = :worker', { worker }), [])
})

counted('for a report of markups is known to the worker that reads the next one', async () => {
  const { accountId } = await partner.makeTrader()
  const day = new Date().toISOString().slice(0, 10)
  const access = { appId: appIds[dialect], ownerId: randomUUID(), token: async () => `sim-${accountId}` }
  for (let place = 1; place <= 6; place++) {
    const client = await clientOf(`reader ${place} ${randomUUID()}`)
    await client.markupReport(access, day)
  }
})

interface PlacedInBurst {
  status: number
  body: { orderId?: string; error?: string; message?: string }
}

const place = (trader: TestTrader, changes: object = {}): Promise<PlacedInBurst> =>
  partner.call(placeBinaryOrder, {
    body: tickOrder(trader.traderExternalId, { duration: 60, durationUnit: 'm', ...changes })
  })

async function kill(worker: TestProcess): Promise<void> {
  worker.kill('SIGKILL')
  await worker.ended
}

const contracts = () => simulator.engine.contracts.size
const quota = dialect === 'v3' ? 80 : 360

const burst = suite('a burst of orders')

burst('over many accounts and several workers is placed within the quotas', async () => {
  // A busy machine may need long for them.
  config.orderTtlMs = 120_000
  const traders = await Promise.all(Array.from({ length: 20 }, () => partner.makeTrader()))
  // With four of them below, in the dialect whose connections are counted.
  const workers = await Promise.all(Array.from({ length: dialect === 'v3' ? 4 : 2 }, () => startWorker(harness.env)))
  const placed = await Promise.all(Array.from({ length: 200 }, (_, index) => place(traders[index % 20]!)))
  for (const { status, body } of placed) assert.is(status, 200, JSON.stringify(body))
  assert.equal([front.quota.refused, simulator.next.refused], [0, { rest: 0, sockets: 0 }])
  await Promise.all(workers.map(kill))
  config.orderTtlMs = ORDER_TTL_MS
})

const killed = suite('a worker that is killed in the middle of a burst')

killed(
  'leaves a quota that the next one does not exceed; orders beyond it have the reason why they were not placed',
  async () => {
    // A busy machine may need long for half of the quota, and all have to end within the minute that it is counted in.
    config.orderTtlMs = dialect === 'v3' ? 25_000 : 45_000
    const trader = await partner.makeTrader()
    const worker = await startWorker(harness.env)
    assert.is((await place(trader)).status, 200)
    const next = await startWorker(harness.env)
    const before = contracts()
    const burst = Promise.all(Array.from({ length: quota + 100 }, () => place(trader)))
    await until('the half of the quota to be spent', () => contracts() - before >= quota * 0.5, 60_000)
    await kill(worker)
    const placed = await burst
    assert.is(front.quota.refused, 0)
    const bought = placed.filter(({ status }) => status === 200).length
    assert.ok(bought <= quota, `${bought} placed`)
    // What is left of the quota is used, for following what is open, too.
    assert.ok(contracts() - before >= quota * 0.52, `${contracts() - before} placed`)
    for (const { status, body } of placed.filter(each => each.status !== 200)) {
      // Where the machine is busy, the last ones come when many of the others have waited for long.
      assert.ok(status === 502 || (status === 429 && body.error === 'RATE_LIMITED'), JSON.stringify(body))
      // Usually too many calls; on a busy machine a permit that ran out, or the order that was in doubt.
      assert.not.match(body.message ?? 'none', /none|it was not placed\.$/)
    }
    await kill(next)
    config.orderTtlMs = ORDER_TTL_MS
  }
)

const connected = suite('a user of the broker with two accounts and one token')

connected(
  'has five connections at most with four workers that are killed in turn, and every order is placed',
  async () => {
    if (dialect === 'v3') return
    const number = Math.floor(Math.random() * 1e9)
    const [demo, real] = [`DOT${number}`, `ROT${number}`]
    simulator.engine.accounts.create({ loginid: demo })
    simulator.engine.accounts.create({ loginid: real, virtual: true })
    const token = `sim-${demo}`
    config.orderTtlMs = 120_000
    const workers = await Promise.all([1, 2, 3, 4].map(() => startWorker(harness.env)))
    // Three partners' traders of one user; one of them has both accounts.
    const externalId = `user-${randomUUID()}`
    const both = await partner.makeTrader({ externalId, accountId: demo, token })
    await partner.makeTrader({ externalId, accountId: real, token })
    const activate = (accountId: string) =>
      rows(
        db,
        `update traders t set active_account_id = a.id from broker_accounts a where a.account_id = :accountId and t.id = a.trader_id`,
        { accountId }
      )
    let most = 0
    const watching = setInterval(() => {
      const connections = [...front.connections].filter(({ grants }) => grants.has(demo) || grants.has(real))
      most = Math.max(most, connections.length)
    }, 5)
    onClose(async () => clearInterval(watching))
    for (let round = 0; round < 4; round++) {
      for (const accountId of [demo, real]) {
        await activate(accountId)
        const placed = await Promise.all(Array.from({ length: 6 }, () => place(both)))
        for (const { status, body } of placed) assert.is(status, 200, JSON.stringify(body))
      }
      const [worker] = workers.splice(0, 1)
      if (round < 3) await kill(worker!)
      else workers.push(worker!)
    }
    assert.is(simulator.next.refused.sockets, 0)
    assert.ok(most > 0 && most <= 4, `${most} connections at a time`)
    for (const worker of workers) await kill(worker)
    config.orderTtlMs = ORDER_TTL_MS
  }
)

connected(
  'whose connections another program has taken waits longer each time, with the reason on the order',
  async () => {
    if (dialect === 'v3') return
    const trader = await partner.makeTrader()
    const worker = await startWorker(harness.env)
    // The user's own programs.
    const grant = simulator.engine.accounts.grant(`sim-${trader.accountId}`)
    const others = Array.from({ length: 5 }, () => {
      const peer = { send() {}, close() {}, terminate() {} }
      return simulator.next.connect({ grant, appId: 'other-program' }, peer as never)
    })
    const before = simulator.next.refused.sockets
    const { status, body } = await place(trader)
    assert.is(status, 502, JSON.stringify(body))
    assert.match(body.message ?? '', /connections|other programs/)
    const refused = simulator.next.refused.sockets - before
    assert.ok(refused >= 1 && refused <= 12, `${refused} attempts in 15 s`)
    for (const { left } of others) left()
    await until('the account to be opened again', async () => (await place(trader)).status === 200, 30_000)
    await kill(worker)
  }
)

const waiting = suite('a REST call of the newer dialect that waits for its turn')

waiting('is refused at once when its client is closed, and so is one made later', async () => {
  if (dialect === 'v3') return
  // What the workers above used of this machine's calls.
  await rows(db, `delete from call_records where scope like 'next rest %'`)
  let made = 0
  const server = createServer((_request, response) => {
    made += 1
    response.end(JSON.stringify({ data: { url: 'ws://127.0.0.1:9/once' } }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  // The machine has 20 a minute for both together; each would grant 20 by itself.
  const open = (name: string) =>
    new Rest({ base, appIdHeader: 'App-Id', callsPerMinute: 20, records: openCallRecords(db, name) })
  const [first, other] = [open('first'), open('other')]
  const call = (client: Rest, number: number, hurry?: AbortSignal) =>
    client.socketAddress({ appId: '1', accountId: 'A1', token: `token ${number}`, hurry })
  const use = (client: Rest, calls: number) =>
    Promise.allSettled(Array.from({ length: calls }, (_, number) => call(client, number)))
  await use(other, 4)
  await use(first, 16)
  assert.is(made, 20)
  const never = new AbortController().signal
  let ended = 0
  // Of users whose own budgets are known, so that nothing has to be read first.
  for (let number = 0; number < 8; number++) {
    const waits = call(other, number % 4, number < 4 ? never : undefined)
    void waits.catch(() => {}).then(() => ended++)
  }
  // By then they wait for the calls that all workers count together.
  await new Promise(setImmediate)
  first.close()
  other.close()
  await new Promise(setImmediate)
  assert.equal([ended, made], [8, 20])
  const [late] = await Promise.allSettled([call(other, 1)])
  assert.match(String((late as PromiseRejectedResult).reason), /was closed/)
  server.closeAllConnections()
  server.close()
})

waiting.after(closeAll)
for (const tests of [counted, burst, killed, connected, waiting]) tests.run()
