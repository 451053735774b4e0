// Following many contracts must not mean writing many rows: a worker's lease is one row of its own, and an open order
// names its worker. An order's own lease_until remains for one that was let go: not to be taken up before. Two indexes
// that every order paid for go as well: queued and sending orders are few, and found by the indexes on their accounts.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table followers (
      name         text collate "C" primary key,
      lease_until  timestamptz not null
    );
    alter table orders alter column follower type text collate "C";

    drop index orders_lease;
    create index orders_followed on orders (follower) where phase = 'open' and follower is not null;
    create index orders_let_go on orders (lease_until nulls first) where phase = 'open' and follower is null;

    drop index orders_waiting;
    drop index orders_doubt;
  `)
}
