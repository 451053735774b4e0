// What changes between a leader's order and the purchase of its copies, or afterwards: the follow is stopped, the leader closes,
// its partner shows its traders no more, locks are waited for. And what a follow may be at all.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { updateCommunityProfile } from '../../api/community/community.ts'
import { followLeader, listMyFollows, unfollowLeader } from '../../api/copy.ts'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens } from '../../api/traders/accounts.ts'
import { requestClosing } from '../../db/copy/closing.ts'
import { lockForCopying, takeCandidates } from '../../db/copy/fanout.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import { storeRenewal, takeRenewals } from '../../db/traders/token-renewal.ts'
import { contractTypes } from '../../schemas/orders.ts'
import { fanOut } from '../../worker/copy/fanout.ts'
import { CopyPace } from '../../worker/copy/pace.ts'
import { ceilingOf } from '../../worker/orders/stake.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { makeFollowedOrder } from '../support/copying.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, type TestTrader, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 20, seed: 23, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
const { db } = harness.services
await startTestWorker(harness.env)
const partner = await harness.makePartner()

/** A trader with a record long enough to lead. */
async function makeLeader(owner = partner, options: { accountId?: string } = {}): Promise<TestTrader> {
  const leader = await owner.makeTrader(options)
  await insertOrderRows(db, leader, { count: 10 })
  return leader
}

const follow = (
  { traderExternalId }: TestTrader,
  { traderId: leaderId }: TestTrader,
  { owner = partner, ...terms }: { owner?: TestPartner; [term: string]: unknown } = {}
) => owner.call(followLeader, { body: { traderExternalId, leaderId, maxDrawdownPct: 90, ...terms } })
const unfollow = ({ traderExternalId }: TestTrader, { traderId: leaderId }: TestTrader) =>
  partner.call(unfollowLeader, { body: { traderExternalId, leaderId } })
const standing = async ({ traderExternalId }: TestTrader, owner = partner) =>
  (await owner.call(listMyFollows, { query: { traderExternalId } })).body.data[0]
const common = ({ traderExternalId }: TestTrader) => ({ traderExternalId, clientOrderId: randomUUID(), asset: 'R_100' })
const placeBinary = async (trader: TestTrader, owner = partner): Promise<{ orderId: string }> =>
  (
    await owner.call(placeBinaryOrder, {
      body: { ...common(trader), contractType: 'CALL', stake: 10, duration: 5, durationUnit: 'm' }
    })
  ).body
const placeMultiplier = async (trader: TestTrader): Promise<{ orderId: string }> =>
  (
    await partner.call(placeMultiplierOrder, {
      body: { ...common(trader), direction: 'up', stake: 10, multiplier: 40 }
    })
  ).body
const close = ({ orderId }: { orderId: string }) => partner.call(closeMultiplierOrder, { params: { orderId } })
const contractsOf = ({ accountId }: TestTrader) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const copiesOf = async ({ traderExternalId }: TestTrader, owner = partner) =>
  (await owner.call(listOrders, { query: { traderExternalId } })).body.data.filter(
    (entry: { copiedFrom: string | null }) => entry.copiedFrom
  )
const copyOf = (follower: TestTrader, { orderId }: { orderId: string }, status = 'OPEN', owner = partner) =>
  until(
    `the ${status} copy`,
    async () => {
      const copy = (await copiesOf(follower, owner)).find((each: { copiedFrom: string }) => each.copiedFrom === orderId)
      return copy?.status === status && copy
    },
    20_000
  )
const done = (name: string) =>
  until(`the jobs of ${name}`, async () => {
    const [left] = await rows(db, `select 1 from pgboss.job where name = :name and state <= 'active'`, { name })
    return !left
  })
const fannedOut = () => done('copy.fanout')
const closed = () => done('copy.close')

/** Keeps an account busy with an order in doubt; `free` ends that. */
async function busy(trader: TestTrader): Promise<{ free(): Promise<void> }> {
  await insertOrderRows(db, trader, { phase: 'open' })
  await db.raw(
    `update orders set phase = 'sending', sent_at = now(), permit_until = now(), expires_at = now() + interval '1 minute',
        resolve_at = now() + interval '1 hour' where trader_id = ? and phase = 'open'`,
    [trader.traderId]
  )
  return {
    async free() {
      await db.raw(
        `update orders set phase = 'failed', error_code = 'INVALID_CONTRACT'
          where trader_id = ? and copied_from is null and phase = 'sending'`,
        [trader.traderId]
      )
    }
  }
}

