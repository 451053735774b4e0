// make chaos-webhooks: kill workers while ten endpoints, three of which fail now and then, get the events of orders; then judge the
// endpoints' own books. KILLS=, ORDERS=, ENDPOINTS=, WORKERS=, EVERY_MS= (between kills), SEED=.
import { closeAll, openHarness } from '../support/harness.ts'
import { storm } from '../webhooks/storm.ts'

const number = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)
const endpoints = number('ENDPOINTS', 10)
const say = (line: string) => process.stdout.write(`${line}\n`)

const harness = await openHarness({ env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200', LEASE_MS: '2000' } })
const options = {
  seed: number('SEED', Math.floor(Math.random() * 2 ** 31)),
  workers: number('WORKERS', 2),
  kills: number('KILLS', 1000),
  endpoints,
  failing: Math.ceil((endpoints * 3) / 10),
  orders: number('ORDERS', 20_000),
  killEveryMs: number('EVERY_MS', 1800)
}
say(`seed ${options.seed}`)
const begun = performance.now()
const report = await storm({ harness, ...options, say })
const { kills, events, deliveries, again, agesMs, mostAtOnce, refused, violations } = report
say(
  `${kills} kills in ${Math.round((performance.now() - begun) / 1000)} s; ${events} events, ${deliveries} deliveries, ${again} of them again ` +
    `(${((100 * again) / Math.max(1, deliveries)).toFixed(2)} %), ${refused} requests refused by the endpoints`
)
if (again > 0) {
  const percent = (below: number) => Math.round((100 * agesMs.filter(ms => ms < below).length) / again)
  say(
    `of those: ${percent(0)} % were under way at the kill; the others had been taken before it: ${percent(5)} % within 5 ms, ` +
      `${percent(20)} % within 20 ms, ${percent(50)} % within 50 ms; the most at one kill: ${mostAtOnce}`
  )
}
for (const words of violations) say(`VIOLATION: ${words}`)
say(violations.length === 0 ? 'every promise held' : `${violations.length} violations`)
await closeAll()
process.exitCode = violations.length === 0 ? 0 : 1
