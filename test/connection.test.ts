// What a statement can count on: it is run again when PostgreSQL broke it off over a deadlock, and does not wait for ever
// for a server that fell silent.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isUnavailable } from '../api/respond.ts'
import { openDatabase, rows } from '../db/connection.ts'
import { Wire } from './chaos/wire.ts'
import { closeAll, onClose, openTestDatabase, until } from './harness.ts'

const url = await openTestDatabase()
const db = openDatabase({ url, pool: 6, name: 'test' })
onClose(() => db.destroy())
await db.raw('create table two (id int primary key, written int not null default 0); insert into two values (1), (2)')

const waitsFor = (kind: string) => async () => {
  const { rows: found } = await db.raw(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and wait_event = ?`,
    [kind]
  )
  return found.length > 0
}

const deadlock = suite('a deadlock')

/** Locks row 1, waits for the gate, then locks row 2 and writes both. */
const crossing = `
  with first as materialized (select id from two where id = 1 for update),
  gate as materialized (select pg_advisory_xact_lock(77) from first),
  second as materialized (select t.id from gate cross join lateral (select id from two where id = 2 for update) t)
  update two set written = written + 1 where id in (select id from first union select id from second) returning id`

/** Has the statement that `run` starts meet a transaction that locks the same rows the other way round. */
async function cross(run: () => Promise<unknown[]>): Promise<unknown[]> {
  const [gate, other] = [await db.transaction(), await db.transaction()]
  try {
    await gate.raw('select pg_advisory_xact_lock(77)')
    await other.raw(`set local deadlock_timeout = '60s'`)
    await other.raw('select id from two where id = 2 for update')
    const running = run()
    running.catch(() => {})
    await until('the statement to stand at the gate', waitsFor('advisory'))
    const second = other.raw('select id from two where id = 1 for update').then(() => other.commit())
    await until('the other one to wait for the statement', waitsFor('transactionid'))
    await gate.rollback()
    await second
    return await running
  } finally {
    for (const trx of [gate, other]) if (!trx.isCompleted()) await trx.rollback()
  }
}

deadlock('has a statement of its own run again', async () => {
  assert.is((await cross(() => rows(db, crossing))).length, 2)
  assert.equal(await db('two').orderBy('id').pluck('written'), [1, 1])
})

deadlock('is the matter of the caller within a transaction, and tells a client to try again', async () => {
  const error = await cross(() => db.transaction(trx => rows(trx, crossing))).catch((cause: unknown) => cause)
  assert.is((error as { code?: string }).code, '40P01')
  assert.ok(isUnavailable(error))
})

const silence = suite('a server that fell silent')

silence('is given up, and the next statement takes another connection', async () => {
  const wire = await Wire.open(Number(new URL(url).port))
  onClose(() => wire.close())
  const through = new URL(url)
  through.port = String(wire.port)
  const patient = openDatabase({ url: through.href, pool: 1, name: 'test', silenceMs: 500 })
  onClose(() => patient.destroy())
  await rows(patient, 'select 1')
  wire.hold(() => true, 'both')
  const error = await rows(patient, 'select 2').catch((cause: unknown) => cause)
  assert.match(String((error as Error).message), /said nothing/)
  assert.ok(isUnavailable(error))
  assert.equal(await rows(patient, 'select 3 as n'), [{ n: 3 }])
})

silence.after(closeAll)
for (const tests of [deadlock, silence]) tests.run()
