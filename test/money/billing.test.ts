// Plan fees, against real PostgreSQL: what a check and a top-up do, when periods end, and that
// each period is charged once whatever runs at once. Real processes being killed: billing-killed.test.ts.
import fc from 'fast-check'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { endOfPeriod, laterAnchor, standingOf } from '../../db/money/billing.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { balanceOf, move, transfer } from '../../db/money/ledger.ts'
import { getWallet } from '../../db/money/wallets.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { previewPlan, setPlan } from '../../db/partners/plans.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import type { Plan } from '../../schemas/partners.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { billingMakers, refusalOf } from '../support/money-makers.ts'

const { services, makePartner } = await openHarness()
const { db } = services
const prices = services.config.planPrices
const DAY_MS = 86_400_000

const check = (now?: Date) => checkBilling(db, { now, prices, feePct: '20' })
const later = (days: number) => new Date(Date.now() + days * DAY_MS)

const { pay, newPartner, newPartners } = billingMakers(db, prices)

async function fees(partnerId: string): Promise<string[]> {
  const found = (await db('ledger_transfers').whereLike('reference', `fee:${partnerId}:%`).orderBy('reference')) as {
    reference: string
  }[]
  return found.map(({ reference }) => reference.slice(`fee:${partnerId}:`.length))
}

/** Puts a partner's trial end, and with it the anchor of its periods, at an instant. */
async function trialEnds(partnerId: string, at: string): Promise<void> {
  await db('partners').where({ id: partnerId }).update({ period_start: at, period_end: at, billing_anchor: at })
}

const checking = suite('billing check')

checking('charges nothing during the trial', async () => {
  const partner = await newPartner({ trialDays: 30, balance: '500' })
  await check(later(29.9))
  assert.is(await balanceOf(db, `wallet:${partner}`), '500.00')
  const { nextFeeAt, feeUsd } = await getWallet(db, partner, prices)
  assert.is(feeUsd, '199.00')
  assert.ok(Math.abs(nextFeeAt.getTime() - later(30).getTime()) < 60_000)
})

checking('charges the fee when the trial ends, and moves on by a month', async () => {
  const partner = await newPartner({ trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-03-10T10:00:00Z')
  const counts = await check(new Date('2026-03-10T10:00:00Z'))
  assert.equal(counts.charged >= 1 && counts.deactivated, 0)
  assert.is(await balanceOf(db, `wallet:${partner}`), '301.00')
  const { nextFeeAt } = await getWallet(db, partner, prices)
  assert.is(nextFeeAt.toISOString(), '2026-04-10T10:00:00.000Z')
  await check(new Date('2026-04-10T09:59:59.999Z'))
  assert.equal(await fees(partner), ['2026-03-10T10:00:00.000Z'])
})

checking('charges at once where there is no trial, and never again within the period', async () => {
  await check()
  const partner = await newPartner({ balance: '200' })
  assert.equal(await check(), { charged: 1, activated: 0, deactivated: 0, renewed: 0 })
  assert.equal(await check(), { charged: 0, activated: 0, deactivated: 0, renewed: 0 })
  assert.is(await balanceOf(db, `wallet:${partner}`), '1.00')
  assert.is((await fees(partner)).length, 1)
})

checking('makes the plan inactive when the wallet cannot pay, to the cent, and takes nothing', async () => {
  await check()
  const poor = await newPartner({ balance: '198.99' })
  const just = await newPartner({ balance: '199' })
  assert.equal(await check(), { charged: 1, activated: 0, deactivated: 1, renewed: 0 })
  assert.is(await balanceOf(db, `wallet:${poor}`), '198.99')
  assert.is(await balanceOf(db, `wallet:${just}`), '0.00')
  assert.equal(await check(), { charged: 0, activated: 0, deactivated: 0, renewed: 0 })
})

checking('keeps the day of the month: 31 January, 28 February, 31 March', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '1000' })
  await trialEnds(partner, '2027-01-31T23:30:00Z')
  for (const now of ['2027-01-31T23:30:00Z', '2027-03-01T00:00:00Z', '2027-04-01T00:00:00Z', '2027-05-01T00:00:00Z'])
    await check(new Date(now))
  assert.equal(await fees(partner), [
    '2027-01-31T23:30:00.000Z',
    '2027-02-28T23:30:00.000Z',
    '2027-03-31T23:30:00.000Z',
    '2027-04-30T23:30:00.000Z'
  ])
})

