// How fast the marketplace's list is, from 1 000 to 100 000 published bots, over real HTTP:
//   make bench BENCH_ONLY=marketplace, or node test/bench/marketplace.ts [bots ...]
// A kind of query per line: p50 and p95 of single requests, p95 with four at a time. Between requests of the
// mixed line a bot is sold and another one published now and then, which what is remembered has to follow.

import { publishBot } from '../../api/marketplace/creator.ts'
import { listMarketplaceBots } from '../../api/marketplace/listings.ts'
import { purchaseBot } from '../../api/marketplace/sales.ts'
import { categories, riskLevels, sorts } from '../../schemas/marketplace/marketplace.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { makeDraft, seedBots } from '../support/marketplace-makers.ts'

const sizes = process.argv.slice(2).map(Number)
if (sizes.length === 0) sizes.push(1000, 10_000, 100_000)
const ROUNDS = 200
const BATCH = 10_000

const harness = await openHarness()
const { db } = harness.services
const creator = await harness.makePartner()
const buyer = await harness.makePartner()
const pick = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T

const rare = ['amber', 'basalt', 'cobalt', 'dune', 'ember', 'fjord', 'garnet', 'harbor', 'indigo', 'juniper']
const common = ['trend', 'range', 'breakout', 'digit', 'candle', 'momentum', 'volatility', 'grid']

/** Published bots of many words. */
async function seed(count: number): Promise<void> {
  for (let done = 0; done < count; done += BATCH) {
    const facts = Array.from({ length: Math.min(BATCH, count - done) }, (_, i) => {
      const text = Array.from({ length: 40 }, () => `${pick(common)} ${pick(rare)}${Math.floor(Math.random() * 500)}`)
      const reviews = Math.floor(Math.random() * 50)
      return {
        name: `${pick(rare)} ${pick(common)} bot ${done + i}`,
        description: text.join(' ').slice(0, 400),
        long_description: text.join(' ').repeat(4).slice(0, 3000),
        category: pick(categories),
        risk_level: pick(riskLevels),
        strategy_type: pick(common),
        one_time_price: '0',
        code: 'on candle: sell\n'.repeat(200),
        rating_count: reviews,
        rating_sum: Math.floor(reviews * (1 + Math.random() * 4)),
        downloads: Math.floor(Math.random() ** 4 * 10_000)
      }
    })
    await seedBots(db, creator, facts)
  }
}

type Query = Record<string, string | number>
const kinds: Record<string, (size: number) => Query> = {
  'first page': () => ({ sort: pick(sorts) }),
  'any page': size => ({ sort: pick(sorts), page: 1 + Math.floor((Math.random() * size) / 20) }),
  category: () => ({ sort: pick(sorts), category: pick(categories) }),
  'category and risk': () => ({ sort: pick(sorts), category: pick(categories), riskLevel: pick(riskLevels) }),
  'rare word': () => ({ sort: pick(sorts), search: `${pick(rare)}${Math.floor(Math.random() * 500)}` }),
  'common word': () => ({ sort: pick(sorts), search: pick(common) }),
  'a word of every bot': () => ({ sort: pick(sorts), search: 'bot' }),
  'two words': () => ({ sort: pick(sorts), search: `${pick(rare)} ${pick(common)}` }),
  'word in category': () => ({ sort: pick(sorts), search: pick(rare), category: pick(categories) }),
  'deep page of a common word': size => ({ search: pick(common), page: 1 + Math.floor((Math.random() * size) / 40) }),
  'nothing found': () => ({ search: 'zzzz' }),
  '100 a page': () => ({ sort: pick(sorts), limit: 100 })
}

const headers = { authorization: `Bearer ${creator.key}` }

async function timed(query: Query): Promise<number> {
  const startedAt = performance.now()
  const search = new URLSearchParams(
    Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
  )
  const answer = await fetch(`${harness.address}/v1/marketplace/bots?${search}`, { headers })
  await answer.text()
  if (answer.status !== 200) throw new Error(`answered ${answer.status}`)
  return performance.now() - startedAt
}

const quantile = (times: number[], part: number) =>
  ([...times].sort((a, b) => a - b)[Math.ceil(times.length * part) - 1] as number).toFixed(1).padStart(7)

async function measure(query: () => Query, atATime: number): Promise<number[]> {
  const times: number[] = []
  const lane = async () => {
    while (times.length < ROUNDS) times.push(await timed(query()))
  }
  await Promise.all(Array.from({ length: atATime }, lane))
  return times
}

/** All kinds in turn, with a sale at every tenth request and a publication at every fiftieth. */
async function mixed(size: number): Promise<number[]> {
  const times: number[] = []
  const all = Object.values(kinds)
  for (let i = 0; i < ROUNDS * 2; i++) {
    if (i % 50 === 0) {
      const botId = await makeDraft(creator, { oneTimePriceUsd: 0 })
      await creator.call(publishBot, { params: { id: botId } })
    }
    if (i % 10 === 0) {
      const { body } = await creator.call(listMarketplaceBots, { query: { page: 1 + Math.floor(Math.random() * 40) } })
      await buyer.call(purchaseBot, { params: { id: body.data[0].botId } })
    }
    times.push(await timed((all[i % all.length] as (size: number) => Query)(size)))
  }
  return times
}

let seeded = 0
for (const size of sizes) {
  await seed(size - seeded)
  seeded = size
  for (let i = 0; i < 50; i++) await timed({})
  console.log(`\n${size} bots${' '.repeat(24 - String(size).length)}p50 ms  p95 ms  p95 ms, 4 at a time`)
  for (const [name, query] of Object.entries(kinds)) {
    const alone = await measure(() => query(size), 1)
    const four = await measure(() => query(size), 4)
    console.log(name.padEnd(28), quantile(alone, 0.5), quantile(alone, 0.95), quantile(four, 0.95))
  }
  const times = await mixed(size)
  console.log('all of these, with writes   ', quantile(times, 0.5), quantile(times, 0.95))
}
await closeAll()
