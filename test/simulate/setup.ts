// The database a simulation starts from: migrated with a schema before all others whose now() and clock_timestamp()
// show the virtual time and whose ids repeat, and with the partners, traders and accounts that will trade.
import pg from 'pg'
import { migrate } from '../../db/postgres/migrate.ts'
import type { DialectName } from '../support/dialects.ts'

// A tree whose migrations differ needs a template of its own.
const TEMPLATE = process.env.SIMULATION_TEMPLATE ?? 'simulation_template'

// Found before pg_catalog by the search path, in statements and in the defaults of columns alike.
const schema = `
  create schema sim;
  create sequence sim.ids;
  create function sim.now() returns timestamptz language sql stable as
    $$ select coalesce(nullif(pg_catalog.current_setting('sim.now', true), '')::timestamptz, pg_catalog.now()) $$;
  create function sim.clock_timestamp() returns timestamptz language sql volatile as
    $$ select coalesce(nullif(pg_catalog.current_setting('sim.now', true), '')::timestamptz, pg_catalog.now()) $$;
  create function sim.statement_timestamp() returns timestamptz language sql volatile as
    $$ select coalesce(nullif(pg_catalog.current_setting('sim.now', true), '')::timestamptz, pg_catalog.now()) $$;
  create function sim.gen_random_uuid() returns uuid language sql volatile as
    $$ select ('00000000-0000-4000-8000-' || lpad(to_hex(nextval('sim.ids')), 12, '0'))::uuid $$;
`

export function databaseUrl(admin: string, name: string): string {
  const url = new URL(admin)
  url.pathname = `/${name}`
  return url.href
}

async function asAdmin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Makes the template that every simulation of this server clones, unless it is there. */
export async function makeTemplate(admin: string): Promise<void> {
  const there = await asAdmin(admin, async client => {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [TEMPLATE])
    if (rowCount) return true
    await client.query(`create database ${TEMPLATE}`)
    await client.query(`alter database ${TEMPLATE} set search_path = sim, pg_catalog, public`)
    return false
  })
  if (there) return
  const url = databaseUrl(admin, TEMPLATE)
  await asAdmin(url, client => client.query(schema))
  await migrate(url)
  // The queue reads the time from one function of its own.
  await asAdmin(url, client =>
    client.query(
      `-- Its copies are new databases, not restored ones.
       update database_lineage set table_identity = null, seen_at = 'infinity';
       create or replace function pgboss.job_now() returns timestamptz language sql stable as 'select sim.now()';
       -- These serve lists, which nobody reads here, and cost every change of an order.
       drop index orders_page, orders_page_status, orders_page_trader, orders_open_trader, orders_closed;
       -- Nor does anything here outlive its server: a table goes without a log once those that point to it do.
       do $$
         declare name text;
         begin
           for round in 1..20 loop
             for name in select oid::regclass from pg_class
                          where relkind = 'r' and relpersistence = 'p' and relnamespace::regnamespace::text in ('public', 'sim', 'pgboss') loop
               begin
                 execute format('alter table %s set unlogged', name);
               exception when invalid_table_definition then null;
               end;
             end loop;
           end loop;
         end $$`
    )
  )
}

export interface WorldParty {
  partnerId: string
  appId: string
  dialect: DialectName
  traderExternalId: string
  accountRowId: string
  accountId: string
}

/**
 * A fresh database with as many accounts, changed by `sql`; every eighth account is used by two partners under their
 * own applications.
 */
export async function makeDatabase(
  admin: string,
  {
    name,
    accounts,
    dialect,
    sql = []
  }: { name: string; accounts: number; dialect: DialectName; sql?: string[] | undefined }
): Promise<{ url: string; parties: WorldParty[]; drop(): Promise<void> }> {
  await asAdmin(admin, async client => {
    await client.query(`drop database if exists ${name} with (force)`)
    await client.query(`create database ${name} template ${TEMPLATE}`)
    // A clone does not keep it.
    await client.query(`alter database ${name} set search_path = sim, pg_catalog, public`)
    await client.query(`alter database ${name} set plan_cache_mode = force_generic_plan`)
    // What the service's statistics see to while it runs: no plan made on small tables goes on to read large ones.
    await client.query(`alter database ${name} set enable_seqscan = off`)
  })
  const url = databaseUrl(admin, name)
  const parties = Array.from({ length: accounts }, (_, i): WorldParty[] => {
    const both = i % 8 === 0 ? ['1', '2'] : [i % 8 < 5 ? '1' : '2']
    return both.map(app => ({
      partnerId: `ptn_${app.padStart(26, '0')}`,
      appId: `10${app}`,
      dialect,
      traderExternalId: `user-${i}`,
      accountRowId: `acc_${app}${String(i).padStart(25, '0')}`,
      accountId: `CR${100_000 + i}`
    }))
  }).flat()
  await asAdmin(url, async client => {
    await client.query(
      `insert into partners (id, name, plan, broker_app_id, broker_dialect)
       select distinct on (p."partnerId") p."partnerId", 'Simulated', 'SCALE', p."appId", $2
         from jsonb_to_recordset($1) as p ("partnerId" text, "appId" text)`,
      [JSON.stringify(parties), dialect]
    )
    await client.query(
      `with given as (
         select * from jsonb_to_recordset($1) as p ("partnerId" text, "traderExternalId" text, "accountRowId" text, "accountId" text)
       ), traders as (
         insert into traders (id, partner_id, external_id, active_account_id, connected_at)
         select replace("accountRowId", 'acc_', 'trd_'), "partnerId", "traderExternalId", "accountRowId", now() from given
       )
       insert into broker_accounts (id, partner_id, trader_id, account_id, account_mode, currency, token_key_id, token_sealed, proven_version)
       select "accountRowId", "partnerId", replace("accountRowId", 'acc_', 'trd_'), "accountId", 'DEMO',
              case when right("accountId", 1) = '7' then null else 'USD' end, 'none', '\\x00',
              -- Every sixth account has never been opened.
              case when right("accountId", 6)::int % 6 = 0 then null else 1 end from given`,
      [JSON.stringify(parties)]
    )
    for (const statement of sql) await client.query(statement)
    await client.query('analyze')
  })
  return {
    url,
    parties,
    drop: () => asAdmin(admin, client => client.query(`drop database ${name} with (force)`)).then(() => {})
  }
}
