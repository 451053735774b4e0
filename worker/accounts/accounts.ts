// A broker account's session: the token is decrypted here, for one use, and a refusal of it is stored.
import {
  type AccountRef,
  findAccountRef,
  findSealedToken,
  getSealedToken,
  learnCurrency,
  markProven,
  markRejected,
  refusedTooOften,
  type StoredToken,
  unsealToken
} from '../../db/traders/accounts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { RejectedReason } from '../../schemas/traders/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { tokenRefused } from '../broker/credentials.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import type { AccountFacts, BrokerAccount, Session } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { noteAdmission, noteRefusal } from './applications.ts'

/**
 * The account's session at the broker. Rejects with BrokerError; when the broker refuses the token the account becomes REJECTED,
 * unless a newer token was stored meanwhile. `anew` authorises with the stored token even where a connection is open; `leisurely`
 * lets all other openings go first.
 */
export async function openSession(
  { db, vault, brokers, log }: Pick<WorkerServices, 'db' | 'vault' | 'brokers' | 'log'>,
  account: AccountRef,
  { anew = false, leisurely = false } = {}
): Promise<Session> {
  let read: StoredToken | undefined
  try {
    const requested: BrokerAccount = {
      accountId: account.accountId,
      appId: account.appId,
      // Sessions are shared only between uses of the row whose token opened them.
      credentialId: account.accountRowId,
      leisurely,
      async token() {
        read = await getSealedToken(db, account.accountRowId, account)
        if (read.restSeconds > 0) throw resting(read.restSeconds)
        return unsealToken(vault, account.accountRowId, read)
      },
      version: () => read?.version,
      owner: () => read?.traderId,
      compared: () => read?.proven === true,
      async accepted(facts) {
        if (!read) return
        const mismatch = mismatchOf(read, facts)
        if (mismatch) throw tokenRefused('Mismatch', mismatch)
        if (read.proven) return
        const { dialect, appId } = account
        await markProven(db, account.accountRowId, { version: read.version, dialect, appId, currency: facts.currency })
        read.proven = true
      }
    }
    const session = await brokers.of(account.dialect).session(requested, { anew })
    await noteAdmission({ db, log }, account)
    return session
  } catch (error) {
    await noteRefusal({ db, log }, account, error)
    if (!(error instanceof BrokerError && error.rejected && read)) throw error
    const reason = reasonOf(error, read)
    const { dialect, appId } = account
    await markRejected(db, account.accountRowId, { version: read.version, dialect, appId, reason })
    throw refusedFor(error, reason)
  }
}

// How long the application that bought is not tried again for an account that it has refused: each try costs calls of a quota that all
// partners share.
const PASSED_OVER_MS = 60_000
const MAX_PASSED_OVER = 10_000
/** Until when, by this process's clock, former applications of partners are not tried for an account. */
const passedOver = new Map<string, number>()

/**
 * The session for a contract that was bought, and the application that it is open under. That is the one that bought it; where its
 * partner has left that, and the token is one of the present application or the old one is refused altogether, the present one: the
 * contract is the account's, and any application of the dialect reads and sells it.
 */
export async function openBoughtSession(
  services: Pick<WorkerServices, 'db' | 'vault' | 'brokers' | 'log'>,
  bought: AccountRef,
  { leisurely = false } = {}
): Promise<{ session: Session; appId: string }> {
  const open = async (account: AccountRef) => ({
    session: await openSession(services, account, { leisurely }),
    appId: account.appId
  })
  const key = `${bought.accountRowId} ${bought.dialect} ${bought.appId}`
  if (performance.now() < (passedOver.get(key) ?? 0)) {
    const present = await presentOf(services, bought)
    if (present) return open(present)
  }
  try {
    return await open(bought)
  } catch (error) {
    if (!(error instanceof BrokerError && (error.rejected || isAppRefused(error.brokerCode)))) throw error
    const present = await presentOf(services, bought)
    if (!present) throw error
    if (passedOver.size >= MAX_PASSED_OVER) passedOver.clear()
    passedOver.set(key, performance.now() + PASSED_OVER_MS)
    return open(present)
  }
}

/** The account under its partner's present application, where that is another one of the same dialect. */
async function presentOf({ db }: Pick<WorkerServices, 'db'>, bought: AccountRef): Promise<AccountRef | undefined> {
  const present = await findAccountRef(db, bought.accountRowId)
  return present?.dialect === bought.dialect && present.appId !== bought.appId ? present : undefined
}

/** The refusal in the words of the reason that is stored of its account. */
function refusedFor(error: BrokerError, reason: RejectedReason): BrokerError {
  if (reason === error.reason) return error
  return Object.assign(tokenRefused(error.brokerCode, reason, error), { tokenVersion: error.tokenVersion })
}

/** A token that is refused after its expiry is refused for that reason. */
function reasonOf({ reason }: Pick<BrokerError, 'reason'>, { expired }: Pick<StoredToken, 'expired'>): RejectedReason {
  const known = reason ?? 'TOKEN_REFUSED'
  return known === 'TOKEN_REFUSED' && expired ? 'TOKEN_EXPIRED' : known
}

function resting(restSeconds: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', refusedTooOften(restSeconds), {
    brokerCode: 'RefusedTooOften',
    ran: 'no',
    retryMs: restSeconds * 1000
  })
}

/** Where the account differs from its facts at the exchange; facts that the broker omits do not differ. */
function mismatchOf(given: StoredToken, facts: AccountFacts): RejectedReason | undefined {
  if (facts.mode !== null && facts.mode !== given.accountMode) return 'MODE_MISMATCH'
  const differs = facts.currency !== null && given.currency !== null && facts.currency !== given.currency
  return differs ? 'CURRENCY_MISMATCH' : undefined
}

/**
 * Remembers a token that the broker refused in the middle of a session; one that was stored since is not touched. Returns the
 * refusal as its order or read reports it.
 */
export async function rejectToken(
  { db }: Pick<WorkerServices, 'db'>,
  { accountRowId, dialect, appId }: Pick<AccountRef, 'accountRowId' | 'dialect' | 'appId'>,
  error: BrokerError
): Promise<BrokerError> {
  const sealed = await findSealedToken(db, accountRowId, { dialect, appId })
  if (!sealed || (error.tokenVersion !== undefined && sealed.version !== error.tokenVersion)) return error
  const reason = reasonOf(error, sealed)
  await markRejected(db, accountRowId, { version: sealed.version, dialect, appId, reason })
  return refusedFor(error, reason)
}

/** Why an account without a currency can neither trade nor show a balance. */
export const NO_CURRENCY = 'The account has no currency yet: its owner chooses one at the broker.'

/** The account's currency: as stored, else from the broker, and then stored. Throws INVALID_CONTRACT where it has none yet. */
export async function currencyOf(
  { db }: Pick<WorkerServices, 'db'>,
  session: Session,
  { accountRowId, currency }: { accountRowId: string; currency: string | null }
): Promise<string> {
  if (currency) return currency
  const { currency: stated } = await session.balance()
  if (stated === null) throw new ApiError('INVALID_CONTRACT', NO_CURRENCY)
  await learnCurrency(db, accountRowId, stated)
  return stated
}
