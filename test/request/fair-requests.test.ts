// Requests to the broker: reading, however slow, holds no sale up, and one partner's requests leave places for others'.
// test in the full run only
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCreatorBot } from '../../api/marketplace/creator.ts'
import { getMe } from '../../api/me.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { openBacklog } from '../../api/request/backlog.ts'
import { callsOf, openPace } from '../../api/request/pace.ts'
import { openPlaces } from '../../api/request/places.ts'
import { openWaits } from '../../api/request/waits.ts'
import { listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { rows } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { openSettling } from '../../worker/orders/settle.ts'
import { BrokerRequests } from '../../worker/platform/broker-requests.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, frontOf } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { HELD_MS, openHeldClock } from '../support/held-clock.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

// Results are held: a busy machine may take as long as it wants to request them all.
const { clock, held, letGo } = openHeldClock()
const simulator = await startSimulator({ tickMs: 50, seed: 17, limits: 'off', clock })
onClose(() => simulator.close())
const env = { ...brokerEnv(simulator), BROKER_ANSWER_TIMEOUT_MS: '120000', RECONCILE_AFTER_MS: '120000' }
const harness = await openHarness({ env, brokerMs: 120_000 })
const firstWorker = await startTestWorker(harness.env)

const beside = suite('beside a partner with 190 slow balances')
const SLOW = 190

const slow = await harness.makePartner()
await harness.services.db('partners').where({ id: slow.partnerId }).update({ broker_app_id: '2' })
const quick = await harness.makePartner()
const trader = await quick.makeTrader()

const names = await Promise.all(Array.from({ length: SLOW }, async () => (await slow.makeTrader()).traderExternalId))

async function buy(by = quick, { traderExternalId } = trader): Promise<string> {
  const { body } = await by.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { duration: 10, durationUnit: 'm' })
  })
  assert.is(body.status, 'OPEN', JSON.stringify(body))
  return body.orderId
}

beside('another one’s sale, balance and order are served at once, and its own sale as well', async () => {
  const orderId = await buy()
  const own = await buy(slow, await slow.makeTrader())
  // They end with their connections.
  simulator.faults.add({ effect: 'mute', call: 'balance', appId: 2 })
  const balances = Promise.all(
    names.map(async traderExternalId => (await slow.call(getBalance, { query: { traderExternalId } })).status)
  )
  await until('the balances to be requested', async () => {
    const row = await harness.services
      .db('broker_requests')
      .where({ partner_id: slow.partnerId })
      .count('* as count')
      .first()
    return Number(row?.count) === SLOW
  })
  const sold = await quick.call(closeOrder, { params: { id: orderId } })
  const balance = await quick.call(getBalance, { query: { traderExternalId: trader.traderExternalId } })
  await buy()
  const ownSold = await slow.call(closeOrder, { params: { id: own } })
  const ended = await harness.services
    .db('broker_requests')
    .where({ partner_id: slow.partnerId, kind: 'balance' })
    .whereNot({ state: 'waiting' })
  simulator.faults.reset()
  frontOf(simulator).cutAll()
  assert.is(sold.body.status, 'CLOSED', JSON.stringify(sold.body))
  assert.is(ownSold.body.status, 'CLOSED', JSON.stringify(ownSold.body))
  assert.is(balance.status, 200)
  // Whoever waited for the balances would wait for two of them at least.
  assert.equal(ended, [])
  for (const status of await balances) assert.ok([200, 429, 502, 503].includes(status), `${status}`)
})

// A partner has half of a worker's places: four of these wait.
const BEGUN = 104
const WITH_PLACE = 100
let secondWorker: Awaited<ReturnType<typeof startTestWorker>>

