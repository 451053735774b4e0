// Which order provokes which trouble, and which does not. What each trouble is to a partner is held by description/test-page.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listedSymbols } from '../../worker/simulator/engine/symbols.ts'
import { magicDelayMs, magicOfPurchase, magicOfSale } from '../../worker/simulator/magic.ts'
import { assetOf, type Magic, magics } from '../../worker/simulator/magic-list.ts'

const magic = suite('magic')
const find = (flag: string) => magics.find(each => each.flag === flag) as Magic
const usual = { amount: 1 as unknown, currency: 'USD', asset: 'R_100' as unknown, flags: [] as string[] }

magic('has a flag, a stake and an asset for each trouble alone', () => {
  for (const part of [({ flag }: Magic) => flag, ({ stake }: Magic) => stake, assetOf])
    assert.is(new Set(magics.map(part)).size, magics.length)
  for (const { stake } of magics) assert.match(stake, /^4\.\d\d$/)
})

magic('is provoked by a stake in USD to the cent, and by no other amount', () => {
  assert.is(magicOfPurchase({ ...usual, amount: 4.01 })?.code, 'MarketIsClosed')
  assert.is(magicOfPurchase({ ...usual, amount: '4.01' })?.code, 'MarketIsClosed')
  for (const changes of [
    { amount: 4.01, currency: 'EUR' },
    { amount: 4.014 },
    { amount: 4 },
    { amount: 401 },
    { amount: undefined }
  ])
    assert.is(magicOfPurchase({ ...usual, ...changes }), null, JSON.stringify(changes))
})

magic('is provoked by its asset and by the flag of a token in every currency, the stake first', () => {
  for (const currency of ['USD', 'EUR']) {
    assert.is(magicOfPurchase({ ...usual, currency, asset: 'TEST_NOFUNDS' })?.code, 'InsufficientBalance')
    assert.is(magicOfPurchase({ ...usual, currency, flags: ['demo', 'nofunds'] })?.code, 'InsufficientBalance')
  }
  assert.is(
    magicOfPurchase({ ...usual, amount: 4.01, asset: 'TEST_NOFUNDS', flags: ['moved'] })?.code,
    'MarketIsClosed'
  )
  assert.is(magicOfPurchase({ ...usual, asset: 'TEST_NOFUNDS', flags: ['moved'] })?.code, 'InsufficientBalance')
  for (const asset of ['R_100', 'NOFUNDS', 'TEST_', 'TEST_NOTHING', 5])
    assert.is(magicOfPurchase({ ...usual, asset }), null)
})

magic('is met by the purchase, by the sale or by the settlement, each by its own', () => {
  const order = (flag: string) => ({ cents: 100, currency: 'USD', asset: 'R_100', flags: [flag] })
  for (const each of magics) {
    const met = [
      magicOfPurchase({ ...usual, flags: [each.flag] })?.effect,
      magicOfSale(order(each.flag))?.effect,
      magicDelayMs(order(each.flag))
    ]
    assert.equal(met, [each.buy?.effect, each.sell?.effect, each.settlesAfterMs ?? 0], each.flag)
  }
  assert.is(magicOfSale(order('noresale'))?.code, find('noresale').sell?.code)
})

magic('lists its assets only where it is there', () => {
  const listed = (magic: boolean) => new Set(listedSymbols({ magic }).map(({ code }) => code))
  assert.ok(magics.every(each => listed(true).has(assetOf(each)) && !listed(false).has(assetOf(each))))
})

magic.run()
