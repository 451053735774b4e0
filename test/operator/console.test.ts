// test in the full run only
// test time-out: 300 s
// The operator's console: what it reads, against a real database, and the real program in a real terminal.
import { userInfo } from 'node:os'
import { stripVTControlCharacters } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { analytics } from '../../cli/console/analytics.ts'
import { frame } from '../../cli/console/frame.ts'
import { offsetText, statusOf } from '../../cli/console/order.ts'
import { overview } from '../../cli/console/overview.ts'
import { partners } from '../../cli/console/partners.ts'
import { widthOf } from '../../cli/console/text.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { getPayout, requestPayout } from '../../db/money/payouts.ts'
import { topUp } from '../../db/money/wallets.ts'
import { markUnsettled, unmarkUnsettled } from '../../db/orders/review.ts'
import { findPartner } from '../../db/partners/partners.ts'
import { listAudit } from '../../db/platform/audit.ts'
import {
  listDoubtLines,
  listEarningLines,
  listOrderLines,
  listPartnerLines,
  listTraderLines,
  listWalletLines,
  type PhaseCount,
  readLedger,
  readMinutes,
  readPhaseCounts,
  readShortly
} from '../../db/platform/console.ts'
import type { Halt } from '../../db/platform/halts.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { deadLetterOf } from '../../schemas/jobs.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { rowsRead } from '../support/rows-read.ts'
import { hasTerminal, openTerminal } from '../support/terminal.ts'
import { makeTestSide } from '../support/test-side.ts'

const harness = await openHarness()
const { services, env, makePartner } = harness
const { db } = services
const actor = `cli:${userInfo().username} (tester)`

interface Made {
  phase: 'queued' | 'sending' | 'open' | 'closed' | 'failed' | 'review'
  asset?: string
  /** How long ago it was made. */
  secondsAgo?: number
  evidence?: object[]
}

