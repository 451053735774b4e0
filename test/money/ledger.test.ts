// Transfers against real PostgreSQL: what is refused, what happens once, and what must hold for any amounts.
// What the tables refuse by themselves: ledger-tables.test.ts.
import Big from 'big.js'
import fc from 'fast-check'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import {
  accounts,
  balanceOf,
  move,
  type Transfer,
  type TransferEntry,
  transfer,
  tryTransfer
} from '../../db/money/ledger.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { splitSale, usd } from '../../schemas/fields/money.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { newReference, partnerWith, refusalOf, refused } from '../support/money-makers.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 10, name: 'ledger-test' })
const newPartner = (balanceUsd = '0') => partnerWith(db, balanceUsd)

function sale(
  buyer: string,
  creator: string,
  priceUsd: string
): { reference: string; kind: 'sale'; entries: TransferEntry[] } {
  const { feeUsd, netUsd } = splitSale(priceUsd, '20')
  const entries = [
    { account: accounts.wallet(buyer), amountUsd: `-${priceUsd}` },
    { account: accounts.earnings(creator), amountUsd: netUsd },
    { account: accounts.fees, amountUsd: feeUsd }
  ].filter(({ amountUsd }) => Number(amountUsd) !== 0)
  return { reference: newReference(), kind: 'sale', entries }
}

async function total(): Promise<string> {
  const { rows } = (await db.raw('select sum(balance)::text as total from ledger_accounts')) as {
    rows: [{ total: string }]
  }
  return rows[0].total
}

const transferring = suite('transfer')

transferring('refuses to overdraw a wallet, names the amounts required and available, and moves nothing', async () => {
  const [a, b] = [await newPartner('10'), await newPartner()]
  const error = await refusalOf(
    db.transaction(trx =>
      transfer(trx, { reference: newReference(), kind: 'sale', entries: move(`wallet:${a}`, `earnings:${b}`, '10.01') })
    )
  )
  assert.is(error.code, 'WALLET_INSUFFICIENT')
  assert.equal(error.extras, { requiredUsd: 10.01, balanceUsd: 10 })
  assert.is(await balanceOf(db, `wallet:${a}`), '10.00')
})

transferring('returns a shortage without ending the transaction it is part of', async () => {
  const a = await newPartner('1')
  const name = await db.transaction(async trx => {
    const outcome = await tryTransfer(trx, {
      reference: newReference(),
      kind: 'plan_fee',
      entries: move(`wallet:${a}`, 'fees', '2')
    })
    assert.equal(outcome, { short: { account: `wallet:${a}`, requiredUsd: '2.00', balanceUsd: '1.00' } })
    return (await trx('partners').where({ id: a }).first('name')).name
  })
  assert.is(name, 'P')
})

transferring('lets earnings go below zero, unless they are to be covered', async () => {
  const [a, b] = [await newPartner(), await newPartner()]
  const entries = move(`earnings:${a}`, `wallet:${b}`, '4')
  await transfer(db, { reference: newReference(), kind: 'refund', entries })
  assert.is(await balanceOf(db, `earnings:${a}`), '-4.00')
  const payout = { reference: newReference(), kind: 'payout_request', covered: [`earnings:${b}`] } as const
  const error = await refusalOf(transfer(db, { ...payout, entries: move(`earnings:${b}`, `held:${b}`, '0.01') }))
  assert.is(error.code, 'CONFLICT')
})

transferring('refuses an amount finer than a cent before PostgreSQL sees it', async () => {
  const a = await newPartner('1')
  for (const amount of ['0.001', '1e3', '', 'ten', '1000000000000000']) {
    const entries = [
      { account: 'world', amountUsd: `-${amount}` },
      { account: `wallet:${a}`, amountUsd: amount }
    ]
    await refused(transfer(db, { reference: newReference(), kind: 'topup', entries }), /Not an amount/)
    assert.throws(() => move('world', `wallet:${a}`, amount))
  }
})

transferring('refuses another movement under a reference that is taken', async () => {
  const [a, b] = [await newPartner('10'), await newPartner('10')]
  const one = { reference: newReference(), kind: 'topup', entries: move('world', `wallet:${a}`, '5') } as const
  await transfer(db, one)
  const others = [
    { ...one, entries: move('world', `wallet:${a}`, '6') },
    { ...one, entries: move('world', `wallet:${b}`, '5') },
    { ...one, kind: 'refund' } as const
  ]
  for (const other of others) assert.is((await refusalOf(transfer(db, other))).code, 'CONFLICT')
  assert.is(await balanceOf(db, `wallet:${a}`), '15.00')
})

transferring('moves money once when the same reference comes again, and returns the first time', async () => {
  const a = await newPartner()
  const one = { reference: newReference(), kind: 'topup', entries: move('world', `wallet:${a}`, '0.01') } as const
  const first = await transfer(db, one)
  await transfer(db, { ...one, reference: newReference() })
  const again = await transfer(db, one)
  assert.is(again.transferId, first.transferId)
  assert.equal([first.repeated, again.repeated], [false, true])
  assert.is(again.balances.get(`wallet:${a}`), '0.01')
  assert.is(await balanceOf(db, `wallet:${a}`), '0.02')
})

