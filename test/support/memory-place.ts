// Where a PostgreSQL of tests has its data, which die with the run.
import { statfs } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'

const MEMORY = '/dev/shm'

/**
 * Settings of a server that tests kill, or that may be killed with their run: what it shares between its processes lies in its data, and
 * goes with them. Otherwise each one killed leaves a megabyte in /dev/shm once nobody starts it again.
 */
export const GOES_WITH_DATA = { dynamic_shared_memory_type: 'mmap' }

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
