// Analytics of revenue and traders: whatever was added up beforehand, and whenever, a response is the sum over the orders.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { listTraderSums } from '../../db/analytics/trader-pages.ts'
import type { traderSorts } from '../../db/analytics/traders.ts'
import { findAnalyticsDifferences, markDifferences } from '../../db/analytics/verify.ts'
import { rows } from '../../db/postgres/connection.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { changeOrders, differencesOf, forgetSums, insertRandomOrders, questionOf, random } from './questions.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()
const traders: TestTrader[] = []
for (let i = 0; i < 8; i++) traders.push(await partner.makeTrader())
const DAYS = 60
// A step of running totals for every few contracts.
const STEP = { stepSeconds: 5 * 86_400, spacing: 3 }

const addUp = async () => {
  while (await addUpAnalytics(db, STEP));
}
const verify = () => findAnalyticsDifferences(db, { from: new Date(Date.now() - 62 * 86_400_000), to: new Date() })
const forget = (since: string) => forgetSums(db, since)

const questions = suite('random questions')

questions('have the sums of the orders, whatever was added up, while orders keep changing', async () => {
  const next = random(24)
  await insertRandomOrders(db, { traders, count: 400, days: DAYS })
  await forget('61 days')
  for (let turn = 0; turn < 40; turn++) {
    // Nothing, a part, and everything added up; marked as late; recomputed.
    if (turn % 5 > 1) await addUpAnalytics(db, STEP)
    if (turn === 25) await addUp()
    if (turn % 4 === 0) await changeOrders(db, partner, next)
    if (turn % 20 === 0) await insertRandomOrders(db, { traders, count: 10, days: 2, seconds: 1800 })
    const question = questionOf(next, { partnerId: partner.partnerId, traders, days: DAYS, nowMs: Date.now() })
    const found = await differencesOf(db, question)
    assert.equal(found, [], `${JSON.stringify(question)} turn ${turn}`)
  }
  await addUp()
  assert.equal(
    await rows(
      db,
      `select * from analytics_late_quarters union all select * from analytics_late_closes
        union all select partner_id, day::timestamptz from analytics_late_days
        union all select partner_id, day::timestamptz from analytics_late_day_traders`
    ),
    []
  )
  assert.equal(await verify(), [])
})

const ends = suite('the ends of a window of traders')

ends('take off whole days what lies before and after, and list nobody for that', async () => {
  const own = await harness.makePartner()
  const firstMs = Math.floor(Date.now() / 86_400_000 - 5) * 86_400_000
  const at = (day: number, hour: number) => new Date(firstMs + (24 * day + hour) * 3_600_000)
  const closed = async (externalId: string, closes: [day: number, hour: number, pnl: string][]) => {
    const trader = await own.makeTrader({ externalId })
    for (const [day, hour, pnl] of closes) await insertOrderRows(db, trader, { at: at(day, hour), pnl })
  }
  await closed('before', [[0, 1, '500']])
  await closed('before-and-within', [
    [0, 1, '100'],
    [0, 20, '1']
  ])
  await closed('within', [[1, 20, '5']])
  await closed('after', [[1, 23, '400']])
  await closed('unknown-markup', [[1, 10, '2']])
  await db('orders').where({ partner_id: own.partnerId, trader_external_id: 'within' }).update({ markup: '0.5' })
  await forget('61 days')
  await addUp()
  const listed = async (from: Date, to: Date, sort: (typeof traderSorts)[number]) => {
    const window = { from: from.toISOString(), to: to.toISOString(), accountMode: 'DEMO', currency: 'USD' } as const
    const { data } = await listTraderSums(db, { partnerId: own.partnerId, ...window, sort, limit: 10 })
    return data.map(({ traderExternalId, pnl }) => `${traderExternalId} ${pnl}`)
  }
  const within = ['within 5', 'unknown-markup 2', 'before-and-within 1']
  assert.equal(await listed(at(0, 2), at(1, 22), 'pnl'), within)
  assert.equal((await listed(at(0, 2), at(1, 22), 'lastTradeAt'))[2], within[2])
  // What is not known is no larger than what is.
  assert.equal(await listed(at(1, 2), at(1, 22), 'markup'), within.slice(0, 2))
})

