// Wallets, against real PostgreSQL: payments in, once for each reference, and the statement.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { balanceOf } from '../../db/money/ledger.ts'
import { listStatement } from '../../db/money/wallets.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { billingMakers, refusalOf } from '../support/money-makers.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 10, name: 'wallets-test' })
const { pay, newPartner } = billingMakers(db, { LAUNCH: '49.00', PRO: '199.00', SCALE: '799.00' })

const paying = suite('wallet topup')

paying('refuses a partner that is not there, and an amount that is none', async () => {
  assert.is((await refusalOf(pay('ptn_nobody', '5'))).code, 'NOT_FOUND')
  const partner = await newPartner({ trialDays: 30 })
  for (const amount of ['0.001', '1,50', '']) {
    let refused = false
    await pay(partner, amount).catch(() => {
      refused = true
    })
    assert.ok(refused, amount)
  }
  assert.is(await balanceOf(db, `wallet:${partner}`), '0.00')
})

paying('refuses a reference that was used with another amount', async () => {
  const partner = await newPartner({ trialDays: 30 })
  await pay(partner, '5', 'wire-1')
  const { code, message } = await refusalOf(pay(partner, '6', 'wire-1'))
  assert.is(code, 'CONFLICT')
  assert.is(message, `The payment wire-1 of ${partner} was paid in before, with 5.00 USD, not 6.00 USD.`)
  assert.is(await balanceOf(db, `wallet:${partner}`), '5.00')
})

paying('returns the balance and the standing', async () => {
  const partner = await newPartner({ trialDays: 30 })
  assert.equal(await pay(partner, '0.1'), { balanceUsd: '0.10', saasStatus: 'ACTIVE', repeated: false })
  assert.equal(await pay(partner, '0.2'), { balanceUsd: '0.30', saasStatus: 'ACTIVE', repeated: false })
  await pay(partner, '1000000000')
  assert.is(await balanceOf(db, `wallet:${partner}`), '1000000000.30')
})

paying('pays in once when the same reference comes again, also twenty times at once', async () => {
  const partner = await newPartner({ trialDays: 30 })
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => pay(partner, '50', 'wire-2')))
  assert.is(outcomes.filter(({ repeated }) => !repeated).length, 1)
  assert.ok(outcomes.every(({ balanceUsd }) => balanceUsd === '50.00'))
  await pay(partner, '0.50')
  const again = await pay(partner, '50', 'wire-2')
  assert.equal(again, { balanceUsd: '50.50', saasStatus: 'ACTIVE', repeated: true }, 'the wallet as it is now')
  const other = await newPartner({ trialDays: 30 })
  assert.is((await pay(other, '50', 'wire-2')).repeated, false, 'a reference is one partner’s own')
})

paying('shows what moved, newest first, page by page', async () => {
  const partner = await newPartner({ trialDays: 30 })
  for (const amount of ['1', '2', '3', '4', '5']) await pay(partner, amount, `r${amount}`)
  const first = await listStatement(db, { partnerId: partner, limit: 3 })
  await pay(partner, '6')
  const second = await listStatement(db, { partnerId: partner, limit: 3, cursor: first.nextCursor as string })
  const seen = [...first.data, ...second.data].map(({ amountUsd, balanceUsd }) => [amountUsd, balanceUsd])
  assert.equal(seen, [
    ['5.00', '15.00'],
    ['4.00', '10.00'],
    ['3.00', '6.00'],
    ['2.00', '3.00'],
    ['1.00', '1.00']
  ])
  assert.is(second.nextCursor, null)
  assert.is(
    (await refusalOf(listStatement(db, { partnerId: partner, limit: 3, cursor: 'x' }))).code,
    'VALIDATION_FAILED'
  )
})

paying.after(async () => {
  await db.destroy()
  await closeAll()
})

paying.run()
