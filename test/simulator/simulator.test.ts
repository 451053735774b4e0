// The rules of the simulated broker's contracts, played on a virtual clock with prices laid out beforehand: what is refused, what
// contracts in ticks cost and pay, their sale, and the books.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { PurchaseTerms } from '../../worker/simulator/engine/contracts.ts'
import { ledgerEntry } from '../../worker/simulator/engine/ledger.ts'
import type { SimulatedAccount } from '../../worker/simulator/engine/records.ts'
import { refusal, stage, symbolOf } from '../support/market-stage.ts'

const refusals = suite('what is refused')

refusals('terms that are not offered', () => {
  const { buy } = stage()
  const cases: [string, Partial<PurchaseTerms>][] = [
    ['InvalidSymbol', { symbol: 'R_101' }],
    ['ContractNotOffered', { type: 'ONETOUCH' }],
    ['ContractNotOffered', { type: 'CALL', symbol: 'BOOM1000' }],
    ['ContractNotOffered', { type: 'DIGITEVEN', symbol: 'frxEURUSD' }],
    ['ContractNotOffered', { type: 'MULTUP', symbol: 'JD10', multiplier: 100 }],
    ['NotDefaultCurrency', { currency: 'XYZ' }],
    ['NotDefaultCurrency', { currency: 'EUR' }],
    ['InvalidBasis', { basis: undefined }],
    ['InvalidStake', { amount: undefined }],
    ['InvalidStake', { amount: 0 }],
    ['IncorrectStakeDecimals', { amount: 10.005 }],
    ['StakeLimits', { amount: 0.34 }],
    ['PayoutLimits', { amount: 2560.01 }],
    ['InvalidMarkup', { markupPct: 3.5 }],
    ['InvalidMarkup', { markupPct: -1 }],
    ['DealCancellationNotOffered', { cancellation: '60m' }],
    ['InvalidBarrier', { barrier: '+0.001' }],
    ['InvalidBarrier', { barrier: '0' }]
  ]
  for (const [reason, terms] of cases)
    assert.is(
      refusal(() => buy(terms)),
      reason,
      JSON.stringify(terms)
    )
})

refusals('durations out of bounds', () => {
  const { buy } = stage()
  const cases: [string, Partial<PurchaseTerms>][] = [
    ['InvalidExpiry', { duration: 0, unit: 't' }],
    ['TicksNumberLimits', { duration: 11, unit: 't' }],
    ['TradingDurationNotAllowed', { duration: 14, unit: 's' }],
    ['TradingDurationNotAllowed', { duration: 366, unit: 'd' }],
    ['TradingDurationNotAllowed', { type: 'DIGITEVEN', duration: 1, unit: 'm' }],
    ['TradingDurationNotAllowed', { symbol: 'frxEURUSD', duration: 5, unit: 't' }],
    ['TradingDurationNotAllowed', { symbol: 'frxEURUSD', duration: 14, unit: 'm' }],
    ['TradingHoursExpiry', { symbol: 'frxEURUSD', duration: 3, unit: 'd' }],
    ['AlreadyExpired', { expiry: 1_000_000 }]
  ]
  for (const [reason, terms] of cases)
    assert.is(
      refusal(() => buy(terms)),
      reason,
      JSON.stringify(terms)
    )
})

refusals('digits that are missing, out of range, unwanted or without return', () => {
  const { buy } = stage()
  const cases: [string, Partial<PurchaseTerms>][] = [
    ['MissingRequiredDigit', { type: 'DIGITMATCH' }],
    ['DigitOutOfRange', { type: 'DIGITDIFF', barrier: '10' }],
    ['DigitOutOfRange', { type: 'DIGITOVER', barrier: '+4' }],
    ['BarrierNotAllowed', { type: 'DIGITODD', barrier: '5' }],
    ['NoReturn', { type: 'DIGITOVER', barrier: '9' }],
    ['NoReturn', { type: 'DIGITUNDER', barrier: '0' }]
  ]
  for (const [reason, terms] of cases)
    assert.is(
      refusal(() => buy(terms)),
      reason,
      JSON.stringify(terms)
    )
})