/** A copy that waits, as the account of its follower is busy until `free`. */
async function waitingCopy() {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { free } = await busy(follower)
  const order = await placeBinary(leader)
  return { leader, follower, order, copy: await copyOf(follower, order, 'PENDING'), free }
}

const stopping = suite('a follow that is stopped')

stopping('has the copies failed that wait to be bought', async () => {
  const { leader, follower, order, free } = await waitingCopy()
  const { body } = await unfollow(follower, leader)
  assert.equal([body.status, body.openCopies], ['STOPPED', 0])
  const copy = await copyOf(follower, order, 'FAILED')
  assert.equal(copy.error, { error: 'CONFLICT', message: 'The follow was stopped before this copy was bought.' })
  await free()
  assert.equal(contractsOf(follower), [])
})

stopping('has no copy bought that was at a worker then, and was given back', async () => {
  const { leader, follower, order, free } = await waitingCopy()
  await db('follows').where({ leader_id: leader.traderId }).update({ status: 'STOPPED' })
  await free()
  const copy = await copyOf(follower, order, 'FAILED')
  assert.is(copy.error.message, 'The follow was stopped before this copy was bought.')
  assert.equal(contractsOf(follower), [])
})

stopping('is not held up by a copy that nobody wants: the next order of its account is bought', async () => {
  const { follower, order, copy, free } = await waitingCopy()
  await db('orders').where({ id: order.orderId }).update({ closed_early: true })
  const own = placeBinary(follower)
  await copyOf(follower, order, 'FAILED')
  await free()
  await own
  const row = await db('orders').where({ id: copy.orderId }).first()
  assert.equal([row.phase, row.error_code], ['failed', 'CONFLICT'])
  assert.is(row.error_message, 'The leader closed the order before this copy was bought.')
  assert.is(contractsOf(follower).length, 1)
})

stopping('leaves open copies open, also when the leader closes', async () => {
  const [leader, follower, other] = [await makeLeader(), await partner.makeTrader(), await partner.makeTrader()]
  for (const each of [follower, other]) await follow(each, leader)
  const order = await placeMultiplier(leader)
  for (const each of [follower, other]) await copyOf(each, order)
  // The job that closes copies goes from part to part.
  const closing = await db.transaction()
  const { orderId } = order
  const first = await requestClosing(closing, { orderId, after: '', limit: 1 })
  const second = await requestClosing(closing, { orderId, after: first.last as string, limit: 1 })
  assert.ok((first.last as string) < (second.last as string))
  assert.is((await requestClosing(closing, { orderId, after: second.last as string, limit: 1 })).last, undefined)
  assert.is((await closing('orders').where({ copied_from: orderId }).whereNotNull('close_at')).length, 2)
  await closing.rollback()
  assert.is((await unfollow(follower, leader)).body.openCopies, 1)
  await close(order)
  await copyOf(other, order, 'CLOSED')
  const row = await db('orders').where({ trader_id: follower.traderId }).first()
  assert.equal([row.phase, row.close_at], ['open', null])
  // Following again takes its copies back.
  const next = await placeMultiplier(leader)
  await follow(follower, leader)
  assert.ok(next.orderId)
})

