// DATABASE_READ_URL and what the doctor reports about standbys, on a primary and a standby that really streams from it.
// test in the full run only
import { randomUUID } from 'node:crypto'
import { chmod, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import client from 'prom-client'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getActivity, getMarketplaceAnalytics } from '../../api/analytics/activity.ts'
import { getReconciliation } from '../../api/analytics/reconciliation.ts'
import { getRevenue } from '../../api/analytics/revenue.ts'
import { getTraderAnalytics, listTraderAnalytics } from '../../api/analytics/traders.ts'
import { getLeaderboard } from '../../api/community/community.ts'
import { listLeaders } from '../../api/copy.ts'
import { listBotReviews, listMarketplaceBots } from '../../api/marketplace/listings.ts'
import { operations } from '../../api/operations.ts'
import { listOrders } from '../../api/orders/orders.ts'
import { isUnavailable } from '../../api/request/respond.ts'
import { collectTrade, listTradeHistory } from '../../api/traders/trades.ts'
import { filesIn } from '../../db/embedded/standing.ts'
import { openLog } from '../../db/platform/log.ts'
import { openDatabase, rows } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { openReads, type Reads } from '../../db/postgres/replica.ts'
import { openPostgres } from '../chaos/postgres.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { makeBot, seedBots } from '../support/marketplace-makers.ts'
import { operator } from '../support/operator.ts'
import { startApi } from '../support/processes.ts'
import { rowsRead } from '../support/rows-read.ts'
import { caughtUp, openStandby } from '../support/standby.ts'

const dir = await mkdtemp(join(tmpdir(), 'operator-replica-'))
await chmod(dir, 0o711)
onClose(() => rm(dir, { recursive: true, force: true }))
// Its socket is in its data directory.
const primary = await openPostgres(dir, { unix_socket_directories: '.' })
onClose(() => primary.stop())
await migrate(primary.url)
const standby = await openStandby(primary, dir, 'reader')
onClose(() => standby.kill())

// Long enough for a busy machine; where a wait has to fail, its test names the time.
const WAIT_MS = 10_000
const env = { DATABASE_READ_URL: standby.url, READ_WAIT_MS: String(WAIT_MS) }
const harness = await openHarness({ url: primary.url, env })
const { db, reads } = harness.services
const partner = await harness.makePartner()
const admin = new pg.Client({ connectionString: primary.url })
admin.on('error', () => {})
await admin.connect()
onClose(() => admin.end().catch(() => {}))
await caughtUp(primary.url, standby)

const log = openLog({ level: 'silent', name: 'test' })
const onStandby = (open: Reads) =>
  open.run(
    async found => (await rows<{ standby: boolean }>(found, 'select pg_is_in_recovery() as standby'))[0]?.standby
  )
/** Reads that the processes of this test counted, by who served them. */
async function served(): Promise<Record<string, number>> {
  const counter = client.register.getSingleMetric('service_replica_reads_total') as client.Counter
  return Object.fromEntries((await counter.get()).values.map(({ labels, value }) => [labels.served, value]))
}
function trade() {
  return {
    stake_amount: 10,
    contract_type: 'CALL',
    broker_contract_id: `contract-${randomUUID()}`,
    client_broker_loginid: 'CR1234567',
    profit_loss: 9.53,
    trade_timestamp: '2026-01-02T03:04:05Z'
  }
}
/** Records a trade; returns whether the list that follows shows it. */
async function seesOwnTrade(): Promise<boolean> {
  const body = trade()
  assert.is((await partner.call(collectTrade, { body })).status, 200)
  const { data } = (await partner.call(listTradeHistory)).body
  return data.some(({ broker_contract_id: id }: { broker_contract_id: string }) => id === body.broker_contract_id)
}

const naming = suite('operations that a standby may serve')

