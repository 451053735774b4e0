// Two checks of orders that are stored, at a fraction of their cost: the same conditions, of which one no longer calls a function
// for each order, and the other looks at a statement's orders together.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    drop trigger order_of_its_side on orders;
    create trigger order_of_its_side before insert on orders for each row
      when ((new.account_id like 'TST%') <> (new.dialect = 'test')) execute function order_of_its_side();

    -- What 0076 looks for order by order. At the end of its statement, and so after its unique keys have waited; each name by its
    -- key, also by a plan that was made when few were archived.
    create function refuse_archived_names() returns trigger language plpgsql as $$
    begin
      if exists (select from fresh where client_order_id is not null
                    and coalesce((select true from archived_names n where n.name = order_name(fresh.partner_id, fresh.client_order_id) limit 1), false)) then
        raise exception 'the order of this clientOrderId was archived meanwhile' using errcode = 'serialization_failure';
      end if;
      return null;
    end $$;
    create trigger refuse_archived_names after insert on orders referencing new table as fresh for each statement
      execute function refuse_archived_names();
    drop trigger refuse_archived_name on orders;
    drop function refuse_archived_name();
  `)
}
