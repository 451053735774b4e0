// Migrations: an explicit list, forward only, and the queue's own tables with them.
import type { Knex } from 'knex'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { ConfigError } from '../../schemas/config/config.ts'
import { deadLetterOf, type QueueName, type QueueRule, queues } from '../../schemas/jobs.ts'
import * as partners from '../migrations/0001_partners.ts'
import * as traders from '../migrations/0002_traders.ts'
import * as orders from '../migrations/0003_orders.ts'
import * as asks from '../migrations/0004_asks.ts'
import * as ledger from '../migrations/0005_ledger.ts'
import * as marketplace from '../migrations/0006_marketplace.ts'
import * as copy from '../migrations/0007_copy.ts'
import * as templates from '../migrations/0008_templates.ts'
import * as sessions from '../migrations/0009_sessions.ts'
import * as trades from '../migrations/0010_trades.ts'
import * as usage from '../migrations/0011_usage.ts'
import * as community from '../migrations/0012_community.ts'
import * as contractFindings from '../migrations/0013_contract_findings.ts'
import * as trace from '../migrations/0014_trace.ts'
import * as collations from '../migrations/0015_collations.ts'
import * as compared from '../migrations/0016_compared.ts'
import * as severed from '../migrations/0017_severed.ts'
import * as followers from '../migrations/0018_followers.ts'
import * as traderDays from '../migrations/0019_trader_days.ts'
import * as followSums from '../migrations/0020_follow_sums.ts'
import * as answered from '../migrations/0021_answered.ts'
import * as marketplaceChanges from '../migrations/0022_marketplace_changes.ts'
import * as accountProof from '../migrations/0023_account_proof.ts'
import * as appRefusals from '../migrations/0024_app_refusals.ts'
import * as evidence from '../migrations/0025_evidence.ts'
import * as unsettled from '../migrations/0026_unsettled.ts'
import * as idempotencyKeys from '../migrations/0027_idempotency_keys.ts'
import * as stakeInAccount from '../migrations/0028_stake_in_account.ts'
import * as notBefore from '../migrations/0029_not_before.ts'
import * as accountLeases from '../migrations/0030_account_leases.ts'
import * as tokenRenewal from '../migrations/0031_token_renewal.ts'
import * as copyAccounts from '../migrations/0032_copy_accounts.ts'
import * as traderCredentials from '../migrations/0033_trader_credentials.ts'
import * as fairBilling from '../migrations/0034_fair_billing.ts'
import * as unprovenOrders from '../migrations/0035_unproven_orders.ts'
import * as traderDaysByAccount from '../migrations/0036_trader_days_by_account.ts'
import * as auditChain from '../migrations/0037_audit_chain.ts'
import * as lineage from '../migrations/0038_lineage.ts'
import * as askingPartner from '../migrations/0039_asking_partner.ts'
import * as traderDaysStakes from '../migrations/0040_trader_days_stakes.ts'
import * as badDay from '../migrations/0041_bad_day.ts'
import * as events from '../migrations/0042_events.ts'
import * as callRecords from '../migrations/0043_call_records.ts'
import * as streamTickets from '../migrations/0044_stream_tickets.ts'
import * as copyLimits from '../migrations/0045_copy_limits.ts'
import * as processReports from '../migrations/0047_process_reports.ts'
import * as ticks from '../migrations/0050_ticks.ts'
import * as eventFaults from '../migrations/0051_event_faults.ts'
import * as webhooks from '../migrations/0052_webhooks.ts'
import * as markup from '../migrations/0054_markup.ts'
import * as analytics from '../migrations/0055_analytics.ts'
import * as names from '../migrations/0056_names.ts'
import * as requests from '../migrations/0057_requests.ts'
import * as testSide from '../migrations/0058_test_side.ts'
import * as reconciliation from '../migrations/0061_reconciliation.ts'
import * as testBroker from '../migrations/0062_test_broker.ts'
import * as playMoney from '../migrations/0064_play_money.ts'
import * as analyticsKeys from '../migrations/0069_analytics_keys.ts'
import * as analyticsSince from '../migrations/0070_analytics_since.ts'
import * as requestGroups from '../migrations/0071_request_groups.ts'
import * as requestsPacked from '../migrations/0072_requests_packed.ts'
import * as traderTotals from '../migrations/0073_trader_totals.ts'
import * as ordersArchive from '../migrations/0076_orders_archive.ts'
import * as archiveSums from '../migrations/0077_archive_sums.ts'
import * as archivedTraders from '../migrations/0078_archived_traders.ts'
import * as traderCloses from '../migrations/0079_trader_closes.ts'
import * as cheaperTriggers from '../migrations/0083_cheaper_triggers.ts'
import * as dayTraders from '../migrations/0086_day_traders.ts'
import * as restoredBeside from '../migrations/0088_restored_beside.ts'
import { type Db, DEPENDABLE, openDatabase, rows, sessionAt, WITHOUT_STATEMENT_TIMEOUT } from './connection.ts'