refusals('multipliers outside their list, their limits and their form', () => {
  const { buy } = stage()
  const up: Partial<PurchaseTerms> = { type: 'MULTUP', multiplier: 100 }
  const cases: [string, Partial<PurchaseTerms>][] = [
    ['MultiplierOutOfRange', { ...up, multiplier: 50 }],
    ['MultiplierOutOfRange', { ...up, multiplier: undefined }],
    ['StakeLimits', { ...up, amount: 0.99 }],
    ['StakeLimits', { ...up, amount: 2000.01 }],
    ['InvalidExpiry', { ...up, duration: 5, unit: 't' }],
    ['InvalidBasis', { ...up, basis: undefined }],
    ['BarrierNotAllowed', { ...up, barrier: '5' }],
    ['LimitOrderAmountTooHigh', { ...up, stopLoss: 10.01 }],
    ['LimitOrderAmountTooLow', { ...up, stopLoss: 0.5 }],
    ['LimitOrderAmountTooLow', { ...up, takeProfit: 0.09 }]
  ]
  for (const [reason, terms] of cases)
    assert.is(
      refusal(() => buy(terms)),
      reason,
      JSON.stringify(terms)
    )
})

refusals('a stake above the price one would pay, and above the balance', () => {
  const { buy, engine, account } = stage()
  assert.is(
    refusal(() => buy({}, { maxCents: 999 })),
    'StakeMoreThanPrice'
  )
  assert.is(
    refusal(() => buy({ basis: 'payout', amount: 19.53 }, { maxCents: 999 })),
    'PriceMoved'
  )
  const poor = engine.accounts.create({ loginid: 'CR1', balance: 1 })
  assert.is(
    refusal(() => buy({}, { account: poor })),
    'InsufficientBalance'
  )
  assert.is(account.balanceCents, 1_000_000)
  assert.is(engine.contracts.size, 0)
})

refusals('trades on closed and suspended markets', () => {
  const { buy, engine, clock } = stage()
  const euro = { symbol: 'frxEURUSD', duration: 15, unit: 'm' as const }
  buy(euro)
  engine.market.sessions.force(symbolOf('frxEURUSD'), false)
  assert.is(
    refusal(() => buy(euro)),
    'MarketIsClosed'
  )
  engine.market.sessions.force(symbolOf('frxEURUSD'), null)
  clock.pass(3 * 86_400_000)
  assert.is(
    refusal(() => buy(euro)),
    'MarketIsClosed'
  )
  engine.market.sessions.force(symbolOf('frxEURUSD'), true)
  buy(euro)
  engine.market.sessions.suspend([symbolOf('R_100')])
  assert.is(
    refusal(() => buy()),
    'TradingSuspended'
  )
  buy({ symbol: 'R_50' })
})

const prices = suite('what contracts cost')

prices('digits pay by their chance, less the commission', () => {
  const { buy } = stage()
  const payout = (type: string, barrier?: string) => ledgerEntry(buy({ type, amount: 1, barrier })).payout
  for (const type of ['DIGITEVEN', 'DIGITODD', 'CALL', 'PUT', 'CALLE', 'PUTE']) assert.is(payout(type), '1.95', type)
  assert.is(payout('DIGITMATCH', '3'), '8.93')
  assert.is(payout('DIGITDIFF', '3'), '1.10')
  const table = ['1.10', '1.23', '1.40', '1.63', '1.95', '2.43', '3.21', '4.72', '8.93']
  assert.equal(
    [0, 1, 2, 3, 4, 5, 6, 7, 8].map(digit => payout('DIGITOVER', `${digit}`)),
    table
  )
  assert.equal(
    [9, 8, 7, 6, 5, 4, 3, 2, 1].map(digit => payout('DIGITUNDER', `${digit}`)),
    table
  )
})

prices('a markup lowers what a stake wins and raises what a payout costs', () => {
  const { buy } = stage()
  assert.is(ledgerEntry(buy({ type: 'DIGITEVEN' })).payout, '19.53')
  assert.is(ledgerEntry(buy({ type: 'DIGITEVEN', markupPct: 2 })).payout, '18.80')
  assert.is(ledgerEntry(buy({ type: 'DIGITEVEN', basis: 'payout', amount: 2 })).buyPrice, '1.02')
  assert.is(ledgerEntry(buy({ type: 'DIGITEVEN', basis: 'payout', amount: 2, markupPct: 2 })).buyPrice, '1.06')
})

