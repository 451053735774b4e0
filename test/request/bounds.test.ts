// What one partner may keep, how often all its keys together may call, and how much it may have on its way to us.
import { randomUUID } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { connect, type Socket } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCommunityBot } from '../../api/community/bots.ts'
import { postMessage } from '../../api/community/community.ts'
import { followLeader } from '../../api/copy.ts'
import { createKey } from '../../api/keys.ts'
import { createCreatorBot, updateCreatorBot } from '../../api/marketplace/creator.ts'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { getMarketplaceBot } from '../../api/marketplace/listings.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { getMe } from '../../api/me.ts'
import type { Operation } from '../../api/operation.ts'
import { getSpec } from '../../api/operations.ts'
import { listOrders } from '../../api/orders/orders.ts'
import { openByteAccounts } from '../../api/request/byte-accounts.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { collectTrade } from '../../api/traders/trades.ts'
import { replayWebhook } from '../../api/webhooks/deliveries.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { type BoundKind, bounds, requireRoom } from '../../db/platform/bounds.ts'
import { newApiKey } from '../../db/platform/crypto.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { MAX_REPLAYS } from '../../schemas/webhooks.ts'
import { refusedUpgrade } from '../events/client.ts'
import { call, closeAll, newAccountId, openHarness, type TestPartner, until } from '../support/harness.ts'
import { draft, earn, makeBot } from '../support/marketplace-makers.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db, pepper } = harness.services

/** Copies a row of a table so many times, under new ids. */
async function copies(table: string, id: string, count: number): Promise<void> {
  const { rows } = await db.raw(
    `select string_agg(quote_ident(column_name), ', ') as columns from information_schema.columns
      where table_name = ? and is_generated = 'NEVER'`,
    [table]
  )
  const { columns } = rows[0] as { columns: string }
  await db.raw(
    `insert into ${table} (${columns}) select ${columns} from
       (select (jsonb_populate_record(t, jsonb_build_object('id', left(t.id, 20) || lpad(n::text, 10, '0')))).*
          from ${table} t, generate_series(1, ?::int) n where t.id = ?) as copied`,
    [count, id]
  )
}

/** Lowers a bound until it is restored. */
function lowered(kind: BoundKind, records: number, bytes?: number): { restore(): void } {
  const bound = bounds[kind] as { records: number; bytes?: number }
  const usual = { ...bound }
  bound.records = records
  if (bytes !== undefined) bound.bytes = bytes
  return { restore: () => void Object.assign(bound, usual) }
}

/** How many more records a partner may make, of so many tried. */
async function roomFor(kind: BoundKind, partnerId: string, { tries, bytes = 0 }: { tries: number; bytes?: number }) {
  for (let made = 0; made < tries; made++) {
    const refusal = await requireRoom(db, kind, partnerId, bytes).catch((error: ApiError) => error)
    if (refusal) {
      assert.is(refusal.code, 'LIMIT_REACHED')
      return made
    }
  }
  return tries
}

const refused = (response: { status: number; body: { error: string; limit: number } }, limit: number) =>
  assert.equal([response.status, response.body.error, response.body.limit], [409, 'LIMIT_REACHED', limit])

const keeping = suite('what a party keeps')
const calling = suite('the limit of all keys of a partner')

keeping('is bounded in marketplace bots, and the bound is named', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const { body } = await partner.call(createCreatorBot, { body: draft })
  await copies('marketplace_bots', body.botId, bounds.creatorBots.records - 1)
  refused(await partner.call(createCreatorBot, { body: draft }), bounds.creatorBots.records)
  assert.is((await other.call(createCreatorBot, { body: draft })).status, 200)
})

keeping('is bounded in bytes of their code, when it is written and when it is changed', async () => {
  const partner = await harness.makePartner()
  const code = 'x'.repeat(500_000)
  const { body } = await partner.call(createCreatorBot, { body: { ...draft, code } })
  await copies('marketplace_bots', body.botId, Math.floor(bounds.creatorBots.bytes / code.length) - 1)
  refused(await partner.call(createCreatorBot, { body: { ...draft, code } }), bounds.creatorBots.bytes)
  const small = await partner.call(createCreatorBot, { body: { ...draft, code: 'y' } })
  const change = { params: { id: small.body.botId }, body: { code } }
  refused(await partner.call(updateCreatorBot, change), bounds.creatorBots.bytes)
  const { body: kept } = await partner.call(getMarketplaceBot, { params: { id: small.body.botId } })
  assert.is(kept.code, 'y')
})

