// Facts that decide whether an order in doubt may be declared absent. A connection reset ends what its sender can still
// deliver, but not what the broker already has: absence waits for the broker's own time-out after the reset. A check
// counts towards absence only when it began after that time.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- When the sender, left without the broker's response, had reset its connection (database clock). It belongs to
    -- severed_attempt, and is valid only where it is not before sent_at: an older version of the worker does not write it.
    alter table orders add column reset_at timestamptz;
    -- Checks of the broker's lists that found nothing and began when nothing of the purchase could be executed any more.
    alter table orders add column absence_checks int not null default 0;
    -- Which of its sender's claiming statements claimed the order: where that statement's outcome was lost, nothing was sent.
    alter table orders add column claim_no int;
    -- The worker's wall clock minus the database's, as of its last renewal.
    alter table followers add column clock_offset_ms float8;
  `)
}
