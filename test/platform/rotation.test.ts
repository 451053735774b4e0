// test in the full run only
// test time-out: 240 s
// Changing the key of the broker tokens while orders and exchanges run: nothing fails, the old key is needed no more.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startSimulator } from '../../worker/simulator/server.ts'
import { audit, booksOf, readOrders } from '../support/auditor.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness } from '../support/harness.ts'
import { rotateUnderLoad } from '../support/rotation.ts'

const simulator = await startSimulator({ tickMs: 20, seed: 21, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
const { db } = harness.services
const partner = await harness.makePartner()

const rotation = suite('the key of the broker tokens')

rotation('is changed while orders run: none fails, none is lost, and no token needs the old key', async () => {
  const { latencies: _, ...report } = await rotateUnderLoad({
    db,
    env: harness.env,
    newKey: `t2:${Buffer.alloc(32, 8).toString('base64')}`,
    key: partner.key,
    accounts: 480,
    rate: 15,
    callers: 8,
    pauseMs: 500,
    // Each is replaced by one that is there before it goes.
    processes: 1
  })
  const { failures, wrong, keyIds, orders, exchanges, beforeKill, resealed } = report
  assert.equal({ failures, wrong, keyIds }, { failures: [], wrong: [], keyIds: ['t2'] })
  assert.ok(orders > 20 && exchanges > 480 && beforeKill >= 100 && resealed > 0, JSON.stringify(report))
  const found = audit({ contracts: booksOf(simulator.ledger()), orders: await readOrders(db), lateToleranceMs: 0 })
  assert.equal(found.findings, [])
})

rotation.after(closeAll)
rotation.run()
