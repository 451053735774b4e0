// Places that partners share: nobody's burst keeps others from theirs, and copies come after orders.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { claimOrders, listWaitingAccounts, takeOrders } from '../../db/orders/claiming.ts'
import { takeUnproven } from '../../db/orders/proving.ts'
import { type BrokerRequestRow, storeBrokerRequests, storeResponse } from '../../db/platform/broker-requests.ts'
import { Shares } from '../../db/platform/shares.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { openHalts } from '../../worker/orders/halts.ts'
import { Placing } from '../../worker/orders/placing.ts'
import { openProving } from '../../worker/orders/proving.ts'
import { openSettling } from '../../worker/orders/settle.ts'
import { BrokerRequests } from '../../worker/platform/broker-requests.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { RequestPlaces } from '../../worker/platform/request-places.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const simulator = await startSimulator({ tickMs: 50, seed: 19, limits: 'off' })
onClose(() => simulator.close())
simulator.faults.add({ effect: 'ignore', call: 'authorize' })
// What is claimed stays under way for as long as a test takes.
const harness = await openHarness({ env: { ...brokerEnv(simulator), PERMIT_MS: '60000', ORDER_TTL_MS: '120000' } })
const { db } = harness.services

const sharing = suite('places shared by partners')

/** Takes as many places as the partner may have. */
function fill(shares: Shares, partner: string): number {
  let taken = 0
  for (; shares.roomOf(partner) > 0; taken++) shares.add(partner)
  return taken
}

sharing('are half for one that wants all of them, and the rest is free for others', () => {
  const shares = new Shares(100)
  assert.is(fill(shares, 'one'), 50)
  assert.equal(shares.full(), ['one'])
  assert.ok(shares.roomOf(undefined) > 0)
  assert.is(fill(shares, 'two'), 25)
  assert.ok(shares.roomOf('three') > 0)
})

sharing('are left for ten that have none, however many take what they can', () => {
  const shares = new Shares(100)
  // From the fourth on they find the last tenth.
  for (let i = 0; i < 4; i++) assert.ok(fill(shares, `greedy-${i}`) > 0)
  assert.is(shares.free, 10)
  for (let i = 0; i < 10; i++) assert.is(fill(shares, `modest-${i}`), 1)
  assert.is(shares.roomOf(undefined), 0)
})

sharing('are free again for whoever comes once they are given back', () => {
  const shares = new Shares(10)
  for (let taken = fill(shares, 'one'); taken > 0; taken--) shares.remove('one')
  assert.is(shares.free, 10)
  assert.equal(shares.taken(), { partners: [], rooms: [] })
})

const requesting = suite('broker requests in a worker')
let requests = 0
const requestOf = (partner: string | null) => ({ id: `ask_${++requests}`, partner_id: partner }) as BrokerRequestRow

/** As many requests of the partner as may wait. */
function admitAll(places: RequestPlaces, partner: string | null, most = 100): BrokerRequestRow[] {
  const admitted: BrokerRequestRow[] = []
  while (admitted.length < most) {
    const request = requestOf(partner)
    if (!places.admit(request)) break
    admitted.push(request)
  }
  return admitted
}

requesting('wait in a bounded number of each partner, and of the operator', () => {
  const places = new RequestPlaces({ underWay: 4, waiting: 16 })
  assert.is(admitAll(places, 'greedy').length, 8)
  assert.is(admitAll(places, 'modest').length, 4)
  assert.is(admitAll(places, null).length, 2)
  const again = requestOf('third')
  assert.ok(places.admit(again))
  assert.ok(places.admit(again), 'one that waits already does so once')
  assert.is(admitAll(places, 'third').length, 0)
})

requesting('begin round-robin among partners, none with more than its share, and leave room as they end', () => {
  const places = new RequestPlaces({ underWay: 4, waiting: 16 })
  const [first] = admitAll(places, 'greedy')
  admitAll(places, 'modest', 1)
  const begun = () => Array.from({ length: 5 }, () => places.next()?.partner_id)
  assert.equal(begun(), ['greedy', 'modest', 'greedy', undefined, undefined])
  assert.is(admitAll(places, 'greedy').length, 2, 'what has begun does not wait any more')
  places.done(first as BrokerRequestRow)
  assert.equal(begun(), ['greedy', undefined, undefined, undefined, undefined])
})

