// Webhook endpoints as their partner and the operator manage them. Each change of the settings takes the endpoint from the worker
// that holds it (`lease` changes), so that nothing is sent under the old ones and nothing they led to is written.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { DeliveryError } from '../../schemas/webhook-endpoint.ts'
import { MAX_WEBHOOKS } from '../../schemas/webhooks.ts'
import type { Sealed, Vault } from '../platform/crypto.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { newWebhookSecret } from './sign.ts'

/** From so many failed attempts in a row on an endpoint is FAILING, and one event at a time is tried. */
export const FAILING_FROM = 5

/** For how long a rotated secret signs beside the new one. */
export const OLD_SECRET_HOURS = 24

type DisabledReason = 'PARTNER' | 'OPERATOR' | 'GONE' | 'FAILURES'

interface WebhookRow {
  id: string
  partner_id: string
  url: string
  types: string[] | null
  description: string | null
  enabled: boolean
  disabled_reason: DisabledReason | null
  failures: number
  failing_since: Date | null
  last_error: DeliveryError | null
  missed: number
  created_at: Date
}

/** What a secret is sealed for. */
export const secretContext = (webhookId: string): string => `webhook:${webhookId}`

const columns = `id, partner_id, url, types, description, enabled, disabled_reason, failures, failing_since, last_error, missed, created_at`

/** An endpoint as its partner sees it. */
export function presentWebhook(row: Omit<WebhookRow, 'partner_id'>) {
  return {
    webhookId: row.id,
    url: row.url,
    types: row.types,
    description: row.description,
    status: row.enabled ? (row.failures >= FAILING_FROM ? 'FAILING' : 'ENABLED') : 'DISABLED',
    disabledReason: row.enabled ? null : row.disabled_reason,
    failingSince: row.failing_since?.toISOString() ?? null,
    lastError: row.last_error,
    missedEvents: row.missed,
    createdAt: row.created_at.toISOString()
  }
}

/**
 * Registers an endpoint that begins with the next event. The secret is returned once. Throws NOT_FOUND for an unknown partner,
 * LIMIT_REACHED past the bound.
 */
export async function insertWebhook(
  trx: Db,
  vault: Vault,
  {
    partnerId,
    url,
    types,
    description
  }: { partnerId: string; url: string; types: readonly string[] | null; description: string | null }
): Promise<{ row: WebhookRow; secret: string }> {
  // Endpoints of one partner are made one after another: lock first, count then.
  const [partner] = await rows(trx, 'select id from partners where id = :partnerId for no key update', { partnerId })
  if (!partner) throw new ApiError('NOT_FOUND', `There is no partner ${partnerId}.`)
  const [held] = await rows<{ count: number }>(
    trx,
    'select count(*) as count from webhook_endpoints where partner_id = :partnerId',
    { partnerId }
  )
  if ((held?.count ?? 0) >= MAX_WEBHOOKS)
    throw new ApiError('LIMIT_REACHED', `A partner may have ${MAX_WEBHOOKS} webhook endpoints: delete one first.`, {
      extras: { limit: MAX_WEBHOOKS }
    })
  const id = newId('webhook')
  const secret = newWebhookSecret()
  const { keyId, sealed } = vault.seal(secret, secretContext(id))
  const [row] = await rows<WebhookRow>(
    trx,
    sql`insert into webhook_endpoints (id, partner_id, url, types, description, secret_key_id, secret_sealed, position, day)
     select :id, :partnerId, :url, :types::text[], :description, :keyId, :sealed,
            coalesce((select position from event_positions where partner_id = :partnerId), 0), e.day
       from event_epoch e
     returning ${columns}`,
    { id, partnerId, url, types: types && [...types], description, keyId, sealed }
  )
  return { row: row as WebhookRow, secret }
}

