// What travels with a wake-up: the outcome that was committed, digit by digit, to whoever waits for that order; and which
// accounts are claimed for again without a read of their own.
import pg from 'pg'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { claimOrders } from '../../db/orders/claiming.ts'
import { closeOrders } from '../../db/orders/leases.ts'
import { markOpen } from '../../db/orders/placing.ts'
import { findOutcomes, type Outcome, outcomeOf } from '../../db/orders/reading.ts'
import { type Hint, hintOf, linesOf, readHint, withRoom } from '../../db/platform/hints.ts'
import { PassedOver } from '../../worker/orders/passed-over.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db, queue } = harness.services
const partner = await harness.makePartner()

/** What is sent on a channel, message by message. */
async function listenTo(channel: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: harness.url })
  await client.connect()
  onClose(() => client.end())
  const messages: string[] = []
  client.on('notification', ({ payload = '' }) => void messages.push(payload))
  await client.query(`listen ${channel}`)
  return messages
}

const later = () => new Date(Date.now() + 60_000)

/** An order that was claimed, whose caller listens on `channel`. */
async function makeClaimed(channel: string) {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: later() })
  await db('orders').where({ account_id: trader.accountId }).update({ reply_channel: channel })
  const claim = () =>
    claimOrders(db, { accountIds: [trader.accountId], sender: 'w', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 })
  const { id, attempt } = (await claim()).claimed[0] as { id: string; attempt: number }
  const receipt = {
    id,
    attempt,
    brokerOrderId: String(Math.floor(Math.random() * 1e12)),
    transactionId: '1',
    buyPrice: '10.10',
    payout: '19.500',
    currency: 'USD',
    openedAt: 1_790_000_000.5,
    expiryAt: null,
    hasFollowers: false
  }
  return { id, trader, receipt, claim, read: async () => (await findOutcomes(db, [id]))[0] as Outcome }
}

const settlement = (id: string) => ({
  id,
  pnl: '-10.10',
  entryPrice: '1234.560',
  exitPrice: '0.000001',
  commission: '0.30',
  markup: null,
  closedAt: 1_790_000_001,
  copied: false
})

const carried = (message: string, id: string) => {
  const [first = '', second] = message.split('\n')
  assert.is(second, `order ${id}`, 'for a process that does not know the first line')
  const hint = readHint(first) as Hint
  assert.is(hint.topic, 'order')
  return outcomeOf(hint.id, hint.carried)
}

const itself = suite('a statement that notifies')

itself('sends what the row has then, to its caller’s channel, when it is opened and when it is closed', async () => {
  const messages = await listenTo('wake_ups_itself')
  const { id, receipt, read } = await makeClaimed('wake_ups_itself')
  const { notified, outcome } = (await markOpen(db, [receipt], 'w', { notify: true }))[0] ?? {}
  assert.equal([notified, outcome], [true, null])
  await until('the first message', () => messages.length === 1)
  assert.equal(carried(messages[0] as string, id), await read())
  assert.ok((await closeOrders(db, queue, [settlement(id)], { notify: true }))[0]?.notified)
  await until('the second message', () => messages.length === 2)
  const row = await read()
  assert.equal(carried(messages[1] as string, id), row)
  assert.equal([row.buy_price, row.payout, row.commission], ['10.10', '19.500', '0.30'])
})

itself('sends nothing of what was rolled back, nor of the opening of a tick contract', async () => {
  const messages = await listenTo('wake_ups_nothing')
  const { id, receipt } = await makeClaimed('wake_ups_nothing')
  await db('orders').where({ id }).update({ duration: 1, duration_unit: 't' })
  await markOpen(db, [receipt], 'w', { notify: true })
  await db
    .transaction(async trx => {
      await closeOrders(trx, queue, [settlement(id)], { notify: true })
      throw new Error('rolled back')
    })
    .catch(() => {})
  await db.raw(`select pg_notify('wake_ups_nothing', 'last')`)
  await until('the last message', () => messages.length > 0)
  assert.equal(messages, ['last'])
})

