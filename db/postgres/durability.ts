// What the server promises about a commit it has acknowledged.
import { type Db, rows } from './connection.ts'

export interface Durability {
  /** Those of the settings `fsync` and `full_page_writes` that are off. */
  off: string[]
  /** Servers that stream from this one as standbys. */
  standbys: number
  /** Those of them that a commit waits for. */
  synchronousStandbys: number
  /** Those of them whose state this user may not see: that takes the role pg_monitor. */
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
