// `make questions`: random questions over orders that keep closing late, while processes that add them up are killed, each held
// against a plain sum over the orders of its snapshot.
//   QUESTIONS  how many (10000)     ORDERS  orders to begin with (4000)     SEED  of the questions (1)
//   MINUTES    ends after so many minutes, however many questions those were (unbounded)
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { findAnalyticsDifferences } from '../../db/analytics/verify.ts'
import { closeAll, closeOnSignals, openHarness, type TestTrader } from '../support/harness.ts'
import { changeOrders, differencesOf, insertRandomOrders, questionOf, random } from './questions.ts'

closeOnSignals()

const setting = (name: string, otherwise: number) => Number(process.env[name] || otherwise)
const questionCount = setting('QUESTIONS', 10_000)
const seed = setting('SEED', 1)
const limitMs = setting('MINUTES', Number.POSITIVE_INFINITY) * 60_000
const DAYS = 200
const ADDERS = 2
const QUESTIONS_BETWEEN_KILLS = 25

const harness = await openHarness()
const { db } = harness.services
const partner = await harness.makePartner()
const traders: TestTrader[] = []
for (let i = 0; i < 20; i++) traders.push(await partner.makeTrader())
await insertRandomOrders(db, { traders, count: setting('ORDERS', 4000), days: DAYS })
await db.raw(
  `update analytics_until set until = date_bin('1 day', now() - interval '201 days', timestamptz '2000-01-01 00:00+00')`
)
await db.raw('update analytics_closes_until set until = u.until from analytics_until u')
await db.raw('delete from analytics_late_quarters')
await db.raw('delete from analytics_late_days')
await db.raw('delete from analytics_late_closes')

const adders: ChildProcess[] = []
const startAdder = () =>
  spawn(process.execPath, ['--require', './.node-version.cjs', join(import.meta.dirname, 'adder.ts')], {
    env: { ...process.env, DATABASE_URL: harness.url },
    stdio: ['ignore', 'ignore', 'inherit']
  })
for (let i = 0; i < ADDERS; i++) adders.push(startAdder())

const next = random(seed)
const startedAt = performance.now()
let [kills, differing] = [0, 0]
for (let done = 1, over = false; done <= questionCount && !over; done++) {
  over = done === questionCount || performance.now() - startedAt > limitMs
  if (done % 3 === 0) await changeOrders(db, partner, next)
  if (done % 50 === 0) await insertRandomOrders(db, { traders, count: 5, days: 1, seconds: 1800 })
  if (done % 200 === 0) await insertRandomOrders(db, { traders, count: 5, days: DAYS })
  if (done % QUESTIONS_BETWEEN_KILLS === 0) {
    const index = Math.floor(next() * adders.length)
    adders[index]?.kill('SIGKILL')
    adders[index] = startAdder()
    kills++
  }
  const question = questionOf(next, { partnerId: partner.partnerId, traders, days: DAYS, nowMs: Date.now() })
  const found = await differencesOf(db, question)
  if (found.length > 0) {
    differing++
    console.error(JSON.stringify({ question, found: found.slice(0, 5) }))
  }
  if (done % 100 === 0 || over)
    console.log(
      `${done} questions, ${kills} kills, ${differing} with a difference, ${Math.round((performance.now() - startedAt) / 1000)} s`
    )
}
for (const adder of adders) adder.kill('SIGKILL')
const wrong = await findAnalyticsDifferences(db, { from: new Date(Date.now() - 210 * 86_400_000), to: new Date() })
console.log(`sums that differ from the orders at the end: ${wrong.length}`)
await closeAll()
process.exit(differing + wrong.length === 0 ? 0 : 1)
