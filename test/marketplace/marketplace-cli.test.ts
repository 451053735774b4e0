// operator purchases and payouts, as real processes.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCreatorBot, publishBot } from '../../api/marketplace/creator.ts'
import { getCreatorEarnings, requestPayout } from '../../api/marketplace/earnings.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { listAudit } from '../../db/platform/audit.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { draft, fund, makeBot } from '../support/marketplace-makers.ts'
import { operator as run } from '../support/operator.ts'

const harness = await openHarness()
const { db } = harness.services
const destinationAddress = 'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE'

const operator = async (...args: string[]) => {
  const { exitCode: exit, stdout, stderr } = await run(harness.env, ...args)
  return { exit, said: stdout + stderr }
}
async function documentOf(...args: string[]) {
  const ran = await run(harness.env, ...args, '--json', '--yes')
  if (ran.exitCode !== 0) throw new Error(ran.stderr)
  return ran.json
}

/** A creator that earned 80 USD by one sale. */
async function sale() {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { oneTimePriceUsd: 100 })
  await fund(harness, buyer, '100')
  const { body } = await buyer.call(purchaseBot, { params: { id: botId } })
  return { creator, buyer, botId, purchaseId: body.purchaseId as string }
}

const purchases = suite('operator purchases')

purchases('refund needs a reason, a purchase, and confirmation', async () => {
  const { creator, buyer, purchaseId } = await sale()
  const params = { id: await makeBot(creator, { monthlyPriceUsd: 10 }) }
  await fund(harness, buyer, '10')
  const { body } = await buyer.call(subscribeToBot, { params })
  const [bare, short, unknown, unasked, ofMonth] = await Promise.all([
    operator('purchases', 'refund', purchaseId),
    operator('purchases', 'refund', purchaseId, '--reason', 'no'),
    operator('purchases', 'refund', 'pur_unknown', '--reason', 'fraud', '--yes'),
    operator('purchases', 'refund', purchaseId, '--reason', 'fraud'),
    operator('purchases', 'refund', body.subscriptionId, '--reason', 'fraud')
  ])
  assert.equal(
    [bare, short, unknown, unasked, ofMonth].map(({ exit }) => exit),
    [2, 2, 1, 1, 1]
  )
  assert.match(unknown.said, 'NOT_FOUND')
  assert.match(unasked.said, '--yes')
  assert.match(ofMonth.said, /Pay 10 USD, the last month of .*--yes/s)
})

purchases('refund pays back once, and list shows it', async () => {
  const { buyer, creator, purchaseId, botId } = await sale()
  const refunded = await documentOf('purchases', 'refund', purchaseId, '--reason', 'does not work')
  assert.equal([refunded.purchaseId, refunded.status, refunded.priceUsd], [purchaseId, 'REFUNDED', 100])
  const [again, { data }, unknown] = await Promise.all([
    operator('purchases', 'refund', purchaseId, '--reason', 'does not work', '--yes'),
    documentOf('purchases', 'list', '--partner', buyer.partnerId),
    operator('purchases', 'list', '--partner', 'ptn_unknown')
  ])
  assert.is(again.exit, 1)
  assert.match(again.said, /^CONFLICT: .*REFUNDED/)
  assert.is((await creator.call(getCreatorEarnings)).body.availableUsd, 0)
  assert.equal(data, [{ ...refunded, partnerId: buyer.partnerId, partyId: buyer.partnerId, botId }])
  assert.is(unknown.exit, 1)
  const [line] = (await listAudit(db, { limit: 1, target: purchaseId })).data
  assert.equal([line?.action, line?.target], ['purchases.refund', purchaseId])
})

const payouts = suite('operator payouts')

async function requested(amountUsd: number, to = destinationAddress) {
  const { creator } = await sale()
  const { body } = await creator.call(requestPayout, { body: { amountUsd, destinationAddress: to } })
  return { creator, payoutId: body.payoutId as string }
}

payouts('show amount and address in full before anything is agreed to', async () => {
  const { payoutId } = await requested(50)
  const responses = await Promise.all([
    operator('payouts', 'approve', payoutId),
    operator('payouts', 'paid', payoutId, '--reference', 'tx'),
    operator('payouts', 'reject', payoutId, '--reason', 'unknown')
  ])
  for (const { exit, said } of responses) {
    assert.is(exit, 1)
    assert.match(said, '50 USD')
    assert.match(said, destinationAddress)
  }
})