beside('those that wait for a place of a worker that stops are left to another worker', async () => {
  const { db } = harness.services
  await db('broker_requests').where({ partner_id: slow.partnerId }).del()
  const read = (traderExternalId: string) => slow.call(getBalance, { query: { traderExternalId } })
  // Opens the connections that the test before has cut: on a busy machine that takes a good part of the time that a request waits.
  for (const name of names.slice(0, BEGUN)) await until('a balance', async () => (await read(name)).status === 200)
  simulator.faults.add({ effect: 'slow', call: 'balance', appId: 2, delayMs: HELD_MS })
  const balances = names.slice(0, BEGUN).map(read)
  await until('the worker to have all of them', async () => {
    const [requested] = await rows<{ waiting: number; queued: number }>(
      db,
      `select (select count(*)::int from broker_requests where partner_id = :partnerId and state = 'waiting') as waiting,
              (select count(*)::int from pgboss.job where name = 'ask' and state < 'active') as queued`,
      { partnerId: slow.partnerId }
    )
    return requested?.waiting === BEGUN && requested.queued === 0 && held.length === WITH_PLACE
  })
  simulator.faults.reset()
  secondWorker = await startTestWorker(harness.env)
  const stopped = firstWorker.stop()
  await until('those without a place to be served', async () => {
    const found = await db('broker_requests')
      .where({ partner_id: slow.partnerId, state: 'waiting' })
      .count('* as count')
    return Number(found[0]?.count) === WITH_PLACE
  })
  letGo()
  await stopped
  const statuses = (await Promise.all(balances)).map(({ status }) => status)
  assert.equal(statuses, Array(BEGUN).fill(200))
})

beside('one that a worker reads while it stops is left to another worker', async () => {
  const { db } = harness.services
  // Nothing names it but the hint to the worker that stops.
  const id = newId('brokerRequest')
  const stored = await db.raw(
    `insert into broker_requests (id, kind, key, data, reply_channel, partner_id, expires_at)
     select ?, kind, ?, data, reply_channel, partner_id, now() + interval '1 minute'
       from broker_requests where kind = 'balance' and partner_id = ? limit 1`,
    [id, id, slow.partnerId]
  )
  assert.is(stored.rowCount, 1)
  const { services } = secondWorker
  const stopping = new BrokerRequests({ ...services, worker: 'stopping' }, openSettling(services))
  stopping.serve(id)
  await stopping.drain()
  await until('its response', async () => (await db('broker_requests').where({ id }).first()).state === 'answered')
})

const turn = () => new Promise(resolve => setImmediate(resolve))
const waiting = suite('requests that wait in an api process')
const response = () => new ServerResponse(new IncomingMessage(new Socket()))

waiting('are bounded for each partner: 429 with Retry-After, and others still may', () => {
  const waits = openWaits({ maxWaiting: 8 })
  const open = Array.from({ length: 4 }, response)
  for (const each of open) waits.signalFor(each, 'greedy')
  const refusal = refusalOf(() => waits.signalFor(response(), 'greedy'))
  assert.equal([refusal.code, refusal.headers?.['Retry-After']], ['RATE_LIMITED', '1'])
  waits.signalFor(response(), 'modest')
  open[0]?.emit('close')
  waits.signalFor(response(), 'greedy')
})

const refusalOf = (work: () => unknown): ApiError => {
  try {
    work()
  } catch (error) {
    return error as ApiError
  }
  throw new Error('it was not refused')
}

waiting('for a slow broker are bounded once many have waited for long: others and other kinds are not', () => {
  const backlog = openBacklog({ most: 2 })
  const check = (partnerId = 'greedy', kind: 'place' | 'ask' = 'ask') => backlog.requireRoom(partnerId, kind)
  const leave = backlog.add('greedy', 'ask')
  check()
  backlog.add('greedy', 'ask')
  const refusal = refusalOf(check)
  assert.equal([refusal.code, refusal.headers?.['Retry-After']], ['RATE_LIMITED', '1'])
  check('modest')
  check('greedy', 'place')
  leave()
  leave()
  check()
  backlog.add('greedy', 'ask')
  assert.is(refusalOf(check).code, 'RATE_LIMITED')
})

