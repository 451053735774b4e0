// test once for each dialect
// A token that the broker refuses after its end: the response and the account give the same reason.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 22, limits: 'off', timeScale: 100, magic: true })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), ORDER_TTL_MS: '60000' } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()

/** The stake on which the broker refuses the token of an open session. */
const REVOKING_STAKE = 4.1

async function exchange(token: (accountId: string) => string): Promise<string> {
  const [traderExternalId, accountId] = [`user-${randomUUID()}`, newAccountId()]
  const account = { accountId, token: token(accountId), accountMode: 'DEMO', tokenExpiresAt: '2023-11-14T22:13:20Z' }
  const { status } = await partner.call(exchangeTokens, { body: { traderExternalId, accounts: [account] } })
  assert.is(status, 200)
  return traderExternalId
}

async function refusedAs(
  traderExternalId: string,
  { status, body }: { status: number; body: { [name: string]: string } }
) {
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message ?? '', 'TOKEN_EXPIRED')
  const [account] = (await partner.call(listAccounts, { query: { traderExternalId } })).body.data
  assert.equal([account.status, account.reason], ['REJECTED', 'TOKEN_EXPIRED'])
}

const place = (traderExternalId: string, changes: object = {}) =>
  partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, { duration: 3, ...changes }) })

const refused = suite('a token that is refused after its end')

refused('is said to have expired by the first order', async () => {
  const traderExternalId = await exchange(accountId => `sim-${accountId}-x1700000000`)
  await refusedAs(traderExternalId, await place(traderExternalId))
})

refused('is said to have expired by the first balance', async () => {
  const traderExternalId = await exchange(accountId => `sim-${accountId}-x1700000000`)
  await refusedAs(traderExternalId, await partner.call(getBalance, { query: { traderExternalId } }))
})

refused('is said to have expired by the order that the broker refuses in an open session', async () => {
  const traderExternalId = await exchange(accountId => `sim-${accountId}`)
  await refusedAs(traderExternalId, await place(traderExternalId, { stake: REVOKING_STAKE }))
})

refused.after(closeAll)
refused.run()