naming('are these, which read only and on which no order and no money depends', () => {
  const named = operations.filter(({ replica }) => replica)
  assert.equal(named.map(({ name }) => name).sort(), [
    'getActivity',
    'getMarketplaceAnalytics',
    'getReconciliation',
    'getRevenue',
    'getTraderAnalytics',
    'listBotReviews',
    'listLeaders',
    'listMarketplaceBots',
    'listOrders',
    'listTradeHistory',
    'listTraderAnalytics'
  ])
  for (const { method, atomic, batched, auth } of named) {
    assert.equal([method, atomic, batched, auth], ['GET', undefined, undefined, 'key'])
  }
})

const serving = suite('a standby')

serving('serves each of them, and the leaderboard', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const botId = await makeBot(partner)
  const before = (await served()).replica ?? 0
  const calls = [
    [getActivity, {}],
    [getMarketplaceAnalytics, {}],
    [getReconciliation, {}],
    [getRevenue, {}],
    [getTraderAnalytics, { params: { traderExternalId } }],
    [listBotReviews, { params: { id: botId } }],
    [listLeaders, {}],
    [listMarketplaceBots, {}],
    [listOrders, {}],
    [listTradeHistory, {}],
    [listTraderAnalytics, {}],
    [getLeaderboard, {}]
  ] as const
  for (const [row, input] of calls) {
    const { status, body } = await partner.call(row, input)
    assert.is(status, 200, `${row.name} ${JSON.stringify(body)}`)
  }
  assert.equal(await served(), { replica: before + calls.length })
  assert.is(await onStandby(reads), true)
})

serving('shows its caller what the caller wrote just before, each time', async () => {
  const before = (await served()).replica ?? 0
  for (let time = 0; time < 30; time++) assert.ok(await seesOwnTrade(), `trade ${time}`)
  assert.is((await served()).replica, before + 30)
})

serving('counts the bots of a filter once, and not for each page', async () => {
  await seedBots(db, partner, Array<object>(50).fill({ name: 'Remembered' }))
  const read: number[] = []
  const { run } = reads
  reads.run = work =>
    run(async found => {
      const done: Awaited<ReturnType<typeof work>>[] = []
      const rows = await rowsRead(found, 'marketplace_words', async trx => done.push(await work(trx)))
      read.push(rows)
      return done[0] as (typeof done)[number]
    })
  const before = (await served()).replica ?? 0
  const totals: number[] = []
  for (const page of [1, 2, 3]) {
    const query = { search: 'remembered', limit: 10, page }
    totals.push((await partner.call(listMarketplaceBots, { query })).body.total)
  }
  reads.run = run
  assert.equal([totals, (await served()).replica], [[50, 50, 50], before + 3])
  const [first = 0, ...others] = read
  assert.ok(
    others.every(rows => rows <= first / 2),
    `${read.join(', ')} rows`
  )
})

serving('takes no write', async () => {
  let refused: unknown
  await reads
    .run(async found => {
      await found.raw('create table written (id int)')
    })
    .catch((error: unknown) => {
      refused = error
    })
  // Run again on the primary, where it is no harm to the test.
  assert.is(refused, undefined)
  assert.is((await served()).away, 1)
  await until('the standby to serve again', () => onStandby(reads), WAIT_MS)
})

serving('that replays nothing leaves its reads to the primary, so that own writes are seen', async () => {
  const impatient = openReads({ db, url: standby.url, waitMs: 2000, pool: 2, log })
  await until('the first connection', () => onStandby(impatient), WAIT_MS)
  await standby.query('select pg_wal_replay_pause()')
  await until(
    'the pause',
    async () => (await standby.query('select pg_get_wal_replay_pause_state()')) === 'paused',
    WAIT_MS
  )
  await db.raw('create table marks (id int)')
  const before = await served()
  const seen = () => impatient.run(async found => (await found.raw(`select to_regclass('marks') as name`)).rows[0].name)
  await until(
    'the standby to be found behind',
    async () => {
      assert.is(await seen(), 'marks')
      // On a busy machine it may not respond within the time for that first.
      return /DATABASE_READ_URL: the standby is too far behind/.test(impatient.warnings().join())
    },
    WAIT_MS
  )
  const found = await served()
  assert.is(found.behind, (before.behind ?? 0) + 1)
  // Nobody waits for it again right after.
  assert.is(await seen(), 'marks')
  const after = await served()
  assert.equal([after.behind, after.resting], [found.behind, (found.resting ?? 0) + 1])
  await standby.query('select pg_wal_replay_resume()')
  await until('the standby to serve again', () => onStandby(impatient), WAIT_MS)
  assert.equal(impatient.warnings(), [])
  await impatient.close()
})

