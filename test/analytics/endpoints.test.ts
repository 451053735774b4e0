// The endpoints of analytics over HTTP: windows and what is wrong with them, currencies, what is unknown, CSV.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getActivity, getMarketplaceAnalytics } from '../../api/analytics/activity.ts'
import { getRevenue } from '../../api/analytics/revenue.ts'
import { getTraderAnalytics, listTraderAnalytics } from '../../api/analytics/traders.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { fund, makeBot } from '../support/marketplace-makers.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { address, services } = harness
const { db } = services
const partner = await harness.makePartner()
const [anna, ben] = [await partner.makeTrader(), await partner.makeTrader({ externalId: '=SUM(A1), "ben"' })]
const day = (n: number, time = '12:00:00') => `2026-10-0${n}T${time}.000Z`
const inOctober = { from: '2026-10-01T00:00:00Z', to: '2026-10-06T00:00:00Z', accountMode: 'DEMO' } as const

/** An order of 10, bought and closed then. */
async function trade(trader: TestTrader, at: string, changes: Record<string, unknown> = {}): Promise<void> {
  await insertOrderRows(db, trader, { at: new Date(at), pnl: '-10' })
  const [last] = await db('orders')
    .where({ trader_id: trader.traderId, opened_at: at })
    .orderBy('answered_at')
    .select('id')
  await db('orders')
    .where({ id: last.id })
    .update({ contract_type: 'CALL', markup: '0.3', answered_at: at, ...changes })
}
await trade(anna, day(1), { pnl: '9.5' })
await trade(anna, day(1, '23:30:00'))
await trade(ben, day(3), { markup: null })
await trade(ben, day(3, '12:00:01'), {
  currency: 'EUR',
  stake_in_account: '8.57',
  exchange_rate: '0.857',
  asset: 'R_50'
})

const windows = suite('a window of analytics')

for (const [query, path] of [
  [{ from: 'yesterday' }, '/query/from'],
  [{ from: '1999-12-31T00:00:00Z' }, '/query/from'],
  [{ from: '2026-10-02T00:00:00Z', to: '2026-10-02T00:00:00Z' }, '/query/from'],
  [{ from: '2024-01-01T00:00:00Z', to: '2026-10-02T00:00:00Z' }, '/query/from'],
  [{ from: '2026-09-01T00:00:00Z', to: '2026-10-05T00:00:00Z', interval: 'hour' }, '/query/from'],
  [{ timezone: 'Europe/Atlantis' }, '/query/timezone'],
  [{ timezone: 'EST' }, '/query/timezone'],
  [{ timezone: 'cet' }, '/query/timezone'],
  [{ timezone: 'IST' }, '/query/timezone'],
  [{ timezone: 'Abc+3' }, '/query/timezone'],
  [{ timezone: '+02:00' }, '/query/timezone'],
  [{ interval: 'minute' }, '/query/interval'],
  [{ accountMode: 'BOTH' }, '/query/accountMode']
] as const)
  windows(`is refused with ${JSON.stringify(query)}, and the parameter named`, async () => {
    for (const row of [getRevenue, listTraderAnalytics, getActivity]) {
      const { status, body } = await partner.call(row, { query })
      assert.equal([status, body.details?.[0].path], [400, path], row.name)
    }
  })

windows('begins and ends at moments in every form of ISO 8601 that other requests take', async () => {
  for (const from of ['2026-10-01T02:00:00+02', '2026-10-01t05:30:00.000+0530', '2026-09-30 23:00:00-01:00']) {
    const { status, body } = await partner.call(getRevenue, { query: { ...inOctober, from } })
    assert.equal([status, body.from], [200, '2026-10-01T00:00:00.000Z'], from)
  }
})

windows('is by default the last 30 days in UTC, of real money', async () => {
  const { body } = await partner.call(getRevenue, {})
  assert.equal([body.timezone, body.interval, body.data], ['UTC', 'day', []])
  assert.is(Date.parse(body.to) - Date.parse(body.from), 30 * 86_400_000)
  assert.ok(Math.abs(Date.parse(body.asOf) - Date.parse(body.to)) < 60_000)
})

