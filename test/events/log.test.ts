// The event log: every change of a record that is an event gets into it once, with dense positions, whatever commits when;
// and what its readers receive.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { refundPurchase } from '../../api/admin.ts'
import { getEvent, listEvents } from '../../api/events/events.ts'
import { createKey, listKeys, revokeKey } from '../../api/keys.ts'
import { listPayouts, requestPayout } from '../../api/marketplace/earnings.ts'
import { listMyPurchases, purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { deployTemplate, listMyDeployments } from '../../api/sites/templates.ts'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { dropEventDays, makeEventDays, newEventEpoch, readOutbox, sequenceEvents } from '../../db/events/sequence.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { approvePayout, markPayoutPaid, rejectPayout } from '../../db/money/payouts.ts'
import { revokeKey as revoke } from '../../db/partners/keys.ts'
import { EVENTS } from '../../db/platform/bus.ts'
import { openDatabase, rows } from '../../db/postgres/connection.ts'
import { markProven, markRejected } from '../../db/traders/accounts.ts'
import { appIds } from '../support/dialects.ts'
import { call, closeAll, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { countLockWaits } from '../support/lock-waits.ts'
import { fund, makeBot } from '../support/marketplace-makers.ts'
import { makeTestSide } from '../support/test-side.ts'
import { newest, readAll, sequenceAll } from './reading.ts'

const harness = await openHarness()
const { db, config, bus } = harness.services

const since = async (partner: TestPartner, work: () => Promise<unknown>) => {
  await sequenceAll(db)
  const after = await newest(partner)
  await work()
  await sequenceAll(db)
  return (await readAll(partner, { after })).events
}
const typesOf = (events: { type: string }[]) => events.map(({ type }) => type)

const log = suite('the event log')

log('gives each partner dense positions, whatever commits when and however many sequencers run', async () => {
  const partners = await Promise.all([1, 2, 3].map(() => harness.makePartner()))
  await sequenceAll(db)
  const writers = openDatabase({ url: harness.url, pool: 10, name: 'writers' })
  onClose(() => writers.destroy())
  const write = async (writer: number) => {
    for (let count = 0; count < 60; count++)
      await writers.transaction(async trx => {
        const { partnerId } = partners[(writer + count) % 3] as TestPartner
        const subject = `${writer}`
        await trx('event_outbox').insert({ partner_id: partnerId, type: 'key.created', subject, facts: { count } })
        // Commits come in another order than the ids.
        await trx.raw('select pg_sleep(?)', [((writer * 7 + count * 13) % 5) / 1000])
        await trx('event_outbox').insert({
          partner_id: partnerId,
          type: 'key.created',
          subject,
          facts: { count: count + 0.5 }
        })
      })
  }
  let writing = true
  const sequencer = async () => {
    while (writing) await sequenceEvents(db)
  }
  const sequencers = [sequencer(), sequencer(), sequencer()]
  await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(write))
  writing = false
  await Promise.all(sequencers)
  await sequenceAll(db)
  let total = 0
  for (const { partnerId } of partners) {
    const logged = await rows<{ position: number; subject: string; facts: { count: number } }>(
      db,
      `select position, subject, facts from events where partner_id = :partnerId order by day, position`,
      { partnerId }
    )
    assert.equal(
      logged.map(({ position }) => position),
      logged.map((_, index) => index + 1)
    )
    const last = new Map<string, number>()
    for (const { subject, facts } of logged.filter(({ facts }) => facts?.count !== undefined)) {
      assert.ok(facts.count > (last.get(subject) ?? -1), `${subject}: ${facts.count} after ${last.get(subject)}`)
      last.set(subject, facts.count)
    }
    total += logged.filter(({ facts }) => facts?.count !== undefined).length
  }
  assert.is(total, 8 * 60 * 2)
  assert.is((await readOutbox(db)).depth, 0)
})

log('keeps the events of a record in order while a sequencer is held up', async () => {
  const made = await Promise.all([harness.makePartner(), harness.makePartner()])
  const [first, second] = made.map(({ partnerId }) => partnerId).sort() as [string, string]
  await sequenceAll(db)
  const happens = (partner_id: string, count: number) =>
    db('event_outbox').insert({ partner_id, type: 'key.revoked', subject: 'a key', facts: { count } })
  const waiting = () => countLockWaits(db)
  // Positions are given partner by partner, in the order of their ids.
  const holding = await db.transaction()
  await holding('event_positions').where({ partner_id: first }).forUpdate()
  await happens(first, 1)
  await happens(second, 1)
  // Longer than a statement of the service waits for a lock, which on a busy machine may be over before the test has done the rest.
  const sequence = () =>
    db.transaction(async trx => {
      await trx.raw(`set local lock_timeout = '120s'`)
      return sequenceEvents(trx)
    })
  const one = sequence()
  await until('the wait for the first partner', async () => (await waiting()) === 1, 60_000)
  await happens(second, 2)
  let ended = false
  const other = sequence().finally(() => {
    ended = true
  })
  await until('the other one', async () => ended || (await waiting()) === 2, 60_000)
  await holding.commit()
  await Promise.all([one, other])
  await sequenceAll(db)
  const logged = await db('events').where({ partner_id: second, subject: 'a key' }).orderBy('position')
  assert.equal(
    logged.map(({ facts }) => facts.count),
    [1, 2]
  )
})

log("has each event by its id, also those of a day that the database's clock was wrongly ahead", async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  // As after a step of the clock that was undone: days never go back.
  await db.raw(`update event_epoch set day = day + 10`)
  await makeEventDays(db)
  await partner.makeTrader()
  await sequenceAll(db)
  const { events } = await readAll(partner)
  assert.is(events.length, 2)
  for (const event of events) assert.equal((await partner.call(getEvent, { params: { id: event.id } })).body, event)
  await db.raw(`update event_epoch set day = day - 10`)
})

