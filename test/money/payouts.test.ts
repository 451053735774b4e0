// Payouts in the ledger: what is held, what is released, and that nothing is paid or released twice.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { reject as rejectByCommand } from '../../cli/money/payouts.ts'
import { balanceOf, transfer } from '../../db/money/ledger.ts'
import {
  approvePayout,
  listPayouts,
  markPayoutPaid,
  presentPayout,
  rejectPayout,
  requestPayout
} from '../../db/money/payouts.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { isBase58Check } from '../../schemas/fields/base58.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 10, name: 'payouts-test' })
const destinationAddress = 'T'.repeat(34)

async function newCreator(earnedUsd: string): Promise<string> {
  const { partnerId } = await insertPartner(db, { name: 'C', plan: 'PRO', brokerAppId: '1', brokerDialect: 'v3' })
  const entries = [
    { account: 'world', amountUsd: `-${earnedUsd}` },
    { account: `earnings:${partnerId}`, amountUsd: earnedUsd }
  ]
  await transfer(db, { reference: `earned:${partnerId}`, kind: 'sale', entries })
  return partnerId
}

const request = (partnerId: string, amountUsd: string) =>
  db.transaction(trx => requestPayout(trx, { partnerId, amountUsd, destinationAddress }))
const approve = (id: string) => db.transaction(trx => approvePayout(trx, id))
const paid = (id: string) => db.transaction(trx => markPayoutPaid(trx, id, 'tx-1'))
const reject = (id: string) => db.transaction(trx => rejectPayout(trx, id, 'not today'))

const balances = async (partnerId: string) => [
  await balanceOf(db, `earnings:${partnerId}`),
  await balanceOf(db, `held:${partnerId}`)
]

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
  } catch (error) {
    if (error instanceof ApiError) return error.code
    throw error
  }
  return 'none'
}

const payouts = suite('payouts')

payouts('are refused beyond what is available, and leave nothing behind', async () => {
  const creator = await newCreator('10')
  assert.is(await codeOf(request(creator, '10.01')), 'CONFLICT')
  assert.equal(await balances(creator), ['10.00', '0.00'])
  assert.is((await listPayouts(db, { partnerId: creator, page: 1, limit: 10 })).total, 0)
})

payouts('are refused every step their state does not allow', async () => {
  const creator = await newCreator('30')
  const [one, two] = [(await request(creator, '10')).payoutId, (await request(creator, '10')).payoutId]
  assert.is(await codeOf(paid(one)), 'CONFLICT')
  await approve(one)
  assert.is(await codeOf(approve(one)), 'CONFLICT')
  await paid(one)
  assert.is(await codeOf(paid(one)), 'CONFLICT')
  assert.is(await codeOf(reject(one)), 'CONFLICT')
  await reject(two)
  assert.is(await codeOf(approve(two)), 'CONFLICT')
  assert.is(await codeOf(reject('pay_none')), 'NOT_FOUND')
  assert.equal(await balances(creator), ['20.00', '0.00'])
})

payouts('hold their amount when requested, and let it leave when paid', async () => {
  const creator = await newCreator('10')
  const { payoutId, status } = await request(creator, '7.5')
  assert.is(status, 'REQUESTED')
  assert.equal(await balances(creator), ['2.50', '7.50'])
  assert.is((await approve(payoutId)).status, 'APPROVED')
  const done = await paid(payoutId)
  assert.equal([done.status, done.reference, done.amountUsd], ['PAID', 'tx-1', '7.50'])
  assert.ok(done.paidAt)
  assert.equal(await balances(creator), ['2.50', '0.00'])
})

payouts('release their amount when rejected, also after approval', async () => {
  const creator = await newCreator('10')
  const { payoutId } = await request(creator, '10')
  await approve(payoutId)
  await db('payouts').where({ id: payoutId }).update({ decided_at: '2026-04-10T00:00:00Z' })
  const rejected = await reject(payoutId)
  assert.is(rejected.reason, 'not today')
  assert.ok(Number(rejected.decidedAt) > Date.now() - 60_000, 'it was decided by the rejection')
  assert.equal(await balances(creator), ['10.00', '0.00'])
})

