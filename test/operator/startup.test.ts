// test in the full run only
// test time-out: 300 s
// How processes start and stop in the hands of a person: what anybody may meet at the start is one line that says what
// to correct, and a process that npm started ends when npm is stopped.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync, readSync, writeSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { makeCertificate } from '../support/certificate.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startProcess } from '../support/processes.ts'

const { env, url, services } = await openHarness()
const dir = await mkdtemp(join(tmpdir(), 'startup-'))
onClose(() => rm(dir, { recursive: true, force: true }))
const file = join(dir, 'a-file')
await writeFile(file, 'no directory')

const taken = createServer().listen(0, '127.0.0.1')
await once(taken, 'listening')
onClose(async () => void taken.close())
const takenPort = String((taken.address() as AddressInfo).port)

function otherDatabase(change: (url: URL) => void): string {
  const changed = new URL(url)
  change(changed)
  return changed.href
}

/** The database as a role with this setting of its own has it. */
const withSetting = (setting: string) => otherDatabase(each => each.searchParams.set('options', `-c ${setting}`))

/** The database behind a pooler that leaves the settings of sessions out, as PgBouncer does with ignore_startup_parameters. */
async function behindForgetfulPooler(): Promise<string> {
  const there = new URL(url)
  await services.db.raw('alter database ?? set synchronous_commit = off', [there.pathname.slice(1)])
  const pooler = createTcpServer(client => {
    const server = connect(Number(there.port), there.hostname)
    for (const socket of [client, server]) socket.on('error', () => socket.destroy())
    client.once('data', (packet: Buffer) => {
      server.write(withoutOptions(packet))
      client.pipe(server).pipe(client)
    })
    client.once('close', () => server.destroy())
  }).listen(0, '127.0.0.1')
  await once(pooler, 'listening')
  onClose(async () => void pooler.close())
  return otherDatabase(each => Object.assign(each, { port: String((pooler.address() as AddressInfo).port) }))
}

/** The first packet of a session: its length, the version, then names and values, each with a zero at its end. */
function withoutOptions(packet: Buffer): Buffer {
  const words = packet.subarray(8).toString('latin1').split('\0')
  const at = words.findIndex((word, index) => index % 2 === 0 && word === 'options')
  if (at >= 0) words.splice(at, 2)
  const rest = Buffer.from(words.join('\0'), 'latin1')
  const head = Buffer.from(packet.subarray(0, 8))
  head.writeInt32BE(8 + rest.length)
  return Buffer.concat([head, rest])
}

const { certFile, keyFile } = await makeCertificate()
const other = await makeCertificate()
const secret = 'not-the-password'

interface StartupTrouble {
  name: string
  env: Record<string, string>
  /** What the one line has to contain. */
  says: RegExp
  exitCode: number
  /** Processes it happens to. */
  of: ('api/main.ts' | 'worker/main.ts')[]
}

