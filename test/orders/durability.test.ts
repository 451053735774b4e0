// What a purchase depends on: that a commit, once acknowledged, is not undone. Against a PostgreSQL of its own, whose settings
// are made as bad as an operator could make them, and with acknowledgements that get lost on their way.
// test in the full run only
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { checkStandbys } from '../../cli/doctor/replication.ts'
import { claimOrders } from '../../db/orders/claiming.ts'
import { openLog } from '../../db/platform/log.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { openDatabase, rows } from '../../db/postgres/connection.ts'
import { readDurability } from '../../db/postgres/durability.ts'
import { keepLineage, NOTHING_SEEN, noteLineage, readClock, type SeenHistory } from '../../db/postgres/lineage.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { openPostgres } from '../chaos/postgres.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startProcess, startWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const dir = await mkdtemp(join(tmpdir(), 'operator-durability-'))
await chmod(dir, 0o711)
onClose(() => rm(dir, { recursive: true, force: true }))
const postgres = await openPostgres(dir, { synchronous_commit: 'off' })
onClose(() => postgres.stop())
await migrate(postgres.url)
const simulator = await startSimulator({ tickMs: 10, seed: 9, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({
  url: postgres.url,
  env: { BROKER_URL: simulator.url, SWEEP_MS: '100', LEASE_MS: '1500', SETTLE_WAIT_MS: '20000' }
})
const partner = await harness.makePartner()
const admin = new pg.Client({ connectionString: postgres.url, options: '-c synchronous_commit=local' })
// It ends with the server.
admin.on('error', () => {})
await admin.connect()
onClose(() => admin.end().catch(() => {}))

// Reached in seconds on a machine that has time.
const WAIT_MS = 60_000

const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

async function configure(setting: string): Promise<void> {
  await admin.query(`alter system set ${setting}`)
  await admin.query('select pg_reload_conf()')
}

/** Sessions that wait for a standby: all, or those of one name. */
async function waitingForStandby(name = '%'): Promise<number[]> {
  const waiting = `select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name like $1`
  const { rows: found } = await admin.query(waiting, [name])
  return found.map(({ pid }) => pid as number)
}

await admin.query('create table probes (at timestamptz)')

/**
 * Does `work` while every commit waits for a standby that does not exist; afterwards none does, whatever became of `work`. The
 * server applies the setting some time after the reload, so the commit of a probe shows first that it does.
 */
async function withoutStandby(work: () => Promise<void>): Promise<void> {
  const probe = new pg.Client({ connectionString: postgres.url, options: '-c synchronous_commit=on' })
  await probe.connect()
  const { rows: found } = await probe.query('select pg_backend_pid() as pid')
  const { pid } = found[0]
  try {
    await configure(`synchronous_standby_names = 'nobody'`)
    await until(
      'the setting',
      async () => {
        let committed = false
        const commit = probe.query('insert into probes values (now())').then(() => {
          committed = true
        })
        await until('the probe', async () => committed || (await waitingForStandby()).includes(pid), WAIT_MS)
        const waited = !committed
        if (waited) await admin.query('select pg_cancel_backend($1)', [pid])
        await commit
        return waited
      },
      WAIT_MS
    )
    await work()
  } finally {
    await configure(`synchronous_standby_names = ''`)
    await probe.end()
  }
}

const committing = suite('a commit')

committing('waits for the disk, whatever the settings of server and role', async () => {
  await admin.query(`alter role current_user set synchronous_commit = off`)
  assert.is((await harness.services.db.raw('show synchronous_commit')).rows[0].synchronous_commit, 'on')
  const queue = await openQueue({ url: postgres.url, role: 'sender', log: openLog({ level: 'silent', name: 'test' }) })
  const { rows: shown } = await queue.boss.getDb().executeSql('show synchronous_commit')
  assert.is(shown[0].synchronous_commit, 'on')
  await queue.close()
  await admin.query(`alter role current_user reset synchronous_commit`)
})

committing('whose wait for the standby is cancelled has an unknown outcome, and its connection ends', async () => {
  // PostgreSQL would then keep its warning to itself.
  await admin.query(`alter role current_user set client_min_messages = error`)
  const db = openDatabase({ url: postgres.url, pool: 1, name: 'marks' })
  await db.raw('create table marks (mark text)')
  const [before] = await rows<{ pid: number }>(db, 'select pg_backend_pid() as pid')
  const ways = {
    'a statement': () => rows(db, 'insert into marks values (:mark)', { mark: 'a statement' }),
    'a transaction': () => db.transaction(async trx => void (await trx('marks').insert({ mark: 'a transaction' }))),
    'a builder': () => db('marks').insert({ mark: 'a builder' })
  }
  await withoutStandby(async () => {
    for (const [way, write] of Object.entries(ways)) {
      const outcome = Promise.resolve(write()).then(
        () => 'done',
        (error: { code?: string }) => error.code
      )
      const [pid] = await until(
        'the wait',
        async () => {
          const waiting = await waitingForStandby('service-marks')
          return waiting.length > 0 && waiting
        },
        WAIT_MS
      )
      await admin.query('select pg_cancel_backend($1)', [pid])
      assert.is(await outcome, 'SYNC_REPLICATION_CANCELED', way)
    }
  })
  const [after] = await rows<{ pid: number }>(db, 'select pg_backend_pid() as pid')
  assert.is.not(after?.pid, before?.pid)
  assert.is((await db('marks')).length, 3, 'committed here all the same')
  await admin.query(`alter role current_user reset client_min_messages`)
  await db.destroy()
})

committing('whose settings cannot keep it is reported', async () => {
  assert.equal(await readDurability(harness.services.db), {
    off: [],
    standbys: 0,
    synchronousStandbys: 0,
    hiddenStandbys: 0
  })
  const doctorSays = async () => {
    const { json } = await operator({ ...harness.env, LOG_LEVEL: 'silent' }, 'doctor', '--json')
    const { checks } = json as {
      checks: { check: string; status: string; found: string }[]
    }
    return checks.find(({ check }) => check === 'durability')
  }
  await configure('full_page_writes = off')
  await until('the setting', async () => (await readDurability(harness.services.db)).off.length === 1, WAIT_MS)
  const off = await doctorSays()
  assert.is(off?.status, 'fail')
  assert.match(off!.found, /^full_page_writes off/)
  await configure('full_page_writes = on')
  await until('the setting', async () => (await readDurability(harness.services.db)).off.length === 0, WAIT_MS)

  // To the server, whoever requests replication is a standby.
  const standby = new pg.Client({
    connectionString: postgres.url,
    application_name: 'standby',
    replication: 'true'
  } as pg.ClientConfig)
  await standby.connect()
  const { standbys, synchronousStandbys } = await readDurability(harness.services.db)
  assert.equal([standbys, synchronousStandbys], [1, 0])
  const asynchronous = await doctorSays()
  assert.is(asynchronous?.status, 'fail')
  assert.match(asynchronous!.found, /^1 standbys, none of them synchronous/)
  await standby.end()
})

// Microseconds are counted from 2000 on.
const EPOCH_MS = 946_684_800_000

committing('names a standby whose clock is ahead, and one that replied long ago by its own', async () => {
  const standby = new pg.Client({
    connectionString: postgres.url,
    application_name: 'skewed',
    replication: 'true'
  } as pg.ClientConfig) as pg.Client & {
    connection: pg.Connection & { sendCopyFromChunk(chunk: Buffer): void }
  }
  // It ends in the middle of its stream.
  standby.on('error', () => {})
  await standby.connect()
  const { rows: places } = await admin.query(
    `select pg_current_wal_flush_lsn()::text as place, pg_current_wal_flush_lsn() - '0/0' as bytes`
  )
  const { place, bytes } = places[0] as { place: string; bytes: string }
  const streaming = once(standby.connection, 'replicationStart')
  standby.query(`START_REPLICATION PHYSICAL ${place}`).catch(() => {})
  await streaming
  /** Replies with that clock until the finding shows it: on a busy machine a finding may be late, and show a reply as older than it is. */
  const found = async (aheadMs: number, status: string, expected: RegExp) => {
    let last: { status: string; found: string } | undefined
    await until('the finding', async () => {
      const reply = Buffer.alloc(34)
      reply.write('r')
      for (const at of [1, 9, 17]) reply.writeBigInt64BE(BigInt(bytes), at)
      reply.writeBigInt64BE(BigInt(Math.round(Date.now() + aheadMs - EPOCH_MS)) * 1000n, 25)
      standby.connection.sendCopyFromChunk(reply)
      last = (await checkStandbys(harness.services.db))[0]
      return last?.status === status && expected.test(last.found)
    }).catch(() => assert.equal([last?.status, last?.found], [status, expected]))
  }
  await found(5000, 'warn', /^skewed: asynchronous, \w+, .* its clock [45]\.\d s ahead$/)
  await found(-40_000, 'warn', /its last reply [4-9]\d s old by its own clock$/)
  await found(0, 'ok', /./)
  standby.connection.stream.destroy()
})

const claiming = suite('a claim')

const orderOf = (traderExternalId: string) => tickOrder(traderExternalId, { duration: 2 })
const phaseOf = async (accountId: string) =>
  (await admin.query('select phase from orders where account_id = $1 order by id desc limit 1', [accountId])).rows[0]
    ?.phase

/** Freezes a worker while it has no transaction open, whose locks would keep others waiting. */
async function stopBetweenTransactions(worker: TestProcess): Promise<void> {
  const open = `select from pg_stat_activity
                 where application_name like 'service-%worker' and state in ('active', 'idle in transaction')`
  await until(
    'a worker without a transaction',
    async () => {
      worker.kill('SIGSTOP')
      if ((await admin.query(open)).rows.length === 0) return true
      worker.kill('SIGCONT')
      return false
    },
    WAIT_MS
  )
}

claiming('whose commit did not reach the standby sends nothing, and is given back', async () => {
  const worker = await startWorker({ ...harness.env, ORDER_TTL_MS: '60000' })
  const { traderExternalId, accountId } = await partner.makeTrader()
  // The account is proven, and its last order out of the way.
  assert.is((await partner.call(placeBinaryOrder, { body: orderOf(traderExternalId) })).body.status, 'CLOSED')
  await stopBetweenTransactions(worker)
  harness.services.config.orderTtlMs = 60_000
  const response = partner.call(placeBinaryOrder, { body: orderOf(traderExternalId) })
  await until('the order', async () => (await phaseOf(accountId)) === 'queued', WAIT_MS)
  await withoutStandby(async () => {
    worker.kill('SIGCONT')
    await until(
      'the claim',
      async () => {
        for (const pid of await waitingForStandby()) await admin.query('select pg_cancel_backend($1)', [pid])
        return (await phaseOf(accountId)) === 'sending'
      },
      WAIT_MS
    )
    // Its sender has had the notice by then: whatever it did after the claim would be at the broker.
    await worker.line(/trying again|failed/)
    assert.is(contractsOf(accountId).length, 1)
  })
  const { body } = await response
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  assert.is(contractsOf(accountId).length, 2)
  worker.kill('SIGTERM')
  await worker.ended
})

claiming(
  'whose acknowledgement is lost is recognised by its living worker, and sent within its time to live',
  async () => {
    const network = await FaultyNetwork.open(postgres.port)
    onClose(() => network.close())
    const url = new URL(postgres.url)
    url.host = `127.0.0.1:${network.port}`
    // While responses are held, every loop of the worker keeps a connection: the claim needs one more.
    const worker = await startWorker({ ...harness.env, DATABASE_URL: url.href, DATABASE_POOL: '40' })
    harness.services.config.orderTtlMs = 60_000
    const { traderExternalId, accountId } = await partner.makeTrader()
    const warm = await partner.call(placeBinaryOrder, { body: orderOf(traderExternalId) })
    assert.is(warm.body.status, 'CLOSED')
    // Where the worker waits for another statement just then, it does not come to claim: let it go on, and try again.
    let placed = 1
    for (let claimed = false; !claimed; placed++) {
      assert.ok(placed < 20, 'no claim could be caught')
      const { release } = network.hold(() => true, 'back')
      const response = partner.call(placeBinaryOrder, { body: orderOf(traderExternalId) })
      claimed = await until(
        'the claim',
        async () => {
          const sending = `select 1 from orders where account_id = $1 and phase = 'sending'`
          return (await admin.query(sending, [accountId])).rows.length > 0
        },
        2000
      ).then(
        () => true,
        () => false
      )
      // The claim is committed, its acknowledgement is held: now every connection breaks.
      if (claimed) network.cut()
      release()
      const { body } = await response
      assert.is(body.status, 'CLOSED', JSON.stringify(body))
    }
    assert.is(contractsOf(accountId).length, placed)
    await worker.line(/gave back orders of a claim whose outcome was lost/)
    worker.kill('SIGTERM')
    await worker.ended
  }
)

claiming('is none on a database that is behind what its worker has seen', async () => {
  const { db } = harness.services
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const { generation = 0, position } = await readClock(db)
  const claim = { accountIds: [trader.accountId], sender: 'worker', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 }
  const claimed = async (seen: SeenHistory) => (await claimOrders(db, { ...claim, seen })).claimed
  assert.is((await claimed({ generation: Number(generation) + 1, position: 0 })).length, 0)
  assert.is((await claimed({ generation: Number(generation), position: position + 2 ** 40 })).length, 0)
  assert.equal(
    (await claimed({ generation: Number(generation), position })).map(order => order.generation),
    [generation]
  )
  await db('orders').where({ account_id: trader.accountId }).del()
})

const restoring = suite('a restore to an earlier point')

/** With owners and modes: the server runs as a user of its own where root runs the tests. */
function copy(from: string, to: string): void {
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' })
  assert.is(status, 0, stderr)
}

/** Puts the cluster's files back as they were in `backup`: on a new timeline, as a recovery to that point does, or on the same one. */
async function restoreFrom(backup: string, timeline: 'new' | 'same' = 'new'): Promise<void> {
  await postgres.kill()
  await rm(dir, { recursive: true, force: true })
  copy(backup, dir)
  if (timeline === 'new') {
    await writeFile(join(dir, 'postgres', 'recovery.signal'), '')
    await appendFile(join(dir, 'postgres', 'postgresql.auto.conf'), "restore_command = '/bin/false'\n")
  }
  await postgres.start()
  await until('the database', async () => (await partner.call(getMe, {})).status === 200, 20_000)
}

/** Copies the cluster's files while it is stopped; returns where. */
async function backUp(name: string): Promise<string> {
  const backup = `${dir}-${name}`
  onClose(() => rm(backup, { recursive: true, force: true }))
  await postgres.stop()
  copy(dir, backup)
  await postgres.start()
  await until('the database', async () => (await partner.call(getMe, {})).status === 200, 20_000)
  return backup
}

restoring('never buys again what the database has forgotten: it is for the operator', async () => {
  const trader = await partner.makeTrader()
  const { accountId } = trader
  const first = await startWorker(harness.env)
  assert.is((await partner.call(placeBinaryOrder, { body: orderOf(trader.traderExternalId) })).body.status, 'CLOSED')
  const backup = await backUp('restored')

  const forgotten = { ...orderOf(trader.traderExternalId), contractType: 'PUT' }
  const bought = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.is(bought.body.status, 'CLOSED', JSON.stringify(bought.body))
  assert.is(contractsOf(accountId).length, 2)
  first.kill('SIGKILL')
  await first.ended
  await restoreFrom(backup)

  const second = await startWorker(harness.env)
  await second.line(/the database is on another timeline/)
  const repeated = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.is(repeated.body.status, 'PENDING', JSON.stringify(repeated.body))
  assert.is(contractsOf(accountId).length, 2)
  // Neither other terms nor other accounts are held up.
  assert.is((await partner.call(placeBinaryOrder, { body: orderOf(trader.traderExternalId) })).body.status, 'CLOSED')
  const { orderId } = repeated.body
  const adopt = ['orders', 'reconcile', orderId, '--adopt', bought.body.brokerOrderId, '--yes', '--json']
  const decided = startProcess('cli/main.ts', { ...harness.env, LOG_LEVEL: 'silent' }, adopt)
  assert.is(await decided.ended, 0, decided.lines.join('\n'))
  const adopted = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.equal([adopted.body.status, adopted.body.brokerOrderId], ['CLOSED', bought.body.brokerOrderId])
  assert.is(contractsOf(accountId).length, 3)
  second.kill('SIGTERM')
  await second.ended
})

restoring('nor what it has forgotten on its way back to an earlier history that it knows', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const worker = await startWorker(harness.env)
  assert.is((await partner.call(placeBinaryOrder, { body: orderOf(traderExternalId) })).body.status, 'CLOSED')
  const backup = await backUp('left')
  // As a standby that is promoted while the primary is frozen.
  await restoreFrom(backup)
  await worker.line(/the database is on another timeline/)
  const forgotten = { ...orderOf(traderExternalId), contractType: 'PUT' }
  const bought = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.is(bought.body.status, 'CLOSED', JSON.stringify(bought.body))
  // As a primary that wakes and takes the lead again.
  await restoreFrom(backup, 'same')
  const repeated = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.is(repeated.body.status, 'PENDING', JSON.stringify(repeated.body))
  assert.is(contractsOf(accountId).length, 2)
  worker.kill('SIGTERM')
  await worker.ended
})

restoring(
  'nor what the image of a disk has forgotten, which a worker knows that has seen the database later',
  async () => {
    const { traderExternalId, accountId } = await partner.makeTrader()
    const worker = await startWorker(harness.env)
    const backup = await backUp('image')
    const forgotten = orderOf(traderExternalId)
    assert.is((await partner.call(placeBinaryOrder, { body: forgotten })).body.status, 'CLOSED')
    await restoreFrom(backup, 'same')
    await worker.line(/was restored: the books of accounts are compared/)
    const repeated = await partner.call(placeBinaryOrder, { body: forgotten })
    assert.is(repeated.body.status, 'PENDING', JSON.stringify(repeated.body))
    assert.is(contractsOf(accountId).length, 1)
    worker.kill('SIGTERM')
    await worker.ended
  }
)

/** As if so much time had passed since a worker saw the database last. */
const age = (interval: string) =>
  rows(harness.services.db, 'update database_lineage set seen_at = seen_at - :interval::interval', { interval })

restoring('nor what an image has forgotten that is older than ten minutes, where every worker has ended', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const first = await startWorker(harness.env)
  const backup = await backUp('older image')
  const forgotten = orderOf(traderExternalId)
  assert.is((await partner.call(placeBinaryOrder, { body: forgotten })).body.status, 'CLOSED')
  first.kill('SIGKILL')
  await first.ended
  await restoreFrom(backup, 'same')
  await age('10 minutes')
  const { db } = harness.services
  // Nor does one that has not seen it before take it for the same.
  await keepLineage(db, NOTHING_SEEN)
  assert.is((await readClock(db)).generation, null)
  const waiting = await partner.makeTrader()
  await insertOrderRows(db, waiting, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const claim = {
    accountIds: [waiting.accountId],
    sender: 'worker',
    claimNo: 1,
    permitMs: 1000,
    reconcileAfterMs: 1000
  }
  assert.is((await claimOrders(db, claim)).claimed.length, 0)
  await db('orders').where({ account_id: waiting.accountId }).del()

  const second = await startWorker({ ...harness.env, LOG_LEVEL: 'info' })
  await second.line(/no worker has seen the database for ten minutes/)
  const repeated = await partner.call(placeBinaryOrder, { body: forgotten })
  assert.is(repeated.body.status, 'PENDING', JSON.stringify(repeated.body))
  assert.is(contractsOf(accountId).length, 1)

  second.kill('SIGTERM')
  await second.ended

  // One that has seen the database before knows that it is the same one, however long it was away.
  const { generation, position } = await readClock(db)
  const seen = { generation: Number(generation), position }
  await age('11 minutes')
  assert.is(await noteLineage(db, seen), undefined)
  await keepLineage(db, seen)
  assert.is((await readClock(db)).generation, generation)

  // Whoever comes a day later has lost nothing.
  await rows(db, `update database_lineage set noted_at = noted_at - interval '1 day'`)
  const late = await partner.makeTrader()
  const { compared_generation: compared } = await db('broker_accounts').where({ account_id: late.accountId }).first()
  assert.is(compared, generation)
})

restoring.after(closeAll)
committing.run()
claiming.run()
restoring.run()
