// Trade records: reporting trades made elsewhere, and reading them back.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { collectTrade, listTradeHistory } from '../../api/traders/trades.ts'
import { readTradeTimestamp } from '../../schemas/traders/trades.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const harness = await openHarness()
const { db } = harness.services
const collecting = suite('POST /v1/trades/collect')
const history = suite('GET /v1/trades/history')

let made = 0
const record = (more: object = {}) => ({
  stake_amount: 10,
  contract_type: 'CALL',
  broker_contract_id: `contract-${++made}`,
  client_broker_loginid: 'CR1234567',
  profit_loss: 9.53,
  trade_timestamp: '2026-01-02T03:04:05Z',
  ...more
})
const nested = (depth: number): object => (depth === 1 ? {} : { a: nested(depth - 1) })

collecting('refuses every field that is missing or breaks its limits, naming it', async () => {
  const partner = await harness.makePartner()
  const empty = await partner.call(collectTrade, { body: {} })
  assert.is(empty.status, 400)
  assert.equal(empty.body.details.map(({ path }: { path: string }) => path).sort(), [
    '/body/broker_contract_id',
    '/body/client_broker_loginid',
    '/body/contract_type',
    '/body/profit_loss',
    '/body/stake_amount',
    '/body/trade_timestamp'
  ])
  for (const broken of [
    { stake_amount: 0 },
    { stake_amount: '10' },
    { stake_amount: 1e13 },
    { contract_type: '' },
    { contract_type: 'x'.repeat(33) },
    { broker_contract_id: '' },
    { broker_contract_id: 'x'.repeat(65) },
    { broker_contract_id: 'a\u0000' },
    { client_broker_loginid: 'x'.repeat(33) },
    { profit_loss: null },
    { currency: 'x'.repeat(9) },
    { trader_external_id: '' },
    { trader_external_id: 'x'.repeat(129) },
    { symbol: 'x'.repeat(33) },
    { trade_timestamp: '2026-1-1' },
    { trade_timestamp: `2026-01-01T00:00:00.${'0'.repeat(21)}` },
    { trade_timestamp: 'yesterday at noon' },
    { trade_timestamp: '2026-02-30' },
    { trade_timestamp: '202611210800' },
    { trade_timestamp: '0000000001' },
    { trade_timestamp: '9999999999' },
    { trade_timestamp: '1999-12-31T23:59:59Z' },
    { trade_timestamp: new Date(Date.now() + 2 * 86_400_000).toISOString() },
    { trade_timestamp: '2026-01-01T25:00' },
    { trade_timestamp: 1700000000 },
    { metadata: [] },
    { metadata: 'text' }
  ]) {
    const response = await partner.call(collectTrade, { body: record(broken) })
    assert.is(response.status, 400, JSON.stringify(broken))
    assert.is(response.body.details[0].path, `/body/${Object.keys(broken)[0]}`)
  }
  assert.is((await partner.call(listTradeHistory)).body.data.length, 0)
})

collecting('refuses metadata that is too large, too deep or cannot be stored', async () => {
  const partner = await harness.makePartner()
  const deep = (levels: number) =>
    JSON.stringify(record()).replace('}', `,"metadata":{"a":${'['.repeat(levels)}${']'.repeat(levels)}}}`)
  for (const [path, body] of [
    ['', record({ metadata: { text: 'x'.repeat(16_384) } })],
    // Half as many characters, of two bytes each.
    ['', record({ metadata: { text: 'ä'.repeat(8192) } })],
    ['', record({ metadata: { wide: Array(9_000).fill(0) } })],
    ['', record({ metadata: nested(22) })],
    ['/a', record({ metadata: { a: 'b\u0000' } })],
    ['/a/0', record({ metadata: { a: ['b\ud800'] } })],
    ['', record({ metadata: { 'a\u0000': 1 } })]
  ] as const) {
    const response = await partner.call(collectTrade, { body })
    assert.is(response.status, 400)
    assert.is(response.body.details[0].path, `/body/metadata${path}`)
  }
  for (const [status, body] of [
    [400, deep(500_000)],
    [400, record({ metadata: { wide: Array(500_000).fill(0) } })],
    [413, deep(550_000)],
    [413, record({ metadata: { wide: Array(550_000).fill(0) } })]
  ] as const)
    assert.is((await partner.call(collectTrade, { body })).status, status)
})

