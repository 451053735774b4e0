// Running totals of traders at steps: pages of traders are sums over the orders whatever the totals have, and what changes beside them.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closesKey, closesOfClosed, lists } from '../../db/analytics/closes.ts'
import { closedContractsOf } from '../../db/analytics/contracts.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { listTraderSums } from '../../db/analytics/trader-pages.ts'
import { traderSorts } from '../../db/analytics/traders.ts'
import { findAnalyticsDifferences } from '../../db/analytics/verify.ts'
import { rows } from '../../db/postgres/connection.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { differencesOf, forgetSums, insertRandomOrders } from './questions.ts'

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()
const traders: TestTrader[] = []
for (let i = 0; i < 8; i++) traders.push(await partner.makeTrader())

const addUp = async () => {
  // A step for every few contracts.
  while (await addUpAnalytics(db, { spacing: 3 }));
}
const forget = () => forgetSums(db, '61 days')
const verify = () => findAnalyticsDifferences(db, { from: new Date(Date.now() - 62 * 86_400_000), to: new Date() })

const totals = suite('running totals of traders')

/** Each sort over windows that begin and end anywhere, against plain sums. */
const compareTraders = async (days = 55) => {
  const nowMs = Date.now()
  for (const accountMode of ['REAL', 'DEMO', 'ALL'] as const)
    for (const sort of traderSorts)
      for (const [back, until] of [
        [days, 0],
        [days / 2 + 0.3, days / 4 + 0.6]
      ] as const) {
        const window = { partnerId: partner.partnerId, timezone: 'UTC', interval: 'day', currency: 'USD' } as const
        const [from, to] = [back, until].map(ago => new Date(nowMs - ago * 86_400_000).toISOString()) as [
          string,
          string
        ]
        const question = { ...window, accountMode, from, to, kind: 'traders', groupBy: null, sort, trader: '' } as const
        assert.equal(await differencesOf(db, question), [], `${accountMode} by ${sort} from ${from} to ${to}`)
      }
}

totals('count what changed late once, before and after their lists are rebuilt', async () => {
  await insertRandomOrders(db, { traders, count: 400, days: 60 })
  await forget()
  await addUp()
  const [kept] = await rows<{ steps: number }>(db, 'select count(distinct at)::int as steps from analytics_steps')
  assert.ok(kept && kept.steps > 20, `${kept?.steps} steps`)
  // Of one with few trades: counted twice, they would move it up.
  await db.raw(`update orders set pnl = pnl + 1, markup = 0.5, closed_at = closed_at - interval '1 day'
                 where phase = 'closed' and closed_at < now() - interval '20 days'
                   and trader_id = (select trader_id from orders where phase = 'closed' group by trader_id order by count(*) limit 1)`)
  await compareTraders()
  await addUp()
  assert.ok(await db('analytics_step_changes').first())
  await compareTraders()
  assert.equal(await verify(), [])
})

totals('do not know when a trader closed last whose last close was moved', async () => {
  const own = await harness.makePartner()
  const firstMs = Math.floor(Date.now() / 86_400_000 - 9) * 86_400_000
  const at = (hour: number) => new Date(firstMs + hour * 3_600_000)
  const [moved, other] = [
    await own.makeTrader({ externalId: 'moved' }),
    await own.makeTrader({ externalId: 'other' })
  ] as const
  for (const hour of [12, 18]) await insertOrderRows(db, moved, { at: at(hour) })
  // A step follows after the third close.
  for (const hour of [15, 30, 31, 32]) await insertOrderRows(db, other, { at: at(hour) })
  await forget()
  await addUp()
  const window = {
    partnerId: own.partnerId,
    accountMode: 'DEMO',
    currency: 'USD',
    sort: 'lastTradeAt',
    limit: 10
  } as const
  const listed = async () =>
    (await listTraderSums(db, { ...window, from: at(0).toISOString(), to: at(24).toISOString() })).data.map(
      ({ traderExternalId }) => traderExternalId
    )
  assert.equal(await listed(), ['moved', 'other'])
  await db('orders')
    .where({ trader_id: moved.traderId, closed_at: at(18) })
    .update({ closed_at: at(13), opened_at: at(13) })
  assert.equal(await listed(), ['other', 'moved'])
  await addUp()
  assert.equal(await listed(), ['other', 'moved'])
  await db('orders').where({ partner_id: own.partnerId }).delete()
  await forget()
  await addUp()
})

totals('have what a process of the version before writes into the lists', async () => {
  await db.raw(
    `update orders set pnl = pnl - 2, closed_at = greatest(opened_at, closed_at - interval '2 hours') where phase = 'closed' and random() < 0.1`
  )
  const quarters = '(select distinct partner_id, quarter from analytics_late_closes)'
  await db.raw(`delete from analytics_closes where (partner_id, quarter) in ${quarters}`)
  // Traders have closes in the totals alone for a moment; what is in no list is read from the orders.
  await compareTraders()
  await db.raw(
    `with closed as (
       select o.* from ${quarters} l cross join ${closedContractsOf('l.partner_id', `closed_at >= l.quarter and closed_at < l.quarter + interval '15 minutes'`)}
     )
     insert into analytics_closes (${closesKey}, ${lists}) select ${closesKey}, ${lists} from (${closesOfClosed}) c`
  )
  await db.raw('delete from analytics_late_closes')
  await compareTraders()
  await addUp()
  await compareTraders()
  assert.equal(await verify(), [])
})

totals('are exact for amounts with many decimals, and for large ones', async () => {
  await db.raw(
    `update orders set pnl = case when n % 3 = 0 then pnl + 1e-12 when n % 3 = 1 then pnl + 123456789012 else pnl - 9000000 end,
            markup = case when n % 2 = 0 then 0.000000001 else markup end, stake_in_account = case when n % 5 = 0 then 7000000.000000001 else stake_in_account end
       from (select id, row_number() over (order by id) as n from orders where phase = 'closed') n where n.id = orders.id and n % 4 = 0`
  )
  await compareTraders()
  await forget()
  await addUp()
  assert.ok(await db('analytics_step_changes').where({ odd: true }).first())
  await compareTraders()
  assert.equal(await verify(), [])
})

totals('are made again where so much is beside them that reading it takes as long', async () => {
  await db.raw(
    `insert into analytics_step_changes
     select partner_id, account_mode, currency, quarter, n, false, 0, 0, 0, 0, 0, null, quarter
       from (select * from analytics_closes where partner_id = :partnerId order by quarter limit 1) c cross join generate_series(1000001, 1005001) n`,
    { partnerId: partner.partnerId }
  )
  await db.raw(
    `update orders set pnl = 0.5 where id = (select id from orders where phase = 'closed' and closed_at < now() - interval '3 days' limit 1)`
  )
  await addUp()
  assert.is(await db('analytics_step_changes').where('number', '>', 1_000_000).first(), undefined)
  await compareTraders()
  assert.equal(await verify(), [])
})

totals.after(closeAll)
totals.run()