/** The partner's endpoints, the newest first; of all partners (at most `limit`) where none is named. */
export async function listWebhooks(db: Db, partnerId: string | null, limit = 1000): Promise<WebhookRow[]> {
  return rows<WebhookRow>(
    db,
    sql`select ${columns} from webhook_endpoints where (:partnerId::text is null or partner_id = :partnerId)
      order by id desc limit :limit`,
    { partnerId, limit }
  )
}

/** The endpoint; of that partner, where one is named. Throws NOT_FOUND. */
export async function getWebhook(db: Db, id: string, partnerId: string | null): Promise<WebhookRow> {
  const [row] = await rows<WebhookRow>(
    db,
    sql`select ${columns} from webhook_endpoints where id = :id and (:partnerId::text is null or partner_id = :partnerId)`,
    { id, partnerId }
  )
  return requireEndpoint(row, id)
}

interface WebhookChanges {
  url?: string | undefined
  /** null: all. */
  types?: readonly string[] | null | undefined
  description?: string | null | undefined
  enabled?: boolean | undefined
  /** Leave out everything up to now. */
  skip?: boolean | undefined
}

/** Changes settings; a disabled endpoint that is enabled goes on where it stopped. Throws NOT_FOUND. */
export async function changeWebhook(
  trx: Db,
  { id, partnerId, reason }: { id: string; partnerId: string | null; reason: 'PARTNER' | 'OPERATOR' },
  { url, types, description, enabled, skip = false }: WebhookChanges
): Promise<WebhookRow> {
  // All but the description decides what is sent, where, or whether: it is taken from its worker, and what was under way is sent again.
  const delivers = url !== undefined || types !== undefined || enabled !== undefined || skip
  const [row] = await rows<WebhookRow>(
    trx,
    sql`update webhook_endpoints e
        set url = coalesce(:url, e.url),
            types = case when :typesGiven then :types::text[] else e.types end,
            description = case when :descriptionGiven then :description else e.description end,
            enabled = coalesce(:enabled, e.enabled),
            disabled_reason = case when coalesce(:enabled, e.enabled) then null else coalesce(e.disabled_reason, :reason) end,
            disabled_at = case when coalesce(:enabled, e.enabled) then null else coalesce(e.disabled_at, now()) end,
            -- A new beginning: earlier failures do not count against the endpoint as it is now.
            failures = case when :enabled or :url::text is not null then 0 else e.failures end,
            failing_since = case when :enabled or :url::text is not null then null else e.failing_since end,
            -- Nor is the pause that it requested kept; other changes say nothing of whether it can take events again.
            paused_until = case when :enabled or :url::text is not null then null else e.paused_until end,
            next_at = case when :delivers then now() else e.next_at end,
            position = case when :skip then greatest(e.position, s.latest) else e.position end,
            day = case when :skip then s.today else e.day end,
            gaps = case when :skip then '{}' else e.gaps end,
            worker = case when :delivers then null else e.worker end, lease = e.lease + (:delivers::boolean)::int
       from (select g.day as today, coalesce(max(p.position), 0) as latest
               from event_epoch g left join event_positions p
                 on p.partner_id = (select partner_id from webhook_endpoints where id = :id) group by g.day) s
      where e.id = :id and (:partnerId::text is null or e.partner_id = :partnerId)
      returning ${columns
        .split(', ')
        .map(name => `e.${name}`)
        .join(', ')}`,
    {
      id,
      partnerId,
      reason,
      url: url ?? null,
      typesGiven: types !== undefined,
      types: types ? [...types] : null,
      descriptionGiven: description !== undefined,
      description: description ?? null,
      enabled: enabled ?? null,
      skip,
      delivers
    }
  )
  if (row && skip) {
    await rows(trx, 'delete from webhook_pending where endpoint_id = :id', { id })
    await rows(trx, 'delete from webhook_replays where endpoint_id = :id', { id })
  }
  return requireEndpoint(row, id)
}

/** Deletes an endpoint with all that waits for it. Throws NOT_FOUND. */
export async function deleteWebhook(trx: Db, id: string, partnerId: string): Promise<void> {
  const [row] = await rows<{ id: string }>(
    trx,
    'delete from webhook_endpoints where id = :id and partner_id = :partnerId returning id',
    { id, partnerId }
  )
  requireEndpoint(row, id)
}