payouts('are paid only after they were approved, each step once when two take it', async () => {
  const { creator, payoutId } = await requested(50)
  const early = await operator('payouts', 'paid', payoutId, '--reference', 'tx 1', '--yes')
  assert.is(early.exit, 1)
  assert.match(early.said, /REQUESTED.*PAID/)
  for (const step of [
    ['approve', payoutId],
    ['paid', payoutId, '--reference', 'tx 1']
  ]) {
    const twice = await Promise.all([1, 2].map(() => operator('payouts', ...step, '--yes')))
    assert.equal(twice.map(({ exit }) => exit).sort(), [0, 1])
  }
  const { body } = await creator.call(getCreatorEarnings)
  assert.equal([body.availableUsd, body.heldUsd, body.paidOutUsd], [30, 0, 50])
  const actions = (await listAudit(db, { limit: 10, target: payoutId })).data.map(({ action }) => action)
  assert.equal(actions, ['payouts.paid', 'payouts.approve'])
})

payouts('to an address whose checksum is wrong are marked, and approved with a warning', async () => {
  const { payoutId } = await requested(50, '!'.repeat(34))
  const { data } = await documentOf('payouts', 'list', '--status', 'REQUESTED')
  assert.is(data.find((each: { payoutId: string }) => each.payoutId === payoutId).addressCheck, 'FAILED')
  const unasked = await operator('payouts', 'approve', payoutId)
  assert.is(unasked.exit, 1, 'nobody could be asked')
  assert.match(unasked.said, /checksum of the address is wrong.* repeat with --yes/s)
  const approved = await documentOf('payouts', 'approve', payoutId)
  assert.equal([approved.status, approved.addressCheck], ['APPROVED', 'FAILED'])
  assert.match(approved.warning, 'checksum')
  const detailsOf = async (target: string) =>
    (await listAudit(db, { limit: 1, target })).data[0]?.details as { addressCheck: string; reason: string | null }
  const { addressCheck, reason } = await detailsOf(payoutId)
  assert.equal([addressCheck, reason], ['FAILED', null])
  const { payoutId: explained } = await requested(50, '!'.repeat(34))
  await documentOf('payouts', 'approve', explained, '--reason', 'confirmed by phone')
  assert.is((await detailsOf(explained)).reason, 'confirmed by phone')
})

payouts('rejected are available again, and listed by status', async () => {
  const { creator, payoutId } = await requested(50)
  const rejected = await documentOf('payouts', 'reject', payoutId, '--reason', 'address unknown')
  assert.equal([rejected.status, rejected.reason], ['REJECTED', 'address unknown'])
  assert.is((await creator.call(getCreatorEarnings)).body.availableUsd, 80)
  const [{ data }, wrong] = await Promise.all([
    documentOf('payouts', 'list', '--status', 'REJECTED'),
    operator('payouts', 'list', '--status', 'LOST')
  ])
  assert.equal(data[0], { ...rejected, partnerId: creator.partnerId })
  const [all, newest] = [await documentOf('payouts', 'list'), await documentOf('payouts', 'list', '--limit', '1')]
  assert.equal([newest.data.length, newest.total], [1, all.data.length], 'a list that is not whole says so')
  assert.is(wrong.exit, 2)
})

payouts('name the trader who requested them, and warn where refunds have taken the earnings below zero', async () => {
  const creator = await harness.makePartner()
  const buyer = await harness.makePartner()
  const trader = await creator.makeTrader({ externalId: `maker-${randomUUID()}` })
  const signedUp = { email: `${randomUUID()}@example.com`, password: 'rather-Long-4711-password' }
  const { body: session } = await creator.call(signUpTrader, { body: signedUp })
  const headers = { 'x-trader-session': session.sessionToken }
  const { body: made } = await creator.call(createCreatorBot, { body: { ...draft, oneTimePriceUsd: 100 }, headers })
  const params = { id: made.botId }
  assert.is((await creator.call(publishBot, { params, headers })).status, 200)
  await fund(harness, buyer, '100')
  const { body: bought } = await buyer.call(purchaseBot, { params })
  const payoutRequest = await creator.call(requestPayout, { headers, body: { amountUsd: 80, destinationAddress } })
  assert.is(payoutRequest.status, 200, JSON.stringify(payoutRequest.body))
  const { payoutId, traderExternalId } = payoutRequest.body
  assert.type(traderExternalId, 'string')
  assert.is.not(traderExternalId, trader.traderExternalId)
  const { data } = await documentOf('payouts', 'list', '--status', 'REQUESTED')
  const listed = data.find((each: { payoutId: string }) => each.payoutId === payoutId)
  assert.is(listed.traderExternalId, traderExternalId)
  assert.match((await operator('payouts', 'approve', payoutId)).said, `requested by ${traderExternalId}`)
  const { warning: none } = await documentOf('payouts', 'approve', payoutId)
  assert.is(none, undefined)
  await documentOf('purchases', 'refund', bought.purchaseId, '--reason', 'does not work')
  const paid = await documentOf('payouts', 'paid', payoutId, '--reference', 'tx 2')
  assert.match(paid.warning, /-80(\.00)? USD/)
})

payouts.after(closeAll)
purchases.run()
payouts.run()