prices('a higher barrier pays more', () => {
  const { buy } = stage()
  const minute = { duration: 1, unit: 'm' as const }
  const near = buy({ ...minute, barrier: '+0.10' }).payoutCents
  const far = buy({ ...minute, barrier: '+1.00' }).payoutCents
  assert.ok(near > 1953 && far > near, `${near} ${far}`)
})

const ticks = suite('contracts in ticks')

ticks('rise and fall wait for an entry tick and n more', () => {
  const { buy, script, clock } = stage()
  script([100, 101, 102, 103, 104, 105.5])
  const contract = buy({ duration: 4, unit: 't' })
  clock.pass(1_500)
  assert.is(contract.entry, null)
  clock.pass(100)
  assert.is(contract.entry?.quote, 100)
  clock.pass(6_000)
  assert.is(contract.status, 'open')
  clock.pass(2_000)
  assert.equal([contract.status, contract.exit?.quote], ['won', 104])
  assert.is(contract.exit!.epoch - contract.startEpoch, 10)
})

ticks('the tick of the second of purchase is not the entry', () => {
  const { buy, script, clock } = stage({ at: '2026-03-04T10:00:02.000Z' })
  script([200, 201])
  const contract = buy()
  clock.pass(4_000)
  assert.equal([contract.entry?.quote, contract.exit?.quote], [200, 201])
  assert.is(contract.entry!.epoch - contract.startEpoch, 2)
})

ticks('digits count the entry tick as the first', () => {
  const { buy, script, clock } = stage()
  script([100.01, 100.02, 100.03])
  const one = buy({ type: 'DIGITMATCH', barrier: '1', duration: 1, unit: 't' })
  const three = buy({ type: 'DIGITMATCH', barrier: '3', duration: 3, unit: 't' })
  clock.pass(2_000)
  assert.equal([one.status, one.entry, one.exit], ['won', one.exit, one.entry])
  clock.pass(4_000)
  assert.equal([three.status, three.ticks.length], ['won', 3])
})

ticks('a price that prints 1219.50 has digit 0, not 5', () => {
  const { buy, script, clock } = stage()
  script([1219.63, 1219.5])
  const over = buy({ type: 'DIGITOVER', barrier: '4', duration: 2, unit: 't' })
  const match = buy({ type: 'DIGITMATCH', barrier: '0', duration: 2, unit: 't' })
  clock.pass(4_000)
  assert.is(ledgerEntry(over).exit, '1219.50')
  assert.equal([over.status, match.status], ['lost', 'won'])
})

ticks('each digit contract wins with its digits and no others', () => {
  const winning: Record<string, (digit: number) => boolean> = {
    DIGITMATCH: digit => digit === 4,
    DIGITDIFF: digit => digit !== 4,
    DIGITOVER: digit => digit > 4,
    DIGITUNDER: digit => digit < 4,
    DIGITEVEN: digit => digit % 2 === 0,
    DIGITODD: digit => digit % 2 === 1
  }
  for (const [type, wins] of Object.entries(winning)) {
    for (let digit = 0; digit < 10; digit++) {
      const { buy, script, clock } = stage()
      script([1300 + digit / 100])
      const contract = buy({ type, barrier: /EVEN|ODD/.test(type) ? undefined : '4' })
      clock.pass(2_000)
      assert.is(contract.status, wins(digit) ? 'won' : 'lost', `${type} ${digit}`)
    }
  }
})

ticks('a tie loses for CALL and PUT and wins for CALLE and PUTE', () => {
  const outcome = (type: string, exit: number) => {
    const { buy, script, clock } = stage()
    script([500, exit])
    const contract = buy({ type })
    clock.pass(4_000)
    return contract.status
  }
  const all = (exit: number) => ['CALL', 'PUT', 'CALLE', 'PUTE'].map(type => outcome(type, exit))
  assert.equal(all(500), ['lost', 'lost', 'won', 'won'])
  assert.equal(all(500.01), ['won', 'lost', 'won', 'lost'])
  assert.equal(all(499.99), ['lost', 'won', 'lost', 'won'])
})