/**
 * Gives an endpoint a new secret, returned once; the one before signs beside it for 24 h. A pause that the endpoint requested is kept:
 * it may be as busy as before. Throws NOT_FOUND.
 */
export async function rotateSecret(
  trx: Db,
  vault: Vault,
  id: string,
  partnerId: string
): Promise<{ secret: string; oldUntil: Date }> {
  const secret = newWebhookSecret()
  const { keyId, sealed } = vault.seal(secret, secretContext(id))
  const [row] = await rows<{ old_until: Date }>(
    trx,
    `update webhook_endpoints
        set old_key_id = secret_key_id, old_sealed = secret_sealed, old_until = now() + ${OLD_SECRET_HOURS} * interval '1 hour',
            secret_key_id = :keyId, secret_sealed = :sealed, next_at = now(), worker = null, lease = lease + 1
      where id = :id and partner_id = :partnerId returning old_until`,
    { id, partnerId, keyId, sealed }
  )
  return { secret, oldUntil: requireEndpoint(row, id).old_until }
}

/**
 * Seals up to `limit` secrets of an old key with the present one. Returns how many, and the endpoints whose secret cannot be decrypted; those
 * stay as they are.
 */
export async function resealWebhooks(
  db: Db,
  vault: Vault,
  { oldKeyId, after, limit }: { oldKeyId: string; after: string; limit: number }
): Promise<{ resealed: number; unreadable: string[]; after: string | null }> {
  type Secrets = {
    id: string
    secret_key_id: string
    secret_sealed: Buffer
    old_key_id: string | null
    old_sealed: Buffer | null
  }
  const list = await rows<Secrets>(
    db,
    `select id, secret_key_id, secret_sealed, case when old_until > now() then old_key_id end as old_key_id, old_sealed
       from webhook_endpoints
      where (secret_key_id = :oldKeyId or old_key_id = :oldKeyId) and id > :after order by id limit :limit`,
    { oldKeyId, after, limit }
  )
  const unreadable: string[] = []
  let resealed = 0
  for (const { id, secret_key_id, secret_sealed, old_key_id, old_sealed } of list) {
    const again = (was: Sealed): Sealed => vault.seal(vault.open(was, secretContext(id)), secretContext(id))
    let now: Sealed
    let old: Sealed | null
    try {
      now = again({ keyId: secret_key_id, sealed: secret_sealed })
      old = old_key_id && old_sealed ? again({ keyId: old_key_id, sealed: old_sealed }) : null
    } catch {
      unreadable.push(id)
      continue
    }
    // Only if nobody has rotated it meanwhile.
    const done = await rows(
      db,
      `update webhook_endpoints set secret_key_id = :keyId, secret_sealed = :sealed, old_key_id = :oldId, old_sealed = :oldSealed
        where id = :id and secret_sealed = :was returning id`,
      {
        id,
        keyId: now.keyId,
        sealed: now.sealed,
        oldId: old?.keyId ?? null,
        oldSealed: old?.sealed ?? null,
        was: secret_sealed
      }
    )
    resealed += done.length
  }
  return { resealed, unreadable, after: list.length === limit ? (list.at(-1)?.id ?? null) : null }
}

/** Locks an endpoint until `trx` ends. Throws NOT_FOUND for one that was deleted since it was read. */
export async function lockWebhook(trx: Db, id: string): Promise<void> {
  const [row] = await rows(trx, 'select id from webhook_endpoints where id = :id for no key update', { id })
  requireEndpoint(row, id)
}

/** The row of an endpoint. Throws NOT_FOUND where there is none. */
export function requireEndpoint<T>(row: T | undefined, id: string): T {
  if (!row) throw new ApiError('NOT_FOUND', `There is no webhook endpoint ${id}.`)
  return row
}