log(
  'goes on with the day of the sequencer before, although the clock went back across midnight meanwhile',
  async () => {
    await sequenceAll(db)
    const partner = await harness.makePartner()
    // As one whose clock showed tomorrow.
    const ahead = await db.transaction()
    await ahead.raw(`update event_epoch set day = (now() at time zone 'UTC')::date + 1`)
    await sequenceEvents(ahead)
    await partner.makeTrader()
    const waiting = sequenceEvents(db)
    await until('the one after it to wait', async () => {
      const locks = `select from pg_locks where locktype = 'advisory' and objid = 724202 and not granted`
      return (await db.raw(locks)).rows.length > 0
    })
    await ahead.commit()
    await waiting
    await partner.makeTrader()
    await sequenceAll(db)
    const { status, body } = await partner.call(listEvents, { query: { limit: 1 } })
    assert.is(status, 200)
    const { events } = await readAll(partner, { after: body.cursor })
    assert.equal(
      events.map(({ position }) => position),
      [2, 3]
    )
    await db.raw(`update event_epoch set day = (now() at time zone 'UTC')::date`)
  }
)

log('is written and read while a transaction that has read it stays open, and the days ahead are made', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  const partition = async (offset: number) =>
    `events_${(await db.raw(`select to_char((now() at time zone 'UTC')::date + ?::int, 'YYYYMMDD') as day`, [offset])).rows[0].day}`
  // The database may have been made on the day before.
  await makeEventDays(db)
  const last = await partition(3)
  await db.raw(`drop table ${last}`)
  // As a dump does for hours.
  const reading = await db.transaction()
  try {
    await reading.raw('select count(*) from events')
    assert.is(await makeEventDays(db), 1)
    await partner.makeTrader()
    await sequenceAll(db)
    assert.is((await readAll(partner)).events.length, 2)
  } finally {
    await reading.rollback()
  }
  // Its rows are found by the same keys as those of other days.
  const keysOf = async (table: string) =>
    (
      await db.raw(
        `select pg_get_indexdef(indexrelid) like '%UNIQUE%' as single, indkey::text as columns, i.inhparent::regclass::text as parent
           from pg_index left join pg_inherits i on i.inhrelid = indexrelid where indrelid = ?::regclass order by 2`,
        [table]
      )
    ).rows
  assert.equal(await keysOf(last), await keysOf(await partition(0)))
})

log('takes nothing of a transaction that is rolled back', async () => {
  const partner = await harness.makePartner()
  const events = await since(partner, async () => {
    await db
      .transaction(async trx => {
        await trx('api_keys').where({ id: partner.keyId }).update({ revoked_at: new Date() })
        throw new Error('rolled back')
      })
      .catch(() => {})
  })
  assert.equal(events, [])
})

