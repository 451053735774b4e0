// The broker of test keys that workers run by themselves: it starts with the first test key, one worker has it, and another goes on
// with its books when that worker is killed or loses them.
// test in the full run only
// test time-out: 240 s
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket } from 'ws'
import { createKey } from '../../api/keys.ts'
import { getOrder } from '../../api/orders/by-id.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { holdTestBroker, type TestBrokerBooks } from '../../db/platform/test-broker.ts'
import { rows } from '../../db/postgres/connection.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openTestBroker } from '../../worker/test-broker.ts'
import { call, closeAll, newAccountId, onClose, openHarness, until } from '../support/harness.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const live = await startSimulator({ tickMs: 20, seed: 3, limits: 'off' })
onClose(() => live.close())
const harness = await openHarness({
  env: {
    BROKER_URL: live.url,
    LEASE_MS: '3000',
    SWEEP_MS: '200',
    RECONCILE_AFTER_MS: '3000',
    RECONCILE_CRASHED_MS: '5000'
  }
})
const { address, services, url } = harness
const { db } = services

/** A test key's calls, for one trader. */
async function openTestSide(flags = '') {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const made = await call(address, createKey, { headers: { cookie }, body: { test: true } })
  assert.is(made.status, 200, JSON.stringify(made.body))
  const headers = { authorization: `Bearer ${made.body.key}` }
  const accountId = newAccountId().replace('VRTC', 'TST')
  const traderExternalId = `user-${randomUUID()}`
  const token = `sim-${accountId}${flags}`
  const exchanged = await call(address, exchangeTokens, {
    headers,
    body: {
      traderExternalId,
      accounts: [{ accountId, token, accountMode: flags.includes('real') ? 'REAL' : 'DEMO' }]
    }
  })
  assert.is(exchanged.status, 200, JSON.stringify(exchanged.body))
  return {
    place: (changes: object = {}) =>
      call(address, placeBinaryOrder, {
        headers,
        body: tickOrder(traderExternalId, { asset: '1HZ100V', ...changes })
      }),
    order: (id: string) => call(address, getOrder, { headers, params: { id }, query: { wait: '30' } }),
    async balance(): Promise<number> {
      const { status, body } = await call(address, getBalance, { headers, query: { traderExternalId } })
      assert.is(status, 200, JSON.stringify(body))
      return body.balance
    }
  }
}

const hostOf = async () => (await rows<{ worker: string }>(db, 'select worker from test_broker'))[0]?.worker
const cents = (amount: number) => Math.round(amount * 100)

const running = suite('the test broker of the workers')

running('is not run while there is no test key', async () => {
  const worker = await startWorker(harness.env)
  await worker.line(/"msg":"working"/)
  assert.is(await hostOf(), undefined)
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0)
  assert.is(await hostOf(), undefined)
  assert.not.match(worker.lines.join('\n'), 'running the test broker')
})

running('is run by one of them; when that one is killed another goes on with its contracts and balances', async () => {
  const workers = [await startWorker(harness.env), await startWorker(harness.env)]
  const side = await openTestSide()
  const tick = await side.place()
  assert.is(tick.body.status, 'CLOSED', JSON.stringify(tick.body))
  const refused = await side.place({ stake: 4.01 })
  assert.is(refused.body.error, 'MARKET_CLOSED')
  const open = await side.place({ duration: 15, durationUnit: 's', stake: 2 })
  assert.is(open.body.status, 'OPEN', JSON.stringify(open.body))
  const real = await openTestSide('-real')
  const realBalance = await real.balance()

  const host = await hostOf()
  const isHost = ({ lines }: TestProcess) => lines.some(line => line.includes('running the test broker'))
  assert.is(workers.filter(isHost).length, 1)
  // Whoever reaches it decides nothing about it.
  const [at] = await rows<{ url: string }>(db, 'select url from test_broker')
  const controls = new URL('/control/faults', String(at?.url).replace('ws', 'http'))
  assert.is((await fetch(controls, { method: 'POST', body: '{"down": true}' })).status, 404)
  const [first] = workers.filter(isHost) as [TestProcess]
  first.kill('SIGKILL')
  await first.ended
  await until('another to run it', async () => (await hostOf()) !== host, 30_000)

  // A request waits for half a minute at most, which is hardly longer than the contract runs.
  const closed = await until('the end of the order', async () => {
    const found = await side.order(open.body.orderId)
    return found.body.status !== 'OPEN' && found
  })
  assert.is(closed.body.status, 'CLOSED', JSON.stringify(closed.body))
  const next = await side.place()
  assert.is(next.body.status, 'CLOSED', JSON.stringify(next.body))
  const made = [tick, closed, next].reduce((sum, { body }) => sum + cents(body.pnl), 0)
  assert.is(cents(await side.balance()), 1_000_000 + made)
  assert.is(await real.balance(), realBalance)

  // Its session in the database ends: whoever has it next goes on.
  const sinceWhen = async () => {
    const [{ since }] = (await rows(db, 'select since from test_broker')) as [{ since: Date }]
    return since.getTime()
  }
  const before = await sinceWhen()
  await db.raw(`select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'service-test-broker' and datname = current_database()`)
  await until('it to be run again', async () => (await sinceWhen()) > before, 30_000)
  const after = await side.place()
  assert.is(after.body.status, 'CLOSED', JSON.stringify(after.body))
  const balance = cents(await side.balance())
  assert.is(balance, 1_000_000 + made + cents(after.body.pnl))

  // What closed long ago is forgotten, and stays part of the balance.
  const [survivor] = workers.filter(worker => worker !== first) as [TestProcess]
  survivor.kill('SIGTERM')
  assert.is(await survivor.ended, 0)
  await db.raw(`update test_broker_entries set at = at - interval '31 days'`)
  const last = await startWorker(harness.env)
  assert.is(cents(await side.balance()), balance)
  const kinds = await rows<{ kind: string }>(db, 'select distinct kind from test_broker_entries')
  assert.equal(kinds, [{ kind: 'account' }])
  last.kill('SIGTERM')
  assert.is(await last.ended, 0)
})

