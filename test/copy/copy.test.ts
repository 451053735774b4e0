// test once for each dialect
// Copy trading: leaders by record, following, and copies that are bought once, scaled and settled.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listLeaders, listMyFollows, unfollowLeader } from '../../api/copy.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { follow } from '../../db/copy/follows.ts'
import { rows } from '../../db/postgres/connection.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 9, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const place = (owner: TestPartner, traderExternalId: string, changes: object = {}) =>
  owner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { stake: 2, ...changes })
  })

/** A trader with a record long enough to lead. */
async function makeLeader(owner: TestPartner) {
  const leader = await owner.makeTrader()
  for (let count = 0; count < 10; count++) await place(owner, leader.traderExternalId)
  return leader
}
const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)
const copiesOf = async (owner: TestPartner, traderExternalId: string) =>
  (await owner.call(listOrders, { query: { traderExternalId } })).body.data.filter(
    (entry: { copiedFrom: string | null }) => entry.copiedFrom
  )
/** Waits until every order that has a response has been copied to whom it is to be copied. */
const fannedOut = () =>
  // The job is stored with the purchase, and goes in the transaction that stores the copies.
  until('the fan-outs', async () => {
    const [left] = await rows(
      harness.services.db,
      `select 1 from pgboss.job where name = 'copy.fanout' and state <= 'active'`
    )
    return !left
  })

const leader = await makeLeader(partner)

const leading = suite('GET /v1/copy/leaders')

leading('lists traders with ten closed orders, and none with fewer', async () => {
  const beginner = await partner.makeTrader()
  await place(partner, beginner.traderExternalId)
  const { body } = await partner.call(listLeaders)
  const found = body.data.find((entry: { leaderId: string }) => entry.leaderId === leader.traderId)
  const contracts = contractsOf(leader.accountId)
  assert.is(found.trades, 10)
  assert.is(found.winRatePct, contracts.filter(({ status }) => status === 'won').length * 10)
  assert.is(found.pnl, Math.round(contracts.reduce((sum, { profit }) => sum + Number(profit), 0) * 100) / 100)
  assert.not.ok(body.data.some((entry: { leaderId: string }) => entry.leaderId === beginner.traderId))
})

leading("does not show another partner's, and global only public partners'", async () => {
  const other = await harness.makePartner()
  assert.equal((await other.call(listLeaders)).body.data, [])
  assert.equal((await other.call(listLeaders, { query: { scope: 'global' } })).body.data, [])
  await harness.services
    .db('community_profiles')
    .insert({ partner_id: partner.partnerId, party_id: partner.partnerId, is_public: true })
  const { body } = await other.call(listLeaders, { query: { scope: 'global' } })
  assert.ok(body.data.some((entry: { leaderId: string }) => entry.leaderId === leader.traderId))
  assert.not.ok(JSON.stringify(body).includes(partner.partnerId))
})

const following = suite('POST /v1/copy/follow')

following('refuses unknown traders and leaders, oneself, and terms out of range', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const follow = (body: object) => partner.call(followLeader, { body })
  assert.is((await follow({ traderExternalId: 'nobody', leaderId: leader.traderId })).body.error, 'TRADER_NOT_FOUND')
  assert.is(
    (await follow({ traderExternalId, leaderId: 'trd_00000000000000000000000000' })).body.error,
    'LEADER_NOT_FOUND'
  )
  assert.is((await follow({ traderExternalId: leader.traderExternalId, leaderId: leader.traderId })).status, 409)
  assert.is(
    (await follow({ traderExternalId, leaderId: leader.traderId, riskPct: 201, maxDrawdownPct: 4 })).body.details
      .length,
    2
  )
  assert.is(
    (await partner.call(unfollowLeader, { body: { traderExternalId, leaderId: leader.traderId } })).body.error,
    'LEADER_NOT_FOUND'
  )
})

