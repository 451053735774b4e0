// Broker accounts with their sealed tokens. The token leaves this file only as it is sealed; opening it is
// the worker's business.

import { ApiError } from '../../schemas/errors/errors.ts'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { type RejectedReason, rejectionMessages } from '../../schemas/traders/accounts.ts'
import { backOffInSql } from '../platform/back-off.ts'
import type { Sealed, Vault } from '../platform/crypto.ts'
import { type Db, listing, rows, sql } from '../postgres/connection.ts'
import { settledGeneration } from '../postgres/lineage.ts'
import { holdTrader } from './traders.ts'

export interface AccountRecord {
  id: string
  partnerId: string
  traderId: string
  accountId: string
  accountMode: AccountMode
  currency: string | null
  status: 'CONNECTED' | 'REJECTED'
  /** null unless status is REJECTED. */
  rejectedReason: RejectedReason | null
  /** Whether the broker has accepted the token that is stored now for this account. */
  proven: boolean
  connectedAt: Date
}

/** The columns of an account, of `broker_accounts a`. A process of the previous version stores no reason for a rejection. */
const columns = `a.id, a.partner_id as "partnerId", a.trader_id as "traderId", a.account_id as "accountId", a.account_mode as "accountMode",
  a.currency, a.status, case when a.status = 'REJECTED' then coalesce(a.rejected_reason, 'TOKEN_REFUSED') end as "rejectedReason",
  a.proven_version is not distinct from a.token_version as proven, a.connected_at as "connectedAt"`

const context = (accountRowId: string) => `broker_accounts:${accountRowId}`

// Refusals of one account after which the next try has to wait, doubling from a second up to a minute; and refusals in a minute of all of a
// partner's accounts that the broker never accepted after which none of these is tried. Accounts that it did accept are certainly
// the partner's: where their tokens lapse, hundreds at a time, the fresh ones must not wait.
const FREE_REFUSALS = 3
const RETRIES = { firstMs: 1000, mostMs: 60_000 }
const REFUSALS_OF_PARTNER = 30
const restOfAccount = `case when a.refusals > ${FREE_REFUSALS}
                            then extract(epoch from a.refused_at - clock_timestamp() + ${backOffInSql(`a.refusals - ${FREE_REFUSALS + 1}`, RETRIES)}) end`
const wasProven = (alias: string) => `(${alias}.was_proven or ${alias}.proven_version is not null)`
// A partner may try again once the refusal this many back is a minute old.
const restOfPartner = `(select 60 + extract(epoch from r.refused_at - clock_timestamp()) from broker_accounts r
                         where r.partner_id = a.partner_id and r.refused_at > clock_timestamp() - interval '1 minute'
                           and not ${wasProven('r')}
                         order by r.refused_at desc offset ${REFUSALS_OF_PARTNER - 1} limit 1)`
const restSeconds = `case when a.proven_version = a.token_version then 0
                          else greatest(0, ceil(coalesce(${restOfAccount}, 0)),
                                        ceil(coalesce(case when not ${wasProven('a')} then ${restOfPartner} end, 0))) end::int`

/** What a statement sets that clears `proven_version` of `broker_accounts`, as SQL: that the broker has accepted a token of the account. */
export const KEEP_PROVEN = 'was_proven = was_proven or proven_version is not null'

/** Why a token is not tried for so many seconds. */
export const refusedTooOften = (restSeconds: number): string =>
  `The broker refused tokens of this account, or of too many accounts, again and again: the next try is made in ${restSeconds} s.`

/** The row ids of those of these accounts that the trader has, by account id. They are locked, in the order in which others lock several. */
export async function lockBrokerAccounts(
  trx: Db,
  traderId: string,
  accountIds: string[]
): Promise<Map<string, string>> {
  const locked = await rows<{ id: string; accountId: string }>(
    trx,
    `select id, account_id as "accountId" from broker_accounts where trader_id = :traderId and account_id = any(:accountIds)
      order by id for no key update`,
    { traderId, accountIds }
  )
  return new Map(locked.map(({ id, accountId }) => [accountId, id]))
}