/** Of both, in the same code: tried with one of them. */
const both: StartupTrouble['of'] = ['worker/main.ts']
const troubles: StartupTrouble[] = [
  {
    name: 'a wrong password',
    env: { DATABASE_URL: otherDatabase(each => Object.assign(each, { password: secret })) },
    says: /refuses this user or password: correct DATABASE_URL/,
    exitCode: 1,
    of: both
  },
  {
    name: 'an unknown database',
    env: { DATABASE_URL: otherDatabase(each => Object.assign(each, { pathname: '/nowhere' })) },
    says: /there is no database .*\/nowhere: create it, or correct DATABASE_URL/,
    exitCode: 1,
    of: both
  },
  {
    name: 'a database without our tables',
    env: { DATABASE_URL: otherDatabase(each => Object.assign(each, { pathname: '/postgres' })) },
    says: /lacks \d+ migrations: run `npm run -s operator -- db migrate`/,
    exitCode: 78,
    of: both
  },
  {
    name: 'no PostgreSQL at the address',
    env: { DATABASE_URL: `postgres://a:${secret}@127.0.0.1:9/x` },
    says: /No PostgreSQL listens at 127\.0\.0\.1:9\/x/,
    exitCode: 1,
    of: both
  },
  {
    name: 'a database that takes no writes',
    env: { DATABASE_URL: withSetting('default_transaction_read_only=on') },
    says: /takes no writes \(default_transaction_read_only is on/,
    exitCode: 1,
    of: ['api/main.ts', 'worker/main.ts']
  },
  {
    name: 'a role for which no triggers run',
    env: { DATABASE_URL: withSetting('session_replication_role=replica') },
    says: /runs no triggers for this role.*reset session_replication_role/,
    exitCode: 78,
    of: both
  },
  {
    name: 'a pooler that drops what our sessions set',
    env: { DATABASE_URL: await behindForgetfulPooler() },
    says: /A pooler before 127\.0\.0\.1:\d+\S+ drops the settings of our sessions/,
    exitCode: 78,
    of: both
  },
  {
    name: 'a port in use',
    env: { PORT: takenPort },
    says: new RegExp(`PORT ${takenPort} of HOST 127\\.0\\.0\\.1 is taken by another process`),
    exitCode: 78,
    of: ['api/main.ts']
  },
  {
    name: 'a port of the metrics in use',
    env: { METRICS_PORT: takenPort },
    says: new RegExp(`METRICS_PORT ${takenPort} of METRICS_HOST 127\\.0\\.0\\.1 is taken`),
    exitCode: 78,
    of: both
  },
  {
    name: 'an address of another machine',
    env: { HOST: '192.0.2.1' },
    says: /HOST 192\.0\.2\.1 is not an address of this machine/,
    exitCode: 78,
    of: ['api/main.ts']
  },
  {
    name: 'a missing certificate',
    env: { TLS_CERT: '/nowhere/cert.pem', TLS_KEY: keyFile },
    says: /TLS_CERT: cannot open \/nowhere\/cert\.pem: no such file or directory \(ENOENT\)/,
    exitCode: 78,
    of: ['api/main.ts']
  },
  {
    name: 'a key of another certificate',
    env: { TLS_CERT: certFile, TLS_KEY: other.keyFile },
    says: /TLS_CERT and TLS_KEY are not a certificate and its key/,
    exitCode: 78,
    of: ['api/main.ts']
  },
  {
    name: 'a data directory that is a file',
    env: { TOKEN_KEYS: '', DATA_DIR: file },
    says: new RegExp(`Cannot start: cannot make the directory ${file}: file already exists`),
    exitCode: 1,
    of: both
  },
  {
    name: 'a data directory for the embedded database that is a file',
    env: { DATABASE_URL: '', DATA_DIR: file },
    says: new RegExp(`Cannot start: The embedded PostgreSQL: cannot make the directory ${file}`),
    exitCode: 1,
    of: both
  }
]

const logging = suite('a log that cannot be written')

/** Starts an api with this standard output; it has to respond to a request, and to end in order on SIGTERM. */
async function runLogging(output: number): Promise<void> {
  const port = await freePort()
  const child = spawn(process.execPath, ['api/main.ts'], {
    env: { ...process.env, ...env, LOG_LEVEL: 'info', PORT: String(port) },
    stdio: ['ignore', output, 'inherit']
  })
  onClose(async () => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  const page = () => fetch(`http://127.0.0.1:${port}/docs/openapi.json`, { signal: AbortSignal.timeout(5000) })
  await until('a response', async () => (await page().catch(() => undefined))?.status === 200, 60_000)
  child.kill('SIGTERM')
  // Hard, it would end after 25 s, with 1.
  const how = await Promise.race([ended, once(AbortSignal.timeout(60_000), 'abort').then(() => 'not at all')])
  assert.equal(how, [0, null])
}

/** Both ends of a pipe that takes no byte more until it is read. */
function openFullPipe(name: string): number {
  const path = join(dir, name)
  execFileSync('mkfifo', [path])
  const pipe = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  for (const bytes of [4096, 1]) while (takes(pipe, Buffer.alloc(bytes, 'x'))) {}
  return pipe
}

/** Whether a pipe still took this. */
function takes(pipe: number, bytes: Buffer): boolean {
  try {
    return writeSync(pipe, bytes) > 0
  } catch (error) {
    assert.is((error as NodeJS.ErrnoException).code, 'EAGAIN')
    return false
  }
}

logging('since nobody reads its pipe keeps no process from its work, nor from its end', async () => {
  const pipe = openFullPipe('unread')
  await runLogging(pipe)
  closeSync(pipe)
})

logging('keeps no more lines than fit 8 MB for a pipe that nobody reads', async () => {
  const pipe = openFullPipe('unread-for-long')
  const writer = `
    import { openLog } from './db/platform/log.ts'
    const log = openLog({ level: 'info', name: 'test' })
    for (let index = 0; index < 2000; index++) log.info({ text: 'x'.repeat(10_000) }, 'a line')
    process.stderr.write('written')`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', writer], { stdio: ['ignore', pipe, 'pipe'] })
  onClose(async () => void child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  await once(child.stderr as Readable, 'data')
  let over = false
  void ended.then(() => {
    over = true
  })
  // Of its own, as a process that is started has its standard output block.
  const reader = openSync(join(dir, 'unread-for-long'), constants.O_RDONLY | constants.O_NONBLOCK)
  let read = 0
  const buffer = Buffer.alloc(65_536)
  await until(
    'the writer to end',
    () => {
      try {
        for (;;) read += readSync(reader, buffer)
      } catch (error) {
        assert.is((error as NodeJS.ErrnoException).code, 'EAGAIN')
      }
      return over
    },
    60_000
  )
  assert.equal(await ended, [0, null])
  for (const end of [pipe, reader]) closeSync(end)
  assert.ok(read > 7_000_000 && read < 9_000_000, `${read} of 20,000,000 bytes`)
})

// /dev/full refuses what is written, as a full disk does.
if (!existsSync('/dev/full')) console.log('SKIPPED: a full disk: there is no /dev/full here')
else
  logging('keeps no process from its work, nor from its end', async () => {
    const full = openSync('/dev/full', 'w')
    await runLogging(full)
    closeSync(full)
  })

const starting = suite('a process that cannot start')

for (const { name, env: change, says, exitCode, of } of troubles)
  starting(`prints in one line what is wrong: ${name}`, async () => {
    for (const main of of) {
      const started = startProcess(main, { ...env, PORT: '0', ...change })
      const ended = await started.ended
      // What a worker logs on its way does not count; what a person reads is not JSON.
      const lines = started.lines.filter(line => !line.startsWith('{'))
      assert.is(lines.length, 1, `${main}: ${started.lines.join('\n')}`)
      assert.match(lines[0] ?? '', says)
      assert.is(ended, exitCode, main)
      assert.not.match(started.lines.join('\n'), secret)
    }
  })

for (const { name, file, says } of [
  {
    name: 'that cannot be read',
    file: undefined,
    says: /^Wrong configuration: the \.env file: cannot read: illegal operation on a directory/
  },
  {
    name: 'that an editor has saved in UTF-16',
    file: Buffer.from('\uFEFFPORT=81', 'utf16le'),
    says: /^Wrong configuration: the \.env file is not text in UTF-8/
  },
  {
    name: 'for its first line behind a byte order mark as well',
    file: Buffer.from(`\uFEFFDATABASE_URL=mysql://a:${secret}@b/c\r\nHOST=\r\n`),
    says: /^Wrong configuration: DATABASE_URL must be an address.*; PORT must be/
  }
])
  starting(`names a .env file ${name}`, async () => {
    const cwd = await mkdtemp(join(dir, 'dotenv-'))
    if (file) await writeFile(join(cwd, '.env'), file)
    else await mkdir(join(cwd, '.env'))
    const child = spawn(process.execPath, [join(process.cwd(), 'api/main.ts')], {
      cwd,
      // It ends all the same where the file has no effect.
      env: { ...process.env, ...(file ? { PORT: 'none' } : {}) },
      stdio: ['ignore', 'ignore', 'pipe']
    })
    const lines: string[] = []
    createInterface({ input: child.stderr }).on('line', line => lines.push(line))
    const [code] = await once(child, 'close')
    assert.is(code, 78)
    assert.is(lines.length, 1, lines.join('\n'))
    assert.match(lines[0] ?? '', says)
    assert.not.match(lines[0] ?? '', secret)
  })

starting('is distinguished by the operator as well, in one line with exit code 1', async () => {
  for (const { name, env: change, says, of } of troubles.filter(each => each.of === both)) {
    if (name.includes('metrics')) continue
    const { exitCode, stderr, stdout } = await operator({ ...env, ...change }, 'partners', 'list')
    assert.is(exitCode, 1, of.join())
    assert.is(stdout, '')
    assert.is(stderr.trim().split('\n').length, 1, stderr)
    assert.match(stderr, new RegExp(says.source.replace('Cannot start: ', ''), 'i'))
  }
})

const limited = suite('a process without file descriptors')

limited(
  'logs that, since its port closes connections without an error, and once that there are some again',
  async () => {
    const port = await freePort()
    const command = `ulimit -n 100 && exec "$0" api/main.ts`
    const child = spawn('sh', ['-c', command, process.execPath], {
      env: { ...process.env, ...env, LOG_LEVEL: 'info', PORT: String(port) },
      stdio: ['ignore', 'pipe', 'inherit']
    })
    onClose(async () => void child.kill('SIGKILL'))
    const lines: string[] = []
    createInterface({ input: child.stdout }).on('line', line => void lines.push(line))
    const logged = (text: RegExp) => () => lines.some(line => text.test(line))
    await until('it to listen', logged(/"msg":"listening"/), 60_000)
    // More than it may have; those it cannot take are closed, and made again.
    const sockets = Array.from({ length: 120 }, () => connect(port, '127.0.0.1').on('error', () => {}))
    await until('the line', logged(/"level":50.*no file descriptor is left/), 30_000)
    for (const socket of sockets) socket.destroy()
    await until('the other one', logged(/there are file descriptors again/), 30_000)
  }
)

const npm = suite('npm run')

for (const [script, said] of [
  ['api', /"msg":"listening"/],
  ['worker', /"msg":"working"/]
] as const)
  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    npm(`-s ${script} leaves no process behind when npm is ended by ${signal}`, async () => {
      const child = spawn('npm', ['run', '-s', script], {
        env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env, LOG_LEVEL: 'info', PORT: '0' },
        stdio: ['ignore', 'pipe', 'inherit']
      })
      onClose(async () => void child.kill('SIGKILL'))
      const lines: string[] = []
      const first = Promise.withResolvers<{ pid: number }>()
      createInterface({ input: child.stdout }).on('line', line => {
        lines.push(line)
        if (said.test(line)) first.resolve(JSON.parse(line) as { pid: number })
      })
      child.once('exit', () => first.reject(new Error(lines.join('\n'))))
      const { pid } = await first.promise
      onClose(async () => {
        if (runs(pid)) process.kill(pid, 'SIGKILL')
      })
      child.kill(signal)
      await until('the process to end', () => !runs(pid), 30_000)
      // Written before it ended, and perhaps not read yet.
      await until('its last line', () => lines.at(-1)?.includes('"msg":"stopped"'))
    })

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

npm.after(closeAll)
for (const tests of [logging, starting, limited, npm]) tests.run()
