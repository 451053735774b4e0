// What every process does however it was started: loading what it needs, logging what fails, and ending when its log has no reader.
// test in the full run only
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openLog } from '../../db/platform/log.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { stretched } from '../support/busy.ts'
import { closeAll, onClose, openTestDatabase, TOKEN_KEYS } from '../support/harness.ts'
import { startApi, startWorker } from '../support/processes.ts'

const program = `
  import { openLog } from './db/platform/log.ts'
  import { stopOn } from './db/platform/process.ts'
  const log = openLog({ level: 'info', name: 'test' })
  stopOn(log)
  process.stdin.once('end', () => { log.info('a line under way'); throw new Error('unexpected') }).resume()
`

const ending = suite('a process whose log nobody reads any more')

ending('ends with exit code 1 on an unexpected error', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['pipe', 'pipe', 'ignore']
  })
  onClose(async () => void child.kill('SIGKILL'))
  child.stdout.destroy()
  await once(child.stdout, 'close')
  child.stdin.end()
  // On the way it failed before, it tried for ever to write its last line.
  const tooLong = setTimeout(() => child.kill('SIGKILL'), stretched(20_000))
  const [code] = (await once(child, 'exit')) as [number | null]
  clearTimeout(tooLong)
  assert.is(code, 1)
})

const group = suite('a signal to npm and to the process that it started')

group('ends the process in order, although npm hands it on as well', async () => {
  const script = `
    import { openLog } from './db/platform/log.ts'
    import { endInOrder, stopOn } from './db/platform/process.ts'
    const log = openLog({ level: 'info', name: 'test' })
    const stopping = stopOn(log)
    // What npm does: the signal again as soon as the first has arrived.
    process.once('SIGTERM', () => process.kill(process.pid, 'SIGTERM'))
    setTimeout(() => {}, 20_000)
    console.log('ready')
    await stopping
    await endInOrder(log, [{ name: 'work', end: () => new Promise(done => setTimeout(done, 50)), untilMs: 5000 }])`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, npm_lifecycle_event: 'api' },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  onClose(async () => void child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  const [code] = (await once(child, 'exit')) as [number | null]
  assert.is(code, 0)
})

const unreachable = suite('a database that cannot be reached')

unreachable('leaves standard output to the program', async () => {
  const script = `
    import { openDatabase } from './db/postgres/connection.ts'
    const lines = []
    const log = { warn: (facts, line) => lines.push(line) }
    await Promise.all([{}, { log }].map(async each => {
      const db = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/nothing', ...each })
      await db.raw('select 1').catch(({ name }) => console.log(name))
      await db.destroy()
    }))
    console.log(lines[0])`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'pipe']
  })
  onClose(async () => void child.kill('SIGKILL'))
  const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr)])
  assert.is(said, 'KnexTimeoutError\nKnexTimeoutError\nthe database pool\n')
  assert.is(complained, '')
})

unreachable('is the reason that a statement without a connection reports, as a pool in use is', async () => {
  const url = await openTestDatabase()
  const [away, busy] = [openDatabase({ url: 'postgres://nobody@127.0.0.1:1/nothing' }), openDatabase({ url, pool: 1 })]
  onClose(() => Promise.all([away.destroy(), busy.destroy()]))
  const held = await busy.transaction()
  const [refused, waited] = await Promise.all([
    failureOf(away.raw('select 1')),
    failureOf(busy.transaction(async () => {}))
  ])
  assert.match(refused.message, /within 10 s: cannot connect to 127\.0\.0\.1:1: connection refused \(ECONNREFUSED\)\.$/)
  assert.match(waited.message, /within 10 s: all 1 are in use\.$/)
  await held.rollback()
})

const failureOf = (started: PromiseLike<unknown>) =>
  Promise.resolve(started).then(
    () => assert.unreachable() as never,
    error => error as Error
  )

const modules = suite('the programs')

modules('load neither fetch nor HTTP/2 before they need it', async () => {
  const script = `
    for (const path of ['api/app.ts', 'worker/jobs.ts', 'worker/simulator/server.ts', 'db/platform/metrics-server.ts'])
      await import('./' + path)
    const heavy = process.moduleLoadList.filter(name => /undici|http2\\/core/.test(name))
    console.log(JSON.stringify(heavy))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  onClose(async () => void child.kill('SIGKILL'))
  assert.equal(JSON.parse(await text(child.stdout)), [])
})

modules('take all compiled code from the cache, whichever program left it there', async () => {
  const cache = await mkdtemp(join(tmpdir(), 'operator-test-compiled-'))
  onClose(() => rm(cache, { recursive: true, force: true }))
  const env = {
    DATABASE_URL: await openTestDatabase(),
    TOKEN_KEYS,
    BROKER_URL: 'ws://127.0.0.1:9/websockets/v3',
    NODE_COMPILE_CACHE: cache,
    NODE_DEBUG_NATIVE: 'COMPILE_CACHE'
  }
  // What both load once they run, left by a program that sets no flag.
  const script = `for (const name of ['pg-boss', 'knex/lib/dialects/postgres/index.js']) await import(name)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, NODE_COMPILE_CACHE: cache },
    stdio: ['ignore', 'ignore', 'inherit']
  })
  assert.is((await once(child, 'exit'))[0], 0)
  for (const start of [startApi, startWorker]) {
    const started = await start(env)
    const ofPgBoss = started.lines.filter(line => /pg-boss.* was (accepted|rejected)/.test(line))
    assert.ok(ofPgBoss.length > 0, 'the cache is used')
    const rejected = started.lines.filter(line => line.includes(' was rejected'))
    assert.equal(rejected, [])
    started.kill('SIGKILL')
    await started.ended
  }
})

const scheduled = suite('a job of the clock that fails')

scheduled('is logged with its queue and the reason', async () => {
  const url = await openTestDatabase()
  const worker = await startWorker({ DATABASE_URL: url, TOKEN_KEYS, BROKER_URL: 'ws://127.0.0.1:9/websockets/v3' })
  const queue = await openQueue({ url, role: 'sender', log: openLog({ level: 'silent', name: 'test' }) })
  onClose(() => queue.close())
  await queue.boss.insert('billing.check', [{ data: ['no object'] }])
  const { err, queue: name } = JSON.parse(await worker.line(/"msg":"a scheduled job failed"/))
  assert.is(name, 'billing.check')
  assert.match(err.message, /The data of the job breaks the schema/)
})

modules.after(closeAll)
for (const tests of [ending, group, unreachable, scheduled, modules]) tests.run()