/** Stores or replaces the token of an account, of which `rowId` is undefined where the trader does not have it; it counts as connected again. */
export async function upsertAccount(
  trx: Db,
  vault: Vault,
  account: {
    rowId: string | undefined
    partnerId: string
    traderId: string
    accountId: string
    accountMode: string
    currency: string | null
    token: string
  }
): Promise<AccountRecord> {
  // The caller has locked the trader's row, so the same account is not inserted meanwhile.
  const id = account.rowId ?? newId('account')
  const { keyId, sealed } = vault.seal(account.token, context(id))
  const [row] = await rows<AccountRecord>(
    trx,
    `insert into broker_accounts as a (id, partner_id, trader_id, account_id, account_mode, currency, token_key_id, token_sealed, compared_generation)
     values (:id, :partnerId, :traderId, :accountId, :accountMode, :currency, :keyId, :sealed, ${settledGeneration})
     on conflict (trader_id, account_id) do update
       set account_mode = excluded.account_mode, currency = coalesce(excluded.currency, a.currency),
           token_key_id = excluded.token_key_id, token_sealed = excluded.token_sealed,
           token_version = a.token_version + 1, status = 'CONNECTED', rejected_reason = null, connected_at = now()
     returning ${columns}`,
    {
      id,
      partnerId: account.partnerId,
      traderId: account.traderId,
      accountId: account.accountId,
      accountMode: account.accountMode,
      currency: account.currency,
      keyId,
      sealed
    }
  )
  return row as AccountRecord
}

/** The trader's accounts, oldest first. */
export function listAccounts(db: Db, traderId: string): Promise<AccountRecord[]> {
  return rows<AccountRecord>(
    db,
    `select ${columns} from broker_accounts a where a.trader_id = :traderId order by a.id limit 1000`,
    { traderId }
  )
}

/** Where an account is and under which application and dialect it is used. */
export interface AccountRef {
  accountRowId: string
  accountId: string
  appId: string
  dialect: string
}

/** An account as its partner uses it now; `proven`: whether the broker has accepted the stored token. */
export async function findAccountRef(
  db: Db,
  accountRowId: string
): Promise<(AccountRef & { proven: boolean }) | undefined> {
  const [found] = await rows<AccountRef & { proven: boolean }>(
    db,
    `select a.id as "accountRowId", a.account_id as "accountId", p.broker_app_id as "appId", p.broker_dialect as dialect,
            a.proven_version is not distinct from a.token_version as proven
       from broker_accounts a join partners p on p.id = a.partner_id where a.id = :accountRowId`,
    { accountRowId }
  )
  return found
}

/** Makes one of the trader's accounts the active one. Throws ACCOUNT_NOT_FOUND, or TRADER_NOT_FOUND for one who was erased meanwhile. */
export async function activateAccount(trx: Db, traderId: string, accountId: string): Promise<AccountRecord> {
  await holdTrader(trx, traderId)
  const [account] = await rows<AccountRecord>(
    trx,
    `select ${columns} from broker_accounts a where a.trader_id = :traderId and a.account_id = :accountId`,
    { traderId, accountId }
  )
  if (!account) throw new ApiError('ACCOUNT_NOT_FOUND')
  const changed = await trx('traders')
    .where({ id: traderId })
    .whereNotNull('connected_at')
    .update({ active_account_id: account.id })
  if (changed === 0) throw new ApiError('TRADER_NOT_FOUND')
  return account
}

/** A trader with its active account, as placing an order needs them. */
export interface Trading {
  traderId: string
  externalId: string
  account: AccountRecord
  /** Seconds in which the account's token is not tried, since tokens were refused too often; 0 of one that is proven. */
  restSeconds: number
}

/** Several traders with their active accounts at once, in the order given. */
export async function findTrading(
  db: Db,
  requested: { partnerId: string; externalId: string }[]
): Promise<(Trading | undefined)[]> {
  const found = await rows<AccountRecord & Pick<Trading, 'externalId' | 'restSeconds'>>(
    db,
    // One by one by their keys, also by a plan that was made when there were few.
    sql`select t.external_id as "externalId", ${columns}, ${restSeconds} as "restSeconds"
       from ${listing('partners', 'externals')} as requested (partner_id, external_id)
      cross join lateral (select t.external_id, t.active_account_id from traders t
                           where t.partner_id = requested.partner_id and t.external_id = requested.external_id
                             and t.connected_at is not null limit 1) t
      cross join lateral (select * from broker_accounts a where a.id = t.active_account_id limit 1) a`,
    { partners: requested.map(({ partnerId }) => partnerId), externals: requested.map(({ externalId }) => externalId) }
  )
  const byTrader = new Map(found.map(row => [`${row.partnerId} ${row.externalId}`, row]))
  return requested.map(({ partnerId, externalId }) => {
    const account = byTrader.get(`${partnerId} ${externalId}`)
    return account && { traderId: account.traderId, externalId, account, restSeconds: account.restSeconds }
  })
}