following('copies each order of the leader once, scaled, and not below the least stake', async () => {
  const full = await partner.makeTrader()
  const tiny = await partner.makeTrader()
  const first = await partner.call(followLeader, {
    body: { traderExternalId: full.traderExternalId, leaderId: leader.traderId, riskPct: 150 }
  })
  assert.is(first.status, 200, JSON.stringify(first.body))
  assert.is(first.body.maxDrawdownPct, 20)
  await partner.call(followLeader, {
    body: { traderExternalId: tiny.traderExternalId, leaderId: leader.traderId, riskPct: 1 }
  })
  const { body } = await place(partner, leader.traderExternalId)
  for (const [follower, stake] of [
    [full, 3],
    [tiny, 0.35]
  ] as const) {
    const [copy] = await until('the copy', async () => {
      const copies = await copiesOf(partner, follower.traderExternalId)
      return copies[0]?.status === 'CLOSED' && copies
    })
    assert.is(copy.stake, stake)
    assert.is(copy.copiedFrom, body.orderId)
    assert.is(copy.contractType, 'CALL')
    assert.is(contractsOf(follower.accountId).length, 1)
  }
  const { body: mine } = await partner.call(listMyFollows, { query: { traderExternalId: full.traderExternalId } })
  assert.is(mine.data[0].copiedOrders, 1)
  assert.is(mine.data[0].pnl, Number(contractsOf(full.accountId)[0]?.profit))
  for (const { traderExternalId } of [full, tiny]) {
    const stopped = await partner.call(unfollowLeader, { body: { traderExternalId, leaderId: leader.traderId } })
    assert.is(stopped.body.status, 'STOPPED')
  }
})

following('a copy is never copied, and a refusal of one follower affects no other', async () => {
  const middle = await makeLeader(partner)
  const last = await partner.makeTrader()
  const accountId = newAccountId()
  const poor = await partner.makeTrader({ accountId, token: `sim-${accountId}-poor` })
  const follow = (traderExternalId: string, leaderId: string) =>
    partner.call(followLeader, { body: { traderExternalId, leaderId } })
  await follow(middle.traderExternalId, leader.traderId)
  await follow(poor.traderExternalId, leader.traderId)
  await follow(last.traderExternalId, middle.traderId)
  // Its limit would keep the copy from being requested at all.
  await harness.services.db('follows').where({ trader_id: poor.traderId }).update({ base_balance: '1000' })
  await place(partner, leader.traderExternalId, { stake: 5 })
  await until('the copies', async () => {
    const [mine] = await copiesOf(partner, middle.traderExternalId)
    const [refused] = await copiesOf(partner, poor.traderExternalId)
    return mine?.status === 'CLOSED' && refused?.status === 'FAILED' && refused.error.error === 'INSUFFICIENT_BALANCE'
  })
  await fannedOut()
  assert.equal(await copiesOf(partner, last.traderExternalId), [])
  const { body: own } = await place(partner, middle.traderExternalId)
  await fannedOut()
  const copies = await copiesOf(partner, last.traderExternalId)
  assert.equal(
    copies.map(({ copiedFrom }: { copiedFrom: string }) => copiedFrom),
    [own.orderId]
  )
  for (const { traderExternalId } of [middle, poor])
    await partner.call(unfollowLeader, { body: { traderExternalId, leaderId: leader.traderId } })
})

following('pauses when the loss reaches the limit, and following again resumes', async () => {
  const follower = await partner.makeTrader()
  const steady = await partner.makeTrader()
  await partner.call(followLeader, {
    body: { traderExternalId: steady.traderExternalId, leaderId: leader.traderId, maxDrawdownPct: 50 }
  })
  const { body } = await partner.call(followLeader, {
    body: { traderExternalId: follower.traderExternalId, leaderId: leader.traderId, maxDrawdownPct: 5 }
  })
  await harness.services.db('follows').where({ id: body.followId }).update({ base_balance: '40' })
  const standing = async () =>
    (await partner.call(listMyFollows, { query: { traderExternalId: follower.traderExternalId } })).body.data[0]
  const copiesClosed = async () =>
    (await copiesOf(partner, follower.traderExternalId)).every(({ status }: { status: string }) => status === 'CLOSED')
  await until(
    'a loss',
    async () => {
      // Every other one loses; 2 is 5 % of 40, once what was won before is set aside.
      await harness.services.db('follows').where({ id: body.followId }).update({ since_pnl: '0' })
      await place(partner, leader.traderExternalId)
      await fannedOut()
      await until('the end of its copy', copiesClosed)
      return (await standing()).status === 'PAUSED_DRAWDOWN'
    },
    30_000
  )
  assert.ok((await standing()).drawdownPct >= 5)
  const before = (await copiesOf(partner, follower.traderExternalId)).length
  const { body: next } = await place(partner, leader.traderExternalId)
  await fannedOut()
  assert.is((await copiesOf(partner, follower.traderExternalId)).length, before)
  // There was something to copy.
  assert.is((await copiesOf(partner, steady.traderExternalId))[0]?.copiedFrom, next.orderId)
  const again = await partner.call(followLeader, {
    body: { traderExternalId: follower.traderExternalId, leaderId: leader.traderId }
  })
  assert.is(again.body.status, 'ACTIVE')
  assert.is((await standing()).drawdownPct, 0)
})

