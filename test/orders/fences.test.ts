// What is written about an order belongs to one attempt and to one phase: a late message about an earlier attempt, or a
// second end, changes nothing. These are the rows' own guards; the protocol above them hardly ever gets there.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { storeLimits } from '../../db/copy/limits.ts'
import { claimOrders } from '../../db/orders/claiming.ts'
import { adoptByHand, declareAbsent } from '../../db/orders/deciding.ts'
import { closeOrders, endLease, markValues, renewLease } from '../../db/orders/leases.ts'
import {
  commitStakes,
  markFailed,
  markOpen,
  markReset,
  openOrders,
  releaseLostClaims,
  releaseUnsent
} from '../../db/orders/placing.ts'
import {
  decideBreak,
  formerApplications,
  inDoubt,
  insertBreak,
  listBreaks,
  ordersInDoubt,
  ordersSentAround,
  resolveBreaks
} from '../../db/orders/reconciliation.ts'
import {
  countCheck,
  lastPurchaseBefore,
  markReview,
  ownedContracts,
  purchasesBehind,
  takeDoubts
} from '../../db/orders/resolving.ts'
import { markUnsettled, unmarkUnsettled } from '../../db/orders/review.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { listUnowned, storeUnowned } from '../../db/postgres/lineage.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db, queue } = harness.services
const partner = await harness.makePartner()

/** An order in its second attempt, under way; and the first attempt's number. */
async function makeSecondAttempt() {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const options = { accountIds: [trader.accountId], sender: 'w', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 }
  const { claimed } = await claimOrders(db, options)
  const { id, attempt } = claimed[0] as { id: string; attempt: number }
  await db('orders').where({ id }).update({ phase: 'queued', sent_at: null, permit_until: null, sender: null })
  await claimOrders(db, { ...options, claimNo: 2 })
  const row = () => db('orders').where({ id }).first()
  assert.is((await row()).attempt, attempt + 1)
  const claimAgain = () => claimOrders(db, { ...options, claimNo: 3 })
  return { id, trader, first: attempt, row, claimAgain }
}

const receipt = (id: string, attempt: number) => ({
  id,
  attempt,
  brokerOrderId: String(Math.floor(Math.random() * 1e12)),
  transactionId: '1',
  buyPrice: '10',
  payout: '19.5',
  currency: 'USD',
  openedAt: Math.floor(Date.now() / 1000),
  expiryAt: null,
  hasFollowers: false
})

const fences = suite('what is written about an earlier attempt')

fences('opens nothing', async () => {
  const { id, first, row } = await makeSecondAttempt()
  assert.equal(await markOpen(db, [receipt(id, first)], 'w'), [])
  assert.is((await row()).phase, 'sending')
  assert.is((await markOpen(db, [receipt(id, first + 1)], 'w')).length, 1)
})

fences('reports no contract that differs, and keeps no other receipt from being written', async () => {
  const [late, next] = [await makeSecondAttempt(), await makeSecondAttempt()]
  const differing = {
    ...receipt(late.id, late.first),
    differs: { buyPrice: ['10.61 at most', '12'] as [string, string] }
  }
  const { orders } = await openOrders(db, queue, [differing, receipt(next.id, next.first + 1)], 'w')
  assert.equal(
    orders.map(({ id }) => id),
    [next.id]
  )
  assert.equal(await db('contract_breaks').where({ order_id: late.id }), [])
})

fences('opens nothing that has failed, or waits again, unless it is a late receipt of this attempt', async () => {
  for (const phase of ['failed', 'queued', 'unproven']) {
    const { id, first, row } = await makeSecondAttempt()
    await db('orders')
      .where({ id })
      .update({
        phase,
        error_code: phase === 'failed' ? 'BROKER_UPSTREAM' : null,
        sent_at: null,
        permit_until: null,
        sender: null
      })
    assert.equal(await markOpen(db, [receipt(id, first + 1)], 'w'), [])
    assert.equal(await markOpen(db, [{ ...receipt(id, first), isLate: true }], 'w'), [])
    if (phase === 'failed') {
      assert.equal(
        await markOpen(db, [{ ...receipt(id, first + 1), isLate: true }], 'w'),
        [],
        'a refusal that is final'
      )
      await db('orders').where({ id }).update({ retryable: true })
    }
    assert.is((await row()).phase, phase)
    // A repeat of the order may be for another application, dialect and mode by now.
    const boughtUnder = { appId: '4711', dialect: 'next', accountMode: 'REAL' } as const
    assert.is((await markOpen(db, [{ ...receipt(id, first + 1), isLate: true, boughtUnder }], 'w')).length, 1)
    const { phase: then, app_id: appId, dialect, account_mode: accountMode } = await row()
    assert.equal([then, { appId, dialect, accountMode }], ['open', boughtUnder])
    assert.equal(await markOpen(db, [{ ...receipt(id, first + 1), isLate: true }], 'w'), [])
  }
})

