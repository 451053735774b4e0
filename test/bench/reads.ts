// How long the reads take that add up many rows: the leaderboard and the usage of one partner with a million
// orders closed within 30 days. Needs some minutes, most of them to insert.
//   node test/bench/reads.ts [orders] [traders]
import { getLeaderboard } from '../../api/community.ts'
import { getUsage } from '../../api/usage.ts'
import { closeAll, openHarness } from '../harness.ts'
import { insertOrderRows } from '../order-rows.ts'

const [orders = 1_000_000, traders = 1000] = process.argv.slice(2).map(Number)
const harness = await openHarness()
const { db } = harness.open
const partner = await harness.makePartner()
const perTrader = Math.ceil(orders / traders)
const startedAt = performance.now()
for (let i = 0; i < traders; i++) {
  const trader = await partner.makeTrader()
  await db('community_profiles').insert({ party_id: trader.traderId, partner_id: partner.partnerId, is_public: true })
  // In bites, spread over the month.
  for (let left = perTrader; left > 0; left -= 5000)
    await insertOrderRows(db, trader, {
      count: Math.min(left, 5000),
      pnl: String(i % 2 ? 9.53 : -10),
      at: new Date(Date.now() - (i % 29) * 86_400_000)
    })
}
await db('partners')
  .where({ id: partner.partnerId })
  .update({ period_start: new Date(Date.now() - 30 * 86_400_000) })
console.log(`${orders} orders of ${traders} traders inserted in ${seconds(performance.now() - startedAt)} s`)
await db.raw('vacuum analyze orders')

for (const row of [getLeaderboard, getUsage]) {
  const times: number[] = []
  for (let i = 0; i < 20; i++) {
    const before = performance.now()
    const { status } = await partner.call(row)
    if (status !== 200) throw new Error(`${row.name} answered ${status}`)
    times.push(performance.now() - before)
  }
  times.sort((a, b) => a - b)
  console.log(`${row.name}: median ${times[10]?.toFixed(1)} ms, slowest of 20 ${times[19]?.toFixed(1)} ms`)
}
await closeAll()

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1)
}
