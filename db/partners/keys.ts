// API keys, and what a request needs to know about the caller: one statement for key, partner and plan. Its facts come
// with a text of their own, by which a later statement proves that they still hold (db/orders/storing.ts).
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { Scope } from '../../schemas/fields/scopes.ts'
import { hashSecret, keyPrefix, newApiKey, type Pepper } from '../platform/crypto.ts'
import { among, type Db, rows, sql } from '../postgres/connection.ts'
import {
  ensureTestSide,
  getRealPartner,
  groupLimits,
  type PartnerFacts,
  partnerFactsColumns,
  type WithLimitColumns
} from './partners.ts'

/** The caller behind a key. */
export interface KeyCaller extends PartnerFacts {
  lookup: string
  keyId: string
  hash: Buffer
  scopes: Scope[]
  revoked: boolean
  /** All of the above as they are stored, as `callerHolds` compares them. */
  facts: string
}

const keyFactsColumns = 'k.lookup, k.id as "keyId", k.hash, k.scopes, k.revoked_at is not null as revoked'
// Every column that a request reads of its caller, as one text: a column that is added to what is read is compared as well.
const facts = `row(${`${keyFactsColumns}, ${partnerFactsColumns}`.replaceAll(/ as "?\w+"?/g, '')})::text`

/**
 * A condition: the key with the lookup is still the partner's and all its facts are still as `findCallers` read them, as
 * SQL. Its arguments are expressions.
 */
export const callerHolds = (caller: { lookup: string; partnerId: string; facts: string }) =>
  `exists (select from api_keys k join partners p on p.id = k.partner_id
            where k.lookup = ${caller.lookup} and p.id = ${caller.partnerId} and ${facts} = ${caller.facts})`

/** The callers of several lookups at once, in their order. */
export async function findCallers(db: Db, lookups: string[]): Promise<(KeyCaller | undefined)[]> {
  const found = await rows<WithLimitColumns<KeyCaller>>(
    db,
    sql`select ${keyFactsColumns}, ${partnerFactsColumns}, ${facts} as facts
       from api_keys k join partners p on p.id = k.partner_id
      where k.lookup = ${among('lookups')}`,
    { lookups }
  )
  const byLookup = new Map(found.map(row => [row.lookup, groupLimits(row)]))
  return lookups.map(lookup => byLookup.get(lookup))
}

/** A partner, and what its caller was authenticated by; null: by nothing of a key. */
export interface CallerToProve {
  partnerId: string
  caller: { lookup: string; facts: string } | null
}

/** How many traders the partner has; undefined when the facts of the caller's key no longer hold. */
export async function countTradersOf(db: Db, { partnerId, caller }: CallerToProve): Promise<number | undefined> {
  const [row] = await rows<{ count: number }>(
    db,
    sql`select (select count(*) from traders where partner_id = :partnerId) as count
      where :facts::text is null or ${callerHolds({ lookup: ':lookup', partnerId: ':partnerId', facts: ':facts' })}`,
    { partnerId, lookup: caller?.lookup ?? null, facts: caller?.facts ?? null }
  )
  return row?.count
}

export interface KeyRecord {
  keyId: string
  partnerId: string
  label: string | null
  scopes: Scope[]
  hint: string
  test: boolean
  createdAt: Date
  lastUsedAt: Date | null
  revokedAt: Date | null
}

/** The columns of a key; its hint is made of the lookup. */
interface KeyRow extends Omit<KeyRecord, 'hint'> {
  lookup: string
}

const columns = [
  'id as keyId',
  'partner_id as partnerId',
  'lookup',
  'label',
  'scopes',
  'test',
  'created_at as createdAt',
  'last_used_at as lastUsedAt',
  'revoked_at as revokedAt'
]

const withHint = ({ lookup, ...key }: KeyRow): KeyRecord => ({ ...key, hint: keyHint(lookup, key.test) })

/** Keys a partner may hold that are not revoked. */
const MAX_KEYS = 200

/**
 * Issues a key; with `test` one of the partner's test side. The key itself is returned once and stored nowhere. Throws NOT_FOUND, or
 * LIMIT_REACHED past the bound.
 */
export async function insertKey(
  trx: Db,
  pepper: Pepper,
  {
    partnerId: named,
    label,
    scopes,
    test = false
  }: { partnerId: string; label: string | null; scopes: readonly Scope[]; test?: boolean }
): Promise<KeyRecord & { key: string }> {
  const { partnerId } = test ? { partnerId: await ensureTestSide(trx, named) } : await getRealPartner(trx, named)
  // In a transaction, keys of one partner are made one after another: lock first, count then.
  await rows(trx, 'select id from partners where id = :partnerId for no key update', { partnerId })
  const held = (await trx('api_keys').where({ partner_id: partnerId }).whereNull('revoked_at').count('* as count')) as {
    count: number
  }[]
  if ((held[0]?.count ?? 0) >= MAX_KEYS)
    throw new ApiError('LIMIT_REACHED', `The partner holds ${MAX_KEYS} keys that are not revoked: revoke one first.`, {
      extras: { limit: MAX_KEYS }
    })
  const { key, lookup, secret } = newApiKey(test)
  const [row] = (await trx('api_keys')
    .insert({ id: newId('key'), partner_id: partnerId, lookup, hash: hashSecret(pepper, secret), label, scopes, test })
    .returning(columns)) as KeyRow[]
  return { ...withHint(row as KeyRow), key }
}

// Keys of the partner and of its test side.
const OF_BOTH_SIDES = 'partner_id in (select id from partners where id = ? or test_of = ?)'

/** Keys that are listed: all that are good, and the newest of those that were revoked. */
const LISTED = 1000

/** The partner's keys, those of its test side among them, newest first. */
export async function listKeys(db: Db, partnerId: string): Promise<KeyRecord[]> {
  const found = (await db
    .select('*')
    .from(
      db('api_keys')
        .select(columns)
        .whereRaw(OF_BOTH_SIDES, [partnerId, partnerId])
        .orderByRaw('revoked_at is not null, created_at desc, id desc')
        .limit(LISTED)
        .as('listed')
    )
    .orderBy([
      { column: 'createdAt', order: 'desc' },
      { column: 'keyId', order: 'desc' }
    ])) as KeyRow[]
  return found.map(withHint)
}

/** Revokes a key (of that partner or its test side, when one is named); a revoked one stays as it was. Throws NOT_FOUND. */
export async function revokeKey(trx: Db, keyId: string, partnerId?: string): Promise<KeyRecord> {
  const [row] = (await trx('api_keys')
    .where({ id: keyId })
    .modify(query => {
      if (partnerId) query.whereRaw(OF_BOTH_SIDES, [partnerId, partnerId])
    })
    .update({ revoked_at: trx.raw('coalesce(revoked_at, now())') })
    .returning(columns)) as KeyRow[]
  if (!row) throw new ApiError('NOT_FOUND', `There is no key ${keyId}.`)
  return withHint(row)
}

/** The part of a key that is not secret. */
export const keyHint = (lookup: string, test: boolean): string => `${keyPrefix(test)}${lookup}_…`

/** A key as its partner sees it. */
export function presentKey({
  keyId,
  label,
  scopes,
  hint,
  test,
  createdAt,
  lastUsedAt,
  revokedAt
}: Omit<KeyRecord, 'partnerId'>) {
  return {
    keyId,
    label,
    scopes,
    hint,
    ...(test ? { test } : {}),
    createdAt: createdAt.toISOString(),
    lastUsedAt: lastUsedAt?.toISOString() ?? null,
    revokedAt: revokedAt?.toISOString() ?? null
  }
}
