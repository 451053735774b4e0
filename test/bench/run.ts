// `make bench`: the service beside bare peers in one run on one machine. The machine is noisy, so runs are
// interleaved and the median is told; ratios are what travels, absolute figures are for this machine.
//   BENCH_SECONDS  length of one measurement (4)
//   BENCH_ONLY     some of: added, throughput, reads, start
import { cpus } from 'node:os'
import Table from 'cli-table3'
import { rows } from '../../db/connection.ts'
import { addedTime } from './added-time.ts'
import { call, each, load, median, ms, type Stage, setStage } from './stage.ts'
import { bareKoa, commits, orders, plainQueue } from './throughput.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 4)
const only = process.env.BENCH_ONLY?.split(',')
const wanted = (name: string) => !only || only.includes(name)
const ROUNDS = 3

function print(title: string, head: string[], body: string[][]): void {
  const table = new Table({ head, style: { head: [], border: [] } })
  table.push(...body)
  console.log(`\n${title}\n${table.toString()}`)
}

console.log(
  `${cpus().length} × ${cpus()[0]?.model.trim()}, Node ${process.version}, ${new Date().toISOString()}; PostgreSQL with fsync on; everything shares these cores`
)

if (wanted('added')) {
  const stage = await setStage(['--tick-ms', '10'])
  const { address } = await stage.startApi()
  await stage.startWorker()
  print(
    'Time added to a tick order (same broker, same ticks)',
    ['load', 'direct p50 / p99', 'service p50 / p99', 'added p50 / p95 / p99', 'orders'],
    await addedTime(stage, { address, seconds })
  )
  await stage.close()
}

if (wanted('throughput')) {
  const stage = await setStage(['--tick-ms', '1000'])
  const { address, child } = await stage.startApi()
  const worker = await stage.startWorker()
  const body: string[][] = []
  for (const connections of [64, 256]) {
    const figures = { orders: [] as number[], queue: [] as number[], koa: [] as number[], commits: [] as number[] }
    for (let round = 0; round < ROUNDS; round++) {
      figures.orders.push((await orders(stage, { address, connections, seconds })).perSecond)
      figures.queue.push((await plainQueue(stage, { connections, seconds })).perSecond)
      figures.koa.push((await bareKoa({ connections, seconds, method: 'POST' })).perSecond)
      figures.commits.push((await commits(stage, { seconds: seconds / 2 })).perSecond)
    }
    const service = median(figures.orders)
    const against = (values: number[]) => `${(service / median(values)).toFixed(2)} × (${median(values).toFixed(0)}/s)`
    body.push([
      `${connections} connections`,
      `${service.toFixed(0)}/s`,
      against(figures.queue),
      against(figures.koa),
      against(figures.commits)
    ])
  }
  print(
    'Orders through API, worker, broker and back',
    ['load', 'orders', 'of plain pg-boss', 'of bare Koa POST', 'of single commits'],
    body
  )
  const memory = await Promise.all([memoryOf(child.pid), memoryOf(worker.pid)])
  console.log(`Memory after the orders: API ${memory[0]} MB, worker ${memory[1]} MB`)
  await stage.close()
}

if (wanted('reads')) {
  const stage = await setStage()
  const { address } = await stage.startApi()
  const connections = 64
  const me: number[] = []
  const bare: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    me.push(
      (await load({ connections, seconds, work: () => call({ address, key: stage.key, path: '/v1/me' }) })).perSecond
    )
    bare.push((await bareKoa({ connections, seconds, method: 'GET' })).perSecond)
  }
  print(
    'GET /v1/me',
    ['service', 'bare Koa', 'ratio'],
    [[`${median(me).toFixed(0)}/s`, `${median(bare).toFixed(0)}/s`, `${(median(me) / median(bare)).toFixed(2)} ×`]]
  )

  const [trader] = await stage.makeTraders(address, 1)
  const body: string[][] = []
  let base: number[] = []
  for (const count of [1000, 100_000, 1_000_000]) {
    await fill(stage, trader as string, count)
    const times: number[] = []
    for (const path of [
      '/v1/orders',
      `/v1/orders?cursor=${await deepCursor(stage)}`,
      '/v1/orders?status=CLOSED',
      `/v1/orders?traderExternalId=${trader}`
    ]) {
      times.push(
        (await load({ connections: 4, seconds: seconds / 2, work: () => call({ address, key: stage.key, path }) })).p50
      )
    }
    if (base.length === 0) base = times
    body.push([
      count.toLocaleString('en'),
      ...times.map((value, index) => `${ms(value)} (${(value / (base[index] as number)).toFixed(2)} ×)`)
    ])
  }
  print('GET /v1/orders, p50 with 4 connections', ['orders', 'first page', 'deep page', 'by status', 'by trader'], body)
  await stage.close()
}

if (wanted('start')) {
  const stage = await setStage()
  const times: number[] = []
  for (let round = 0; round < 5; round++) {
    const api = await stage.startApi()
    times.push(api.readyMs)
    api.child.kill('SIGTERM')
  }
  print('Start', ['API process to its first answer (median of 5)'], [[ms(median(times))]])
  await stage.close()
}

/** Resident memory of a process in MB. */
async function memoryOf(pid: number | undefined): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return (Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024).toFixed(0)
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