waiting(
  'for a slow broker are refused before anything of them is stored, and an order that is bought waits no longer',
  async () => {
    const { env: own, services, makePartner } = await openHarness({ env, brokerMs: 120_000 })
    const { db } = services
    services.backlog = openBacklog({ most: 1 })
    const partner = await makePartner()
    const [first, second] = [await partner.makeTrader(), await partner.makeTrader()]
    const place = ({ traderExternalId }: typeof first, more = {}) =>
      partner.call(placeBinaryOrder, {
        body: tickOrder(traderExternalId, { duration: 10, durationUnit: 'm', ...more })
      })
    const read = ({ traderExternalId }: typeof first) => partner.call(getBalance, { query: { traderExternalId } })
    const isFull = async (kind: 'place' | 'ask') => {
      try {
        services.backlog.requireRoom(partner.partnerId, kind)
        return false
      } catch {
        return true
      }
    }
    const stored = async () => [
      (await db('orders').where({ partner_id: partner.partnerId })).length,
      (await db('broker_requests').where({ partner_id: partner.partnerId })).length
    ]
    // Nobody buys or reads anything yet.
    const [waits, balance] = [place(first, { waitForSettle: true }), read(first)]
    await until('the order to have waited for long', () => isFull('place'))
    await until('the balance to have waited for long', () => isFull('ask'))
    const refused = await place(second)
    assert.equal([refused.status, refused.body.error], [429, 'RATE_LIMITED'])
    assert.is((await read(second)).status, 429)
    assert.equal(await stored(), [1, 1])
    await startTestWorker(own)
    assert.is((await balance).status, 200)
    assert.is((await read(second)).status, 200)
    // The first one waits for its settlement now.
    await until('another order to be taken', async () => (await place(second)).body.status === 'OPEN')
    assert.is(await Promise.race([waits.then(() => 'ended'), turn()]), undefined)
    const { id } = await db('orders').where({ trader_id: first.traderId }).first('id')
    assert.is((await partner.call(closeOrder, { params: { id } })).body.status, 'CLOSED')
    assert.is((await waits).body.status, 'CLOSED')
  }
)

const placing = suite('requests that need a connection of the database')

/** Work of a partner that goes on until it is ended. */
function openWork(places: ReturnType<typeof openPlaces>) {
  const begun: { partner: string; end(): void; leave(): void }[] = []
  const begin = (partner: string) =>
    places.run(partner, leave => new Promise<void>(end => begun.push({ partner, end, leave })))
  return { begun, begin }
}

placing('of one partner leave places for others, who take turns', async () => {
  // Six places.
  const { begun, begin } = openWork(openPlaces({ pool: 10 }))
  const all = ['greedy', 'greedy', 'greedy', 'greedy', 'greedy', 'modest', 'third', 'modest'].map(begin)
  await turn()
  const running = () => begun.map(({ partner }) => partner)
  assert.equal(running(), ['greedy', 'greedy', 'greedy', 'modest', 'third'])
  begun[0]?.end()
  await turn()
  // The greedy one has two of the five that are taken, and waited first; then it is the other's turn.
  assert.equal(running().slice(5), ['modest'])
  for (let at = 1; at < all.length; at++) {
    begun[at]?.end()
    await turn()
  }
  assert.is(begun.length, all.length)
  await Promise.all(all)
})

placing('give their place back once they wait for something else, and once only', async () => {
  const { begun, begin } = openWork(openPlaces({ pool: 2 }))
  const all = ['one', 'one', 'one'].map(begin)
  await turn()
  assert.is(begun.length, 1)
  begun[0]?.leave()
  begun[0]?.leave()
  await turn()
  assert.is(begun.length, 2)
  begun[0]?.end()
  await turn()
  assert.is(begun.length, 2)
  begun[1]?.end()
  await turn()
  assert.is(begun.length, 3)
  begun[2]?.end()
  await Promise.all(all)
})

placing('wait in a bounded number: 429 with Retry-After, and a failure gives its place back', async () => {
  const places = openPlaces({ pool: 2, waiting: 2 })
  const { begun, begin } = openWork(places)
  const all = ['greedy', 'greedy', 'greedy'].map(begin)
  await turn()
  const error = (await Promise.race([begin('greedy').catch((refusal: unknown) => refusal), turn()])) as ApiError
  assert.instance(error, ApiError)
  assert.equal([error.code, error.headers?.['Retry-After']], ['RATE_LIMITED', '1'])
  const failing = places.run('modest', () => Promise.reject(new Error('broken off'))).catch((cause: unknown) => cause)
  for (let at = 0; at < all.length; at++) {
    begun[at]?.end()
    await turn()
  }
  // The last one begins after the failure, in its place.
  assert.is(begun.length, all.length)
  assert.match(String(await failing), 'broken off')
  await Promise.all(all)
})

placing('have none while they wait for what becomes of an order', async () => {
  // Without a worker nothing does.
  const { address, services, makePartner } = await openHarness()
  const partner = await makePartner()
  const trader = await partner.makeTrader()
  await insertOrderRows(services.db, trader, { phase: 'open' })
  const { id } = await services.db('orders').where({ trader_id: trader.traderId }).first('id')
  const gone = new AbortController()
  let ended = 0
  const options = { headers: { authorization: `Bearer ${partner.key}` }, signal: gone.signal }
  // More than its places.
  const waits = Array.from({ length: 4 }, async () => {
    await fetch(`${address}/v1/orders/${id}?wait=30`, options).catch(() => {})
    ended += 1
  })
  const counted = async () => (await services.limits.count(`key:${partner.keyId}`, 1_000_000)) > waits.length
  await until('all to be received', counted)
  assert.is((await partner.call(listOrders)).status, 200)
  assert.is(ended, 0)
  gone.abort()
  await Promise.all(waits)
})

