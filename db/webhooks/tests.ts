// Test events: requested through an api, sent once by the first worker that takes them, their result read from the row.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import type { WebhookTest } from '../../schemas/webhooks.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { requireEndpoint } from './endpoints.ts'

/** A test to be sent, with what of its endpoint that takes. */
export interface TestRow {
  id: string
  endpoint_id: string
  partner_id: string
  channel: string
  url: string
  secret_key_id: string
  secret_sealed: Buffer
  old_key_id: string | null
  old_sealed: Buffer | null
  /** For how long the old secret signs, ms from now; null without one. */
  old_ms: number | null
}

// The requester has timed out by then.
const TEST_MS = 30_000
/** Tests of a partner without a result: each may be a connection that a worker holds for 15 s, also where its requester is gone. */
export const OPEN_TESTS = 20

/**
 * Stores a test; `channel` is where its end is published. Returns its id. Throws NOT_FOUND for an endpoint that was deleted since it was
 * read, RATE_LIMITED while OPEN_TESTS of the partner are under way.
 */
export async function insertTest(
  db: Db,
  { endpointId, partnerId, channel }: { endpointId: string; partnerId: string; channel: string }
): Promise<string> {
  return db.transaction(async trx => {
    // Tests of one partner are stored one after another: lock first, count then.
    await rows(trx, 'select id from partners where id = :partnerId for no key update', { partnerId })
    const open = await rows(
      trx,
      `select from webhook_tests where partner_id = :partnerId and result is null
          and created_at > clock_timestamp() - ${TEST_MS} * interval '1 millisecond' limit ${OPEN_TESTS}`,
      { partnerId }
    )
    if (open.length === OPEN_TESTS)
      throw new ApiError(
        'RATE_LIMITED',
        `${OPEN_TESTS} tests of this partner's endpoints are under way: let some of them end first.`,
        {
          headers: { 'Retry-After': '1' }
        }
      )
    const [row] = await rows<{ id: string }>(
      trx,
      `insert into webhook_tests (id, endpoint_id, partner_id, channel)
       select :id, id, :partnerId, :channel from webhook_endpoints where id = :endpointId for key share
       returning id`,
      { id: newId('delivery'), endpointId, partnerId, channel }
    )
    return requireEndpoint(row, endpointId).id
  })
}

/** Takes tests for `worker`; each is taken once. */
export async function takeTests(db: Db, worker: string, limit: number): Promise<TestRow[]> {
  return rows<TestRow>(
    db,
    `with due as (
       select id from webhook_tests where worker is null and created_at > clock_timestamp() - ${TEST_MS} * interval '1 millisecond'
        order by created_at limit :limit for update skip locked)
     update webhook_tests t set worker = :worker from due, webhook_endpoints e where t.id = due.id and e.id = t.endpoint_id
     returning t.id, t.endpoint_id, t.partner_id, t.channel, e.url, e.secret_key_id, e.secret_sealed, e.old_key_id, e.old_sealed,
       (extract(epoch from e.old_until - clock_timestamp()) * 1000)::float8 as old_ms`,
    { worker, limit }
  )
}

/** Writes the result of a test. */
export async function endTest(db: Db, id: string, result: WebhookTest): Promise<void> {
  await rows(db, 'update webhook_tests set result = :result::jsonb where id = :id', {
    id,
    result: JSON.stringify(result)
  })
}

/** The result of a test; null while there is none. */
export async function findTestResult(db: Db, id: string): Promise<WebhookTest | null> {
  const [row] = await rows<{ result: WebhookTest | null }>(db, 'select result from webhook_tests where id = :id', {
    id
  })
  return row?.result ?? null
}

/** Deletes tests that are over. */
export async function deleteOldTests(db: Db): Promise<void> {
  await rows(db, `delete from webhook_tests where created_at < now() - interval '1 hour'`)
}
