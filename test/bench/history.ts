// Reads: GET /v1/me beside bare Koa, and pages of an order history that grows.
import { rows } from '../../db/postgres/connection.ts'
import { print, range, verdict } from './report.ts'
import { call, each, load, median, ms, type Stage, setStage } from './stage.ts'
import { bareKoa } from './throughput.ts'

const CONNECTIONS = 64
const ROUNDS = 3

/** GET /v1/me and bare Koa in turns. */
export async function me(seconds: number): Promise<void> {
  const stage = await setStage()
  const { address } = await stage.startApi()
  const ask = () => call({ address, key: stage.key, path: '/v1/me' })
  const ours: number[] = []
  const bare: number[] = []
  // What runs the first time is compiled first, on both sides.
  await load({ connections: CONNECTIONS, seconds: 1, work: ask })
  await bareKoa({ connections: CONNECTIONS, seconds: 1, method: 'GET' })
  for (let round = 0; round < ROUNDS; round++) {
    ours.push((await load({ connections: CONNECTIONS, seconds, work: ask })).perSecond)
    bare.push((await bareKoa({ connections: CONNECTIONS, seconds, method: 'GET' })).perSecond)
  }
  const ratio = median(ours) / median(bare)
  print(
    `GET /v1/me, ${CONNECTIONS} connections; the service is a process of its own with PostgreSQL beside it, bare Koa runs in the process of the load`,
    ['service a second', 'bare Koa a second', 'ratio', 'goal'],
    [[range(ours), range(bare), `${ratio.toFixed(2)} ×`, verdict('≥ 0.5 ×', ratio >= 0.5)]]
  )
  await stage.close()
}

/** Pages of the history at 1,000, 100,000 and 1,000,000 orders. */
export async function history(seconds: number): Promise<void> {
  const stage = await setStage()
  const { address } = await stage.startApi()
  const [trader] = await stage.makeTraders(address, 1)
  const body: string[][] = []
  let base: number[] = []
  let last: number[] = []
  for (const count of [1000, 100_000, 1_000_000]) {
    await fill(stage, trader as string, count)
    const times: number[] = []
    for (const path of [
      '/v1/orders',
      `/v1/orders?cursor=${await deepCursor(stage)}`,
      '/v1/orders?status=CLOSED',
      `/v1/orders?traderExternalId=${trader}`
    ]) {
      const work = () => call({ address, key: stage.key, path })
      times.push((await load({ connections: 4, seconds: seconds / 2, work })).p50)
    }
    if (base.length === 0) base = times
    last = times.map((value, index) => value / (base[index] as number))
    body.push([
      count.toLocaleString('en'),
      ...times.map((value, index) => `${ms(value)} (${(last[index] as number).toFixed(2)} ×)`)
    ])
  }
  print(
    'GET /v1/orders, p50 with 4 connections, pages of 50',
    ['orders', 'first page', 'deep page', 'by status', 'by trader'],
    body
  )
  console.log(verdict('At 1,000,000 orders ≤ 1.3 × of 1,000', Math.max(...last) <= 1.3))
  await stage.close()
}
/** Fills the history up to `count` closed orders of one trader. */
async function fill(stage: Stage, trader: string, count: number): Promise<void> {
  const [have] = await rows<{ count: number }>(stage.db, 'select count(*) as count from orders')
  const missing = count - (have?.count ?? 0)
  const groups = Array.from({ length: Math.ceil(missing / 50_000) }, (_, index) =>
    Math.min(50_000, missing - index * 50_000)
  )
  await each(groups, 1, size =>
    rows(
      stage.db,
      `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id,
           dialect, kind, client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, created_at, queued_at,
           expires_at, broker_order_id, buy_price, payout, opened_at, pnl, entry_price, exit_price, closed_at)
       select 'ord_' || lpad(to_hex((random() * 1e15)::bigint), 13, '0') || lpad(to_hex(n), 13, '0'), t.partner_id, t.id, t.external_id, a.id, a.account_id,
              'DEMO', 'USD', '1', 'v3', 'BINARY', gen_random_uuid()::text, '\\x00', 'R_100', 'CALL', 1, 1, 't', 'closed', at, at, at,
              gen_random_uuid()::text, 1, 1.95, at, -1, 100, 101, at
         from generate_series(1, :size::int) n
        cross join lateral (select now() - n * interval '1 second' - random() * interval '300 days' as at) d
         join traders t on t.external_id = :trader join broker_accounts a on a.id = t.active_account_id`,
      { size, trader }
    )
  )
  await stage.db.raw('vacuum analyze orders')
}

/** A cursor in the middle of the history. */
async function deepCursor(stage: Stage): Promise<string> {
  const [middle] = await rows<{ micros: string; id: string }>(
    stage.db,
    `select (extract(epoch from created_at) * 1000000)::bigint::text as micros, id from orders
      where partner_id = :partnerId order by created_at desc, id desc offset (select count(*) / 2 from orders) limit 1`,
    { partnerId: stage.partnerId }
  )
  return Buffer.from(JSON.stringify([middle?.micros, middle?.id])).toString('base64url')
}
