// The renewal of expiring tokens. One worker at a time renews the accounts of a trader that share a refresh token; its
// writes are conditional on the token's version, so that an exchange meanwhile wins.
import { createHash } from 'node:crypto'
import type { Sealed, Vault } from '../platform/crypto.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { KEEP_PROVEN, sealToken } from './accounts.ts'

const contextOf = (accountRowId: string) => `broker_accounts:${accountRowId}:refresh`

/** How long a worker has for one renewal before another may try. */
const LEASE_SECONDS = 60
const RETRY_SECONDS = 30
/** After its end a token is renewed no more. */
const GIVE_UP_HOURS = 24
/** The shortest life that the broker's documents name. They promise no `expires_in`: a token without one ends all the same. */
const UNSTATED_LIFE_SECONDS = 3_600
/**
 * The account was rejected because its token had ended. The broker refuses a token that has ended as it does any other one: where its end
 * is not known, one that was refused is taken to have ended. In another dialect, that its partner has now, a refusal is not about its end.
 */
const HAD_ENDED = `coalesce((rejected_reason = 'TOKEN_EXPIRED' or rejected_reason = 'TOKEN_REFUSED' and token_expires_at is null)
  and (select p.broker_dialect from partners p where p.id = broker_accounts.partner_id) = 'next', false)`

// Ten minutes before the end, or after two thirds of a shorter life.
const renewAt = (expires: string) =>
  `greatest(${expires} - interval '10 minutes', now() + (${expires} - now()) * 2 / 3)`

/** What a refresh token is found by again, without giving it away. */
function digestOf(refreshToken: string): string {
  return createHash('sha256').update(refreshToken).digest('base64url')
}

/** Stores what renews the token just written to an account, and when that expires. Either may be missing. */
export async function storeRenewal(
  trx: Db,
  vault: Vault,
  accountRowId: string,
  { refreshToken, expiresAt }: { refreshToken: string | undefined; expiresAt: Date | undefined }
): Promise<void> {
  if (refreshToken === undefined && expiresAt === undefined) return
  const sealed = refreshToken === undefined ? null : vault.seal(refreshToken, contextOf(accountRowId))
  await rows(
    trx,
    `update broker_accounts
        set renewal_version = token_version, refresh_key_id = :keyId, refresh_sealed = :sealed, refresh_digest = :digest,
            token_expires_at = :expiresAt::timestamptz, renewing_until = null,
            -- Without a time of its end a token is renewed at once: the broker's response may state one.
            renew_at = case when :expiresAt::timestamptz is null then now()
                            when :digest::text is null then :expiresAt::timestamptz
                            else ${renewAt(':expiresAt::timestamptz')} end
      where id = :accountRowId`,
    {
      accountRowId,
      keyId: sealed?.keyId ?? null,
      sealed: sealed?.sealed ?? null,
      digest: refreshToken === undefined ? null : digestOf(refreshToken),
      expiresAt: expiresAt ?? null
    }
  )
}

interface DueRenewal {
  id: string
  accountId: string
  version: number
}

/** Accounts of one trader that are renewed with one token. */
export interface Renewal {
  /** Client ids of the partner's applications that the token may have been issued to, likeliest first: it is good under that one alone. */
  appIds: string[]
  accounts: DueRenewal[]
  refreshToken: string
  /** A worker took them before and wrote no outcome: the broker may have renewed the token for it. */
  wasInterrupted: boolean
}

/** Accounts of a trader that were given the same token to renew them with. */
interface DueFamily {
  traderId: string
  digest: string
}

// Tokens are of the newer dialect. Where the partner has left it, they are renewed as long as an order has to be watched, closed or
// resolved there; these have an index each.
const inUse = `(p.broker_dialect = 'next'
         or exists (select from orders o where o.partner_id = a.partner_id and o.phase = 'open' and o.broker_account_id = a.id and o.dialect = 'next'
                      and o.trader_external_id = (select t.external_id from traders t where t.id = a.trader_id))
         or exists (select from orders o where o.account_id = a.account_id and o.phase = 'sending' and o.broker_account_id = a.id and o.dialect = 'next')
         or exists (select from orders o where o.phase = 'review' and o.broker_account_id = a.id and o.dialect = 'next'))`