ends('of a page are where the next one begins, however many decimals an amount has', async () => {
  const own = await harness.makePartner()
  const at = new Date(Date.now() - 3_600_000)
  const amounts = ['0.30000000000000000000000000000000001', '0.3', '-1e-40']
  for (const pnl of amounts) await insertOrderRows(db, await own.makeTrader(), { at, pnl })
  const window = { from: new Date(at.getTime() - 1000).toISOString(), to: new Date().toISOString(), currency: 'USD' }
  const listed: (string | undefined)[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = { partnerId: own.partnerId, ...window, accountMode: 'DEMO', sort: 'pnl', limit: 1 } as const
    const page = await listTraderSums(db, { ...query, ...(cursor ? { cursor } : {}) })
    listed.push(page.data[0]?.pnl)
    cursor = page.nextCursor
  }
  assert.equal(listed, [amounts[0], amounts[1], `-0.${'0'.repeat(39)}1`])
})

const parts = suite('parts of days of revenue')

parts('have the traders of their orders, from the start of a day and up to its end', async () => {
  const next = random(86)
  await insertRandomOrders(db, { traders, count: 600, days: 4 })
  await forget('61 days')
  await addUp()
  const nowMs = Date.now()
  const [kept] = await rows<{ days: number }>(db, 'select count(distinct day)::int as days from analytics_day_traders')
  assert.ok(kept && kept.days > 20, `${kept?.days} days`)
  const compare = async (turns: number) => {
    for (let turn = 0; turn < turns; turn++) {
      // Whole quarters, and parts of them whose contracts are compared with the traders of the rest.
      const grid = turn % 3 === 0 ? 900_000 : 1000
      const to = turn % 4 === 0 ? nowMs : Math.floor((nowMs - next() * 86_400_000) / grid) * grid
      const from = Math.floor((to - next() * 3 * 86_400_000) / grid) * grid - grid
      const window = {
        partnerId: partner.partnerId,
        timezone: 'UTC',
        interval: 'day',
        sort: 'pnl',
        trader: ''
      } as const
      for (const accountMode of ['REAL', 'DEMO', 'ALL'] as const) {
        const [fromAt, toAt] = [new Date(from).toISOString(), new Date(to).toISOString()]
        const question = {
          ...window,
          from: fromAt,
          to: toAt,
          kind: 'revenue',
          groupBy: null,
          currency: null,
          accountMode
        } as const
        assert.equal(await differencesOf(db, question), [], JSON.stringify(question))
      }
    }
  }
  await compare(16)
  // A day with late quarters; then one whose row another process has yet to make.
  await changeOrders(db, partner, next)
  await insertRandomOrders(db, { traders, count: 40, days: 3 })
  // Traders whose only contract of a quarter was moved out of it are no longer in it.
  await db.raw(
    `update orders set opened_at = opened_at - interval '5 days' where phase = 'closed' and opened_at > now() - interval '4 days' and random() < 0.4`
  )
  await compare(5)
  await db.raw("delete from analytics_day_traders where day > now() - interval '2 days'")
  await compare(5)
  await db.raw('insert into analytics_late_day_traders select distinct partner_id, day from analytics_days')
  await addUp()
  await compare(5)
})

const clock = suite('a clock of the database that went back')

