// What a statement can count on: it is run again when PostgreSQL broke it off over a deadlock, and does not wait for ever
// for a server that fell silent.
import { createHook } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isUnavailable } from '../../api/request/respond.ts'
import { checkDatabase } from '../../cli/doctor/database.ts'
import { openBus } from '../../db/platform/bus.ts'
import { openLog } from '../../db/platform/log.ts'
import { readiness } from '../../db/platform/metrics-server.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { holdTestBroker } from '../../db/platform/test-broker.ts'
import { type Db, listing, openDatabase, rows, sessionAt } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { ConfigError, readConfig } from '../../schemas/config/config.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { closeAll, onClose, openTestDatabase, TOKEN_KEYS, until } from '../support/harness.ts'

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

deadlock('is left to the caller within a transaction, and returns a status after which a client retries', async () => {
  const error = await cross(() => db.transaction(trx => rows(trx, crossing))).catch((cause: unknown) => cause)
  assert.is((error as { code?: string }).code, '40P01')
  assert.ok(isUnavailable(error))
})

const ended = suite('a transaction that the server ends')

for (const [limit, code] of [
  ['idle_in_transaction_session_timeout', '25P03'],
  ['transaction_timeout', '25P04']
] as const)
  ended(`for its ${limit} returns a status after which a client retries`, async () => {
    const { rows: known } = await db.raw('select 1 from pg_settings where name = ?', [limit])
    // PostgreSQL has it from 17 on.
    if (known.length === 0) return
    const client = new pg.Client({ connectionString: url })
    const error = await new Promise<Error>((resolve, reject) => {
      client.on('error', resolve)
      client
        .connect()
        .then(() => client.query(`set ${limit} = 50`))
        .then(() => client.query('begin'))
        .catch(reject)
    })
    assert.is((error as { code?: string }).code, code)
    assert.ok(isUnavailable(error))
  })

ended('is not one of ours that takes longer than the role or the database would let it', async () => {
  const { rows: known } = await db.raw(`select 1 from pg_settings where name = 'transaction_timeout'`)
  if (known.length === 0) return
  const { rows: here } = await db.raw('select current_database() as name')
  await db.raw('alter database ?? set transaction_timeout = 50', [here[0].name])
  const limited = openDatabase({ url, pool: 1, name: 'test' })
  onClose(() => limited.destroy())
  try {
    await limited.transaction(trx => rows(trx, 'select pg_sleep(0.2)'))
  } finally {
    await db.raw('alter database ?? reset transaction_timeout', [here[0].name])
  }
})

const columns = suite('a statement and its result')

columns('is read by the types of its columns, each time alike', async () => {
  const text = `select 1 as id, null::text as gone, 12.50::numeric as money, 5::int8 as many, '{a,b}'::text[] as list,
    timestamptz '2026-01-02T03:04:05Z' as at, 'x'::bytea as raw from generate_series(1, :times::int)`
  const at = new Date('2026-01-02T03:04:05Z')
  const row = { id: 1, gone: null, money: '12.50', many: 5, list: ['a', 'b'], at, raw: Buffer.from('x') }
  const single = openDatabase({ url, pool: 1, name: 'test' })
  onClose(() => single.destroy())
  for (const times of [2, 0, 3]) assert.equal(await rows(single, text, { times }), Array(times).fill(row))
  // One that never responds, too.
  for (let round = 0; round < 2; round++)
    assert.equal(await rows(single, 'update two set written = 0 where id = 9'), [])
})

columns('leaves the connection to the next one when a value or the statement is refused', async () => {
  const single = openDatabase({ url, pool: 1, name: 'test' })
  onClose(() => single.destroy())
  const circular: { self?: object } = {}
  circular.self = circular
  for (const [text, value, said] of [
    ['select :value::jsonb as got', circular, /circular/i],
    ['selec :value', circular, /circular/i],
    ['select :value::int as got', 'no number', /invalid input syntax/],
    ['selec :value as got', 1, /syntax error/]
  ] as const) {
    const error = await rows(single, text, { value }).catch((cause: unknown) => cause)
    assert.match(String(error), said)
    assert.equal(await rows(single, 'select :value::int as got', { value: 7 }), [{ got: 7 }])
  }
})