ticks('higher and lower measure against their barrier', () => {
  const { buy, script, clock } = stage()
  script([1200, 1200.09])
  const relative = buy({ barrier: '+0.10' })
  const absolute = buy({ barrier: '1200.05' })
  clock.pass(4_000)
  assert.equal([relative.status, absolute.status], ['lost', 'won'])
  assert.equal(
    [relative.shortcode, absolute.shortcode].map(code => code.split('_').slice(-2)),
    [
      ['S10P', '0'],
      ['1200050000', '0']
    ]
  )
})

ticks('a tick that is only late is not the entry of what was bought after it', () => {
  const { buy, script, clock } = stage()
  script([100, 101, 102])
  buy({ duration: 5, unit: 't' })
  clock.stall(1_700)
  const contract = buy()
  clock.pass(4_000)
  assert.equal([contract.entry?.quote, contract.exit?.quote], [101, 102])
})

ticks('fast ticks are distinguished by their order though their seconds are equal', () => {
  const { buy, script, clock } = stage({ tickMs: 20 })
  script([100.01, 100.02, 100.03, 100.04, 100.05, 100.06])
  const contract = buy({ duration: 5, unit: 't' })
  clock.pass(120)
  assert.is(contract.status, 'won')
  assert.equal([contract.entry?.quote, contract.exit?.quote], [100.01, 100.06])
  assert.is(contract.entry?.epoch, contract.exit?.epoch)
})

ticks('missing ticks are waited for', () => {
  const { buy, engine, clock } = stage()
  const contract = buy({ duration: 2, unit: 't' })
  clock.pass(2_000)
  engine.market.sessions.freeze([symbolOf('R_100')])
  clock.pass(60_000)
  assert.equal([contract.status, contract.ticks.length], ['open', 1])
  engine.market.sessions.freeze([])
  clock.pass(4_000)
  assert.is(contract.ended, true)
  assert.ok(contract.ticks[1]!.epoch - contract.ticks[0]!.epoch > 60)
})

const selling = suite('selling early')

selling('waits for the entry tick, and not for the last seconds', () => {
  const { buy, engine, account, clock } = stage()
  const contract = buy({ duration: 1, unit: 'm' })
  const sell = () => engine.sell(account, { appId: 7, contractId: contract.id, floorCents: 0 })
  assert.is(refusal(sell), 'SellAtEntryTick')
  clock.pass(55_000)
  assert.is(refusal(sell), 'TooCloseToExpiry')
  clock.pass(5_000)
  assert.is(refusal(sell), 'ContractAlreadySold')
})

selling('pays the bid, once', () => {
  const { buy, engine, account, clock } = stage()
  const contract = buy({ duration: 5, unit: 'm' })
  clock.pass(20_000)
  const { bidCents } = engine.value(contract)
  const sell = (floorCents: number) => engine.sell(account, { appId: 9, contractId: contract.id, floorCents })
  assert.is(
    refusal(() => sell(bidCents + 1)),
    'PriceMoved'
  )
  sell(bidCents)
  assert.equal([contract.status, contract.sellCents, contract.sellAppId], ['sold', bidCents, 9])
  assert.is(account.balanceCents, 1_000_000 - 1_000 + bidCents)
  assert.is(
    refusal(() => sell(0)),
    'ContractAlreadySold'
  )
  clock.pass(600_000)
  assert.is(account.rows.filter(row => row.action === 'sell').length, 1)
})

selling('is not offered for tick contracts, nor for those of others', () => {
  const { buy, engine, account, clock } = stage()
  const contract = buy({ duration: 5, unit: 't' })
  clock.pass(4_000)
  const sell = (by: SimulatedAccount) => engine.sell(by, { appId: 7, contractId: contract.id, floorCents: 0 })
  assert.is(
    refusal(() => sell(account)),
    'ResaleNotOffered'
  )
  assert.is(
    refusal(() => sell(engine.accounts.create({ loginid: 'CR2' }))),
    'ContractNotFound'
  )
})

