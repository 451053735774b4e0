// The comparison with the broker's books: whose turn it is, and that no purchase is passed over.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type DueAccount, listBreaks, markCompared, takeDueAccounts } from '../../db/orders/reconciliation.ts'
import type { Config } from '../../schemas/config/config.ts'
import { reconcileAccounts } from '../../worker/accounts/reconciliation.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { unownedSince } from '../../worker/orders/evidence.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import type { SimulatedContract } from '../../worker/simulator/engine/records.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialects } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestTrader } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const CALLS = 1000
const simulator = await startSimulator({
  tickMs: 100,
  seed: 5,
  limits: { outcome: { minute: CALLS, hour: 10 * CALLS } }
})
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator, 'v3') })
const { db, config } = harness.services
const partner = await harness.makePartner()

/** What a worker has open; none runs, which would take turns of its own. */
function openWorker(changes: Partial<Config> = {}): WorkerServices {
  const brokers = openBrokers({ ...config, ...changes }, harness.services.log)
  onClose(() => brokers.close())
  return { ...harness.services, brokers, worker: 'test', clock: systemClock, changes: openSignal() }
}

/** A trader with an order placed just now. */
async function makeActive(): Promise<TestTrader> {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'failed' })
  return trader
}
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000)
const setTurns = (account: string, audited: Date | null, compared: Date | null = audited) =>
  db('broker_accounts').where({ account_id: account }).update({ audited_at: audited, compared_at: compared })
/** Nobody else's turn comes in what follows. */
const setAside = () => db('broker_accounts').update({ status: 'REJECTED' })
const idsOf = (due: DueAccount[]) => due.map(({ accountId }) => accountId).sort()

type NextSettings = NonNullable<Config['brokerNext']>

const turns = suite('the turns of the audit')

turns('an account that could not be compared comes again soon, behind those that fell due before', async () => {
  await setAside()
  const [down, waiting, due] = [await makeActive(), await makeActive(), await makeActive()]
  await setTurns(down.accountId, minutesAgo(30))
  await setTurns(waiting.accountId, minutesAgo(16))
  await setTurns(due.accountId, minutesAgo(14))
  const take = (limit: number) => takeDueAccounts(db, { everyMinutes: 15, limit })
  assert.equal(idsOf(await take(1)), [down.accountId])
  const [taken, ...others] = await take(1)
  assert.equal([taken?.accountId, others], [waiting.accountId, []])
  await markCompared(db, taken as DueAccount, null)
  assert.equal(await take(9), [])

  // Six minutes later: one fell due five minutes ago, the one that was not compared a minute ago.
  await db.raw(`update broker_accounts set audited_at = audited_at - interval '6 minutes',
                                           compared_at = compared_at - interval '6 minutes'`)
  assert.equal(idsOf(await take(1)), [due.accountId])
  assert.equal(idsOf(await take(9)), [down.accountId])
})

turns('that accounts never had come when they are due, and no partner’s accounts keep another’s waiting', async () => {
  await setAside()
  const [long, short] = [await makeActive(), await makeActive()]
  await setTurns(long.accountId, minutesAgo(60))
  await setTurns(short.accountId, minutesAgo(20))
  // New ones: their first orders came between the moments at which those fell due.
  const fresh = [await makeActive(), await makeActive(), await makeActive()]
  for (const { accountId } of fresh)
    await db('orders')
      .where({ account_id: accountId })
      .update({ queued_at: minutesAgo(10) })
  const crowd = await harness.makePartner()
  for (let made = 0; made < 4; made++) await insertOrderRows(db, await crowd.makeTrader(), { phase: 'failed' })
  await db('broker_accounts')
    .where({ partner_id: crowd.partnerId })
    .update({ audited_at: minutesAgo(90), compared_at: minutesAgo(90) })
  const take = async (limit: number) => takeDueAccounts(db, { everyMinutes: 15, limit })
  const partnersOf = (due: DueAccount[]) => due.map(({ partnerId }) => partnerId === crowd.partnerId).sort()
  const first = await take(2)
  assert.equal(partnersOf(first), [false, true])
  assert.ok(idsOf(first).includes(long.accountId))
  const second = await take(4)
  assert.equal(partnersOf(second), [false, false, true, true])
  // New ones before the one that fell due after their orders came.
  assert.not(idsOf(second).includes(short.accountId))
  const third = await Promise.all([take(2), take(2)])
  assert.is(new Set(third.flat().map(({ accountId }) => accountId)).size, 3)
})