checking('charges each period that went by in service when checks were missed, until the wallet is empty', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '100' })
  await trialEnds(partner, '2026-01-15T00:00:00Z')
  await check(new Date('2026-05-01T00:00:00Z'))
  assert.equal(await fees(partner), ['2026-01-15T00:00:00.000Z', '2026-02-15T00:00:00.000Z'])
  assert.is((await standingOf(db, partner, prices)).planActive, false)
})

const changePlan = (partnerId: string, plan: Plan, now?: string, expectedUsd?: string) =>
  db.transaction(trx => setPlan(trx, { partnerId, plan, prices, now: now ? new Date(now) : undefined, expectedUsd }))

checking('charges an upgrade for the rest of the period at once, and its price from the next one', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '2000' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  const terms = { partnerId: partner, plan: 'SCALE', prices, now: new Date('2026-04-25T00:00:00Z') } as const
  const preview = await previewPlan(db, terms)
  assert.equal([preview.takesEffect, preview.chargeUsd], ['NOW', '375.00'], 'half of 30 days of 750 USD')
  assert.is(await balanceOf(db, `wallet:${partner}`), '1951.00', 'a preview charges nothing')
  const { change } = await changePlan(partner, 'SCALE', '2026-04-25T00:00:00Z', '375.00')
  assert.is(change.chargeUsd, '375.00')
  assert.is(await balanceOf(db, `wallet:${partner}`), '1576.00')
  await changePlan(partner, 'SCALE', '2026-04-26T00:00:00Z')
  await check(new Date('2026-05-10T00:00:00Z'))
  assert.is(await balanceOf(db, `wallet:${partner}`), '777.00')
})

checking(
  'charges an upgrade after a suspension for the share of the month that is left, not of the longer period',
  async () => {
    const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '2000' })
    await trialEnds(partner, '2026-04-10T00:00:00Z')
    await check(new Date('2026-04-10T00:00:00Z'))
    await suspendPartner(db, partner, 'a reason', new Date('2026-04-15T00:00:00Z'))
    await db.transaction(trx => resumePartner(trx, partner, new Date('2026-06-15T00:00:00Z')))
    const { change } = await changePlan(partner, 'SCALE', '2026-06-25T00:00:00Z')
    assert.is(change.chargeUsd, '375.00', 'half of 30 days of 750 USD')
  }
)

checking('refuses an upgrade that the wallet cannot pay, or that costs something else than was confirmed', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '100' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  assert.is((await refusalOf(changePlan(partner, 'SCALE', '2026-04-25T00:00:00Z'))).code, 'WALLET_INSUFFICIENT')
  const other = changePlan(partner, 'PRO', '2026-04-26T00:00:00Z', '75.00')
  assert.is((await refusalOf(other)).code, 'CONFLICT')
  // An hour of 150 USD in 30 days is 0.2083 USD, two minutes are 0.0069.
  for (const [now, chargeUsd] of [
    ['2026-05-09T23:00:00Z', '0.21'],
    ['2026-05-09T23:58:00Z', '0.01']
  ] as const)
    assert.is(
      (await previewPlan(db, { partnerId: partner, plan: 'PRO', prices, now: new Date(now) })).chargeUsd,
      chargeUsd
    )
  assert.is(await balanceOf(db, `wallet:${partner}`), '51.00')
  assert.is((await getPartner(db, partner)).plan, 'LAUNCH')
})