interface Migration {
  name: string
  up(db: Knex): Promise<void>
}

/** In the order they are applied; a name once released is never changed. */
const migrations: Migration[] = [
  { name: '0001_partners', up: partners.up },
  { name: '0002_traders', up: traders.up },
  { name: '0003_orders', up: orders.up },
  { name: '0004_asks', up: asks.up },
  { name: '0005_ledger', up: ledger.up },
  { name: '0006_marketplace', up: marketplace.up },
  { name: '0007_copy', up: copy.up },
  { name: '0008_templates', up: templates.up },
  { name: '0009_sessions', up: sessions.up },
  { name: '0010_trades', up: trades.up },
  { name: '0011_usage', up: usage.up },
  { name: '0012_community', up: community.up },
  { name: '0013_contract_findings', up: contractFindings.up },
  { name: '0014_trace', up: trace.up },
  { name: '0015_collations', up: collations.up },
  { name: '0016_compared', up: compared.up },
  { name: '0017_severed', up: severed.up },
  { name: '0018_followers', up: followers.up },
  { name: '0019_trader_days', up: traderDays.up },
  { name: '0020_follow_sums', up: followSums.up },
  { name: '0021_answered', up: answered.up },
  { name: '0022_marketplace_changes', up: marketplaceChanges.up },
  { name: '0023_account_proof', up: accountProof.up },
  { name: '0024_app_refusals', up: appRefusals.up },
  { name: '0025_evidence', up: evidence.up },
  { name: '0026_unsettled', up: unsettled.up },
  { name: '0027_idempotency_keys', up: idempotencyKeys.up },
  { name: '0028_stake_in_account', up: stakeInAccount.up },
  { name: '0029_not_before', up: notBefore.up },
  { name: '0030_account_leases', up: accountLeases.up },
  { name: '0031_token_renewal', up: tokenRenewal.up },
  { name: '0032_copy_accounts', up: copyAccounts.up },
  { name: '0033_trader_credentials', up: traderCredentials.up },
  { name: '0034_fair_billing', up: fairBilling.up },
  { name: '0035_unproven_orders', up: unprovenOrders.up },
  { name: '0036_trader_days_by_account', up: traderDaysByAccount.up },
  { name: '0037_audit_chain', up: auditChain.up },
  { name: '0038_lineage', up: lineage.up },
  { name: '0039_asking_partner', up: askingPartner.up },
  { name: '0040_trader_days_stakes', up: traderDaysStakes.up },
  { name: '0041_bad_day', up: badDay.up },
  { name: '0042_events', up: events.up },
  { name: '0043_call_records', up: callRecords.up },
  { name: '0044_stream_tickets', up: streamTickets.up },
  { name: '0045_copy_limits', up: copyLimits.up },
  { name: '0047_process_reports', up: processReports.up },
  { name: '0050_ticks', up: ticks.up },
  { name: '0051_event_faults', up: eventFaults.up },
  { name: '0052_webhooks', up: webhooks.up },
  { name: '0054_markup', up: markup.up },
  { name: '0055_analytics', up: analytics.up },
  { name: '0056_names', up: names.up },
  { name: '0057_requests', up: requests.up },
  { name: '0058_test_side', up: testSide.up },
  { name: '0061_reconciliation', up: reconciliation.up },
  { name: '0062_test_broker', up: testBroker.up },
  { name: '0064_play_money', up: playMoney.up },
  { name: '0069_analytics_keys', up: analyticsKeys.up },
  { name: '0070_analytics_since', up: analyticsSince.up },
  { name: '0071_request_groups', up: requestGroups.up },
  { name: '0072_requests_packed', up: requestsPacked.up },
  { name: '0073_trader_totals', up: traderTotals.up },
  { name: '0076_orders_archive', up: ordersArchive.up },
  { name: '0077_archive_sums', up: archiveSums.up },
  { name: '0078_archived_traders', up: archivedTraders.up },
  { name: '0079_trader_closes', up: traderCloses.up },
  { name: '0083_cheaper_triggers', up: cheaperTriggers.up },
  { name: '0086_day_traders', up: dayTraders.up },
  { name: '0088_restored_beside', up: restoredBeside.up }
]

const source: Knex.MigrationSource<Migration> = {
  getMigrations: async () => migrations,
  getMigrationName: ({ name }) => name,
  getMigration: async ({ up }) => ({
    up,
    down: async () => {
      throw new Error('Migrations go forward only: restore a backup to go back.')
    }
  })
}

const settings: Knex.MigratorConfig = { migrationSource: source, tableName: 'migrations' }