turns('accounts of a broker that is down are left, after one attempt, for those of another', async () => {
  await setAside()
  const other = await harness.makePartner()
  await db('partners').where({ id: other.partnerId }).update({ broker_dialect: 'next', broker_app_id: 'app-7Q2' })
  for (let made = 0; made < 3; made++) await insertOrderRows(db, await other.makeTrader(), { phase: 'failed' })
  await makeActive()
  const services = openWorker({ brokerNext: { ...(config.brokerNext as NextSettings), url: 'http://127.0.0.1:9' } })
  const warnings: unknown[] = []
  const log = {
    ...services.log,
    warn: (facts: unknown) => warnings.push(facts)
  } as unknown as WorkerServices['log']
  const { accounts, unreachable } = await reconcileAccounts({ ...services, log }, { everyMinutes: 15 })
  assert.equal({ accounts, unreachable, warned: warnings.length }, { accounts: 1, unreachable: 3, warned: 1 })
})

turns(
  'a comparison goes back to the last one, however long ago that was, and the first one to the first order',
  async () => {
    await setAside()
    const [paused, fresh] = [await makeActive(), await partner.makeTrader()]
    const [compared, ordered] = [minutesAgo(4 * 1440), minutesAgo(3 * 1440)]
    await setTurns(paused.accountId, compared)
    await insertOrderRows(db, fresh, { phase: 'failed', at: ordered })
    const due = await takeDueAccounts(db, { everyMinutes: 15, limit: 9 })
    const since = new Map(due.map(account => [account.accountId, account.since.getTime()]))
    assert.is(since.size, 2)
    assert.is(since.get(paused.accountId), compared.getTime() - 120_000)
    assert.is(since.get(fresh.accountId), ordered.getTime() - 120_000)
  }
)

turns('an account is not tried without end in a dialect that its partner left long ago', async () => {
  await setAside()
  const other = await harness.makePartner()
  const trader = await other.makeTrader()
  const { accountId } = trader
  await insertOrderRows(db, trader, { phase: 'failed' })
  await db('orders').where({ account_id: accountId }).update({ attempt: 2, dialect: 'v3', app_id: appIds.v3 })
  // The operator's command is older than what the audit log is read for.
  await db('partners').where({ id: other.partnerId }).update({ broker_dialect: 'next', broker_app_id: appIds.next })
  const due = await takeDueAccounts(db, { everyMinutes: 15, limit: 9 })
  assert.equal(
    due.map(({ dialect, appId, isLeft }) => [dialect, appId, isLeft]),
    [['next', appIds.next, false]]
  )
})

const books = suite('the books of a busy account')
// The partner's application as the simulator's books name it; the newer dialect's lists do not show it.
const OURS = Number(appIds.v3)
const seconds = (atMs: number) => Math.floor(atMs / 1000)