columns('may be changed by a migration while connections have it prepared', async () => {
  await db.raw('create table grown (id int)')
  await rows(db, 'insert into grown values (1)')
  const read = (from: Db = db) => rows(from, 'select * from grown')
  const readAll = () => Promise.all(Array.from({ length: 6 }, () => read()))
  await readAll()
  await db.raw('alter table grown add column name text')
  for (const found of await readAll()) assert.equal(found, [{ id: 1, name: null }])

  // Within a transaction it is the transaction that has to be tried again.
  const single = openDatabase({ url, pool: 1, name: 'test' })
  onClose(() => single.destroy())
  await read(single)
  await db.raw('alter table grown add column more int')
  const tries = async () => single.transaction(trx => read(trx))
  const error = await tries().catch((cause: unknown) => cause)
  assert.match(String(error), /cached plan/)
  assert.equal(await tries(), [{ id: 1, name: null, more: null }])
})

const silence = suite('a server that fell silent')

silence('is given up, and the next statement takes another connection', async () => {
  const network = await FaultyNetwork.open(Number(new URL(url).port))
  onClose(() => network.close())
  const through = new URL(url)
  through.port = String(network.port)
  const patient = openDatabase({
    url: through.href,
    pool: 1,
    name: 'test',
    limits: { statementMs: 30_000, silenceMs: 500 }
  })
  onClose(() => patient.destroy())
  // On a busy machine a server may be as silent while it works.
  const responds = () => rows(patient, 'select 3 as n').catch(() => undefined)
  await until('a response', responds)
  network.hold(() => true, 'both')
  const error = await rows(patient, 'select 2').catch((cause: unknown) => cause)
  assert.match(String((error as Error).message), /has not responded/)
  assert.ok(isUnavailable(error))
  assert.equal(await until('a response on another connection', responds), [{ n: 3 }])
})

const patience = suite('a statement that takes its time')
const slow = 'select 1 as n from pg_sleep(0.4)'

patience('is broken off past the time-out, or once the server has been silent for so long', async () => {
  for (const [limits, code] of [
    [{ statementMs: 200, silenceMs: 30_000 }, '57014'],
    [{ statementMs: 30_000, silenceMs: 200 }, 'ETIMEDOUT']
  ] as const) {
    const hasty = openDatabase({ url, pool: 1, name: 'test', limits })
    onClose(() => hasty.destroy())
    const error = await rows(hasty, slow).catch((cause: unknown) => cause)
    assert.is((error as { code?: string }).code, code)
  }
})

/** A database whose server has these settings for everybody. */
async function openDatabaseWith(...settings: string[]): Promise<string> {
  const other = new URL(url)
  other.pathname = `${other.pathname}_${randomBytes(3).toString('hex')}`
  const name = other.pathname.slice(1)
  await db.raw(`create database ${name}`)
  onClose(() => db.raw(`drop database if exists ${name} with (force)`))
  for (const setting of settings) await db.raw(`alter database ${name} set ${setting}`)
  return other.href
}

/** Its server breaks off statements after so long. */
const openHastyDatabase = () => openDatabaseWith(`statement_timeout = '200ms'`)

patience('is waited for without limits, whatever the server has for everybody; a lock is not', async () => {
  const patient = openDatabase({ url: await openHastyDatabase(), pool: 1, name: 'test', limits: null })
  onClose(() => patient.destroy())
  assert.equal(await rows(patient, slow), [{ n: 1 }])
  assert.equal(await rows(patient, 'show lock_timeout'), [{ lock_timeout: '10s' }])
})

patience('is never compiled, which nothing can interrupt, whatever the server has for everybody', async () => {
  const plain = openDatabase({ url: await openDatabaseWith('jit = on'), pool: 1, name: 'test' })
  onClose(() => plain.destroy())
  assert.equal(await rows(plain, 'show jit'), [{ jit: 'off' }])
})

patience('is waited for in a migration, of ours and of the queue', async () => {
  const hasty = await openHastyDatabase()
  const eye = openDatabase({ url: hasty, pool: 1, name: 'test' })
  onClose(() => eye.destroy())
  await eye.raw(`
    create table made (name text, statement_timeout text, lock_timeout text);
    create function note() returns event_trigger language plpgsql as $$ begin
      insert into public.made select object_identity, current_setting('statement_timeout'), current_setting('lock_timeout')
        from pg_event_trigger_ddl_commands() where object_type = 'table';
    end $$;
    create event trigger note on ddl_command_end when tag in ('CREATE TABLE') execute function note()`)
  assert.ok((await migrate(hasty)).length > 0)
  const made = await eye('made').select()
  const limitsOf = (name: string) => made.find(table => table.name === name)
  assert.equal(limitsOf('public.orders'), { name: 'public.orders', statement_timeout: '0', lock_timeout: '10s' })
  assert.is(limitsOf('pgboss.queue')?.statement_timeout, '0')
})