stopping(
  'closes a copy whose leader had sold six seconds before, also where that is known only afterwards, and no other',
  async () => {
    const [leader, certain, uncertain] = [await makeLeader(), await partner.makeTrader(), await partner.makeTrader()]
    for (const each of [certain, uncertain]) await follow(each, leader)
    const order = await placeMultiplier(leader)
    for (const each of [certain, uncertain]) await copyOf(each, order)
    for (const each of [certain, uncertain]) await unfollow(each, leader)
    // What closes copies waits for this transaction: by then the sale was before both stops, one of them too close to be certain.
    const copying = await db.transaction()
    try {
      await lockForCopying(copying, order.orderId)
      await close(order)
      const { closed_at: soldAt } = await db('orders').where({ id: order.orderId }).first()
      assert.instance(soldAt, Date)
      for (const [each, ms] of [
        [certain, 6000],
        [uncertain, 5999]
      ] as const) {
        const changed = { stopped_at: new Date(soldAt.getTime() + ms) }
        assert.is(await db('follows').where({ trader_id: each.traderId }).update(changed), 1)
        const copy = await db('orders').where({ trader_id: each.traderId }).first()
        assert.equal([copy.phase, copy.close_at], ['open', null], 'nothing has closed it before')
      }
    } finally {
      await copying.rollback()
    }
    await copyOf(certain, order, 'CLOSED')
    // Both are decided on in one statement.
    const copy = await db('orders').where({ trader_id: uncertain.traderId }).first()
    assert.equal([copy.phase, copy.close_at], ['open', null])
  }
)

stopping(
  'closes a copy whose leader is known to have closed, though the job that closes it comes afterwards',
  async () => {
    const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
    const [stubborn, gone] = [await partner.makeTrader(), await partner.makeTrader()]
    for (const each of [follower, gone]) await follow(each, leader)
    await follow(stubborn, leader, { mirrorCloses: false })
    const order = await placeMultiplier(leader)
    const { orderId } = await copyOf(follower, order)
    for (const each of [stubborn, gone]) await copyOf(each, order)
    await unfollow(gone, leader)
    const stopOf = async ({ traderId }: TestTrader) =>
      (await db('follows').where({ trader_id: traderId }).first()).stopped_at
    const stoppedAt = await stopOf(gone)
    const copying = await db.transaction()
    try {
      await lockForCopying(copying, order.orderId)
      await close(order)
      assert.is((await db('orders').where({ id: orderId }).first()).close_at, null)
      for (const each of [follower, stubborn, gone]) await unfollow(each, leader)
      // Not where its follow excludes that, or was stopped before: stopped again, it stays as it was.
      for (const { traderId } of [stubborn, gone])
        assert.is((await db('orders').where({ trader_id: traderId }).first()).close_at, null)
      assert.equal(await stopOf(gone), stoppedAt)
    } finally {
      await copying.rollback()
    }
    await copyOf(follower, order, 'CLOSED')
  }
)

stopping('again leaves copies to the follower that its leader closed while it was stopped before', async () => {
  const [leader, follower, other] = [await makeLeader(), await partner.makeTrader(), await partner.makeTrader()]
  for (const each of [follower, other]) await follow(each, leader)
  const order = await placeMultiplier(leader)
  for (const each of [follower, other]) await copyOf(each, order)
  await unfollow(follower, leader)
  await close(order)
  await copyOf(other, order, 'CLOSED')
  await closed()
  await follow(follower, leader)
  await unfollow(follower, leader)
  const row = await db('orders').where({ trader_id: follower.traderId }).first()
  assert.equal([row.phase, row.close_at], ['open', null])
})

const beginning = suite('a follow that begins')

/** An order of a leader whose account is busy until `free`. */
async function placeWaiting(leader: TestTrader) {
  const { free } = await busy(leader)
  const body = { ...common(leader), contractType: 'CALL' as const, stake: 10, duration: 5, durationUnit: 'm' as const }
  const place = () => partner.call(placeBinaryOrder, { body })
  const placed = place()
  const orderId = await until('the order that waits', async () => {
    const row = await db('orders').where({ client_order_id: body.clientOrderId }).first('id', 'phase')
    return row?.phase === 'queued' && (row.id as string)
  })
  return { orderId, placed, place, free }
}

beginning('copies no order that its leader had placed before, though it is bought and copied afterwards', async () => {
  const [leader, always, stopped, fresh] = [
    await makeLeader(),
    await partner.makeTrader(),
    await partner.makeTrader(),
    await partner.makeTrader()
  ]
  for (const each of [always, stopped]) await follow(each, leader)
  await unfollow(stopped, leader)
  const { orderId, placed, free } = await placeWaiting(leader)
  // New terms of one that goes on do not make it begin.
  for (const each of [always, stopped, fresh]) await follow(each, leader, { riskPct: 50 })
  await free()
  assert.is((await placed).body.status, 'OPEN')
  assert.is((await copyOf(always, { orderId })).stake, 5)
  await fannedOut()
  for (const each of [stopped, fresh]) {
    const { copiedOrders, skippedCopies } = await standing(each)
    assert.equal([copiedOrders, skippedCopies], [0, 0])
  }
  const next = await placeBinary(leader)
  for (const each of [always, stopped, fresh]) await copyOf(each, next)
})

