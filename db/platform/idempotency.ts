// Requests that carry an Idempotency-Key: one of them runs, its response is stored for 24 hours, repeats get it.
//
//   (nothing) -> leased -> answered      the response is stored in the transaction of the request's changes
//   leased -> (nothing)                  it was refused: nothing was done, the key is free again
//   leased -> leased                     its process died; a repeat takes over when the lease has ended
//
// A lease is short, and its process holds on to it for as long as the request runs: only how long the process may be silent
// decides when a repeat takes over, not how long a request may take.
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, listing, rows } from '../postgres/connection.ts'
import type { Vault } from './crypto.ts'

/** How long a response is kept. */
const KEPT_HOURS = 24
/** How long a key stays taken after its process last held on to it. */
export const LEASE_SECONDS = 5

interface KeptResponse {
  body: unknown
  headers: Record<string, string>
}

/** A key in use: whose, which, by which request. */
export interface HeldKey {
  partnerId: string
  key: string
  /** Random UUID of the request. */
  holder: string
}

const contextOf = ({ partnerId, key }: { partnerId: string; key: string }) => `idempotency_keys:${partnerId}:${key}`

interface RequestKeyRow {
  fingerprint: Buffer
  waits: number
  token_key_id: string | null
  answer: Buffer | null
}

/**
 * Takes the key for this request, or returns the stored response. Throws IDEMPOTENCY_KEY_REUSED when the key came with
 * another request, IDEMPOTENCY_IN_PROGRESS while the first one runs; its Retry-After is when the key is free if the process of the
 * first one has died.
 */
export async function takeKey(
  db: Db,
  vault: Vault,
  held: HeldKey,
  { fingerprint }: { fingerprint: Buffer }
): Promise<KeptResponse | undefined> {
  const { partnerId, key, holder } = held
  // What has expired counts as absent; so does a request whose process died, for its own repeat only.
  const [taken] = await rows(
    db,
    `insert into idempotency_keys as k (partner_id, key, fingerprint, holder, leased_until)
     values (:partnerId, :key, :fingerprint, :holder, now() + make_interval(secs => :leaseSeconds))
     on conflict (partner_id, key) do update
       set fingerprint = excluded.fingerprint, holder = excluded.holder, leased_until = excluded.leased_until,
           created_at = now(), answered_at = null, token_key_id = null, answer = null
     where k.created_at < now() - make_interval(hours => :keptHours)
        or k.answered_at is null and k.leased_until < now() and k.fingerprint = excluded.fingerprint
     returning key`,
    { partnerId, key, fingerprint, holder, leaseSeconds: LEASE_SECONDS, keptHours: KEPT_HOURS }
  )
  if (taken) return undefined
  const [row] = await rows<RequestKeyRow>(
    db,
    `select fingerprint, greatest(1, ceil(extract(epoch from leased_until - now())))::int as waits, token_key_id, answer
       from idempotency_keys where partner_id = :partnerId and key = :key`,
    { partnerId, key }
  )
  if (row && !row.fingerprint.equals(fingerprint)) throw new ApiError('IDEMPOTENCY_KEY_REUSED')
  if (row?.answer && row.token_key_id) {
    const text = vault.open({ keyId: row.token_key_id, sealed: row.answer }, contextOf(held))
    return JSON.parse(text) as KeptResponse
  }
  // Without a row the first request was refused this moment.
  const seconds = Math.min(row?.waits ?? 1, LEASE_SECONDS)
  throw new ApiError('IDEMPOTENCY_IN_PROGRESS', undefined, { headers: { 'Retry-After': String(seconds) } })
}

/**
 * Extends the leases of these keys, unless their responses are stored or another request has taken the key over. Waits for no
 * locked row.
 */