/** Purchases as they are in the broker's books, long settled: copies of one that was really made, in another account. */
async function openBooks(contractType: 'CALL' | 'PUT') {
  const other = newAccountId()
  const session = await openWorker()
    .brokers.of('v3')
    .session({ accountId: other, appId: appIds.v3, token: async () => `sim-${other}` })
  const terms = { contractType, asset: 'R_100', stake: '10', currency: 'USD', duration: 5, durationUnit: 't' } as const
  await session.buy({ kind: 'BINARY', barrier: null, ...terms }, { beforeSend: () => {}, maxPrice: '10' })
  const { engine } = simulator
  const [original] = [...engine.contracts.values()].filter(({ account }) => account.loginid === other)
  assert.ok(original)
  return (accountId: string, appId: number, atMs: number): string => {
    const { account } = engine.accounts.grant(`sim-${accountId}`)
    const { id, buyTransaction } = engine.books.newIds()
    const copy = {
      ...(original as SimulatedContract),
      account,
      appId,
      id,
      buyTransaction,
      boughtMs: atMs,
      startEpoch: seconds(atMs)
    }
    engine.books.restorePurchase(copy)
    const sale = {
      status: 'lost',
      cents: 0,
      appId: 2,
      soldMs: atMs + 1000,
      transactionId: engine.books.newIds().buyTransaction
    } as const
    engine.books.restoreSale(copy, sale)
    return String(id)
  }
}

// Of orders for the same contracts as those in the books.
const terms = { contract_type: 'CALL', duration: 5, duration_unit: 't' }

for (const dialect of dialects)
  books(`(${dialect}) are read from the oldest on, so much in a turn, until nothing is left out`, async () => {
    await setAside()
    const [call, put] = [await openBooks('CALL'), await openBooks('PUT')]
    const { partnerId, makeTrader } = await harness.makePartner()
    await db('partners').where({ id: partnerId }).update({ broker_dialect: dialect, broker_app_id: appIds[dialect] })
    const trader = await makeTrader()
    const { accountId } = trader
    const [first, last] = [minutesAgo(120), minutesAgo(5)]
    for (const at of [first, last]) await insertOrderRows(db, trader, { phase: 'failed', at })
    await db('orders')
      .where({ account_id: accountId })
      .update({ ...terms, attempt: 2 })

    // A frozen sender's contract at either end, and between them what the trader buys with other software.
    const orphans = [call(accountId, OURS, first.getTime() + 1000)]
    for (let n = 0; n < 8000; n++) put(accountId, 99, first.getTime() + 60_000 + n * 800)
    orphans.push(call(accountId, OURS, last.getTime() + 1000))
    const found = async () =>
      (await listBreaks(db, 100)).filter(finding => finding.accountId === accountId).map(({ contractId }) => contractId)

    const ends: unknown[] = []
    for (let turn = 0; ends.at(-1) !== 0 && turn < 9; turn++) {
      const services = openWorker()
      const summary = await reconcileAccounts(services, { everyMinutes: 0 })
      assert.equal([summary.accounts, summary.unreachable], [1, 0])
      ends.push(summary.behind)
      if (turn === 0) assert.equal(await found(), orphans.slice(0, 1))
      if (dialect === 'v3') {
        const calls = CALLS * (1 - (services.brokers.budget()['v3:outcome'] as number))
        assert.ok(calls > 1 && calls < 16.5, `${calls} calls in a turn`)
      }
    }
    assert.ok(ends.length > 2 && ends.at(-1) === 0, JSON.stringify(ends))
    assert.equal((await found()).sort(), orphans.sort())
    // Neither its orders nor a turn that was broken off bring it back.
    await db('orders').where({ account_id: accountId }).update({ queued_at: first })
    assert.equal(await takeDueAccounts(db, { everyMinutes: 0, limit: 9 }), [])
  })

books('show no contract of ours beside an order that was never sent: the trader bought it', async () => {
  await setAside()
  const call = await openBooks('CALL')
  const { partnerId, makeTrader } = await harness.makePartner()
  const [broker_dialect, broker_app_id] = ['next', appIds.next]
  await db('partners').where({ id: partnerId }).update({ broker_dialect, broker_app_id })
  const at = minutesAgo(30)
  const bought = async (sent: boolean): Promise<string> => {
    const trader = await makeTrader()
    await insertOrderRows(db, trader, { phase: 'failed', at })
    const attempt = db.raw('attempt + ?', [sent ? 1 : 0])
    await db('orders')
      .where({ account_id: trader.accountId })
      .update({ ...terms, attempt })
    return call(trader.accountId, OURS, at.getTime() + 1000)
  }
  const [own, frozen] = [await bought(false), await bought(true)]
  await reconcileAccounts(openWorker(), { everyMinutes: 0 })
  const found = (await listBreaks(db, 100)).filter(({ contractId }) => [own, frozen].includes(contractId))
  assert.equal(
    found.map(({ kind, contractId }) => [kind, contractId]),
    [['ORPHAN', frozen]]
  )
})

