// Tickets with which a browser opens one socket of the stream: stored as hashes, used once.

import type { Scope } from '../../schemas/fields/scopes.ts'
import { groupLimits, type PartnerFacts, partnerFactsColumns, type WithLimitColumns } from '../partners/partners.ts'
import { hashSecret, newToken, type Pepper } from '../platform/crypto.ts'
import { type Db, listing, rows } from '../postgres/connection.ts'

/** What a ticket opens. */
interface Ticket {
  traderExternalId: string
  channels: string[]
  /** The assets whose ticks it may subscribe to; null for any. */
  assets: string[] | null
}

/** A ticket that was used, and the caller behind the key that made it. */
interface UsedTicket extends Ticket, PartnerFacts {
  traderId: string
  keyId: string
  scopes: Scope[]
  revoked: boolean
}

/** Stores a ticket; the ticket itself is returned once. */
export async function insertTicket(
  db: Db,
  pepper: Pepper,
  {
    partnerId,
    keyId,
    traderExternalId,
    channels,
    assets,
    ttlSeconds
  }: Ticket & { partnerId: string; keyId: string; ttlSeconds: number }
): Promise<{ ticket: string; expiresAt: Date }> {
  const ticket = newToken()
  const [row] = await rows<{ expiresAt: Date }>(
    db,
    `insert into stream_tickets (hash, partner_id, key_id, trader_external_id, channels, assets, expires_at)
     values (:hash, :partnerId, :keyId, :traderExternalId, :channels, :assets, clock_timestamp() + :ttlSeconds * interval '1 second')
     returning expires_at as "expiresAt"`,
    { hash: hashSecret(pepper, `ticket:${ticket}`), partnerId, keyId, traderExternalId, channels, assets, ttlSeconds }
  )
  return { ticket, ...(row as { expiresAt: Date }) }
}

/** Uses a ticket up; undefined for one that is unknown, expired or used, or whose trader is erased or disabled by now. */
export async function redeemTicket(db: Db, pepper: Pepper, ticket: string): Promise<UsedTicket | undefined> {
  const [row] = await rows<WithLimitColumns<UsedTicket>>(
    db,
    `with used as (
       delete from stream_tickets where hash = :hash returning key_id, trader_external_id, channels, assets, expires_at
     )
     select u.trader_external_id as "traderExternalId", t.id as "traderId", u.channels, u.assets, k.id as "keyId", k.scopes, k.revoked_at is not null as revoked,
            ${partnerFactsColumns}
       from used u join api_keys k on k.id = u.key_id join partners p on p.id = k.partner_id
       join traders t on t.partner_id = p.id and t.external_id = u.trader_external_id
      where u.expires_at > clock_timestamp() and t.disabled_at is null`,
    { hash: hashSecret(pepper, `ticket:${ticket}`) }
  )
  return row && groupLimits(row)
}

/** Deletes tickets that were not used in time. */
export async function deleteOldTickets(db: Db): Promise<void> {
  await rows(db, 'delete from stream_tickets where expires_at < clock_timestamp()')
}

/** Which of these keys may not hold a socket any more, and why. */
export async function listBarred(
  db: Db,
  keyIds: string[]
): Promise<{ keyId: string; why: 'key' | 'partner' | 'plan' }[]> {
  return rows(
    db,
    `select k.id as "keyId", case when k.revoked_at is not null then 'key' when p.suspended_at is not null then 'partner' else 'plan' end as why
       from api_keys k join partners p on p.id = k.partner_id
      where k.id = any(array(select unnest(:keyIds::text[])))
        and (k.revoked_at is not null or p.suspended_at is not null or not p.plan_active)`,
    { keyIds }
  )
}

/**
 * Traders that were disabled or erased within the last day. The instant is that at which the transaction began, which for a trader with
 * many orders may be minutes before its commit.
 */
export async function listDisabledLately(db: Db): Promise<string[]> {
  const found = await rows<{ id: string }>(db, `select id from traders where disabled_at > now() - interval '1 day'`)
  return found.map(({ id }) => id)
}

/** Which of these traders may not have a socket any more: they were disabled or erased (which removes their external ids). */
export async function listBarredTraders(
  db: Db,
  traders: { traderId: string; traderExternalId: string }[]
): Promise<string[]> {
  const found = await rows<{ id: string }>(
    db,
    `select w.id from ${listing('ids', 'names')} as w (id, name)
       left join traders t on t.id = w.id and t.external_id = w.name and t.disabled_at is null
      where t.id is null`,
    { ids: traders.map(({ traderId }) => traderId), names: traders.map(({ traderExternalId }) => traderExternalId) }
  )
  return found.map(({ id }) => id)
}
