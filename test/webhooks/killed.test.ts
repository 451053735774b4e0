// Webhooks while workers are killed: the short form of `make chaos-webhooks`.
// test in the full run only
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeAll, openHarness } from '../support/harness.ts'
import { storm } from './storm.ts'

const harness = await openHarness({
  env: { WEBHOOK_ALLOW_PRIVATE: '1', SWEEP_MS: '200', LEASE_MS: '2000' }
})

const killing = suite('workers that are killed')

killing('leave no event undelivered, none before the one it follows, and few that come twice', async () => {
  const { events, deliveries, again, refused, violations } = await storm({
    harness,
    seed: 23,
    workers: 2,
    kills: 2,
    endpoints: 3,
    failing: 1,
    orders: 200,
    killEveryMs: 1500
  })
  assert.equal(violations, [])
  assert.ok(events >= 400)
  assert.ok(refused > 0)
  // At most what is under way at a kill: a window of each endpoint.
  assert.ok(again <= 2 * 3 * 32, `${again} of ${deliveries} came again`)
})

killing.after(closeAll)
killing.run()