// The application that the partner had when the account was exchanged, and the one of now: the operator may have changed it after the
// exchange of its tokens, or before.
const issuers = `(select array_agg(i.app_id order by i.place)
        from (select app_id, min(place) as place
                from (select 1 as place, l.details -> 'from' ->> 'dialect' as dialect, l.details -> 'from' ->> 'brokerAppId' as app_id
                        from (select details from audit_log where target = a.partner_id and action = 'partners.set-broker' and at >= a.connected_at
                               order by id limit 1) l
                      union all select 2, p.broker_dialect, p.broker_app_id) known
               where dialect = 'next' group by app_id) i)`

/**
 * Takes the renewals of up to `limit` accounts that are due, each for this worker alone for a minute. Accounts whose token ended and
 * cannot be renewed become REJECTED on the way, those whose token was replaced are no longer considered. `unreadable` are
 * accounts whose refresh token cannot be opened now: it is tried again, and keeps no other from being renewed. `more`: others may be
 * due, however many accounts share the tokens of these.
 */
export async function takeRenewals(
  db: Db,
  vault: Vault,
  limit: number
): Promise<{ due: Renewal[]; rejected: string[]; unreadable: string[]; more: boolean }> {
  await rows(
    db,
    'update broker_accounts set renew_at = null where renew_at <= now() and renewal_version <> token_version'
  )
  const rejected = await rejectEnded(db, limit)
  const found = await rows<DueFamily>(
    db,
    `select a.trader_id as "traderId", a.refresh_digest as digest from broker_accounts a join partners p on p.id = a.partner_id
      where a.renew_at <= now() and a.refresh_digest is not null and ${inUse}
        and (a.renewing_until is null or a.renewing_until < now())
      order by a.renew_at limit :limit`,
    { limit }
  )
  const families = new Map(found.map(row => [`${row.traderId} ${row.digest}`, row]))
  const due: Renewal[] = []
  const unreadable: string[] = []
  for (const family of families.values()) {
    const taken = await takeFamily(db, family)
    const [first] = taken
    if (!first) continue
    const accounts = taken.map(({ id, accountId, version }) => ({ id, accountId, version }))
    try {
      const wasInterrupted = taken.some(each => each.wasTaken)
      due.push({
        appIds: first.appIds ?? [],
        accounts,
        refreshToken: vault.open(first, contextOf(first.id)),
        wasInterrupted
      })
    } catch {
      unreadable.push(...accounts.map(({ id }) => id))
      await retryRenewal(db, accounts)
    }
  }
  return { due, rejected, unreadable, more: found.length === limit || rejected.length === limit }
}

async function rejectEnded(db: Db, limit: number): Promise<string[]> {
  const ended = await rows<{ id: string }>(
    db,
    `update broker_accounts a
        set status = 'REJECTED', rejected_reason = 'TOKEN_EXPIRED', proven_version = null, ${KEEP_PROVEN},
            renew_at = case when a.refresh_digest is null then null else a.renew_at end
      where a.id in (select b.id from broker_accounts b join partners p on p.id = b.partner_id
                      where b.renew_at <= now() and b.token_expires_at <= now() and p.broker_dialect = 'next'
                        and b.status = 'CONNECTED' and b.refresh_digest is null limit :limit)
        and a.status = 'CONNECTED' and a.renewal_version = a.token_version
     returning a.id`,
    { limit }
  )
  return ended.map(({ id }) => id)
}

function takeFamily(
  db: Db,
  { traderId, digest }: DueFamily
): Promise<(DueRenewal & Sealed & { appIds: string[] | null; wasTaken: boolean })[]> {
  return db.transaction(async trx => {
    // The exchange locks this row too: a token is not replaced between these statements. Not as a trader that is erased is locked, for
    // whom no order is copied.
    await trx('traders').where({ id: traderId }).forNoKeyUpdate().first('id')
    return rows(
      trx,
      `update broker_accounts a set renewing_until = now() + make_interval(secs => ${LEASE_SECONDS})
         from broker_accounts b, partners p
        where a.trader_id = :traderId and a.refresh_digest = :digest and a.renewal_version = a.token_version
          and (a.renewing_until is null or a.renewing_until < now()) and b.id = a.id and p.id = a.partner_id
       returning a.id, b.renewing_until is not null as "wasTaken", a.account_id as "accountId", a.token_version as version, a.refresh_key_id as "keyId", a.refresh_sealed as sealed,
                 ${issuers} as "appIds"`,
      { traderId, digest }
    )
  })
}