transferring('returns a repeat even where the wallet could not pay a second time', async () => {
  const [a, b] = [await newPartner('7'), await newPartner()]
  const one = sale(a, b, '7.00')
  await transfer(db, one)
  assert.is((await transfer(db, one)).repeated, true)
  assert.is(await balanceOf(db, `wallet:${a}`), '0.00')
})

transferring('moves money once when one reference comes forty times at once', async () => {
  const [a, b] = [await newPartner('10'), await newPartner()]
  const one = sale(a, b, '6.00')
  const outcomes = await Promise.all(Array.from({ length: 40 }, () => db.transaction(trx => transfer(trx, one))))
  assert.is(outcomes.filter(({ repeated }) => !repeated).length, 1)
  assert.is(new Set(outcomes.map(({ transferId }) => transferId)).size, 1)
  assert.is(await balanceOf(db, `wallet:${a}`), '4.00')
})

transferring('never overdraws a wallet that many spend from at once, and never deadlocks', async () => {
  const people = await Promise.all(Array.from({ length: 5 }, () => newPartner('20')))
  const failures: unknown[] = []
  const lane = async (number: number) => {
    for (let i = 0; i < 12; i++) {
      const [from, to] = [people[number % 5] as string, people[(number + 1 + (i % 4)) % 5] as string]
      await db.transaction(trx => transfer(trx, sale(from, to, '3.33'))).catch(error => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: 10 }, (_, number) => lane(number)))
  assert.ok(failures.length > 0, 'nobody ran out of money')
  for (const error of failures) assert.is((error as ApiError).code, 'WALLET_INSUFFICIENT', String(error))
  for (const partner of people) assert.ok(Number(await balanceOf(db, `wallet:${partner}`)) >= 0)
  assert.is(await total(), '0.00')
})

transferring('keeps every balance the exact sum of its entries, for any amounts', async () => {
  const amount = fc.oneof(
    fc.constantFrom('0.01', '0.10', '0.20', '0.30', '1000000000.00', '99999999999.99'),
    fc.integer({ min: 1, max: 10 ** 9 }).map(cents => usd(new Big(cents).div(100)))
  )
  const [a, b] = [await newPartner(), await newPartner()]
  const expected = new Map([a, b].flatMap(id => [`wallet:${id}`, `earnings:${id}`].map(name => [name, new Big(0)])))
  await fc.assert(
    fc.asyncProperty(amount, amount, fc.boolean(), async (paidIn, price, forth) => {
      const [buyer, creator] = forth ? [a, b] : [b, a]
      const apply = async (entries: TransferEntry[], outcome: Transfer) => {
        for (const { account, amountUsd } of entries) {
          const known = expected.get(account)
          if (!known) continue
          expected.set(account, known.plus(amountUsd))
          assert.is(outcome.balances.get(account), known.plus(amountUsd).toFixed(2))
        }
      }
      const paid = move('world', `wallet:${buyer}`, paidIn)
      await apply(paid, await transfer(db, { reference: newReference(), kind: 'topup', entries: paid }))
      const bought = sale(buyer, creator, price)
      const outcome = await tryTransfer(db, bought)
      const covered = (expected.get(`wallet:${buyer}`) as Big).gte(price)
      assert.is('short' in outcome, !covered)
      if (!('short' in outcome)) await apply(bought.entries, outcome)
      for (const [name, value] of expected) assert.is(await balanceOf(db, name), value.toFixed(2))
      assert.is(await total(), '0.00')
    }),
    { numRuns: 150 }
  )
})

const splitting = suite('splitSale')

splitting('rounds the fee half up to the cent', () => {
  assert.equal(splitSale('0.01', '20'), { feeUsd: '0.00', netUsd: '0.01' })
  assert.equal(splitSale('0.02', '20'), { feeUsd: '0.00', netUsd: '0.02' })
  assert.equal(splitSale('0.03', '20'), { feeUsd: '0.01', netUsd: '0.02' })
  assert.equal(splitSale('0.10', '25'), { feeUsd: '0.03', netUsd: '0.07' })
  assert.equal(splitSale('9.99', '33.333'), { feeUsd: '3.33', netUsd: '6.66' })
  assert.equal(splitSale('5.00', '100'), { feeUsd: '5.00', netUsd: '0.00' })
})

splitting('makes two parts that add up to the price, the fee within half a cent of its share', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 13 }), fc.integer({ min: 0, max: 100_000 }), (cents, thousandths) => {
      const price = new Big(cents).div(100)
      const pct = new Big(thousandths).div(1000)
      const { feeUsd, netUsd } = splitSale(price.toFixed(2), pct.toString())
      assert.ok(new Big(feeUsd).plus(netUsd).eq(price))
      assert.ok(new Big(netUsd).gte(0))
      const off = new Big(feeUsd).minus(price.times(pct).div(100))
      assert.ok(off.lte('0.005') && off.gt('-0.005'))
    }),
    { numRuns: 2000 }
  )
})

splitting.after(async () => {
  await db.destroy()
  await closeAll()
})

transferring.run()
splitting.run()
