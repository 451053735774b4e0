// test once for each dialect
// Reconciliation of markups: orders beside the simulated broker's own book, by the endpoint, the worker's clock and the operator's
// command; what only one side knows; tokens that the broker refuses; reports that are late, long or do not come.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import {
  getReconciliation,
  removeReconciliationToken,
  storeReconciliationToken
} from '../../api/analytics/reconciliation.ts'
import { dueDays, storeReconciliation } from '../../db/analytics/reconciliation.ts'
import { listReportTokens, rejectReportToken } from '../../db/analytics/report-tokens.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { reconcileDue, reconcilePartner } from '../../worker/analytics/reconciling.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, type TestTrader, TOKEN_KEYS } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { readBeside } from '../support/read-beside.ts'

const DAY_MS = 86_400_000
const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off', markup: { pct: 2, onTop: false } })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
const { db, config, log } = harness.services
const worker = { db, vault: openVault(TOKEN_KEYS), brokers: openBrokers(config, log), log }
onClose(() => worker.brokers.close())
const listed = dialect === 'v3'
const appId = dialect === 'v3' ? Number(appIds.v3) : appIds.next
// The last day whose report is final, at noon: in the first two hours of a day that is the day before yesterday.
const REPORTED_AFTER_MS = 2 * 3_600_000
const lastReported = new Date(Math.floor((Date.now() - REPORTED_AFTER_MS) / DAY_MS) * DAY_MS - DAY_MS / 2)
const day = lastReported.toISOString().slice(0, 10)
const ofThatDay = { from: `${day}T00:00:00Z`, to: `${day}T23:59:59Z` }
const owner = (flags = '') => `sim-CR9001${flags}`

/** A contract in the broker's book, and the order that bought it. */
async function bought(
  trader: TestTrader,
  {
    markup,
    at = lastReported,
    order = true,
    currency = 'USD'
  }: { markup: number | null; at?: Date; order?: boolean; currency?: string }
): Promise<string> {
  const id = simulator.engine.books.newIds()
  if (markup !== null)
    simulator.engine.books.markups.entries.push({
      appId,
      loginid: `CR${trader.accountId.slice(4)}`,
      currency,
      units: Math.round(markup * 100),
      transactionId: id.buyTransaction,
      contractId: id.id,
      atMs: at.getTime()
    })
  if (order) {
    await insertOrderRows(db, trader, { at, brokerOrderId: String(id.id) })
    await db('orders')
      .where({ broker_order_id: String(id.id) })
      .update({
        app_id: String(appId),
        dialect,
        account_mode: 'REAL',
        currency,
        transaction_id: String(id.buyTransaction),
        markup: markup === null ? '0.5' : markup.toFixed(2)
      })
  }
  return String(id.buyTransaction)
}

const partner: TestPartner = await harness.makePartner()
const trader = await partner.makeTrader()
const readOf = async (of: TestPartner, query = {}) =>
  (await of.call(getReconciliation, { query: { ...ofThatDay, ...query } })).body
const read = (query = {}) => readOf(partner, query)

/** Leaves one partner's application with nothing in the broker's book and in its orders. */
async function clear(): Promise<void> {
  simulator.engine.books.markups.entries.length = 0
  simulator.engine.books.markups.reportDelayMs = 0
  simulator.faults.reset?.()
  await db.raw('delete from reconciled_days')
  await db('orders').delete()
}
const application = { partnerId: partner.partnerId, dialect, appId: String(appId) }
const store = async (token: string) => {
  const stored = await partner.call(storeReconciliationToken, { body: { token } })
  assert.is(stored.status, 200, JSON.stringify(stored.body))
  return stored
}

const tokens = suite('a token for reports')