keeping('is bounded in broker accounts of a trader; their tokens may be renewed all the same', async () => {
  const partner = await harness.makePartner()
  const accounts = Array.from({ length: bounds.accounts.records }, () => {
    const accountId = newAccountId()
    return { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
  })
  const exchange = (some: object[]) =>
    partner.call(exchangeTokens, { body: { traderExternalId: 'collector', accounts: some } })
  for (let at = 0; at < accounts.length; at += 20) assert.is((await exchange(accounts.slice(at, at + 20))).status, 200)
  refused(await exchange([{ ...accounts[0], accountId: newAccountId() }]), bounds.accounts.records)
  assert.is((await exchange(accounts.slice(0, 5))).status, 200)
})

keeping('is bounded in payouts that are not decided, and in keys that were ever made', async () => {
  const partner = await harness.makePartner()
  const row = {
    partner_id: partner.partnerId,
    party_id: partner.partnerId,
    amount: 1,
    destination_address: 'T'.repeat(34)
  }
  await db('payouts').insert({ id: 'pay_00000000000000000000000000', ...row })
  await copies('payouts', 'pay_00000000000000000000000000', bounds.payouts.records - 1)
  const body = { amountUsd: 1, destinationAddress: 'T'.repeat(34) }
  await earn(harness, partner, '1')
  refused(await partner.call(requestPayout, { body }), bounds.payouts.records)
  const { cookie } = await partner.makeSession()
  const made = Array.from({ length: bounds.keys.records }, (_, index) => ({
    id: `key_${String(index).padStart(13, '0')}${partner.partnerId.slice(-13)}`,
    partner_id: partner.partnerId,
    lookup: newApiKey().lookup,
    hash: Buffer.alloc(32),
    scopes: [],
    revoked_at: new Date()
  }))
  await db.batchInsert('api_keys', made, 500)
  refused(await call(harness.address, createKey, { body: {}, headers: { cookie } }), bounds.keys.records)
})

keeping(
  'is bounded in bots of a community, in keys that are not revoked, and in replays that are under way',
  async () => {
    const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
    const bot = { body: { name: 'grid', config: {} } }
    const { body } = await partner.call(createCommunityBot, bot)
    await copies('community_bots', body.botId, 199)
    refused(await partner.call(createCommunityBot, bot), 200)
    assert.is((await other.call(createCommunityBot, bot)).status, 200)
    const { cookie } = await partner.makeSession()
    const keys = Array.from({ length: 199 }, () => ({
      id: newId('key'),
      partner_id: partner.partnerId,
      lookup: newApiKey().lookup,
      hash: Buffer.alloc(32),
      scopes: []
    }))
    await db.batchInsert('api_keys', keys, 500)
    refused(await call(harness.address, createKey, { body: {}, headers: { cookie } }), 200)
    const { body: endpoint } = await partner.call(createWebhook, { body: { url: 'https://events.example.com' } })
    const replay = { endpoint_id: endpoint.webhookId, partner_id: partner.partnerId, position: 0, until_position: 1 }
    await db.batchInsert(
      'webhook_replays',
      Array.from({ length: MAX_REPLAYS }, () => ({ ...replay, day: new Date() }))
    )
    const again = { params: { id: endpoint.webhookId }, body: { since: new Date().toISOString() } }
    refused(await partner.call(replayWebhook, again), MAX_REPLAYS)
  }
)

keeping('is counted again, not refused, once as much was made as may pass between two counts', async () => {
  const { partnerId } = await harness.makePartner()
  const uncounted = bounds.purchases.records / 100
  for (let made = 0; made < 2 * uncounted + 2; made++) await requireRoom(db, 'purchases', partnerId)
})

keeping(
  'is refused once as much was made as may pass between two counts, and the next count finds too much',
  async () => {
    const { partnerId } = await harness.makePartner()
    // The smallest that is not counted each time: a hundredth of it may pass.
    const held = lowered('traders', 5001)
    await requireRoom(db, 'traders', partnerId)
    await db.raw(
      `insert into traders (id, partner_id, external_id)
       select 'trd_' || lpad(n::text, 25, '0') || 'c', ?, n::text from generate_series(1, ?) n`,
      [partnerId, bounds.traders.records]
    )
    assert.is(await roomFor('traders', partnerId, { tries: 60 }), 51)
    held.restore()
    // The same of bytes.
    const heldBytes = lowered('idempotencyKeys', 5001, 100_000)
    await requireRoom(db, 'idempotencyKeys', partnerId)
    const now = new Date()
    await db('idempotency_keys').insert({
      partner_id: partnerId,
      key: 'one-large-answer',
      fingerprint: Buffer.alloc(32),
      holder: randomUUID(),
      leased_until: now,
      answered_at: now,
      token_key_id: 't1',
      answer: Buffer.alloc(bounds.idempotencyKeys.bytes)
    })
    assert.is(await roomFor('idempotencyKeys', partnerId, { tries: 20, bytes: 100 }), 10)
    heldBytes.restore()
  }
)

keeping('is bounded in bytes of the responses under Idempotency-Keys, however short their requests are', async () => {
  const partner = await harness.makePartner()
  const screenshots = Array.from({ length: 20 }, (_, index) => `https://cdn.example.com/${index}${'x'.repeat(2000)}`)
  const { body: bot } = await partner.call(createCreatorBot, { body: { ...draft, screenshots } })
  const unchanged = (key: string) =>
    partner.call(updateCreatorBot, { params: { id: bot.botId }, headers: { 'idempotency-key': `unchanged-${key}` } })
  const held = lowered('idempotencyKeys', 1_000_000, 1_000_000)
  let response = await unchanged('first')
  for (let more = 0; more < 30 && response.status === 200; more++) response = await unchanged(String(more))
  refused(response, 1_000_000)
  held.restore()
  const kept = await db('idempotency_keys').where({ partner_id: partner.partnerId }).select('answer')
  assert.is(kept.length, Math.ceil(1_000_000 / kept[0].answer.length))
})

keeping('is refused for a while by the latest count where that reached a large limit', async () => {
  const { partnerId } = await harness.makePartner()
  // The smallest that is not counted each time.
  const held = lowered('traders', 5001)
  await db.raw(
    `insert into traders (id, partner_id, external_id)
     select 'trd_' || lpad(n::text, 26, '0'), ?, n::text from generate_series(1, ?) n`,
    [partnerId, bounds.traders.records]
  )
  for (let again = 0; again < 2; again++) {
    const refusal = await requireRoom(db, 'traders', partnerId).catch((error: unknown) => error)
    assert.is((refusal as { code?: string })?.code, 'LIMIT_REACHED')
    // One less is enough: to delete all of them takes longer than that while on a busy machine.
    await db('traders').where({ partner_id: partnerId, external_id: '1' }).delete()
  }
  held.restore()
})

keeping('takes any text as the e-mail of an exchange, and a change of a bot without a body', async () => {
  const partner = await harness.makePartner()
  const accountId = newAccountId()
  const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }]
  const body = { traderExternalId: 'noted', email: 'ask the desk', accounts }
  assert.is((await partner.call(exchangeTokens, { body })).status, 200)
  const { body: bot } = await partner.call(createCreatorBot, { body: draft })
  const unchanged = await partner.call(updateCreatorBot, { params: { id: bot.botId } })
  assert.equal([unchanged.status, unchanged.body.name], [200, bot.name])
})

