// What must hold for every table of the database.
import { readFile } from 'node:fs/promises'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { up as renameTables } from '../../db/migrations/0056_names.ts'
import { rows } from '../../db/postgres/connection.ts'
import { readSchema, SCHEMA_FILE } from '../../db/postgres/schema-text.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const { services } = await openHarness()
const tables = suite('the tables')

tables('give each reference the collation of what it refers to, so that joins find their index', async () => {
  const different = await rows<{ column: string }>(
    services.db,
    `select c.conrelid::regclass || '.' || a.attname as column
       from pg_constraint c
      cross join lateral unnest(c.conkey, c.confkey) as k (own, other)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.other
      where c.contype = 'f' and c.connamespace = current_schema()::regnamespace and a.attcollation <> b.attcollation`
  )
  assert.equal(
    different.map(({ column }) => column),
    []
  )
})

tables('are those of db/schema.sql; `make schema` writes it anew', async () => {
  assert.fixture(await readSchema(services.db), await readFile(SCHEMA_FILE, 'utf8'))
})

tables('are not renamed while a process of the version before runs', async () => {
  const { db } = services
  const [running] = await rows<{ name: string }>(
    db,
    `insert into processes (name, kind, version) values ('host:1:old', 'worker', '1.0.0') returning name`
  )
  try {
    await renameTables(db)
    assert.unreachable('it went on')
  } catch (error) {
    assert.is((error as { code: string }).code, 'CONFLICT')
    assert.match((error as Error).message, /stop every api and worker.*worker host:1:old/)
  }
  // Gone long enough: it goes on, to tables that are renamed already.
  await rows(db, `update processes set seen_at = clock_timestamp() - interval '30 seconds' where name = :name`, running)
  try {
    await renameTables(db)
    assert.unreachable('there is nothing to rename')
  } catch (error) {
    assert.match((error as Error).message, /relation "asks" does not exist/)
  }
})

tables.after(closeAll)
tables.run()