tokens('is sealed, shown by its status alone, and removed once', async () => {
  assert.equal((await read()).token, { status: 'NONE', reason: null })
  const stored = (await store(owner())).body
  assert.equal([stored.application, stored.status, stored.reason], [String(appId), 'CONNECTED', null])
  const [row] = await db('report_tokens').select()
  assert.not.ok(Buffer.from(row.token_sealed).includes(owner()))
  assert.equal((await read()).token, { status: 'CONNECTED', reason: null })
  // Of another application it is none.
  await db('partners').where({ id: partner.partnerId }).update({ broker_app_id: '999' })
  assert.is((await read()).token.status, 'NONE')
  await db('partners')
    .where({ id: partner.partnerId })
    .update({ broker_app_id: String(appId) })
  assert.equal((await partner.call(removeReconciliationToken, {})).body, { removed: true })
  assert.is((await partner.call(removeReconciliationToken, {})).status, 404)
})

tokens('is used for its own partner and its present application alone', async () => {
  const other = await harness.makePartner()
  await store(owner())
  await other.call(storeReconciliationToken, { body: { token: owner() } })
  const both = [partner.partnerId, other.partnerId].sort()
  const listedFor = async (query: { partnerId?: string; after?: string }) =>
    (await listReportTokens(db, worker.vault, { after: '', limit: 10, ...query })).map(({ partnerId }) => partnerId)
  assert.equal(await listedFor({}), both)
  assert.equal(await listedFor({ after: both[0] as string }), both.slice(1))
  for (const partnerId of both) assert.equal(await listedFor({ partnerId }), [partnerId])
  // What is sealed for one partner does not open for another.
  const { token_sealed } = await db('report_tokens').where({ partner_id: other.partnerId }).first()
  await db('report_tokens').where({ partner_id: partner.partnerId }).update({ token_sealed })
  const [copied] = await listReportTokens(db, worker.vault, { partnerId: partner.partnerId, after: '', limit: 1 })
  assert.throws(() => copied?.open())
  const appOf = (partnerId: string, id: string) => db('partners').where({ id: partnerId }).update({ broker_app_id: id })
  await appOf(partner.partnerId, '999')
  assert.equal(await listedFor({}), [other.partnerId])
  await appOf(partner.partnerId, String(appId))
  await partner.call(removeReconciliationToken, {})
  assert.equal(await listedFor({}), [other.partnerId])
  await other.call(removeReconciliationToken, {})
})

for (const [what, token, prepare, reason] of [
  ['that the broker does not know', 'sim-nothing-like-it', () => {}, 'TOKEN_REFUSED'],
  [
    'without the scope',
    'trades-and-reads-nothing',
    () => simulator.engine.accounts.create({ loginid: 'CR9002', token: 'trades-and-reads-nothing', scopes: ['trade'] }),
    'SCOPE_MISSING'
  ]
] as const)
  tokens(`${what} is shown as rejected, with the reason, and used no more`, async () => {
    prepare()
    await store(token)
    assert.equal(await reconcilePartner(worker, { partnerId: partner.partnerId, day }), {
      compared: 0,
      rejected: 1,
      failed: 0
    })
    const { token: shown, data, complete } = await read()
    assert.equal([shown, data, complete], [{ status: 'REJECTED', reason }, [], false])
    assert.equal(await reconcilePartner(worker, { partnerId: partner.partnerId, day }), {
      compared: 0,
      rejected: 0,
      failed: 0
    })
  })

tokens('that is refused leaves one alone that was stored meanwhile', async () => {
  const { partnerId } = partner
  const versionNow = async () => (await db('report_tokens').where({ partner_id: partnerId }).first('version')).version
  for (const removed of [false, true]) {
    assert.is((await store('sim-an-old-token')).status, 200)
    const version = await versionNow()
    if (removed) await partner.call(removeReconciliationToken, {})
    await store(owner())
    await rejectReportToken(db, { partnerId, version, reason: 'TOKEN_REFUSED' })
    assert.is((await read()).token.status, 'CONNECTED')
    if (!removed) await partner.call(removeReconciliationToken, {})
  }
  await rejectReportToken(db, { partnerId, version: await versionNow(), reason: 'TOKEN_REFUSED' })
  assert.is((await read()).token.status, 'REJECTED')
})

