// test in the full run only
// test time-out: 300 s
// What is given to whoever installs the service: every metric that alerts and dashboard name exists, the example of
// the settings can be read, and a dump that the backup wrote restores to the same books.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import client from 'prom-client'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { heapFlags } from '../../cli/run/heap.ts'
import { removeEmbedded, startEmbedded } from '../../db/embedded.ts'
import {
  collectBudget,
  collectClockOffset,
  collectProcessMetrics,
  collectUnreachable
} from '../../db/platform/metrics.ts'
import { collectStoreMetrics } from '../../db/platform/store-metrics.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { noteLineage, readClock } from '../../db/postgres/lineage.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { environment, readConfig } from '../../schemas/config/config.ts'
import { closeAll, onClose, TOKEN_KEYS } from '../support/harness.ts'
import { operator } from '../support/operator.ts'

const run = promisify(execFile)
const nowhere = openDatabase({ url: 'postgres://nobody@127.0.0.1:1/nothing', pool: 2 })
onClose(() => nowhere.destroy())

const watching = suite('.deploy: alerts and dashboard')

watching('name only metrics that exist', async () => {
  collectProcessMetrics()
  collectStoreMetrics(nowhere)
  collectBudget(() => ({}))
  collectClockOffset(() => null)
  collectUnreachable(() => [])
  const known = new Set(client.register.getMetricsAsArray().map(({ name }) => name))
  const dashboard = JSON.parse(await readFile('.deploy/grafana-dashboard.json', 'utf8')) as {
    panels: { targets: { expr: string }[] }[]
  }
  const alerts = await readFile('.deploy/prometheus-alerts.yaml', 'utf8')
  const expressions = [
    ...[...alerts.matchAll(/^ +expr: (.*)$/gm)].map(([, expr]) => expr as string),
    ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
  ]
  assert.ok(expressions.length > 30)
  for (const expression of expressions) {
    const named = expression.match(/\b(service|process|nodejs)_[a-z0-9_]+/g) ?? []
    assert.ok(named.length > 0 || expression.startsWith('up{'), expression)
    for (const name of named)
      assert.ok(known.has(name) || known.has(name.replace(/_(bucket|count|sum)$/, '')), `${name} in ${expression}`)
  }
})

const heap = suite('processes of the service')

heap('have the same heap however they are started', async () => {
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> }
  const units = ['api.service', 'worker@.service'].map(name => `.deploy/systemd/trading-operator-${name}`)
  const files = ['Makefile', '.deploy/Dockerfile', '.deploy/compose.yaml', ...units]
  const texts = await Promise.all(files.map(path => readFile(path, 'utf8')))
  // The Makefile has both processes.
  const found = [scripts.worker as string, ...texts].map(text => text.match(/--max-[\w-]+=\d+/g))
  assert.equal(found, [heapFlags, [...heapFlags, ...heapFlags], heapFlags, heapFlags, heapFlags, heapFlags])
})

const containers = suite('.deploy/compose.yaml')

containers('has each worker run the broker of test keys where the others reach it', async () => {
  const compose = await readFile('.deploy/compose.yaml', 'utf8')
  const [, host] = /TEST_BROKER_HOST=(\S.*) exec node /.exec(compose) ?? []
  const { stdout } = await run('sh', ['-c', `echo ${host?.replaceAll('$$', '$')}`])
  assert.ok(isIP(stdout.trim()), stdout)
})

const installing = suite('.ci/install')

installing('installs what development needs, whatever NODE_ENV is in the shell', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'install-'))
  onClose(() => rm(dir, { recursive: true, force: true }))
  for (const path of ['.ci/install', '.node-version.cjs']) await cp(path, join(dir, path))
  const tool = { name: 'tool', version: '1.0.0' }
  const project = { name: 'project', version: '1.0.0', devDependencies: { tool: 'file:tool' } }
  const lock = {
    ...{ name: 'project', version: '1.0.0', lockfileVersion: 3 },
    packages: {
      '': project,
      tool: { ...tool, dev: true },
      'node_modules/tool': { resolved: 'tool', link: true, dev: true }
    }
  }
  await mkdir(join(dir, 'tool'))
  const files = { 'package.json': project, 'package-lock.json': lock, 'tool/package.json': tool }
  for (const [path, content] of Object.entries(files)) await writeFile(join(dir, path), JSON.stringify(content))
  await run(join(dir, '.ci/install'), { env: { ...process.env, NODE_ENV: 'production', npm_config_omit: 'dev' } })
  assert.ok(existsSync(join(dir, 'node_modules/tool/package.json')))
})

const settings = suite('.env.example')