beginning('copies an order that failed before, and that its leader places again under the same id', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  const { orderId, placed, place, free } = await placeWaiting(leader)
  await db('orders')
    .where({ id: orderId })
    .update({ expires_at: db.raw('clock_timestamp()') })
  assert.is((await placed).body.error, 'BROKER_UPSTREAM')
  await free()
  await follow(follower, leader)
  assert.is((await place()).body.status, 'OPEN')
  await copyOf(follower, { orderId })
})

beginning('copies what its leader places though the clock of the database was set back since', async () => {
  const unstated = { stake: null, stopLoss: null, takeProfit: null }
  const { services, orderId, worker, leader } = await makeFollowedOrder(async () => unstated)
  const { db: own, queue } = services
  await own.raw(`update follows set active_since = now() + interval '1 hour' where leader_id = ?`, [leader.traderId])
  await queue.enqueue(own, 'copy.fanout', [{ orderId }])
  await fanOut(worker, new CopyPace(systemClock))
  assert.is((await own('orders').where({ copied_from: orderId })).length, 1)
})

beginning('copies for the whole of a part, though a follow in it begins again after the part was planned', async () => {
  const unstated = { stake: null, stopLoss: null, takeProfit: null }
  const { services, orderId, worker, leader, follower } = await makeFollowedOrder(async () => unstated)
  const { db: own, queue } = services
  // The range of the second part has one follow more than a part has at most: one that is stopped.
  await own.raw(
    `with added as (
       insert into traders (id, partner_id, external_id, active_account_id, connected_at)
       select left(id, -4) || 'z' || n, partner_id, external_id || n, active_account_id, connected_at
         from traders, generate_series(100, 499) n where id = :follower returning id, external_id
     )
     insert into follows select (jsonb_populate_record(f, jsonb_build_object('id', left(f.id, -4) || right(a.id, 4), 'trader_id', a.id,
              'trader_external_id', a.external_id, 'status', case when a.id like '%350' then 'STOPPED' else 'ACTIVE' end))).*
       from follows f, added a where f.leader_id = :leader`,
    { follower: follower.traderId, leader: leader.traderId }
  )
  await queue.enqueue(own, 'copy.fanout', [{ orderId }])
  await fanOut(worker, new CopyPace(systemClock))
  await own.raw(`update follows set status = 'ACTIVE', active_since = clock_timestamp() where status = 'STOPPED'`)
  await fanOut(worker, new CopyPace(systemClock))
  assert.is((await own('orders').where({ copied_from: orderId })).length, 400)
})

const erasing = suite('a follower that is being erased')

erasing('has the other followers wait neither for it nor for its follow', async () => {
  const leader = await makeLeader()
  const [gone, other] = [await partner.makeTrader(), await partner.makeTrader()]
  for (const each of [gone, other]) await follow(each, leader)
  const erasure = await db.transaction()
  try {
    // Held for as long as copies take on a busy machine.
    await erasure.raw('set local idle_in_transaction_session_timeout = 0')
    await erasure.raw('select id from traders where id = ? for update', [gone.traderId])
    await copyOf(other, await placeBinary(leader))
    // What copied the order has let the follow go.
    await eraseTrader(erasure, harness.services.vault, gone.traderId)
    await copyOf(other, await placeBinary(leader))
    await erasure.commit()
  } finally {
    if (!erasure.isCompleted()) await erasure.rollback()
  }
  await fannedOut()
  assert.equal(contractsOf(gone), [])
  assert.is((await db('follows').where({ trader_id: gone.traderId }).first()).status, 'STOPPED')
})