checking('lets a downgrade wait for the end of the period that is paid', async () => {
  const partner = await newPartner({ plan: 'PRO', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  const { change } = await changePlan(partner, 'LAUNCH', '2026-04-11T00:00:00Z')
  assert.equal([change.takesEffect, change.chargeUsd], ['AT_PERIOD_END', '0.00'])
  const waiting = await getPartner(db, partner)
  assert.equal([waiting.plan, waiting.nextPlan], ['PRO', 'LAUNCH'])
  assert.is((await getWallet(db, partner, prices)).feeUsd, '49.00')
  await check(new Date('2026-05-10T00:00:00Z'))
  assert.is(await balanceOf(db, `wallet:${partner}`), '252.00')
  const after = await getPartner(db, partner)
  assert.equal([after.plan, after.nextPlan], ['LAUNCH', null])
})

checking('takes a waiting downgrade back when the plan of now is set again', async () => {
  const partner = await newPartner({ plan: 'PRO', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  await changePlan(partner, 'LAUNCH', '2026-04-11T00:00:00Z')
  await changePlan(partner, 'PRO', '2026-04-12T00:00:00Z')
  await check(new Date('2026-05-10T00:00:00Z'))
  assert.is(await balanceOf(db, `wallet:${partner}`), '102.00')
})

checking('charges no plan change in a trial', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  const { change } = await changePlan(partner, 'PRO')
  assert.equal([change.takesEffect, change.chargeUsd], ['NOW', '0.00'])
  assert.is(await balanceOf(db, `wallet:${partner}`), '500.00')
})

checking(
  'charges no plan change in a trial of a plan that is free, whatever fraction of a millisecond it began in',
  async () => {
    const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
    const began = '2026-04-10T00:00:00.0006Z'
    await db('partners').where({ id: partner }).update({ created_at: began, period_start: began })
    const free = { ...prices, LAUNCH: '0' }
    const terms = { partnerId: partner, plan: 'PRO', prices: free } as const
    assert.is((await previewPlan(db, terms)).chargeUsd, '0.00')
  }
)

checking('charges each upgrade in a period that began with a plan that is free', async () => {
  const free = { ...prices, LAUNCH: '0' }
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await db('partners').where({ id: partner }).update({ created_at: '2026-03-11T00:00:00Z' })
  await checkBilling(db, { now: new Date('2026-04-10T00:00:00Z'), prices: free, feePct: '20' })
  const change = (plan: Plan, now: string) =>
    db.transaction(trx => setPlan(trx, { partnerId: partner, plan, prices: free, now: new Date(now) }))
  assert.is((await change('PRO', '2026-04-25T00:00:00Z')).change.chargeUsd, '99.50', 'half of 199 USD')
  assert.is((await change('SCALE', '2026-04-30T00:00:00Z')).change.chargeUsd, '200.00', 'a third of 600 USD')
  assert.is((await change('LAUNCH', '2026-05-01T00:00:00Z')).change.takesEffect, 'AT_PERIOD_END')
  assert.is(await balanceOf(db, `wallet:${partner}`), '200.50')
})

checking(
  'charges an upgrade from a plan that is free also where a suspension has moved the day of its periods',
  async () => {
    const free = { ...prices, LAUNCH: '0' }
    const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
    await trialEnds(partner, '2026-04-10T00:00:00Z')
    await db('partners').where({ id: partner }).update({ created_at: '2026-03-11T00:00:00Z' })
    await checkBilling(db, { now: new Date('2026-04-10T00:00:00Z'), prices: free, feePct: '20' })
    await suspendPartner(db, partner, 'a reason', new Date('2026-04-15T00:00:00Z'))
    await db.transaction(trx => resumePartner(trx, partner, new Date('2026-05-10T00:00:00Z')))
    const { billing_anchor: anchor, period_end: end } = await db('partners').where({ id: partner }).first()
    assert.is(anchor.toISOString().slice('2026'.length), end.toISOString().slice('2026'.length))
    const upgrade = { partnerId: partner, plan: 'PRO', prices: free, now: new Date('2026-05-20T00:00:00Z') } as const
    assert.is((await previewPlan(db, upgrade)).chargeUsd, '99.50', 'half a month before its end')
  }
)

checking('charges an upgrade in the first period of a plan that is free, also where there was no trial', async () => {
  const free = { ...prices, LAUNCH: '0' }
  const partner = await newPartner({ plan: 'LAUNCH', balance: '500' })
  const began = '2026-04-10T00:00:00Z'
  await trialEnds(partner, began)
  await db('partners').where({ id: partner }).update({ created_at: began })
  const upgraded = (now: string) =>
    previewPlan(db, { partnerId: partner, plan: 'PRO', prices: free, now: new Date(now) })
  assert.is((await upgraded(began)).chargeUsd, '0.00', 'before the first check nothing is paid for')
  await checkBilling(db, { now: new Date(began), prices: free, feePct: '20' })
  assert.is((await upgraded('2026-04-25T00:00:00Z')).chargeUsd, '99.50', 'half of 199 USD')
  // A suspension that moves its end to another day than the anchor's, and makes the period longer than a month.
  await suspendPartner(db, partner, 'a reason', new Date('2026-04-12T00:00:00Z'))
  await db.transaction(trx => resumePartner(trx, partner, new Date('2026-05-07T00:00:00Z')))
  assert.is((await upgraded('2026-05-20T00:00:00Z')).chargeUsd, '99.50', 'half a month before its end')
})

checking('charges nothing for a suspension, by which the paid period is longer', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  await suspendPartner(db, partner, 'a reason', new Date('2026-05-05T00:00:00Z'))
  await check(new Date('2026-05-10T00:00:00Z'))
  await check(new Date('2026-05-20T00:00:00Z'))
  assert.equal(await fees(partner), ['2026-04-10T00:00:00.000Z'])
  await db.transaction(trx => resumePartner(trx, partner, new Date('2026-05-25T00:00:00Z')))
  await check(new Date('2026-05-29T23:59:59Z'))
  assert.equal(await fees(partner), ['2026-04-10T00:00:00.000Z'])
  await check(new Date('2026-05-30T00:00:00Z'))
  assert.equal(await fees(partner), ['2026-04-10T00:00:00.000Z', '2026-05-30T00:00:00.000Z'])
  assert.is((await getWallet(db, partner, prices)).nextFeeAt.toISOString(), '2026-06-30T00:00:00.000Z')
})

checking('begins no month in a suspension that found the one before it over, and unpaid', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  await suspendPartner(db, partner, 'a reason', new Date('2026-05-12T00:00:00Z'))
  await db.transaction(trx => resumePartner(trx, partner, new Date('2026-05-22T00:00:00Z')))
  await check(new Date('2026-05-22T00:00:00Z'))
  assert.equal(await fees(partner), ['2026-04-10T00:00:00.000Z', '2026-05-22T00:00:00.000Z'])
})

checking('keeps the day of a month over a suspension, also where a short month ended before it', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2027-01-31T00:00:00Z')
  await check(new Date('2027-01-31T00:00:00Z'))
  await suspendPartner(db, partner, 'a reason', new Date('2027-02-10T00:00:00Z'))
  await db.transaction(trx => resumePartner(trx, partner, new Date('2027-02-10T01:00:00Z')))
  await check(new Date('2027-02-28T01:00:00Z'))
  assert.equal(await fees(partner), ['2027-01-31T00:00:00.000Z', '2027-02-28T01:00:00.000Z'])
  assert.is((await getWallet(db, partner, prices)).nextFeeAt.toISOString(), '2027-03-31T01:00:00.000Z')
})

