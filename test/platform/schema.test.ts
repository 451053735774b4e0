// What must hold for every table of the database.
import { readFile } from 'node:fs/promises'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { rows } from '../../db/postgres/connection.ts'
import { readSchema, SCHEMA_FILE } from '../../db/postgres/schema-text.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const { open } = await openHarness()
const tables = suite('the tables')

tables('give each reference the collation of what it refers to, so that joins find their index', async () => {
  const different = await rows<{ column: string }>(
    open.db,
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
  assert.fixture(await readSchema(open.db), await readFile(SCHEMA_FILE, 'utf8'))
})

tables.after(closeAll)
tables.run()