log('publishes whose log has grown, from a worker, within moments of a change through the api', async () => {
  const partner = await harness.makePartner()
  const { startTestWorker } = await import('../support/processes.ts')
  const worker = await startTestWorker({ ...harness.env, SWEEP_MS: '60000' })
  const grown: string[] = []
  const stop = await bus.listen(EVENTS, ({ id }) => grown.push(id))
  await until('the key', async () => typesOf((await readAll(partner)).events).includes('key.created'))
  await partner.makeTrader()
  // The worker's slow clock is a minute.
  await until('the account', async () => typesOf((await readAll(partner)).events).includes('account.connected'))
  await until('the hint', () => grown.includes(partner.partnerId))
  stop()
  await worker.stop()
})

const reading = suite('GET /v1/events')

reading('needs a key with events:read, which a key made without scopes has', async () => {
  assert.is((await call(harness.address, listEvents)).status, 401)
  const partner = await harness.makePartner({ scopes: ['trading:read'] })
  assert.is((await partner.call(listEvents)).body.requiredScope, 'events:read')
  const { cookie } = await partner.makeSession()
  const { body } = await call(harness.address, createKey, { headers: { cookie }, body: {} })
  const response = await call(harness.address, listEvents, { headers: { authorization: `Bearer ${body.key}` } })
  assert.is(response.status, 200)
})

reading('refuses what is no type and no cursor, and the cursor of another partner', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  for (const query of [
    { types: 'order.sold' },
    { types: 'order.opened,' },
    { after: 'nonsense' },
    { after: 'A'.repeat(22) },
    { after: await newest(other) }
  ] as Record<string, string>[]) {
    const { status, body } = await partner.call(listEvents, { query })
    assert.equal([status, body.details?.[0].path], [400, `/query/${Object.keys(query)[0]}`], JSON.stringify(query))
  }
})

reading('pages from the oldest that is kept, each event once, and goes on after the last cursor', async () => {
  const partner = await harness.makePartner()
  for (let count = 0; count < 7; count++) await partner.makeTrader()
  await sequenceAll(db)
  const first = await partner.call(listEvents, { query: { limit: 3 } })
  assert.equal([first.body.data.length, first.body.caughtUp], [3, false])
  const { events, cursor } = await readAll(partner, { limit: 3 })
  assert.equal(
    events.map(({ position }) => position),
    [1, 2, 3, 4, 5, 6, 7, 8]
  )
  const again = await partner.call(listEvents, { query: { after: cursor } })
  assert.equal(again.body, { data: [], cursor, caughtUp: true })
})

reading('filters by type and trader, and its cursor passes over what does not fit', async () => {
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  for (let count = 0; count < 4; count++) await partner.makeTrader()
  await sequenceAll(db)
  const types = await readAll(partner, { types: 'key.created,key.revoked' })
  assert.equal(typesOf(types.events), ['key.created'])
  const { events, cursor } = await readAll(partner, { traderExternalId: trader.traderExternalId, limit: 1 })
  assert.equal(
    events.map(({ traderExternalId, position }) => [traderExternalId, position]),
    [[trader.traderExternalId, 2]]
  )
  assert.is(cursor, types.cursor)
})

reading('holds an empty response back until there is an event, or time is over', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  const after = await newest(partner)
  const waiting = partner.call(listEvents, { query: { after, wait: 30 } })
  await partner.makeTrader()
  await sequenceAll(db)
  bus.publish(EVENTS, 'events', partner.partnerId)
  assert.equal(typesOf((await waiting).body.data), ['account.connected'])
  const empty = await partner.call(listEvents, { query: { after: await newest(partner), wait: 1 } })
  assert.equal([empty.body.data, empty.body.caughtUp], [[], true])
})

reading('shows nothing to a key that was revoked while the response was held back', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  const after = await newest(partner)
  const { waits } = harness.services
  let held = false
  harness.services.waits = {
    ...waits,
    signalFor(response, partnerId) {
      held = true
      return waits.signalFor(response, partnerId)
    }
  }
  const waiting = partner.call(listEvents, { query: { after, wait: 30 } })
  await until('the response to be held back', () => held)
  harness.services.waits = waits
  await revoke(db, partner.keyId)
  await sequenceAll(db)
  const { status, body } = await waiting
  assert.equal([status, body.error], [403, 'KEY_REVOKED'])
})