fences('fails nothing', async () => {
  const { id, first, row } = await makeSecondAttempt()
  const refusal = { id, code: 'INVALID_CONTRACT', message: 'no' } as const
  assert.equal(await markFailed(db, [{ ...refusal, attempt: first }]), [])
  assert.is((await row()).phase, 'sending')
  assert.is((await markFailed(db, [{ ...refusal, attempt: first + 1 }])).length, 1)
})

fences('sends nothing to review', async () => {
  const { id, first, row } = await makeSecondAttempt()
  assert.equal(await markReview(db, { id, attempt: first, evidence: [], message: 'unclear' }), [])
  assert.is((await row()).phase, 'sending')
  assert.is((await markReview(db, { id, attempt: first + 1, evidence: [], message: 'unclear' })).length, 1)
})

fences('counts no check', async () => {
  const { id, first, row } = await makeSecondAttempt()
  const check = { conclusive: true, pauseMs: 100, crashedMs: 100, reconcileAfterMs: 100 }
  await countCheck(db, { id, attempt: first }, check)
  assert.is((await row()).checks, 0)
  await countCheck(db, { id, attempt: first + 1 }, check)
  assert.is((await row()).checks, 1)
})

fences('commits no stake', async () => {
  const { id, first, row, claimAgain } = await makeSecondAttempt()
  const stake = { id, currency: 'EUR', stakeInAccount: '9.21', exchangeRate: '0.921' }
  assert.equal(await commitStakes(db, [{ ...stake, attempt: first }], 'w'), [])
  assert.equal(await commitStakes(db, [{ ...stake, attempt: first + 1 }], 'another'), [])
  assert.is((await row()).stake_in_account, null)
  assert.equal(await commitStakes(db, [{ ...stake, attempt: first + 1 }], 'w'), [id])
  // By the third its account may be in USD: a doubt would be searched for by what the stake came to before.
  await releaseUnsent(db, [{ id, attempt: first + 1, reason: 'not sent' }], 'w')
  await claimAgain()
  const { phase, stake_in_account: inAccount, exchange_rate: rate } = await row()
  assert.equal([phase, inAccount, rate], ['sending', null, null])
})

fences('notes no reset: what the second may still deliver is waited for', async () => {
  const { id, first, row } = await makeSecondAttempt()
  await markReset(db, [{ id, attempt: first }])
  assert.is((await row()).reset_at, null)
  await markReset(db, [{ id, attempt: first + 1 }])
  assert.is((await row()).reset_attempt, first + 1)
})

fences.run()

const claims = suite('a claim')

// Workers count their claims themselves, so that two of them have claims of one number.
claims('is given back by its own worker alone, and by its own number', async () => {
  const { id, first, row } = await makeSecondAttempt()
  const lost = (sender: string, claimNo: number) => releaseLostClaims(db, { sender, claimNos: [claimNo] })
  const isGivenBack = (orders: { id: string }[]) => orders.some(order => order.id === id)
  assert.not(isGivenBack(await lost('another', 2)))
  assert.not(isGivenBack(await lost('w', 3)))
  const unsent = { id, attempt: first + 1, reason: 'not sent' }
  assert.equal(await releaseUnsent(db, [unsent], 'another'), [])
  assert.is((await row()).phase, 'sending')
  assert.ok(isGivenBack(await lost('w', 2)))
  assert.is((await row()).phase, 'queued')
})

claims('that is out of time when it is given back has failed, and may be repeated', async () => {
  const { id, row } = await makeSecondAttempt()
  const over = new Date(Date.now() - 1000)
  await db('orders').where({ id }).update({ expires_at: over, permit_until: over })
  await releaseLostClaims(db, { sender: 'w', claimNos: [2] })
  const { phase, error_code: code, retryable } = await row()
  assert.equal([phase, code, retryable], ['failed', 'BROKER_UPSTREAM', true])
})

