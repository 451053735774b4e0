// The comparison with the broker's books: whose turn it is, and that no purchase is passed over.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type DueAccount, markCompared, takeDueAccounts } from '../db/contract-audit.ts'
import { auditContracts } from '../worker/audit.ts'
import { openBrokers } from '../worker/broker/brokers.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { systemClock } from '../worker/clock.ts'
import type { Open } from '../worker/open.ts'
import { brokerEnv } from './dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader } from './harness.ts'
import { insertOrderRows } from './order-rows.ts'

const simulator = await startSimulator({ tickMs: 100, seed: 5, limits: 'off' })
onClose(() => simulator.close())
// Of the two brokers one is down.
const harness = await openHarness({ env: { ...brokerEnv(simulator, 'v3'), BROKER_NEXT_URL: 'http://127.0.0.1:9' } })
const { db } = harness.open
// No worker runs, which would take turns of its own.
const brokers = openBrokers(harness.open.config, harness.open.log)
onClose(() => brokers.close())
const open: Open = { ...harness.open, brokers, worker: 'test', clock: systemClock }
const partner = await harness.makePartner()

/** A trader with an order placed just now. */
async function makeActive(): Promise<TestTrader> {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'failed' })
  return trader
}
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000)
const setTurns = (account: string, audited: Date | null, compared: Date | null = audited) =>
  db('broker_accounts').where({ account_id: account }).update({ audited_at: audited, compared_at: compared })
/** Nobody else's turn comes in what follows. */
const setAside = () => db('broker_accounts').update({ audited_at: new Date(), compared_at: new Date() })
const idsOf = (due: DueAccount[]) => due.map(({ accountId }) => accountId).sort()

const turns = suite('the turns of the audit')

turns('an account that could not be compared comes again soon, behind those that fell due before', async () => {
  await setAside()
  const [down, waiting, due] = [await makeActive(), await makeActive(), await makeActive()]
  await setTurns(down.accountId, minutesAgo(30))
  await setTurns(waiting.accountId, minutesAgo(16))
  await setTurns(due.accountId, minutesAgo(14))
  const take = (limit: number) => takeDueAccounts(db, { everyMinutes: 15, limit })
  assert.equal(idsOf(await take(1)), [down.accountId])
  const [taken, ...others] = await take(1)
  assert.equal([taken?.accountId, others], [waiting.accountId, []])
  await markCompared(db, taken as DueAccount)
  assert.equal(await take(9), [])

  // Six minutes later: one fell due five minutes ago, the one that was not compared a minute ago.
  await db.raw(`update broker_accounts set audited_at = audited_at - interval '6 minutes',
                                           compared_at = compared_at - interval '6 minutes'`)
  assert.equal(idsOf(await take(1)), [due.accountId])
  assert.equal(idsOf(await take(9)), [down.accountId])
})

turns('accounts of a broker that is down are left, after one look, for those of another', async () => {
  await setAside()
  const other = await harness.makePartner()
  await db('partners').where({ id: other.partnerId }).update({ broker_dialect: 'next', broker_app_id: 'app-7Q2' })
  for (let made = 0; made < 3; made++) await insertOrderRows(db, await other.makeTrader(), { phase: 'failed' })
  await makeActive()
  const warnings: unknown[] = []
  const log = {
    ...open.log,
    warn: (facts: unknown) => warnings.push(facts)
  } as unknown as Open['log']
  const { accounts, unreachable } = await auditContracts({ ...open, log }, { everyMinutes: 15 })
  assert.equal({ accounts, unreachable, warned: warnings.length }, { accounts: 1, unreachable: 3, warned: 1 })
})

turns.after(closeAll)
turns.run()