clock('costs no contract: what is bought since is counted, and the sums are taken back', async () => {
  const own = await harness.makePartner()
  const trader = await own.makeTrader()
  const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000)
  for (const minutes of [45, 3 * 24 * 60]) await insertOrderRows(db, trader, { at: ago(minutes) })
  // As a process leaves it that added all up while the clock was two days ahead; nothing is newer than this.
  await db('orders').where('opened_at', '>', ago(40)).orWhere('closed_at', '>', ago(40)).delete()
  await forget('61 days')
  await addUp()
  const ahead = async () => {
    const until = {
      until: db.raw(`date_bin('15 minutes', now() + interval '2 days', timestamptz '2000-01-01 00:00+00')`)
    }
    await db('analytics_until').update(until)
    await db('analytics_closes_until').update(until)
  }
  await ahead()
  const compare = async () => {
    for (const kind of ['revenue', 'traders'] as const)
      for (const [from, to] of [
        [ago(60), new Date()],
        [ago(4 * 24 * 60), new Date()],
        [ago(4 * 24 * 60), new Date(Date.now() + 3 * 86_400_000)]
      ] as const) {
        const window = { partnerId: own.partnerId, timezone: 'UTC', interval: 'day', currency: 'USD' } as const
        const [first, last] = [from.toISOString(), to.toISOString()]
        const question = {
          ...window,
          from: first,
          to: last,
          accountMode: 'ALL',
          kind,
          groupBy: null,
          sort: 'pnl',
          trader: ''
        } as const
        assert.equal(await differencesOf(db, question), [], JSON.stringify(question))
      }
  }
  await insertOrderRows(db, trader, { at: ago(1), count: 2 })
  await compare()
  await addUp()
  const [reached] = await rows<{ until: Date }>(
    db,
    'select greatest(u.until, c.until) as until from analytics_until u, analytics_closes_until c'
  )
  assert.ok(reached && reached.until < ago(5), `${reached?.until.toISOString()} is where changes are marked`)
  await compare()
  assert.equal(await verify(), [])
  // What the tests below spoil is of one partner: whichever row comes first.
  await db('orders').whereNot({ partner_id: partner.partnerId }).delete()
  await forget('61 days')
  await addUp()
  assert.equal(await verify(), [])
})

const verifying = suite('verifying the sums')

for (const [what, spoil, named] of [
  [
    'an amount of a quarter',
    `update analytics_quarters set markup = markup + 0.01 where ctid = (select ctid from analytics_quarters limit 1)`,
    'quarter'
  ],
  [
    'a trader of a quarter',
    `update analytics_quarters set traders = traders || 999999 where ctid = (select ctid from analytics_quarters limit 1)`,
    'quarter'
  ],
  [
    'a day',
    `update analytics_days set traders = traders + 1 where ctid = (select ctid from analytics_days limit 1)`,
    'day'
  ],
  [
    'when a trader bought first on a day',
    `update analytics_day_traders set firsts[1] = firsts[1] + 1 where ctid = (select ctid from analytics_day_traders where partner_id = '${partner.partnerId}' limit 1)`,
    'dayTraders'
  ],
  [
    'a day without its traders',
    `delete from analytics_day_traders where ctid = (select ctid from analytics_day_traders where partner_id = '${partner.partnerId}' limit 1)`,
    'dayTraders'
  ],
  [
    "a trader's day",
    `delete from analytics_trader_days where ctid = (select ctid from analytics_trader_days limit 1)`,
    'traderDay'
  ],
  [
    'a running total',
    `update analytics_step_totals set pnl[1] = pnl[1] + 1 where ctid = (select ctid from analytics_step_totals order by at limit 1)`,
    'total'
  ],
  [
    'when a trader of the totals closed last',
    `update analytics_step_totals set last_at[1] = last_at[1] + interval '1 second' where ctid = (select ctid from analytics_step_totals order by at limit 1)`,
    'total'
  ],
  [
    'a step without its totals',
    'delete from analytics_step_totals where ctid = (select ctid from analytics_step_totals order by at offset 3 limit 1)',
    'total'
  ],
  [
    'the unknown markups of a step',
    'update analytics_steps set markup_unknown = markup_unknown + 1 where ctid = (select ctid from analytics_steps order by at desc limit 1)',
    'total'
  ],
  [
    'an amount of a list of closes',
    `update analytics_closes set pnl[1] = pnl[1] + 0.01 where ctid = (select ctid from analytics_closes limit 1)`,
    'closes'
  ],
  [
    'a list of closes',
    `delete from analytics_closes where ctid = (select ctid from analytics_closes offset 3 limit 1)`,
    'closes'
  ]
] as const)
  verifying(`names ${what} that differs, with both sides`, async () => {
    await db.raw(spoil)
    const found = await verify()
    assert.ok(found.length > 0 && found.some(difference => difference.what === named), JSON.stringify(found))
    assert.is(found[0]?.partnerId, partner.partnerId)
    await markDifferences(db, found)
    await addUp()
    assert.equal(await verify(), [])
  })

verifying.after(closeAll)
questions.run()
ends.run()
parts.run()
clock.run()
verifying.run()
