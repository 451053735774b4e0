// The operator's view of analytics: days as bars, verification and repair, the check by samples, metric and doctor.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { drawDays } from '../../cli/analytics/bars.ts'
import { checkTimeZones } from '../../cli/doctor/analytics.ts'
import { readAnalyticsState } from '../../db/analytics/state.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { findAnalyticsDifferences } from '../../db/analytics/verify.ts'
import { ensureTestSide } from '../../db/partners/partners.ts'
import { rows } from '../../db/postgres/connection.ts'
import { checkAnalytics } from '../../worker/analytics/checking.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db, log } = harness.services
const partner = await harness.makePartner()
const trader = await partner.makeTrader()
const HOUR_MS = 3_600_000
const ago = (hours: number) => new Date(Date.now() - hours * HOUR_MS)
await insertOrderRows(db, trader, { at: ago(50), count: 3 })
await insertOrderRows(db, trader, { at: ago(2), count: 2 })
await db('orders').update({ markup: '0.25' })
await db.raw(`update analytics_until set until = until - interval '3 days'`)
await db.raw(`update analytics_closes_until set until = until - interval '3 days'`)
await db.raw('delete from analytics_late_quarters')
await db.raw('delete from analytics_late_days')
await db.raw('delete from analytics_late_closes')
while (await addUpAnalytics(db));

const analytics = suite('operator analytics')

analytics('draws the last days, and has the same as JSON', async () => {
  // A partner with a test key is one partner.
  await db.transaction(trx => ensureTestSide(trx, partner.partnerId))
  const [drawn, asJson] = await Promise.all([
    operator(harness.env, 'analytics', '--mode', 'DEMO'),
    operator(harness.env, 'analytics', '--mode', 'DEMO', '--partner', partner.partnerId, '--days', '5', '--json')
  ])
  assert.is(drawn.exitCode, 0, drawn.stderr)
  assert.match(drawn.stdout, /USD {2}5 contracts, stakes 50\.00, markup 1\.25/)
  assert.match(drawn.stdout, new RegExp(`${ago(50).toISOString().slice(0, 10)} +3 +1 +30\\.00 +0\\.75 +█+`))
  assert.is(drawn.stdout.match(/^\d{4}-\d\d-\d\d/gm)?.length, 30)
  const { data, complete } = JSON.parse(asJson.stdout)
  assert.equal([data.length, complete], [5, true])
  assert.is(
    data.reduce((sum: number, { contracts }: { contracts: number }) => sum + contracts, 0),
    5
  )
})

analytics(
  'names days as PostgreSQL begins them, also where its data of a time zone are not those of the process',
  async () => {
    // Of the autumn of 2026: the clocks of Morocco, which the data of 2026 have and older ones do not.
    const timezone = 'Africa/Casablanca'
    const asJson = await operator(
      harness.env,
      'analytics',
      '--mode',
      'DEMO',
      '--timezone',
      timezone,
      '--days',
      '4',
      '--json'
    )
    const today = `(now() at time zone '${timezone}')::date`
    const [expected] = await rows<{ days: string[] }>(
      db,
      `select array(select d::date::text from generate_series(${today} - 3, ${today}, '1 day') d) as days`
    )
    assert.equal(
      JSON.parse(asJson.stdout).data.map(({ day }: { day: string }) => day),
      expected?.days
    )
  }
)

analytics(
  'begins the first day with the first of its two midnights, where clocks are set back from one to the other',
  async () => {
    const timezone = 'America/Havana'
    const [found] = await rows<{ at: Date; days: number }>(
      db,
      `select at, (now() at time zone :timezone)::date - (at at time zone :timezone)::date + 1 as days
       from generate_series(date_trunc('hour', now()) - interval '400 days', now(), '1 hour') at
      where at at time zone :timezone = (at + interval '1 hour') at time zone :timezone
        and extract(hour from at at time zone :timezone) = 0
      order by at desc limit 1`,
      { timezone }
    )
    const { at, days } = found as { at: Date; days: number }
    const other = await harness.makePartner()
    await insertOrderRows(db, await other.makeTrader(), { at: new Date(at.getTime() + HOUR_MS / 2), count: 1 })
    const named = ['--partner', other.partnerId, '--mode', 'DEMO', '--timezone', timezone, '--days', String(days)]
    const { json, stderr } = await operator(harness.env, 'analytics', ...named, '--json')
    assert.equal([json.data.length, json.data[0].contracts], [days, 1], stderr)
  }
)

analytics('draws amounts of coins with their decimals', () => {
  const sums = { contracts: 2, traders: 1, stake: 0.0000217, payout: 0, markup: 0.0000004, markupUnknown: 0 }
  const drawn = drawDays({
    partnerId: partner.partnerId,
    timezone: 'UTC',
    asOf: '2026-11-26T12:00:00.000Z',
    complete: true,
    data: [{ day: '2026-11-25', currency: 'BTC', ...sums }]
  })
  assert.match(drawn, 'BTC  2 contracts, stakes 0.0000217, markup 0.0000004')
  assert.match(drawn, /2026-11-25 +2 +1 +0\.0000217 +0\.0000004 +█+/)
})