patience('is waited for where the server ends transactions earlier, by a migration and by the queue', async () => {
  const { rows: known } = await db.raw(`select 1 from pg_settings where name = 'transaction_timeout'`)
  // PostgreSQL has it from 17 on.
  if (known.length === 0) return
  const there = await openDatabaseWith(`transaction_timeout = '50ms'`)
  assert.ok((await migrate(there)).length > 0)
  const queue = await openQueue({ url: there, role: 'worker', log: openLog({ level: 'silent', name: 'test' }) })
  try {
    const { rows: shown } = await queue.boss.getDb().executeSql('show transaction_timeout')
    assert.equal({ ...shown[0] }, { transaction_timeout: '0' })
  } finally {
    await queue.close()
  }
})

const meaning = suite('a statement in a database with defaults of its own')

/** Defaults that change what statements mean, as another service on the same server may want them. */
const openStrangeDatabase = () =>
  openDatabaseWith(
    `default_transaction_isolation = 'serializable'`,
    `timezone = 'Australia/Lord_Howe'`,
    `datestyle = 'SQL, DMY'`,
    `bytea_output = 'escape'`,
    'extra_float_digits = -3',
    `intervalstyle = 'sql_standard'`,
    'array_nulls = off',
    'transform_null_equals = on'
  )

meaning('reads instants, bytes and floats as they are, and counts days in UTC', async () => {
  const strange = openDatabase({ url: await openStrangeDatabase(), pool: 1, name: 'test' })
  onClose(() => strange.destroy())
  // Clocks on Lord Howe Island go back by half an hour on this day.
  const found = await rows(
    strange,
    `select timestamptz '2026-04-04 12:00+00' + interval '1 day' as at, '\\xff00'::bytea::text as bytes, (0.1::float8 + 0.2::float8)::text as sum,
            (interval '1 day' + interval '2 hours')::text as length`
  )
  const at = new Date('2026-04-05T12:00:00Z')
  assert.equal(found, [{ at, bytes: '\\xff00', sum: '0.30000000000000004', length: '1 day 02:00:00' }])
})

meaning('has nothing for what is nothing, in a list of texts as well', async () => {
  const strange = openDatabase({ url: await openStrangeDatabase(), pool: 1, name: 'test' })
  onClose(() => strange.destroy())
  const names = ['a', null]
  assert.equal(await rows(strange, `select name from ${listing('names')} n (name)`, { names }), [
    { name: 'a' },
    { name: null }
  ])
  assert.equal(await rows(strange, 'select 1 as one where null::text = null'), [])
})

meaning('waits for a row that another transaction holds, and then goes on from what that one has left', async () => {
  const strange = openDatabase({ url: await openStrangeDatabase(), pool: 3, name: 'test' })
  onClose(() => strange.destroy())
  await strange.raw('create table wallet (balance int); insert into wallet values (100)')
  const spend = (trx: Db) => rows(trx, 'update wallet set balance = balance - 60 where balance >= 60 returning balance')
  const first = await strange.transaction()
  assert.equal(await spend(first), [{ balance: 40 }])
  const second = strange.transaction(spend)
  second.catch(() => {})
  await until('the second to wait for the first', async () => {
    const waiting = await rows(
      strange,
      `select from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'`
    )
    return waiting.length > 0
  })
  await first.commit()
  assert.equal(await second, [])
})

meaning('means the same on the connections of the queue', async () => {
  const strange = await openStrangeDatabase()
  await migrate(strange)
  const queue = await openQueue({ url: strange, role: 'sender', log: openLog({ level: 'silent', name: 'test' }) })
  try {
    const { rows: shown } = await queue.boss
      .getDb()
      .executeSql(`select current_setting('transaction_isolation') as isolation, current_setting('DateStyle') as style`)
    assert.equal({ ...shown[0] }, { isolation: 'read committed', style: 'ISO, MDY' })
  } finally {
    await queue.close()
  }
})

meaning('means the same on the connection of the books of test keys', async () => {
  const strange = await openStrangeDatabase()
  await migrate(strange)
  const books = await holdTestBroker(strange)
  try {
    books?.enter({ kind: 'limits', account: null, contract: 7, cents: 0, entry: {} })
    books?.enter({ kind: 'account', account: 'VRTC1', contract: null, cents: 1, entry: {} })
    await new Promise<void>((resolve, reject) => {
      books?.after(resolve)
      void books?.lost.then(reject)
    })
    const pool = openDatabase({ url: strange, pool: 1, name: 'test' })
    onClose(() => pool.destroy())
    assert.equal(await rows(pool, 'select account, contract from test_broker_entries order by seq'), [
      { account: null, contract: 7 },
      { account: 'VRTC1', contract: null }
    ])
  } finally {
    await books?.close()
  }
})

