// Shortcodes: what a list of an account shows of a contract, and whether that is the one we requested.
import fc from 'fast-check'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { matches, parseShortcode, termsOf } from '../../worker/broker/dialects/shortcode.ts'
import type { BinaryContract, MultiplierContract } from '../../worker/broker/port.ts'

const reading = suite('reading a shortcode')
const matching = suite('matching a listed contract')

reading('refuses what is none', () => {
  const none = ['', 'CALL', 'CALL_R_100', 'CALL_R_100_19.53_x_5T_S0P_0', 'call_R_100_19.53_1461129600_5T_S0P_0']
  for (const text of [...none, 'A'.repeat(500), 'CALL_R_100_19.53_1461129600_1461129600_S0P_0']) {
    assert.is(parseShortcode(text), null, text)
  }
})

reading('reads a symbol that contains underscores and digits', () => {
  assert.equal(parseShortcode('CALL_R_100_19.53_1461129600_5T_S0P_0'), {
    contractType: 'CALL',
    asset: 'R_100',
    durationTicks: 5,
    durationSeconds: null,
    barrier: null,
    payout: '19.53',
    stake: null,
    multiplier: null,
    startTime: 1_461_129_600
  })
})

reading('reads old payouts without decimals', () => {
  const terms = parseShortcode('CALL_R_100_20_1461129600_1461129900_S0P_0')!
  assert.is(terms.asset, 'R_100')
  assert.is(terms.payout, '20')
  assert.is(terms.durationSeconds, 300)
})

reading('reads digits, types without a barrier, and fixed or forward times', () => {
  assert.is(parseShortcode('DIGITMATCH_R_100_8.93_1461129600_5T_7_0')!.barrier, '7')
  const even = parseShortcode('DIGITEVEN_1HZ75V_3.23_1754639022_5T')!
  assert.is(even.asset, '1HZ75V')
  assert.is(even.barrier, null)
  const fixed = parseShortcode('PUT_FRXEURUSD_19.53_1461129600F_1461216000F_S10P_0')!
  assert.is(fixed.asset, 'FRXEURUSD')
  assert.is(fixed.durationSeconds, 86_400)
  assert.is(fixed.barrier, 'S10P')
  assert.is(parseShortcode('CALL_R_100_19.53_1461129600_5T_S-4P_0')!.barrier, 'S-4P')
})

reading('reads a payout that is printed with an exponent', () => {
  const { asset, payout, durationTicks } = parseShortcode('CALL_R_25_9.073E-05_1594023511_5T_S0P_0')!
  assert.equal([asset, payout, durationTicks], ['R_25', '9.073E-05', 5])
})

reading('reads multipliers', () => {
  const terms = parseShortcode('MULTUP_R_100_10.00_30_1718717545_4872355199_60m_0.00_N1')!
  assert.is(terms.contractType, 'MULTUP')
  assert.is(terms.asset, 'R_100')
  assert.is(terms.stake, '10.00')
  assert.is(terms.multiplier, 30)
  assert.is(terms.startTime, 1_718_717_545)
  assert.is(terms.durationSeconds, null)
  assert.is(parseShortcode('MULTDOWN_FRXUSDJPY_5.00_100_1718717545_4872355199_0_2.50')!.asset, 'FRXUSDJPY')
})

const binary: BinaryContract = {
  kind: 'BINARY',
  contractType: 'DIGITOVER',
  asset: 'R_100',
  stake: '10',
  currency: 'USD',
  duration: 5,
  durationUnit: 't',
  barrier: '4'
}
const listed = (shortcode: string) => parseShortcode(shortcode)!

matching('refuses another type, symbol, barrier or length', () => {
  const codes = [
    'DIGITUNDER_R_100_19.53_1461129600_5T_4_0',
    'DIGITOVER_R_10_19.53_1461129600_5T_4_0',
    'DIGITOVER_R_100_19.53_1461129600_5T_5_0',
    'DIGITOVER_R_100_19.53_1461129600_6T_4_0',
    'DIGITOVER_R_100_19.53_1461129600_1461129605_4_0'
  ]
  for (const code of codes) assert.not(matches(listed(code), binary), code)
})

