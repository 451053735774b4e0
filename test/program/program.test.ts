// The program of a partner's developer, unchanged, against the service.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 16, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const file = join(import.meta.dirname, 'trade.ts')

const program = suite('a program of fewer than 70 lines')

program('trades, waits for the end, and handles each refusal by its code', async () => {
  assert.ok(readFileSync(file, 'utf8').trimEnd().split('\n').length < 70)
  const run = async (accountId: string, token: string) => {
    const args = [file, harness.address, partner.key, `user-${accountId}`, accountId, token]
    return (await promisify(execFile)(process.execPath, args)).stdout.trim().split('\n')
  }
  const [one, other, third] = [newAccountId(), newAccountId(), newAccountId()]
  const [traded, unknown] = await run(one, `sim-${one}`)
  assert.match(traded as string, /^CLOSED -?\d/)
  assert.match(unknown as string, /^Change \/body\/asset: /)
  assert.is((await run(other, `sim-${other}-poor`))[2], 'Top up your account, or lower the stake.')
  assert.is((await run(third, 'refused-by-the-broker'))[0], 'Connect your broker account again.')
})

program.after(closeAll)
program.run()