claims('of a copy whose follow was stopped fails it for good', async () => {
  const [leader, trader] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const { accountId, traderId, traderExternalId } = trader
  const id = `fol_${traderId.slice(4)}`
  const follow = { id, partner_id: partner.partnerId, leader_id: leader.traderId, status: 'STOPPED' }
  const terms = { risk_pct: '100', max_drawdown_pct: '50', base_balance: '1000' }
  await db('follows').insert({ ...follow, ...terms, trader_id: traderId, trader_external_id: traderExternalId })
  await db('orders').where({ account_id: accountId }).update({ follow_id: id })
  const options = { sender: 'w', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 }
  const { claimed, expired } = await claimOrders(db, { ...options, accountIds: [accountId] })
  assert.equal(claimed, [])
  assert.equal(
    expired.map(order => [order.phase, order.error_code, order.retryable]),
    [['failed', 'CONFLICT', false]]
  )
})

claims.run()

const doubts = suite('an order in doubt')

doubts('is checked by the worker of its account, and by any other where that one neglects it', async () => {
  const { id, trader, row } = await makeSecondAttempt()
  await renewLease(db, 'serving', 60_000)
  await serveAccounts(db, 'serving', [trader.accountId])
  const dueSince = (seconds: number) =>
    db.raw(
      `update orders set permit_until = now() - interval '2 minutes', resolve_at = now() - ? * interval '1 second' where id = ?`,
      [seconds, id]
    )
  const isTaken = async (worker: string, except: string[] = []) => {
    const options = { worker, everyMs: 1000, limit: 1000, except, crashedMs: 0, reconcileAfterMs: 0 }
    return (await takeDoubts(db, options)).some(doubt => doubt.id === id)
  }
  await dueSince(5)
  assert.not(await isTaken('another'))
  // Its worker has checked it for long: it must not put off the moment at which another one may.
  const { resolve_at: before } = await row()
  assert.not(await isTaken('serving', [id]))
  assert.equal((await row()).resolve_at, before)
  assert.ok(await isTaken('serving'))
  await dueSince(60)
  assert.ok(await isTaken('another'))
  await endLease(db, 'serving')
})

doubts('is decided by purchases before it, of its own application', async () => {
  const { id, trader, row } = await makeSecondAttempt()
  const order = await row()
  const purchase = async (minutes: number, changes: object) => {
    const brokerOrderId = randomUUID()
    await insertOrderRows(db, trader, { brokerOrderId })
    const at = new Date(order.queued_at.getTime() + minutes * 60_000)
    const times = { queued_at: at, opened_at: at, sent_at: new Date(at.getTime() + 5000) }
    await db('orders')
      .where({ broker_order_id: brokerOrderId })
      .update({ ...times, ...changes })
    return at.getTime() / 1000
  }
  const earlier = await purchase(-20, { app_id: 'another' })
  await purchase(20, { app_id: 'another' })
  const seen = { id, broker_account_id: order.broker_account_id, queued_at: order.queued_at }
  assert.is(await lastPurchaseBefore(db, seen), earlier)
  const of = (appId: string) => purchasesBehind(db, { partner_id: order.partner_id, app_id: appId })
  assert.is(await of('another'), 5)
  assert.is(await of('a third'), null)
})

doubts('keeps its account’s contracts for itself until it is decided, in review too', async () => {
  const { id, trader, first, row } = await makeSecondAttempt()
  const { accountId } = trader
  const doubtful = async () => [await inDoubt(db, accountId), (await ordersInDoubt(db, accountId)).map(each => each.id)]
  assert.equal(await doubtful(), [true, [id]])
  await markReview(db, { id, attempt: first + 1, evidence: [], message: 'unclear' })
  assert.equal(await doubtful(), [true, [id]])
  // A repeat is queued later than its order was created.
  const { broker_account_id: accountRowId } = await row()
  await db('orders')
    .where({ id })
    .update({ created_at: new Date(Date.now() - 3_600_000) })
  const [from, to] = [new Date(Date.now() - 60_000), new Date(Date.now() + 60_000)]
  assert.is((await ordersSentAround(db, { accountRowId, from, to })).length, 1)
})