export async function holdOnToKeys(db: Db, held: HeldKey[]): Promise<void> {
  await rows(
    db,
    `update idempotency_keys k set leased_until = now() + make_interval(secs => :leaseSeconds)
       from (select i.partner_id, i.key from ${listing('partners', 'names', 'holders')} as h (partner_id, name, holder)
               join idempotency_keys i on i.partner_id = h.partner_id and i.key = h.name and i.holder = h.holder::uuid
              where i.answered_at is null
              order by i.partner_id, i.key for update of i skip locked) running
      where k.partner_id = running.partner_id and k.key = running.key`,
    {
      partners: held.map(({ partnerId }) => partnerId),
      names: held.map(({ key }) => key),
      holders: held.map(({ holder }) => holder),
      leaseSeconds: LEASE_SECONDS
    }
  )
}

/**
 * Stores the response, in the transaction of the request's changes where there is one. Throws UNAVAILABLE when a repeat
 * has taken the key over meanwhile, so that the transaction is rolled back. Returns how many bytes are stored.
 */
export async function keepResponse(trx: Db, vault: Vault, held: HeldKey, response: KeptResponse): Promise<number> {
  const { keyId, sealed } = vault.seal(JSON.stringify(response), contextOf(held))
  const [kept] = await rows(
    trx,
    `update idempotency_keys set answered_at = now(), token_key_id = :keyId, answer = :sealed
      where partner_id = :partnerId and key = :key and holder = :holder and answered_at is null
      returning key`,
    { ...held, keyId, sealed }
  )
  if (!kept) throw new ApiError('UNAVAILABLE', 'The request took too long; repeat it with the same Idempotency-Key.')
  return sealed.length
}

/** Gives the key back after a refusal. */
export async function freeKey(db: Db, held: HeldKey): Promise<void> {
  await rows(
    db,
    `delete from idempotency_keys
      where partner_id = :partnerId and key = :key and holder = :holder and answered_at is null`,
    { ...held }
  )
}

/** Deletes responses past the time they are kept. */
export async function deleteOldKeys(db: Db): Promise<void> {
  for (let batch = 0; batch < 200; batch++) {
    const gone = await rows(
      db,
      `delete from idempotency_keys where (partner_id, key) in
         (select partner_id, key from idempotency_keys
           where created_at < now() - make_interval(hours => :keptHours) order by created_at limit 5000)
       returning key`,
      { keptHours: KEPT_HOURS }
    )
    if (gone.length < 5000) break
  }
}

/** A kept response. */
interface KeptAt {
  partnerId: string
  key: string
}

/**
 * Seals up to `limit` responses of an old key with the present one, those after `after`. Returns how many, those that cannot be decrypted and stay as they are,
 * and where the next step goes on.
 */
export async function resealResponses(
  db: Db,
  vault: Vault,
  { oldKeyId, after, limit }: { oldKeyId: string; after: KeptAt | null; limit: number }
): Promise<{ resealed: number; unreadable: KeptAt[]; after: KeptAt | null }> {
  return db.transaction(async trx => {
    const found = await rows<KeptAt & { answer: Buffer }>(
      trx,
      `select partner_id as "partnerId", key, answer from idempotency_keys
        where token_key_id = :oldKeyId and (partner_id, key) > (:partnerId, :key)
        order by partner_id, key limit :limit for update skip locked`,
      { oldKeyId, partnerId: after?.partnerId ?? '', key: after?.key ?? '', limit }
    )
    const unreadable: KeptAt[] = []
    for (const { partnerId, key, answer } of found) {
      const context = contextOf({ partnerId, key })
      let opened: string
      try {
        opened = vault.open({ keyId: oldKeyId, sealed: answer }, context)
      } catch {
        // The rest must not wait for one damaged row.
        unreadable.push({ partnerId, key })
        continue
      }
      const { keyId, sealed } = vault.seal(opened, context)
      await rows(
        trx,
        `update idempotency_keys set token_key_id = :keyId, answer = :sealed
          where partner_id = :partnerId and key = :key`,
        { partnerId, key, keyId, sealed }
      )
    }
    const last = found.length === limit ? found.at(-1) : undefined
    return {
      resealed: found.length - unreadable.length,
      unreadable,
      after: last ? { partnerId: last.partnerId, key: last.key } : null
    }
  })
}
