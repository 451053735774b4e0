// Webhooks: what one worker delivers a second, how soon after a change, beside endpoints that misbehave, and with a backlog. The endpoints
// run in a process of their own (receivers.ts); events are rows of the outbox, as every change writes them, and for the backlog rows of the log.
//   BENCH_EVENTS  events of the backlog (1,000,000)
//   BENCH_CASES   only parts whose name contains one of these, by comma: rate, latency, hostile, backlog
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { insertKey } from '../../db/partners/keys.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { rows } from '../../db/postgres/connection.ts'
import { insertWebhook } from '../../db/webhooks/endpoints.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import type { Received, ReceiverRequest } from './receivers.ts'
import { memoryOf, print, verdict } from './report.ts'
import { call, each, ms, type Stage, setStage, spread, TOKEN_KEYS } from './stage.ts'

const PARTNERS = 20
const ENDPOINTS = 10
const ORDERS = 500
const RATE = 100
const BACKLOG = Number(process.env.BENCH_EVENTS ?? 1_000_000)
const ROUNDS = 2
// Longer than a request may take.
const HANGING_MS = 17_000
const goals = { slow: 1000, ok: 1500, p50: 10, p99: 50, beside: 1.2, backlog: 1.05, drained: 1000 }

interface BenchPartner {
  partnerId: string
  key: string
}

interface Bench {
  stage: Stage
  address: string
  worker: ChildProcess
  partners: BenchPartner[]
  /** An address where nobody listens. */
  refusing: string
  base: string
  /** What the endpoints whose path begins so received since the last call. */
  take(prefix: string): Promise<Received>
  revive(): Promise<void>
}

/** All parts, each with a row beside its goal. */
export async function webhooks(seconds: number): Promise<void> {
  const wanted = process.env.BENCH_CASES?.split(',')
  const parts = { rate, latency, hostile, backlog }
  const stage = await setStage()
  const { address } = await stage.startApi({ WEBHOOK_ALLOW_PRIVATE: '1' })
  const worker = await stage.startWorker({ WEBHOOK_ALLOW_PRIVATE: '1' })
  const receivers = await startReceivers()
  const partners = await makePartners(stage, address)
  const bench: Bench = { stage, address, worker, partners, refusing: await closedAddress(), ...receivers }
  for (const [name, part] of Object.entries(parts))
    if (wanted?.some(each => name.includes(each)) ?? true) await part(bench, seconds)
  receivers.child.disconnect()
  await stage.close()
}

async function startReceivers() {
  const child = fork('test/bench/receivers.ts', { execArgv: ['--require', './.node-version.cjs'] })
  const [{ base }] = (await once(child, 'message')) as [{ base: string }]
  const ask = async (request: ReceiverRequest): Promise<Received> => {
    child.send(request)
    const [received] = (await once(child, 'message')) as [Received]
    return received
  }
  return {
    child,
    base,
    take: (prefix: string) => ask({ take: prefix }),
    revive: async () => void (await ask({ revive: true }))
  }
}

async function closedAddress(): Promise<string> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  return `http://127.0.0.1:${port}`
}