following('changes the terms for a leader whose record is too short by now, unless it was stopped', async () => {
  const { db } = harness.services
  const [other, follower] = [await makeLeader(partner), await partner.makeTrader()]
  const pair = { traderExternalId: follower.traderExternalId, leaderId: other.traderId }
  const { body: begun } = await partner.call(followLeader, { body: pair })
  await db.raw(`update orders set closed_at = closed_at - interval '31 days' where trader_id = ?`, [other.traderId])
  const listed = (await partner.call(listLeaders, { query: {} })).body.data
  assert.not.ok(listed.some(({ leaderId }: { leaderId: string }) => leaderId === other.traderId))
  const { body: changed } = await partner.call(followLeader, { body: { ...pair, riskPct: 50 } })
  assert.equal([changed.followId, changed.riskPct, changed.status], [begun.followId, 50, 'ACTIVE'])
  await partner.call(unfollowLeader, { body: pair })
  assert.is((await partner.call(followLeader, { body: pair })).body.error, 'LEADER_NOT_FOUND')
})

following(
  'stores nothing of a trader or a leader who is erased while the balance is requested from the broker',
  async () => {
    const { db, vault } = harness.services
    const other = await makeLeader(partner)
    const follower = await partner.makeTrader()
    const { id: accountRowId } = await db('broker_accounts').where({ trader_id: follower.traderId }).first('id')
    const { traderId, traderExternalId, accountId } = follower
    const terms = { partnerId: partner.partnerId, traderId, traderExternalId, accountRowId, accountId }
    const rest = {
      riskPct: 100,
      maxDrawdownPct: 20,
      mirrorCloses: true,
      accountMode: 'DEMO',
      currency: 'USD',
      balance: '100'
    }
    const begin = async (erased: string, leaderId: string) => {
      const during = await db.transaction(async trx => {
        await eraseTrader(trx, vault, erased)
        return partner.call(followLeader, { body: { traderExternalId, leaderId } })
      })
      const after = await follow(db, { ...terms, ...rest, leaderId }).catch((error: ApiError) => error.code)
      return [during.body.error, after]
    }
    assert.equal(await begin(other.traderId, other.traderId), ['UNAVAILABLE', 'LEADER_NOT_FOUND'])
    assert.equal(await begin(follower.traderId, leader.traderId), ['UNAVAILABLE', 'TRADER_NOT_FOUND'])
    assert.equal(await db('follows').where({ trader_id: follower.traderId }), [])
  }
)

following('holds a trader to the bound of its follows, also where several begin at once', async () => {
  const { db } = harness.services
  const other = await makeLeader(partner)
  const follower = await partner.makeTrader()
  const { id: account } = await db('broker_accounts').where({ trader_id: follower.traderId }).first('id')
  await db.raw(
    `with led as (
       insert into traders (id, partner_id, external_id) select 'trd_' || lpad(n::text, 26, '0'), :partnerId, 'led-' || n from generate_series(1, 999) n
       returning id)
     insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, mirror_closes, status,
            base_balance, broker_account_id, account_id, account_mode, currency)
     select replace(id, 'trd', 'fol'), :partnerId, :traderId, :traderExternalId, id, 100, 20, true, 'STOPPED', 100, :account, :accountId, 'DEMO', 'USD' from led`,
    { partnerId: partner.partnerId, account, ...follower }
  )
  const holding = await db.transaction()
  await holding('traders').where({ id: follower.traderId }).forNoKeyUpdate().first('id')
  const begun = [leader, other].map(({ traderId: leaderId }) =>
    partner.call(followLeader, { body: { traderExternalId: follower.traderExternalId, leaderId } })
  )
  await untilLockWaits(db, { count: 2 }).finally(() => holding.commit())
  assert.equal((await Promise.all(begun)).map(({ body }) => body.error).sort(), ['LIMIT_REACHED', undefined])
  const { body } = await partner.call(listMyFollows, { query: { traderExternalId: follower.traderExternalId } })
  assert.is(body.data.filter(({ status }: { status: string }) => status === 'ACTIVE').length, 1)
})

following.after(closeAll)
for (const tests of [leading, following]) tests.run()
