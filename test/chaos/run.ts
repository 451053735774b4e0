// `make chaos`: real processes killed, frozen and cut off under load, then the auditor. Repeat the moments of a run
// with its seed: SEED=… make chaos. Options also as ORDERS, KILLS, MINUTES, WORKERS, ACCOUNTS, REDIS=off, KEEP=on,
// SOCKETS (consumers of the stream beside it; `make chaos-stream` has 200), BROKER_DIALECT=next, STRETCH=2 (all times
// twice as long, for a machine that cannot keep up), SKEW=5 (seconds that the workers' clocks are off at most, either
// way; 0 for right ones), RESTART=off (everything at once half-way, else).
import { parseArgs } from 'node:util'
import { dialects } from '../support/dialects.ts'
import { chaos } from './chaos.ts'
import { findFaketime } from './clocks.ts'
import { hasRedis } from './stack.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.SEED ?? String(Math.floor(Math.random() * 2 ** 31)) },
    orders: { type: 'string', default: process.env.ORDERS ?? '20000' },
    kills: { type: 'string', default: process.env.KILLS ?? '1000' },
    minutes: { type: 'string', default: process.env.MINUTES ?? '10' },
    sockets: { type: 'string', default: process.env.SOCKETS ?? '0' },
    workers: { type: 'string', default: process.env.WORKERS ?? '3' },
    accounts: { type: 'string', default: process.env.ACCOUNTS ?? '300' },
    dialect: { type: 'string', default: process.env.BROKER_DIALECT ?? 'v3' },
    stretch: { type: 'string', default: process.env.STRETCH ?? '1' },
    skew: { type: 'string', default: process.env.SKEW ?? '5' },
    restart: { type: 'string', default: process.env.RESTART ?? 'on' },
    redis: { type: 'string', default: process.env.REDIS ?? 'on' },
    keep: { type: 'boolean', default: process.env.KEEP === 'on' }
  }
})
const number = (
  name: 'seed' | 'orders' | 'kills' | 'minutes' | 'workers' | 'accounts' | 'sockets' | 'stretch' | 'skew'
) => {
  const value = Number(values[name])
  if (!Number.isFinite(value) || value < 0) throw new Error(`--${name} must be a number`)
  return value
}
const dialect = dialects.find(each => each === values.dialect)
if (!dialect) throw new Error(`--dialect must be ${dialects.join(' or ')}`)
const redis = values.redis !== 'off' && hasRedis()
if (values.redis !== 'off' && !redis) console.log('SKIPPED: Redis among the victims, there is no redis-server here')
const skewMs = findFaketime() ? number('skew') * 1000 : 0
if (number('skew') > 0 && skewMs === 0)
  console.log("SKIPPED: the workers' clocks off, there is no libfaketime here (Debian has it as libfaketime)")

const seed = number('seed')
console.log(
  `chaos: seed ${seed}, ${values.orders} orders, ${values.kills} kills and freezes in ${values.minutes} minutes`
)
const { violations } = await chaos({
  seed,
  orders: number('orders'),
  kills: number('kills'),
  minutes: number('minutes'),
  workers: number('workers'),
  accounts: number('accounts'),
  sockets: number('sockets'),
  redis,
  skewMs,
  restartAll: values.restart !== 'off',
  dialect,
  stretch: number('stretch'),
  keep: values.keep,
  print: line => console.log(line)
})
if (violations.length > 0) {
  console.error(`Seed ${seed}: ${violations.length} violations.`)
  process.exitCode = 1
}
