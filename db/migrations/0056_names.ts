// Tables and columns under the names of the glossary: broker requests, lease holders, breaks between the broker's books
// and ours, and of an order its reply channel, checks and lease holder. Only names change, no row is written. Processes of
// the previous version know only the old names, so that this migration refuses while any of them runs.
import type { Knex } from 'knex'
import { ApiError } from '../../schemas/errors/errors.ts'

/** A process that sent no heartbeat for so long is gone; a running one sends one every 5 s. */
const GONE_AFTER_SECONDS = 20

export async function up(db: Knex): Promise<void> {
  const { rows: running } = (await db.raw(
    `select kind || ' ' || name as process from processes
      where seen_at > clock_timestamp() - interval '${GONE_AFTER_SECONDS} seconds' order by kind, name limit 20`
  )) as { rows: { process: string }[] }
  if (running.length > 0)
    throw new ApiError(
      'CONFLICT',
      `This migration renames tables that running processes use: stop every api and worker, then migrate, then start the new version. \
Running, or gone for less than ${GONE_AFTER_SECONDS} seconds: ${running.map(({ process }) => process).join(', ')}.`
    )
  await db.raw(`
    alter table asks rename to broker_requests;
    alter table broker_requests rename column answer to response;
    alter table broker_requests rename column answered_at to responded_at;
    alter table broker_requests rename column origin to reply_channel;
    alter table broker_requests rename constraint asks_pkey to broker_requests_pkey;
    alter table broker_requests rename constraint asks_state_check to broker_requests_state_check;
    alter table broker_requests rename constraint asks_trace_check to broker_requests_trace_check;
    alter index asks_waiting rename to broker_requests_waiting;
    alter index asks_expiry rename to broker_requests_expiry;

    alter table followers rename to lease_holders;
    alter table lease_holders rename constraint followers_pkey to lease_holders_pkey;

    alter table contract_findings rename to contract_breaks;
    alter sequence contract_findings_id_seq rename to contract_breaks_id_seq;
    alter table contract_breaks rename constraint contract_findings_pkey to contract_breaks_pkey;
    alter table contract_breaks rename constraint contract_findings_account_id_broker_order_id_kind_key to contract_breaks_account_id_broker_order_id_kind_key;
    alter table contract_breaks rename constraint contract_findings_order_id_fkey to contract_breaks_order_id_fkey;
    alter table contract_breaks rename constraint contract_findings_partner_id_fkey to contract_breaks_partner_id_fkey;
    alter table contract_breaks rename constraint contract_findings_kind_check to contract_breaks_kind_check;
    alter index contract_findings_open rename to contract_breaks_open;

    alter table orders rename column origin to reply_channel;
    alter table orders rename column follower to lease_holder;
    alter table orders rename column leads to has_followers;
    alter table orders rename column looks to checks;
    alter table orders rename column severed_attempt to reset_attempt;
    alter table orders rename column reconcile_at to resolve_at;
    alter index orders_followed rename to orders_leased;
    alter index orders_let_go rename to orders_released;
  `)
  // Requests under way when the processes stopped, whose jobs name them.
  const { rows: queue } = (await db.raw(`select to_regclass('pgboss.job') is not null as found`)) as {
    rows: { found: boolean }[]
  }
  if (queue[0]?.found)
    await db.raw(
      `update pgboss.job set data = jsonb_build_object('brokerRequestId', data ->> 'askId') where data ->> 'askId' is not null`
    )
}