const days = suite('a day of markups')
days.before.each(async () => {
  // A month of days takes most of a minute's budget of calls: each test has the budget of a worker of its own.
  await worker.brokers.close()
  worker.brokers = openBrokers(config, log)
  await clear()
  await store(owner())
})

days('is the same on both sides, to the cent, and complete', async () => {
  for (const markup of [0.1, 0.2, 0.37]) await bought(trader, { markup })
  await reconcileDue(worker)
  const { data, complete, timezone, interval } = await read()
  assert.equal([complete, timezone, interval], [true, 'UTC', 'day'])
  assert.equal(data, [
    {
      day,
      application: String(appId),
      currency: 'USD',
      ours: { contracts: 3, markup: 0.67, markupUnknown: 0 },
      theirs: { contracts: 3, markup: 0.67 },
      difference: 0,
      missingHere: [],
      missingThere: []
    }
  ])
  assert.equal(await dueDays(db, application, 3), [])
  // Days before those that were compared.
  const longer = await read({ from: new Date(lastReported.getTime() - 40 * DAY_MS).toISOString() })
  assert.equal([longer.complete, longer.data.length], [false, 1])
  const another = await harness.makePartner()
  assert.equal((await another.call(getReconciliation, { query: ofThatDay })).body.data, [])
})

days('names contracts that one side alone knows, with the difference', async () => {
  await bought(trader, { markup: 0.1 })
  const theirs = await bought(trader, { markup: 0.25, order: false })
  await bought(trader, { markup: null })
  const [{ id: ours }] = await db('orders').where({ markup: '0.5' }).select('id')
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  const [row] = (await read()).data
  assert.equal([row.ours.markup, row.theirs.markup, row.difference], [0.6, 0.35, 0.25])
  assert.equal([row.missingHere, row.missingThere], listed ? [[theirs], [ours]] : [[], []])
  // Of an unknown markup nobody knows whether the report should have it.
  await db('orders').where({ id: ours }).update({ markup: null })
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  const [unknown] = (await read()).data
  assert.equal([unknown.missingThere, unknown.ours.markupUnknown], [[], 1])
})

days('names nothing as missing here that an order has, without a markup or across midnight', async () => {
  const midnight = new Date(`${day}T00:00:00Z`)
  for (const [at, changes] of [
    [lastReported, { markup: '0' }],
    [lastReported, { account_mode: 'DEMO' }],
    [midnight, { opened_at: new Date(midnight.getTime() - 1000) }]
  ] as const) {
    const transaction_id = await bought(trader, { markup: 0.25, at })
    await db('orders').where({ transaction_id }).update(changes)
  }
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  const [row] = (await read()).data
  assert.equal([row.theirs.contracts, row.difference, row.missingHere], [3, -0.75, []])
})

days('has nothing of theirs in a currency that the broker does not report', async () => {
  await bought(trader, { markup: 0.1 })
  const euros = await bought(trader, { markup: null, currency: 'EUR' })
  assert.ok(euros)
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  const shown = (await read()).data.map(({ currency, theirs, difference }: Record<string, unknown>) => [
    currency,
    theirs,
    difference
  ])
  // A sum that the broker reports in US dollars is that of all currencies: it cannot be compared with ours in dollars only.
  assert.equal(
    shown,
    listed
      ? [
          ['EUR', { contracts: 0, markup: 0 }, 0.5],
          ['USD', { contracts: 1, markup: 0.1 }, 0]
        ]
      : [
          ['EUR', null, null],
          ['USD', null, null]
        ]
  )
  const ofEuros = (await read({ currency: 'EUR' })).data
  assert.equal(
    ofEuros.map((row: { currency: string }) => row.currency),
    ['EUR']
  )
})