reading('finds events whose hint was lost', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  const waiting = partner.call(listEvents, { query: { after: await newest(partner), wait: 30 } })
  await partner.makeTrader()
  await sequenceAll(db)
  assert.is((await waiting).body.data.length, 1)
})

reading('returns 410 with what is kept for a cursor of another epoch, and goes on from both', async () => {
  const partner = await harness.makePartner()
  await partner.makeTrader()
  await sequenceAll(db)
  const old = await newest(partner)
  await newEventEpoch(db)
  const { status, body } = await partner.call(listEvents, { query: { after: old } })
  assert.equal([status, body.error], [410, 'CURSOR_EXPIRED'])
  assert.equal((await readAll(partner, { after: body.latest })).events, [])
  assert.is((await readAll(partner, { after: body.oldest })).events.length, 2)
})

reading('returns 410 for a cursor from ahead, as after a restore whose epoch was not changed', async () => {
  const partner = await harness.makePartner()
  await partner.makeTrader()
  await sequenceAll(db)
  const ahead = await newest(partner)
  await db('events').where({ partner_id: partner.partnerId, position: 2 }).delete()
  await db('event_positions').where({ partner_id: partner.partnerId }).update({ position: 1 })
  assert.is((await partner.call(listEvents, { query: { after: ahead } })).body.error, 'CURSOR_EXPIRED')
})

reading('keeps events for so many days, and returns 410 for older cursors', async () => {
  const partner = await harness.makePartner()
  await sequenceAll(db)
  const day = async (offset: number) => {
    await db.raw(
      `select make_event_days((now() at time zone 'UTC')::date + ?::int, (now() at time zone 'UTC')::date + ?::int)`,
      [offset, offset]
    )
    await db.raw(`update event_epoch set day = (now() at time zone 'UTC')::date + ?::int`, [offset])
  }
  const start = await newest(partner)
  await partner.makeTrader()
  await sequenceAll(db)
  // As if a week had passed, and today's partition were a week old.
  await db.raw(
    `alter table events detach partition ${await partitionOf(0)};
     alter table ${await partitionOf(0)} drop constraint if exists events_day`
  )
  await db.raw(
    `update ${await partitionOf(0)} set day = day - 7; alter table ${await partitionOf(0)} rename to ${await partitionOf(-7)}`
  )
  await db.raw(
    `alter table events attach partition ${await partitionOf(-7)}
       for values from ((now() at time zone 'UTC')::date - 7) to ((now() at time zone 'UTC')::date - 6)`
  )
  await day(0)
  await partner.makeTrader()
  await sequenceAll(db)
  const before = await readAll(partner)
  assert.equal(
    before.events.map(({ position }) => position),
    [1, 2, 3]
  )
  assert.is(await dropEventDays(db, 7), 0)
  const dumping = await db.transaction()
  await dumping.raw('select count(*) from events')
  assert.is(await dropEventDays(db, 6), 0, 'a day that is being read stays')
  await dumping.rollback()
  // A reader without a cursor, which has seen where the log begins and has not read it yet, reads from where it begins now.
  const dropping = await db.transaction()
  await dropping.raw('lock table events in access exclusive mode')
  const reading = partner.call(listEvents, {})
  await until('the reader to wait for the log', async () => {
    const waiting = `select from pg_locks where relation = 'events'::regclass and not granted`
    return (await db.raw(waiting)).rows.length > 0
  })
  assert.is(await dropEventDays(dropping, 6), 1)
  await dropping.commit()
  const { status, body } = await reading
  assert.equal([status, body.data?.map(({ position }: { position: number }) => position)], [200, [3]])
  const { events } = await readAll(partner)
  assert.equal(
    events.map(({ position }) => position),
    [3]
  )
  const expired = await partner.call(listEvents, { query: { after: start } })
  assert.is(expired.body.error, 'CURSOR_EXPIRED')
  assert.equal(
    (await readAll(partner, { after: expired.body.oldest })).events.map(({ position }) => position),
    [3]
  )
  assert.equal((await readAll(partner, { after: before.cursor })).events, [])
})

async function partitionOf(offset: number): Promise<string> {
  const [found] = await rows<{ name: string }>(
    db,
    `select 'events_' || to_char((now() at time zone 'UTC')::date + :offset::int, 'YYYYMMDD') as name`,
    { offset }
  )
  return (found as { name: string }).name
}

