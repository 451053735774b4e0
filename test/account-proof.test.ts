// test once for each dialect
// What the broker says of an account decides: whether it is play money, its currency, and whose it is.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { exchangeTokens, listAccounts } from '../api/accounts.ts'
import { getBalance } from '../api/balance.ts'
import { placeBinaryOrder } from '../api/orders.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { brokerEnv } from './dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestPartner } from './harness.ts'
import { startTestWorker } from './processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 21, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()

interface Given {
  accountId: string
  token?: string
  accountMode?: 'DEMO' | 'REAL'
  currency?: string
}

/** Exchanges an account as it is said to be; answers the trader's external id. */
async function exchange(
  { accountId, token = `sim-${accountId}`, accountMode = 'DEMO', ...rest }: Given,
  traderExternalId = `user-${randomUUID()}`,
  by: TestPartner = partner
): Promise<string> {
  const body = { traderExternalId, accounts: [{ accountId, token, accountMode, ...rest }] }
  assert.is((await by.call(exchangeTokens, { body })).status, 200)
  return traderExternalId
}

const place = (traderExternalId: string, by: TestPartner = partner, changes: object = {}) =>
  by.call(placeBinaryOrder, {
    body: {
      traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      contractType: 'CALL',
      stake: 1,
      duration: 3,
      durationUnit: 't',
      ...changes
    }
  })
const accountOf = async (traderExternalId: string, by: TestPartner = partner) =>
  (await by.call(listAccounts, { query: { traderExternalId } })).body.data[0]
const contractsOf = (accountId: string) => simulator.ledger().filter(entry => entry.loginid === accountId)
const realId = () => newAccountId().replace('VRTC', 'CR')

const checking = suite('an account against what the broker says of it')

checking('is refused when it is real and was exchanged as DEMO, and nothing is bought', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId })
  const { status, body } = await place(traderExternalId)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'MODE_MISMATCH')
  const account = await accountOf(traderExternalId)
  assert.equal([account.status, account.reason], ['REJECTED', 'MODE_MISMATCH'])
  const balance = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(balance.status, 404)
  assert.match(balance.body.message, 'MODE_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
})

checking('is refused when it is play money and was exchanged as REAL, also by a balance', async () => {
  const traderExternalId = await exchange({ accountId: newAccountId(), accountMode: 'REAL' })
  const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'MODE_MISMATCH')
  assert.is((await accountOf(traderExternalId)).reason, 'MODE_MISMATCH')
})

checking('goes by the broker alone, whatever the id begins with', async () => {
  const [looksReal, looksDemo] = [realId(), newAccountId()]
  const demo = await exchange({ accountId: looksReal, token: `sim-${looksReal}-demo` })
  const real = await exchange({ accountId: looksDemo, token: `sim-${looksDemo}-real`, accountMode: 'REAL' })
  assert.equal([(await place(demo)).body.status, (await place(real)).body.status], ['CLOSED', 'CLOSED'])
  const wrong = await exchange({ accountId: looksDemo, token: `sim-${looksDemo}-real` })
  assert.match((await place(wrong)).body.message, 'MODE_MISMATCH')
})

checking('is refused when the currency given is not its own; where none was given, it takes the broker’s', async () => {
  const accountId = newAccountId()
  const token = `sim-${accountId}-EUR`
  const wrong = await exchange({ accountId, token, currency: 'USD' })
  const { status, body } = await place(wrong)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'CURRENCY_MISMATCH')
  assert.is((await accountOf(wrong)).reason, 'CURRENCY_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
  const silent = await exchange({ accountId, token })
  assert.is((await place(silent)).body.status, 'CLOSED')
  assert.is((await accountOf(silent)).currency, 'EUR')
})

checking('trades again once it is exchanged as it is', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId })
  assert.is((await place(traderExternalId)).status, 404)
  await exchange({ accountId, accountMode: 'REAL' }, traderExternalId)
  assert.is((await accountOf(traderExternalId)).reason, undefined)
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
})

checking('that was stored before it was ever compared is compared when it is opened next', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId, accountMode: 'REAL' })
  // As a process of the version before would have left it: said to be DEMO, and never compared.
  await harness.open.db('broker_accounts').where({ account_id: accountId }).update({ account_mode: 'DEMO' })
  assert.match((await place(traderExternalId)).body.message, 'MODE_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
})

checking("whose token belongs to another account is refused as not the token's", async () => {
  const other = newAccountId()
  const traderExternalId = await exchange({ accountId: newAccountId(), token: `sim-${other}` })
  assert.match((await place(traderExternalId)).body.message, 'ACCOUNT_NOT_FOUND')
  assert.is(contractsOf(other).length, 0)
})

checking.after(closeAll)
checking.run()