const claiming = suite('claiming among partners')
const future = () => new Date(Date.now() + 60_000)

async function makeQueued(partner: TestPartner, { count = 1, accountId = undefined as string | undefined } = {}) {
  const traders = await Promise.all(
    Array.from({ length: count }, () => partner.makeTrader(accountId === undefined ? {} : { accountId }))
  )
  for (const trader of traders) await insertOrderRows(db, trader, { phase: 'queued', at: future() })
  return traders.map(trader => trader.accountId)
}

const options = { sender: 'worker', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 }

claiming('leaves the orders of a partner that has its share, and takes the others’, also on one account', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const [shared = '', alone = ''] = await makeQueued(greedy, { count: 2 })
  await makeQueued(modest, { accountId: shared })
  const full = [greedy.partnerId]
  const { claimed } = await claimOrders(db, { ...options, accountIds: [shared, alone], full })
  assert.equal(
    claimed.map(({ partner_id, account_id }) => [partner_id, account_id]),
    [[modest.partnerId, shared]]
  )
  // Not while the other one's is at the broker, share or not.
  const later = await claimOrders(db, { ...options, accountIds: [shared, alone] })
  assert.equal(
    later.claimed.map(({ account_id }) => account_id),
    [alone]
  )
})

claiming('takes the job of a partner that has its share, and leaves its order for later', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const accountIds = [...(await makeQueued(greedy)), ...(await makeQueued(modest))]
  await db.transaction(trx => harness.services.queue.enqueue(trx, 'order.place', [{ accountIds }]))
  const { queue } = harness.services
  const { taken, claimed } = await takeOrders(db, queue, {
    ...options,
    limit: 10,
    among: 'all',
    full: [greedy.partnerId]
  })
  assert.is(taken, 1)
  assert.equal(
    claimed.map(({ partner_id }) => partner_id),
    [modest.partnerId]
  )
  const later = await claimOrders(db, { ...options, accountIds })
  assert.equal(
    later.claimed.map(({ partner_id }) => partner_id),
    [greedy.partnerId]
  )
})

claiming('goes round-robin among partners, within the rooms they have, and comes to copies last', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  await makeQueued(greedy, { count: 5 })
  const [copied = '', ordered = ''] = await makeQueued(modest, { count: 2 })
  await db('orders')
    .where({ account_id: copied })
    .update({
      copied_from: (await db('orders').where({ account_id: ordered }).first('id')).id,
      // The oldest of all.
      expires_at: new Date(Date.now() + 30_000)
    })
  const mine = await db('orders').whereIn('partner_id', [greedy.partnerId, modest.partnerId]).select()
  const of = (accountIds: string[]) =>
    accountIds.flatMap(id => mine.filter(row => row.account_id === id).map(row => row.partner_id as string))
  const waiting = { worker: 'worker', ageMs: -120_000, limit: 1000 }
  const listed = await listWaitingAccounts(db, waiting)
  const turns = of(listed)
  assert.ok(turns.slice(0, 2).includes(modest.partnerId), 'the modest partner has one of the first two turns')
  assert.is(listed.indexOf(copied), listed.length - 1)
  const rooms = { partners: [greedy.partnerId], rooms: [2], room: 1, copies: 1 }
  const within = of(await listWaitingAccounts(db, waiting, rooms))
  assert.equal(
    [greedy, modest].map(({ partnerId }) => within.filter(id => id === partnerId).length),
    [2, 1]
  )
})

claiming(
  'leaves copies beyond the room for them, but those whose time is over are found, whoever has which room',
  async () => {
    const partner = await harness.makePartner()
    const copies = await makeQueued(partner, { count: 3 })
    const [ordered = ''] = await makeQueued(partner)
    const { id } = await db('orders').where({ account_id: ordered }).first('id')
    await db('orders').whereIn('account_id', copies).update({ copied_from: id })
    const waiting = { worker: 'worker', ageMs: -120_000, limit: 1000 }
    const list = async (copiesRoom: number, room = 1000) => {
      const listed = await listWaitingAccounts(db, waiting, { partners: [], rooms: [], room, copies: copiesRoom })
      return listed.filter(account => copies.includes(account) || account === ordered)
    }
    assert.equal(await list(0), [ordered])
    assert.is((await list(1000)).length, 4)
    await db('orders')
      .where({ account_id: copies[1] })
      .update({ expires_at: new Date(Date.now() - 1000) })
    assert.equal(await list(0, 0), [copies[1]])
  }
)