const pacing = suite('the pace of a partner')

pacing('has its requests wait for a place once it has used up its allowance, and no others', async () => {
  const clock = { ms: 0 }
  const pace = openPace({ usual: { perMs: 10, burst: 100 }, now: () => clock.ms })
  const places = openPlaces({ pool: 10, pace })
  const { begun, begin } = openWork(places)
  const running = () => begun.map(({ partner }) => partner)
  pace.spend('greedy', 100)
  const first = begin('greedy')
  await turn()
  pace.spend('greedy', 200)
  assert.is(pace.waitMs('greedy'), 20)
  const others = [begin('greedy'), begin('modest')]
  await turn()
  assert.equal(running(), ['greedy', 'modest'])
  begun[0]?.end()
  await turn()
  assert.equal(running(), ['greedy', 'modest'], 'a free place is not enough')
  clock.ms = 20
  await until('the place', async () => begun.length === 3)
  for (const each of begun) each.end()
  await Promise.all([first, ...others])
  clock.ms = 31
  assert.is(pace.waitMs('greedy'), 0)
})

pacing(
  'has them begin in the order in which they came, and none before one that its allowance wakes in a moment',
  async () => {
    const clock = { ms: 0 }
    const pace = openPace({ usual: { perMs: 10, burst: 100 }, now: () => clock.ms })
    const places = openPlaces({ pool: 10, pace })
    const begun: string[] = []
    const call = (name: string) => places.run('greedy', async () => void begun.push(name))
    pace.spend('greedy', 300)
    const first = call('first')
    // Its time has come, and its timer has not run yet.
    clock.ms = 20
    await Promise.all([first, call('second')])
    assert.equal(begun, ['first', 'second'])
  }
)

pacing('spreads the calls of a minute, by their weights, as soon as what may be used at once is used', async () => {
  const clock = { ms: 0 }
  const now = () => clock.ms
  const places = openPlaces({ pool: 10, callPace: openPace({ now }) })
  const begun: string[] = []
  const call = (partner: string, weight: number, perMinute: number) =>
    places.run(partner, async () => void begun.push(partner), { weight, allowance: callsOf(perMinute) })
  // Two seconds' worth of 12,000 calls a minute, and the least of 600.
  for (let count = 0; count < 40; count++) await call('large', 10, 12_000)
  for (let count = 0; count < 20; count++) await call('small', 10, 600)
  await Promise.all([call('large', 2, 12_000), call('small', 1, 600)])
  assert.is(begun.length, 62)
  const waiting = [call('large', 1, 12_000), call('small', 1, 600), call('modest', 1, 600)]
  // What costs little does not wait behind what costs much.
  await places.run('large', async () => void begun.push('closing'))
  assert.equal(begun.slice(62), ['modest', 'closing'])
  clock.ms = 10
  await until('the large one', async () => begun.length === 65)
  assert.equal(begun.slice(62), ['modest', 'closing', 'large'])
  clock.ms = 100
  await Promise.all(waiting)
})

pacing(
  'has no more of them wait than it allows in ten seconds: 429, and what costs little may still begin',
  async () => {
    const clock = { ms: 0, stepMs: 0 }
    const places = openPlaces({ pool: 10, callPace: openPace({ now: () => (clock.ms += clock.stepMs) }) })
    const page = () => places.run('large', async () => {}, { weight: 100, allowance: { perMs: 1, burst: 0 } })
    // One at once, and one more for each 100 ms of ten seconds.
    const all = Array.from({ length: 1 + 100 }, page)
    const refusal = (await page().catch((error: unknown) => error)) as ApiError
    assert.equal([refusal.code, refusal.headers?.['Retry-After']], ['RATE_LIMITED', '1'])
    await places.run('large', async () => {})
    await places.run('modest', async () => {}, { weight: 100, allowance: { perMs: 1, burst: 0 } })
    clock.stepMs = 1000
    await Promise.all(all)
  }
)