const record = {
  stake_amount: 1,
  contract_type: 'CALL',
  broker_contract_id: 'one',
  client_broker_loginid: 'CR1',
  profit_loss: 1,
  trade_timestamp: '2026-01-02T03:04:05Z'
}

keeping('is bounded in every kind, wherever a record of it is made', async () => {
  const [partner, empty, seller] = [
    await harness.makePartner(),
    await harness.makePartner(),
    await harness.makePartner()
  ]
  const { cookie } = await partner.makeSession()
  const trader = await partner.makeTrader()
  await earn(harness, partner, '1')
  const params = { id: await makeBot(seller, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 }) }
  const leader = await partner.makeTrader()
  await insertOrderRows(db, leader, { count: 10 })
  const { traderId: leaderId } = leader
  const email = `${trader.traderId}@example.com`
  const accountId = newAccountId()
  const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO' }]
  const making: [BoundKind, Operation, object][] = [
    ['traders', exchangeTokens, { body: { traderExternalId: 'one more', accounts } }],
    ['traders', signUpTrader, { body: { email, password: 'rather-Long-4711-password' } }],
    ['accounts', exchangeTokens, { body: { traderExternalId: trader.traderExternalId, accounts } }],
    ['partnerAccounts', exchangeTokens, { body: { traderExternalId: 'one more', accounts } }],
    ['keys', createKey, { body: {}, headers: { cookie } }],
    ['follows', followLeader, { body: { traderExternalId: trader.traderExternalId, leaderId } }],
    ['partnerFollows', followLeader, { body: { traderExternalId: trader.traderExternalId, leaderId } }],
    ['trades', collectTrade, { body: record }],
    ['creatorBots', createCreatorBot, { body: draft }],
    ['purchases', purchaseBot, { params }],
    ['subscriptions', subscribeToBot, { params }],
    ['partnerSubscriptions', subscribeToBot, { params }],
    ['payouts', requestPayout, { body: { amountUsd: 1, destinationAddress: 'T'.repeat(34) } }],
    ['idempotencyKeys', postMessage, { body: { content: 'x' }, headers: { 'idempotency-key': trader.traderId } }]
  ]
  assert.equal(new Set(making.map(([kind]) => kind)), new Set(Object.keys(bounds)))
  for (const [kind, row, input] of making) {
    const none = lowered(kind, 0)
    // One whose records of this kind no process has counted yet.
    const uncounted: { [kind in BoundKind]?: TestPartner } = {
      traders: empty,
      partnerSubscriptions: empty,
      partnerAccounts: seller
    }
    const response = await (uncounted[kind] ?? partner).call(row, input).finally(none.restore)
    assert.equal([row.name, response.body.error, response.body.limit], [row.name, 'LIMIT_REACHED', 0])
  }
})