selling('finds an ended contract expired until it is settled', () => {
  const { buy, engine, account, clock } = stage({ settlementDelayMs: 1_000 })
  const contract = buy({ duration: 15, unit: 's' })
  clock.pass(15_000)
  const sell = () => engine.sell(account, { appId: 7, contractId: contract.id, floorCents: 0 })
  assert.equal([contract.ended, contract.status], [true, 'open'])
  assert.is(refusal(sell), 'BetExpired')
  assert.is(engine.settleEnded(account), 1)
  assert.is(engine.settleEnded(account), 0)
  clock.pass(5_000)
  assert.is(account.rows.filter(row => row.action === 'sell').length, 1)
})

const money = suite('the books')

money('balances chain, every contract is sold once, and nothing is lost', () => {
  const { engine, clock, buy, account } = stage({ tickMs: 50, timeScale: 100, seed: 3, settlementDelayMs: 70 })
  const kinds: Partial<PurchaseTerms>[] = [
    { type: 'DIGITEVEN' },
    { type: 'DIGITOVER', barrier: '6', duration: 3, unit: 't' },
    { type: 'PUT', symbol: '1HZ10V', duration: 5, unit: 't' },
    { type: 'CALL', duration: 15, unit: 's' },
    { type: 'CALLE', symbol: 'frxEURUSD', duration: 15, unit: 'm' },
    { type: 'MULTUP' as const, multiplier: 100, amount: 5, stopLoss: 1, takeProfit: 1 }
  ]
  for (let i = 0; i < 600; i++) {
    buy({ amount: 1 + (i % 7), ...kinds[i % kinds.length] })
    clock.pass(37)
  }
  clock.pass(3_600_000)
  for (const contract of [...account.open.values()]) {
    engine.sell(account, { appId: 7, contractId: contract.id, floorCents: 0 })
  }
  let balance = 0
  for (const row of account.rows) {
    balance += row.amountCents
    assert.is(row.balanceCents, balance)
  }
  assert.is(account.balanceCents, balance)
  assert.is(account.rows.length, 1 + 2 * 600)
  assert.is(new Set(account.rows.map(row => row.transactionId)).size, account.rows.length)
  const sells = account.rows.filter(row => row.action === 'sell')
  assert.is(new Set(sells.map(row => row.contract)).size, 600)
  const profit = [...engine.contracts.values()].reduce((sum, each) => sum + (each.sellCents ?? 0) - each.buyCents, 0)
  assert.is(account.balanceCents, 1_000_000 + profit)
  assert.equal([...new Set(account.closed.map(each => each.status))].sort(), ['lost', 'won'])
})

money('losing settlements are sales for 0 under the broker’s own application', () => {
  const { buy, script, clock, account } = stage()
  script([100, 99])
  const contract = buy()
  clock.pass(4_000)
  const row = account.rows.at(-1)!
  assert.equal([row.action, row.amountCents, row.appId], ['sell', 0, 2])
  assert.equal([row.referenceId, row.transactionId], [contract.buyTransaction, contract.sellTransaction])
  assert.is(account.rows.at(-2)!.appId, 7)
})

money('forget the oldest closed contracts past their bound, in the lists of their account, too', () => {
  const { engine, account, buy, clock } = stage({ maxContracts: 10, tickMs: 10 })
  const long = buy({ duration: 1, unit: 'd' })
  for (let i = 0; i < 30; i++) {
    buy()
    clock.pass(30)
  }
  assert.is(engine.contracts.size, 10)
  assert.ok(engine.contracts.has(long.id))
  const kept = [...engine.contracts.values()].filter(contract => contract !== long)
  assert.equal(account.closed, kept)
  const rows = kept.flatMap(({ buyTransaction, sellTransaction }) => [buyTransaction, sellTransaction])
  assert.equal(
    account.rows.map(({ transactionId }) => transactionId),
    [account.rows[0]?.transactionId, long.buyTransaction, ...rows]
  )
  assert.is(account.rows[0]?.referenceId, null)
})

money('forget closed contracts however many were bought before them and are open', () => {
  const { engine, buy, clock } = stage({ maxContracts: 150, tickMs: 10 })
  for (let i = 0; i < 120; i++) buy({ duration: 1, unit: 'd' })
  for (let i = 0; i < 60; i++) {
    buy()
    clock.pass(30)
  }
  assert.is(engine.contracts.size, 150)
})
refusals.run()
prices.run()
ticks.run()
selling.run()
money.run()
