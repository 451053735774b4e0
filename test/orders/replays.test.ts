// A repeat of an order after its account changed: whatever became of the account, the caller learns what became of
// the order.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeOrder, placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { closeOrders } from '../../db/orders/leases.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { sellOrder } from '../../db/orders/selling.ts'
import { storeRefusal } from '../../db/platform/broker-requests.ts'
import { closeAll, newAccountId, openHarness, type TestTrader, until } from '../support/harness.ts'

const harness = await openHarness({ env: { SETTLE_WAIT_MS: '400', ORDER_TTL_MS: '150' } })
const { db, queue, bus } = harness.services
const partner = await harness.makePartner()

const bought = { broker_order_id: '1', buy_price: '2', opened_at: new Date(), payout: '3.9' }
const failed = { phase: 'failed', error_message: 'no' }

/** States of an order, as columns, and what a repeat of it returns. */
const orders: Record<string, { columns: object; status: number; expected: string }> = {
  // No worker runs: the request waits for as long as it may, and returns that the outcome is not known.
  'in review': { columns: { phase: 'review' }, status: 502, expected: 'PENDING' },
  'in doubt': {
    columns: {
      phase: 'sending',
      sent_at: new Date(),
      permit_until: new Date(),
      expires_at: new Date(Date.now() + 60_000),
      resolve_at: new Date(Date.now() + 3_600_000)
    },
    status: 502,
    expected: 'PENDING'
  },
  open: { columns: { phase: 'open', ...bought }, status: 200, expected: 'OPEN' },
  closed: {
    columns: { phase: 'closed', ...bought, pnl: '1.9', closed_at: new Date() },
    status: 200,
    expected: 'CLOSED'
  },
  refused: { columns: { ...failed, error_code: 'INVALID_CONTRACT' }, status: 422, expected: 'INVALID_CONTRACT' }
}

const reject = (trader: TestTrader) =>
  db('broker_accounts').where({ trader_id: trader.traderId }).update({ status: 'REJECTED' })

/** What may become of the account after an order, and what a new order gets then. */
const accounts: Record<string, { change(trader: TestTrader): Promise<unknown>; fresh: string }> = {
  rejected: { change: reject, fresh: 'BROKER_DISCONNECTED' },
  'switched to another': { change: trader => switchAccount(trader), fresh: 'BROKER_UPSTREAM' },
  'switched to one that is rejected': {
    async change(trader) {
      await switchAccount(trader)
      await db.raw(
        `update broker_accounts a set status = 'REJECTED' from traders t where t.id = ? and a.id = t.active_account_id`,
        [trader.traderId]
      )
    },
    fresh: 'BROKER_DISCONNECTED'
  },
  'rejected, another being active': {
    async change(trader) {
      await switchAccount(trader)
      await db('broker_accounts').where({ account_id: trader.accountId }).update({ status: 'REJECTED' })
    },
    fresh: 'BROKER_UPSTREAM'
  },
  'gone from its trader': {
    change: trader =>
      db('traders').where({ id: trader.traderId }).update({ connected_at: null, active_account_id: null }),
    fresh: 'TRADER_NOT_FOUND'
  },
  'as it was': { change: async () => {}, fresh: 'BROKER_UPSTREAM' }
}

async function switchAccount(trader: TestTrader): Promise<void> {
  const accountId = newAccountId()
  await partner.call(exchangeTokens, {
    body: {
      traderExternalId: trader.traderExternalId,
      accounts: [{ accountId, token: `sim-${accountId}`, accountMode: 'REAL', currency: 'USD' }]
    }
  })
  await db.raw(
    `update traders set active_account_id = (select id from broker_accounts where account_id = ?) where id = ?`,
    [accountId, trader.traderId]
  )
}

const request = ({ traderExternalId }: TestTrader, clientOrderId: string, stake = 2) => ({
  body: {
    traderExternalId,
    clientOrderId,
    asset: 'R_100',
    contractType: 'CALL',
    stake,
    duration: 1,
    durationUnit: 'm'
  }
})

/** An order of a new trader, in the state that `columns` describe. */
async function makeOrder(columns: object) {
  const trader = await partner.makeTrader()
  const clientOrderId = randomUUID()
  const first = await partner.call(placeBinaryOrder, request(trader, clientOrderId))
  const { orderId } = first.body
  await db('orders')
    .where({ id: orderId })
    .update({ retryable: false, error_code: null, error_message: null, ...columns, ...unique(columns, orderId) })
  return { trader, clientOrderId, orderId }
}

const unique = (columns: object, orderId: string) => ('broker_order_id' in columns ? { broker_order_id: orderId } : {})