itself('gives its caller the same where that is to notify', async () => {
  const { id, receipt, read } = await makeClaimed('wake_ups_caller')
  const [opened] = await markOpen(db, [receipt], 'w')
  assert.equal(outcomeOf(id, opened?.outcome ?? undefined), await read())
  const [closed] = await closeOrders(db, queue, [settlement(id)])
  assert.equal(outcomeOf(id, closed?.outcome ?? undefined), await read())
  assert.equal(carried(linesOf({ topic: 'order', id, carried: closed?.outcome as string }), id), await read())
})

itself('is run again without its messages where there is no room for them', async () => {
  const runs: boolean[] = []
  const full = async (notify: boolean) => {
    runs.push(notify)
    if (notify) throw Object.assign(new Error('too many notifications in the NOTIFY queue'), { code: '54000' })
    return 'written'
  }
  assert.is(await withRoom(true, full), 'written')
  assert.equal(runs, [true, false])
  const broken = async () => {
    throw new Error('broken')
  }
  await withRoom(true, broken).then(assert.unreachable, error => assert.is(error.message, 'broken'))
})

const hints = suite('a hint')

hints('of another order, of other columns, cut short or senseless has the row read', async () => {
  const { id, receipt } = await makeClaimed('wake_ups_hints')
  const line = (await markOpen(db, [receipt], 'w'))[0]?.outcome as string
  const [version, ...values] = JSON.parse(line) as unknown[]
  assert.ok(outcomeOf(id, line))
  assert.is(outcomeOf('ord_of_another_partner', line), undefined)
  assert.is(outcomeOf(id, JSON.stringify([`${version}x`, ...values])), undefined)
  assert.is(outcomeOf(id, JSON.stringify([version, ...values.slice(1)])), undefined)
  for (const senseless of [undefined, '', '{', '{}', 'null', '1', line.slice(0, -1)])
    assert.is(outcomeOf(id, senseless), undefined)
})

hints('leaves out what is too large or more than a line, written by either side', async () => {
  for (const large of ['x'.repeat(3001), 'é'.repeat(1501), 'a\nb']) {
    assert.is(linesOf({ topic: 'order', id: 'ord_1', carried: large }), 'order ord_1')
    const sql = `select ${hintOf('order', 'v.id', 'v.large')} as hint from (values ('ord_1', cast(? as text))) v (id, large)`
    assert.is((await db.raw(sql, [large])).rows[0].hint, 'order ord_1')
  }
})

const waiting = suite('an order queued while the order before it opens')

waiting('is not seen by the statement that opens, and reported as passed over by the claim', async () => {
  const { receipt, trader, claim } = await makeClaimed('wake_ups_waiting')
  const [opened] = await db.transaction(async trx => {
    const found = await markOpen(trx, [receipt], 'w')
    await insertOrderRows(db, trader, { phase: 'queued', at: later() })
    assert.equal((await claim()).unclaimed, [trader.accountId])
    return found
  })
  assert.is(opened?.others_wait, false)
  assert.is((await claim()).claimed.length, 1)
})

waiting('is seen by it when it was queued before', async () => {
  const { receipt, trader } = await makeClaimed('wake_ups_before')
  await insertOrderRows(db, trader, { phase: 'queued', at: later() })
  assert.is((await markOpen(db, [receipt], 'w'))[0]?.others_wait, true)
})

waiting('is claimed once that is out of the way, whenever the claim that missed it ends', () => {
  const accounts = new PassedOver()
  const claimed = () => accounts.claiming().found([])
  claimed()
  accounts.begin('a')
  assert.equal(accounts.claiming().found(['a', 'b']), [], 'while it is under way')
  assert.is(accounts.end('a'), true)
  accounts.begin('a')
  assert.is(accounts.end('a'), false, 'noted once')
  accounts.begin('a')
  const begun = accounts.claiming()
  assert.is(accounts.end('a'), false)
  assert.equal(begun.found(['a', 'b']), ['a'], 'a claim that began before the end')
  accounts.begin('a')
  accounts.claiming().lost()
  assert.is(accounts.end('a'), true, 'a claim of which nothing is known')
})

waiting.after(closeAll)
for (const tests of [itself, hints, waiting]) tests.run()