/**
 * The account that an order is stored for, as SQL: the active one of a trader, unless the broker refused it, or refused
 * tokens too often for one that is not proven to be tried now. `order` has partner_id and trader_external_id. Only a token
 * that the broker has accepted lets the order begin in `queued`. The trader is locked as the order's foreign key locks it, but
 * before it is found: one who is being erased is not found, since the orders of a group would all wait for the end of that.
 */
export const accountToTrade = (order: string) =>
  `(select t.id as trader_id, a.id as broker_account_id, a.account_id, a.account_mode, a.currency,
           case when a.proven_version = a.token_version then 'queued' else 'unproven' end as phase
      from (select t.id, t.active_account_id from traders t
             where t.partner_id = ${order}.partner_id and t.external_id = ${order}.trader_external_id
               and t.connected_at is not null limit 1 for key share of t skip locked) t
     cross join lateral (select * from broker_accounts a where a.id = t.active_account_id and a.status = 'CONNECTED'
                             and ${restSeconds} = 0 limit 1) a)`

/** Throws BROKER_DISCONNECTED with the reason when the broker refused the account. */
export function requireConnected(account: Pick<AccountRecord, 'status' | 'rejectedReason'>): void {
  const refusal = rejectionOf(account)
  if (refusal) throw refusal
}

/** BROKER_DISCONNECTED with the reason when the broker refused the account; undefined when it is connected. */
export function rejectionOf({
  status,
  rejectedReason
}: Pick<AccountRecord, 'status' | 'rejectedReason'>): ApiError | undefined {
  return status === 'REJECTED' ? disconnected(rejectedReason) : undefined
}

function disconnected(reason: RejectedReason | null): ApiError {
  return new ApiError('BROKER_DISCONNECTED', reason === null ? undefined : rejectionMessages[reason])
}

/** A stored token, sealed, with the facts of its account from the exchange. */
export interface StoredToken extends Sealed {
  version: number
  traderId: string
  accountMode: AccountMode
  currency: string | null
  /** Whether the broker has accepted this version for this account. */
  proven: boolean
  /** Whether its life time from the exchange is over. */
  expired: boolean
  /** For a token that is not proven: seconds in which it must not be tried, since tokens were refused too often. */
  restSeconds: number
}

/** Where a token is used. */
type Place = Pick<AccountRef, 'dialect' | 'appId'>

/**
 * The sealed token of an account with its version, unless the broker refused it before. That refusal was in the dialect and
 * under the application that the partner has now: elsewhere it does not count.
 */
export async function findSealedToken(db: Db, accountRowId: string, place: Place): Promise<StoredToken | undefined> {
  const found = await readToken(db, accountRowId, place)
  return found?.usable ? found.token : undefined
}

/** As findSealedToken, but throws BROKER_DISCONNECTED with the reason why the account was refused. */
export async function getSealedToken(db: Db, accountRowId: string, place: Place): Promise<StoredToken> {
  const found = await readToken(db, accountRowId, place)
  if (!found?.usable) throw disconnected(found?.rejectedReason ?? null)
  return found.token
}

// Orders of an application that its partner has left keep it: a token of the present one may be refused there.
const isPresent = '(p.broker_dialect = :dialect and p.broker_app_id = :appId)'

async function readToken(
  db: Db,
  accountRowId: string,
  { dialect, appId }: Place
): Promise<{ usable: boolean; rejectedReason: RejectedReason; token: StoredToken } | undefined> {
  const [row] = await rows<StoredToken & { usable: boolean; rejectedReason: RejectedReason }>(
    db,
    `select a.token_key_id as "keyId", a.token_sealed as sealed, a.token_version as version, a.trader_id as "traderId",
            a.account_mode as "accountMode", a.currency,
            a.proven_version is not distinct from a.token_version as proven,
            coalesce(a.renewal_version = a.token_version and a.token_expires_at <= now(), false) as expired,
            ${restSeconds} as "restSeconds",
            a.status = 'CONNECTED' or not ${isPresent} as usable, coalesce(a.rejected_reason, 'TOKEN_REFUSED') as "rejectedReason"
       from broker_accounts a join partners p on p.id = a.partner_id
      where a.id = :accountRowId`,
    { accountRowId, dialect, appId }
  )
  if (!row) return undefined
  const { usable, rejectedReason, ...token } = row
  return { usable, rejectedReason, token }
}

