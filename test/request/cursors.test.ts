// Cursors of lists: each is good for the partner, the list and the filters that it was made for, and refused anywhere else.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listTraderAnalytics } from '../../api/analytics/traders.ts'
import { listMyPurchases, listMySubscriptions, purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import type { Operation } from '../../api/operation.ts'
import { listRequests, operations } from '../../api/operations.ts'
import { listOrders } from '../../api/orders/orders.ts'
import { listWebhookDeliveries } from '../../api/webhooks/deliveries.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { type CallInput, closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { makeBot } from '../support/marketplace-makers.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db } = harness.services

interface Listing {
  row: Operation
  params?: Record<string, string>
  /** The query of the list. */
  query: NonNullable<CallInput['query']>
  /** Filters that make it another list of the same entries. */
  others: NonNullable<CallInput['query']>[]
  /** What may differ from page to page. */
  paging: NonNullable<CallInput['query']>[]
  /** The cursor of the previous version, made from the one of this version. */
  before(cursor: string): string
}

const partsOf = (cursor: string) => JSON.parse(Buffer.from(cursor, 'base64url').toString()) as (string | number)[]
const encoded = (text: string) => Buffer.from(text).toString('base64url')
const withoutMark = (cursor: string) => encoded(JSON.stringify(partsOf(cursor).slice(0, -1)))

/** An endpoint with two attempts. */
async function makeEndpoint(partner: TestPartner): Promise<string> {
  const { body } = await partner.call(createWebhook, { body: { url: 'https://hooks.example.com/' } })
  const today = `(now() at time zone 'UTC')::date`
  await db.raw(`select make_webhook_days(${today}, ${today})`)
  await db.raw(
    `insert into webhook_attempts (endpoint_id, partner_id, day, id, type, attempt, status, at, replay)
     select :id, :partnerId, ${today}, event_id(), 'order.closed', 1, 'DELIVERED', now(), false from generate_series(1, 3)`,
    { id: body.webhookId, partnerId: partner.partnerId }
  )
  return body.webhookId
}

/** A partner with three entries in each list at least. */
async function makeLists(): Promise<{ partner: TestPartner; lists: Listing[]; second: string }> {
  const partner = await harness.makePartner()
  for (let made = 0; made < 3; made++) await insertOrderRows(db, await partner.makeTrader())
  const [first, second] = [await makeEndpoint(partner), await makeEndpoint(partner)]
  const seller = await harness.makePartner()
  for (let made = 0; made < 3; made++) {
    const params = { id: await makeBot(seller, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 }) }
    for (const buy of [purchaseBot, subscribeToBot]) await partner.call(buy, { params })
  }
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString()
  const lists: Listing[] = [
    {
      row: listOrders,
      query: { status: 'CLOSED' },
      others: [{}, { status: 'FAILED' }, { status: 'CLOSED', traderExternalId: 'somebody' }],
      paging: [{ limit: 200 }],
      before: withoutMark
    },
    {
      row: listRequests,
      query: { operation: 'exchangeTokens' },
      others: [{}, { operation: 'getMe' }, { operation: 'exchangeTokens', status: 200 }],
      paging: [{ limit: 200 }, { from: hourAgo }, { to: new Date(Date.now() + 60_000).toISOString() }],
      before: cursor => encoded(partsOf(cursor).slice(0, -1).join())
    },
    {
      row: listTraderAnalytics,
      query: { accountMode: 'DEMO', sort: 'volume' },
      others: [{ accountMode: 'DEMO' }, { accountMode: 'ALL', sort: 'volume' }, { sort: 'volume' }],
      paging: [{ limit: 200 }, { from: hourAgo }],
      before: withoutMark
    },
    {
      row: listWebhookDeliveries,
      params: { id: first },
      query: {},
      others: [{ status: 'DELIVERED' }],
      paging: [{ limit: 200 }],
      before: cursor => partsOf(cursor)[0] as string
    },
    { row: listMyPurchases, query: {}, others: [], paging: [{ limit: 200 }], before: withoutMark },
    { row: listMySubscriptions, query: {}, others: [], paging: [{ limit: 200 }], before: withoutMark }
  ]
  return { partner, lists, second }
}

const { partner: owner, lists, second } = await makeLists()
const other = await makeLists()

const read = (by: TestPartner, { row, params = {} }: Pick<Listing, 'row' | 'params'>, query: CallInput['query']) =>
  by.call(row, { params, query })

async function cursorOf(list: Listing): Promise<string> {
  const { body } = await read(owner, list, { ...list.query, limit: 1 })
  assert.type(body.nextCursor, 'string', list.row.name)
  return body.nextCursor
}

async function isRefused(asked: ReturnType<typeof read>, what: string): Promise<void> {
  const { status, body } = await asked
  assert.equal([status, body.error, body.details?.[0].path], [400, 'VALIDATION_FAILED', '/query/cursor'], what)
}

const cursors = suite('a cursor')

cursors('is tested here for every list that has one', () => {
  const withCursor = operations.filter(({ query }) => Object.hasOwn((query?.properties ?? {}) as object, 'cursor'))
  assert.equal(withCursor.map(({ name }) => name).sort(), lists.map(({ row }) => row.name).sort())
})

cursors('goes on where its page ended, with a page of another size and in another window of time', async () => {
  for (const list of lists) {
    const { body: whole } = await read(owner, list, list.query)
    const cursor = await cursorOf(list)
    for (const paging of [{}, ...list.paging]) {
      const { status, body } = await read(owner, list, { ...list.query, ...paging, cursor })
      assert.is(status, 200, `${list.row.name} ${JSON.stringify(body)}`)
      // The log of requests grows by each of them.
      if (list.row !== listRequests) assert.equal(body.data, whole.data.slice(1), list.row.name)
    }
  }
})

cursors('of another partner is refused', async () => {
  for (const [index, list] of lists.entries()) {
    const cursor = await cursorOf(list)
    await isRefused(read(other.partner, other.lists[index] as Listing, { ...list.query, cursor }), list.row.name)
  }
})

cursors('of another list is refused', async () => {
  for (const list of lists)
    for (const stranger of lists.filter(each => each !== list)) {
      const cursor = await cursorOf(stranger)
      await isRefused(read(owner, list, { ...list.query, cursor }), `${stranger.row.name} for ${list.row.name}`)
    }
  const cursor = await cursorOf(lists.find(({ row }) => row === listWebhookDeliveries) as Listing)
  await isRefused(read(owner, { row: listWebhookDeliveries, params: { id: second } }, { cursor }), 'another endpoint')
})

cursors('of the same list under other filters is refused', async () => {
  for (const list of lists) {
    const cursor = await cursorOf(list)
    for (const query of list.others)
      await isRefused(read(owner, list, { ...query, cursor }), `${list.row.name} ${JSON.stringify(query)}`)
  }
})

cursors('of the version before goes on where its page ended', async () => {
  for (const list of lists) {
    const cursor = await cursorOf(list)
    const [now, before] = [
      await read(owner, list, { ...list.query, cursor }),
      await read(owner, list, { ...list.query, cursor: list.before(cursor) })
    ]
    assert.equal([before.status, before.body.data], [200, now.body.data], list.row.name)
  }
})

cursors.after(closeAll)
cursors.run()