const books = suite('the books of the test broker')

books('are held by one process, and are free when its session is gone', async () => {
  const mine = await held()
  assert.is(await holdTestBroker(url), undefined)
  await mine.close()
  await (await held()).close()
})

books('let nothing be sent before it is written, and nothing at all once they are lost', async () => {
  const mine = await held()
  const entry = { kind: 'account', account: 'TST9', contract: null, cents: 1, entry: {} } as const
  const said: string[] = []
  mine.after(() => said.push('at once'))
  mine.enter(entry)
  mine.after(() => said.push('written'))
  assert.equal(said, ['at once'])
  await until('the entry to be written', () => said.length === 2)
  await db.raw(`select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'service-test-broker' and datname = current_database()`)
  mine.enter(entry)
  mine.after(() => said.push('lost'))
  await mine.lost
  await mine.close()
  assert.equal(said, ['at once', 'written'])
  const [{ n }] = (await rows(db, `select count(*)::int as n from test_broker_entries where account = 'TST9'`)) as [
    { n: number }
  ]
  assert.is(n, 1)
  await db.raw(`delete from test_broker_entries where account = 'TST9'`)
})

books('of another machine are reached at an address that others can reach, and at no loopback', async () => {
  const mine = await held()
  const said = async (where: string) => {
    await mine.announce({ worker: 'another', machine: 'elsewhere', url: where })
    const broker = await openTestBroker({
      config: { testBrokerUrl: undefined, testBrokerHost: '127.0.0.1' },
      databaseUrl: url,
      db,
      log: services.log,
      clock: systemClock,
      worker: 'this'
    })
    let result = ''
    await until('the host to be found', () => {
      try {
        result = broker?.url() ?? ''
      } catch (error) {
        result = String(error)
      }
      return !result.includes('No worker runs')
    })
    await broker?.close()
    return result
  }
  for (const own of ['127.0.0.1', '0.0.0.0', '[::1]', '[::]'])
    assert.match(await said(`ws://${own}:9`), /set TEST_BROKER_HOST/)
  assert.is(await said('ws://10.0.0.7:9'), 'ws://10.0.0.7:9')
  await mine.close()
})

books('hold every frame of the broker back until they are written', async () => {
  const held: (() => void)[] = []
  const journal = { lines: [], opened() {}, deposited() {}, bought() {}, changed() {}, sold() {}, close() {} }
  const simulator = await startSimulator({ books: { journal, after: run => void held.push(run) }, controlled: false })
  onClose(() => simulator.close())
  assert.is((await fetch(simulator.control)).status, 404)
  const socket = new WebSocket(`${simulator.url}?app_id=1`)
  const frames: string[] = []
  socket.on('message', data => frames.push(String(data)))
  socket.on('open', () => socket.send(JSON.stringify({ authorize: 'sim-TST123456' })))
  await until('a frame to be held back', () => held.length > 0)
  assert.equal(frames, [])
  for (const run of held) run()
  await until('the frame', () => frames.length > 0)
  assert.match(frames[0] ?? '', 'TST123456')
  socket.close()
})

async function held(): Promise<TestBrokerBooks> {
  let mine: TestBrokerBooks | undefined
  await until('the books to be free', async () => {
    mine = await holdTestBroker(url)
    return mine !== undefined
  })
  return mine as TestBrokerBooks
}

books.after(closeAll)
for (const tests of [running, books]) tests.run()
