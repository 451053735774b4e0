// Sales, months and refunds of which the platform keeps all (a fee of 100 %, or one that rounds up to a price of a cent) have no entry of
// the creator's earnings account, so that the earnings of a window did not count them. They get their row from the entry of the fees; its
// version, below zero, keeps it apart from the rows of the account's own entries.
import type { Knex } from 'knex'

const facts = `'earnings:' || b.partner_id, t.created_at, -e.version, t.kind, case when t.kind = 'refund' then -t.amount::numeric else t.amount::numeric end, 0`
const ofAll = `ledger_transfers t on t.id = e.transfer_id and t.amount::numeric = abs(e.amount::numeric) and t.kind in ('sale', 'subscription', 'refund')
          join marketplace_bots b on b.id = t.details->>'botId'`

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create function fee_entry() returns trigger language plpgsql as $$
    begin
      insert into earnings_entries (account_id, created_at, version, kind, gross, net)
      select ${facts} from (select new.*) e join ${ofAll};
      return null;
    end $$;
    create trigger fee_entry after insert on ledger_entries for each row when (new.account_id in ('fees', 'test_fees'))
      execute function fee_entry();
    insert into earnings_entries (account_id, created_at, version, kind, gross, net)
    select ${facts} from ledger_entries e join ${ofAll} where e.account_id in ('fees', 'test_fees')`)
}
