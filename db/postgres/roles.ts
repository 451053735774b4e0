// The role that api, workers and the operator's tool use: it reads and writes rows and owns nothing, so that it can neither
// change the schema nor take the triggers off that keep ledger and audit log from being changed. Migrations run as the owner.
import { type Db, rows } from './connection.ts'

/** The schema of our tables, as SQL: the one that the owner's search_path led to when the first migration made them. */
const ours = `(select relnamespace from pg_class where oid = 'orders'::regclass)`
const QUEUE_SCHEMA = 'pgboss'
/** Append-only tables, and the record of the migrations. */
const APPEND_ONLY = ['audit_log', 'earnings_entries', 'ledger_entries', 'ledger_transfers']
const READ_ONLY = ['migrations']

/** Whether a role of that name exists. */
export async function roleExists(db: Db, role: string): Promise<boolean> {
  return (await db('pg_roles').where({ rolname: role }).first('rolname')) !== undefined
}

/**
 * Grants `role` what the processes need, on what is there and on what later migrations of the same owner make. Run it as the
 * owner, after the first migration; repeating it changes nothing.
 */
export async function grantService(db: Db, role: string): Promise<void> {
  await db.transaction(async trx => {
    const [own] = await rows<{ name: string }>(trx, `select nspname as name from pg_namespace where oid = ${ours}`)
    for (const schema of [own?.name as string, QUEUE_SCHEMA]) {
      const named = { schema, role }
      await trx.raw('grant usage on schema :schema: to :role:', named)
      await trx.raw('grant select, insert, update, delete on all tables in schema :schema: to :role:', named)
      await trx.raw('grant usage, select, update on all sequences in schema :schema: to :role:', named)
      await trx.raw('grant execute on all functions in schema :schema: to :role:', named)
      await trx.raw(
        'alter default privileges in schema :schema: grant select, insert, update, delete on tables to :role:',
        named
      )
      await trx.raw(
        'alter default privileges in schema :schema: grant usage, select, update on sequences to :role:',
        named
      )
      // Also where an administrator has taken from everybody what PostgreSQL lets everybody run.
      await trx.raw('alter default privileges in schema :schema: grant execute on functions to :role:', named)
    }
    for (const table of APPEND_ONLY) await trx.raw('revoke update, delete on :table: from :role:', { table, role })
    for (const table of READ_ONLY)
      await trx.raw('revoke insert, update, delete on :table: from :role:', { table, role })
  })
}

/** The owner of our tables, where `role` got nothing: PostgreSQL only warns when somebody grants what is not theirs. */
export async function findOwnerToGrant(db: Db, role: string): Promise<string | undefined> {
  const [found] = await rows<{ owner: string }>(
    db,
    `select pg_get_userbyid(relowner) as owner from pg_class
      where oid = 'orders'::regclass and not has_table_privilege(:role::name, oid, 'insert')`,
    { role }
  )
  return found?.owner
}

/**
 * Tables and functions of ours that this role may not use, by name; a migration that somebody else than their owner ran makes such.
 * What belongs to extensions is not ours.
 */
export async function findWithheld(db: Db): Promise<string[]> {
  const found = await rows<{ name: string }>(
    db,
    `select name from (
       select c.oid, c.oid::regclass::text as name, has_table_privilege(c.oid, 'select') as granted, c.relnamespace as schema
         from pg_class c where c.relkind in ('r', 'p') and not c.relispartition
       union all
       select p.oid, p.oid::regprocedure::text, has_function_privilege(p.oid, 'execute'), p.pronamespace
         from pg_proc p where p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
     ) used
      where not granted and schema in (${ours}, '${QUEUE_SCHEMA}'::regnamespace)
        and not exists (select from pg_depend d where d.objid = used.oid and d.deptype = 'e')
      order by name limit 100`
  )
  return found.map(({ name }) => name)
}