/** An order as it is in a phase; how orders get there is tested elsewhere. */
async function makeOrder(
  trader: TestTrader,
  { phase, asset = 'R_100', secondsAgo = 5, evidence }: Made
): Promise<string> {
  const id = newId('order')
  const sent = !['queued', 'failed'].includes(phase)
  const bought = phase === 'open' || phase === 'closed'
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode,
       currency, app_id, dialect, kind, contract_type, client_order_id, request_hash, asset, stake, duration, duration_unit,
       phase, created_at, queued_at, expires_at, sent_at, permit_until, resolve_at, broker_order_id, buy_price, payout,
       opened_at, answered_at, pnl, closed_at, error_code, error_message, evidence)
     select :id, t.partner_id, t.id, t.external_id, a.id, a.account_id, a.account_mode, 'USD', '1', 'v3', 'BINARY', 'CALL',
       cast(gen_random_uuid() as text), '\\x00', :asset, 10, 5, 't', :phase, m.at, m.at, m.at + interval '10 seconds',
       case when :sent then m.at end, case when :sent then m.at + interval '3 seconds' end,
       case when :sent then m.at + interval '20 seconds' end,
       case when :bought then right(:id, 12) end, case when :bought then 10 end, case when :bought then 19.5 end,
       case when :bought then date_trunc('second', m.at) end,
       case when :bought then m.at + interval '400 milliseconds' end,
       case when :phase = 'closed' then -10 end, case when :phase = 'closed' then m.at + interval '2 seconds' end,
       case when :phase in ('failed', 'review') then 'REVIEW_REQUIRED' end,
       case when :phase in ('failed', 'review') then 'Two contracts could be it.' end, cast(:evidence as jsonb)
     from traders t join broker_accounts a on a.id = t.active_account_id,
       (select clock_timestamp() - :secondsAgo * interval '1 second' as at) m
     where t.id = :traderId`,
    {
      id,
      asset,
      phase,
      sent,
      bought,
      secondsAgo,
      traderId: trader.traderId,
      evidence: JSON.stringify(evidence ?? null)
    }
  )
  return id
}

const candidate = (contractId: string) => ({
  source: 'statement',
  contractId,
  transactionId: '1',
  appId: '1',
  buyPrice: '10',
  payout: '19.5',
  purchaseTime: Math.floor(Date.now() / 1000),
  shortcode: 'CALL_R_100_19.5_1700000000_5T_S0P_0'
})

const acme = await makePartner({ name: 'Acme Markets', plan: 'PRO' })
const other = await makePartner({ name: 'Výběr 取引 with quite a long name for a partner, longer than a column' })
const trader = await acme.makeTrader({ externalId: 'customer-17' })
const doubted = await acme.makeTrader({ externalId: 'customer-18' })
const closed = await makeOrder(trader, { phase: 'closed' })
const opened = await makeOrder(trader, { phase: 'open', asset: 'R_50' })
const failed = await makeOrder(trader, { phase: 'failed', asset: 'frxEURUSD' })
const sending = await makeOrder(doubted, { phase: 'sending', secondsAgo: 40 })
const review = await makeOrder(doubted, {
  phase: 'review',
  secondsAgo: 3700,
  evidence: [candidate('290769704688'), candidate('290769704689')]
})
await db.transaction(trx =>
  topUp(trx, { partnerId: acme.partnerId, amountUsd: '12345.60', prices: services.config.planPrices })
)
await db.transaction(trx =>
  transfer(trx, {
    reference: 'sale of a bot',
    kind: 'sale',
    entries: move(accounts.world, accounts.earnings(acme.partnerId), '100.00')
  })
)
const asPayout = (amountUsd: string) =>
  db.transaction(trx =>
    requestPayout(trx, { partnerId: acme.partnerId, amountUsd, destinationAddress: `T${amountUsd.padEnd(33, 'x')}` })
  )
const small = await asPayout('10.50')
const large = await asPayout('60.00')
await db('pgboss.job').insert({
  name: deadLetterOf('template.deploy'),
  data: JSON.stringify({ deploymentId: newId('deployment'), revision: 1 })
})

const reading = suite('what the console reads')

reading('is read in a transaction that cannot write and ends a statement after 3 s', async () => {
  await readShortly(db, async trx => {
    const { rows } = await trx.raw('show statement_timeout')
    assert.equal(rows, [{ statement_timeout: '3s' }])
  })
  const writing = await readShortly(db, trx => trx('partners').update({ name: 'x' })).catch(error => error)
  assert.is(writing.code, '25006')
})

reading('counts the orders of the last minutes, and no older ones', async () => {
  const minutes = await readMinutes(db, 30)
  const sum = (field: 'placed' | 'failed') => minutes.reduce((total, minute) => total + minute[field], 0)
  assert.equal([sum('placed'), sum('failed')], [4, 1])
  assert.ok(minutes.some(({ brokerMs }) => brokerMs === 400))
  // Orders of test keys are executed by the test broker.
  const tester = await (await makeTestSide(harness, acme)).makeTrader()
  await insertOrderRows(db, tester, { phase: 'open', at: new Date(Date.now() - 5000), count: 9 })
  const tested = () => db('orders').where({ trader_id: tester.traderId })
  await tested().update({ sent_at: db.ref('created_at'), answered_at: db.raw(`created_at + interval '5 ms'`) })
  for (const { brokerMs } of await readMinutes(db, 30))
    assert.ok(brokerMs === null || brokerMs === 400, String(brokerMs))
  await tested().delete()
})

reading('counts the orders of the minutes in which the overview was not shown', async () => {
  const place = { filter: '', search: '' }
  const read = (before?: Awaited<ReturnType<typeof overview.read>>) =>
    overview.read(db, place, { config: services.config, before })
  const id = await makeOrder(trader, { phase: 'failed', secondsAgo: 300 })
  const readTwice = async () => {
    const whole = await read()
    // As ten minutes later, when nothing of them is known.
    const ago = whole.minute - 600
    const again = await read({ ...whole, minute: ago, minutes: whole.minutes.filter(({ at }) => at < ago) })
    return { whole, again }
  }
  // Each within one minute: with the next one the first of the minutes is none of the window any more.
  const { whole, again } = await until('both in a minute', async () => {
    const both = await readTwice()
    return both.whole.minute === both.again.minute && both
  })
  assert.equal(again.minutes, whole.minutes)
  await db('orders').where({ id }).delete()
})

async function drawOverview(): Promise<string> {
  const place = { filter: '', search: '' }
  const read = await readShortly(db, trx => overview.read(trx, place, { config: services.config, before: undefined }))
  const { lines } = overview.draw(read, place, { columns: 100, rows: 24 })
  return stripVTControlCharacters(lines.map(({ text }) => text).join('\n'))
}

reading('counts orders by phase, with the age of the oldest', async () => {
  const phases = await readPhaseCounts(db)
  const of = (phase: string) => phases.find(each => each.phase === phase)
  assert.equal(
    ['queued', 'sending', 'review', 'open'].map(phase => of(phase)?.count),
    [0, 1, 1, 1]
  )
  assert.ok((of('review')?.oldestSeconds ?? 0) > 3600)
  assert.is(of('queued')?.oldestSeconds, null)
})

reading('leaves the orders of test keys out of what waits for the operator', async () => {
  const before = await readPhaseCounts(db)
  const made = [await makeOrder(trader, { phase: 'review' }), await makeOrder(trader, { phase: 'sending' })]
  await db('orders').whereIn('id', made).update({ dialect: 'test' })
  const inDoubt = (counts: PhaseCount[]) => counts.filter(({ phase }) => phase !== 'open').map(({ count }) => count)
  assert.equal(inDoubt(await readPhaseCounts(db)), inDoubt(before))
  assert.equal(
    (await listDoubtLines(db, 10)).map(({ id }) => id),
    [review, sending]
  )
  await db('orders').whereIn('id', made).delete()
})

reading('counts the orders that wait for their account to be proven', async () => {
  await insertOrderRows(db, trader, { phase: 'unproven', at: new Date(Date.now() - 100_000) })
  assert.match(await drawOverview(), /\nUnproven +1, the oldest for /)
  await db('orders').where({ phase: 'unproven' }).delete()
})

reading('lists partners with traders and balance, and finds them by name and id', async () => {
  const found = await listPartnerLines(db, { text: 'acme', limit: 10 })
  assert.equal(
    found.map(({ partnerId, plan, saasStatus, traders, balanceUsd }) => [
      partnerId,
      plan,
      saasStatus,
      traders,
      balanceUsd
    ]),
    [[acme.partnerId, 'PRO', 'ACTIVE', 2, '12345.60']]
  )
  const [byId] = await listPartnerLines(db, { text: other.partnerId, limit: 10 })
  assert.equal([byId?.partnerId, byId?.balanceUsd], [other.partnerId, '0.00'])
  const traders = await listTraderLines(db, { partnerId: acme.partnerId, limit: 1 })
  assert.equal(
    traders.map(({ externalId, accountId }) => [externalId, accountId]),
    [['customer-17', trader.accountId]]
  )
})

reading('lists orders newest first, by status and by text', async () => {
  const idsOf = async (filter: { status?: string; text?: string }) =>
    (await listOrderLines(db, { ...filter, limit: 10 })).map(({ id }) => id)
  assert.equal(await idsOf({}), [review, sending, failed, opened, closed])
  assert.equal(await idsOf({ status: 'FAILED' }), [failed])
  assert.equal(await idsOf({ status: 'REVIEW' }), [review])
  assert.equal(await idsOf({ status: 'PENDING' }), [sending])
  assert.equal(await idsOf({ text: 'EURUSD' }), [failed])
  assert.equal(await idsOf({ text: 'customer-18' }), [review, sending])
  assert.equal(await idsOf({ text: '%' }), [])
})

reading('lists an open order whose end waits for the operator among those in review, as the command does', async () => {
  await markUnsettled(db, { id: opened, why: ['it contradicts itself'] })
  const listed = JSON.parse((await operator(env, 'orders', 'list', '--status', 'REVIEW', '--json')).stdout)
  const orders = await listOrderLines(db, { status: 'REVIEW', limit: 10 })
  assert.equal(
    [orders.map(({ id }) => id), orders.map(statusOf)],
    [
      [review, opened],
      ['REVIEW', 'REVIEW']
    ]
  )
  assert.equal(
    listed.data.map(({ orderId }: { orderId: string }) => orderId),
    [review, opened]
  )
  // As the doctor counts them: one in doubt, and this one.
  const texts = await drawOverview()
  assert.match(texts, /\nOpen +1; 1 wait for your decision\n/)
  assert.match(texts, /\nIn doubt +2, .*; 1 wait for your decision\n/)
  await unmarkUnsettled(db, opened)
  assert.match(await drawOverview(), /\nOpen +1\n/)
})

reading('counts open orders without reading them, however many there are', async () => {
  const before = await db('orders').select('id')
  await insertOrderRows(db, trader, { phase: 'open', count: 2000 })
  await db.raw('vacuum analyze orders')
  const read = await rowsRead(db, 'orders', readPhaseCounts)
  await db('orders')
    .whereNotIn(
      'id',
      before.map(({ id }) => id)
    )
    .delete()
  assert.ok(read < 200, `${read} rows`)
})

reading('lists what is in doubt, reviews first, with how many contracts it could be', async () => {
  const lines = await listDoubtLines(db, 10)
  assert.equal(
    lines.map(({ id, phase, candidates }) => [id, phase, candidates]),
    [
      [review, 'review', 2],
      [sending, 'sending', 0]
    ]
  )
})

reading('sums the ledger and lists the emptiest wallets first', async () => {
  assert.equal(await readLedger(db), { wallets: 1, heldUsd: '12345.60', negativeWallets: 0, driftUsd: '0.00' })
  assert.equal(
    (await listWalletLines(db, 5)).map(({ partnerId, balanceUsd }) => [partnerId, balanceUsd]),
    [[acme.partnerId, '12345.60']]
  )
})

// The last of these: its orders are in no list above.
reading('lists what partners earned in 30 days, by currency, with a sum for each day', async () => {
  const earned = await acme.makeTrader({ externalId: 'customer-19' })
  // What a test side made is play money, and is not among them.
  const tester = await (await makeTestSide(harness, acme)).makeTrader()
  for (const trader of [earned, tester])
    await insertOrderRows(db, trader, { at: new Date(Date.now() - 3 * 86_400_000), count: 5 })
  await db('orders').where({ trader_id: earned.traderId }).update({ markup: '0.5' })
  await db.raw(
    `update analytics_until set until = date_bin('1 day', now() - interval '4 days', timestamptz '2000-01-01 00:00+00')`
  )
  while (await addUpAnalytics(db));
  const of = (mode: 'REAL' | 'DEMO') => listEarningLines(db, { mode, days: 30, limit: 10 })
  assert.equal(await of('REAL'), [])
  const [line, ...others] = await of('DEMO')
  assert.equal(
    [line?.partnerId, line?.currency, line?.contracts, line?.stake, line?.markup],
    [acme.partnerId, 'USD', 5, '50', '2.5']
  )
  assert.equal([line?.days.length, line?.days.at(-4), others], [30, '2.5', []])
  // As in the first minutes of a day: of the day before all is added up but its last quarter of an hour.
  const yesterday = new Date(Math.floor(Date.now() / 86_400_000) * 86_400_000 - 43_200_000)
  await insertOrderRows(db, earned, { at: yesterday, count: 2 })
  await db('orders').where({ trader_id: earned.traderId }).update({ markup: '0.5' })
  while (await addUpAnalytics(db));
  const lastQuarter = `(now() at time zone 'UTC')::date::timestamp at time zone 'UTC' - interval '15 minutes'`
  await db.raw(`update analytics_until set until = ${lastQuarter}`)
  await db.raw(`delete from analytics_quarters where quarter >= ${lastQuarter}`)
  await db.raw(`delete from analytics_days where day >= (now() at time zone 'UTC')::date - 1`)
  assert.is((await of('DEMO'))[0]?.days.at(-2), '1.0')
})

const narrow = suite('the console on a narrow terminal')

narrow('keeps the id of a halted partner whole, on a line of its own', () => {
  const halt = {
    scope: 'partner',
    subject: acme.partnerId,
    reason: 'wrong prices since 08:12',
    actor,
    haltedAt: new Date()
  }
  const ledger = { wallets: 0, heldUsd: '0', negativeWallets: 0, driftUsd: '0' }
  const read = { minute: 0, minutes: [], phases: [], queues: [], ledger, halts: [halt as Halt] }
  for (const columns of [50, 64, 80, 200]) {
    const { lines } = overview.draw(read, { filter: '', search: '' }, { columns, rows: 24 })
    const texts = lines.map(({ text }) => stripVTControlCharacters(text))
    assert.ok(
      texts.every(text => text.length <= columns),
      String(columns)
    )
    assert.is(texts.filter(text => text.includes(acme.partnerId)).length, 1, `${columns}: ${texts.join('\n')}`)
    assert.match(texts.join('\n'), 'wrong prices since 08:12')
  }
})

narrow('keeps a line within its width where letters take two columns', () => {
  const width = 40
  const drawn = { head: [], lines: [] }
  const mode = { kind: 'type', label: '理由', text: `${'価格が違う'.repeat(9)}終`, use: () => {} } as const
  const parts = { tabs: ['Overview'], tab: 0, now: new Date(), actions: [], opened: false, drawn, mode }
  const typed = stripVTControlCharacters(frame(parts, { columns: width, rows: 24 }).at(-2) as string)
  assert.ok(widthOf(typed) <= width, typed)
  // The end is what is being typed.
  assert.match(typed, /^理由: .*終▏$/)
  const partner = {
    name: 'Acme',
    partnerId: acme.partnerId,
    traders: 0,
    saasStatus: 'SUSPENDED',
    suspendedReason: '支払いが遅れている',
    plan: 'PRO',
    balanceUsd: '1.00'
  }
  const data = { partner: { ...partner, brokerDialect: 'v3', createdAt: new Date() }, traders: [], orders: [] }
  const { head } = partners.draw(data as never, { filter: '', search: '' }, { columns: width, rows: 24 })
  const about = head.map(stripVTControlCharacters).find(text => text.includes('支払い')) ?? ''
  assert.ok(about !== '' && widthOf(about) <= width, about)
})

narrow('shows what an application earned in a coin with all its decimals', () => {
  const day = { start: new Date('2026-11-21T00:00:00Z'), currency: 'BTC', contracts: 2, traders: 1 }
  const sums = { stake: '0.00123456', payout: '0', pnl: '0', markup: '0.00001234', markupUnknown: 0, group: null }
  const data = { name: 'Acme', days: [{ ...day, ...sums }], complete: true, asOf: new Date(), readAtMs: 0 }
  const place = { opened: `${acme.partnerId} BTC`, filter: '', search: '' }
  const { head, lines } = analytics.draw(data as never, place, { columns: 100, rows: 24 })
  assert.match(head.join(), '2 contracts, stakes 0.00123456, markup 0.00001234')
  assert.match(lines[0]?.text ?? '', ' 0.00001234 ')
})

narrow('shows what a clock that is behind dates before an order was placed as before it', () => {
  assert.equal([0, 412, -412, 200_000, -65_000].map(offsetText), ['', '+0.412 s', '−0.412 s', '+3 m 20 s', '−1 m 5 s'])
})

narrow.run()

const refusals = suite('operator console')

refusals('refuses without a terminal and with --json, in one line, and opens nothing', async () => {
  const nowhere = { ...env, DATABASE_URL: 'postgres://nobody@127.0.0.1:9/nothing' }
  for (const [args, said] of [
    [['console'], /needs a terminal/],
    [['console', '--json'], /no JSON/]
  ] as const) {
    const { exitCode, stdout, stderr } = await operator(nowhere, ...args)
    assert.equal([exitCode, stdout], [1, ''])
    assert.match(stderr, said)
    assert.is(stderr.trim().split('\n').length, 1)
  }
})

const screens = suite('the console in a terminal')
const inTerminal = hasTerminal
  ? screens
  : (name: string, _test: () => Promise<void>) => console.log(`SKIPPED ${name}: tmux is not installed here`)

for (const [columns, rows] of [
  [80, 24],
  [200, 50]
] as const) {
  inTerminal(`shows every view with its rows and keys within ${columns} by ${rows}`, async () => {
    const plain: Record<string, string> = rows === 24 ? { NO_COLOR: '1', CI: 'true' } : {}
    const terminal = await openTerminal({ ...env, ...plain }, { args: ['console'], columns, rows })
    const look = async (name: string, ...wanted: (string | RegExp)[]) => {
      const lines = await terminal.shows(name, 'q quit', ...wanted)
      if (process.env.TEST_SCREENS) console.log(`${lines.join('\n')}\n${'='.repeat(columns)}`)
      assert.ok(lines.length <= rows && lines.every(line => [...line].length <= columns))
      return lines
    }
    await look('[1 Overview]', 'Broker p50', '400 ms', 'wait for your decision', 'template.deploy 1', '12,345.60 USD')
    assert.is((await terminal.coloured()).includes('\u001b['), rows !== 24)
    await terminal.press('2')
    await look('[2 Partners]', 'Acme Markets', 'PRO', 'ACTIVE', '12,345.60')
    await terminal.press('Down', 'Enter')
    await look('[2 Partners]', acme.partnerId, 'customer-17', trader.accountId, 'R_100', 'esc back')
    await terminal.press('3')
    await look('[3 Orders]', 'CLOSED', 'FAILED', 'REVIEW', 'f filter')
    // A key is for what is on the screen: on a busy machine a second one comes before the first has been read.
    await terminal.press('f')
    await look('PENDING orders')
    await terminal.press('f')
    const filtered = await look('OPEN orders', 'R_50')
    assert.not.match(filtered.join('\n'), 'REVIEW')
    await terminal.press('Enter')
    await look(opened, 'What happened', 'Bought', '+0.400 s')
    await terminal.press('4')
    await look('[4 Doubt]', 'REVIEW', /[❯ ] 1 h \d+ m/)
    await terminal.press('Enter')
    await look(review, '290769704688', 'CALL_R_100', `operator orders reconcile ${review}`, 'x declare absent')
    await terminal.press('Tab')
    await look('[5 Queues]', 'order.place', 'template.deploy', 'Dead')
    await terminal.press('6')
    await look('[6 Money]', '10.50', '60.00', 'REQUESTED', small.destinationAddress, 'Acme Markets', 'a approve')
    await terminal.press('7')
    await look('[7 Analytics]', 'REAL accounts', 'None.', 'm mode')
    await terminal.press('m')
    await look('DEMO accounts', 'Acme Markets', 'USD', '3.50', 'enter open')
    await terminal.press('Enter')
    await look('Acme Markets', '9 contracts, stakes 90.00, markup 3.50', 'b bars', /\d{4}-\d\d-\d\d +5 +1 +2\.50 +█+/)
    await terminal.press('b')
    await look('b bars', /Markup +contracts/)
    await terminal.press('Escape')
    await look('DEMO accounts', 'Acme Markets')
    await terminal.press('q')
    const left = await terminal.shows('ENDED 0')
    assert.equal(left.slice(0, 2), ['BEFORE', 'ENDED 0'])
  })
}

inTerminal('requires confirmation before it suspends or approves, and writes who did it', async () => {
  const terminal = await openTerminal(env, { args: ['console'], columns: 80, rows: 24 })
  const standing = async () => (await findPartner(db, other.partnerId))?.saasStatus
  await terminal.press('2')
  await terminal.shows('❯ Výběr', 's suspend')
  await terminal.press('s')
  await terminal.shows('Reason to suspend')
  await terminal.type('unpaid invoice')
  await terminal.shows('unpaid invoice')
  await terminal.press('Enter')
  await terminal.shows('Its calls are refused from now on. [y/n]', other.partnerId, 'n no')
  assert.is(await standing(), 'ACTIVE')
  await terminal.press('n')
  await terminal.shows('Nothing was changed.')
  assert.equal([await standing(), (await listAudit(db, { target: other.partnerId, limit: 9 })).data], ['ACTIVE', []])
  await terminal.press('s')
  await terminal.shows('Reason to suspend')
  await terminal.type('unpaid invoice')
  await terminal.shows('unpaid invoice')
  await terminal.press('Enter')
  await terminal.shows('[y/n]')
  await terminal.press('y')
  await terminal.shows(/is\s+suspended\./, 'SUSPENDED', 'u resume')
  assert.is(await standing(), 'SUSPENDED')
  const [suspended] = (await listAudit(db, { target: other.partnerId, limit: 9 })).data
  assert.equal(
    [suspended?.actor, suspended?.action, suspended?.details],
    [actor, 'partners.suspend', { reason: 'unpaid invoice' }]
  )

  await terminal.press('6')
  await terminal.shows('❯', '60.00', 'checksum', 'a approve')
  await terminal.press('a')
  await terminal.shows('The checksum of the address is wrong.')
  await terminal.type('confirmed by phone')
  await terminal.shows('confirmed by phone')
  await terminal.press('Enter')
  await terminal.shows('Approve', large.payoutId, '[y/n]')
  assert.is((await getPayout(db, large.payoutId)).status, 'REQUESTED')
  await terminal.press('y')
  await terminal.shows('is approved.', 'APPROVED')
  assert.is((await getPayout(db, large.payoutId)).status, 'APPROVED')
  const [approved] = (await listAudit(db, { target: large.payoutId, limit: 9 })).data
  assert.equal([approved?.actor, approved?.action], [actor, 'payouts.approve'])
  assert.is((approved?.details as { reason?: string } | undefined)?.reason, 'confirmed by phone')
  await terminal.press('C-c')
  await terminal.shows('BEFORE', 'ENDED 0')
})

inTerminal('says that the database is away, keeps what it knew, and goes on when it is back', async () => {
  const url = new URL(env.DATABASE_URL as string)
  const network = await FaultyNetwork.open(Number(url.port || 5432))
  onClose(() => network.close())
  url.host = `127.0.0.1:${network.port}`
  const terminal = await openTerminal({ ...env, DATABASE_URL: url.href }, { args: ['console'], columns: 120, rows: 30 })
  await terminal.shows('[1 Overview]')
  await terminal.press('2')
  await terminal.shows('❯ Výběr')
  network.passing = false
  network.cut()
  await terminal.shows('! The database ', 'Shown is what was known at', '❯ Výběr')
  await terminal.press('3')
  await terminal.shows('[3 Orders]', '! The database ')
  network.passing = true
  const back = await terminal.shows('[3 Orders]', 'R_50')
  assert.not.match(back.join('\n'), '! The database ')
  await terminal.press('q')
  await terminal.shows('ENDED 0')
})

reading.run()
refusals.run()
if (hasTerminal) {
  screens.after(closeAll)
  screens.run()
} else refusals.after(closeAll)
