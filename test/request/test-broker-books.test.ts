// The books of the broker that workers run for test keys, without processes: what they keep, what they give up, and when they are lost.
import { connect, createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket } from 'ws'
import { holdTestBroker, type TestBrokerBooks } from '../../db/platform/test-broker.ts'
import { rows } from '../../db/postgres/connection.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { openTestBroker, type TestBroker } from '../../worker/test-broker.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { makeTestSide } from '../support/test-side.ts'

const harness = await openHarness()
const { url, services } = harness
const { db, log } = services

/** What a worker has of the test broker; `databaseUrl` is where its books are held from. */
async function open(databaseUrl = url, testBrokerHost = '127.0.0.1'): Promise<TestBroker> {
  const config = { testBrokerUrl: undefined, testBrokerHost }
  const broker = await openTestBroker({ config, databaseUrl, db, log, clock: systemClock, worker: 'this' })
  return broker as TestBroker
}

const urlOf = (broker: TestBroker) => {
  try {
    return broker.url()
  } catch {
    return undefined
  }
}

async function hold(): Promise<TestBrokerBooks> {
  let books: TestBrokerBooks | undefined
  await until('the books to be free', async () => {
    books = await holdTestBroker(url)
    return books !== undefined
  })
  return books as TestBrokerBooks
}

/** Whether something listens there. */
const listens = (at: string) =>
  new Promise<boolean>(resolve => {
    const { port, hostname } = new URL(at)
    const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ''))
    socket.on('error', () => resolve(false))
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })

/** Where the broker is, once it runs: until then its address may be that of the one before. */
const runs = (broker: TestBroker) =>
  until(
    'the broker to run',
    async () => {
      const at = urlOf(broker)
      return at !== undefined && (await listens(at)) && at
    },
    30_000
  )

/** A client of the broker; each request is followed by its response. */
async function client(broker: TestBroker) {
  const at = await runs(broker)
  const socket = new WebSocket(`${at}?app_id=1`)
  await new Promise<void>((resolve, reject) => socket.once('open', resolve).once('error', reject))
  return {
    // biome-ignore lint/suspicious/noExplicitAny: the broker's own words
    request(request: object): Promise<any> {
      const response = new Promise<string>(resolve => socket.once('message', data => resolve(String(data))))
      socket.send(JSON.stringify(request))
      return response.then(text => {
        const body = JSON.parse(text)
        if (body.error) throw new Error(text)
        return body
      })
    },
    close: () => socket.close()
  }
}

const books = suite('the books of the test broker')

books(
  'write what is under way before they are given back, also where it is more than one statement takes',
  async () => {
    const mine = await hold()
    const entries = 1500
    for (let i = 0; i < entries; i++)
      mine.enter({ kind: 'account', account: `TST${i}`, contract: null, cents: 1, entry: {} })
    await mine.close()
    const next = await hold()
    assert.is(next.entries.length, entries)
    await next.close()
    await db.raw('delete from test_broker_entries')
  }
)

books('run what waits for them in the order in which it came', async () => {
  const mine = await hold()
  const ran: number[] = []
  mine.enter({ kind: 'account', account: 'TST2', contract: null, cents: 1, entry: {} })
  mine.after(() => {
    ran.push(1)
    mine.after(() => ran.push(3))
  })
  mine.after(() => ran.push(2))
  await until('all of them', () => ran.length === 3)
  assert.equal(ran, [1, 2, 3])
  await mine.close()
  await db.raw('delete from test_broker_entries')
})

books('write an entry that comes right when all before it has been written', async () => {
  const mine = await hold()
  let ran = false
  mine.enter({ kind: 'account', account: 'TST5', contract: null, cents: 1, entry: {} })
  mine.after(() =>
    queueMicrotask(() => {
      mine.enter({ kind: 'account', account: 'TST6', contract: null, cents: 1, entry: {} })
      mine.after(() => {
        ran = true
      })
    })
  )
  await until('the second entry', () => ran)
  await mine.close()
  await db.raw('delete from test_broker_entries')
})

books('are lost with an entry that cannot be written, though their session goes on', async () => {
  const mine = await hold()
  const ran: string[] = []
  mine.enter({ kind: 'account', account: 'TST3', contract: null, cents: 1, entry: {} })
  mine.enter({ kind: 'unknown' as 'account', account: null, contract: null, cents: 0, entry: {} })
  mine.after(() => ran.push('after an entry that is not there'))
  assert.match((await mine.lost).message, /violates check constraint/)
  await new Promise(resolve => setImmediate(resolve))
  mine.enter({ kind: 'account', account: 'TST3', contract: null, cents: 1, entry: {} })
  await mine.close()
  assert.equal(ran, [])
})

