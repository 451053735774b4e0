// Sales, subscriptions and refunds of a creator's earnings account by their time, so that the earnings of a window are read from its rows
// alone: for one day of a partner with 300,000 sales every transfer of the ledger was read. Each row is made with its entry by a trigger,
// for a process of the previous version as well, and neither ever changes. The versions of an account are no order of time: a transfer has
// the instant at which its transaction began. Payments wait while what is there is copied, some seconds for a million sales.
import type { Knex } from 'knex'

const facts = `t.created_at, e.version, t.kind, case when t.kind = 'refund' then -t.amount::numeric else t.amount::numeric end, e.amount`
const brought = `t.kind in ('sale', 'subscription', 'refund')`

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table earnings_entries (
      account_id  text collate "C" not null,
      created_at  timestamptz not null,
      version     bigint not null,
      kind        text not null,
      -- What buyers paid; below zero what a refund gave back.
      gross       usd not null,
      -- What of it the account got or gave.
      net         usd not null,
      primary key (account_id, created_at, version)
    );
    create function earnings_entry() returns trigger language plpgsql as $$
    begin
      insert into earnings_entries (account_id, created_at, version, kind, gross, net)
      select e.account_id, ${facts} from (select new.*) e join ledger_transfers t on t.id = e.transfer_id where ${brought};
      return null;
    end $$;
    create trigger earnings_entry after insert on ledger_entries for each row when (starts_with(new.account_id, 'earnings:'))
      execute function earnings_entry();
    create trigger append_only before update or delete on earnings_entries for each row execute function ledger_refuse();
    create trigger not_truncated before truncate on earnings_entries for each statement execute function ledger_refuse();
    insert into earnings_entries (account_id, created_at, version, kind, gross, net)
    select e.account_id, ${facts} from ledger_entries e join ledger_transfers t on t.id = e.transfer_id
     where starts_with(e.account_id, 'earnings:') and ${brought}`)
}