settings('names settings that exist, with values that can be read', async () => {
  const example = await readFile('.env.example', 'utf8')
  const given = parseEnv(example) as Record<string, string>
  const names = [...example.matchAll(/^#?([A-Z_]+)=/gm)].map(([, name]) => name as string)
  for (const name of names) assert.ok(name in environment.properties, name)
  assert.is(readConfig(given).trustProxy, 1)
})

const backup = suite('.deploy/backup')
// The PostgreSQL that comes with the project has no pg_dump.
const bin = ['17', '16', '15']
  .map(major => `/usr/lib/postgresql/${major}/bin`)
  .find(dir => existsSync(`${dir}/pg_dump`))
if (!bin) console.log('SKIPPED: a backup and its restore: there is no pg_dump here')
else
  backup('writes a dump from which the same books are restored', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'backup-'))
    await chmod(dir, 0o711)
    onClose(async () => {
      await removeEmbedded(dir)
      await rm(dir, { recursive: true, force: true })
    })
    const { url, stop } = await startEmbedded({ dataDir: dir, binDir: bin })
    onClose(stop)
    await migrate(url)
    const on = async (database: string, ...args: string[]) => {
      const ran = await operator({ DATABASE_URL: database, TOKEN_KEYS, LOG_LEVEL: 'silent' }, ...args, '--json')
      assert.is(ran.exitCode, 0, ran.stderr)
      return ran.json
    }
    const { partnerId } = await on(url, 'partners', 'create', '--name', 'Acme', '--balance', '123.45')
    const generationOf = async (database: string) => {
      const db = openDatabase({ url: database, pool: 1, name: 'test' })
      const read = async () => (await readClock(db)).generation
      const epoch = async () => (await db('event_epoch').first()).epoch as number
      const given = await epoch()
      const found = {
        before: await read(),
        noted: await noteLineage(db),
        after: await read(),
        cursorsGood: (await epoch()) === given
      }
      await db.destroy()
      return found
    }
    assert.equal(await generationOf(url), { before: 0, noted: undefined, after: 0, cursorsGood: true })

    const dumps = await mkdtemp(join(dir, 'dumps-'))
    const env = { PATH: `${bin}:${process.env.PATH}`, DATABASE_URL: url, BACKUP_DIR: dumps }
    const { stdout } = await run('.deploy/backup', { env })
    const [dump, ...others] = await readdir(dumps)
    assert.equal([join(dumps, dump ?? ''), others], [stdout.trim(), []])

    const restored = new URL(url)
    restored.pathname = '/restored'
    await run(join(bin, 'psql'), [url, '-c', 'create database restored'])
    const options = ['--exit-on-error', '--no-owner', '--no-privileges', `--dbname=${restored.href}`]
    await run(join(bin, 'pg_restore'), [...options, stdout.trim()])
    assert.is((await on(restored.href, 'wallet', 'show', '--partner', partnerId)).balanceUsd, 123.45)
    await on(restored.href, 'ledger', 'verify')
    assert.is((await on(restored.href, 'audit', 'verify')).ok, true)
    assert.equal((await on(restored.href, 'db', 'migrate')).applied, [])

    // On the same server as its origin: no order is claimed before the change is noted, and accounts are compared.
    const restoredBeside = await generationOf(restored.href)
    assert.is(restoredBeside.before, null)
    assert.is(restoredBeside.noted?.unseen, false)
    assert.is(restoredBeside.after, 1)
    // Its origin may have given out cursors since the dump.
    assert.is(restoredBeside.cursorsGood, false)
    // Over its own tables.
    const emptied = 'drop schema public, pgboss cascade; create schema public'
    await run(join(bin, 'psql'), [restored.href, '--quiet', '--set=ON_ERROR_STOP=1', '-c', emptied])
    await run(join(bin, 'pg_restore'), [...options, stdout.trim()])
    assert.is((await generationOf(restored.href)).before, null)
    // As the server copies it.
    const copied = new URL(url)
    copied.pathname = '/copied'
    await run(join(bin, 'psql'), [
      restored.href,
      '-c',
      `create database copied template "${new URL(url).pathname.slice(1)}"`
    ])
    // Its origin may be in use.
    const origins = async (database: string) => {
      const env = { DATABASE_URL: database, TOKEN_KEYS, BROKER_URL: 'ws://127.0.0.1:9/' }
      const { json } = await operator(env, 'doctor', '--json')
      return json.checks.filter(({ check }: { check: string }) => check === 'origin').length
    }
    assert.equal([await origins(copied.href), await origins(url)], [1, 0])
    assert.is((await generationOf(copied.href)).before, null)
    assert.is(await origins(copied.href), 0, 'known once a worker has noted it')
    assert.equal(await generationOf(url), { before: 0, noted: undefined, after: 0, cursorsGood: true })

    const failed = await run('.deploy/backup', {
      env: { ...env, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' }
    }).catch((error: { code: number }) => error)
    assert.is((failed as { code: number }).code, 1)
    assert.equal(await readdir(dumps), [dump])
  })

backup.after(closeAll)
for (const tests of [watching, heap, containers, installing, settings, backup]) tests.run()