checking('charges no upgrade while suspended: it holds from the next period on', async () => {
  const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30, balance: '500' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  await suspendPartner(db, partner, 'a reason', new Date('2026-05-05T00:00:00Z'))
  const { change } = await changePlan(partner, 'PRO', '2026-05-07T00:00:00Z')
  assert.equal([change.takesEffect, change.chargeUsd, change.suspended], ['AT_PERIOD_END', '0.00', true])
  assert.is(await balanceOf(db, `wallet:${partner}`), '451.00')
  await db.transaction(trx => resumePartner(trx, partner, new Date('2026-05-25T00:00:00Z')))
  await check(new Date('2026-05-29T23:59:59Z'))
  assert.is((await getPartner(db, partner)).plan, 'LAUNCH')
  await check(new Date('2026-05-30T00:00:00Z'))
  assert.is(await balanceOf(db, `wallet:${partner}`), '252.00')
  assert.is((await getPartner(db, partner)).plan, 'PRO')
})

checking('charges each partner once when ten checks run at once', async () => {
  await check()
  const partners = await newPartners(40, { balance: '500' })
  const counts = await Promise.all(Array.from({ length: 10 }, () => check()))
  assert.is(
    counts.reduce((all, { charged }) => all + charged, 0),
    40
  )
  for (const partner of partners) assert.is(await balanceOf(db, `wallet:${partner}`), '301.00')
})

