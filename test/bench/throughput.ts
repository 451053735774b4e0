// Throughput: orders through API, worker, broker and back, not waiting for settlement, beside bare peers on
// the same machine in the same run: pg-boss used plainly, bare Koa with the same body, and single-row commits.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Router from '@koa/router'
import Koa from 'koa'
import { koaBody } from 'koa-body'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { tickOrder } from '../support/tick-order.ts'
import { call, type Load, load, type Stage } from './stage.ts'

/** Orders a second with so many connections, for so long or so many; a minute's contract returns as soon as it is bought. */
export async function orders(
  stage: Stage,
  {
    address,
    connections,
    seconds = 3600,
    calls
  }: { address: string; connections: number; seconds?: number; calls?: number }
): Promise<Load> {
  return load({ connections, seconds, calls, work: await openMinuteOrders(stage, { address, connections }) })
}

/** Places an order for the caller's own trader, by the caller's number; each account's broker connection is open. */
export async function openMinuteOrders(
  stage: Stage,
  { address, connections }: { address: string; connections: number }
): Promise<(caller: number) => Promise<unknown>> {
  const traders = await stage.makeTraders(address, connections)
  const place = (caller: number) =>
    call({
      address,
      key: stage.key,
      path: '/v1/orders/binary',
      body: tickOrder(traders[caller] as string, { duration: 60, durationUnit: 'm' })
    })
  await Promise.all(traders.map((_, caller) => place(caller)))
  return place
}

/** pg-boss as its manual shows it: send one by one, work in batches, done when the handler has run. */
export async function plainQueue(
  stage: Stage,
  { connections, seconds }: { connections: number; seconds: number }
): Promise<Load> {
  const boss = new PgBoss({ connectionString: stage.url, schema: 'bench_boss', max: 10, useListenNotify: true })
  boss.on('error', () => {})
  await boss.start()
  await boss.createQueue('plain', { notify: true })
  const waiting = new Map<string, () => void>()
  await boss.work('plain', { batchSize: 50, burstWhenBatchFull: true }, async (jobs: { data: unknown }[]) => {
    for (const { data } of jobs) waiting.get((data as { id: string }).id)?.()
  })
  let count = 0
  const result = await load({
    connections,
    seconds,
    work: async caller => {
      const id = `${caller} ${count++}`
      const done = new Promise<void>(resolve => waiting.set(id, resolve))
      await boss.send('plain', { id })
      await done
      waiting.delete(id)
    }
  })
  await boss.stop({ graceful: false })
  return result
}

/** Koa, router and koa-body serving a POST of the same size, or a GET. */
export async function bareKoa({
  connections,
  seconds,
  method
}: {
  connections: number
  seconds: number
  method: 'GET' | 'POST'
}): Promise<Load> {
  const app = new Koa()
  const router = new Router()
  router.post('/v1/orders/binary', koaBody(), ctx => {
    ctx.body = { received: (ctx.request as { body?: { clientOrderId?: string } }).body?.clientOrderId }
  })
  router.get('/v1/me', ctx => {
    ctx.body = { partnerId: 'ptn_0', name: 'Bench', plan: 'SCALE', saasStatus: 'ACTIVE', tradersCount: 1, scopes: [] }
  })
  app.use(router.routes())
  const server = createServer(app.callback()).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const result = await load({
    connections,
    seconds,
    work: () =>
      method === 'GET'
        ? call({ address, key: 'none', path: '/v1/me' })
        : call({ address, key: 'none', path: '/v1/orders/binary', body: tickOrder('bare') })
  })
  server.closeAllConnections()
  server.close()
  return result
}

/** Single-row inserts, each its own commit, over eight connections. */
export async function commits(stage: Stage, { seconds }: { seconds: number }): Promise<Load> {
  const pool = new pg.Pool({ connectionString: stage.url, max: 8 })
  await pool.query(
    'create table if not exists bench_commits (id bigint generated always as identity, at timestamptz default now())'
  )
  const result = await load({
    connections: 8,
    seconds,
    work: () => pool.query('insert into bench_commits default values')
  })
  await pool.end()
  return result
}
