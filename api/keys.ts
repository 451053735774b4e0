// Key management: the partner's own, with its session cookie and nothing else.

import { insertKey, listKeys as list, presentKey, revokeKey as revoke } from '../db/partners/keys.ts'
import { recordAudit } from '../db/platform/audit.ts'
import { requireWithin } from '../db/platform/bounds.ts'
import { pathId } from '../schemas/fields/fields.ts'
import { defaultScopes } from '../schemas/fields/scopes.ts'
import { IssuedKey, KeyList, NewKey, RevokedKey } from '../schemas/keys.ts'
import type { Operation } from './operation.ts'

export const createKey: Operation<{ body: NewKey }> = {
  name: 'createKey',
  method: 'POST',
  path: '/v1/keys',
  tag: 'Keys',
  summary: 'Create an API key',
  description:
    'The key is shown once only, in this response. Without scopes it gets every scope but admin. A partner holds at most 200 keys that are not revoked. With `test` it is a test key.',
  auth: 'session',
  scope: null,
  body: NewKey,
  response: IssuedKey,
  atomic: true,
  errors: ['LIMIT_REACHED'],
  async handle({ partner, body }, { db, pepper }): Promise<IssuedKey> {
    const { test = false } = body
    const scopes = body.scopes ? [...new Set(body.scopes)] : defaultScopes
    const issued = await db.transaction(async trx => {
      const key = await insertKey(trx, pepper, {
        partnerId: partner.partnerId,
        label: body.label ?? null,
        scopes,
        test
      })
      // Only now, with the partner locked: of two requests at once the second counts the first.
      await requireWithin(trx, 'keys', key.partnerId)
      await recordAudit(trx, { actor: `session:${partner.keyId}`, action: 'keys.issue', target: key.keyId })
      return key
    })
    return {
      keyId: issued.keyId,
      label: issued.label,
      scopes: issued.scopes,
      key: issued.key,
      ...(test ? { test } : {}),
      createdAt: issued.createdAt.toISOString()
    }
  }
}

export const listKeys: Operation<object> = {
  name: 'listKeys',
  method: 'GET',
  path: '/v1/keys',
  tag: 'Keys',
  summary: 'List API keys',
  description: 'Valid and revoked keys, newest first; never the keys themselves.',
  auth: 'session',
  scope: null,
  response: KeyList,
  errors: [],
  async handle({ partner }, { db }) {
    const keys = await list(db, partner.partnerId)
    return { data: keys.map(presentKey) }
  }
}

export const revokeKey: Operation<{ params: { id: string } }> = {
  name: 'revokeKey',
  method: 'DELETE',
  path: '/v1/keys/{id}',
  tag: 'Keys',
  summary: 'Revoke an API key',
  description: 'Effective at once and for good. Revoking a revoked key returns when it was revoked.',
  auth: 'session',
  scope: null,
  params: { type: 'object', required: ['id'], properties: { id: pathId('key', 'keyId of the key.') } },
  response: RevokedKey,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner, params }, { db }): Promise<RevokedKey> {
    const { keyId, revokedAt } = await db.transaction(async trx => {
      const key = await revoke(trx, params.id, partner.partnerId)
      await recordAudit(trx, { actor: `session:${partner.keyId}`, action: 'keys.revoke', target: key.keyId })
      return key
    })
    return { keyId, revokedAt: (revokedAt as Date).toISOString() }
  }
}
