// What operators did: who, when, to what.
import { userInfo } from 'node:os'
import { newId } from '../schemas/ids.ts'
import type { Db } from './connection.ts'

export interface AuditEntry {
  actor: string
  action: string
  target?: string | null
  details?: Record<string, unknown>
}

/** Writes one line of the audit log, in the transaction of what it tells about. */
export async function recordAudit(trx: Db, { actor, action, target = null, details = {} }: AuditEntry): Promise<void> {
  await trx('audit_log').insert({ id: newId('audit'), actor, action, target, details: JSON.stringify(details) })
}

/** The person at the keyboard, as the operating system knows them. */
export function operatorName(): string {
  try {
    return `cli:${userInfo().username}`
  } catch {
    return `cli:uid-${process.getuid?.() ?? 'unknown'}`
  }
}

/** Newest first, at most `limit`. */
export async function listAudit(
  db: Db,
  limit: number
): Promise<{ id: string; at: Date; actor: string; action: string; target: string | null; details: object }[]> {
  return db('audit_log')
    .select('id', 'at', 'actor', 'action', 'target', 'details')
    .orderBy([
      { column: 'at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(limit)
}