/** The contracts that the books, as they are compared before a purchase after a restore, show since then in v3 without an order. */
async function unownedOf(partnerId: string, accountId: string, since: Date, until = new Date()): Promise<string[]> {
  const { id } = await db('broker_accounts').where({ account_id: accountId }).first('id')
  const order = {
    ...{ partner_id: partnerId, account_id: accountId, broker_account_id: id },
    ...{ app_id: '77', dialect: 'v3' as const }
  }
  const now = { nowMs: Date.now(), wallMs: Date.now() }
  const unowned = await unownedSince(openWorker(), order, { since, until, ...now })
  return unowned.map(({ contractId }) => contractId)
}

books('show a contract that was bought under the application that the partner had before', async () => {
  await setAside()
  const call = await openBooks('CALL')
  const { partnerId, makeTrader } = await harness.makePartner()
  const trader = await makeTrader()
  const { accountId } = trader
  const at = minutesAgo(30)
  await db('partners')
    .where({ id: partnerId })
    .update({ broker_app_id: String(OURS) })
  await insertOrderRows(db, trader, { phase: 'failed', at })
  const [orphan, strange] = [OURS, 5].map(appId => call(accountId, appId, at.getTime() + 1000))
  const change = ['partners', 'set-broker', partnerId, '--dialect', 'v3', '--broker-app-id', '77', '--json']
  assert.is((await operator(harness.env, ...change)).exitCode, 0)
  await reconcileAccounts(openWorker(), { everyMinutes: 0 })
  const found = (await listBreaks(db, 100)).filter(({ contractId }) => [orphan, strange].includes(contractId))
  assert.equal(
    found.map(({ kind, contractId }) => [kind, contractId]),
    [['ORPHAN', orphan]]
  )
  assert.equal(await unownedOf(partnerId, accountId, at), [orphan])
  // Nothing that was bought later was lost.
  assert.equal(await unownedOf(partnerId, accountId, minutesAgo(40), minutesAgo(35)), [])
})

