// The database role of the processes: enough for all they do, and nothing beyond it.
// test in the full run only
import { randomBytes, randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { purchaseBot } from '../../api/marketplace/sales.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { checkDatabase } from '../../cli/doctor/database.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { findWithheld, grantService } from '../../db/postgres/roles.ts'
import { analyseGrown } from '../../db/postgres/statistics.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, openTestDatabase } from '../support/harness.ts'
import { fund, makeBot } from '../support/marketplace-makers.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startWorker } from '../support/processes.ts'

const role = `service_${randomBytes(4).toString('hex')}`
const owned = await openTestDatabase()
const owner = openDatabase({ url: owned, pool: 2, name: 'owner' })
await owner.raw(`create role ${role} login password 'role-of-a-test'`)
await grantService(owner, role)
onClose(async () => {
  await owner.raw(`drop owned by ${role}`)
  await owner.raw(`drop role ${role}`)
  await owner.destroy()
})
const url = new URL(owned)
url.username = role
url.password = 'role-of-a-test'

const simulator = await startSimulator({ tickMs: 20, seed: 11, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({ url: url.href, env: brokerEnv(simulator) })
const { db } = harness.services

const running = suite('the database role of the processes')

running('is not a superuser and owns nothing', async () => {
  const { rows } = await db.raw(
    `select current_user as name, rolsuper, rolcreatedb, rolcreaterole,
            (select count(*) from pg_class where relowner = r.oid) as owned
       from pg_roles r where rolname = current_user`
  )
  assert.equal(rows, [{ name: role, rolsuper: false, rolcreatedb: false, rolcreaterole: false, owned: 0 }])
})

running(
  'is enough for an api and a worker: an order is settled, a bot is sold, an operator is written down',
  async () => {
    const worker = await startWorker(harness.env)
    const partner = await harness.makePartner()
    const { traderExternalId } = await partner.makeTrader()
    const order = { traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', contractType: 'DIGITEVEN', stake: 1 }
    const placed = await partner.call(placeBinaryOrder, { body: { ...order, duration: 1, durationUnit: 't' } })
    assert.equal([placed.status, placed.body.status], [200, 'CLOSED'])
    const creator = await harness.makePartner()
    await fund(harness, partner, '10')
    const bought = await partner.call(purchaseBot, { params: { id: await makeBot(creator, { oneTimePriceUsd: 5 }) } })
    assert.is(bought.status, 200)
    await recordAudit(db, { actor: 'cli:test', action: 'test.write' })
    worker.kill('SIGTERM')
    assert.is(await worker.ended, 0)
  }
)

running('keeps the planner informed of tables that grow', async () => {
  const trader = await (await harness.makePartner()).makeTrader()
  await insertOrderRows(owner, trader, { count: 2000 })
  assert.ok((await analyseGrown(db)).includes('orders'))
  assert.not.ok((await analyseGrown(db)).includes('orders'))
})

running('can neither change the schema nor what only grows', async () => {
  for (const statement of [
    'create table mine (id int)',
    'drop table audit_log',
    'alter table audit_log disable trigger user',
    'alter table ledger_entries disable trigger all',
    'truncate audit_log',
    `update audit_log set actor = 'nobody'`,
    'delete from audit_log',
    'delete from ledger_entries',
    `update ledger_transfers set kind = 'x'`,
    'delete from migrations',
    `create function audit_refuse() returns trigger language sql as 'select 1'`
  ]) {
    const code = await db.raw(statement).then(
      () => 'allowed',
      (error: { code: string }) => error.code
    )
    assert.is(code, '42501', statement)
  }
})

running('cannot migrate, and is reported as what it is', async () => {
  const name = `${role}_new`
  await owner.raw(`create database ${name}`)
  onClose(() => owner.raw(`drop database ${name} with (force)`))
  const there = Object.assign(new URL(url), { pathname: `/${name}` })
  const refused = await operator({ ...harness.env, DATABASE_URL: there.href }, 'db', 'migrate')
  assert.is(refused.exitCode, 1)
  assert.match(
    refused.stderr,
    /may not make the tables \(permission denied for schema public\): run this as the database's owner/
  )
})

running('cannot grant what the owner can, and is not reported as having done so', async () => {
  const later = `${role}_later`
  await owner.raw(`create role ${later}`)
  onClose(() => owner.raw(`drop owned by ${later}; drop role ${later}`))
  const refused = await operator(harness.env, 'db', 'grant', later)
  assert.is(refused.exitCode, 1)
  assert.match(refused.stderr, /Nothing was granted: the tables belong to (\S+)\. Run this as \1/)
  const granted = await operator({ ...harness.env, DATABASE_URL: owned }, 'db', 'grant', later)
  assert.is(granted.exitCode, 0, granted.stderr)
})

running('is granted what is in the schema that the search_path of the owner leads to', async () => {
  const there = new URL(await openTestDatabase())
  const apart = openDatabase({ url: there.href, pool: 1, name: 'owner' })
  onClose(() => apart.raw(`drop owned by ${role}`).finally(() => apart.destroy()))
  await apart.raw('alter schema public rename to apart')
  await apart.raw(`alter database ?? set search_path = apart`, [there.pathname.slice(1)])
  const granted = await operator({ ...harness.env, DATABASE_URL: there.href }, 'db', 'grant', role)
  assert.is(granted.exitCode, 0, granted.stderr)
  const used = openDatabase({
    url: Object.assign(there, { username: role, password: url.password }).href,
    pool: 1,
    name: 'test'
  })
  onClose(() => used.destroy())
  assert.equal(await findWithheld(used), [])
})

running('may run what later migrations make, also where that is for nobody by default', async () => {
  await owner.raw(
    `alter default privileges revoke execute on functions from public; create function made_later() returns int language sql as 'select 1'`
  )
  assert.equal((await db.raw('select made_later() as one')).rows, [{ one: 1 }])
})

running('is reported by the doctor where it may not use all that is there', async () => {
  const found = async () => {
    const findings = await checkDatabase(harness.services.config)
    return findings.filter(({ check }) => check === 'role').map(({ status, found }) => ({ status, found }))
  }
  assert.equal(await found(), [{ status: 'ok', found: 'may use every table and function' }])
  // As after a migration that a superuser ran.
  await owner.raw(`create table made_later (id int); revoke all on made_later from ${role};
    revoke execute on function made_later() from ${role}`)
  assert.equal(await found(), [{ status: 'fail', found: 'may not use made_later, made_later()' }])
})

running.after(closeAll)
running.run()