days('has the same columns as CSV where nothing of theirs is known', async () => {
  const alone = await harness.makePartner()
  await bought(await alone.makeTrader(), { markup: null, currency: 'EUR' })
  const application = { partnerId: alone.partnerId, dialect, appId: String(appId) }
  await storeReconciliation(db, application, { day, theirs: { sums: [], contracts: null, consistent: true } })
  const response = await fetch(`${harness.address}/v1/analytics/reconciliation?${new URLSearchParams(ofThatDay)}`, {
    headers: { authorization: `Bearer ${alone.key}`, accept: 'text/csv' }
  })
  assert.equal((await response.text()).split('\r\n').slice(0, 2), [
    'day,application,currency,ours.contracts,ours.markup,ours.markupUnknown,theirs.contracts,theirs.markup,difference,missingHere,missingThere',
    `${day},${appId},EUR,1,0.5,0,,,,[],[]`
  ])
})

days('has play money, other days, other applications and contracts without a markup on neither side', async () => {
  await bought(trader, { markup: 0.1 })
  await bought(trader, { markup: 0.3, at: new Date(lastReported.getTime() - DAY_MS) })
  await insertOrderRows(db, trader, { at: lastReported, brokerOrderId: 'demo' })
  await db('orders')
    .where({ broker_order_id: 'demo' })
    .update({ app_id: String(appId), dialect, markup: '7' })
  await insertOrderRows(db, trader, { at: lastReported, brokerOrderId: 'free' })
  await db('orders')
    .where({ broker_order_id: 'free' })
    .update({ app_id: String(appId), dialect, account_mode: 'REAL', markup: '0' })
  await insertOrderRows(db, trader, { at: lastReported, brokerOrderId: 'other' })
  await db('orders')
    .where({ broker_order_id: 'other' })
    .update({ app_id: 'other', dialect, account_mode: 'REAL', markup: '9' })
  await insertOrderRows(db, trader, { at: lastReported, brokerOrderId: 'dialect' })
  await db('orders')
    .where({ broker_order_id: 'dialect' })
    .update({ app_id: String(appId), dialect: listed ? 'next' : 'v3', account_mode: 'REAL', markup: '11' })
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  assert.equal(
    (await read()).data.map(({ ours, theirs }: { ours: object; theirs: object }) => [ours, theirs]),
    [
      [
        { contracts: 1, markup: 0.1, markupUnknown: 0 },
        { contracts: 1, markup: 0.1 }
      ]
    ]
  )
  const before = new Date(lastReported.getTime() - DAY_MS).toISOString().slice(0, 10)
  await reconcilePartner(worker, { partnerId: partner.partnerId, day: before })
  const dayBefore = (await read({ from: `${before}T00:00:00Z`, to: `${day}T00:00:00Z` })).data
  assert.equal(
    dayBefore.map((row: { day: string; ours: { markup: number } }) => [row.day, row.ours.markup]),
    [[before, 0.3]]
  )
})

days('is not complete while a markup is unknown, and is compared again', async () => {
  await bought(trader, { markup: 0.1 })
  await db('orders').update({ markup: null })
  await reconcileDue(worker)
  const { data, complete } = await read()
  assert.equal([complete, data[0].ours.markupUnknown, data[0].difference], [false, 1, -0.1])
  await db('orders').update({ markup: '0.1' })
  await reconcileDue(worker)
  assert.is((await read()).complete, false, 'an hour later')
  await db.raw(`update reconciled_days set again_at = now()`)
  await reconcileDue(worker)
  assert.equal([(await read()).complete, (await read()).data[0].difference], [true, 0])
})

