// Real processes killed, frozen and cut off under load, for half a minute, then the auditor: no order twice, lost or
// late, and the money right. `make chaos` does the same for longer; this one has a fixed seed. In one dialect: the faults are
// of our processes. TEST_DIALECT=next tries the other.
// test in the full run only
// test time-out: 600 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { chaos } from '../chaos/chaos.ts'
import { findFaketime } from '../chaos/clocks.ts'
import { hasRedis } from '../chaos/stack.ts'
import { dialect } from '../support/dialects.ts'

const redis = hasRedis()
if (!redis) console.log('SKIPPED: Redis among the victims, there is no redis-server here')
const skewMs = findFaketime() ? 5000 : 0
if (skewMs === 0)
  console.log("SKIPPED: the workers' clocks off, there is no libfaketime here (Debian has it as libfaketime)")

const short = suite('chaos')

short('ends with every order once, in time, and its money right', async () => {
  const { violations, judgement, load, kills } = await chaos({
    seed: 20,
    orders: 100,
    // How many of these fall into the time there is depends on the machine.
    kills: 7,
    leastKills: 3,
    minutes: 0.25,
    workers: 2,
    accounts: 20,
    // Consumers of the stream, which have to receive everything, in order.
    sockets: 8,
    redis,
    skewMs,
    restartAll: true,
    dialect,
    keep: false,
    print: line => console.log(line.slice(0, 2000))
  })
  assert.equal(violations, [])
  assert.is(judgement.stillOpen, 0)
  assert.ok(kills >= 3)
  assert.ok(load.lives.filter(({ end }) => end === 'closed' || end === 'open').length > 0)
})

short.run()