checking('goes on with the others when one partner fails, and reports it', async () => {
  await check()
  const [stuck, fine] = [await newPartner({ balance: '500' }), await newPartner({ balance: '500' })]
  const at = (await db('partners').where({ id: stuck }).first('period_end')).period_end.toISOString()
  // The reference of its fee belongs to something else.
  await transfer(db, {
    reference: `fee:${stuck}:${at}`,
    kind: 'topup',
    entries: [
      { account: 'world', amountUsd: '-1' },
      { account: `wallet:${stuck}`, amountUsd: '1' }
    ]
  })
  const refusal = await refusalOf(check())
  assert.is(refusal.code, 'UNAVAILABLE')
  const done = 'the others were dealt with: 1 charged, 0 activated, 0 deactivated, 0 renewed'
  assert.is(refusal.message, `The billing check failed for 1, first for ${stuck}; ${done}.`)
  assert.is(await balanceOf(db, `wallet:${fine}`), '301.00')
  await db('partners')
    .where({ id: stuck })
    .update({ period_end: later(100), billing_anchor: later(100) })
})

checking('reports what it did before something broke that all need', async () => {
  await check()
  await newPartner({ balance: '500' })
  const done: object[] = []
  const context = { prices, feePct: '20', done: (counts: object) => void done.push(counts) }
  await db.raw('alter table marketplace_subscriptions rename to subscriptions_away')
  const failure = await checkBilling(db, context).catch((error: unknown) => error)
  await db.raw('alter table subscriptions_away rename to marketplace_subscriptions')
  assert.match(String(failure), 'marketplace_subscriptions')
  assert.equal(done, [{ charged: 1, activated: 0, deactivated: 0, renewed: 0 }])
})

checking('is broken off after a hundred failures, with what was done before in order', async () => {
  await check()
  const first = await newPartner({ balance: '500' })
  await trialEnds(first, '2026-01-01T00:00:00Z')
  // Each id sorts after those before it: the last two would be charged after the failures.
  const many = await newPartners(102, { balance: '500' })
  const at = '2026-01-02T00:00:00Z'
  await db('partners').whereIn('id', many).update({ period_start: at, period_end: at, billing_anchor: at })
  const inTurn = [...many].sort()
  const [stuck, left] = [inTurn.slice(0, 100), inTurn.slice(100)]
  await db.raw(
    `create function refuse_fees() returns trigger language plpgsql as $$ begin
       if new.reference like any(array(select 'fee:' || id || ':%' from stuck_partners)) then raise 'no fee'; end if; return new; end $$`
  )
  await db.schema.createTable('stuck_partners', table => table.text('id'))
  await db('stuck_partners').insert(stuck.map(id => ({ id })))
  await db.raw(
    'create trigger refuse_fees before insert on ledger_transfers for each row execute function refuse_fees()'
  )
  const recorded: object[] = []
  const refusal = await refusalOf(
    checkBilling(db, { prices, feePct: '20', now: new Date(at), done: counts => void recorded.push({ ...counts }) })
  )
  await db.raw('drop trigger refuse_fees on ledger_transfers')
  assert.is(refusal.code, 'UNAVAILABLE')
  const done = 'it was broken off: 1 charged, 0 activated, 0 deactivated, 0 renewed'
  assert.is(refusal.message, `The billing check failed for 100, first for ${stuck[0]}; ${done}.`)
  assert.equal(recorded, [{ charged: 1, activated: 0, deactivated: 0, renewed: 0 }])
  assert.is(await balanceOf(db, `wallet:${first}`), '301.00')
  for (const id of left) assert.is(await balanceOf(db, `wallet:${id}`), '500.00')
  // The next one goes on where it ended.
  assert.equal(await check(new Date(at)), { charged: 102, activated: 0, deactivated: 0, renewed: 0 })
  for (const id of [...stuck, ...left]) assert.is(await balanceOf(db, `wallet:${id}`), '301.00')
  await db('partners')
    .whereIn('id', [first, ...many])
    .update({ period_end: later(100), billing_anchor: later(100) })
})

const unpaid = suite('an unpaid plan')

