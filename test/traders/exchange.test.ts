// Tokens of several accounts in one exchange, beside what changes the same accounts.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { setBroker } from '../../db/partners/partners.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { closeAll, newAccountId, openHarness } from '../support/harness.ts'
import { countLockWaits, untilLockWaits } from '../support/lock-waits.ts'

const harness = await openHarness()
const { db } = harness.services

const exchanging = suite('an exchange of several tokens')

/** A trader with two proven accounts, by the order of their rows' ids; the first one's row is the last in the table. */
async function makeTwo() {
  const partner = await harness.makePartner()
  const accounts = [newAccountId(), newAccountId()].map(accountId => ({
    accountId,
    token: `sim-${accountId}`,
    accountMode: 'DEMO' as const
  }))
  const exchange = (named = accounts) =>
    partner.call(exchangeTokens, { body: { traderExternalId: 'two', accounts: named } })
  assert.is((await exchange()).status, 200)
  const own = () => db('broker_accounts').where({ partner_id: partner.partnerId })
  const [first, second] = await own().orderBy('id').select('id', 'account_id')
  for (const { id } of [second, first]) await own().where({ id }).update({ proven_version: 1 })
  const named = [second, first].map(({ account_id }) => accounts.find(({ accountId }) => accountId === account_id))
  return { partner, first, second, exchange: () => exchange(named as typeof accounts) }
}

/** Whether `work` has locked the second account while it waits for the first. */
async function locksSecond(
  { first, second }: { first: { id: string }; second: { id: string } },
  work: () => Promise<unknown>
): Promise<boolean> {
  const lock = (trx: Db, id: string) => trx('broker_accounts').where({ id }).forUpdate().skipLocked().first('id')
  const holding = await db.transaction()
  await lock(holding, first.id)
  const working = work()
  await untilLockWaits(db, { text: 'broker_accounts', work: working })
  assert.is(await countLockWaits(db, 'broker_accounts'), 1)
  const locked = (await lock(holding, second.id)) === undefined
  await holding.commit()
  await working
  return locked
}

exchanging('locks the accounts in the order in which a change of the broker does', async () => {
  const { partner, exchange, ...accounts } = await makeTwo()
  assert.is(await locksSecond(accounts, exchange), false)
  await db('broker_accounts').where({ partner_id: partner.partnerId }).update({ proven_version: null })
  for (const { id } of [accounts.second, accounts.first])
    await db('broker_accounts').where({ id }).update({ proven_version: 2 })
  const change = () => db.transaction(trx => setBroker(trx, partner.partnerId, { dialect: 'next', appId: 'app1' }))
  assert.is(await locksSecond(accounts, change), false)
})

exchanging.after(closeAll)
exchanging.run()