/** What a renewal brought. */
export interface Renewed {
  token: string
  /** null: the old one stays good. */
  refreshToken: string | null
  /** null: unknown; the token is renewed again as one of the shortest life. */
  expiresInSeconds: number | null
}

/**
 * Stores new tokens; returns how many accounts have them: one that was exchanged meanwhile keeps its own. An account
 * that was rejected because its token had ended is connected again.
 */
export async function saveRenewed(
  db: Db,
  vault: Vault,
  { accounts, refreshToken }: Renewal,
  renewed: Renewed
): Promise<number> {
  let saved = 0
  const next = renewed.refreshToken ?? refreshToken
  await db.transaction(async trx => {
    for (const { id, version } of accounts) {
      const token = sealToken(vault, id, renewed.token)
      const refresh = vault.seal(next, contextOf(id))
      const [row] = await rows<{ id: string }>(
        trx,
        `update broker_accounts
            set token_key_id = :keyId, token_sealed = :sealed, token_version = token_version + 1,
                proven_version = case when proven_version = token_version then token_version + 1 end, ${KEEP_PROVEN},
                renewal_version = token_version + 1, refresh_key_id = :refreshKeyId, refresh_sealed = :refreshSealed,
                refresh_digest = :digest, token_expires_at = now() + make_interval(secs => :seconds::float8),
                renew_at = ${renewAt(`(now() + make_interval(secs => coalesce(:seconds::float8, ${UNSTATED_LIFE_SECONDS})))`)}, renewing_until = null,
                status = case when ${HAD_ENDED} then 'CONNECTED' else status end,
                rejected_reason = case when ${HAD_ENDED} then null else rejected_reason end
          where id = :id and token_version = :version
         returning id`,
        {
          id,
          version,
          keyId: token.keyId,
          sealed: token.sealed,
          refreshKeyId: refresh.keyId,
          refreshSealed: refresh.sealed,
          digest: digestOf(next),
          seconds: renewed.expiresInSeconds
        }
      )
      if (row) saved += 1
    }
  })
  return saved
}

/** A renewal failed for now: it is tried again shortly, and the account is rejected meanwhile once its token has ended. */
export async function retryRenewal(db: Db, accounts: DueRenewal[]): Promise<void> {
  await conclude(db, accounts, {
    renewAt: `case when token_expires_at < now() - interval '${GIVE_UP_HOURS} hours' then null
                   else now() + interval '${RETRY_SECONDS} seconds' end`,
    keep: true
  })
}

/** The broker refused the refresh token: the account is rejected when its token ends, and that is now where it is not known. */
export async function endRenewal(db: Db, { accounts }: Renewal): Promise<void> {
  await conclude(db, accounts, { renewAt: 'greatest(token_expires_at, now())', keep: false })
}

async function conclude(
  db: Db,
  accounts: DueRenewal[],
  { renewAt, keep }: { renewAt: string; keep: boolean }
): Promise<void> {
  const over = 'coalesce(token_expires_at, now()) <= now()'
  const rejects = `(${keep ? 'token_expires_at <= now()' : over} and p.broker_dialect = 'next')`
  const forget = keep ? '' : 'refresh_key_id = null, refresh_sealed = null, refresh_digest = null,'
  await rows(
    db,
    `update broker_accounts a
        set ${forget} renewing_until = null,
            renew_at = ${keep ? renewAt : `case when ${over} then null else ${renewAt} end`},
            status = case when ${rejects} then 'REJECTED' else a.status end,
            rejected_reason = case when ${rejects} and a.status = 'CONNECTED' then 'TOKEN_EXPIRED' else a.rejected_reason end
       from unnest(:ids::text[], :versions::int[]) as v (id, version), partners p
      where a.id = v.id and p.id = a.partner_id and a.token_version = v.version`,
    { ids: accounts.map(({ id }) => id), versions: accounts.map(({ version }) => version) }
  )
}

/** The same refresh token sealed with the key that encrypts now. Throws when it cannot be opened. */
export function resealRefresh(vault: Vault, accountRowId: string, sealed: Sealed): Sealed {
  return vault.seal(vault.open(sealed, contextOf(accountRowId)), contextOf(accountRowId))
}
