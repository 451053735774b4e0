// operator keys: API keys of partners. Only here can admin scopes be granted.
import type { Command } from 'commander'
import { insertKey, type KeyRecord, listKeys, revokeKey } from '../../db/partners/keys.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import type { Pepper } from '../../db/platform/crypto.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { KeyOrder, KeyRef, OfPartner } from '../../schemas/commands/operator.ts'
import { allScopes, defaultScopes, isScope, type Scope } from '../../schemas/fields/scopes.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { UsageError } from '../terminal/refusals.ts'

export function addKeys(program: Command): void {
  const keys = program.command('keys').description('API keys: issue, list, revoke')

  keys
    .command('issue')
    .description('Issue a key; it is shown only once')
    .requiredOption('--partner <partnerId>', 'whose key')
    .option('--label <text>', 'what it is for')
    .option('--scopes <list>', 'comma-separated; everything but admin:* when left out')
    .option('--test', 'a test key: everything under it lives apart, on the test broker')
    .addHelpText(
      'after',
      examples(
        'keys issue --partner ptn_01jd… --label production',
        'keys issue --partner ptn_01jd… --scopes trading:read,trading:write',
        'keys issue --partner ptn_01jd… --scopes admin:write',
        'keys issue --partner ptn_01jd… --test'
      )
    )
    .action(
      withStore(
        async ({ db, pepper, actor }, { partner: partnerId, label, scopes: list, test = false }: KeyOrder) => {
          const scopes = readScopes(list)
          return db.transaction(trx => issueKey(trx, pepper, { partnerId, label: label ?? null, scopes, test, actor }))
        },
        { input: KeyOrder, acts: true }
      )
    )

  keys
    .command('list')
    .description("List a partner's keys, newest first")
    .requiredOption('--partner <partnerId>', 'whose keys')
    .addHelpText('after', examples('keys list --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db }, { partner }: OfPartner) => {
          await getPartner(db, partner)
          return { data: (await listKeys(db, partner)).map(presentKey) }
        },
        { input: OfPartner, show: ['keyId', 'label', 'hint', 'createdAt', 'lastUsedAt', 'revokedAt', 'scopes'] }
      )
    )

  keys
    .command('revoke <keyId>')
    .description('Revoke a key, at once and for good')
    .addHelpText('after', examples('keys revoke key_01jd…', 'keys revoke key_01jd… --yes'))
    .action(
      withStore(
        async ({ db, actor, confirm }, { keyId }: KeyRef) => {
          await confirm(`Revoke ${keyId}? Calls with it are refused from now on, and it cannot be restored.`)
          return db.transaction(async trx => {
            const key = await revokeKey(trx, keyId)
            await recordAudit(trx, {
              actor,
              action: 'keys.revoke',
              target: keyId,
              details: { partnerId: key.partnerId }
            })
            return { keyId, partnerId: key.partnerId, revokedAt: key.revokedAt }
          })
        },
        { input: KeyRef, acts: true }
      )
    )
}

/** Creates a key, shown only once, and its line in the audit log. Throws NOT_FOUND when there is no such partner. */
export async function issueKey(
  trx: Db,
  pepper: Pepper,
  wanted: { partnerId: string; label: string | null; scopes: readonly Scope[]; test?: boolean; actor: string }
) {
  const { actor, ...order } = wanted
  const { keyId, partnerId, label, scopes, key, createdAt } = await insertKey(trx, pepper, order)
  await recordAudit(trx, { actor, action: 'keys.issue', target: keyId, details: { partnerId, label, scopes } })
  return { keyId, partnerId, label, scopes, key, createdAt }
}

function readScopes(list: string | undefined): readonly Scope[] {
  if (list === undefined) return defaultScopes
  const requested = [...new Set(list.split(',').map(scope => scope.trim()))]
  const unknown = requested.filter(scope => !isScope(scope))
  if (unknown.length > 0)
    throw new UsageError(
      `--scopes has no scope ${unknown.map(s => `'${s}'`).join(', ')}; there are ${allScopes.join(', ')}`
    )
  return requested as Scope[]
}

function presentKey(key: KeyRecord) {
  return {
    keyId: key.keyId,
    label: key.label,
    scopes: key.scopes,
    hint: key.hint,
    test: key.test,
    createdAt: key.createdAt,
    lastUsedAt: key.lastUsedAt,
    revokedAt: key.revokedAt
  }
}