erasing('is another one than a follower whose token is being renewed, for whom orders are copied', async () => {
  const unstated = { stake: null, stopLoss: null, takeProfit: null }
  const { services, orderId, worker, follower } = await makeFollowedOrder(async () => unstated)
  const { db: own, queue, vault } = services
  await own('partners').update({ broker_dialect: 'next' })
  const account = () => own('broker_accounts').where({ trader_id: follower.traderId })
  const { id, token_version } = await account().first()
  const refreshToken = 'refresh-0123456789'
  await own.transaction(trx => storeRenewal(trx, vault, id, { refreshToken, expiresAt: new Date(Date.now() + 60_000) }))
  await account().update({ renew_at: new Date(), renewal_version: token_version })
  const holder = await own.transaction()
  try {
    await holder('broker_accounts').where({ id }).forNoKeyUpdate().first('id')
    const renewing = takeRenewals(own, vault, 1)
    await untilLockWaits(own, { text: 'renewing_until', work: renewing })
    await queue.enqueue(own, 'copy.fanout', [{ orderId }])
    await fanOut(worker, new CopyPace(systemClock))
    assert.is((await own('orders').where({ copied_from: orderId })).length, 1)
    await holder.rollback()
    assert.is((await renewing).due.length, 1)
  } finally {
    if (!holder.isCompleted()) await holder.rollback()
  }
})

erasing('is not locked while it cannot be erased yet, and is copied for', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  await copyOf(follower, await placeBinary(leader))
  const copying = await db.transaction()
  try {
    await copying.raw('select id from traders where id = ? for key share', [follower.traderId])
    const erasure = db.transaction(trx => eraseTrader(trx, harness.services.vault, follower.traderId))
    await erasure.then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, 'cannot be erased yet: 1 orders are not final')
    )
  } finally {
    await copying.rollback()
  }
})

erasing('as a leader has its follows stopped in the order in which all others lock them', async () => {
  const leader = await makeLeader()
  const [first, second] = [await partner.makeTrader(), await partner.makeTrader()]
  for (const each of [first, second]) await follow(each, leader)
  // The first one comes last in the table.
  await db('follows').where({ trader_id: first.traderId }).update({ risk_pct: 50 })
  const lock = (trx: Db, { traderId }: TestTrader) =>
    rows(trx, 'select id from follows where trader_id = :traderId for no key update', { traderId })
  const closing = await db.transaction()
  try {
    await lock(closing, first)
    const erasure = db.transaction(trx => eraseTrader(trx, harness.services.vault, leader.traderId))
    await untilLockWaits(db, { text: 'follows', work: erasure })
    await lock(closing, second)
    await closing.commit()
    await erasure
  } finally {
    if (!closing.isCompleted()) await closing.rollback()
  }
})

const late = suite('the time to live of a copy')

late('counts from the purchase of its leader, however long the follow was locked', async () => {
  const unstated = { stake: null, stopLoss: null, takeProfit: null }
  const { services, leader, orderId, worker } = await makeFollowedOrder(async () => unstated)
  await services.db.raw('update orders set sent_at = clock_timestamp() where id = ?', [orderId])
  await services.queue.enqueue(services.db, 'copy.fanout', [{ orderId }])
  const holder = await services.db.transaction()
  await holder('follows').where({ leader_id: leader.traderId }).forUpdate().select('id')
  const fanning = fanOut(worker, new CopyPace(systemClock))
  await untilLockWaits(services.db)
  // As if the lock were waited for as long as an order lives.
  await services.db.raw(`update orders set sent_at = sent_at - interval '1 minute' where id = ?`, [orderId])
  await holder.rollback()
  await fanning
  const [copy] = await services.db('orders').where({ copied_from: orderId }).select('expires_at', 'created_at')
  assert.ok(copy.expires_at < copy.created_at, `${copy.expires_at} ${copy.created_at}`)
})

const limits = suite('what counts for the limit of a follow')

limits(
  'are the copies that were stored since it began again, also where their accounts were opened later',
  async () => {
    const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
    const { body } = await follow(follower, leader)
    const order = await placeMultiplier(leader)
    const copy = await copyOf(follower, order)
    await db.raw(
      `update orders set created_at = f.since - interval '1 second', queued_at = f.since + interval '1 second'
       from follows f where f.id = orders.follow_id and orders.id = ?`,
      [copy.orderId]
    )
    await close(order)
    const { pnl } = await copyOf(follower, order, 'CLOSED')
    const row = await db('follows').where({ id: body.followId }).first()
    assert.equal([Number(row.pnl), Number(row.since_pnl)], [pnl, 0])
  }
)

