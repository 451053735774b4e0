// When a market opens, from the broker's tables of trading times and by its clock.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { readTradingDay, withEvents } from '../../worker/broker/dialects/trading-times.ts'
import { type DaySessions, Hours, secondsUntil, statedOpenings, type TradingDay } from '../../worker/broker/hours.ts'

const hours = suite('seconds until a market opens')
const at = (text: string) => Date.parse(`${text}Z`) / 1000

const closed: DaySessions = { open: ['--'], close: ['--'] }
const allDay: DaySessions = { open: ['00:00:00'], close: ['23:59:59'] }
const withBreak: DaySessions = { open: ['08:00:00', '13:30:00'], close: ['12:00:00', '17:00:00'] }

/** Tables by day; days not named have the weekday's. 2026-09-26 is a Saturday. */
function clocked(now: string, tables: Record<string, DaySessions>) {
  const clock = { now: at(now), requestedDays: [] as string[], tables: { ...tables } }
  const walker = new Hours({
    now: async () => clock.now,
    tradingDay: async day => {
      clock.requestedDays.push(day)
      const weekend = [0, 6].includes(new Date(`${day}T00:00:00Z`).getUTCDay())
      return new Map([['X', clock.tables[day] ?? (weekend ? closed : withBreak)]])
    }
  })
  return { clock, walker }
}

hours('is not known for an asset that is not listed', async () => {
  const { walker } = clocked('2026-09-25T10:00:00', {})
  assert.is(await walker.secondsUntilOpen('Y'), null)
})

hours('is not known when eight days have no session', async () => {
  const never = Object.fromEntries(Array.from({ length: 9 }, (_, day) => [`2026-09-${String(day + 10)}`, closed]))
  const { clock, walker } = clocked('2026-09-10T10:00:00', never)
  assert.is(await walker.secondsUntilOpen('X'), null)
  assert.is(clock.requestedDays.length, 8)
})

hours('is 0 while a session lasts, its last second included', async () => {
  for (const now of ['2026-09-25T08:00:00', '2026-09-25T12:00:00', '2026-09-25T16:59:59']) {
    assert.is(await clocked(now, {}).walker.secondsUntilOpen('X'), 0, now)
  }
  const { walker } = clocked('2026-09-25T23:59:59', { '2026-09-25': allDay })
  assert.is(await walker.secondsUntilOpen('X'), 0)
})

hours('waits out a break', async () => {
  assert.is(await clocked('2026-09-25T12:30:00', {}).walker.secondsUntilOpen('X'), 3_600)
})

const early = [{ dates: 'Fridays', descrip: 'Closes early (at 20:55)' }]

hours('counts an early close that the events alone announce', async () => {
  const row = { symbol: 'X', times: allDay, events: early }
  const markets = [{ name: 'M', submarkets: [{ name: 'S', symbols: [row] }] }]
  const read = (day: string) => readTradingDay({ markets }, day, ({ symbol }) => String(symbol)).get('X')
  assert.equal(read('2026-09-24'), allDay)
  assert.equal(read('2026-09-25'), { open: ['00:00:00'], close: ['20:55:00'] })
  const { walker } = clocked('2026-09-25T21:00:00', { '2026-09-25': read('2026-09-25') as DaySessions })
  assert.is(await walker.secondsUntilOpen('X'), at('2026-09-28T08:00:00') - at('2026-09-25T21:00:00'))
})

const unreadable = [undefined, { settlement: '23:59:59' }, { open: '--', close: '--' }, { open: null }, 'closed']

hours('of one asset are not lost with those of another that cannot be read, which has no session on that day', () => {
  const odd = unreadable.map((times, index) => ({ symbol: `Y${index}`, times }))
  const symbols = [...odd, { symbol: 'X', times: allDay, events: 'none' }]
  const markets = [{ name: 'M', submarkets: [{ name: 'S', symbols }] }]
  const day = readTradingDay({ markets }, '2026-09-24', ({ symbol }) => String(symbol))
  assert.equal([...day], [...odd.map(({ symbol }) => [symbol, { open: [], close: [] }]), ['X', allDay]])
})