claiming(
  'gives no room to what waits behind an order that is paused or at the broker, until that is over',
  async () => {
    const partner = await harness.makePartner()
    const [paused = '', other = ''] = await makeQueued(partner, { count: 2 })
    const [behind = ''] = await makeQueued(partner)
    const head = await db('orders').where({ account_id: paused }).first('broker_account_id', 'expires_at')
    // The order behind the paused one would have the first turn.
    await db('orders')
      .where({ account_id: behind })
      .update({ account_id: paused, ...head, expires_at: new Date(head.expires_at.getTime() - 1000) })
    await db('orders')
      .where({ account_id: paused })
      .update({ not_before: db.raw(`case when expires_at = ? then 'infinity'::timestamptz end`, [head.expires_at]) })
    const list = async () => {
      const waiting = { worker: 'worker', ageMs: -120_000, limit: 1000 }
      const listed = await listWaitingAccounts(db, waiting, { partners: [], rooms: [], room: 1, copies: 1000 })
      return listed.filter(account => [paused, other].includes(account))
    }
    assert.equal(await list(), [other])
    await db('orders').where({ account_id: paused }).update({ not_before: null })
    assert.equal(await list(), [paused])
    // Nor to what waits behind an order that is at the broker, or in doubt.
    const { claimed } = await claimOrders(db, { ...options, accountIds: [paused] })
    assert.is(claimed.length, 1)
    assert.equal(await list(), [other])
  }
)

const proving = suite('accounts whose token the broker has not accepted yet')

proving('are taken round-robin among partners, within the rooms they have', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  await makeQueued(greedy, { count: 5 })
  await makeQueued(modest, { count: 3 })
  await db('orders').whereIn('partner_id', [greedy.partnerId, modest.partnerId]).update({ phase: 'unproven' })
  const take = async (rooms: { limit: number; room: number; busy: string[]; rooms: number[] }, leaseMs = 0) => {
    const taken = await takeUnproven(db, { worker: 'worker', leaseMs, ...rooms })
    return [greedy, modest].map(of => taken.filter(({ partnerId }) => partnerId === of.partnerId).length)
  }
  assert.equal(await take({ limit: 4, room: 4, busy: [], rooms: [] }), [2, 2])
  assert.equal(await take({ limit: 9, room: 1, busy: [greedy.partnerId], rooms: [2] }), [2, 1])
  assert.equal(await take({ limit: 9, room: 9, busy: [greedy.partnerId], rooms: [0] }), [0, 3])
  // No other worker gets those that one has for a while.
  for (const left of [
    [5, 3],
    [0, 0]
  ])
    assert.equal(await take({ limit: 9, room: 9, busy: [], rooms: [] }, 600_000), left)
})

const serving = suite('a worker of which one partner wants all places')

/** What a worker has open, beside a broker that is silent when accounts are opened: what begins does not end before `end`. */
function openWorker() {
  const brokers = openBrokers(readConfig(harness.env), harness.services.log)
  const open = { ...harness.services, brokers, worker: 'worker', clock: systemClock, changes: openSignal() }
  const end = async (part: { drain(): Promise<void> }) => {
    const closed = brokers.close()
    simulator.faults.set({ down: true })
    await Promise.all([closed, part.drain()])
    simulator.faults.set({ down: false })
  }
  return { services: open satisfies WorkerServices, end }
}

serving('claims no more of its orders than its share, and the others’', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const { services, end } = openWorker()
  const placing = new Placing(services, openSettling(services), openHalts(services), () => {}, { places: 4 })
  const [first = '', second = '', ...more] = await makeQueued(greedy, { count: 4 })
  await placing.claim([first, second])
  await placing.claim([...more, ...(await makeQueued(modest))])
  const phases = ({ partnerId }: TestPartner) =>
    db('orders').where({ partner_id: partnerId }).orderBy('phase').pluck('phase')
  assert.equal(await phases(greedy), ['queued', 'queued', 'sending', 'sending'])
  assert.equal(await phases(modest), ['sending'])
  placing.stop()
  await end(placing)
})

