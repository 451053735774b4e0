// DATABASE_URL through PgBouncer: what a process and the doctor report of each of its ways, before an order is lost in one.
// test in the full run only
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { checkDatabase } from '../../cli/doctor/database.ts'
import { openStore } from '../../db/platform/store.ts'
import { reachDatabase } from '../../db/postgres/reach.ts'
import { ConfigError, readConfig } from '../../schemas/config/config.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openTestDatabase, TOKEN_KEYS, until } from '../support/harness.ts'

const NOBODY = 65_534
const IGNORED = 'options,statement_timeout,lock_timeout,idle_in_transaction_session_timeout'
const database = new URL(await openTestDatabase())

/** Starts a PgBouncer with these settings before the database; returns the address there. */
async function openPooler(settings: Record<string, string>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'pooler-'))
  await chmod(dir, 0o755)
  const port = await freePort()
  const { username, password } = database
  await writeFile(join(dir, 'users'), `"${username}" "${password}"\n`)
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'plain',
    auth_file: join(dir, 'users'),
    ...settings
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const file = join(dir, 'pgbouncer.ini')
  await writeFile(
    file,
    ['[databases]', `* = host=127.0.0.1 port=${database.port}`, '[pgbouncer]', ...lines, ''].join('\n')
  )
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  const pooler: ChildProcess = spawn('pgbouncer', [file], { stdio: 'ignore', ...user })
  const ended = once(pooler, 'exit')
  onClose(async () => {
    pooler.kill('SIGKILL')
    await ended
    await rm(dir, { recursive: true, force: true })
  })
  await until('PgBouncer', async () => {
    const socket = connect(port, '127.0.0.1')
    const [event] = await Promise.race([once(socket, 'connect').then(() => ['connect']), once(socket, 'error')])
    socket.destroy()
    return event === 'connect'
  })
  return Object.assign(new URL(database), { port: String(port) }).href
}

const configOf = (url: string) => readConfig({ DATABASE_URL: url, TOKEN_KEYS, LOG_LEVEL: 'silent' })

/** What the doctor finds of sessions and of the database, without what is well. */
async function findingsOf(url: string) {
  const findings = await checkDatabase(configOf(url))
  return findings.filter(({ check, status }) => ['database', 'sessions'].includes(check) && status !== 'ok')
}

async function startFailure(url: string): Promise<Error> {
  const failed = await openStore(configOf(url), { name: 'test' }).then(
    store => store.close().then(() => undefined),
    (error: unknown) => error
  )
  assert.instance(failed, Error)
  return failed as Error
}

const pooled = suite('a database behind PgBouncer')

pooled('that refuses the settings of our sessions is reported with what it refuses', async () => {
  const url = await openPooler({ pool_mode: 'session' })
  assert.match((await startFailure(url)).message, /A pooler .* refuses the settings .*unsupported startup parameter: /)
  assert.match((await findingsOf(url))[0]?.found ?? '', /add them to its ignore_startup_parameters/)
})

pooled('that lends connections for a transaction is refused', async () => {
  const url = await openPooler({ pool_mode: 'transaction', ignore_startup_parameters: IGNORED })
  const failed = await startFailure(url)
  assert.instance(failed, ConfigError)
  assert.match(failed.message, /set pool_mode = session/)
  const [finding] = await findingsOf(url)
  assert.equal([finding?.check, finding?.status], ['sessions', 'fail'])
})

pooled('that lends them for a session is used, without the time limits that it drops', async () => {
  const url = await openPooler({ pool_mode: 'session', ignore_startup_parameters: IGNORED })
  const { unfit, unlimited } = await reachDatabase(url)
  assert.equal({ unfit, unlimited }, { unfit: [], unlimited: true })
  await openStore(configOf(url), { name: 'test' }).then(store => store.close())
  const findings = await findingsOf(url)
  assert.equal(
    findings.map(({ check, status }) => [check, status]),
    [['sessions', 'warn']]
  )
})

pooled.after(closeAll)
if (spawnSync('pgbouncer', ['--version']).error) {
  console.log('SKIPPED: pgbouncer is not installed; run apt-get install pgbouncer')
  await closeAll()
} else pooled.run()
