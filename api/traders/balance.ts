// GET /v1/balance: read live from the broker, by a worker.
import { requireConnected } from '../../db/traders/accounts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { AccountQuery, Balance } from '../../schemas/traders/accounts.ts'
import type { Operation } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'

export const getBalance: Operation<{ query: AccountQuery }> = {
  name: 'getBalance',
  method: 'GET',
  path: '/v1/balance',
  tag: 'Accounts',
  summary: "The active account's balance",
  description: 'Read live from the broker for the active account.',
  auth: 'key',
  scope: 'trading:read',
  query: AccountQuery,
  response: Balance,
  batched: true,
  errors: ['TRADER_NOT_FOUND', 'BROKER_DISCONNECTED', 'BROKER_UPSTREAM'],
  async handle({ partner, query, signal, trace }, services): Promise<Balance> {
    const trading = await services.batched.trading({ partnerId: partner.partnerId, externalId: query.traderExternalId })
    if (!trading) throw new ApiError('TRADER_NOT_FOUND')
    const { account } = trading
    requireConnected(account)
    const { balance, currency } = await requestFromBroker<{ balance: string; currency: string }>(services, {
      partnerId: partner.partnerId,
      kind: 'balance',
      key: account.id,
      data: { accountRowId: account.id },
      signal,
      trace
    })
    return { accountId: account.accountId, accountMode: account.accountMode, balance: Number(balance), currency }
  }
}