days('is compared for each partner, though the result of one before it cannot be stored', async () => {
  const other = await harness.makePartner()
  await other.call(storeReconciliationToken, { body: { token: owner() } })
  await db.raw(
    `alter table reconciled_days add constraint refusing check (partner_id <> '${partner.partnerId}') not valid`
  )
  try {
    await reconcileDue(worker).then(
      () => assert.unreachable(),
      (error: Error) => assert.match(error.message, 'refusing')
    )
    const compared = await db('reconciled_days').where({ partner_id: other.partnerId, day }).pluck('complete')
    assert.equal(compared, [true])
  } finally {
    await db.raw('alter table reconciled_days drop constraint refusing')
    await db('report_tokens').where({ partner_id: other.partnerId }).delete()
  }
})

const doubted = () => db('orders').whereNull('opened_at')

/** An order of the application that is in doubt since the day. */
async function makeDoubt(of: TestTrader): Promise<void> {
  await insertOrderRows(db, of, { phase: 'queued', at: lastReported })
  const sent = { sent_at: lastReported, permit_until: lastReported, resolve_at: new Date() }
  await doubted().update({ phase: 'sending', app_id: String(appId), ...sent })
}

async function completeNow(): Promise<boolean> {
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  return (await read()).complete
}

days('is not complete while an order of it is in doubt', async () => {
  await bought(trader, { markup: 0.1 })
  await makeDoubt(trader)
  assert.is(await completeNow(), false)
  await doubted().update({ app_id: 'other' })
  assert.is(await completeNow(), true, 'in doubt at another application')
  await doubted().update({ app_id: String(appId) })
  assert.is(await completeNow(), false)
  await doubted().update({ created_at: new Date(lastReported.getTime() - 40 * DAY_MS) })
  assert.is(await completeNow(), false, 'repeated on that day, and much older')
  await doubted().update({ phase: 'failed', error_code: 'BROKER_UPSTREAM' })
  assert.is(await completeNow(), true)
})

days('is not complete where the report contradicts itself', async () => {
  await bought(trader, { markup: 0.1 })
  const theirs = { sums: [{ currency: 'USD', contracts: 1, markup: '0.1' }], contracts: null }
  await storeReconciliation(db, application, { day, theirs: { ...theirs, consistent: false } })
  assert.is((await read()).complete, false)
  await storeReconciliation(db, application, { day, theirs: { ...theirs, consistent: true } })
  assert.is((await read()).complete, true)
})

days('is compared by several at once, and stored once', async () => {
  await bought(trader, { markup: 0.1 })
  const theirs = { sums: [{ currency: 'USD', contracts: 1, markup: '0.1' }], contracts: null, consistent: true }
  await Promise.all(Array.from({ length: 6 }, () => storeReconciliation(db, application, { day, theirs })))
  const { data, complete } = await read()
  assert.equal([data.length, data[0].difference, complete], [1, 0, true])
})

days('is compared for each partner, dialect and application alone', async () => {
  const other = await harness.makePartner()
  await bought(trader, { markup: 0.1 })
  await bought(await other.makeTrader(), { markup: 0.2 })
  const theirs = { sums: [{ currency: 'USD', contracts: 1, markup: '0.1' }], contracts: null, consistent: true }
  const others = { ...application, partnerId: other.partnerId }
  const further = [
    { ...application, dialect: listed ? 'next' : 'v3' },
    { ...application, appId: 'other' }
  ]
  const due = () =>
    Promise.all([application, others, ...further].map(async each => (await dueDays(db, each, 3)).includes(day)))
  await storeReconciliation(db, application, { day, theirs })
  assert.equal(await due(), [false, true, true, true])
  await storeReconciliation(db, others, { day, theirs })
  const ours = async (of: TestPartner) =>
    (await of.call(getReconciliation, { query: ofThatDay })).body.data.map((row: { ours: object }) => row.ours)
  assert.equal(await ours(partner), [{ contracts: 1, markup: 0.1, markupUnknown: 0 }])
  assert.equal(await ours(other), [{ contracts: 1, markup: 0.2, markupUnknown: 0 }])
})

