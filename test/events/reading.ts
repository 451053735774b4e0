// Events in tests: put into the log without a worker, and read to their end.
import { listEvents } from '../../api/events/events.ts'
import { SEQUENCED_AT_ONCE, sequenceEvents } from '../../db/events/sequence.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { EventRecord } from '../../schemas/events.ts'
import type { CallInput, TestPartner } from '../support/harness.ts'

/** Moves everything in the outbox into the log. */
export async function sequenceAll(db: Db): Promise<void> {
  while ((await sequenceEvents(db)).count === SEQUENCED_AT_ONCE);
}

/** The partner's events after `after`, all pages of them; each page is checked against its schema. */
export async function readAll(
  partner: Pick<TestPartner, 'call'>,
  query: CallInput['query'] = {}
): Promise<{ events: EventRecord[]; cursor: string }> {
  const events: EventRecord[] = []
  let after = query.after
  for (;;) {
    const { status, body } = await partner.call(listEvents, {
      query: { ...query, ...(after === undefined ? {} : { after }) }
    })
    if (status !== 200) throw new Error(`reading events returned ${JSON.stringify(body)}`)
    events.push(...(body.data as EventRecord[]))
    after = body.cursor
    if (body.caughtUp) return { events, cursor: body.cursor }
  }
}

/** The newest cursor. */
export async function newest(partner: Pick<TestPartner, 'call'>): Promise<string> {
  return (await partner.call(listEvents, { query: { after: 'now' } })).body.cursor
}
