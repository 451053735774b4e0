// An entry that its transfer has already is refused before it changes the balance of its account: "on conflict do nothing", as in a repair
// that is repeated, left the entry out, and not what it did to the account.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create or replace function ledger_apply_entry() returns trigger language plpgsql as $$
    begin
      if exists (select from ledger_entries where transfer_id = new.transfer_id and account_id = new.account_id) then
        raise exception 'transfer % has an entry of % already', new.transfer_id, new.account_id using errcode = 'unique_violation';
      end if;
      update ledger_accounts set balance = round(balance + new.amount, 2), version = version + 1
       where id = new.account_id
       returning balance, version into new.balance, new.version;
      if not found then
        raise exception 'account % is not open', new.account_id using errcode = 'foreign_key_violation';
      end if;
      return new;
    end $$;
  `)
}