unpaid('returns 402 with the standing and what the wallet lacks, and nothing once it is paid', async () => {
  const partner = await makePartner({ plan: 'PRO' })
  await trialEnds(partner.partnerId, '2026-01-01T00:00:00Z')
  await pay(partner.partnerId, '98.50')
  await check()
  const refused = await partner.call(getMe)
  assert.is(refused.status, 402)
  assert.is(refused.body.error, 'SUBSCRIPTION_INACTIVE')
  assert.is(refused.body.saasStatus, 'INACTIVE')
  assert.is(refused.body.topUpUsd, 100.5)
  assert.is((await pay(partner.partnerId, '100.49')).saasStatus, 'INACTIVE')
  assert.is((await partner.call(getMe)).body.topUpUsd, 0.01)
  assert.equal(await pay(partner.partnerId, '0.01'), { balanceUsd: '0.00', saasStatus: 'ACTIVE', repeated: false })
  assert.is((await partner.call(getMe)).status, 200)
})

unpaid('is charged one fee by the top-up, whatever months went by, for a period that begins with it', async () => {
  const partner = await newPartner({ plan: 'LAUNCH' })
  await trialEnds(partner, '2020-01-31T00:00:00Z')
  await check()
  const before = Date.now()
  assert.equal(await pay(partner, '500'), { balanceUsd: '451.00', saasStatus: 'ACTIVE', repeated: false })
  const [start] = await fees(partner)
  assert.ok(Date.parse(start as string) >= before - 5000)
  const { nextFeeAt } = await getWallet(db, partner, prices)
  assert.is(nextFeeAt.toISOString(), endOfPeriod(new Date(start as string), new Date(start as string)).toISOString())
})

unpaid(
  'is charged by the top-up also where its period ends in the future: a check ran with a later clock',
  async () => {
    const partner = await newPartner({ plan: 'LAUNCH', trialDays: 30 })
    const { nextFeeAt } = await getWallet(db, partner, prices)
    await check(later(31))
    assert.is((await standingOf(db, partner, prices)).topUpUsd, '49.00')
    assert.equal(await pay(partner, '50'), { balanceUsd: '1.00', saasStatus: 'ACTIVE', repeated: false })
    assert.equal(await fees(partner), [nextFeeAt.toISOString()])
    await check(later(32))
    assert.is(await balanceOf(db, `wallet:${partner}`), '1.00')
  }
)

unpaid('becomes active by the check once a cheaper plan is covered', async () => {
  const partner = await newPartner({ plan: 'SCALE', balance: '60' })
  await check()
  await changePlan(partner, 'LAUNCH')
  assert.equal(await check(), { charged: 1, activated: 1, deactivated: 0, renewed: 0 })
  assert.is(await balanceOf(db, `wallet:${partner}`), '11.00')
})