/** A token as it is stored. */
export function sealToken(vault: Vault, accountRowId: string, token: string): Sealed {
  return vault.seal(token, context(accountRowId))
}

/** Opens a token for one use. Workers only. */
export function unsealToken(vault: Vault, accountRowId: string, sealed: Sealed): string {
  return vault.open(sealed, context(accountRowId))
}

/** The same token sealed with the key that encrypts now. Throws when it cannot be opened. */
export function resealToken(vault: Vault, accountRowId: string, sealed: Sealed): Sealed {
  return vault.seal(vault.open(sealed, context(accountRowId)), context(accountRowId))
}

/**
 * The broker refused this account: unless a newer token came meanwhile, it counts as rejected for `reason`. A refusal
 * in a dialect or under an application that the partner has left does not apply to its present ones.
 */
export async function markRejected(
  db: Db,
  accountRowId: string,
  { version, dialect, appId, reason }: Place & { version: number; reason: RejectedReason }
): Promise<void> {
  await db.raw(
    `update broker_accounts a set status = 'REJECTED', rejected_reason = :reason, proven_version = null, ${KEEP_PROVEN},
            refusals = a.refusals + 1, refused_at = clock_timestamp()
       from partners p
      where a.id = :accountRowId and a.token_version = :version and a.status = 'CONNECTED'
        and p.id = a.partner_id and ${isPresent}`,
    { accountRowId, version, dialect, appId, reason }
  )
}

/**
 * The broker accepted this version of the token for this account, maybe with its currency, which is kept where none was
 * given. A newer token, or a refused one, is not proven by it, and none by a dialect or an application that the partner has left: contracts
 * that were bought there are still read there.
 */
export async function markProven(
  db: Db,
  accountRowId: string,
  { version, dialect, appId, currency }: Place & { version: number; currency: string | null }
): Promise<void> {
  await db.raw(
    `update broker_accounts a set proven_version = a.token_version, currency = coalesce(a.currency, :currency), refusals = 0, refused_at = null
       from partners p
      where a.id = :accountRowId and a.token_version = :version and a.status = 'CONNECTED'
        and p.id = a.partner_id and ${isPresent}`,
    { accountRowId, version, dialect, appId, currency }
  )
}

/**
 * Gives the refused tokens of a partner another chance and has all its tokens proven again: its dialect has changed. Tokens of
 * erased traders are left out.
 */
export async function forgetRejections(trx: Db, partnerId: string): Promise<void> {
  await rows(
    trx,
    // In the order in which an exchange locks the accounts that it names.
    `update broker_accounts set status = 'CONNECTED', rejected_reason = null, proven_version = null, ${KEEP_PROVEN}
      where id = any(array(select a.id from broker_accounts a join traders t on t.id = a.trader_id
                            where a.partner_id = :partnerId and t.connected_at is not null
                              and (a.status <> 'CONNECTED' or a.proven_version is not null)
                            order by a.id for no key update of a))`,
    { partnerId }
  )
}

/** Stores the currency from the broker, where none was given. */
export async function learnCurrency(db: Db, accountRowId: string, currency: string): Promise<void> {
  await db('broker_accounts').where({ id: accountRowId }).whereNull('currency').update({ currency })
}

/** An account as the wire shows it. */
export function presentAccount(
  {
    id,
    accountId,
    accountMode,
    currency,
    status,
    rejectedReason,
    connectedAt
  }: Omit<AccountRecord, 'partnerId' | 'traderId' | 'proven'>,
  activeId: string | null
) {
  return {
    accountId,
    accountMode,
    currency,
    active: id === activeId,
    status,
    ...(rejectedReason === null ? {} : { reason: rejectedReason }),
    connectedAt: connectedAt.toISOString()
  }
}
