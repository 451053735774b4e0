// Which database this is: the same one as before, or one that may have forgotten something. A failover starts a new
// timeline, and so does a restore to an earlier point; a dump restored elsewhere has another system identifier, and one restored
// beside its origin other tables. The image of a disk or of a machine has all of these as they were: it is behind a position of the
// write-ahead log that some process has seen, or no worker has seen the database for a while. Purchases whose rows were lost are
// still at the broker, so each account's books are compared before it buys again.
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

const latest = `select identity, table_identity, generation, seen_at from database_lineage order by generation desc limit 1`

// A process of a version without this column stores none; `keepLineage` fills it in.
const isAnother = `(identity <> ${databaseIdentity} or table_identity <> ${tableIdentity})`

/** After so long without a worker that saw it, a database may be its own image of an earlier moment. */
const UNSEEN = "interval '10 minutes'"

/** Whether no worker has seen the database for too long. */
const isUnseen = `seen_at < clock_timestamp() - ${UNSEEN}`

/** What of the write-ahead log is on disk, in bytes, as SQL. It never goes back, unless the database does. */
const position = `pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::float8`

/** Whether the caller has seen the noted history, and the database is not behind that. */
const hasSeen = `(generation = :generation::int and :position::float8 > 0 and ${position} >= :position::float8)`

/** How far a process has seen the database come. */
export interface SeenHistory {
  /** The generation of the latest history it has seen. */
  generation: number
  /** The position of the write-ahead log that it has seen on that; 0 where none. */
  position: number
}

/** What a process has seen that has just begun. */
export const NOTHING_SEEN: SeenHistory = { generation: 0, position: 0 }

/**
 * The generation of the history that was noted last, as a query of the parameters `generation` and `position` (SeenHistory of the caller)
 * with no row where the database is on another history, or behind what the caller has seen. No order is claimed then.
 */
export const seenGeneration = `select noted.generation from (${latest}) noted
   where ${isAnother} is not true and not ${isUnseen}
     and noted.generation >= :generation and (noted.generation > :generation or ${position} >= :position::float8)`

/**
 * The database's time (ms since the epoch); the generation of the history that it is on, null where that has not been noted or no worker
 * has seen it for too long; and the position of its write-ahead log.
 */
export async function readClock(db: Db): Promise<{ nowMs: number; generation: number | null; position: number }> {
  const [row] = await rows<{ nowMs: number; generation: number | null; position: number }>(
    db,
    `select (extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs", ${position} as position,
            (select generation from (${latest}) noted where ${isAnother} is not true and not ${isUnseen}) as generation`
  )
  return row as { nowMs: number; generation: number | null; position: number }
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

/** A history that was noted. */
interface NotedHistory {
  /** The last moment that is certain to be in the database. */
  goodUntil: Date
  /** Whether the only reason is that no worker has seen the database for too long. */
  unseen: boolean
}

/**
 * Notes that the database is on another history than the last one noted, or on one that had ended before what the caller has `seen`: a
 * primary that was gone and came back knows nothing of its successor, nor an image of what came after it. From then on each account's
 * books are compared before its next purchase, back to the last moment that is certain to be in this database; the reconciliation covers
 * the accounts that traded lately. So it is of a database that no worker has seen for too long, unless the caller has seen this history.
 * Of a copy the cursors of events expire, too: its origin may have given out later ones, behind which readers would pass over other
 * events. Returns undefined when there is nothing to note, for example since another process has noted it.
 */
export async function noteLineage(db: Db, seen = NOTHING_SEEN): Promise<NotedHistory | undefined> {
  return db.transaction(async trx => {
    const copy = await isCopy(trx)
    const [noted] = await rows<NotedHistory>(
      trx,
      `with latest as (
         select generation, seen_at,
                coalesce(${isAnother}, false) or generation < :generation::int
                  or (generation = :generation::int and ${position} < :position::float8) as changed,
                ${isUnseen} and not ${hasSeen} as unseen
           from (${latest}) latest
       ), noted as (
         insert into database_lineage (generation, identity, table_identity, good_until)
         select greatest(generation, :generation::int) + 1, ${databaseIdentity}, ${tableIdentity}, seen_at
           from latest where changed or unseen
         on conflict do nothing returning good_until
       )
       select noted.good_until as "goodUntil", not latest.changed as unseen from noted, latest`,
      { ...seen }
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
    return noted
  })
}

/**
 * Records that the noted history continues, so that a later change knows up to which moment it is certain. Where no worker has done so
 * for too long, only a process that has `seen` this history can.
 */
export async function keepLineage(db: Db, seen: SeenHistory): Promise<void> {
  await rows(
    db,
    `update database_lineage set seen_at = clock_timestamp(), table_identity = ${tableIdentity}
      where generation = (select max(generation) from database_lineage) and ${isAnother} is not true
        and seen_at < clock_timestamp() - interval '2 seconds' and (not ${isUnseen} or ${hasSeen})`,
    { ...seen }
  )
}

/**
 * For so long after the database went back purchases may have been lost: another server may go on with the history that was left. An
 * account that is stored later has lost none.
 */
const LOSING = "interval '1 day'"

/** The latest generation of which an account that is stored now has lost no purchase, as SQL. */
export const settledGeneration = `coalesce((select max(generation) from database_lineage where noted_at < clock_timestamp() - ${LOSING}), 0)`

/** Up to which generation an account's books are to be compared; undefined where they were. What was lost was bought between the two moments. */
export async function booksDue(
  db: Db,
  accountRowId: string
): Promise<{ generation: number; since: Date; until: Date } | undefined> {
  const [due] = await rows<{ generation: number; since: Date; until: Date }>(
    db,
    `select max(l.generation) as generation, min(l.good_until) as since, max(l.noted_at) + ${LOSING} as until
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