/** Partners with a trader and closed orders each, whose events are then reported. */
async function makePartners(stage: Stage, address: string): Promise<BenchPartner[]> {
  const { db } = stage
  const pepper = await openPepper(db, openVault(TOKEN_KEYS))
  const partners: BenchPartner[] = []
  await each(Array.from({ length: PARTNERS }), 4, async (_, index) => {
    const { partnerId } = await insertPartner(db, {
      name: `Bench ${index}`,
      plan: 'SCALE',
      brokerAppId: '1',
      brokerDialect: 'v3'
    })
    const { key } = await insertKey(db, pepper, { partnerId, label: null, scopes: allScopes })
    const accountId = `VRTC${randomBytes(4).readUInt32BE(0)}`
    const account = { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
    await call({
      address,
      key,
      path: '/v1/auth/broker/exchange',
      body: { traderExternalId: `trader-${index}`, accounts: [account] }
    })
    partners.push({ partnerId, key })
  })
  await rows(
    db,
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id,
         dialect, kind, client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, created_at, queued_at,
         expires_at, broker_order_id, buy_price, payout, opened_at, pnl, entry_price, exit_price, closed_at)
     select 'ord_' || left(replace(gen_random_uuid()::text, '-', ''), 26), t.partner_id, t.id, t.external_id, a.id, a.account_id,
            'DEMO', 'USD', '1', 'v3', 'BINARY', gen_random_uuid()::text, '\\x00', 'R_100', 'CALL', 1, 1, 't', 'closed', now(), now(), now(),
            gen_random_uuid()::text, 1, 1.95, now(), -1, 100, 101, now()
       from generate_series(1, :count::int) n
      cross join traders t join broker_accounts a on a.id = t.active_account_id`,
    { count: ORDERS }
  )
  await db.raw('vacuum analyze orders')
  return partners
}

const idsOf = (partners: readonly BenchPartner[]): string[] => partners.map(({ partnerId }) => partnerId)

/** Has `count` orders of each partner closed, as far as the log is concerned. */
async function publish({ stage: { db } }: Bench, partners: readonly BenchPartner[], count: number): Promise<void> {
  await rows(
    db,
    `insert into event_outbox (partner_id, type, subject, trader)
     select partner_id, 'order.closed', id, trader_external_id
       from (select partner_id, id, trader_external_id, row_number() over (partition by partner_id order by random()) as place
               from orders where partner_id = any(:ids::text[]) and phase = 'closed') as o
      where place <= :count::int`,
    { ids: idsOf(partners), count }
  )
  await db.raw(`select pg_notify('svc_work', 'events new')`)
}

/** Waits until the log has everything. */
async function sequenced({ stage: { db } }: Bench): Promise<void> {
  while (await db('event_outbox').first('id')) await sleep(50)
}

const vault = openVault(TOKEN_KEYS)

/** Registers an endpoint of a partner; returns its id. */
async function register({ stage: { db } }: Bench, { partnerId }: BenchPartner, url: string): Promise<string> {
  const { row } = await db.transaction(trx =>
    insertWebhook(trx, vault, { partnerId, url, types: null, description: null })
  )
  return row.id
}

/** Registers ten endpoints of each partner; `address` gives their addresses. */
async function registerAll(bench: Bench, address: (partner: number, endpoint: number) => string): Promise<void> {
  await each(bench.partners, 4, async (partner, index) => {
    for (let endpoint = 0; endpoint < ENDPOINTS; endpoint++) await register(bench, partner, address(index, endpoint))
  })
}

/** Deletes all endpoints, and waits until the worker has noticed: what is under way has ended. */
async function clear(bench: Bench): Promise<void> {
  const { db } = bench.stage
  await db('webhook_endpoints').delete()
  await sequenced(bench)
  await quiet(bench, '')
}

/** Waits until nothing has been received for a second. */
async function quiet({ take }: Bench, prefix: string): Promise<void> {
  do await sleep(1000)
  while ((await take(prefix)).count > 0)
}

async function rate(bench: Bench, seconds: number): Promise<void> {
  const body: string[][] = []
  for (const [how, what, goal] of [
    ['slow', '100 ms away', goals.slow],
    ['ok', 'no delay', goals.ok]
  ] as const) {
    await registerAll(bench, (partner, endpoint) => `${bench.base}/${how}/${partner}-${endpoint}`)
    const events = ORDERS
    await publish(bench, bench.partners, events)
    // Windows open, code is compiled.
    while ((await bench.take(how)).count === 0) await sleep(100)
    await sleep(2000)
    await bench.take(how)
    const [startedAt, before] = [performance.now(), await bench.stage.cpuSeconds()]
    await sleep(2 * seconds * 1000)
    const [{ count }, tookS, after] = [
      await bench.take(how),
      (performance.now() - startedAt) / 1000,
      await bench.stage.cpuSeconds()
    ]
    const cores = (name: string) => (((after[name] ?? 0) - (before[name] ?? 0)) / tookS).toFixed(2)
    const perSecond = count / tookS
    body.push([
      what,
      perSecond.toFixed(0),
      verdict(`≥ ${goal.toLocaleString('en')}/s`, perSecond >= goal),
      `worker ${cores('worker')}, PostgreSQL ${cores('PostgreSQL')}`,
      `${(await memoryOf(bench.worker.pid)).toFixed(0)} MB`
    ])
    await clear(bench)
  }
  print(
    `Deliveries a second of one worker to ${PARTNERS * ENDPOINTS} endpoints of ${PARTNERS} partners, while more wait`,
    ['endpoints', 'deliveries/s', 'goal', 'cores used', 'worker'],
    body
  )
}

/** Places orders of the stage's partner at the usual rate; returns how long each took, ms. */
async function orders({ stage, address }: Bench, traders: string[], seconds: number): Promise<number[]> {
  const long = { duration: 60, durationUnit: 'm' }
  return steady(RATE, seconds, async index => {
    const startedAt = performance.now()
    const body = tickOrder(traders[index % traders.length] as string, long)
    await call({ address, key: stage.key, path: '/v1/orders/binary', body })
    return performance.now() - startedAt
  })
}

async function latency(bench: Bench, seconds: number): Promise<void> {
  const { stage, address, base, take } = bench
  const traders = await stage.makeTraders(address, 100)
  await sequenced(bench)
  await register(bench, { partnerId: stage.partnerId, key: stage.key }, `${base}/ok/latency`)
  await orders(bench, traders, seconds)
  await quiet(bench, 'ok')
  await orders(bench, traders, 3 * seconds)
  await sleep(1000)
  const { count, agesMs } = await take('ok')
  const { p50, p99 } = spread(agesMs)
  print(
    `From the change (before its commit) to the request at the endpoint, at ${RATE} orders/s`,
    ['requests', 'p50', 'p99', 'goal'],
    [
      [
        String(count),
        ms(p50),
        ms(p99),
        verdict(`${goals.p50} ms, ${goals.p99} ms`, p50 <= goals.p50 && p99 <= goals.p99)
      ]
    ]
  )
  await clear(bench)
}

async function hostile(bench: Bench, seconds: number): Promise<void> {
  const { stage, base, refusing, partners, take } = bench
  // Of the ten endpoints of each partner one hangs, one refuses, one responds with a byte a second.
  const address = (partner: number, endpoint: number) => {
    const how = ['hang', 'refuse', 'drip'][endpoint] ?? 'ok'
    return `${how === 'refuse' ? refusing : base}/${how}/${partner}-${endpoint}`
  }
  await registerAll(bench, address)
  const bad = () => stage.db('webhook_endpoints').whereNot('url', 'like', `${base}/ok/%`)
  const turn = (on: boolean) =>
    bad().update({
      enabled: on,
      disabled_at: on ? null : stage.db.fn.now(),
      disabled_reason: on ? null : 'OPERATOR',
      worker: null,
      next_at: stage.db.fn.now(),
      lease: stage.db.raw('lease + 1')
    })
  const measure = async (length: number) => {
    for (let left = length * 5; left > 0; left--) {
      await publish(bench, partners.slice((left % 5) * 4, (left % 5) * 4 + 4), 2)
      await sleep(200)
    }
    await sleep(500)
    return (await take('ok')).agesMs
  }
  const [alone, beside]: [number[], number[]] = [[], []]
  const run = async (to: number[], rounds: number) => {
    await take('')
    for (let round = 0; round < rounds; round++) to.push(...(await measure(2 * seconds)))
  }
  await turn(false)
  await measure(2 * seconds)
  await run(alone, 1)
  await turn(true)
  // The first requests have timed out by then.
  await sleep(HANGING_MS)
  await run(beside, 2)
  await turn(false)
  await sleep(2000)
  await run(alone, 1)
  const [a, b] = [spread(alone), spread(beside)]
  const ratio = b.p99 / a.p99
  print(
    `${(ENDPOINTS - 3) * PARTNERS} good endpoints alone and beside ${PARTNERS} that hang, ${PARTNERS} that refuse and ${PARTNERS} that answer a byte a second; 40 events/s; before, beside, after`,
    ['requests', 'alone p50 / p99', 'beside p50 / p99', 'p99', 'goal'],
    [
      [
        `${alone.length} / ${beside.length}`,
        `${ms(a.p50)} / ${ms(a.p99)}`,
        `${ms(b.p50)} / ${ms(b.p99)}`,
        `${ratio.toFixed(2)} ×`,
        verdict(`≤ ${goals.beside} ×`, ratio <= goals.beside)
      ]
    ]
  )
  await clear(bench)
}

async function backlog(bench: Bench, seconds: number): Promise<void> {
  const { stage, address, base, take } = bench
  const traders = await stage.makeTraders(address, 100)
  const [late, other] = bench.partners as [BenchPartner, BenchPartner]
  await sequenced(bench)
  const webhookId = await register(bench, late, `${base}/dead/late`)
  await register(bench, other, `${base}/ok/other`)
  const beside = async () => {
    await take('ok')
    const [times] = await Promise.all([
      orders(bench, traders, 2 * seconds),
      (async () => {
        for (let left = 2 * seconds * 5; left > 0; left--) {
          await publish(bench, [other], 2)
          await sleep(200)
        }
      })()
    ])
    return { orders: times, requests: (await take('ok')).agesMs }
  }
  const figures = { before: await none(), during: await none(), drained: await none() }
  const add = async (to: { orders: number[]; requests: number[] }) => {
    const more = await beside()
    to.orders.push(...more.orders)
    to.requests.push(...more.requests)
  }
  await beside()
  for (let round = 0; round < ROUNDS; round++) await add(figures.before)
  const size = () => diskOf(stage, ['events', 'webhook_pending', 'webhook_attempts'])
  const [diskBefore, startedAt] = [await size(), performance.now()]
  await fill(stage, late)
  const filledS = (performance.now() - startedAt) / 1000
  // What a million rows at once leave PostgreSQL to do is over before, as it is where they came in days.
  await stage.db.raw('vacuum (analyze) events')
  await stage.db.raw('checkpoint')
  await beside()
  for (let round = 0; round < ROUNDS; round++) await add(figures.during)
  const diskAfter = await size()
  await bench.revive()
  // As if its next probe were due now.
  await stage
    .db('webhook_endpoints')
    .where({ id: webhookId })
    .update({
      paused_until: null,
      next_at: stage.db.fn.now(),
      worker: null,
      lease: stage.db.raw('lease + 1')
    })
  while ((await take('dead')).count === 0) await sleep(200)
  await sleep(2000)
  await take('dead')
  const drainedAt = performance.now()
  await sleep(2 * seconds * 1000)
  const drained = (await take('dead')).count / ((performance.now() - drainedAt) / 1000)
  await add(figures.drained)
  const besideOrders = (await take('dead')).count / (2 * seconds)
  const row = (what: string, { orders: times, requests }: Awaited<ReturnType<typeof none>>) => {
    const [o, r] = [spread(times), spread(requests)]
    const [o0, r0] = [spread(figures.before.orders), spread(figures.before.requests)]
    const ratios = [o.p50 / o0.p50, r.p50 / r0.p50]
    return [
      what,
      `${ms(o.p50)} / ${ms(o.p99)}`,
      `${(o.p50 / o0.p50).toFixed(2)} ×`,
      `${ms(r.p50)} / ${ms(r.p99)}`,
      `${(r.p50 / r0.p50).toFixed(2)} ×`,
      what === 'dead, with a backlog' ? verdict(`≤ ${goals.backlog} ×`, Math.max(...ratios) <= goals.backlog) : ''
    ]
  }
  const grown = diskAfter - diskBefore
  print(
    `A backlog of ${BACKLOG.toLocaleString('en')} events of one endpoint, written in ${filledS.toFixed(0)} s: ${(grown / 2 ** 20).toFixed(0)} MB on disk, ${(grown / BACKLOG).toFixed(0)} bytes an event (the log; waiting costs nothing more)`,
    ['the endpoint is', `orders at ${RATE}/s p50 / p99`, 'p50', "another endpoint's requests p50 / p99", 'p50', 'goal'],
    [
      row('dead, without a backlog', figures.before),
      row('dead, with a backlog', figures.during),
      row('back, and drains', figures.drained)
    ]
  )
  console.log(
    `Drained at ${drained.toFixed(0)}/s, ${besideOrders.toFixed(0)}/s beside these orders; ${verdict(`≥ ${goals.drained.toLocaleString('en')}/s`, drained >= goals.drained)}`
  )
  await clear(bench)
}

const none = async () => ({ orders: [] as number[], requests: [] as number[] })

/** Writes events of a partner to its log, as the sequencer would: each of a record of its own. */
async function fill({ db }: Stage, { partnerId }: BenchPartner): Promise<void> {
  const size = Math.min(100_000, BACKLOG)
  for (let written = 0; written < BACKLOG; written += size)
    await rows(
      db,
      `with moved as (
         update event_positions set position = position + :size::int where partner_id = :partnerId returning position
       ), sample as (
         select facts from events where partner_id = :partnerId and type = 'key.created' limit 1
       )
       insert into events (partner_id, day, position, id, type, subject, at, facts)
       select :partnerId, (select day from event_epoch), position - :size::int + n, event_id(), 'key.created',
              'key_' || (position - :size::int + n), clock_timestamp(), sample.facts
         from moved cross join sample cross join generate_series(1, :size::int) n`,
      { partnerId, size }
    )
  // What such a load leaves PostgreSQL to do is no part of a backlog that grew over hours.
  await db.raw('vacuum analyze events')
  await db.raw('checkpoint')
  await db.raw(`select pg_notify('svc_events', ?)`, [`events ${partnerId}`])
}

/** Bytes on disk of tables with all their partitions and indexes. */
async function diskOf({ db }: Stage, tables: string[]): Promise<number> {
  const [found] = await rows<{ bytes: number }>(
    db,
    `select sum(pg_total_relation_size(p.relid))::float8 as bytes from unnest(:tables::text[]) as t cross join pg_partition_tree(t::regclass) p`,
    { tables }
  )
  return found?.bytes ?? 0
}