analytics('says that the database lacks a time zone', async () => {
  const of = ['--partner', partner.partnerId]
  const { exitCode, stderr } = await operator(harness.env, 'analytics', ...of, '--timezone', 'US/Pacific-New')
  assert.is(exitCode, 2)
  assert.match(stderr, /--timezone .*database.*US\/Pacific-New/)
})

analytics('refuses a time zone that there is none of, as a wrong option', async () => {
  const { exitCode, stderr } = await operator(harness.env, 'analytics', '--timezone', 'Foo/Bar')
  assert.is(exitCode, 2)
  assert.match(stderr, /--timezone .*Foo\/Bar/)
})

analytics('verifies, names what differs with exit code 1, and repairs it', async () => {
  const verify = (...more: string[]) => operator(harness.env, 'analytics', 'verify', '--days', '5', '--json', ...more)
  const { partnerId } = await harness.makePartner()
  await db.raw(`update analytics_quarters set markup = markup + 1 where grouping_by = ''`)
  await db.raw('update analytics_trader_days set pnl = pnl - 1')
  const broken = await verify()
  const { found } = JSON.parse(broken.stdout)
  assert.is(broken.exitCode, 1)
  assert.is(broken.stderr, `${found.length} sums differ from the orders; --repair recomputes them.\n`)
  assert.equal(new Set(found.map(({ what }: { what: string }) => what)), new Set(['quarter', 'day', 'traderDay']))
  assert.equal(found.find(({ what }: { what: string }) => what === 'traderDay').traderId, trader.traderId)
  // The options of a subcommand are its own, also those that the command above it has, too.
  assert.is((await verify('--partner', partnerId)).exitCode, 0, 'nothing differs of another partner')
  const repaired = await verify('--repair')
  assert.equal([repaired.exitCode, JSON.parse(repaired.stdout).repaired], [0, true], repaired.stderr)
  assert.equal(await findAnalyticsDifferences(db, { from: ago(5 * 24), to: new Date() }), [])
})

analytics('refuses an option that its subcommand does not take, before the subcommand and after it', async () => {
  for (const args of [
    ['verify', '--mode', 'DEMO'],
    ['--mode', 'DEMO', 'verify']
  ]) {
    const { exitCode, stdout, stderr } = await operator(harness.env, 'analytics', ...args)
    assert.equal([exitCode, stdout, stderr], [2, '', 'error: analytics verify takes no --mode\n'])
  }
  const { stdout } = await operator(harness.env, 'analytics', 'verify', '--help')
  assert.not.match(stdout, '--mode')
})

analytics('is not overdue for what was bought before the sums began to exist', async () => {
  const overdueHours = async () => Math.round((await readAnalyticsState(db)).overdueSeconds / 3600)
  const { until, since } = await db('analytics_until').first()
  // A migration is no younger than what it makes.
  assert.ok(since <= new Date() && since >= ago(1))
  const set = (facts: object) => db('analytics_until').update(facts)
  await set({ until: ago(20), since: ago(5) })
  assert.is(await overdueHours(), 5)
  await set({ until: ago(3) })
  assert.is(await overdueHours(), 3)
  await set({ until, since })
})

analytics('is alarmed by a worker that finds a difference in its samples', async () => {
  await checkAnalytics({ db, log })
  assert.is((await readAnalyticsState(db)).differences, 0)
  await db.raw('update analytics_quarters set contracts = contracts + 1')
  await db.raw('update analytics_days set contracts = contracts + 1')
  // A sample is a day of some: until it is one with orders.
  let differences: number | null = 0
  for (let tries = 0; tries < 200 && !differences; tries++) {
    await checkAnalytics({ db, log })
    ;({ differences } = await readAnalyticsState(db))
  }
  assert.ok(differences)
  const doctor = JSON.parse((await operator(harness.env, 'doctor', '--json')).stdout)
  const finding = doctor.checks.find(({ check }: { check: string }) => check === 'analytics')
  assert.equal([finding.status, /verify/.test(finding.advice)], ['fail', true])
})

analytics('has the doctor name time zones of which PostgreSQL has other clocks than the process', async () => {
  // The data of 2026 have the clocks of Morocco of its autumn, older ones do not; the rest is the same in both.
  const instant = new Date('2026-11-01T00:00:00Z')
  const [theirs] = await rows<{ hour: string }>(
    db,
    `select to_char(timestamptz '${instant.toISOString()}' at time zone 'Africa/Casablanca', 'HH24') as hour`
  )
  const own = new Intl.DateTimeFormat('en', { timeZone: 'Africa/Casablanca', hour: '2-digit', hourCycle: 'h23' })
  const { status, found } = await checkTimeZones(db)
  if (own.format(instant) === theirs?.hour) assert.not.match(found, 'Casablanca')
  else assert.equal([status, /Africa\/Casablanca/.test(found)], ['warn', true], found)
  assert.not.match(found, /Europe\/Berlin|Asia\/Kathmandu|America\/New_York/)
})

analytics.after(closeAll)
analytics.run()
