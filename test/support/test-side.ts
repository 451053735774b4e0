// The test side of a partner, called as a partner is.
import { randomUUID } from 'node:crypto'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { defaultScopes, type Scope } from '../../schemas/fields/scopes.ts'
import { call, type Harness, newAccountId, type TestPartner } from './harness.ts'

/** An account of the test broker that no other test uses. */
export const newTestAccountId = () => newAccountId().replace('VRTC', 'TST')

/** A key of the partner's test side; its traders have accounts of the test broker. */
export async function makeTestSide(
  { address, services: { db, pepper } }: Harness,
  partner: TestPartner,
  { scopes = defaultScopes }: { scopes?: readonly Scope[] } = {}
): Promise<TestPartner> {
  const { keyId, partnerId, key } = await db.transaction(trx =>
    insertKey(trx, pepper, { partnerId: partner.partnerId, label: null, scopes, test: true })
  )
  const side: TestPartner = {
    ...partner,
    partnerId,
    keyId,
    key,
    call: (row, input = {}) =>
      call(address, row, { ...input, headers: { authorization: `Bearer ${key}`, ...input.headers } }),
    async makeTrader({
      externalId = `user-${randomUUID()}`,
      accountId = newTestAccountId(),
      token = `sim-${accountId}`
    } = {}) {
      const { status, body } = await side.call(exchangeTokens, {
        body: { traderExternalId: externalId, accounts: [{ accountId, token, accountMode: 'DEMO', currency: 'USD' }] }
      })
      if (status !== 200) throw new Error(`exchange returned ${status}: ${JSON.stringify(body)}`)
      return { traderExternalId: externalId, traderId: body.traderId, accountId }
    }
  }
  return side
}