unpaid('is the one that waited for the end of the period: a top-up pays that and no dearer one', async () => {
  const partner = await newPartner({ plan: 'PRO', trialDays: 30, balance: '200' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  await check(new Date('2026-04-10T00:00:00Z'))
  await changePlan(partner, 'LAUNCH', '2026-04-11T00:00:00Z')
  await check(new Date('2026-05-10T00:00:00Z'))
  const { plan, nextPlan, saasStatus } = await getPartner(db, partner)
  assert.equal([plan, nextPlan, saasStatus], ['LAUNCH', null, 'INACTIVE'])
  assert.equal(await pay(partner, '300'), { balanceUsd: '252.00', saasStatus: 'ACTIVE', repeated: false })
})

unpaid('takes a cheaper plan at once, also after a month that was paid', async () => {
  const partner = await newPartner({ plan: 'PRO', trialDays: 30, balance: '200' })
  await trialEnds(partner, '2026-04-10T00:00:00Z')
  for (const due of ['2026-04-10T00:00:00Z', '2026-05-10T00:00:00Z']) await check(new Date(due))
  const { change } = await changePlan(partner, 'LAUNCH', '2026-05-11T00:00:00Z')
  assert.equal([change.takesEffect, change.chargeUsd], ['NOW', '0.00'])
  const { plan, saasStatus } = await getPartner(db, partner)
  assert.equal([plan, saasStatus], ['LAUNCH', 'INACTIVE'])
})

unpaid('is paid by top-ups while its wallet is spent from, without anybody waiting in a circle', async () => {
  const partners = await Promise.all(Array.from({ length: 6 }, () => newPartner({ plan: 'SCALE', balance: '100' })))
  await check()
  let sold = 0
  const spend = (partnerId: string) =>
    db.transaction(trx =>
      transfer(trx, {
        reference: `spent:${++sold}`,
        kind: 'sale',
        entries: move(`wallet:${partnerId}`, 'fees', '0.01')
      })
    )
  // Each top-up charges what is outstanding, which the wallet does not cover until the last.
  const lane = async (number: number) => {
    const partnerId = partners[(number >> 1) % 6] as string
    for (let i = 0; i < 20; i++) await (number % 2 === 0 ? pay(partnerId, '0.01') : spend(partnerId))
  }
  await Promise.all(Array.from({ length: 10 }, (_, number) => lane(number)))
  for (const partnerId of partners) assert.is((await pay(partnerId, '800')).saasStatus, 'ACTIVE')
})

unpaid('and a suspended partner are two things: neither ends the other', async () => {
  const partner = await makePartner({ plan: 'LAUNCH' })
  const id = partner.partnerId
  await trialEnds(id, '2026-01-01T00:00:00Z')
  await suspendPartner(db, id, 'a reason')
  await check()
  assert.is((await partner.call(getMe)).body.error, 'PARTNER_SUSPENDED')
  await resumePartner(db, id)
  await check()
  assert.is((await partner.call(getMe)).body.error, 'SUBSCRIPTION_INACTIVE')
  await suspendPartner(db, id, 'a reason')
  assert.equal(await pay(id, '49'), { balanceUsd: '49.00', saasStatus: 'SUSPENDED', repeated: false })
  await check()
  assert.is(await balanceOf(db, `wallet:${id}`), '49.00', 'a suspended partner is not charged')
  await resumePartner(db, id)
  await check()
  assert.is(await balanceOf(db, `wallet:${id}`), '0.00')
  assert.is((await partner.call(getMe)).status, 200)
})

const periods = suite('endOfPeriod')

const instantBetween = (from: string, to: string) =>
  fc.date({ min: new Date(`${from}-01-01T00:00:00Z`), max: new Date(`${to}-01-01T00:00:00Z`), noInvalidDate: true })

periods('move their day by what a suspension lasted, and never leave a month out or have one twice', () => {
  fc.assert(
    fc.property(
      instantBetween('2024', '2032'),
      fc.integer({ min: 0, max: 14 }),
      fc.integer({ min: 0, max: 100 * DAY_MS }),
      (anchor, months, lastedMs) => {
        let end = anchor
        for (let i = 0; i < months; i++) end = endOfPeriod(anchor, end)
        const later = new Date(end.getTime() + lastedMs)
        const moved = laterAnchor(anchor, { end: later, lastedMs })
        const next = endOfPeriod(moved, later)
        const days = (next.getTime() - later.getTime()) / DAY_MS
        assert.ok(
          days >= 28 && days <= 31,
          `${anchor.toISOString()} + ${lastedMs}: ${later.toISOString()} to ${next.toISOString()}`
        )
      }
    )
  )
})

periods('ends each period in the month after it began, on the anchor’s day or the month’s last', () => {
  fc.assert(
    fc.property(instantBetween('2000', '2100'), fc.integer({ min: 1, max: 40 }), (anchor, months) => {
      let start = anchor
      for (let i = 1; i <= months; i++) {
        const end = endOfPeriod(anchor, start)
        const month = anchor.getUTCFullYear() * 12 + anchor.getUTCMonth() + i
        assert.is(end.getUTCFullYear() * 12 + end.getUTCMonth(), month)
        const lastDay = new Date(Date.UTC(Math.floor(month / 12), (month % 12) + 1, 0)).getUTCDate()
        assert.is(end.getUTCDate(), Math.min(anchor.getUTCDate(), lastDay))
        assert.is(end.getTime() % DAY_MS, anchor.getTime() % DAY_MS)
        assert.ok(end > start)
        start = end
      }
    })
  )
})

periods.after(closeAll)

checking.run()
unpaid.run()
periods.run()
