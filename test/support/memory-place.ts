// Where a PostgreSQL of tests has its data, which die with the run.
import { statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'

const MEMORY = '/dev/shm'

/**
 * A folder in memory where there is room for so many bytes (in a container it often has 64 MB), because each test file makes and drops a
 * database of more than a thousand files; else the temporary directory, also when TMPDIR names one.
 */
export async function findPlace(bytes: number): Promise<string> {
  if (process.env.TMPDIR === undefined && process.platform === 'linux' && freemem() > bytes) {
    const { bavail = 0, bsize = 0 } = (await statfs(MEMORY).catch(() => undefined)) ?? {}
    if (bavail * bsize > bytes) return MEMORY
  }
  return tmpdir()
}
