// Copies, stored with their jobs in one statement. The worker has read and locked what they are decided on (db/copy/fanout.ts) in
// the transaction that stores them.
import type { Queue } from '../platform/queue.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { type DraftBase, insertFrom, jobsOfStored, valueColumns, valuesOf } from './inserting.ts'

/** A copy about to be stored. */
export interface CopyDraft extends DraftBase {
  appId: string
  dialect: string
  traderId: string
  accountRowId: string
  accountId: string
  accountMode: string
  currency: string | null
  /** Whether the broker has accepted the account's token; else the order waits until it has. */
  proven: boolean
  copiedFrom: string
  followId: string
  raisedToMinimum: boolean
}

const columns = `${valueColumns}, trader_id text, broker_account_id text, account_id text, account_mode text, currency text,
              app_id text, dialect text, phase text, client_order_id text, reply_channel text, copied_from text, follow_id text,
              raised_to_minimum boolean`

// A copy's time to live begins with its leader's purchase, however long locks were waited for since: a tick contract is worthless
// late.
const drafts = `(select drafts.*, coalesce(l.sent_at, l.queued_at) as lives_from
                   from jsonb_to_recordset(:values::jsonb) as drafts (${columns}) join orders l on l.id = drafts.copied_from
                  order by drafts.partner_id, drafts.id) v`

/**
 * Stores copies and their jobs at once; those that exist are left as they are. Halts are applied to them when they are
 * claimed. Returns how many were stored.
 */
export async function storeCopies(db: Db, queue: Queue, copies: CopyDraft[]): Promise<number> {
  if (copies.length === 0) return 0
  const values = copies.map(draft => ({
    ...valuesOf(draft),
    trader_id: draft.traderId,
    broker_account_id: draft.accountRowId,
    account_id: draft.accountId,
    account_mode: draft.accountMode,
    currency: draft.currency,
    app_id: draft.appId,
    dialect: draft.dialect,
    phase: draft.proven ? 'queued' : 'unproven',
    copied_from: draft.copiedFrom,
    follow_id: draft.followId,
    raised_to_minimum: draft.raisedToMinimum
  }))
  const stored = await rows<{ id: string }>(
    db,
    sql`with stored as (
       ${insertFrom(drafts, { livesFrom: 'v.lives_from' })}
       returning o.id, o.account_id, o.phase
     ), enqueued as (${queue.enqueueing('order.copy', jobsOfStored)})
     select id from stored`,
    { values: JSON.stringify(values) }
  )
  return stored.length
}
