// `make schema`: writes schema.sql from an embedded database that was migrated just now.
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeEmbedded, startEmbedded } from '../embedded.ts'
import { openDatabase } from './connection.ts'
import { migrate } from './migrate.ts'
import { readSchema, SCHEMA_FILE } from './schema-text.ts'

const dataDir = await mkdtemp(join(tmpdir(), 'operator-schema-'))
const server = await startEmbedded({ dataDir })
try {
  await migrate(server.url)
  const db = openDatabase({ url: server.url })
  const text = await readSchema(db)
  await db.destroy()
  await writeFile(SCHEMA_FILE, text)
  console.log(`Wrote ${SCHEMA_FILE}: ${text.split('\n').length} lines.`)
} finally {
  await server.stop()
  await removeEmbedded(dataDir)
}
