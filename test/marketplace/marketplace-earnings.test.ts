// Earnings and payouts over HTTP: what is available, that more cannot be requested, and whose it is.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { refundPurchase } from '../../api/admin.ts'
import { getCreatorEarnings, listPayouts, requestPayout } from '../../api/marketplace/earnings.ts'
import { purchaseBot } from '../../api/marketplace/sales.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { purchaseBot as buy } from '../../db/marketplace/sales.ts'
import { approvePayout, markPayoutPaid, rejectPayout, requestPayout as requestOf } from '../../db/money/payouts.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { books, draft, fund, makeBot } from '../support/marketplace-makers.ts'
import { readBeside } from '../support/read-beside.ts'

const harness = await openHarness()
const { db } = harness.services
const destinationAddress = 'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE'
const request = (partner: TestPartner, amountUsd: number, headers: Record<string, string> = {}) =>
  partner.call(requestPayout, { body: { amountUsd, destinationAddress }, headers })

/** A creator whose bot was sold once at this price, which leaves it 80 %. */
async function creatorOf(price: number, headers: Record<string, string> = {}, creator?: TestPartner) {
  const maker = creator ?? (await harness.makePartner())
  const botId = await makeBot(maker, { oneTimePriceUsd: price }, headers)
  const buyer = await harness.makePartner()
  await fund(harness, buyer, String(price))
  const { body } = await buyer.call(purchaseBot, { params: { id: botId } })
  return { creator: maker, botId, purchaseId: body.purchaseId as string }
}

const session = async (partner: TestPartner) => {
  const email = `t${Math.random().toString(36).slice(2)}@example.com`
  const { body } = await partner.call(signUpTrader, { body: { email, password: 'correct horse battery' } })
  return { 'x-trader-session': body.sessionToken as string }
}

const requesting = suite('POST /v1/marketplace/creator/payouts')

requesting('refuses amounts below or finer than a cent, and addresses not of 34 characters', async () => {
  const { creator } = await creatorOf(100)
  for (const amountUsd of [0, 0.001, -5, 10.005, 1e300]) assert.is((await request(creator, amountUsd)).status, 400)
  for (const address of ['', 'T'.repeat(33), 'T'.repeat(35)]) {
    const body = { amountUsd: 1, destinationAddress: address }
    assert.is((await creator.call(requestPayout, { body })).status, 400)
  }
})

requesting('refuses more than is available, and holds nothing', async () => {
  const { creator } = await creatorOf(100)
  const { status, body } = await request(creator, 80.01)
  assert.is(status, 409)
  assert.is(body.error, 'CONFLICT')
  assert.equal(await books(db, creator), ['0.00', '80.00', '0.00'])
  assert.is((await request(await harness.makePartner(), 0.01)).status, 409)
})

requesting('holds the amount', async () => {
  const { creator } = await creatorOf(100)
  const { status, body } = await request(creator, 30.29)
  assert.is(status, 200)
  assert.is(body.status, 'REQUESTED')
  assert.is(body.amountUsd, 30.29)
  assert.is(body.destinationAddress, destinationAddress)
  assert.equal([body.decidedAt, body.paidAt, body.reference, body.reason], [null, null, null, null])
  assert.equal(await books(db, creator), ['0.00', '49.71', '30.29'])
})

requesting('twice at once for more than both together grants one', async () => {
  const { creator } = await creatorOf(100)
  const responses = await Promise.all([request(creator, 50), request(creator, 50)])
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409])
  assert.equal(await books(db, creator), ['0.00', '30.00', '50.00'])
})

requesting('lets a trader request what its own bots earned, and no more', async () => {
  const { creator } = await creatorOf(100)
  const [ann, bob] = [await session(creator), await session(creator)]
  await creatorOf(50, ann, creator)
  assert.is((await request(creator, 0.01, bob)).status, 409)
  assert.is((await request(creator, 40.01, ann)).status, 409)
  const responses = await Promise.all([request(creator, 25, ann), request(creator, 25, ann)])
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409])
  assert.is((await creator.call(listPayouts, { headers: ann })).body.total, 1)
  assert.is((await creator.call(listPayouts, { headers: bob })).body.total, 0)
  assert.is((await creator.call(listPayouts)).body.total, 1)
  const { body: own } = await creator.call(getCreatorEarnings, { headers: ann })
  assert.equal([own.availableUsd, own.heldUsd, own.lifetimeUsd, own.bots.length], [15, 25, 40, 1])
  const { body: all } = await creator.call(getCreatorEarnings)
  assert.equal([all.availableUsd, all.heldUsd, all.lifetimeUsd, all.bots.length], [95, 25, 120, 2])
  // What is approved, and what was paid, cannot be requested again.
  const { payoutId } = responses.find(({ status }) => status === 200)?.body ?? {}
  for (const step of ['approve', 'pay']) {
    await db.transaction(trx =>
      step === 'approve' ? approvePayout(trx, payoutId) : markPayoutPaid(trx, payoutId, 'the payment')
    )
    assert.is((await request(creator, 15.01, ann)).status, 409)
  }
  assert.is((await request(creator, 15, ann)).status, 200)
})