hours('are found behind days whose tables do not have the asset, or not its times', async () => {
  const now = at('2026-09-25T18:00:00')
  const tables: Record<string, TradingDay> = {
    '2026-09-25': new Map([['X', withBreak]]),
    '2026-09-26': new Map(),
    '2026-09-27': new Map([['X', { open: [], close: [] }]]),
    '2026-09-28': new Map([['X', withBreak]])
  }
  const walker = new Hours({ now: async () => now, tradingDay: async day => tables[day] ?? new Map() })
  assert.is(await walker.secondsUntilOpen('X'), at('2026-09-28T08:00:00') - now)
})

hours('applies events to their days, and to the sessions they cut', () => {
  const on = (dates: string, descrip: string, sessions = withBreak) =>
    withEvents(sessions, [{ dates, descrip }], '2026-12-24')
  assert.equal(on('2026-12-24, 2026-12-31', 'Closes early (at 13:00)'), { open: ['08:00:00'], close: ['12:00:00'] })
  assert.equal(on('2026-12-24', 'Closes early (at 15:00)').close, ['12:00:00', '15:00:00'])
  assert.equal(on('2026-12-24', 'Opens late (at 09:30)').open, ['09:30:00', '13:30:00'])
  assert.equal(on('2026-12-24', 'Closes early (at 07:00)'), closed)
  assert.equal(on('2026-12-31', 'Closes early (at 13:00)'), withBreak)
  assert.equal(on('2026-12-24', 'Christmas Eve'), withBreak)
  assert.equal(withEvents(closed, early, '2026-09-25'), closed)
})

hours('walks over the weekend to Monday', async () => {
  const { clock, walker } = clocked('2026-09-25T18:00:00', {})
  assert.is(await walker.secondsUntilOpen('X'), at('2026-09-28T08:00:00') - at('2026-09-25T18:00:00'))
  assert.equal(clock.requestedDays, ['2026-09-25', '2026-09-26', '2026-09-27', '2026-09-28'])
})

hours('requests a day once, and again after midnight', async () => {
  const { clock, walker } = clocked('2026-09-25T18:00:00', {})
  await Promise.all([walker.secondsUntilOpen('X'), walker.secondsUntilOpen('X')])
  assert.is(clock.requestedDays.length, 4)
  clock.now = at('2026-09-26T00:00:01')
  await walker.secondsUntilOpen('X')
  assert.equal(clock.requestedDays.slice(4), ['2026-09-26', '2026-09-27', '2026-09-28'])
})

hours(
  'requests it again when the broker refuses as closed what the table has as open, at most once a minute',
  async () => {
    const { clock, walker } = clocked('2026-09-25T10:00:00', {})
    await walker.secondsUntilOpen('X')
    assert.is(await walker.secondsUntilReopening('X'), null, 'nothing new within the minute')
    assert.is(clock.requestedDays.length, 1)
    clock.now += 61
    clock.tables['2026-09-25'] = { open: ['11:00:00'], close: ['17:00:00'] }
    assert.is(await walker.secondsUntilReopening('X'), 3_539)
  }
)

hours('does not remember a failed request', async () => {
  let fails = true
  const walker = new Hours({
    now: async () => at('2026-09-25T10:00:00'),
    tradingDay: async () => {
      if (fails) throw new Error('no response')
      return new Map([['X', allDay]])
    }
  })
  const failed = await walker.secondsUntilOpen('X').catch((error: Error) => error.message)
  assert.is(failed, 'no response')
  fails = false
  assert.is(await walker.secondsUntilOpen('X'), 0)
})

hours('takes a stated opening only when it lies ahead, within eight days', () => {
  const now = at('2026-09-26T12:00:00')
  const stated = (texts: string[]) => secondsUntil(statedOpenings(texts), now)
  assert.is(stated(['Market will open at 2026-09-28 00:00:00.']), 129_600)
  assert.is(stated(['nothing', '2026-09-26 12:00:01']), 1)
  assert.is(stated(['2026-09-26 11:00:00', '2026-12-01 00:00:00', 'soon']), null)
})

hours.run()
