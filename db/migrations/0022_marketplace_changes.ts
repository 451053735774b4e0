// What each version changed in the marketplace's list, for as long as somebody may remember the one before. A publication
// made everybody count again what was found by words: 50 ms for a common one among 100,000 bots.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A bot that came (1) or left (-1) with that version; one that changed left as it was and came as it is.
    create table marketplace_changes (
      version       bigint not null,
      sign          int not null check (sign in (1, -1)),
      bot_id        text collate "C" not null,
      published_at  timestamptz(3) not null,
      category      text not null,
      risk_level    text not null,
      words         tsvector not null
    );
    create index marketplace_changes_version on marketplace_changes (version);
  `)
}
