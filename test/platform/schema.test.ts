// What must hold for every table of the database.
import { readFile } from 'node:fs/promises'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { up as renameTables } from '../../db/migrations/0056_names.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { type Db, openDatabase, rows } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { readSchema, SCHEMA_FILE } from '../../db/postgres/schema-text.ts'
import { readLeaderboard } from '../../db/traders/leaderboard.ts'
import { upsertTrader } from '../../db/traders/traders.ts'
import { collectTrade } from '../../db/traders/trades.ts'
import { closeAll, onClose, openHarness, openTestDatabase } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'

const harness = await openHarness()
const { services } = harness
const tables = suite('the tables')

tables('give each reference the collation of what it refers to, so that joins find their index', async () => {
  const different = await rows<{ column: string }>(
    services.db,
    `select c.conrelid::regclass || '.' || a.attname as column
       from pg_constraint c
      cross join lateral unnest(c.conkey, c.confkey) as k (own, other)
       join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
       join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.other
      where c.contype = 'f' and c.connamespace = current_schema()::regnamespace and a.attcollation <> b.attcollation`
  )
  assert.equal(
    different.map(({ column }) => column),
    []
  )
})

/** Runs `work` in a database of a locale with other small and capital letters than English; nowhere without ICU. */
async function inTurkish(work: (turkish: Db, partnerId: string) => Promise<void>): Promise<void> {
  const { db } = services
  const [icu] = await rows(db, `select 1 from pg_collation where collname = 'tr-x-icu'`)
  if (!icu) return console.log('SKIPPED: this PostgreSQL was built without ICU')
  const name = `turkish_${process.pid}`
  await db.raw(`create database ${name} locale_provider icu icu_locale 'tr' template template0`)
  const url = Object.assign(new URL(harness.url), { pathname: `/${name}` }).href
  const turkish = openDatabase({ url, pool: 1, name: 'test' })
  try {
    await migrate(url)
    const facts = { name: 'Test', plan: 'SCALE', brokerAppId: '1', brokerDialect: 'v3' } as const
    await work(turkish, (await insertPartner(turkish, facts)).partnerId)
  } finally {
    await turkish.destroy()
    await db.raw(`drop database ${name} with (force)`)
  }
}

tables('name events and currencies alike in a database of any locale', () =>
  inTurkish(async (turkish, partnerId) => {
    // Rows with what the triggers read of payouts and deployments.
    await turkish.raw('create table told (partner_id text, status text, id text, party_id text, amount numeric)')
    for (const trigger of ['payout_events', 'deployment_events'])
      await turkish.raw(`create trigger ${trigger} after insert on told for each row execute function ${trigger}()`)
    await turkish('told').insert({ partner_id: partnerId, status: 'PAID', id: 'one', party_id: partnerId, amount: 1 })
    assert.equal(await turkish('event_outbox').where({ subject: 'one' }).orderBy('type').pluck('type'), [
      'deployment.paid',
      'payout.paid'
    ])
    const externalId = 'one'
    const { traderId } = await upsertTrader(turkish, { partnerId, externalId, email: null, name: null })
    await turkish('community_profiles').insert({ partner_id: partnerId, party_id: traderId, is_public: true })
    await collectTrade(turkish, {
      partnerId,
      brokerContractId: '1',
      clientBrokerLoginid: 'CR1',
      contractType: 'CALL',
      stakeAmount: '1',
      profitLoss: '1',
      payoutAmount: null,
      currency: 'inr',
      traderExternalId: externalId,
      symbol: null,
      metadata: null,
      tradeTimestamp: new Date().toISOString(),
      tradedAt: new Date()
    })
    const board = await readLeaderboard(turkish, { partnerId, accountMode: null, currency: 'INR' })
    assert.equal(
      board.map(({ currency }) => currency),
      ['INR']
    )
  })
)

tables('are those of db/schema.sql; `make schema` writes it', async () => {
  assert.fixture(await readSchema(services.db), await readFile(SCHEMA_FILE, 'utf8'))
})

tables('are not renamed while a process of the version before runs', async () => {
  const { db } = services
  const [running] = await rows<{ name: string }>(
    db,
    `insert into processes (name, kind, version) values ('host:1:old', 'worker', '1.0.0') returning name`
  )
  try {
    await renameTables(db)
    assert.unreachable('it went on')
  } catch (error) {
    assert.is((error as { code: string }).code, 'CONFLICT')
    assert.match((error as Error).message, /stop every api and worker.*worker host:1:old/)
  }
  // Gone long enough: it goes on, to tables that are renamed already.
  await rows(db, `update processes set seen_at = clock_timestamp() - interval '30 seconds' where name = :name`, running)
  try {
    await renameTables(db)
    assert.unreachable('there is nothing to rename')
  } catch (error) {
    assert.match((error as Error).message, /relation "asks" does not exist/)
  }
})