serving('that is killed leaves its reads to the primary, as /readyz and the doctor report', async () => {
  const port = await freePort()
  const api = await startApi({ ...harness.env, METRICS_PORT: String(port) })
  await api.line(/"msg":"metrics"/)
  assert.ok(await seesOwnTrade())
  await standby.kill()
  assert.ok(await seesOwnTrade())
  assert.ok(((await served()).away ?? 0) > 1)
  const response = await fetch(`${api.address}/v1/orders`, { headers: { authorization: `Bearer ${partner.key}` } })
  assert.is(response.status, 200)
  const ready = await fetch(`http://127.0.0.1:${port}/readyz`)
  assert.is(ready.status, 200)
  assert.match(await ready.text(), /^ready\nDATABASE_READ_URL: the standby does not respond/)
  assert.is((await finding('read replica'))?.status, 'warn')
  await standby.start()
  await until('the standby to serve again', () => onStandby(reads), WAIT_MS)
  assert.ok(await seesOwnTrade())
})

serving('has its reads served by the primary where the address is none of a standby', async () => {
  const wrong = openReads({ db, url: primary.url, waitMs: WAIT_MS, pool: 2, log })
  assert.is(await onStandby(wrong), false)
  assert.match(wrong.warnings()[0] ?? '', /not a standby/)
  await wrong.close()
})

const doctor = suite('the doctor')

interface FoundRow {
  check: string
  status: string
  found: string
}
async function finding(check: string, more: Record<string, string> = {}): Promise<FoundRow | undefined> {
  const { json } = await operator({ ...harness.env, ...more, LOG_LEVEL: 'silent' }, 'doctor', '--json')
  return (json.checks as FoundRow[]).find(each => each.check === check)
}

doctor('distinguishes a synchronous standby from one that commits do not wait for', async () => {
  assert.is((await finding('durability'))?.status, 'fail')
  assert.match((await finding('replication'))?.found ?? '', /^reader: asynchronous, streaming, \d+\.\d MB behind/)
  await admin.query(`alter system set synchronous_standby_names = 'reader'`)
  await admin.query('select pg_reload_conf()')
  const synchronous = `select count(*)::int as count from pg_stat_replication where sync_state = 'sync'`
  await until('the setting', async () => (await admin.query(synchronous)).rows[0].count === 1, WAIT_MS)
  const durability = await finding('durability')
  assert.equal([durability?.status, durability?.found], ['ok', 'commits reach the disk, 1 of 1 standbys synchronous'])
  assert.match((await finding('replication'))?.found ?? '', /^reader: synchronous, streaming/)
})

doctor('shows how far a standby is behind, and its clock', async () => {
  // What passes between the readings of the two clocks on a busy machine is part of their difference.
  const good = await until('the clocks to be read together', async () => {
    const found = await finding('read replica')
    return / 0\.\d s apart$/.test(found?.found ?? '') && found
  })
  assert.is(good.status, 'ok')
  assert.match(good.found, /MB behind, its clock 0\.\d s apart$/)
  await standby.query('select pg_wal_replay_pause()')
  await until(
    'the pause',
    async () => (await standby.query('select pg_get_wal_replay_pause_state()')) === 'paused',
    WAIT_MS
  )
  await admin.query(`select pg_logical_emit_message(true, 'test', repeat('x', 1000000)) from generate_series(1, 20)`)
  const received = `select coalesce(pg_wal_lsn_diff(pg_current_wal_flush_lsn(), flush_lsn), 1e9)::float8 as left from pg_stat_replication`
  await until('the log to arrive', async () => (await admin.query(received)).rows[0]?.left < 1e6, WAIT_MS)
  for (const check of ['replication', 'read replica']) {
    const behind = await finding(check)
    assert.is(behind?.status, 'warn', check)
    assert.match(behind!.found, / (19|2\d)\.\d MB behind/)
  }
  await standby.query('select pg_wal_replay_resume()')
  await caughtUp(primary.url, standby)
})