payouts('are not rejected where another operator approved what was shown as requested', async () => {
  const creator = await newCreator('10')
  const { payoutId } = await request(creator, '10')
  let decidedAt: Date | null = null
  const confirm = async (question: string) => {
    assert.match(question, /\(REQUESTED\)/)
    ;({ decidedAt } = await approve(payoutId))
  }
  const opened = { db, actor: 'an operator', confirm } as unknown as Parameters<typeof rejectByCommand>[0]
  assert.is(await codeOf(rejectByCommand(opened, { payoutId, reason: 'a reason' })), 'CONFLICT')
  assert.equal(await balances(creator), ['0.00', '10.00'])
  const { status, decidedAt: still, paidAt } = await paid(payoutId)
  // Decided when it was approved.
  assert.equal([status, still], ['PAID', decidedAt])
  assert.ok(Number(paidAt) > Number(decidedAt))
})

payouts('never hold more than was earned when many are requested at once', async () => {
  const creator = await newCreator('10')
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => codeOf(request(creator, '3'))))
  assert.is(outcomes.filter(code => code === 'none').length, 3)
  assert.equal(await balances(creator), ['1.00', '9.00'])
})

payouts('are approved once, and paid once, when five request it at once', async () => {
  const creator = await newCreator('10')
  const { payoutId } = await request(creator, '10')
  for (const step of [approve, paid]) {
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => codeOf(step(payoutId))))
    assert.equal(outcomes.sort(), ['CONFLICT', 'CONFLICT', 'CONFLICT', 'CONFLICT', 'none'])
  }
  assert.equal(await balances(creator), ['0.00', '0.00'])
})

payouts('are decided once when paid and rejected at the same time', async () => {
  const creator = await newCreator('10')
  const { payoutId } = await request(creator, '10')
  await approve(payoutId)
  const outcomes = await Promise.all([paid, reject, paid, reject].map(step => codeOf(step(payoutId))))
  assert.is(outcomes.filter(code => code === 'none').length, 1)
  const [earnings, held] = await balances(creator)
  assert.is(held, '0.00')
  const [{ status } = { status: undefined }] = (await listPayouts(db, { partnerId: creator, page: 1, limit: 5 }))
    .payouts
  assert.is(earnings, status === 'PAID' ? '0.00' : '10.00')
})

payouts('show whether the checksum of their address is right, to the creator and to the operator', async () => {
  const creator = await newCreator('10')
  const genuine = 'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE'
  for (const [address, check] of [
    [genuine, 'OK'],
    [genuine.replace('Q', 'q'), 'FAILED'],
    ['!'.repeat(34), 'FAILED']
  ] as const) {
    const terms = { partnerId: creator, amountUsd: '1', destinationAddress: address }
    const payout = await db.transaction(trx => requestPayout(trx, terms))
    assert.is(payout.addressCheck, check)
    assert.is(presentPayout(payout).addressCheck, check)
    const [listed] = (await listPayouts(db, { partnerId: creator, page: 1, limit: 1 })).payouts
    assert.equal([listed?.destinationAddress, listed?.addressCheck], [address, check])
  }
})

const addresses = suite('isBase58Check')

addresses('distinguishes addresses from texts of their length', () => {
  const genuine = [
    'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE',
    'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t',
    '1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa'
  ]
  for (const address of genuine) {
    assert.ok(isBase58Check(address), address)
    for (let at = 1; at < address.length; at++) {
      const mistyped = address.slice(0, at) + (address[at] === 'z' ? 'y' : 'z') + address.slice(at + 1)
      assert.not.ok(isBase58Check(mistyped), mistyped)
    }
  }
  const made = ['!'.repeat(34), 'T'.repeat(34), '1'.repeat(34), 'z'.repeat(34), '']
  for (const text of made) assert.not.ok(isBase58Check(text), text)
})

payouts.after(async () => {
  await db.destroy()
  await closeAll()
})

payouts.run()
addresses.run()