keeping('is returned to a repeat, whatever was made in between', async () => {
  const [partner, seller] = [await harness.makePartner(), await harness.makePartner()]
  const params = { id: await makeBot(seller, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 }) }
  const signup = { email: 'one@example.com', password: 'rather-Long-4711-password' }
  const { body: signedUp } = await partner.call(signUpTrader, { body: signup })
  const { traderExternalId } = signedUp
  const accounts = [{ accountId: newAccountId(), token: 'sim-of-nobody', accountMode: 'DEMO' }]
  const making: [BoundKind, Operation, object, string][] = [
    ['trades', collectTrade, { body: record }, 'tradeId'],
    ['purchases', purchaseBot, { params }, 'purchaseId'],
    ['subscriptions', subscribeToBot, { params }, 'subscriptionId'],
    ['partnerSubscriptions', subscribeToBot, { params }, 'subscriptionId'],
    ['traders', exchangeTokens, { body: { traderExternalId, accounts } }, 'traderId']
  ]
  for (const [kind, row, input, id] of making) {
    // Who signed up is connected only now.
    const first = kind === 'traders' ? signedUp : (await partner.call(row, input)).body
    const none = lowered(kind, 0)
    const again = await partner.call(row, input).finally(none.restore)
    assert.equal([row.name, again.status, again.body[id]], [row.name, 200, first[id]])
  }
})

const holding = suite('bytes of a partner that wait in memory')

/** Sends the text on a connection of its own, and reads nothing. */
function unread(text: string): Socket {
  const socket = connect(Number(new URL(harness.address).port), '127.0.0.1')
  socket.on('error', () => {}).write(text)
  return socket.pause()
}

const head = (partner: TestPartner, method: string, path: string, fields = '') =>
  `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${partner.key}\r\n${fields}\r\n`

// Ten mebibytes of bodies, or forty of responses, and as much that may not have been received yet.
const MOST_SOCKETS = 40

/**
 * Opens connections whose requests do not end until the partner's account is full, and holds that against another partner; then ends the
 * connections. One more is opened wherever there is room: what was sent may not have been received yet, and of responses the
 * kernel goes on taking some for as long as its buffers grow.
 */
async function fill(greedy: TestPartner, open: () => Socket): Promise<void> {
  const other = await harness.makePartner()
  const me = () => greedy.call(getMe)
  const sockets: Socket[] = []
  for (const call of [me, () => greedy.call(createCreatorBot, { body: draft })]) {
    const refusal = await until('a refusal', async () => {
      const response = await call()
      if (response.status === 200 && sockets.length < MOST_SOCKETS) sockets.push(open())
      return response.status !== 200 && response
    })
    assert.equal([refusal.body.error, refusal.headers.get('retry-after')], ['RATE_LIMITED', '1'])
    assert.match(refusal.body.message, 'bytes')
  }
  assert.is((await other.call(createCreatorBot, { body: draft })).status, 200)
  for (const socket of sockets) socket.destroy()
  await until('the account to have room again', async () => (await me()).status === 200)
}

