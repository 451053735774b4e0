// A broker account's session: the token is opened here, for one use, and a refusal of it is remembered.
import { findSealedToken, getSealedToken, learnCurrency, markRejected, unsealToken } from '../db/accounts.ts'
import { BrokerError, type Session } from './broker/port.ts'
import type { Open } from './open.ts'

/** Where an account is and under which application and dialect it is used. */
export interface AccountRef {
  accountRowId: string
  accountId: string
  appId: string
  dialect: string
}

/**
 * The account's session at the broker. Rejects with BrokerError; when the broker refuses the token the
 * account becomes REJECTED, unless a newer token came meanwhile.
 */
export async function openSession(
  { db, vault, brokers }: Pick<Open, 'db' | 'vault' | 'brokers'>,
  account: AccountRef
): Promise<Session> {
  let version: number | undefined
  try {
    return await brokers.of(account.dialect).session({
      accountId: account.accountId,
      appId: account.appId,
      // Live sessions are shared only within the row whose token opened them.
      credentialId: account.accountRowId,
      async token() {
        const sealed = await getSealedToken(db, account.accountRowId, account.dialect)
        version = sealed.version
        return unsealToken(vault, account.accountRowId, sealed)
      }
    })
  } catch (error) {
    if (error instanceof BrokerError && error.rejected && version !== undefined)
      await markRejected(db, account.accountRowId, {
        version,
        dialect: account.dialect,
        reason: error.reason ?? 'TOKEN_REFUSED'
      })
    throw error
  }
}

/** Remembers a token that the broker refused in the middle of a session; a newer one is not touched. */
export async function rejectToken(
  { db }: Pick<Open, 'db'>,
  { accountRowId, dialect }: Pick<AccountRef, 'accountRowId' | 'dialect'>,
  { reason }: Pick<BrokerError, 'reason'>
): Promise<void> {
  const sealed = await findSealedToken(db, accountRowId, dialect)
  if (!sealed) return
  await markRejected(db, accountRowId, { version: sealed.version, dialect, reason: reason ?? 'TOKEN_REFUSED' })
}

/** The account's currency: as it is known, else as the broker tells, and then remembered. */
export async function currencyOf(
  { db }: Pick<Open, 'db'>,
  session: Session,
  { accountRowId, currency }: { accountRowId: string; currency: string | null }
): Promise<string> {
  if (currency) return currency
  const told = await session.balance()
  await learnCurrency(db, accountRowId, told.currency)
  return told.currency
}