limits('are also open copies whose leader’s order is in the archive', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { maxDrawdownPct: 50, mirrorCloses: false })
  const setBase = (changes: object = {}) =>
    db('follows')
      .where({ leader_id: leader.traderId })
      .update({ base_balance: '30', ...changes })
  // What copies have made since may not be lost on top.
  await setBase({ since_pnl: '100' })
  const order = await placeMultiplier(leader)
  await copyOf(follower, order)
  await close(order)
  await db('orders').where({ id: order.orderId }).delete()
  // 10 of 15 are at risk.
  await placeMultiplier(leader)
  await fannedOut()
  const { copiedOrders, skippedCopies, lastSkipped } = await standing(follower)
  assert.equal([copiedOrders, skippedCopies, lastSkipped?.reason], [1, 1, 'DRAWDOWN'])
  // Not where the follow began again since.
  await follow(follower, leader, { maxDrawdownPct: 50, mirrorCloses: false })
  await setBase()
  await copyOf(follower, await placeMultiplier(leader))
})

const across = suite('a leader of another partner')

/** A leader of a public partner, and a trader of another one, whose application is another one. */
async function apart() {
  const [theirs, mine] = [await harness.makePartner(), await harness.makePartner()]
  await db('partners').where({ id: mine.partnerId }).update({ broker_app_id: '9' })
  await theirs.call(updateCommunityProfile, { body: { isPublic: true } })
  const [leader, follower] = [await makeLeader(theirs), await mine.makeTrader()]
  return { theirs, mine, leader, follower }
}

across('is not copied any more once its partner is not public, until it is again', async () => {
  const { theirs, mine, leader, follower } = await apart()
  const beside = await theirs.makeTrader()
  await follow(follower, leader, { owner: mine })
  await follow(beside, leader, { owner: theirs })
  await theirs.call(updateCommunityProfile, { body: { isPublic: false } })
  const hidden = await placeBinary(leader, theirs)
  await copyOf(beside, hidden, 'OPEN', theirs)
  const { status, skippedCopies, lastSkipped } = await standing(follower, mine)
  assert.equal([status, skippedCopies, lastSkipped.reason], ['ACTIVE', 1, 'LEADER_PRIVATE'])
  assert.equal(contractsOf(follower), [])
  await theirs.call(updateCommunityProfile, { body: { isPublic: true } })
  await copyOf(follower, await placeBinary(leader, theirs), 'OPEN', mine)
})

across('is not copied for a partner whose plan has ended or that is suspended, until that is over', async () => {
  const { theirs, mine, leader, follower } = await apart()
  await follow(follower, leader, { owner: mine })
  const setStanding = (columns: object) => db('partners').where({ id: mine.partnerId }).update(columns)
  const ends = [
    [{ plan_active: false }, { plan_active: true }],
    [{ suspended_at: new Date() }, { suspended_at: null }]
  ] as const
  for (const [index, [ended, restored]] of ends.entries()) {
    await setStanding(ended)
    await placeBinary(leader, theirs)
    await fannedOut()
    const row = await db('follows').where({ trader_id: follower.traderId }).first()
    assert.equal([row.status, row.skipped_copies, row.skipped_reason], ['ACTIVE', index + 1, 'PARTNER_INACTIVE'])
    await setStanding(restored)
  }
  assert.equal(contractsOf(follower), [])
  await copyOf(follower, await placeBinary(leader, theirs), 'OPEN', mine)
})

across('has the most counted for its copies that their application may charge beside the stake', async () => {
  const { theirs, mine, leader, follower } = await apart()
  await follow(follower, leader, { owner: mine, maxDrawdownPct: 50 })
  const base = (base_balance: string) => db('follows').where({ leader_id: leader.traderId }).update({ base_balance })
  await base('21')
  await placeBinary(leader, theirs)
  await fannedOut()
  assert.is((await standing(follower, mine)).lastSkipped?.reason, 'DRAWDOWN')
  // 3 % of a payout of 20, and a cent.
  await base('21.22')
  await copyOf(follower, await placeBinary(leader, theirs), 'OPEN', mine)
})