reading('makes partitions ahead of time, once', async () => {
  await makeEventDays(db)
  assert.is(await makeEventDays(db), 0)
})

const single = suite('GET /v1/events/{id}')

single("returns the event as the list does; another partner's and what is no id are 404", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  await partner.makeTrader()
  await sequenceAll(db)
  const [event] = (await readAll(partner)).events.slice(-1)
  const { id } = event as { id: string }
  assert.equal((await partner.call(getEvent, { params: { id } })).body, event)
  assert.is((await other.call(getEvent, { params: { id } })).status, 404)
  for (const wrong of ['nothing', 'evt_01k3hv9c7bf5tvxkz1qd3rn8ma', id.replace('evt', 'ord')])
    assert.is((await partner.call(getEvent, { params: { id: wrong } })).status, 404)
})

const types = suite('an event is written when')

types('an account is exchanged, again, and refused by the broker', async () => {
  const partner = await harness.makePartner()
  const accountId = newAccountId()
  const externalId = `user-${accountId}`
  const exchange = () =>
    partner.call(exchangeTokens, {
      body: { traderExternalId: externalId, accounts: [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO' }] }
    })
  const shown = async () => (await partner.call(listAccounts, { query: { traderExternalId: externalId } })).body.data[0]
  const first = await since(partner, exchange)
  assert.equal(typesOf(first), ['account.connected'])
  assert.equal([first[0]?.traderExternalId, first[0]?.data], [externalId, await shown()])
  assert.equal(typesOf(await since(partner, exchange)), ['account.connected'])
  const { id, token_version: version } = await db('broker_accounts').where({ account_id: accountId }).first()
  const place = { dialect: config.brokerDialect, appId: appIds[config.brokerDialect] }
  const refused = await since(partner, () => markRejected(db, id, { ...place, version, reason: 'TOKEN_EXPIRED' }))
  assert.equal(typesOf(refused), ['account.rejected'])
  assert.equal(refused[0]?.data, await shown())
  assert.is((await shown()).reason, 'TOKEN_EXPIRED')
  // That the broker accepted this token before does not show any more, however late it is written.
  await markProven(db, id, { ...place, version, currency: null })
  const { proven_version: proven, refusals } = await db('broker_accounts').where({ id }).first()
  assert.equal([proven, refusals], [null, 1])
})

types('a key is created and revoked', async () => {
  const partner = await harness.makePartner()
  const headers = await partner.makeSession()
  let keyId = ''
  const shown = async () =>
    (await call(harness.address, listKeys, { headers })).body.data.find((key: { keyId: string }) => key.keyId === keyId)
  const created = await since(partner, async () => {
    keyId = (await call(harness.address, createKey, { headers, body: { label: 'a', scopes: ['usage:read'] } })).body
      .keyId
  })
  assert.equal(typesOf(created), ['key.created'])
  assert.equal(created[0]?.data, await shown())
  assert.not.match(JSON.stringify(created), /service_live_[0-9a-f]{16}_[0-9a-f]/)
  const revoke = () => call(harness.address, revokeKey, { headers, params: { id: keyId } })
  const revoked = await since(partner, async () => {
    await revoke()
    await revoke()
  })
  assert.equal(typesOf(revoked), ['key.revoked'])
  assert.equal(revoked[0]?.data, await shown())
})

types('a payout is approved, paid or rejected', async () => {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { oneTimePriceUsd: 50 })
  await fund(harness, buyer, '100')
  await buyer.call(purchaseBot, { params: { id: botId } })
  const requestOne = async () =>
    (await creator.call(requestPayout, { body: { amountUsd: 10.5, destinationAddress: 'T'.repeat(34) } })).body.payoutId
  const shown = async () => (await creator.call(listPayouts)).body.data[0]
  const [one, two] = [await requestOne(), await requestOne()]
  const approved = await since(creator, () => approvePayout(db, two))
  assert.equal([typesOf(approved), approved[0]?.data], [['payout.approved'], await shown()])
  const paid = await since(creator, () => db.transaction(trx => markPayoutPaid(trx, two, 'tx 1')))
  assert.equal([typesOf(paid), paid[0]?.data], [['payout.paid'], await shown()])
  assert.equal(typesOf(await since(creator, () => db.transaction(trx => rejectPayout(trx, one, 'not today')))), [
    'payout.rejected'
  ])
})

types('a plan becomes inactive, with what the wallet lacks, and active again, to both sides', async () => {
  const partner = await harness.makePartner({ plan: 'PRO' })
  const side = await makeTestSide(harness, partner)
  const end = new Date(Date.now() + 1000)
  await db('partners').where({ id: partner.partnerId }).update({ period_end: end, billing_anchor: end })
  await fund(harness, partner, '40.25')
  await sequenceAll(db)
  const after = await Promise.all([newest(partner), newest(side)])
  await checkBilling(db, { now: new Date(end.getTime() + 1000), prices: config.planPrices, feePct: '20' })
  await sequenceAll(db)
  assert.is((await partner.call(listEvents)).status, 402)
  await fund(harness, partner, '158.75')
  await sequenceAll(db)
  for (const [i, reader] of [partner, side].entries()) {
    const { events } = await readAll(reader, { after: after[i] as string })
    assert.equal(typesOf(events), ['plan.inactive', 'plan.active'])
    const [inactive, active] = events.map(({ data }) => data as { periodEnd: string })
    assert.equal(inactive, { plan: 'PRO', saasStatus: 'INACTIVE', periodEnd: end.toISOString(), topUpUsd: 158.75 })
    assert.ok(Date.parse(active?.periodEnd as string) > end.getTime())
    assert.equal(active, { ...active, plan: 'PRO', saasStatus: 'ACTIVE', topUpUsd: 0 })
  }
})

types('a bot is bought and paid back: to the buyer its purchase, to the creator its sale', async () => {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { oneTimePriceUsd: 19.9 })
  await fund(harness, buyer, '100')
  await sequenceAll(db)
  const after = await newest(creator)
  let purchaseId = ''
  const bought = await since(buyer, async () => {
    purchaseId = (await buyer.call(purchaseBot, { params: { id: botId } })).body.purchaseId
  })
  const shown = async () => (await buyer.call(listMyPurchases)).body.data[0]
  assert.equal([typesOf(bought), bought[0]?.data], [['bot.purchased'], await shown()])
  const refunded = await since(buyer, () =>
    buyer.call(refundPurchase, { params: { id: purchaseId }, body: { reason: 'does not work' } })
  )
  assert.equal([typesOf(refunded), refunded[0]?.data], [['bot.refunded'], await shown()])
  const { events } = await readAll(creator, { after })
  const sale = { purchaseId, botId, priceUsd: 19.9, netUsd: 15.92 }
  assert.equal(
    events.map(({ type, data }) => [type, data]),
    [
      ['bot.purchased', { ...sale, status: 'COMPLETED' }],
      ['bot.refunded', { ...sale, status: 'REFUNDED' }]
    ]
  )
})

