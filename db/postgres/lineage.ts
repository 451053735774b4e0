// Which database this is: the same one as before, or one that may have forgotten something. A failover starts a new
// timeline, and so does a restore to an earlier point; a dump restored elsewhere has another system identifier, and one restored
// beside its origin other tables. Purchases whose rows were lost are still at the broker, so each account's books are compared
// before it buys again.
import { newEventEpoch } from '../events/sequence.ts'
import { type Db, rows } from './connection.ts'

/** The identity of a history of the database, as SQL: the cluster's identifier and its timeline. */
export const databaseIdentity = `(select system_identifier::text from pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)`

/**
 * The oids of the database and of this table, as SQL: a dump restored on the server that it was made on has the same identifier and
 * timeline, and one of these is another. A copy by `create database … template` keeps the table's, a restore by `--clean` the database's.
 */
export const tableIdentity = `(select oid from pg_database where datname = current_database()) || '/' || 'database_lineage'::regclass::oid`

/** The identity of an installation, as SQL: its database, on whichever server of a cluster, before and after a failover. */
export const installationIdentity = `(select system_identifier::text from pg_control_system()) || '/' || (select oid from pg_database where datname = current_database())`

const latest = `select identity, table_identity, generation from database_lineage order by generation desc limit 1`

// A process of a version without this column stores none; `keepLineage` fills it in.
const isAnother = `(identity <> ${databaseIdentity} or table_identity <> ${tableIdentity})`

/** The generation of the history that was noted last, as a query with no row where this database is on another one. No order is claimed then. */
export const notedGeneration = `select generation from (${latest}) latest where ${isAnother} is not true`

/** The database's time (ms since the epoch), and the generation of the history it is on; null where that has not been noted. */
export async function readClock(db: Db): Promise<{ nowMs: number; generation: number | null }> {
  const [row] = await rows<{ nowMs: number; generation: number | null }>(
    db,
    `select (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs", (${notedGeneration}) as generation`
  )
  return row as { nowMs: number; generation: number | null }
}

/**
 * Whether this database is a copy of the one whose history was noted last: its server or its tables are others. A restored dump
 * is a copy until a worker has noted it; a failover or a restore of files is not. The origin of a copy may be in use.
 */
export async function isCopy(db: Db): Promise<boolean> {
  const [found] = await rows<{ copy: boolean }>(
    db,
    // 'unknown' is of a migration while no worker ran (0088_restored_beside).
    `select split_part(identity, '/', 1) <> split_part(${databaseIdentity}, '/', 1)
            or coalesce(nullif(table_identity, 'unknown') <> ${tableIdentity}, false) as copy
       from (${latest}) latest`
  )
  return found?.copy ?? false
}

// Accounts whose books are compared at once after a change; the others are when they trade again.
const RECHECKED = 50_000

/**
 * Notes that the database is on another history than the last one noted, or on one that had ended before generation `seen`
 * began: a primary that was gone and came back knows nothing of its successor. From then on each account's books are compared
 * before its next purchase, back to the last moment that is certain to be in this database; the reconciliation covers
 * the accounts that traded lately. Of a copy the cursors of events expire, too: its origin may have given out later ones, behind which
 * readers would pass over other events. Returns that moment, or undefined when another process has noted it.
 */
export async function noteLineage(db: Db, seen = 0): Promise<Date | undefined> {
  return db.transaction(async trx => {
    const copy = await isCopy(trx)
    const [noted] = await rows<{ goodUntil: Date }>(
      trx,
      `insert into database_lineage (generation, identity, table_identity, good_until)
       select greatest(generation, :seen::int) + 1, ${databaseIdentity}, ${tableIdentity}, seen_at from database_lineage
        where generation = (select max(generation) from database_lineage)
          and (${isAnother} or generation < :seen::int)
       on conflict do nothing returning good_until as "goodUntil"`,
      { seen }
    )
    if (!noted) return undefined
    if (copy) await newEventEpoch(trx)
    await rows(
      trx,
      `update broker_accounts
          set compared_at = least(compared_at, :goodUntil::timestamptz) - interval '2 seconds', audited_at = clock_timestamp()
        where id in (select id from broker_accounts
                      where status = 'CONNECTED' and audited_at is not null order by audited_at desc limit ${RECHECKED})`,
      { goodUntil: noted.goodUntil }
    )
    return noted.goodUntil
  })
}

/** Records that the noted history continues, so that a later change knows up to which moment it is certain. */
export async function keepLineage(db: Db): Promise<void> {
  await rows(
    db,
    `update database_lineage set seen_at = clock_timestamp(), table_identity = ${tableIdentity}
      where generation = (select max(generation) from database_lineage) and ${isAnother} is not true
        and seen_at < clock_timestamp() - interval '2 seconds'`
  )
}

/** Up to which generation an account's books are to be compared, and since when; undefined where they were. */
export async function booksDue(db: Db, accountRowId: string): Promise<{ generation: number; since: Date } | undefined> {
  const [due] = await rows<{ generation: number; since: Date }>(
    db,
    `select max(l.generation) as generation, min(l.good_until) as since
       from broker_accounts a join database_lineage l on l.generation > a.compared_generation
      where a.id = :accountRowId having count(*) > 0`,
    { accountRowId }
  )
  return due
}

/** Stores which contracts of an account no order owns, and that its books have been compared up to `generation`. */
export async function storeUnowned(
  db: Db,
  account: { accountRowId: string; accountId: string; generation: number },
  contracts: { contractId: string }[]
): Promise<void> {
  await rows(
    db,
    `with stored as (
       insert into unowned_contracts (account_id, contract_id, evidence)
       select :accountId, c->>'contractId', c from jsonb_array_elements(:contracts::jsonb) c
       on conflict do nothing
     )
     update broker_accounts set compared_generation = greatest(compared_generation, :generation::int) where id = :accountRowId`,
    { ...account, contracts: JSON.stringify(contracts) }
  )
}

/**
 * Contracts of an account that no order owned when its books were compared, and that no operator has dismissed; in the
 * shape in which they were stored.
 */
export async function listUnowned<Contract extends { contractId: string }>(
  db: Db,
  accountId: string
): Promise<Contract[]> {
  const found = await rows<{ evidence: Contract }>(
    db,
    'select evidence from unowned_contracts where account_id = :accountId order by contract_id limit 5000',
    { accountId }
  )
  return found.map(({ evidence }) => evidence)
}

/** Forgets contracts of which the operator has decided that they belong to no order of ours. */
export async function dismissUnowned(db: Db, accountId: string, contractIds: string[]): Promise<void> {
  await rows(
    db,
    `delete from unowned_contracts where account_id = :accountId and contract_id = any(:contractIds::text[])`,
    { accountId, contractIds }
  )
}

/** Forgets what was found longer than 30 days ago. */
export async function forgetUnowned(db: Db): Promise<void> {
  await rows(db, `delete from unowned_contracts where found_at < now() - interval '30 days'`)
}
