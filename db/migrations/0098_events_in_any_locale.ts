// Types of events are words of ours: made of a status by the rules of the database's locale, PAID is no 'paid' where that is Turkish.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create or replace function payout_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, 'payout.' || lower(new.status collate "C"), new.id, external_id_of(new.party_id),
        to_jsonb(new) || jsonb_build_object('amount', new.amount::text, 'trader_external_id', external_id_of(new.party_id)));
      return null;
    end $$;
    create or replace function deployment_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, 'deployment.' || lower(new.status collate "C"), new.id, to_jsonb(new));
      return null;
    end $$;
  `)
}
