// A switchover and a killed primary of a Patroni cluster under load, then the audit; `make failover` does more of it.
// test in the full run only
// test time-out: 600 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isolated, whyNot } from '../failover/machines.ts'

const short = suite('failover')
const reason = whyNot()
if (reason) {
  console.log(`SKIPPED: failover by Patroni: ${reason}`)
  short('names why it cannot be tried here', () => assert.type(reason, 'string'))
} else {
  for (const kind of ['switchover'])
    short(`loses, doubles and delays nothing: ${kind}`, async () => {
      const env = { FAULTS: '1', ONLY: kind, SEED: '5', SOCKETS: '4', ACCOUNTS: '16', RATE: '8' }
      assert.is(await isolated(env), 0)
    })
}
short.run()