windows('is by default to the present of the database, whatever the clock of the api shows', async () => {
  const other = await harness.makePartner()
  await trade(await other.makeTrader(), new Date().toISOString())
  const right = Date.now
  Date.now = () => right() - 3_600_000
  try {
    const { body } = await other.call(getRevenue, { query: { accountMode: 'DEMO' } })
    assert.is(
      body.data.reduce((sum: number, { contracts }: { contracts: number }) => sum + contracts, 0),
      1
    )
  } finally {
    Date.now = right
  }
})

windows(
  'is by default past what is committed, also where the broker is ahead of the clock of the database',
  async () => {
    const other = await harness.makePartner()
    const trader = await other.makeTrader()
    await trade(trader, new Date(Date.now() + 30_000).toISOString())
    const query = { accountMode: 'DEMO' } as const
    const total = (body: { data: Record<string, number>[] }, field: string) =>
      body.data.reduce((sum, row) => sum + (row[field] as number), 0)
    assert.is(total((await other.call(getRevenue, { query })).body, 'contracts'), 1)
    assert.is(total((await other.call(getActivity, { query })).body, 'placed'), 1)
    const { body } = await other.call(listTraderAnalytics, { query })
    assert.equal([total(body, 'trades'), body.complete], [1, true])
    // What was sold has the time of the primary, ahead of the clock of the standby that is read.
    const creator = await harness.makePartner()
    const earnings = `earnings:${creator.partnerId}`
    await db.raw(`insert into ledger_accounts (id) values ('world'), (?) on conflict do nothing`, [earnings])
    await db.raw(
      `with made as (
         insert into ledger_transfers (id, reference, kind, amount, created_at) values (:earnings, :earnings, 'sale', 5, now() + interval '30 s') returning id
       )
       insert into ledger_entries (account_id, version, transfer_id, amount, balance)
       select a.account, 0, made.id, a.amount, 0 from made cross join (values (:earnings, 5), ('world', -5)) a (account, amount)`,
      { earnings }
    )
    assert.is(total((await creator.call(getMarketplaceAnalytics)).body, 'sales'), 1)
    // No clock is ahead by so much: a window up to now is no longer for it.
    await trade(trader, new Date(Date.now() + 86_400_000).toISOString())
    const far = (await other.call(getRevenue, { query })).body
    assert.equal([total(far, 'contracts'), Date.parse(far.to) < Date.now() + 60_000], [1, true])
  }
)

windows('is over a few seconds after its end, when what the broker states in whole seconds is there', async () => {
  const other = await harness.makePartner()
  const overAfter = async (ms: number) => {
    const query = { to: new Date(Date.now() - ms).toISOString() }
    const found = await Promise.all(
      [getRevenue, listTraderAnalytics, getActivity, getMarketplaceAnalytics].map(row => other.call(row, { query }))
    )
    return new Set(found.map(({ body }) => body.complete))
  }
  assert.equal(await overAfter(500), new Set([false]))
  assert.equal(await overAfter(60_000), new Set([true]))
})

const revenue = suite('revenue')

revenue('has every bucket and a row for each currency, with zeros', async () => {
  const { body } = await partner.call(getRevenue, { query: inOctober })
  assert.is(body.data.length, 10)
  const zero = {
    contracts: 0,
    traders: 0,
    stake: 0,
    payout: 0,
    markup: 0,
    markupUnknown: 0,
    commission: 0,
    tradersPnl: 0
  }
  const start = '2026-10-01T00:00:00.000Z'
  assert.equal(body.data.slice(0, 2), [
    { start, currency: 'EUR', ...zero },
    {
      start,
      currency: 'USD',
      ...zero,
      contracts: 2,
      traders: 1,
      stake: 20,
      payout: 19.5,
      markup: 0.6,
      tradersPnl: -0.5
    }
  ])
  const third = '2026-10-03T00:00:00.000Z'
  assert.equal(body.data.slice(4, 6), [
    { start: third, currency: 'EUR', ...zero, contracts: 1, traders: 1, stake: 8.57, markup: 0.3, tradersPnl: -10 },
    { start: third, currency: 'USD', ...zero, contracts: 1, traders: 1, stake: 10, markupUnknown: 1, tradersPnl: -10 }
  ])
  assert.is(body.complete, false, 'a markup is not known')
})

