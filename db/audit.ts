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

export interface AuditRecord {
  auditId: string
  at: Date
  actor: string
  action: string
  target: string | null
  details: object
}

/** A page of the log, newest first; about one target where one is named. The cursor is the last entry's id. */
export async function listAudit(
  db: Db,
  { limit, cursor, target }: { limit: number; cursor?: string; target?: string }
): Promise<{ data: AuditRecord[]; nextCursor: string | null }> {
  const query = db('audit_log')
    .select('id as auditId', 'at', 'actor', 'action', 'target', 'details')
    .orderBy('id', 'desc')
    .limit(limit + 1)
  if (cursor !== undefined) query.where('id', '<', cursor)
  if (target !== undefined) query.where({ target })
  const found = (await query) as AuditRecord[]
  const data = found.slice(0, limit)
  return { data, nextCursor: found.length > limit ? (data.at(-1)?.auditId ?? null) : null }
}