matching('refuses a contract with a barrier where none was requested', () => {
  const call: BinaryContract = { ...binary, contractType: 'CALL', barrier: null }
  assert.ok(matches(listed('CALL_R_100_19.53_1461129600_5T_S0P_0'), call))
  assert.not(matches(listed('CALL_R_100_19.53_1461129600_5T_S10P_0'), call))
})

matching('finds contracts of even and odd digits whose code has a 0 for their barrier', () => {
  for (const contractType of ['DIGITEVEN', 'DIGITODD'] as const) {
    const wanted: BinaryContract = { ...binary, contractType, barrier: null }
    assert.ok(matches(listed(`${contractType}_R_100_3.92_1492410208_5T_0_0`), wanted))
    assert.ok(matches(listed(`${contractType}_R_100_3.92_1492410208_5T`), wanted))
  }
  assert.not(matches(listed('DIGITOVER_R_100_3.92_1492410208_5T_0_0'), binary))
})

matching('finds symbols whatever their case', () => {
  const euro: BinaryContract = {
    ...binary,
    contractType: 'PUT',
    asset: 'frxEURUSD',
    barrier: null,
    duration: 15,
    durationUnit: 'm'
  }
  assert.ok(matches(listed('PUT_FRXEURUSD_19.53_1461129600_1461130500_S0P_0'), euro))
  assert.not(matches(listed('PUT_FRXEURUSD_19.53_1461129600_1461130501_S0P_0'), euro))
})

matching('lets days end with the trading day, weekends between them', () => {
  const days: BinaryContract = { ...binary, contractType: 'CALL', barrier: null, duration: 1, durationUnit: 'd' }
  const code = (hours: number) => listed(`CALL_R_100_19.53_1461129600_${1_461_129_600 + hours * 3_600}F_S0P_0`)
  for (const hours of [1, 24, 96]) assert.ok(matches(code(hours), days), `${hours} h`)
  assert.not(matches(code(24 * 14), days))
})

matching('compares the stakes of multipliers as amounts', () => {
  const up: MultiplierContract = {
    kind: 'MULTIPLIER',
    direction: 'up',
    asset: 'R_100',
    stake: '10',
    currency: 'USD',
    multiplier: 30,
    stopLoss: null,
    takeProfit: null
  }
  const code = 'MULTUP_R_100_10.00_30_1718717545_4872355199_0_0.00_N1'
  assert.ok(matches(listed(code), up))
  assert.not(matches(listed(code), { ...up, stake: '10.01' }))
  assert.not(matches(listed(code), { ...up, multiplier: 40 }))
  assert.not(matches(listed(code), { ...up, direction: 'down' }))
})

matching('finds a stake of more decimals than are printed', () => {
  const stake = '0.00012345'
  const small: MultiplierContract = {
    ...{ kind: 'MULTIPLIER', direction: 'up', asset: 'R_100', stake, currency: 'BTC', multiplier: 30 },
    ...{ stopLoss: null, takeProfit: null }
  }
  const code = (printed: string) => listed(`MULTUP_R_100_${printed}_30_1718717545_4872355199_0_0.00_N1`)
  for (const printed of ['0.00', '0.00012345', '0.000123']) assert.ok(matches(code(printed), small), printed)
  for (const printed of ['0.02', '0.00012346', '0.000125']) assert.not(matches(code(printed), small), printed)
})

matching('reads back every contract of digits, whatever its symbol', () => {
  const symbol = fc.stringMatching(/^[A-Z0-9]{1,6}(_[A-Z0-9]{1,4}){0,3}$/)
  const payout = fc.oneof(
    fc.integer({ min: 1, max: 50_000 }).map(String),
    fc.integer({ min: 1, max: 99_999 }).map(each => (each / 100).toFixed(2))
  )
  fc.assert(
    fc.property(
      symbol,
      payout,
      fc.integer({ min: 1, max: 10 }),
      fc.integer({ min: 0, max: 9 }),
      (asset, paid, ticks, digit) => {
        const contract: BinaryContract = {
          ...binary,
          contractType: 'DIGITMATCH',
          asset,
          duration: ticks,
          barrier: String(digit)
        }
        const terms = parseShortcode(`DIGITMATCH_${asset}_${paid}_1461129600_${ticks}T_${digit}_0`)
        return (
          terms !== null && terms.payout === paid && matches(terms, contract) && terms.asset === termsOf(contract).asset
        )
      }
    ),
    { numRuns: 500 }
  )
})

reading.run()
matching.run()
