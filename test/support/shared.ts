// The texts this project was built from are not part of it: tests that hold the code against them look beside the
// repository, or in SHARED_DIR, and a note when they are not there.
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'

/** The folder of that name under ../shared, or null (then say `SKIPPED: …`). */
export function sharedFolder(name: string): string | null {
  const shared = process.env.SHARED_DIR ?? resolve(import.meta.dirname, '../../../shared')
  const folder = resolve(shared, name)
  return existsSync(folder) ? folder : null
}
