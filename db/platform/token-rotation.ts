// Re-encrypts stored broker tokens under a new key while everything runs, in small steps; what is done stays done when it is interrupted.

import { type Db, rows } from '../postgres/connection.ts'
import { resealToken } from '../traders/accounts.ts'
import { resealRefresh } from '../traders/token-renewal.ts'
import type { Vault } from './crypto.ts'

interface SealedUnder {
  keyId: string
  accounts: number
  /** Tokens that renew others. */
  refreshes: number
  /** The installation's own secrets, the pepper among them. */
  secrets: number
  /** Responses kept under Idempotency-Keys. */
  answers: number
  /** Secrets of webhooks. */
  webhooks: number
  /** Tokens that read the broker's reports. */
  reports: number
}

/** How much is sealed under each key. */
export async function countSealed(db: Db): Promise<SealedUnder[]> {
  return rows<SealedUnder>(
    db,
    `select key_id as "keyId", count(*) filter (where what = 'account') as accounts,
            count(*) filter (where what = 'secret') as secrets, count(*) filter (where what = 'refresh') as refreshes,
            count(*) filter (where what = 'answer') as answers, count(*) filter (where what = 'webhook') as webhooks,
            count(*) filter (where what = 'report') as reports
       from (select token_key_id as key_id, 'account' as what from broker_accounts
             union all select refresh_key_id, 'refresh' from broker_accounts where refresh_key_id is not null
             union all select key_id, 'secret' from secrets
             union all select token_key_id, 'report' from report_tokens
             union all select secret_key_id, 'webhook' from webhook_endpoints
             union all select old_key_id, 'webhook' from webhook_endpoints where old_until > now() and old_key_id <> secret_key_id
             union all select token_key_id, 'answer' from idempotency_keys where token_key_id is not null) as sealed
      group by key_id order by key_id`
  )
}

interface FoundTokens {
  id: string
  token_version: number
  /** null: sealed under another key. */
  token_sealed: Buffer | null
  refresh_sealed: Buffer | null
}

interface Step {
  /** Encrypted under the new key. */
  resealed: number
  /** Left as they are: meanwhile an exchange stored a newer token under its own key. */
  overtaken: number
  /** Cannot be opened under the key they name; they stay as they are. */
  unreadable: string[]
  /** Where the next step goes on; null after the last one. */
  after: string | null
}

/** Seals the tokens of up to `limit` accounts of an old key with the present one, after `after` in the order of their ids. */
export async function resealStep(
  db: Db,
  vault: Vault,
  { oldKeyId, after, limit }: { oldKeyId: string; after: string; limit: number }
): Promise<Step> {
  const found = await rows<FoundTokens>(
    db,
    `select id, token_version, case when token_key_id = :oldKeyId then token_sealed end as token_sealed,
            case when refresh_key_id = :oldKeyId then refresh_sealed end as refresh_sealed
       from broker_accounts
      where (token_key_id = :oldKeyId or refresh_key_id = :oldKeyId) and id > :after order by id limit :limit`,
    { oldKeyId, after, limit }
  )
  const unreadable: string[] = []
  const fresh = found.flatMap(({ id, token_sealed, refresh_sealed, token_version }) => {
    const anew = (reseal: typeof resealToken, sealed: Buffer | null) =>
      sealed === null ? null : reseal(vault, id, { keyId: oldKeyId, sealed }).sealed.toString('hex')
    try {
      const token = anew(resealToken, token_sealed)
      return [{ id, version: token_version, token, refresh: anew(resealRefresh, refresh_sealed) }]
    } catch {
      // Reported by its id: the rest must not wait for one damaged row.
      unreadable.push(id)
      return []
    }
  })
  // The version shows whether it is still the token that was read.
  const moved = await rows<{ id: string }>(
    db,
    `update broker_accounts a
        set token_key_id = case when v.token is null then a.token_key_id else :keyId end,
            token_sealed = coalesce(decode(v.token, 'hex'), a.token_sealed),
            refresh_key_id = case when v.refresh is null then a.refresh_key_id else :keyId end,
            refresh_sealed = coalesce(decode(v.refresh, 'hex'), a.refresh_sealed)
       from jsonb_to_recordset(:fresh::jsonb) as v (id text, version int, token text, refresh text)
      where a.id = v.id and a.token_version = v.version
        -- Locked in the order in which an exchange locks the accounts that it names.
        and a.id = any(array(select id from broker_accounts where id = any(:ids) order by id for no key update))
        and (v.token is null or a.token_key_id = :oldKeyId) and (v.refresh is null or a.refresh_key_id = :oldKeyId)
     returning a.id`,
    { fresh: JSON.stringify(fresh), ids: fresh.map(({ id }) => id), oldKeyId, keyId: vault.keyId }
  )
  return {
    resealed: moved.length,
    overtaken: fresh.length - moved.length,
    unreadable,
    after: found.length === limit ? (found.at(-1)?.id ?? null) : null
  }
}
