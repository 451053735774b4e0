// The audit log of operators: actor, time, target.
import { userInfo } from 'node:os'
import { newId } from '../../schemas/fields/ids.ts'
import { type Db, rows } from '../postgres/connection.ts'

interface AuditEntry {
  actor: string
  action: string
  target?: string | null
  details?: Record<string, unknown>
}

/**
 * Writes one line of the audit log, as the last statement of the change that it records: it holds the end of the chain until the commit,
 * and every other change waits for that with its rows locked.
 */
export async function recordAudit(trx: Db, { actor, action, target = null, details = {} }: AuditEntry): Promise<void> {
  await trx('audit_log').insert({ id: newId('audit'), actor, action, target, details: JSON.stringify(details) })
}

/** The acting person: the account of the operating system and, as several people may share it, OPERATOR_NAME. */
export function operatorName(name?: string): string {
  return `cli:${accountName()}${name === undefined ? '' : ` (${name})`}`
}

function accountName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}`
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

interface AuditVerified {
  entries: number
  /** Hash of the newest line; kept elsewhere, it shows later whether lines were cut off the end. Null without lines. */
  lastHash: string | null
  /** Where the chain is broken, as a sentence; null when it is whole. */
  broken: string | null
}

/** Recomputes the chain from its first line. The hash is computed here, not by the function that the trigger uses. */
export async function verifyAudit(db: Db): Promise<AuditVerified> {
  const [row] = await rows<{ entries: number; last_hash: string | null; wrong_id: string | null; wrong_seq: number }>(
    db,
    `with chained as (
       select id, seq, hash, row_number() over (order by seq) as place,
              sha256(coalesce(lag(hash) over (order by seq), ''::bytea) || convert_to(jsonb_build_array(
                seq, id, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), actor, action, target, details
              )::text, 'UTF8')) as computed
         from audit_log
     ), wrong as (select id, seq from chained where hash <> computed or seq <> place order by seq limit 1)
     select (select count(*) from chained) as entries,
            (select encode(hash, 'hex') from chained order by seq desc limit 1) as last_hash,
            (select id from wrong) as wrong_id, (select seq from wrong) as wrong_seq`
  )
  const { entries, last_hash, wrong_id, wrong_seq } = row as NonNullable<typeof row>
  const broken =
    wrong_id === null ? null : `line ${wrong_seq} (${wrong_id}) was changed, or one before it was changed or taken out`
  return { entries, lastHash: last_hash, broken }
}
