// The token exchange, a trader's broker accounts, and which of them is active.

import { closeAtOnce } from '../../db/copy/closing.ts'
import { judgeMismatches } from '../../db/copy/fanout.ts'
import { requireRoom, requireWithin } from '../../db/platform/bounds.ts'
import {
  type AccountRecord,
  activateAccount as activate,
  listAccounts as list,
  lockBrokerAccounts,
  presentAccount,
  upsertAccount
} from '../../db/traders/accounts.ts'
import { storeRenewal } from '../../db/traders/token-renewal.ts'
import { connectTrader, getTrader, upsertTrader } from '../../db/traders/traders.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { readInstant } from '../../schemas/fields/instants.ts'
import {
  AccountList,
  AccountQuery,
  ActiveAccount,
  ActiveAccountChoice,
  Connection,
  Exchange,
  testAccountId
} from '../../schemas/traders/accounts.ts'
import type { Operation } from '../operation.ts'

export const exchangeTokens: Operation<{ body: Exchange }> = {
  name: 'exchangeTokens',
  method: 'POST',
  path: '/v1/auth/broker/exchange',
  tag: 'Accounts',
  summary: "Upload a trader's broker tokens",
  description:
    'Creates the trader on the first call for a traderExternalId; later calls replace the tokens they name and keep the others and the active account. The broker is not called: a wrong token shows as account status REJECTED once the broker refuses it.',
  auth: 'key',
  scope: 'trading:write',
  body: Exchange,
  response: Connection,
  atomic: true,
  errors: [],
  // Some ten statements in one transaction.
  weight: 3,
  async handle({ partner, body }, { db, vault }): Promise<Connection> {
    const named = body.accounts.map(({ accountId }) => accountId)
    const twice = named.findIndex((accountId, index) => named.indexOf(accountId) !== index)
    if (twice >= 0) {
      const details = [{ path: `/body/accounts/${twice}/accountId`, message: 'is named twice' }]
      throw new ApiError('VALIDATION_FAILED', `accountId ${named[twice]} is named twice`, { extras: { details } })
    }
    requireSide(partner.testOf !== null, named)
    const ends = body.accounts.map(({ tokenExpiresAt }, index) =>
      tokenExpiresAt === undefined ? undefined : readInstant(tokenExpiresAt, `/body/accounts/${index}/tokenExpiresAt`)
    )
    return db.transaction(async trx => {
      const { traderId, created } = await upsertTrader(trx, {
        partnerId: partner.partnerId,
        externalId: body.traderExternalId,
        email: body.email ?? null,
        name: body.name ?? null
      })
      // An existing trader (it signed up, or renews its tokens) takes no more room.
      if (created) await requireRoom(trx, 'traders', partner.partnerId)
      const known = await lockBrokerAccounts(trx, traderId, named)
      const accounts: AccountRecord[] = []
      let added = false
      for (const [index, { accountId, accountMode, currency, token, refreshToken }] of body.accounts.entries()) {
        const rowId = known.get(accountId)
        const account = await upsertAccount(trx, vault, {
          rowId,
          partnerId: partner.partnerId,
          traderId,
          accountId,
          accountMode,
          currency: currency ?? null,
          token
        })
        await storeRenewal(trx, vault, account.id, { refreshToken, expiresAt: ends[index] })
        // A new account has no orders to sell and was not counted yet.
        if (rowId === undefined) {
          await requireRoom(trx, 'partnerAccounts', partner.partnerId)
          added = true
        } else await closeAtOnce(trx, account.id)
        accounts.push(account)
      }
      if (added) await requireWithin(trx, 'accounts', traderId)
      const trader = await connectTrader(trx, traderId, (accounts[0] as AccountRecord).id)
      // Mode or currency of the active account may have changed.
      await judgeMismatches(trx, traderId)
      const active =
        accounts.find(({ id }) => id === trader.activeAccountId) ??
        (await list(trx, traderId)).find(({ id }) => id === trader.activeAccountId)
      return {
        traderId,
        activeAccountId: (active as AccountRecord).accountId,
        activeAccountMode: (active as AccountRecord).accountMode,
        connectedAt: (trader.connectedAt as Date).toISOString()
      }
    })
  }
}

// Accounts of the broker are shared by all partners that name them: those of the test broker differ in their ids.
function requireSide(test: boolean, named: string[]): void {
  const wrong = named.findIndex(accountId => (test ? !testAccountId.test(accountId) : accountId.startsWith('TST')))
  if (wrong < 0) return
  const message = test
    ? 'must be an account of the test broker: TST and 1 to 10 digits'
    : 'begins with TST, as accounts of the test broker do: use a test key'
  const details = [{ path: `/body/accounts/${wrong}/accountId`, message }]
  throw new ApiError('VALIDATION_FAILED', `/body/accounts/${wrong}/accountId ${message}`, { extras: { details } })
}

export const listAccounts: Operation<{ query: AccountQuery }> = {
  name: 'listAccounts',
  method: 'GET',
  path: '/v1/accounts',
  tag: 'Accounts',
  summary: "A trader's broker accounts",
  description: 'Every account that was exchanged for the trader, oldest first. Tokens are never returned.',
  auth: 'key',
  scope: 'trading:read',
  query: AccountQuery,
  response: AccountList,
  errors: ['TRADER_NOT_FOUND'],
  async handle({ partner, query }, { db }) {
    const trader = await getTrader(db, partner.partnerId, query.traderExternalId)
    const accounts = await list(db, trader.traderId)
    return { data: accounts.map(account => presentAccount(account, trader.activeAccountId)) }
  }
}

export const activateAccount: Operation<{ body: ActiveAccountChoice }> = {
  name: 'activateAccount',
  method: 'POST',
  path: '/v1/accounts/active',
  tag: 'Accounts',
  summary: "Switch a trader's active account",
  description: 'Later orders and balances use this account; orders placed before stay where they are.',
  auth: 'key',
  scope: 'trading:write',
  body: ActiveAccountChoice,
  response: ActiveAccount,
  atomic: true,
  errors: ['TRADER_NOT_FOUND', 'ACCOUNT_NOT_FOUND'],
  async handle({ partner, body }, { db }) {
    const { traderId } = await getTrader(db, partner.partnerId, body.traderExternalId)
    const account = await db.transaction(async trx => {
      const activated = await activate(trx, traderId, body.accountId)
      await judgeMismatches(trx, traderId)
      return activated
    })
    return { traderId, activeAccountId: account.accountId, activeAccountMode: account.accountMode }
  }
}