serving('proves no more of its accounts than its share, and the others’', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  await makeQueued(greedy, { count: 4 })
  await makeQueued(modest, { count: 1 })
  await db('orders').whereIn('partner_id', [greedy.partnerId, modest.partnerId]).update({ phase: 'unproven' })
  const { services, end } = openWorker()
  const accounts = openProving(services, { claim: async () => {} }, () => {}, 4)
  const taken = async ({ partnerId }: TestPartner) =>
    (await db('broker_accounts').where({ partner_id: partnerId }).whereNotNull('prove_at').pluck('id')).length
  for (let times = 0; times < 2; times++) {
    await accounts.take()
    assert.equal([await taken(greedy), await taken(modest)], [2, 1])
  }
  await end(accounts)
})

serving('refuses its requests to the broker beyond what may wait, and takes the others’', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  const { services, end } = openWorker()
  const places = new BrokerRequests(services, undefined as never, { underWay: 2, waiting: 4 })
  const request = async (partner: TestPartner, count: number) => {
    const traders = await Promise.all(Array.from({ length: count }, () => partner.makeTrader()))
    const accounts = await db('broker_accounts')
      .whereIn(
        'account_id',
        traders.map(({ accountId }) => accountId)
      )
      .pluck('id')
    const { partnerId } = partner
    const common = { kind: 'balance', partnerId, replyChannel: 'nobody', timeoutMs: 60_000 } as const
    const requests = accounts.map(id => ({ ...common, key: id, data: { accountRowId: id } }))
    await db.transaction(trx => storeBrokerRequests(trx, services.queue, requests))
    return places.take('ask')
  }
  const refused = async ({ partnerId }: TestPartner) => {
    const found = await db('broker_requests').where({ partner_id: partnerId, state: 'refused' }).select('error')
    return found.map(({ error }) => error.code as string)
  }
  assert.is(await request(greedy, 10), 10)
  // One is under way, two wait.
  await until('the refusals', async () => (await refused(greedy)).length === 7)
  assert.equal(new Set(await refused(greedy)), new Set(['RATE_LIMITED']))
  assert.is(await request(modest, 1), 1)
  assert.equal(await refused(modest), [])
  await end(places)
})

serving(
  'splits its request about accounts of several workers into requests of that partner, its own part too',
  async () => {
    const partner = await harness.makePartner()
    const { services, end } = openWorker()
    const traders = [await partner.makeTrader(), await partner.makeTrader()]
    for (const trader of traders) await insertOrderRows(db, trader, { phase: 'open' })
    const orderIds = await db('orders').where({ partner_id: partner.partnerId }).pluck('id')
    const [elsewhere] = await db('orders').where({ trader_id: traders[0]?.traderId }).pluck('id')
    await db('lease_holders').insert({ name: 'other', lease_until: future() })
    await db('account_leases').insert({ account_id: traders[0]?.accountId, worker: 'other' })
    const { partnerId } = partner
    const request = { kind: 'markSome', key: partnerId, partnerId, data: { orderIds }, replyChannel: 'nobody' }
    await db.transaction(trx => storeBrokerRequests(trx, services.queue, [{ ...request, timeoutMs: 60_000 }]))
    const requests = new BrokerRequests(services, undefined as never)
    await requests.take('ask')
    const parts = await until('the parts', async () => {
      const found: BrokerRequestRow[] = await db('broker_requests')
        .where({ kind: 'markSome' })
        .whereNot({ key: partnerId })
      return found.length === 2 ? found : undefined
    })
    for (const part of parts) {
      assert.is(part.partner_id, partnerId)
      services.bus.publish((await storeResponse(db, part.id, { marked: 1 })) as string, 'ask', part.id)
    }
    const own = orderIds.find(id => id !== elsewhere)
    assert.equal(new Set(parts.map(({ data }) => (data.orderIds as string[]).join())), new Set([elsewhere, own]))
    await end(requests)
  }
)

claiming.after(closeAll)
for (const tests of [sharing, requesting, proving, serving, claiming]) tests.run()