books('keep the last 50,000 closed contracts; what older ones came to stays in the balance', async () => {
  const most = 50_000
  await db.raw('delete from test_broker_entries')
  // As PostgreSQL has it until autovacuum has come by: there is hardly an entry.
  await db.raw('analyze test_broker_entries')
  await db.raw(`
    insert into test_broker_entries (kind, account, contract, cents, entry) values ('account', 'TST4', null, 1000, '{"cents": 1000}');
    insert into test_broker_entries (kind, account, contract, cents, entry)
    select k.kind, case k.kind when 'bought' then 'TST4' end, i, case k.kind when 'bought' then -100 else 100 + i end, '{}'
      from generate_series(1, ${most + 2}) i, (values (1, 'bought'), (2, 'sold')) as k (o, kind) order by i, k.o`)
  await (await hold()).close()
  const [left] = await rows<{ sold: number; bought: number; least: number }>(
    db,
    `select count(*) filter (where kind = 'sold') as sold, count(*) filter (where kind = 'bought') as bought, min(contract) as least
       from test_broker_entries`
  )
  assert.equal(left, { sold: most, bought: most, least: 3 })
  const [account] = await rows(db, `select cents, entry from test_broker_entries where kind = 'account'`)
  assert.equal(account, { cents: 1003, entry: { cents: 1003 } })
  await db.raw('delete from test_broker_entries')
})

const running = suite('a worker that runs the test broker')

running('goes on with balance, contracts and changed limits of the one before', async () => {
  await makeTestSide(harness, await harness.makePartner())
  const first = await open()
  const one = await client(first)
  await one.request({ authorize: 'sim-TST770001' })
  const terms = {
    contract_type: 'MULTUP',
    symbol: 'R_100',
    multiplier: 100,
    amount: 10,
    basis: 'stake',
    currency: 'USD'
  }
  const { buy } = await one.request({ buy: '1', price: 10, parameters: terms })
  // The broker takes no change within the first second.
  const change = { contract_update: 1, contract_id: buy.contract_id, limit_order: { stop_loss: 9, take_profit: 7 } }
  await until('the change', () => one.request(change).catch(() => false))
  one.close()
  await first.close()
  const second = await open()
  const two = await client(second)
  const { authorize } = await two.request({ authorize: 'sim-TST770001' })
  assert.is(authorize.balance, buy.balance_after)
  const { proposal_open_contract: contract } = await two.request({
    proposal_open_contract: 1,
    contract_id: buy.contract_id
  })
  assert.is(contract.buy_price, 10)
  assert.equal(
    [contract.limit_order.stop_loss.order_amount, contract.limit_order.take_profit.order_amount].map(Number),
    [-9, 7]
  )
  two.close()
  await second.close()
})

running('is reached at an address of IPv6', async () => {
  const own = Object.values(networkInterfaces()).flat()
  if (!own.some(each => each?.address === '::1')) return console.log('SKIPPED: there is no IPv6 here')
  const broker = await open(url, '::1')
  const one = await client(broker)
  const { authorize } = await one.request({ authorize: 'sim-TST770002' })
  assert.is(authorize.loginid, 'TST770002')
  one.close()
  await broker.close()
})

const servers = () => process.getActiveResourcesInfo().filter(name => name === 'TCPServerWrap').length

running('gives books and port back when it cannot publish its address, and tries again', async () => {
  await db.raw(`
    create function refuse_host() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$;
    create sequence refused_hosts;
    create trigger refuse_host before insert or update on test_broker for each row
      when (nextval('refused_hosts') <= 2) execute function refuse_host()`)
  const before = servers()
  const broker = await open()
  const at = await until('the broker to run', async () => {
    const [{ tried }] = (await rows(db, 'select last_value as tried from refused_hosts')) as [{ tried: number }]
    return tried > 2 && urlOf(broker)
  })
  assert.match(at, /^ws:/)
  assert.is(servers(), before + 1)
  await broker.close()
  await db.raw('drop trigger refuse_host on test_broker')
})

running('ends it when the session of its books is silent', async () => {
  // A relay that from some moment on passes nothing, and closes nothing.
  let silent = false
  const sockets: Socket[] = []
  const to = new URL(url)
  const relay = createServer(near => {
    const far = connect(Number(to.port), to.hostname)
    for (const [from, other] of [
      [near, far],
      [far, near]
    ] as const) {
      sockets.push(from)
      from.on('data', data => silent || other.write(data)).on('close', () => silent || other.destroy())
      from.on('error', () => {})
    }
  })
  await new Promise<void>(resolve => relay.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    for (const socket of sockets) socket.destroy()
    relay.close()
  })
  const through = new URL(url)
  through.host = `127.0.0.1:${(relay.address() as { port: number }).port}`
  const broker = await open(through.href)
  const at = await runs(broker)
  silent = true
  await until('nothing to be there any more', async () => !(await listens(at)), 30_000)
  for (const socket of sockets) socket.destroy()
  await broker.close()
})

running.after(closeAll)
for (const tests of [books, running]) tests.run()