doctor('follows DATABASE_URL through a proxy, and refuses one that leads to a standby', async () => {
  const through = await openProxy([primary.port])
  const straight = await finding('database route', { DATABASE_URL: through })
  assert.is(straight?.status, 'ok')
  assert.match(straight!.found, new RegExp(`^through a proxy at .* to the primary at 127.0.0.1:${primary.port}$`))
  const spread = await openProxy([primary.port, Number(new URL(standby.url).port)])
  const both = await finding('database route', { DATABASE_URL: spread })
  assert.is(both?.status, 'fail')
  assert.match(both!.found, /^3 of 6 connections led to a standby/)
  assert.is(await finding('database route'), undefined)
})

doctor('follows an address of a socket, which no URL parser takes', async () => {
  const { username, password, pathname, port } = new URL(primary.url)
  const socket = `postgresql://${username}:${password}@${pathname}?host=${await realpath(filesIn(dir).cluster)}&port=${port}`
  assert.not(URL.canParse(socket))
  assert.is(await finding('database route', { DATABASE_URL: socket }), undefined)
  assert.is((await finding('migrations', { DATABASE_URL: socket }))?.status, 'ok')
})

/** A proxy that gives its connections to these ports of this machine, round-robin; returns the URL of the database through it. */
async function openProxy(ports: number[]): Promise<string> {
  let next = 0
  const proxy = createServer(inner => {
    const outer = connect(ports[next++ % ports.length] as number, '127.0.0.1')
    for (const [from, to] of [
      [inner, outer],
      [outer, inner]
    ] as const) {
      from.on('error', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  onClose(async () => void proxy.close())
  const url = new URL(primary.url)
  url.port = String((proxy.address() as AddressInfo).port)
  return url.href
}

const taken = suite('a standby that a proxy takes for the primary')

taken('refuses as a server that is away does, until it has been promoted', async () => {
  for (const statement of ['select count(*) from broker_requests', `delete from orders where id = 'none'`]) {
    const refused = await standby.query(statement).then(
      () => undefined,
      (error: unknown) => error
    )
    assert.ok(isUnavailable(refused), `${statement}: ${refused}`)
  }
})

const leaving = suite('a standby that became a primary')

leaving('serves no reads', async () => {
  await admin.query(`alter system reset synchronous_standby_names`)
  await admin.query('select pg_reload_conf()')
  await standby.query('select pg_promote()')
  await db.raw('create table after_promotion (id int)')
  const seen = await reads.run(
    async found => (await found.raw(`select to_regclass('after_promotion') as name`)).rows[0].name
  )
  assert.is(seen, 'after_promotion')
  assert.match(reads.warnings()[0] ?? '', /not a standby/)
  assert.is((await finding('read replica'))?.status, 'fail')
})

leaving('leaves the old one to serve none of its reads once that is a standby, however far its log goes', async () => {
  // More log than the new primary has: its position alone would look as if everything had been replayed.
  await db.raw(`select pg_logical_emit_message(true, 'test', repeat('x', 1000000)) from generate_series(1, 10)`)
  await primary.stop()
  const cluster = await realpath(filesIn(dir).cluster)
  await writeFile(join(cluster, 'standby.signal'), '')
  await primary.start()
  const promoted = openDatabase({ url: standby.url, pool: 2, name: 'test' })
  const late = openReads({ db: promoted, url: primary.url, waitMs: WAIT_MS, pool: 2, log })
  onClose(async () => {
    await late.close()
    await promoted.destroy()
  })
  await promoted.raw('create table of_the_new_history (id int)')
  const seen = await late.run(
    async found => (await found.raw(`select to_regclass('of_the_new_history') as name`)).rows[0].name
  )
  assert.is(seen, 'of_the_new_history')
  assert.match(late.warnings()[0] ?? '', /on another history than the primary/)
})
leaving.after(closeAll)

naming.run()
serving.run()
doctor.run()
taken.run()
leaving.run()
