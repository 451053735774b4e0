// Which migrations there are, and which of them a database has: what every process reads at its start. migrate.ts applies them.
import { ConfigError } from '../../schemas/config/config.ts'
import { type Db, rows } from './connection.ts'

/** The files of db/migrations, in the order they are applied; a name once released is never changed. */
export const migrations: readonly string[] = [
  '0001_partners',
  '0002_traders',
  '0003_orders',
  '0004_asks',
  '0005_ledger',
  '0006_marketplace',
  '0007_copy',
  '0008_templates',
  '0009_sessions',
  '0010_trades',
  '0011_usage',
  '0012_community',
  '0013_contract_findings',
  '0014_trace',
  '0015_collations',
  '0016_compared',
  '0017_severed',
  '0018_followers',
  '0019_trader_days',
  '0020_follow_sums',
  '0021_answered',
  '0022_marketplace_changes',
  '0023_account_proof',
  '0024_app_refusals',
  '0025_evidence',
  '0026_unsettled',
  '0027_idempotency_keys',
  '0028_stake_in_account',
  '0029_not_before',
  '0030_account_leases',
  '0031_token_renewal',
  '0032_copy_accounts',
  '0033_trader_credentials',
  '0034_fair_billing',
  '0035_unproven_orders',
  '0036_trader_days_by_account',
  '0037_audit_chain',
  '0038_lineage',
  '0039_asking_partner',
  '0040_trader_days_stakes',
  '0041_bad_day',
  '0042_events',
  '0043_call_records',
  '0044_stream_tickets',
  '0045_copy_limits',
  '0047_process_reports',
  '0050_ticks',
  '0051_event_faults',
  '0052_webhooks',
  '0054_markup',
  '0055_analytics',
  '0056_names',
  '0057_requests',
  '0058_test_side',
  '0061_reconciliation',
  '0062_test_broker',
  '0064_play_money',
  '0069_analytics_keys',
  '0070_analytics_since',
  '0071_request_groups',
  '0072_requests_packed',
  '0073_trader_totals',
  '0076_orders_archive',
  '0077_archive_sums',
  '0078_archived_traders',
  '0079_trader_closes',
  '0083_cheaper_triggers',
  '0086_day_traders',
  '0088_restored_beside',
  '0091_spending_of_calls',
  '0095_days_beside_readers',
  '0096_opened_as_it_was',
  '0097_replay_windows',
  '0098_events_in_any_locale',
  '0099_stopped_follows',
  '0105_dropped_until',
  '0106_audit_targets',
  '0110_steps_of_totals',
  '0111_days_of_a_trader',
  '0120_earnings_entries',
  '0130_disabled_traders',
  '0131_archived_closed_page',
  '0135_totals_by_days',
  '0144_follows_active_since',
  '0148_earnings_of_nothing',
  '0149_folded_words',
  '0150_counted_by_partner',
  '0151_was_proven',
  '0153_open_webhook_tests',
  '0154_fees_of_test_sides',
  '0155_entries_once',
  '0156_analysed_by_owner',
  '0157_renewals_resumed',
  '0158_lineage_noted',
  '0159_renewals_kept',
  '0160_renewals_resumed_again'
]

/** The encoding that the database needs. */
export const UTF8 = 'UTF8'

/** What a database has of the migrations, by their names. */
interface MigrationStatus {
  applied: string[]
  pending: string[]
  /** Applied by a newer version than this one, which does not know them. */
  newer: string[]
  /** The schema that has tables of ours where the search_path leads to none. */
  elsewhere?: string
}

/** Names applied, missing and unknown. Changes nothing: a database that was named by mistake gets no tables of ours. */
export async function migrationStatus(db: Db): Promise<MigrationStatus> {
  const [table] = await rows<{ made: boolean; elsewhere: string | null }>(
    db,
    `select to_regclass('migrations') is not null as made,
            (select min(n.nspname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.relname = 'database_lineage' and c.relkind = 'r') as elsewhere`
  )
  // knex would make its tables where there are none, and takes a name that it does not know for a fault.
  const found = table?.made ? await rows<{ name: string }>(db, 'select name from migrations order by id') : []
  const applied = found.map(({ name }) => name)
  return {
    applied,
    pending: migrations.filter(name => !applied.includes(name)),
    newer: applied.filter(name => !migrations.includes(name)),
    ...(!table?.made && table?.elsewhere ? { elsewhere: table.elsewhere } : {})
  }
}

/** The name of a migration that the previous version cannot work with ends so. */
const BREAKING = '_breaking'

/**
 * Throws ConfigError where this version cannot work with the schema. It works with the schema of a newer version, since
 * migrations run while the previous version serves: a process that has to restart in the middle of an upgrade must be able to.
 */
export function refuseSchema({ pending, newer, elsewhere }: MigrationStatus): void {
  if (elsewhere !== undefined)
    throw new ConfigError(
      `The tables are in the schema ${elsewhere}, which the search_path of this role leaves out: add it by \`alter role … set search_path\`, or of the database`
    )
  const breaking = newer.find(name => name.endsWith(BREAKING))
  if (breaking)
    throw new ConfigError(
      `The database was migrated to ${breaking}, with which this version cannot work: start the newer one`
    )
  if (pending.length === 0) return
  throw new ConfigError(
    newer.length > 0
      ? `The database lacks ${pending.length} migrations and has ${newer.length} of another version: migrate it with a version that knows all of them`
      : `The database lacks ${pending.length} migrations: run \`npm run -s operator -- db migrate\``
  )
}