days('of an application of two partners leaves out on either side what orders of the other have', async () => {
  const other = await harness.makePartner()
  await other.call(storeReconciliationToken, { body: { token: owner() } })
  await bought(trader, { markup: 0.1 })
  const others = [await other.makeTrader(), await other.makeTrader()] as const
  await bought(others[0], { markup: 0.2 })
  // An order of the other has it, on the other side of midnight: it is the other's in the report alone.
  const late = new Date(Date.parse(`${day}T00:00:00Z`) - 1000)
  const before = await bought(others[1], { markup: 0.4 })
  await db('orders').where({ transaction_id: before }).update({ opened_at: late })
  const nobodys = await bought(trader, { markup: 0.25, order: false })
  for (const { partnerId } of [partner, other]) await reconcilePartner(worker, { partnerId, day })
  const sides = async (of: TestPartner) =>
    (await readOf(of)).data.map(({ ours, theirs, difference, missingHere, missingThere }: Record<string, object>) => [
      ours,
      theirs,
      difference,
      missingHere,
      missingThere
    ])
  const ours = (markup: number) => ({ contracts: 1, markup, markupUnknown: 0 })
  assert.equal(
    [await sides(partner), await sides(other)],
    listed
      ? [
          [[ours(0.1), { contracts: 2, markup: 0.35 }, -0.25, [nobodys], []]],
          [[ours(0.2), { contracts: 3, markup: 0.85 }, -0.65, [nobodys], []]]
        ]
      : // Sums alone cannot be told apart.
        [[[ours(0.1), null, null, [], []]], [[ours(0.2), null, null, [], []]]]
  )
  // Also when the other has moved to another application since, by the accounts that the report names.
  for (const { traderId, accountId } of others)
    await db('broker_accounts')
      .where({ trader_id: traderId })
      .update({ account_id: `CR${accountId.slice(4)}` })
  await db('partners').where({ id: other.partnerId }).update({ broker_app_id: '999' })
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  if (listed) assert.equal((await sides(partner))[0].slice(1), [{ contracts: 2, markup: 0.35 }, -0.25, [nobodys], []])
  await db('report_tokens').where({ partner_id: other.partnerId }).delete()
})

days('is not complete while an order of another partner of its application is in doubt', async () => {
  const other = await harness.makePartner()
  await bought(trader, { markup: 0.1 })
  await makeDoubt(await other.makeTrader())
  assert.is(await completeNow(), false)
  await doubted().update({ app_id: 'other' })
  assert.is(await completeNow(), true)
})

days(
  'is not complete where contracts of an application that the partner left on that day were never compared',
  async () => {
    const { partnerId } = partner
    await bought(trader, { markup: 0.1 })
    await db('orders').update({ app_id: '998' })
    await reconcileDue(worker)
    assert.is((await read()).complete, true)
    const setBroker = (from: string, to: string) =>
      db.transaction(trx =>
        recordAudit(trx, {
          actor: 'test',
          action: 'partners.set-broker',
          target: partnerId,
          details: { from: { dialect, brokerAppId: from }, to: { dialect, brokerAppId: to } }
        })
      )
    await setBroker('998', String(appId))
    assert.is((await read()).complete, false)
    await db('orders').update({ markup: 0 })
    assert.is((await read()).complete, true, 'nothing of it to compare')
    await db('orders').update({ markup: 0.1, opened_at: new Date(lastReported.getTime() - 2 * DAY_MS) })
    assert.is((await read()).complete, true, 'of another day')
    await db('orders').update({ opened_at: lastReported })
    await storeReconciliation(
      db,
      { ...application, appId: '998' },
      { day, theirs: { sums: [], contracts: [], consistent: true } }
    )
    assert.is((await read()).complete, true, 'compared before it was left')
  }
)