pacing('leaves nobody waiting where it allows a request the moment after it was found to wait', async () => {
  // The clock goes on between two readings, whichever they are.
  for (let readings = 1; readings < 7; readings++) {
    let read = 0
    const places = openPlaces({ pool: 10, callPace: openPace({ now: () => (++read > readings ? 100_000 : 0) }) })
    const begun: number[] = []
    const call = (count: number) =>
      places.run('greedy', async () => void begun.push(count), { weight: 201, allowance: callsOf(600) })
    await call(1)
    const second = call(2)
    await until(`the second one, the clock going on after ${readings} readings`, async () => begun.length === 2)
    await second
  }
})

pacing('is used by responses, and by large bodies, which wait for it before all of them is read', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const { pace } = harness.services
  const refuse = (of: TestPartner) => of.call(createCreatorBot, { body: { code: 'x'.repeat(900_000) } })
  const began = performance.now()
  for (const { status } of await Promise.all(Array.from({ length: 8 }, () => refuse(greedy)))) assert.is(status, 400)
  // The first one fits into what may be used at once, and what the last one uses takes no time.
  assert.ok(performance.now() - began > 900, `${performance.now() - began} ms`)
  pace.spend(greedy.partnerId, 20 * 2 ** 20)
  const startedAt = performance.now()
  const waiting = refuse(greedy)
  assert.is((await modest.call(getMe)).status, 200)
  assert.is((await waiting).status, 400)
  const tookMs = performance.now() - startedAt
  assert.ok(tookMs > 1800, `${tookMs} ms`)
})

pacing('is used by long responses', async () => {
  const { key } = await harness.makePartner()
  const read = async () => {
    const response = await fetch(`${harness.address}/v1/_spec`, { headers: { authorization: `Bearer ${key}` } })
    return (await response.arrayBuffer()).byteLength
  }
  const startedAt = performance.now()
  const sizes = await Promise.all(Array.from({ length: 20 }, read))
  const tookMs = performance.now() - startedAt
  // What was used at once, and what six requests that had begun used beyond it, takes no time.
  const leastMs =
    (sizes.reduce((sum, size) => sum + size, 0) - 2 ** 20 - 6 * (sizes[0] as number)) / (1.5 * 1024 * 1.024)
  assert.ok(leastMs > 300 && tookMs > leastMs, `${tookMs} ms, at least ${leastMs}`)
})

pacing('is that of its limit for calls that count as several, which wait and are not refused', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  // Fifty calls a second, two hundred at once.
  await harness.services.db('partners').where({ id: partner.partnerId }).update({ key_limit: 3000 })
  const startedAt = performance.now()
  const read = () => partner.call(listOrders, { query: { limit: 200 } })
  for (const { status } of await Promise.all(Array.from({ length: 25 }, read))) assert.is(status, 200)
  const tookMs = performance.now() - startedAt
  // Twenty pages count as two hundred calls, and the last one waits until all before it have grown again.
  assert.ok(tookMs > 800, `${tookMs} ms`)
  // What they counted beyond the two hundred has grown again. What another one's call takes is the machine's.
  const msOf = async (of: TestPartner) => {
    const from = performance.now()
    await of.call(getMe)
    return performance.now() - from
  }
  const [mineMs = 0, othersMs = 0] = await Promise.all([partner, other].map(msOf))
  assert.ok(mineMs - othersMs < tookMs, `${mineMs} ms, another one's ${othersMs} ms, after ${tookMs} ms`)
})

const exchanging = suite('beside a partner whose exchanges wait for a lock')

exchanging('another one’s requests are served at once', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const traders = await Promise.all(Array.from({ length: 30 }, () => greedy.makeTrader()))
  const other = await modest.makeTrader()
  const lock = await harness.services.db.transaction()
  // As a change of a trader takes; with the lock of an erasure they would be refused at once.
  await lock('traders').where({ partner_id: greedy.partnerId }).forNoKeyUpdate().select('id')
  const renewals = Promise.all(
    traders.map(({ traderExternalId: externalId, accountId }) => greedy.makeTrader({ externalId, accountId }))
  )
  await untilLockWaits(harness.services.db, { count: 3 })
  const mine = { traderExternalId: other.traderExternalId }
  assert.is((await modest.call(listAccounts, { query: mine })).status, 200)
  await modest.makeTrader({ externalId: other.traderExternalId, accountId: other.accountId })
  assert.is((await modest.call(getMe)).status, 200)
  await lock.commit()
  await renewals
})

exchanging.after(closeAll)
// What needs no request first: without places that are given back no request ends.
for (const tests of [waiting, placing, beside, pacing, exchanging]) tests.run()