const frozen = suite('a database that takes no writes for a while')

frozen('takes them again from pools that were refused, once its default is reset', async () => {
  const name = 'default_transaction_read_only'
  const there = await openDatabaseWith(`${name} = on`)
  const pools = [1, 2].map(() => openDatabase({ url: there, pool: 1, name: 'test' }))
  onClose(() => Promise.all(pools.map(pool => pool.destroy())))
  const make = (pool: Db, table: string) => rows(pool, `create table ${table} (id int)`)
  const writes: ((table: string) => Promise<unknown>)[] = [
    table => make(pools[0] as Db, table),
    table => (pools[1] as Db).transaction(trx => make(trx, table))
  ]
  for (const [index, write] of writes.entries()) {
    const error = await write(`early_${index}`).catch((cause: unknown) => cause)
    assert.is((error as { code?: string }).code, '25006')
    assert.ok(isUnavailable(error))
  }
  await db.raw(`alter database ?? reset ${name}`, [new URL(there).pathname.slice(1)])
  for (const [index, write] of writes.entries()) await write(`late_${index}`)
})

frozen('or has no tables or no triggers for us is one with which a process is not ready', async () => {
  for (const [setting, reason] of [
    ['default_transaction_read_only = on', 'the database takes no writes'],
    ['search_path = apart', 'the database shows none of our tables'],
    ['session_replication_role = replica', 'the database runs no triggers for this role'],
    ['timezone = UTC', '']
  ] as const) {
    const there = await openDatabaseWith()
    const made = openDatabase({ url: there, pool: 1, name: 'test' })
    await rows(made, 'create table orders ()')
    await made.destroy()
    await rows(db, `alter database ${new URL(there).pathname.slice(1)} set ${setting}`)
    const pool = openDatabase({ url: there, pool: 1, name: 'test' })
    const wrong = await readiness(pool, { healthy: () => true })()
    await pool.destroy()
    assert.is(wrong.length, reason ? 1 : 0, setting)
    assert.ok((wrong[0] ?? '').startsWith(reason), wrong[0])
  }
})

const address = suite('an address with settings of its own')

const limits = `current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
  current_setting('idle_session_timeout') as idle, current_setting('synchronous_commit') as commits,
  current_setting('search_path') as path, current_setting('application_name') as name`

address('keeps its search_path, and no other setting', async () => {
  const other = new URL(url)
  other.searchParams.set('options', '-c search_path=public -c synchronous_commit=off -c lock_timeout=0')
  other.searchParams.set('statement_timeout', '7')
  other.searchParams.set('application_name', 'mine')
  const pool = openDatabase({ url: other.href, pool: 1, name: 'test' })
  onClose(() => pool.destroy())
  const expected = { statement: '30s', lock: '10s', idle: '0', commits: 'on', path: 'public', name: 'service-test' }
  assert.equal(await rows(pool, `select ${limits}`), [expected])
})

address('of a socket or with a password of any letters leads to the same place', () => {
  for (const [given, left] of [
    ['postgres:///db?host=/run/postgresql', 'postgres:///db?host=/run/postgresql'],
    [
      'postgres://a:p%3F%40%2F@h:1/db?sslmode=require&options=-c%20a%3Db',
      'postgres://a:p%3F%40%2F@h:1/db?sslmode=require'
    ],
    ['postgres://a@%2Frun%2Fpg/db?lock_timeout=1', 'postgres://a@%2Frun%2Fpg/db']
  ] as const)
    assert.is(sessionAt(given, '').connectionString, left)
})