/** A body of a mebibyte of which one byte comes; it does not say how long it is. */
const endless = (partner: TestPartner) =>
  `${head(partner, 'POST', '/v1/marketplace/creator/bots', 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n')}1\r\n{\r\n`

holding('are bounded in bodies that are being received: 429, and others’ are read', async () => {
  const partner = await harness.makePartner()
  const fields = `Content-Type: application/json\r\nContent-Length: ${2 ** 20}\r\n`
  await fill(partner, () => unread(`${head(partner, 'POST', '/v1/marketplace/creator/bots', fields)}{`))
})

holding('are bounded in bodies that do not say how long they are', async () => {
  const partner = await harness.makePartner()
  await fill(partner, () => unread(endless(partner)))
})

holding('are bounded in responses that nobody reads, and others’ are sent', async () => {
  const partner = await harness.makePartner()
  const requests = head(partner, 'GET', '/v1/_spec').repeat(20)
  await fill(partner, () => unread(requests))
})

holding('are bounded for requests that waited for their place while the account became full', async () => {
  const partner = await harness.makePartner()
  const { places, bytes, limits } = harness.services
  const counted = async () => (await limits.count(`key:${partner.keyId}`, 1_000_000)) > 0
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  // All of the partner's places, and more.
  const taken = Array.from({ length: 10 }, () => places.run(partner.partnerId, () => ended))
  const waiting = partner.call(listOrders)
  // From there to the wait for a place nothing else is waited for.
  await until('the request to be counted', counted)
  const { release } = bytes.add(partner.partnerId, 2 ** 24)
  end()
  assert.equal([(await waiting).body.error, (await partner.call(listOrders)).status], ['RATE_LIMITED', 429])
  release()
  assert.is((await partner.call(listOrders)).status, 200)
  await Promise.all(taken)
})

holding('are bounded in bodies that have been received until their requests have ended', async () => {
  const partner = await harness.makePartner()
  const lock = await db.transaction()
  await lock.raw('lock table marketplace_bots in exclusive mode')
  const body = { ...draft, code: 'x'.repeat(500_000) }
  const ended: string[] = []
  const created = Array.from({ length: 20 }, async () => {
    const response = await partner.call(createCreatorBot, { body })
    ended.push(response.body.error ?? 'made')
  })
  // Sixteen of them are 8,000,000 bytes and some fields more. Once one has ended there is room for one that comes late.
  await until('the others to be refused', () => ended.length === 4, 60_000)
  await lock.commit()
  await Promise.all(created)
  assert.equal(ended, [...Array(4).fill('RATE_LIMITED'), ...Array(16).fill('made')])
})

