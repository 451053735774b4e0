// `make outages`: PostgreSQL and Redis away for 30 s, the broker for a minute in both dialects, PostgreSQL's disk full,
// one after another. SECONDS_AWAY sets another length for all; ONLY=broker runs one; RATE is in orders a second.
import { parseArgs } from 'node:util'
import { type DialectName, dialects } from '../support/dialects.ts'
import { canMount, type Outage, openOutageStack, outages, runOutage } from './outages.ts'
import { hasRedis } from './stack.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.SEED ?? '1' },
    seconds: { type: 'string', default: process.env.SECONDS_AWAY },
    only: { type: 'string', default: process.env.ONLY },
    rate: { type: 'string', default: process.env.RATE ?? '20' }
  }
})
const usual = { postgres: 30, redis: 30, broker: 60, disk: 20 }
const redis = hasRedis()
let violations = 0
for (const outage of outages) {
  if (values.only && values.only !== outage) continue
  if (outage === 'redis' && !redis) console.log('SKIPPED: Redis away, there is no redis-server here')
  else if (outage === 'disk' && !canMount()) console.log('SKIPPED: disk full, only root can mount a small one')
  // Only the broker's absence depends on how it is spoken with.
  else
    for (const dialect of outage === 'broker' ? dialects : dialects.slice(0, 1))
      violations += await run(outage, dialect)
}
if (violations > 0) process.exitCode = 1

/** Returns how many violations there were. */
async function run(outage: Outage, dialect: DialectName): Promise<number> {
  const seed = Number(values.seed)
  const stack = await openOutageStack({
    seed,
    disk: outage === 'disk',
    redis: outage === 'redis',
    dialect,
    accounts: 60
  })
  let keep = true
  try {
    const report = await runOutage(stack, outage, {
      seed,
      awayMs: Number(values.seconds ?? usual[outage]) * 1000,
      aroundMs: 5000,
      ordersPerSecond: Number(values.rate),
      print: line => console.log(`${dialect}: ${line}`)
    })
    keep = report.violations.length > 0
    if (keep) console.log(`  logs are kept in ${stack.logs}`)
    return report.violations.length
  } finally {
    await stack.close(keep)
  }
}
