// `make clean`: deletes the local data directory and the PostgreSQL in it, unless one is running there.
import { removeEmbedded } from '../embedded.ts'

const dataDir = process.env.DATA_DIR ?? '.data'
if (!(await removeEmbedded(dataDir))) {
  console.error(`PostgreSQL is running in ${dataDir}: stop what uses it first.`)
  process.exitCode = 1
}