const upgrade = suite('an upgrade that locks large tables')

const LOCKING = ['0149_folded_words', '0150_counted_by_partner']

/** A database that lacks them. */
async function openBefore() {
  const url = await openTestDatabase()
  const db = openDatabase({ url, pool: 4, name: 'test' })
  onClose(() => db.destroy())
  await db.raw(`drop index broker_accounts_partner, follows_partner`)
  await db('migrations').whereIn('name', LOCKING).delete()
  return { url, db }
}

upgrade('waits for what others write to accounts, who do not wait for it', async () => {
  const { url, db } = await openBefore()
  const write = (trx: Db) => trx.raw('lock table broker_accounts in row exclusive mode nowait')
  const writing = await db.transaction()
  await write(writing)
  const migrating = migrate(url)
  await untilLockWaits(db, { text: 'broker_accounts', work: migrating })
  await db.transaction(write).finally(() => writing.commit())
  assert.equal(await migrating, LOCKING)
  const [built] = await rows(
    db,
    `select count(*) filter (where indisvalid) as valid from pg_index where indexrelid::regclass::text ~ '^(broker_accounts|follows)_partner$'`
  )
  assert.equal(built, { valid: 2 })
})

upgrade('holds nobody up while a dump runs, and is applied after it', async () => {
  const url = await openTestDatabase()
  const db = openDatabase({ url, pool: 4, name: 'test' })
  onClose(() => db.destroy())
  await db.raw('alter table broker_accounts drop column was_proven')
  await db('migrations').where({ name: '0151_was_proven' }).delete()
  const dumping = await db.transaction()
  await dumping.raw('lock table broker_accounts in access share mode')
  const migrating = migrate(url)
  await untilLockWaits(db, { text: 'was_proven', work: migrating })
  // A reader queues behind the migration. Once it has its turn, the migration has given way although the dump goes on.
  await db
    .transaction(async trx => {
      await trx.raw(`set local lock_timeout = '7s'`)
      await trx('broker_accounts').first('id')
    })
    .finally(() => dumping.commit())
  assert.equal(await migrating, ['0151_was_proven'])
})

upgrade('is started twice at once: the second waits, and keeps no index of the first from being built', async () => {
  const { url } = await openBefore()
  const both = await Promise.all([migrate(url), migrate(url)])
  assert.equal(both.flat(), LOCKING)
})

upgrade('builds an index again of which a run that was killed left a half', async () => {
  const { url, db } = await openBefore()
  await db.raw('create index broker_accounts_partner on broker_accounts (partner_id)')
  await db.raw(`update pg_index set indisvalid = false where indexrelid = 'broker_accounts_partner'::regclass`)
  await migrate(url)
  assert.equal(
    await rows(db, `select indisvalid from pg_index where indexrelid = 'broker_accounts_partner'::regclass`),
    [{ indisvalid: true }]
  )
})

upgrade('changes the words of bots by hundreds, and keeps no others locked', async () => {
  const { url, db } = await openBefore()
  await db.transaction(async trx => {
    await trx.raw('set local session_replication_role = replica')
    await trx.raw(`insert into marketplace_words (bot_id, category, risk_level, words)
                   select 'bot_' || lpad(n::text, 26, '0'), 'scalp', 'low', array_to_tsvector(array['größe']) from generate_series(1, 1001) n`)
  })
  const bot = (n: number) => ({ bot_id: `bot_${String(n).padStart(26, '0')}` })
  const holding = await db.transaction()
  await holding('marketplace_words').where(bot(1001)).forUpdate().first('bot_id')
  const migrating = migrate(url)
  await untilLockWaits(db, { text: 'marketplace_words', work: migrating })
  const changed = await db('marketplace_words')
    .where(bot(1))
    .update({ category: 'grid' }, ['words'])
    .finally(() => holding.commit())
  await migrating
  assert.equal(changed, [{ words: "'grosse'" }])
  assert.is(
    await db('marketplace_words')
      .whereRaw(`words = array_to_tsvector(array['grosse'])`)
      .then(found => found.length),
    1001
  )
})

upgrade.after(closeAll)
tables.run()
upgrade.run()