doubts('is no contract of another order, nor one that the operator has dealt with', async () => {
  const { accountId } = await partner.makeTrader()
  const found = { kind: 'ORPHAN', accountId, partnerId: partner.partnerId, orderId: null, details: {} } as const
  for (const contractId of ['11', '12']) await insertBreak(db, { ...found, contractId })
  await resolveBreaks(db, { accountId, contractId: '12', resolution: "the trader's own" })
  assert.equal([...(await ownedContracts(db, accountId, ['11', '12', '13']))], ['12'])
})

doubts(
  'is given the price of its stake, in the currency of its account, where the operator adopts a contract without one',
  async () => {
    const { id, trader, first, row } = await makeSecondAttempt()
    const stake = { currency: 'EUR', stakeInAccount: '9.21', exchangeRate: '0.921' }
    await commitStakes(db, [{ ...stake, id, attempt: first + 1 }], 'w')
    await db('orders').where({ id }).update({ has_followers: true })
    const contractId = String(Math.floor(Math.random() * 1e12))
    const { accountId } = trader
    const found = {
      kind: 'ORPHAN',
      accountId,
      contractId,
      partnerId: partner.partnerId,
      orderId: null,
      details: {}
    } as const
    await insertBreak(db, found)
    const shown = {
      source: 'statement',
      transactionId: null,
      appId: null,
      payout: null,
      purchaseTime: null,
      shortcode: ''
    }
    const adopted = await adoptByHand(db, queue, await row(), { ...shown, contractId, buyPrice: null })
    assert.equal([adopted.phase, Number(adopted.buy_price)], ['open', 9.21])
    assert.equal(
      (await listBreaks(db, 1000)).filter(each => each.contractId === contractId),
      []
    )
    // Its copies would be bought far too late.
    assert.equal(await db('pgboss.job').where({ name: 'copy.fanout' }).whereRaw(`data->>'orderId' = ?`, [id]), [])
  }
)

doubts('may be of an application that its partner had, in any dialect, until a day before, or later', async () => {
  const other = await harness.makePartner()
  for (const [dialect, brokerAppId] of [
    ['v3', 'lately'],
    ['next', 'elsewhere']
  ]) {
    const details = { from: { dialect, brokerAppId } }
    await recordAudit(db, { actor: 'cli', action: 'partners.set-broker', target: other.partnerId, details })
  }
  const before = (hours: number) =>
    formerApplications(db, { partner_id: other.partnerId, dialect: 'v3' }, new Date(Date.now() + hours * 3_600_000))
  assert.equal(await before(23), { appIds: ['lately'], elsewhere: true })
  assert.equal(await before(25), { appIds: [], elsewhere: false })
})

doubts('is not held up again by contracts that the operator has seen as others’', async () => {
  const { id, trader, row } = await makeSecondAttempt()
  const { accountId } = trader
  const { broker_account_id: accountRowId } = await row()
  await storeUnowned(db, { accountRowId, accountId, generation: 0 }, [{ contractId: '21' }, { contractId: '22' }])
  await db('orders')
    .where({ id })
    .update({ evidence: JSON.stringify([{ contractId: '21' }]) })
  const longAgo = { crashedMs: -60_000, reconcileAfterMs: 0 }
  assert.is((await declareAbsent(db, await row(), longAgo)).phase, 'failed')
  assert.equal(await listUnowned(db, accountId), [{ contractId: '22' }])
})

doubts.run()

const differences = suite('what differs of a contract')

differences('is each reported once, and another one again although the first was decided', async () => {
  const { accountId } = await partner.makeTrader()
  const about = { kind: 'MISMATCH', accountId, contractId: '31', partnerId: partner.partnerId, orderId: null } as const
  const [terms, amounts] = [{ terms: ['CALL', 'PUT'] }, { pnl: ['9.53', '-10'] }]
  const report = (details: object) => insertBreak(db, { ...about, details })
  assert.equal([await report(terms), await report(terms)], [true, false])
  await resolveBreaks(db, { accountId, contractId: '31', resolution: 'seen' })
  assert.is(await report(terms), false)
  const open = async () => (await listBreaks(db, 1000)).filter(each => each.accountId === accountId)
  assert.equal(await open(), [])
  assert.equal([await report(amounts), await report(amounts)], [true, false])
  assert.equal(
    (await open()).map(({ details, resolution }) => [details, resolution]),
    [[{ ...terms, ...amounts }, null]]
  )
  // The other way round it is another one: ours was corrected, and then the broker's.
  await resolveBreaks(db, { accountId, contractId: '31', resolution: 'seen' })
  const corrected = { pnl: ['-10', '9.53'] }
  assert.equal([await report(corrected), await report(corrected)], [true, false])
})