revenue('begins days by the clocks of the zone, and the first bucket with from', async () => {
  const query = { ...inOctober, from: '2026-10-01T06:00:00Z', timezone: 'Asia/Kathmandu', currency: 'USD' }
  const { body } = await partner.call(getRevenue, { query })
  assert.equal(
    body.data.slice(0, 3).map(({ start, contracts }: { start: string; contracts: number }) => [start, contracts]),
    [
      ['2026-10-01T06:00:00.000Z', 1],
      ['2026-10-01T18:15:00.000Z', 1],
      ['2026-10-02T18:15:00.000Z', 1]
    ]
  )
})

revenue('takes every name of one word of which PostgreSQL has the clocks of this process', async () => {
  // Debian's PostgreSQL reads the system's folder of zones, in which two links have no name of IANA.
  const { rows: zones } = await db.raw(
    `select name from pg_timezone_names where name !~ '/' and name not in ('localtime', 'posixrules') order by name`
  )
  const window = { ...inOctober, from: '2026-09-30T12:00:00Z', to: '2026-10-04T12:00:00Z', currency: 'USD' }
  const refused: string[] = []
  for (const { name } of zones) {
    const { status, body } = await partner.call(getRevenue, { query: { ...window, timezone: name } })
    if (status === 400) refused.push(name)
    else assert.is(body.data[1].start, localMidnight(body.data[1].start, name), name)
  }
  assert.equal(refused, ['CET', 'EET', 'EST', 'Factory', 'HST', 'MET', 'MST', 'WET'])
  const { body } = await partner.call(getRevenue, { query: { timezone: 'EST' } })
  assert.match(body.details[0].message, /abbreviation/)
})

