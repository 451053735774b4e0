// A whole part away for a few seconds under load: PostgreSQL, Redis, the broker, and PostgreSQL's disk full. Nothing
// accepted is lost, responses say what a client can do, and nothing of ours has to be started again. `make outages` does
// the same for longer. TEST_DIALECT=next tries the broker's absence in the other dialect.
// test in the full run only
// test time-out: 600 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { canMount, type Outage, openOutageStack, runOutage } from '../chaos/outages.ts'
import { hasRedis } from '../chaos/stack.ts'
import { dialect } from '../support/dialects.ts'
import { closeAll, onClose } from '../support/harness.ts'

// One stack for all outages; the one of the disk comes last. Only the broker's absence depends on how it is spoken with.
const all = dialect === 'v3'
const redis = all && hasRedis()
const disk = all && canMount()
if (all && !redis) console.log('SKIPPED: Redis away, there is no redis-server here')
if (all && !disk) console.log('SKIPPED: disk full, only root can mount a small one')
const stack = await openOutageStack({ seed: 4, disk, redis, dialect, accounts: 24 })
onClose(() => stack.close())

async function away(outage: Outage, awayMs: number): Promise<Record<string, number>> {
  const options = { seed: 4, awayMs, aroundMs: 1500, ordersPerSecond: 8, print: (line: string) => console.log(line) }
  const { violations, recoveredMs, responses } = await runOutage(stack, outage, options)
  assert.equal(violations, [])
  assert.type(recoveredMs, 'number')
  return responses
}

const count = (responses: Record<string, number>, pattern: RegExp) =>
  Object.entries(responses).reduce((sum, [name, number]) => (pattern.test(name) ? sum + number : sum), 0)

const outage = suite('without')

if (all)
  outage('PostgreSQL, requests get 503 or wait, and everything goes on when it is back', async () => {
    const responses = await away('postgres', 3000)
    assert.ok(count(responses, /^during: 503 UNAVAILABLE/) + count(responses, /^during: 200/) > 0)
  })

outage('the broker, requests get 502, and orders in doubt are resolved when it is back', async () => {
  const responses = await away('broker', 4000)
  assert.is(count(responses, /^during: 5(?!02)/), 0, JSON.stringify(responses))
})

if (redis)
  outage('Redis, orders are placed all the same', async () => {
    const responses = await away('redis', 3000)
    assert.ok(count(responses, /^during: 200/) > 0)
    // Wake-ups come late, and an order that nobody reached in time fails as such; nothing is refused.
    assert.is(count(responses, /^during: 503/), 0, JSON.stringify(responses))
  })

if (disk)
  outage('space on its disk, PostgreSQL loses nothing it had accepted', async () => {
    await away('disk', 3000)
  })

outage.after(closeAll)
outage.run()