differences.run()

const ending = suite('the end of a contract')

ending('is written once, to an order that is open', async () => {
  const { id, first, row } = await makeSecondAttempt()
  const settlement = (pnl: string) => ({
    id,
    pnl,
    entryPrice: null,
    exitPrice: null,
    commission: null,
    markup: null,
    closedAt: Math.floor(Date.now() / 1000),
    copied: false,
    early: false
  })
  assert.equal(await closeOrders(db, queue, [settlement('9.5')]), [])
  assert.is((await row()).phase, 'sending')
  await markOpen(db, [receipt(id, first + 1)], 'w')
  assert.is((await closeOrders(db, queue, [settlement('9.5')])).length, 1)
  assert.equal(await closeOrders(db, queue, [settlement('-10')]), [])
  assert.is(Number((await row()).pnl), 9.5)
})

ending('keeps what was charged by an earlier state, where the last one does not show it', async () => {
  const { id, first, row } = await makeSecondAttempt()
  await markOpen(db, [receipt(id, first + 1)], 'w')
  const shown = { id, payout: null, currentValue: '9', unrealizedPnl: '-1' }
  const end = new Date(Date.now() + 60_000)
  await markValues(db, [{ ...shown, commission: '0.11', markup: '0.22', expiryAt: Math.floor(end.getTime() / 1000) }])
  await markValues(db, [{ ...shown, commission: null, markup: null, expiryAt: null }])
  const { expiry_at: expiryAt, ...open } = await row()
  assert.equal([Number(open.commission), Number(open.markup), expiryAt > new Date()], [0.11, 0.22, true])
  const facts = { pnl: '1', entryPrice: null, exitPrice: null, commission: null, markup: null, copied: false }
  await closeOrders(db, queue, [{ id, ...facts, closedAt: null }])
  const closed = await row()
  assert.equal([closed.phase, Number(closed.commission), Number(closed.markup)], ['closed', 0.11, 0.22])
})

ending('and its limits are written by the worker that leases the contract', async () => {
  const { id, first, row } = await makeSecondAttempt()
  await markOpen(db, [receipt(id, first + 1)], 'w')
  const limits = { id, stopLoss: '5', takeProfit: null }
  assert.is(await storeLimits(db, queue, { ...limits, worker: 'another' }), undefined)
  assert.is((await row()).stop_loss, null)
  assert.equal(await storeLimits(db, queue, { ...limits, worker: 'w' }), { changesCopies: false })
})

ending('that the broker takes back leaves the operator’s decision on it as it is', async () => {
  for (const decided of [true, false]) {
    const { id, trader, first, row } = await makeSecondAttempt()
    await markOpen(db, [receipt(id, first + 1)], 'w')
    await markUnsettled(db, { id, why: ['it paid more than it can'] })
    const found = (await listBreaks(db, 1000)).find(({ orderId }) => orderId === id)
    const findingId = found?.findingId as number
    if (decided) await decideBreak(db, { findingId, resolution: 'a fault of the broker' })
    await unmarkUnsettled(db, id)
    assert.is((await row()).error_code, null)
    const { resolution, account_id: accountId } = await db('contract_breaks').where({ id: findingId }).first()
    assert.is(resolution, decided ? 'a fault of the broker' : 'withdrawn: the contract is still open')
    assert.is(accountId, trader.accountId)
  }
})

ending('is not in the future where the broker reports a purchase that is', async () => {
  for (const [ahead, kept] of [
    [300, true],
    [366 * 86_400, false]
  ] as const) {
    const { id, first, row } = await makeSecondAttempt()
    const openedAt = Math.floor(Date.now() / 1000) + ahead
    await markOpen(db, [{ ...receipt(id, first + 1), openedAt }], 'w')
    const { opened_at: opened } = await row()
    assert.is(opened.getTime() === openedAt * 1000, kept)
    assert.is(opened.getTime() < Date.now() + 60_000, !kept)
    const facts = {
      pnl: '1',
      entryPrice: null,
      exitPrice: null,
      commission: null,
      markup: null,
      copied: false,
      early: false
    }
    assert.is((await closeOrders(db, queue, [{ id, ...facts, closedAt: openedAt + 5 }])).length, 1)
    assert.ok((await row()).closed_at.getTime() < Date.now() + 600_000)
  }
})

ending.after(closeAll)
ending.run()