requesting("tells a trader nothing of the partner's earnings", async () => {
  const { creator } = await creatorOf(100)
  const ann = await session(creator)
  await creatorOf(50, ann, creator)
  const refusal = async (amountUsd: number) => {
    const { status, body } = await request(creator, amountUsd, ann)
    return [status, body.message]
  }
  assert.equal(await refusal(120.01), [409, 'That is 80.01 USD more than is available.'])
  // The partner pays itself what its trader earned, too.
  assert.is((await request(creator, 100)).status, 200)
  assert.equal(await refusal(40.01), [409, 'That is 0.01 USD more than is available.'])
  assert.equal(await refusal(40), [409, 'The earnings of the partner do not cover that at present.'])
  assert.is((await request(creator, 20, ann)).status, 200)
  assert.equal(await books(db, creator), ['0.00', '0.00', '120.00'])
})

const earnings = suite('GET /v1/marketplace/creator/earnings')

earnings('return zeros for a new creator', async () => {
  assert.equal((await (await harness.makePartner()).call(getCreatorEarnings)).body, {
    availableUsd: 0,
    heldUsd: 0,
    lifetimeUsd: 0,
    paidOutUsd: 0,
    feePct: 20,
    bots: []
  })
})

earnings('add up through request, approval, payment and rejection', async () => {
  const { creator, botId } = await creatorOf(100)
  const [paid, rejected] = [(await request(creator, 30)).body.payoutId, (await request(creator, 20)).body.payoutId]
  await db.transaction(trx => approvePayout(trx, paid))
  await db.transaction(trx => markPayoutPaid(trx, paid, 'tx 1'))
  await db.transaction(trx => rejectPayout(trx, rejected, 'wrong address'))
  await request(creator, 10)
  assert.equal((await creator.call(getCreatorEarnings)).body, {
    availableUsd: 40,
    heldUsd: 10,
    lifetimeUsd: 80,
    paidOutUsd: 30,
    feePct: 20,
    bots: [{ botId, name: draft.name, sales: 1, subscribers: 0, grossUsd: 100, netUsd: 80 }]
  })
  const { body } = await creator.call(listPayouts)
  assert.equal(
    body.data.map((payout: { status: string; reference: string; reason: string }) => [
      payout.status,
      payout.reference,
      payout.reason
    ]),
    [
      ['REQUESTED', null, null],
      ['REJECTED', null, 'wrong address'],
      ['PAID', 'tx 1', null]
    ]
  )
})

earnings('go below zero by a refund, and are repaid by later sales', async () => {
  const { creator, purchaseId } = await creatorOf(100)
  await request(creator, 80)
  const admin = await harness.makePartner({ scopes: ['admin:write'] })
  await admin.call(refundPurchase, { params: { id: purchaseId }, body: { reason: 'fraud' } })
  assert.is((await creator.call(getCreatorEarnings)).body.availableUsd, -80)
  assert.is((await request(creator, 0.01)).status, 409)
  await creatorOf(101, {}, creator)
  assert.is((await creator.call(getCreatorEarnings)).body.availableUsd, 0.8)
})

earnings('are those of the bots beside them, also while one is sold', async () => {
  const { creator, botId } = await creatorOf(100)
  const buyer = await harness.makePartner()
  await fund(harness, buyer, '100')
  const party = { partnerId: buyer.partnerId, partyId: buyer.partnerId, test: false }
  const { body } = await readBeside(db, 'marketplace_bots', {
    read: () => creator.call(getCreatorEarnings),
    change: trx => buy(trx, party, { botId, feePct: '20' })
  })
  assert.is(body.availableUsd, body.bots[0].netUsd)
})

const list = suite('GET /v1/marketplace/creator/payouts')

list('has a total that is of its page, also while another is requested', async () => {
  const { creator } = await creatorOf(100)
  const { partnerId } = creator
  const { body } = await readBeside(db, 'traders', {
    read: () => creator.call(listPayouts),
    change: trx => requestOf(trx, { partnerId, amountUsd: '1', destinationAddress })
  })
  assert.is(body.data.length, body.total)
})

list('is paged newest first, and shows no party the payouts of others', async () => {
  const { creator } = await creatorOf(100)
  for (const amountUsd of [1, 2, 3]) await request(creator, amountUsd)
  const page = async (number: number) => (await creator.call(listPayouts, { query: { page: number, limit: 2 } })).body
  const amounts = ({ data }: { data: { amountUsd: number }[] }) => data.map(({ amountUsd }) => amountUsd)
  assert.equal([amounts(await page(1)), amounts(await page(2)), amounts(await page(3))], [[3, 2], [1], []])
  assert.is((await page(1)).total, 3)
  assert.is((await (await harness.makePartner()).call(listPayouts)).body.total, 0)
})

list('refuses pages and limits out of bounds', async () => {
  const partner = await harness.makePartner()
  const wrong: Record<string, string | number>[] = [{ page: 0 }, { limit: 0 }, { limit: 101 }, { page: 'x' }]
  for (const query of wrong) assert.is((await partner.call(listPayouts, { query })).status, 400)
})

list.after(closeAll)
requesting.run()
earnings.run()
list.run()
