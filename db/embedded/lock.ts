// A lock file that outlives no process: it names its holder, and is taken over once that one is gone.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { promisify } from 'node:util'

const HEARTBEAT_MS = 5_000
const FOREIGN_SILENCE_MS = 60_000
const HALF_WRITTEN_MS = 5_000

interface LockHolder {
  pid: number
  /** When the process began, as the system counts it: a pid alone may have been given to another. */
  birth: string
  host: string
}

/** Takes the lock and returns what gives it back, or undefined when a living process holds it. */
export async function acquire(path: string): Promise<(() => Promise<void>) | undefined> {
  const me = JSON.stringify({ pid: process.pid, birth: await birthOf(process.pid), host: hostname() } as LockHolder)
  for (;;) {
    try {
      await writeFile(path, me, { flag: 'wx', mode: 0o644 })
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (await holderOf(path)) return undefined
    await discard(path)
  }
  const beat = setInterval(() => {
    const now = new Date()
    utimes(path, now, now).catch(() => {}) // The directory may be deleted under us; the holder notices elsewhere.
  }, HEARTBEAT_MS)
  beat.unref()
  return async () => {
    clearInterval(beat)
    await rm(path, { force: true })
  }
}

/** The holder of the lock; undefined when there is none or it is dead. */
export async function holderOf(path: string): Promise<LockHolder | undefined> {
  let text: string
  let changedMs: number
  try {
    text = await readFile(path, 'utf8')
    changedMs = (await stat(path)).mtimeMs
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  let holder: LockHolder
  try {
    holder = JSON.parse(text) as LockHolder
  } catch {
    // Created and not yet written, or its writer died in between.
    return Date.now() - changedMs < HALF_WRITTEN_MS ? { pid: 0, birth: '', host: hostname() } : undefined
  }
  // Another host's (or container's) processes cannot be seen from here, its heartbeat can.
  if (holder.host !== hostname()) return Date.now() - changedMs < FOREIGN_SILENCE_MS ? holder : undefined
  return (await isAlive(holder)) ? holder : undefined
}

/** Whether that very process, not a later one with its number, still runs. */
async function isAlive({ pid, birth }: Pick<LockHolder, 'pid' | 'birth'>): Promise<boolean> {
  const now = await birthOf(pid)
  return now !== undefined && now === birth
}

/** When a process began; undefined when there is none by that number. */
async function birthOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return ps(pid, 'lstart=')
  const stat = await readProc(pid, 'stat')
  if (stat === undefined) return undefined
  // The name in parentheses may hold anything, so count from the last one: state first, start time twentieth.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? undefined : fields[19]
}

/** A process's command line; undefined when there is none by that number. */
export async function commandOf(pid: number): Promise<string | undefined> {
  if (process.platform !== 'linux') return ps(pid, 'command=')
  return (await readProc(pid, 'cmdline'))?.replaceAll('\0', ' ')
}

async function readProc(pid: number, name: string): Promise<string | undefined> {
  try {
    return await readFile(`/proc/${pid}/${name}`, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

async function ps(pid: number, column: string): Promise<string | undefined> {
  const { stdout } = await promisify(execFile)('ps', ['-o', column, '-p', String(pid)]).catch(() => ({ stdout: '' }))
  return stdout.trim() || undefined
}

// Moved aside before it is deleted, and checked once more: between our check and our move another process may have done
// the same and taken the lock.
async function discard(path: string): Promise<void> {
  const aside = `${path}.${randomBytes(4).toString('hex')}`
  try {
    await rename(path, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  if (await holderOf(aside)) await rename(aside, path)
  else await rm(aside, { force: true })
}