collecting('keeps free-form metadata as it came', async () => {
  const partner = await harness.makePartner()
  const metadata = { é: '🙂', list: [1, 'two', null, { three: 3.5 }], deep: nested(19), constructor: 1, '': false }
  assert.is((await partner.call(collectTrade, { body: record({ metadata }) })).status, 200)
  const { body } = await partner.call(listTradeHistory)
  assert.equal(body.data[0].metadata, metadata)
})

collecting('records a contract once for each partner, and returns whether it was recorded before', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const body = record()
  const first = await partner.call(collectTrade, { body })
  assert.is(first.body.duplicate, false)
  const again = await partner.call(collectTrade, { body: { ...body, stake_amount: 99 } })
  assert.equal(again.body, { ...first.body, duplicate: true })
  assert.is((await partner.call(listTradeHistory)).body.data[0].stake_amount, 10)
  const theirs = await other.call(collectTrade, { body })
  assert.is(theirs.body.duplicate, false)
  assert.is.not(theirs.body.tradeId, first.body.tradeId)
})

collecting('records a contract once when it is reported many times at once', async () => {
  const partner = await harness.makePartner()
  const body = record()
  const responses = await Promise.all(Array.from({ length: 10 }, () => partner.call(collectTrade, { body })))
  assert.is(new Set(responses.map(({ body }) => body.tradeId)).size, 1)
  assert.is(responses.filter(({ body }) => !body.duplicate).length, 1)
})

collecting('reads ISO dates, with and without time and zone, and epochs', () => {
  for (const [given, meant] of [
    ['2026-01-02', '2026-01-02T00:00:00.000Z'],
    ['2026-01-02T03:04', '2026-01-02T03:04:00.000Z'],
    ['2026-01-02 03:04:05', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02 03:04:05 UTC', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02T03:04:05.678901Z', '2026-01-02T03:04:05.678Z'],
    ['2026-01-02T03:04:05.5+05:30', '2026-01-01T21:34:05.500Z'],
    ['2026-01-02T03:04:05-0800', '2026-01-02T11:04:05.000Z'],
    ['2026-01-02T03:04:05+01', '2026-01-02T02:04:05.000Z'],
    ['1767323045', '2026-01-02T03:04:05.000Z'],
    ['1767323045678', '2026-01-02T03:04:05.678Z']
  ] as const)
    assert.is(readTradeTimestamp(given).toISOString(), meant, given)
})

history('refuses a limit that is none', async () => {
  const partner = await harness.makePartner()
  for (const limit of ['0', '201', 'ten', '1.5', ''])
    assert.is((await partner.call(listTradeHistory, { query: { limit } })).status, 400, limit)
})

history('returns every field under the name it was given, the newest trade first', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const full = {
    ...record({ trade_timestamp: '1767323045' }),
    payout_amount: 19.53,
    currency: 'USD',
    trader_external_id: 'user-42',
    symbol: 'R_100',
    metadata: { a: 1 }
  }
  const older = record({ trade_timestamp: '2025-12-31', profit_loss: -10.000000001, stake_amount: 1e-7 })
  for (const body of [full, older]) await partner.call(collectTrade, { body: { ...body, unknown: 'ignored' } })
  await other.call(collectTrade, { body: record() })
  const { data } = (await partner.call(listTradeHistory)).body
  assert.is(data.length, 2)
  const { tradeId, collectedAt, ...first } = data[0]
  assert.equal(first, full)
  assert.ok(tradeId.startsWith('rec_') && Date.parse(collectedAt) > Date.now() - 60_000)
  const nothing = { payout_amount: null, currency: null, trader_external_id: null, symbol: null, metadata: null }
  assert.equal({ ...data[1], tradeId: '', collectedAt: '' }, { tradeId: '', collectedAt: '', ...older, ...nothing })
})

history('returns 50 at most, with a limit up to 200', async () => {
  const partner = await harness.makePartner()
  await db.raw(
    `insert into trade_records (id, partner_id, broker_contract_id, client_broker_loginid, contract_type, stake_amount,
       profit_loss, trade_timestamp, traded_at)
     select 'rec_' || lpad(i::text, 26, '0'), ?, i, 'CR1', 'CALL', 1, 1, '2026-01-01', '2026-01-01' from generate_series(1, 210) i`,
    [partner.partnerId]
  )
  const count = async (query = {}) => (await partner.call(listTradeHistory, { query })).body.data.length
  assert.equal([await count(), await count({ limit: 7 }), await count({ limit: 200 })], [50, 7, 200])
})

history.after(closeAll)
collecting.run()
history.run()