books(
  'show a contract that was bought in a dialect that the partner has left, and where its account is refused',
  async () => {
    await setAside()
    const call = await openBooks('CALL')
    const { partnerId, makeTrader } = await harness.makePartner()
    const traders = [await makeTrader(), await makeTrader()]
    const at = minutesAgo(30)
    const late = []
    for (const trader of traders) {
      await insertOrderRows(db, trader, { phase: 'failed', at })
      late.push(call(trader.accountId, OURS, at.getTime() + 1000))
    }
    await db('orders')
      .where({ partner_id: partnerId })
      .update({ ...terms, attempt: 2, app_id: appIds.v3, queued_at: minutesAgo(20) })
    const change = ['partners', 'set-broker', partnerId, '--dialect', 'next', '--broker-app-id', appIds.next, '--json']
    assert.is((await operator(harness.env, ...change)).exitCode, 0)
    // An order in the new dialect showed that the token is not good there; of the other trader nothing is known yet.
    const [refused, gone] = traders as [TestTrader, TestTrader]
    await insertOrderRows(db, refused, { phase: 'failed' })
    await db('orders')
      .where({ account_id: refused.accountId, dialect: 'next' })
      .update({ queued_at: minutesAgo(10) })
    await db('broker_accounts').where({ account_id: refused.accountId }).update({ status: 'REJECTED' })
    await reconcileAccounts(openWorker(), { everyMinutes: 0 })
    const found = (await listBreaks(db, 100)).filter(finding => finding.partnerId === partnerId)
    assert.equal(
      found.map(({ kind, contractId }) => [kind, contractId]).sort(),
      late.map(contractId => ['ORPHAN', contractId]).sort()
    )
    assert.equal(await takeDueAccounts(db, { everyMinutes: 0, limit: 9 }), [])
    // That the token is good there proves nothing of the dialect that the partner has now.
    const proven = db('broker_accounts').where({ partner_id: partnerId }).whereNotNull('proven_version')
    assert.equal(await proven.clone(), [])

    // A token that is refused there as well ends it, and so does the end of that dialect here; an erased trader has none.
    const again = { audited_at: minutesAgo(30), compared_at: minutesAgo(40) }
    const turn = async (changes: Partial<Config> = {}) => {
      await db('broker_accounts').where({ partner_id: partnerId }).update(again)
      const { unreachable } = await reconcileAccounts(openWorker(changes), { everyMinutes: 0 })
      return [unreachable, (await takeDueAccounts(db, { everyMinutes: 0, limit: 9 })).length]
    }
    simulator.faults.add({ effect: 'error', call: 'authorize', code: 'InvalidToken', appId: OURS })
    assert.equal(await turn(), [2, 0])
    assert.equal(await turn({ brokerUrl: undefined, brokerDialect: 'next' }), [2, 0])
    await db('broker_accounts').where({ account_id: gone.accountId }).update({ status: 'REJECTED' })
    await db('traders').where({ id: gone.traderId }).update({ connected_at: null })
    assert.equal(await turn(), [1, 0])
    simulator.faults.reset()
    // Nobody's turn any more.
    await db('orders').where({ partner_id: partnerId }).update({ attempt: 1 })
  }
)

books('show a contract of the other dialect, whose application the lists name by another id', async () => {
  await setAside()
  const call = await openBooks('CALL')
  const { partnerId, makeTrader } = await harness.makePartner()
  const trader = await makeTrader()
  const { accountId } = trader
  const [broker_dialect, broker_app_id] = ['next', appIds.next]
  await db('partners').where({ id: partnerId }).update({ broker_dialect, broker_app_id })
  const at = minutesAgo(30)
  await insertOrderRows(db, trader, { phase: 'failed', at })
  await db('orders')
    .where({ account_id: accountId })
    .update({ ...terms, attempt: 2, app_id: broker_app_id })
  const change = ['partners', 'set-broker', partnerId, '--dialect', 'v3', '--broker-app-id', '77', '--json']
  assert.is((await operator(harness.env, ...change)).exitCode, 0)
  // It trades on there.
  await insertOrderRows(db, trader, { phase: 'failed' })
  await db('orders').where({ account_id: accountId, dialect: 'v3' }).update({ attempt: 2 })
  // The trader's own of an hour earlier was not ours at any time.
  const [own, orphan] = [-3600, 1].map(after => call(accountId, 424242, at.getTime() + after * 1000))
  await reconcileAccounts(openWorker(), { everyMinutes: 0 })
  const found = (await listBreaks(db, 100)).filter(({ contractId }) => [own, orphan].includes(contractId))
  assert.equal(
    found.map(({ kind, contractId }) => [kind, contractId]),
    [['ORPHAN', orphan]]
  )
  assert.equal(await unownedOf(partnerId, accountId, at), [orphan])
})

books('go on where they were left without a new order', async () => {
  await setAside()
  const { accountId } = await makeActive()
  await db('orders')
    .where({ account_id: accountId })
    .update({ queued_at: minutesAgo(90) })
  await setTurns(accountId, minutesAgo(100))
  const [taken] = await takeDueAccounts(db, { everyMinutes: 15, limit: 9 })
  const until = seconds(minutesAgo(60).getTime())
  await markCompared(db, taken as DueAccount, until)
  const [again] = await takeDueAccounts(db, { everyMinutes: 0, limit: 9 })
  assert.is(again?.since.getTime(), until * 1000)
})

books.after(closeAll)
turns.run()
books.run()