across('has its copies count before they are bought with no less than they may cost', async () => {
  const { theirs, mine, leader, follower } = await apart()
  const { body } = await follow(follower, leader, { owner: mine })
  const { orderId } = await placeBinary(leader, theirs)
  const { orderId: id } = await copyOf(follower, { orderId }, 'OPEN', mine)
  const range = { orderId, leaderId: leader.traderId, after: '', upTo: body.followId }
  // As it was before it was bought, and in no phase that a worker takes it from.
  await db('orders').where({ id }).update({ phase: 'review', buy_price: null, broker_order_id: null, opened_at: null })
  for (const contractType of contractTypes)
    for (const stake of ['0.35', '0.5', '1', '10', '1000']) {
      const barrier = ['DIGITMATCH', 'DIGITDIFF'].includes(contractType)
        ? '5'
        : contractType === 'DIGITOVER'
          ? '8'
          : '1'
      await db('orders').where({ id }).update({ contract_type: contractType, stake, barrier })
      const [candidate] = await db.transaction(trx => takeCandidates(trx, range))
      const terms = { asset: 'R_100', currency: 'USD', duration: 5, durationUnit: 't', stake, barrier } as const
      const most = ceilingOf({ kind: 'BINARY', contractType, ...terms })
      assert.ok(Number(candidate?.atRisk) >= Number(most), `${contractType} of ${stake}: ${candidate?.atRisk}, ${most}`)
    }
  await db('orders').where({ id }).update({ phase: 'failed', error_code: 'CONFLICT' })
})

across('cannot be followed by another trader with the same account at the broker', async () => {
  const { theirs, mine, leader } = await apart()
  const same = await mine.makeTrader({ accountId: leader.accountId })
  const refused = await follow(same, leader, { owner: mine })
  assert.equal([refused.status, refused.body.error], [409, 'CONFLICT'])
  assert.is(refused.body.message, `The leader trades on account ${leader.accountId} itself.`)
  // Nor is what it places on the account of a follower.
  const follower = await theirs.makeTrader()
  await follow(follower, leader, { owner: theirs })
  const { traderExternalId } = leader
  const accounts = [
    { accountId: follower.accountId, token: `sim-${follower.accountId}`, accountMode: 'DEMO' as const, currency: 'USD' }
  ]
  await theirs.call(exchangeTokens, { body: { traderExternalId, accounts } })
  await theirs.call(activateAccount, { body: { traderExternalId, accountId: follower.accountId } })
  await placeBinary(leader, theirs)
  await fannedOut()
  assert.is((await standing(follower, theirs)).lastSkipped?.reason, 'SAME_ACCOUNT')
  assert.is(contractsOf(follower).length, 1)
})

const many = suite('the most follows that a trader may have')

many('can be changed and are all listed, and one more is refused', async () => {
  const [leader, last, follower] = [await makeLeader(), await makeLeader(), await partner.makeTrader()]
  const { body } = await follow(follower, leader)
  await db.raw(
    `with leaders as (
       insert into traders (id, partner_id, external_id, active_account_id, connected_at)
       select left(id, 20) || lpad(n::text, 10, '0'), partner_id, external_id || n, active_account_id, connected_at
         from traders, generate_series(2, 1000) n where id = ? returning *
     )
     insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(l.id, 5), l.partner_id, f.id, f.external_id, l.id, 50, 90, 'ACTIVE', 100 from leaders l, traders f where f.id = ?`,
    [leader.traderId, follower.traderId]
  )
  const refused = await follow(follower, last)
  assert.equal([refused.status, refused.body.error], [409, 'LIMIT_REACHED'])
  const changed = await follow(follower, leader, { riskPct: 10 })
  assert.equal([changed.status, changed.body.followId, changed.body.riskPct], [200, body.followId, 10])
  const { traderExternalId } = follower
  const { data } = (await partner.call(listMyFollows, { query: { traderExternalId } })).body
  assert.is(data.length, 1000)
})

many.after(closeAll)
for (const tests of [stopping, beginning, erasing, late, limits, across, many]) tests.run()