const replays = suite('POST /v1/orders/binary again, after the account changed')

for (const [account, { change, fresh }] of Object.entries(accounts)) {
  for (const [order, { columns, status, expected }] of Object.entries(orders)) {
    replays(`returns an order that is ${order}, its account being ${account}`, async () => {
      const { trader, clientOrderId, orderId } = await makeOrder(columns)
      await change(trader)
      const again = await partner.call(placeBinaryOrder, request(trader, clientOrderId))
      assert.is(again.status, status, JSON.stringify(again.body))
      assert.is(again.headers.get('idempotent-replayed'), 'true')
      assert.is(again.body.error === 'INVALID_CONTRACT' ? again.body.error : again.body.status, expected)
      if (status !== 422) assert.is(again.body.orderId, orderId)
      const other = await partner.call(placeBinaryOrder, request(trader, clientOrderId, 3))
      assert.equal([other.body.error, other.body.orderId], ['CLIENT_ORDER_ID_REUSED', orderId])
    })
  }

  replays(`does not retry what never reached the broker without an account that may trade: ${account}`, async () => {
    const { trader, clientOrderId, orderId } = await makeOrder({
      ...failed,
      error_code: 'BROKER_UPSTREAM',
      retryable: true
    })
    await change(trader)
    const before = await db('orders').where({ id: orderId }).first()
    const again = await partner.call(placeBinaryOrder, request(trader, clientOrderId))
    assert.is(again.body.error, fresh)
    const { queued_at, attempt } = await db('orders').where({ id: orderId }).first()
    // With an active account that may trade it was queued again under its id. No worker took it, so that is no try.
    assert.equal([queued_at > before.queued_at, attempt], [fresh === 'BROKER_UPSTREAM', 1])
    const unknown = await partner.call(placeBinaryOrder, request(trader, randomUUID()))
    assert.is(unknown.body.error, fresh)
  })
}

replays('an order that still waits for its worker is waited for, its account being rejected', async () => {
  const { trader, clientOrderId, orderId } = await makeOrder({
    phase: 'queued',
    expires_at: new Date(Date.now() + 60_000)
  })
  await reject(trader)
  const again = await partner.call(placeBinaryOrder, request(trader, clientOrderId))
  assert.equal([again.status, again.body.orderId, again.body.status], [502, orderId, 'PENDING'])
})

replays('an order refused by a closed market is told the seconds that are left until it opens', async () => {
  const closed = (seconds: number | null) => ({ error_extras: JSON.stringify({ secondsUntilOpen: seconds }) })
  const { trader, clientOrderId, orderId } = await makeOrder({
    ...failed,
    error_code: 'MARKET_CLOSED',
    ...closed(3600)
  })
  const refusedBefore = async (seconds: number) => {
    await db('orders')
      .where({ id: orderId })
      .update({ sent_at: db.raw('now() - make_interval(secs => ?)', [seconds]) })
    const again = await partner.call(placeBinaryOrder, request(trader, clientOrderId))
    assert.equal([again.body.error, again.headers.get('idempotent-replayed')], ['MARKET_CLOSED', 'true'])
    return again.body.secondsUntilOpen as number | null
  }
  const left = (await refusedBefore(600)) as number
  assert.ok(left <= 3000 && left > 2900, String(left))
  assert.is(await refusedBefore(86_400), 0)
  await db('orders').where({ id: orderId }).update(closed(null))
  assert.is(await refusedBefore(600), null)
})

replays.run()

const closing = suite('an order whose contract ends while its sale is refused')

const sales: Record<string, (order: OrderRow) => Promise<string | undefined>> = {
  'the partner': async ({ id }) => (await partner.call(closeOrder, { params: { id } })).body.status,
  'the operator': async order => (await sellOrder(db, { queue, bus }, order)).status
}
for (const [who, sell] of Object.entries(sales))
  closing(`is returned CLOSED to ${who}`, async () => {
    const { orderId: id } = await makeOrder({ phase: 'open', ...bought })
    const [order] = await findOrders(db, [id])
    const sale = sell(order as OrderRow)
    const asked = await until('the sale to be requested', () => db('broker_requests').where({ key: id }).first())
    const end = { pnl: '-2', entryPrice: null, exitPrice: null, commission: null, markup: null, closedAt: null }
    await closeOrders(db, queue, [{ id, copied: false, ...end }])
    const refusal = { code: 'INVALID_CONTRACT', message: 'Resale of this contract is not offered.' } as const
    bus.publish((await storeRefusal(db, asked.id, refusal)) as string, 'ask', asked.id)
    assert.is(await sale, 'CLOSED')
  })

closing.after(closeAll)
closing.run()