/** The encoding that the database needs. */
export const UTF8 = 'UTF8'

const MIGRATION_LOCK = 724_200
const LOCK_WAIT_MS = 120_000

/**
 * Applies what is missing, both ours and the queue's, and declares every queue. Safe to run twice and by
 * two at once: the second waits for the first. Returns the names applied. A statement may take as long as the tables
 * are large, on a connection of its own; only locks are not waited for for ever. Leaves a database alone that a newer version
 * migrated; throws ConfigError when that one lacks some of ours.
 */
export async function migrate(url: string): Promise<string[]> {
  // A lock that ends with its connection. knex's own is a row, which a killed migration leaves behind for ever:
  // whoever holds this one may take that row away.
  const lock = new pg.Client({
    // Idle for as long as the migrations take: its end would let another run begin.
    ...sessionAt(url, WITHOUT_STATEMENT_TIMEOUT),
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    lock_timeout: LOCK_WAIT_MS
  })
  lock.on('error', () => {})
  await lock.connect()
  try {
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
    await refuseEncoding(lock)
    const db = openDatabase({ url, pool: 2, name: 'migrate', limits: null })
    try {
      const status = await migrationStatus(db)
      if (status.newer.length > 0) {
        // The newer version has made what there is to make, and declared the queues its way.
        refuseSchema(status)
        return []
      }
      await db.migrate.forceFreeMigrationsLock(settings)
      return await applyMissing(db, url)
    } finally {
      await db.destroy()
    }
  } finally {
    await lock.end().catch(() => {})
  }
}

/**
 * Throws ConfigError where the first migration would begin in a database of another encoding than UTF8: it would refuse names that
 * the API takes, or count their bytes for letters. One that was migrated before goes on; `operator doctor` reports it.
 */
async function refuseEncoding(client: pg.Client): Promise<void> {
  const { rows: found } = await client.query<{ encoding: string }>(
    `select current_setting('server_encoding') as encoding where to_regclass('partners') is null`
  )
  const encoding = found[0]?.encoding ?? UTF8
  if (encoding !== UTF8)
    throw new ConfigError(
      `DATABASE_URL names a database of the encoding ${encoding}; this needs ${UTF8}: make one by \`create database … encoding 'UTF8' template template0\``
    )
}

async function applyMissing(db: Db, url: string): Promise<string[]> {
  const [, applied] = (await db.migrate.latest(settings)) as [number, string[]]
  const boss = new PgBoss({
    ...sessionAt(url, `${WITHOUT_STATEMENT_TIMEOUT} ${DEPENDABLE}`),
    supervise: false,
    schedule: false,
    max: 2,
    application_name: 'service-migrate',
    ...{ keepAlive: true }
  })
  boss.on('error', () => {})
  await boss.start()
  try {
    for (const [name, rule] of Object.entries<QueueRule>(queues)) {
      const dead = deadLetterOf(name as QueueName)
      await boss.createQueue(dead, { retentionSeconds: 30 * 86_400 })
      const options = {
        deadLetter: dead,
        retryLimit: rule.retry?.limit ?? 0,
        retryDelay: rule.retry?.delaySeconds ?? 0,
        retryBackoff: rule.retry !== undefined,
        expireInSeconds: rule.retry?.expireSeconds ?? 60,
        retentionSeconds: 86_400,
        deleteAfterSeconds: 3600,
        notify: false
      }
      await boss.createQueue(name, options)
      await boss.updateQueue(name, options)
    }
  } finally {
    await boss.stop({ graceful: false })
  }
  return applied
}

/** What a database has of the migrations, by their names. */
interface MigrationStatus {
  applied: string[]
  pending: string[]
  /** Applied by a newer version than this one, which does not know them. */
  newer: string[]
}

/** Names applied, missing and unknown. Changes nothing: a database that was named by mistake gets no tables of ours. */
export async function migrationStatus(db: Db): Promise<MigrationStatus> {
  const known = migrations.map(({ name }) => name)
  const [table] = await rows<{ made: boolean }>(db, `select to_regclass('migrations') is not null as made`)
  // knex would make its tables where there are none, and takes a name that it does not know for a fault.
  const found = table?.made ? await rows<{ name: string }>(db, 'select name from migrations order by id') : []
  const applied = found.map(({ name }) => name)
  return {
    applied,
    pending: known.filter(name => !applied.includes(name)),
    newer: applied.filter(name => !known.includes(name))
  }
}

/** How the name of a migration ends that the version before cannot work with. */
const BREAKING = '_breaking'

/**
 * Throws ConfigError where this version cannot work with the schema. It can with one of a newer version, since migrations run while
 * the version before serves: a process that has to start again in the middle of an upgrade must not stay away.
 */
export function refuseSchema({ pending, newer }: MigrationStatus): void {
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