address('whose role ends idle sessions and short statements loses no session of ours', async () => {
  const hasty = await openDatabaseWith(
    `idle_session_timeout = '300ms'`,
    `statement_timeout = '200ms'`,
    `client_min_messages = 'error'`
  )
  await migrate(hasty)
  const log = openLog({ level: 'silent', name: 'test' })
  const queue = await openQueue({ url: hasty, role: 'sender', log })
  const bus = await openBus({ url: hasty, log })
  const books = await holdTestBroker(hasty)
  const pool = openDatabase({ url: hasty, pool: 1, name: 'test' })
  try {
    const { rows: shown } = await queue.boss.getDb().executeSql(`select ${limits}`)
    assert.equal([shown[0].statement, shown[0].idle], ['2min', '0'])
    await bus.listen('test', () => {})
    const sessions = async () =>
      (
        await db.raw(
          `select application_name as name, pid from pg_stat_activity where datname = ? and application_name like 'service-%' order by 1, 2`,
          [new URL(hasty).pathname.slice(1)]
        )
      ).rows as { name: string; pid: number }[]
    const before = await sessions()
    assert.ok(['service-bus', 'service-test-broker'].every(name => before.some(session => session.name === name)))
    // One that is idle for no longer than ours ends.
    const witness = new pg.Client({ connectionString: hasty })
    const ended = new Promise(resolve => witness.on('error', resolve))
    await witness.connect()
    assert.match(String(await ended), /idle-session timeout/)
    assert.equal(await sessions(), before)
    assert.equal(await rows(pool, 'show client_min_messages'), [{ client_min_messages: 'warning' }])
  } finally {
    await Promise.all([queue.close(), bus.close(), books?.close(), pool.destroy()])
  }
})

const encoding = suite('a database of another encoding')

encoding('gets no tables, and one that has them is reported', async () => {
  for (const name of ['LATIN1', 'SQL_ASCII']) {
    const other = new URL(url)
    other.pathname = `${other.pathname}_${randomBytes(3).toString('hex')}`
    const database = other.pathname.slice(1)
    await db.raw(
      `create database ${database} encoding '${name}' locale_provider libc lc_collate 'C' lc_ctype 'C' template template0`
    )
    onClose(() => db.raw(`drop database if exists ${database} with (force)`))
    const refused = await migrate(other.href).catch((cause: unknown) => cause)
    assert.instance(refused, ConfigError)
    assert.match(String(refused), `encoding ${name}; this needs UTF8`)
    const findings = await checkDatabase(readConfig({ DATABASE_URL: other.href, TOKEN_KEYS }))
    assert.equal(
      findings.filter(({ check }) => check === 'encoding').map(({ status }) => status),
      ['fail']
    )
    const pool = openDatabase({ url: other.href, pool: 1, name: 'test' })
    assert.equal(await rows(pool, `select tablename from pg_tables where schemaname = 'public'`), [])
    await pool.destroy()
  }
})

const path = suite('a search_path that leaves our tables out')

path('is reported, and gets no second set of tables', async () => {
  const there = await openDatabaseWith()
  await migrate(there)
  await rows(db, `alter database ${new URL(there).pathname.slice(1)} set search_path = apart`)
  const pool = openDatabase({ url: there, pool: 1, name: 'test' })
  onClose(() => pool.destroy())
  await rows(pool, 'create schema apart')
  const refused = await migrate(there).catch((cause: unknown) => cause)
  assert.instance(refused, ConfigError)
  assert.match(String(refused), /are in the schema public, which the search_path of this role leaves out/)
  assert.equal(await rows(pool, `select tablename from pg_tables where schemaname = 'apart'`), [])
  const findings = await checkDatabase(readConfig({ DATABASE_URL: there, TOKEN_KEYS }))
  assert.match(findings.find(({ check }) => check === 'migrations')?.found ?? '', /in the schema public/)
})

const attempts = suite('a queue that could not be opened')

attempts('leaves no connection and no timer behind', async () => {
  const log = openLog({ level: 'silent', name: 'test' })
  await db.raw('alter table pgboss.queue rename to hidden')
  // Those begun meanwhile alone: others of this process, of pools that earlier tests closed, may end at any moment.
  const timers = new Set<number>()
  let opening = true
  const hook = createHook({
    init: (id, type) => opening && type === 'Timeout' && timers.add(id),
    destroy: id => timers.delete(id)
  }).enable()
  onClose(async () => hook.disable())
  const error = await openQueue({ url, role: 'worker', log }).catch((cause: unknown) => cause)
  opening = false
  await db.raw('alter table pgboss.hidden rename to queue')
  assert.match((error as Error).message, 'pgboss.queue')
  await until('its timers to be ended', () => timers.size === 0)
  await until('its connections to be closed', async () => {
    const found = await rows(
      db,
      `select 1 from pg_stat_activity where application_name like 'service-queue-%' and datname = current_database()`
    )
    return found.length === 0
  })
})

patience.after(closeAll)
for (const tests of [deadlock, ended, columns, silence, meaning, frozen, address, encoding, path, attempts, patience])
  tests.run()