/** The same instant, if clocks of the zone show midnight at it by the data of this process. */
function localMidnight(instant: string, timeZone: string): string | undefined {
  const shown = new Intl.DateTimeFormat('en', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  return shown.format(new Date(instant)) === '00:00' ? instant : undefined
}

revenue('refuses a zone that this process knows and PostgreSQL does not', async () => {
  const { status, body } = await partner.call(getRevenue, { query: { timezone: 'US/Pacific-New' } })
  assert.equal([status, body.details[0].path], [400, '/query/timezone'])
  assert.match(body.details[0].message, /known here/)
})

revenue('groups by what occurs, and is complete once all of the window is known', async () => {
  const query = { ...inOctober, groupBy: 'asset', interval: 'month' } as const
  const { body } = await partner.call(getRevenue, { query })
  const groups = body.data.map(({ currency, group, contracts }: Record<string, unknown>) => [
    currency,
    group,
    contracts
  ])
  assert.equal(groups, [
    ['EUR', 'R_50', 1],
    ['USD', 'R_100', 3]
  ])
  const first = { ...inOctober, to: '2026-10-02T00:00:00Z' }
  assert.is((await partner.call(getRevenue, { query: first })).body.complete, true)
  await insertOrderRows(db, anna, { at: new Date(day(1)), phase: 'open' })
  const open = await partner.call(getRevenue, { query: first })
  assert.equal([open.body.complete, open.body.data[0].contracts], [false, 3], 'a contract is open')
  await db('orders').where({ trader_id: anna.traderId, phase: 'open' }).delete()
})

revenue('is not complete while an order is in doubt that was sent at its time, however old the order is', async () => {
  const window = { ...inOctober, to: '2026-10-02T00:00:00Z' }
  const completeNow = async () =>
    (await Promise.all([getRevenue, listTraderAnalytics].map(row => partner.call(row, { query: window })))).map(
      ({ body }) => body.complete
    )
  assert.equal(await completeNow(), [true, true])
  await insertOrderRows(db, anna, { at: new Date('2026-08-01T00:00:00Z'), phase: 'queued' })
  const sent = (at: string) => ({ sent_at: at, permit_until: at, expires_at: at, resolve_at: new Date() })
  const again = () => db('orders').where({ trader_id: anna.traderId }).whereIn('phase', ['queued', 'sending'])
  await again().update({ phase: 'sending', attempt: 2, ...sent(day(1)) })
  assert.equal(await completeNow(), [false, false])
  await again().update(sent(day(5)))
  assert.equal(await completeNow(), [true, true])
  await again().delete()
})

revenue('counts what was committed in the first response after the commit', async () => {
  const query = { accountMode: 'DEMO' } as const
  const last = async () => (await partner.call(getRevenue, { query })).body.data.at(-1)
  for (let count = 1; count <= 3; count++) {
    await insertOrderRows(db, anna, { at: new Date(Date.now() - 1000) })
    assert.is((await last()).contracts, count)
  }
  await db('orders').where('opened_at', '>', new Date('2026-10-10')).delete()
})

const traders = suite('traders')

traders('are listed by what they made, a page at a time', async () => {
  const query = { ...inOctober, sort: 'pnl', limit: 1 } as const
  const first = (await partner.call(listTraderAnalytics, { query })).body
  assert.equal(first.data, [
    {
      traderExternalId: anna.traderExternalId,
      currency: 'USD',
      trades: 2,
      won: 1,
      winRatePct: 50,
      stake: 20,
      payout: 19.5,
      pnl: -0.5,
      markup: 0.6,
      markupUnknown: 0,
      copied: 0,
      firstTradeAt: day(1),
      lastTradeAt: day(1, '23:30:00')
    }
  ])
  const second = (await partner.call(listTraderAnalytics, { query: { ...query, cursor: first.nextCursor } })).body
  assert.equal([second.data[0].traderExternalId, second.nextCursor], [ben.traderExternalId, null])
  const other = await partner.call(listTraderAnalytics, {
    query: { ...query, sort: 'volume', cursor: first.nextCursor }
  })
  assert.equal([other.status, other.body.details[0].path], [400, '/query/cursor'])
  // More seconds than PostgreSQL counts.
  for (const seconds of ['999999999999', '-9999999999999', `${'9'.repeat(30)}.5`]) {
    const cursor = Buffer.from(JSON.stringify(['lastTradeAt', seconds, ben.traderId])).toString('base64url')
    const never = await partner.call(listTraderAnalytics, { query: { ...query, sort: 'lastTradeAt', cursor } })
    assert.equal([never.status, never.body.details?.[0].path], [400, '/query/cursor'], seconds)
  }
})

traders('are not complete while a contract is open of which nobody knows whether it had ended by then', async () => {
  const window = { ...inOctober, from: '2026-10-01T00:00:00Z', to: '2026-10-02T00:00:00Z', currency: 'USD' }
  const params = { traderExternalId: anna.traderExternalId }
  const completeNow = async () => [
    (await partner.call(listTraderAnalytics, { query: window })).body.complete,
    (await partner.call(getTraderAnalytics, { params, query: window })).body.complete
  ]
  const contract = () => db('orders').where({ trader_id: anna.traderId, phase: 'open' })
  await insertOrderRows(db, anna, { at: new Date(day(1, '20:00:00')), phase: 'open' })
  const after = day(1, '23:59:59')
  for (const [what, facts, complete] of [
    ['ticks end whenever they end', { duration: 5, duration_unit: 't', marked_at: day(2) }, false],
    ['its end is after the window, and it was open then', { expiry_at: day(3), marked_at: day(2) }, true],
    ['its end is in the window', { expiry_at: after, marked_at: day(2) }, false],
    ['it may have been sold in the window', { expiry_at: day(3), marked_at: after }, false],
    ['nobody has seen it since', { expiry_at: day(3), marked_at: null }, false],
    ['a multiplier was open then', { expiry_at: null, kind: 'MULTIPLIER', marked_at: day(2) }, true],
    ['how it ended is being reviewed', { marked_at: day(2), error_code: 'REVIEW_REQUIRED' }, false],
    ['it was bought after the window', { opened_at: day(2), error_code: null, marked_at: null }, true]
  ] as const) {
    await contract().update(facts)
    assert.equal(await completeNow(), [complete, complete], what)
  }
  await contract().delete()
})

traders('are shown one by one, by currency and by bucket', async () => {
  const params = { traderExternalId: ben.traderExternalId }
  const { body } = await partner.call(getTraderAnalytics, { params, query: inOctober })
  assert.equal(
    body.data.map(({ currency, trades }: Record<string, unknown>) => [currency, trades]),
    [
      ['EUR', 1],
      ['USD', 1]
    ]
  )
  assert.equal(
    body.series.map(({ start, currency, pnl }: Record<string, unknown>) => [start, currency, pnl]),
    [
      ['2026-10-03T00:00:00.000Z', 'EUR', -10],
      ['2026-10-03T00:00:00.000Z', 'USD', -10]
    ]
  )
  assert.is((await partner.call(getTraderAnalytics, { params: { traderExternalId: 'nobody' } })).status, 404)
})

const activity = suite('activity')

activity('shows who placed orders, what failed and why, and how fast the broker responded', async () => {
  await insertOrderRows(db, anna, { at: new Date(day(4)), phase: 'failed' })
  await db('orders')
    .where({ trader_id: ben.traderId })
    .update({ sent_at: db.raw(`answered_at - interval '150 milliseconds'`) })
  const { data, complete } = (await partner.call(getActivity, { query: inOctober })).body
  const none = { activeTraders: 0, newTraders: 0, returningTraders: 0, placed: 0, failed: 0, failedBy: {}, inDoubt: 0 }
  const silent = { answerMs: { p50: null, p99: null } }
  assert.equal(
    data.map(({ start: _, ...row }: { start: string }) => row),
    [
      { ...none, activeTraders: 1, newTraders: 1, placed: 2, ...silent },
      { ...none, ...silent },
      { ...none, activeTraders: 1, newTraders: 1, placed: 2, answerMs: { p50: 150, p99: 150 } },
      {
        ...none,
        activeTraders: 1,
        returningTraders: 1,
        placed: 1,
        failed: 1,
        failedBy: { BROKER_UPSTREAM: 1 },
        ...silent
      },
      { ...none, ...silent }
    ]
  )
  assert.is(complete, true)
})

activity('is not complete while an order that failed may be repeated, for an hour', async () => {
  const completeNow = async () => (await partner.call(getActivity, { query: inOctober })).body.complete
  const failed = () => db('orders').where({ trader_id: anna.traderId, phase: 'failed' })
  await failed().update({ retryable: true, queued_at: new Date() })
  assert.is(await completeNow(), false)
  await failed().update({ queued_at: new Date(Date.now() - 3_700_000) })
  assert.is(await completeNow(), true)
  await failed().update({ retryable: false, queued_at: new Date() })
  assert.is(await completeNow(), true)
})

const marketplace = suite('the marketplace')

marketplace('shows what bots brought, from the ledger', async () => {
  const buyer = await harness.makePartner()
  await fund(harness, buyer, '100')
  const botId = await makeBot(partner, { oneTimePriceUsd: 10, monthlyPriceUsd: 5 })
  await buyer.call(purchaseBot, { params: { id: botId } })
  await buyer.call(subscribeToBot, { params: { id: botId } })
  const { data } = (await partner.call(getMarketplaceAnalytics, { query: { interval: 'month' } })).body
  const { start: _, ...last } = data.at(-1)
  assert.equal(last, { sales: 1, subscriptions: 1, refunds: 0, grossUsd: 15, feesUsd: 3, netUsd: 12 })
})

const csv = suite('CSV')
const csvOf = async (path: string, query: Record<string, string>, accept = 'text/csv') => {
  const headers = { authorization: `Bearer ${partner.key}`, accept }
  const response = await fetch(`${address}${path}?${new URLSearchParams(query)}`, { headers })
  return { response, lines: (await response.text()).split('\r\n') }
}

csv('has a header line, the rows, and in header fields what is not in the rows', async () => {
  const { response, lines } = await csvOf('/v1/analytics/revenue', {
    ...inOctober,
    groupBy: 'asset',
    interval: 'month'
  })
  assert.match(response.headers.get('content-type') ?? '', /^text\/csv/)
  assert.is(response.headers.get('x-complete'), 'false')
  assert.ok(Date.parse(response.headers.get('x-as-of') ?? '') > Date.now() - 60_000)
  assert.equal(lines.slice(0, 2), [
    'start,currency,group,contracts,traders,stake,payout,markup,markupUnknown,commission,tradersPnl',
    '2026-10-01T00:00:00.000Z,EUR,R_50,1,1,8.57,0,0.3,0,0,-10'
  ])
  assert.not.match((await csvOf('/v1/analytics/revenue', inOctober)).lines[0] ?? '', 'group')
})

csv('quotes text, and keeps a program from taking it for a formula', async () => {
  const { response, lines } = await csvOf('/v1/analytics/traders', { ...inOctober, sort: 'lastTradeAt', limit: '1' })
  assert.match(lines[1] ?? '', /^"'=SUM\(A1\), ""ben""",USD,1,/)
  assert.ok(response.headers.get('x-next-cursor'))
  const activities = await csvOf('/v1/analytics/activity', inOctober)
  assert.match(activities.lines[0] ?? '', /failedBy,inDoubt,answerMs\.p50,answerMs\.p99$/)
  assert.match(activities.lines[4] ?? '', /,"\{""BROKER_UPSTREAM"":1\}",0,,$/)
})

csv('takes no wide form of a character that begins a formula for harmless', async () => {
  const names = ['\uFF1D1', '\uFF0B1', '\uFF0D1+1', '\uFF20SUM(A1)']
  const wide = await Promise.all(names.map(externalId => partner.makeTrader({ externalId })))
  for (const trader of wide) await trade(trader, day(2), { currency: 'GBP' })
  const { lines } = await csvOf('/v1/analytics/traders', { ...inOctober, currency: 'GBP' })
  assert.equal(
    lines
      .slice(1, -1)
      .map(line => line.split(',')[0])
      .sort(),
    names.map(name => `'${name}`).sort()
  )
  for (const { traderId } of wide) await db('orders').where({ trader_id: traderId }).delete()
})

csv('has small amounts of coins as numbers, which are no formulas', async () => {
  const small = await partner.makeTrader({ externalId: '-5' })
  await trade(small, day(2), { currency: 'BTC', stake: '0.0000005', buy_price: '0.0000005', pnl: '-0.0000005' })
  const [json, { lines }] = await Promise.all([
    partner.call(getRevenue, { query: { ...inOctober, currency: 'BTC', interval: 'month' } }),
    csvOf('/v1/analytics/revenue', { ...inOctober, currency: 'BTC', interval: 'month' })
  ])
  assert.is(json.body.data[0].tradersPnl, -0.0000005)
  assert.is(lines[1], '2026-10-01T00:00:00.000Z,BTC,1,1,5e-7,0,0.3,0,0,-5e-7')
  await db('orders').where({ trader_id: small.traderId }).delete()
})

csv('comes only to those who prefer it, and refusals are JSON', async () => {
  for (const accept of ['*/*', 'application/json', 'application/json, text/csv;q=0.5'])
    assert.match(
      (await csvOf('/v1/analytics/revenue', inOctober, accept)).response.headers.get('content-type') ?? '',
      'json'
    )
  const { response, lines } = await csvOf('/v1/analytics/revenue', { timezone: 'Nowhere/Land' })
  assert.equal([response.status, JSON.parse(lines[0] ?? '').error], [400, 'VALIDATION_FAILED'])
})

csv.after(closeAll)
windows.run()
revenue.run()
traders.run()
activity.run()
marketplace.run()
csv.run()