days('is read as of one moment, whether it is complete and its rows', async () => {
  await bought(trader, { markup: 0.1 })
  const theirs = { sums: [{ currency: 'USD', contracts: 1, markup: '0.1' }], contracts: null, consistent: true }
  const { complete, data } = await readBeside(db, 'reconciled_currencies', {
    read,
    change: trx => storeReconciliation(trx, application, { day, theirs })
  })
  assert.equal([complete, data.length], [true, 1])
})

days('that cannot be known is compared again for eight days and no longer', async () => {
  const unknown = async (ago: number) => {
    const at = new Date((Math.floor(Date.now() / DAY_MS) + 0.5 - ago) * DAY_MS)
    await bought(trader, { markup: 0.1, at })
    await db('orders').update({ markup: null })
    const that = at.toISOString().slice(0, 10)
    await reconcilePartner(worker, { partnerId: partner.partnerId, day: that })
    await db('reconciled_days')
      .whereNotNull('again_at')
      .update({ again_at: new Date(0) })
    return (await dueDays(db, application, 20)).includes(that)
  }
  assert.equal([await unknown(7), await unknown(9)], [true, false])
})

days('that is today is compared on request, is not complete, and lacks what the broker reports later', async () => {
  simulator.engine.books.markups.reportDelayMs = 3_600_000
  const now = new Date()
  const today = now.toISOString().slice(0, 10)
  await bought(trader, { markup: 0.1, at: now })
  await reconcilePartner(worker, { partnerId: partner.partnerId, day: today })
  const { data, complete } = (await partner.call(getReconciliation, { query: { from: `${today}T00:00:00Z` } })).body
  assert.equal([complete, data[0].theirs.contracts, data[0].difference], [false, 0, 0.1])
})

days('is left for the next hour where the broker cannot be reached, and those before it stay', async () => {
  await bought(trader, { markup: 0.1 })
  const call = listed ? 'app_markup_statistics' : 'markup-statistics'
  simulator.faults.set({ rules: [{ call, effect: 'error', code: 'InternalServerError', times: 1 }] })
  assert.equal(await reconcilePartner(worker, { partnerId: partner.partnerId, day }), {
    compared: 0,
    rejected: 0,
    failed: 1
  })
  assert.is((await read()).token.status, 'CONNECTED')
  assert.is((await reconcilePartner(worker, { partnerId: partner.partnerId, day })).compared, 1)
})

days('of more contracts than a page of the report has is read to its end', async () => {
  for (let n = 0; n < 2500; n++) await bought(trader, { markup: 0.01, order: false })
  await reconcilePartner(worker, { partnerId: partner.partnerId, day })
  const [row] = (await read()).data
  assert.equal([row.theirs, row.missingHere.length], [{ contracts: 2500, markup: 25 }, listed ? 100 : 0])
})

days("is compared by a worker at the operator's request, who sees both sides and a refused token", async () => {
  await startTestWorker(harness.env)
  await bought(trader, { markup: 0.1 })
  await bought(trader, { markup: 0.25, order: false })
  const reconcile = () =>
    operator(harness.env, 'analytics', 'reconcile', '--partner', partner.partnerId, '--day', day, '--json')
  const done = await reconcile()
  assert.is(done.exitCode, 0, done.stderr)
  const { json } = done
  const [row] = json.data
  assert.equal(
    [json.compared, json.token, row.ours, row.theirs, row.theirContracts, row.difference],
    [1, 'CONNECTED', 0.1, 0.35, 2, -0.25]
  )
  await store('sim-nothing-like-it')
  const refused = await reconcile()
  assert.equal([refused.exitCode, refused.json.token, refused.json.reason], [1, 'REJECTED', 'TOKEN_REFUSED'])
  assert.match(refused.stderr, /^The broker refused the token for its report\.\n$/)
  await partner.call(removeReconciliationToken, {})
  const none = await reconcile()
  assert.is(none.exitCode, 1)
  assert.match(none.stderr, 'POST /v1/analytics/reconciliation/token')
})

days.after(closeAll)
tokens.run()
days.run()