/** The parts of a small request whose body does not say how long it is, and the bytes of the body. */
function chunked(partner: TestPartner) {
  const text = JSON.stringify(draft)
  const fields = 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n'
  return {
    head: head(partner, 'POST', '/v1/marketplace/creator/bots', fields),
    body: `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
    length: text.length
  }
}

/** Puts the status of a connection's response into the list. */
function notes(statuses: string[], socket: Socket): Socket {
  return socket
    .setEncoding('latin1')
    .once('data', (received: string) => statuses.push(received.slice(9, 12)))
    .resume()
}

holding('are those that came of a body that did not say how long it is, once all of it has come', async () => {
  const partner = await harness.makePartner()
  const { places, bytes } = harness.services
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const taken = Array.from({ length: 10 }, () => places.run(partner.partnerId, () => ended))
  const isFullWith = (more: number) => {
    const { release } = bytes.add(partner.partnerId, more)
    try {
      bytes.requireRoom(partner.partnerId)
      return false
    } catch {
      return true
    } finally {
      release()
    }
  }
  const holds = (amount: number) => isFullWith(2 ** 23 - amount) && !isFullWith(2 ** 23 - amount - 1)
  const { head, body, length } = chunked(partner)
  const statuses: string[] = []
  // At the limit of the operation, a mebibyte each, there would be room for eight.
  for (let count = 1; count <= 12; count++) {
    const socket = notes(statuses, unread(head))
    const refused = () => statuses.length > 0
    await until('a mebibyte to be in the account', () => holds((count - 1) * length + 2 ** 20) || refused())
    socket.write(body)
    await until(`${count} bodies to be in the account`, () => holds(count * length) || refused())
  }
  end()
  await until('all responses', () => statuses.length === 12)
  assert.equal(statuses, Array(12).fill('200'))
  await Promise.all(taken)
})

holding('are those of a body that does not say how long it is, where it came with its request', async () => {
  const partner = await harness.makePartner()
  let begun = 0
  const count = () => begun++
  subscribe('http.server.request.start', count)
  // So their keys are found together, once all of them have come.
  const lock = await db.transaction()
  await lock.raw('lock table api_keys in access exclusive mode')
  const { head, body } = chunked(partner)
  const statuses: string[] = []
  for (let sent = 0; sent < 12; sent++) notes(statuses, unread(`${head}${body}`))
  await until('all requests to have come', () => begun === 12)
  unsubscribe('http.server.request.start', count)
  await lock.commit()
  await until('all responses', () => statuses.length === 12)
  assert.equal(statuses, Array(12).fill('200'))
})

holding('leave the account once the response to a refused upgrade is sent', async () => {
  const partner = await harness.makePartner({ scopes: ['usage:read'] })
  const { release } = harness.services.bytes.add(partner.partnerId, 2 ** 23 - 100)
  const me = async () => (await partner.call(getMe)).status
  assert.is((await refusedUpgrade(harness.address, { key: partner.key })).status, 403)
  await until('the account to have room again', async () => (await me()) === 200)
  release()
})

holding('leave the account once, and what is there already is added without room', () => {
  const bytes = openByteAccounts({ maxBytes: 100 })
  const body = bytes.admit('greedy', 60)
  assert.throws(
    () => bytes.admit('greedy', 41),
    (error: ApiError) => error.code === 'RATE_LIMITED'
  )
  bytes.admit('modest', 1000).release()
  body.resize(10)
  const response = bytes.add('greedy', 500)
  assert.throws(
    () => bytes.requireRoom('greedy'),
    (error: ApiError) => error.code === 'RATE_LIMITED'
  )
  response.release()
  response.release()
  bytes.admit('greedy', 90).release()
  body.release()
  bytes.requireRoom('greedy')
})

const strict = await openHarness({ url: harness.url, env: { RATE_LIMIT_LAUNCH: '4' } })

calling('is that of five keys, however many there are', async () => {
  const partner = await strict.makePartner({ plan: 'LAUNCH' })
  const { partnerId } = partner
  const headers: Record<string, string>[] = []
  for (let index = 0; index < 8; index++) {
    const { key } = await insertKey(db, pepper, { partnerId, label: null, scopes: allScopes })
    headers.push({ authorization: `Bearer ${key}` })
  }
  const statuses: number[] = []
  for (const header of headers)
    for (let index = 0; index < 3; index++)
      statuses.push((await call(strict.address, getMe, { headers: header })).status)
  assert.equal(statuses, [...Array(20).fill(200), ...Array(4).fill(429)])
  const other: TestPartner = await strict.makePartner({ plan: 'LAUNCH' })
  assert.is((await other.call(getMe)).status, 200)
})

calling('counts an operation that costs much as several calls', async () => {
  const partner = await harness.makePartner()
  const left = async (row: typeof getMe) =>
    Number(/r=(\d+)/.exec((await partner.call(row)).headers.get('ratelimit') ?? '')?.[1])
  const before = await left(getMe)
  assert.equal([before - (await left(getSpec)), before - (await left(getMe))], [10, 11])
})

calling('counts a large page as one call for each twenty rows, and no other', async () => {
  const partner = await harness.makePartner()
  const left = async (query: Record<string, string>) =>
    Number(/r=(\d+)/.exec((await partner.call(listOrders, { query })).headers.get('ratelimit') ?? '')?.[1])
  let before = await left({})
  for (const [limit, weight] of Object.entries({ 50: 1, 51: 3, 200: 10, 201: 10, Infinity: 10, x: 1, '-7': 1 })) {
    const after = await left({ limit })
    assert.equal([limit, before - after], [limit, weight])
    before = after
  }
})

calling.after(closeAll)
keeping.run()
holding.run()
calling.run()
