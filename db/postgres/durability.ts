// What the server promises about a commit it has acknowledged.
import { type Db, rows } from './connection.ts'

interface Durability {
  /** Which of the settings `fsync` and `full_page_writes` are off. */
  off: string[]
  /** Servers that stream from this one as standbys. */
  standbys: number
  /** How many of them a commit waits for. */
  synchronousStandbys: number
  /** How many of them have a state that this user may not see: that takes the role pg_monitor. */
  hiddenStandbys: number
}

/** Reads the server's settings and its standbys. Backups and receivers of WAL are no standbys. */
export async function readDurability(db: Db): Promise<Durability> {
  const [row] = await rows<Durability>(
    db,
    `select array(select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off' order by name) as off,
            (select count(*) from pg_stat_replication where application_name not like 'pg_%')::int as standbys,
            (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum'))::int as "synchronousStandbys",
            (select count(*) from pg_stat_replication where sync_state is null)::int as "hiddenStandbys"`
  )
  return row as Durability
}

interface StandbyState {
  /** Its application_name. */
  name: string
  /** `streaming` unless it is catching up. */
  state: string
  synchronous: boolean
  /** Bytes of the log that it has not replayed. */
  behindBytes: number
  /** How far its clock is ahead of the primary's, by its last reply, ms; a clock that is behind cannot be distinguished from an old reply. */
  clockAheadMs: number
}

/** The standbys that stream from this server and whose state this user may see. */
export async function listStandbys(db: Db): Promise<StandbyState[]> {
  return rows<StandbyState>(
    db,
    `select application_name as name, state, sync_state in ('sync', 'quorum') as synchronous,
            coalesce(pg_wal_lsn_diff(pg_current_wal_flush_lsn(), replay_lsn), 0)::float8 as "behindBytes",
            coalesce(extract(epoch from reply_time - clock_timestamp()) * 1000, 0)::float8 as "clockAheadMs"
       from pg_stat_replication where application_name not like 'pg_%' and state is not null
      order by application_name limit 20`
  )
}
