// Tokens with which workers read the broker's report about a partner's application: one for each partner, sealed, for the
// application that the partner had when it was stored.
import { randomInt } from 'node:crypto'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Sealed, Vault } from '../platform/crypto.ts'
import { type Db, rows } from '../postgres/connection.ts'

type ReportTokenReason = 'TOKEN_REFUSED' | 'SCOPE_MISSING'

/** What may be shown of a token. */
export interface ReportToken {
  /** The application's id at the broker. */
  application: string
  status: 'CONNECTED' | 'REJECTED'
  reason: ReportTokenReason | null
  storedAt: Date
}

const context = (partnerId: string) => `report_tokens:${partnerId}`
const shown = `t.app_id as application, t.status, t.rejected_reason as reason, t.stored_at as "storedAt"`

/** Stores the token for the partner's present application; it counts as connected again. Throws NOT_FOUND. */
export async function storeReportToken(
  db: Db,
  vault: Vault,
  { partnerId, token }: { partnerId: string; token: string }
): Promise<ReportToken> {
  const { keyId, sealed } = vault.seal(token, context(partnerId))
  // A token that was removed may still be in use: what becomes of it must not be taken for the new one's.
  const version = randomInt(1, 2 ** 30)
  const [stored] = await rows<ReportToken>(
    db,
    `insert into report_tokens as t (partner_id, dialect, app_id, token_key_id, token_sealed, version)
     select id, broker_dialect, broker_app_id, :keyId, :sealed, :version::int from partners where id = :partnerId
     on conflict (partner_id) do update
       set dialect = excluded.dialect, app_id = excluded.app_id, token_key_id = excluded.token_key_id,
           token_sealed = excluded.token_sealed, version = t.version + 1, status = 'CONNECTED', rejected_reason = null, stored_at = now()
     returning ${shown}`,
    { partnerId, keyId, sealed, version }
  )
  if (!stored) throw new ApiError('NOT_FOUND', `There is no partner ${partnerId}.`)
  return stored
}

/** The partner's token of its present application; one of an earlier application counts as none. */
export async function findReportToken(db: Db, partnerId: string): Promise<ReportToken | undefined> {
  const [found] = await rows<ReportToken>(
    db,
    `select ${shown} from report_tokens t join partners p on p.id = t.partner_id and p.broker_dialect = t.dialect and p.broker_app_id = t.app_id
      where t.partner_id = :partnerId`,
    { partnerId }
  )
  return found
}

/** Deletes the token; returns whether there was one. */
export async function deleteReportToken(db: Db, partnerId: string): Promise<boolean> {
  return (await db('report_tokens').where({ partner_id: partnerId }).delete()) > 0
}

/** A token as a worker uses it. */
export interface UsableReportToken {
  partnerId: string
  dialect: string
  appId: string
  version: number
  /** Opens it for one use. */
  open(): string
}

/** Usable tokens of present applications, of one partner or of all, in the order of partners after `after`. */
export async function listReportTokens(
  db: Db,
  vault: Vault,
  { partnerId = null, after, limit }: { partnerId?: string | null; after: string; limit: number }
): Promise<UsableReportToken[]> {
  const found = await rows<Omit<UsableReportToken, 'open'> & { keyId: string; sealed: Buffer }>(
    db,
    `select t.partner_id as "partnerId", t.dialect, t.app_id as "appId", t.version, t.token_key_id as "keyId", t.token_sealed as sealed
       from report_tokens t join partners p on p.id = t.partner_id and p.broker_dialect = t.dialect and p.broker_app_id = t.app_id
      where t.status = 'CONNECTED' and t.partner_id > :after and (:partnerId::text is null or t.partner_id = :partnerId)
      order by t.partner_id limit :limit`,
    { partnerId, after, limit }
  )
  return found.map(({ keyId, sealed, ...token }) => ({
    ...token,
    open: () => vault.open({ keyId, sealed }, context(token.partnerId))
  }))
}

/** The broker refused the token: unless a newer one was stored meanwhile, it is used no more. */
export async function rejectReportToken(
  db: Db,
  { partnerId, version, reason }: { partnerId: string; version: number; reason: ReportTokenReason }
): Promise<void> {
  await db('report_tokens')
    .where({ partner_id: partnerId, version })
    .update({ status: 'REJECTED', rejected_reason: reason })
}

/** Seals up to `limit` tokens of an old key with the present one, in the order of partners after `after`. */
export async function resealReportTokens(
  db: Db,
  vault: Vault,
  { oldKeyId, after, limit }: { oldKeyId: string; after: string; limit: number }
): Promise<{ resealed: number; unreadable: string[]; after: string | null }> {
  const list = await rows<{ partnerId: string; version: number; sealed: Buffer }>(
    db,
    `select partner_id as "partnerId", version, token_sealed as sealed from report_tokens
      where token_key_id = :oldKeyId and partner_id > :after order by partner_id limit :limit`,
    { oldKeyId, after, limit }
  )
  const unreadable: string[] = []
  let resealed = 0
  for (const { partnerId, version, sealed } of list) {
    let fresh: Sealed
    try {
      fresh = vault.seal(vault.open({ keyId: oldKeyId, sealed }, context(partnerId)), context(partnerId))
    } catch {
      unreadable.push(partnerId)
      continue
    }
    // Only if no newer one was stored meanwhile.
    resealed += await db('report_tokens')
      .where({ partner_id: partnerId, version, token_key_id: oldKeyId })
      .update({ token_key_id: fresh.keyId, token_sealed: fresh.sealed })
  }
  return { resealed, unreadable, after: list.length === limit ? (list.at(-1)?.partnerId ?? null) : null }
}