types('a subscription cannot be paid any more', async () => {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { monthlyPriceUsd: 5 })
  await fund(harness, buyer, '5')
  const { body } = await buyer.call(subscribeToBot, { params: { id: botId } })
  const events = await since(buyer, () =>
    checkBilling(db, {
      now: new Date(Date.parse(body.currentPeriodEnd) + 1000),
      prices: { LAUNCH: '0', PRO: '0', SCALE: '0' },
      feePct: '20'
    })
  )
  assert.equal(
    typesOf(events).filter(type => type.startsWith('sub')),
    ['subscription.past_due']
  )
  const { data } = events.find(({ type }) => type === 'subscription.past_due') as { data: object }
  assert.equal(data, { ...body, status: 'PAST_DUE' })
})

types('a site is live, or could not be rendered', async () => {
  const partner = await harness.makePartner()
  const deploy = async (slug: string) =>
    (await partner.call(deployTemplate, { params: { slug: 'horizon' }, body: { tenantSlug: slug, brandName: 'Acme' } }))
      .body
  const shown = async () => (await partner.call(listMyDeployments)).body.data[0]
  const set = (deploymentId: string, status: string) => db('deployments').where({ id: deploymentId }).update({ status })
  const { deploymentId } = await deploy('events-live')
  const live = await since(partner, () => set(deploymentId, 'LIVE'))
  assert.equal([typesOf(live), live[0]?.data], [['deployment.live'], await shown()])
  await deploy('events-live')
  const failed = await since(partner, () => set(deploymentId, 'FAILED'))
  assert.equal([typesOf(failed), failed[0]?.data], [['deployment.failed'], await shown()])
})

types.after(closeAll)
log.run()
reading.run()
single.run()
types.run()
