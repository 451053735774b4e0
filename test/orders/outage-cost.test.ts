// What an outage of the broker costs: while nothing can be sent, orders wait without turning round. Counted are the
// connection attempts at the broker, PostgreSQL's transactions and what they write to its log.
// test in the full run only
// test time-out: 300 s
// test once for each dialect
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { rows } from '../../db/postgres/connection.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const ACCOUNTS = 4
const ORDERS = 20
const OUTAGE_MS = 10_000

type Refusing = 'closes connections' | 'returns 503' | 'returns 429'

/** A broker that takes nothing; counts who comes. */
async function startRefusing(how: Refusing): Promise<{ attempts(): number; port: number; server: Server }> {
  let attempts = 0
  const server = createServer((_request, response) => {
    response.writeHead(how === 'returns 429' ? 429 : 503, { connection: 'close' }).end('{}')
  })
  server.on('connection', socket => {
    attempts += 1
    socket.on('error', () => {})
    if (how === 'closes connections') socket.destroy()
  })
  server.on('upgrade', (_request, socket) => {
    socket.end(
      `HTTP/1.1 ${how === 'returns 429' ? '429 Too Many Requests' : '503 Unavailable'}\r\nconnection: close\r\n\r\n`
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { attempts: () => attempts, port: (server.address() as AddressInfo).port, server }
}

interface OutageCost {
  transactions: number
  /** Null before PostgreSQL 18, which does not count them by backend. */
  walBytes: number | null
}

interface OutageReading {
  transactions: number
  /** What each connection has written so far. */
  walBytes: Map<number, number> | null
}

async function openStack(env: Record<string, string>) {
  const harness = await openHarness({ env: { ORDER_TTL_MS: '20000', PERMIT_MS: '3000', ...env } })
  const { db } = harness.services
  const worker = await startTestWorker(harness.env)
  const partner = await harness.makePartner()
  const traders = await Promise.all(Array.from({ length: ACCOUNTS }, () => partner.makeTrader()))
  const [server] = await rows<{ counts: boolean }>(
    db,
    `select current_setting('server_version_num')::int >= 180000 as counts`
  )
  // Of this database's connections alone: other tests write to the same log, and so does autovacuum where a test takes long.
  const written = `select a.pid, wal.wal_bytes::float8 as bytes
                     from pg_stat_activity a cross join lateral pg_stat_get_backend_wal(a.pid) wal
                    where a.datname = current_database() and a.backend_type = 'client backend'`
  async function read(): Promise<OutageReading> {
    const [found] = await rows<{ transactions: number }>(
      db,
      `select (xact_commit + xact_rollback)::float8 as transactions from pg_stat_database where datname = current_database()`
    )
    const wal = server?.counts ? await rows<{ pid: number; bytes: number }>(db, written) : null
    return {
      transactions: found?.transactions ?? 0,
      walBytes: wal && new Map(wal.map(({ pid, bytes }) => [pid, bytes]))
    }
  }
  const place = (index: number) =>
    partner.call(placeBinaryOrder, {
      body: tickOrder(traders[index % ACCOUNTS]!.traderExternalId, { contractType: 'DIGITEVEN', duration: 5 })
    })
  return { harness, db, worker, read, place }
}

/** Places the orders, and returns what the outage cost until its time was over. */
async function outageOf(stack: Awaited<ReturnType<typeof openStack>>): Promise<OutageCost> {
  const { read, place } = stack
  const before = await read()
  const responses = Array.from({ length: ORDERS }, (_, index) => place(index).catch(() => undefined))
  const over = performance.now() + OUTAGE_MS
  await until('the end of the outage', () => performance.now() > over, OUTAGE_MS + 5000)
  const after = await read()
  void Promise.allSettled(responses)
  // A connection that has ended takes its bytes with it.
  const walBytes =
    after.walBytes &&
    [...after.walBytes].reduce((sum, [pid, bytes]) => sum + bytes - (before.walBytes?.get(pid) ?? 0), 0)
  return { transactions: after.transactions - before.transactions, walBytes }
}

function isCheap({ transactions, walBytes }: OutageCost): void {
  const written = walBytes === null ? 'not counted by this PostgreSQL' : `${(walBytes / 1e6).toFixed(2)} MB`
  console.log(`${dialect}: ${transactions} transactions, WAL: ${written}`)
  assert.ok(transactions <= 2000, `${transactions} transactions`)
  if (walBytes !== null) assert.ok(walBytes > 0 && walBytes <= 5e6, `${walBytes} bytes of WAL`)
}

const outage = suite(`20 orders on 4 accounts while the broker`)

for (const how of ['closes connections', 'returns 503', 'returns 429'] as const) {
  outage(`${how} for 10 s cost few attempts, transactions and bytes`, async () => {
    const broker = await startRefusing(how)
    const stack = await openStack({
      BROKER_URL: `ws://127.0.0.1:${broker.port}/websockets/v3`,
      BROKER_NEXT_URL: `http://127.0.0.1:${broker.port}`,
      BROKER_NEXT_APP_HEADER: 'App-Id',
      BROKER_NEXT_CALLS: '100000',
      BROKER_DIALECT: dialect
    })
    const cost = await outageOf(stack)
    console.log(`${dialect}, ${how}: ${broker.attempts()} attempts`)
    assert.ok(broker.attempts() >= 1 && broker.attempts() <= 30, `${broker.attempts()} connection attempts`)
    isCheap(cost)
  })
}

outage('has no calls left for them cost few transactions and bytes', async () => {
  const spent = { minute: 1, hour: 1 }
  const limits = { pricing: spent, trading: spent }
  const simulator = await startSimulator({ limits })
  onClose(() => simulator.close())
  const stack = await openStack({ ...brokerEnv(simulator), BROKER_NEXT_CALLS: '1' })
  isCheap(await outageOf(stack))
})

outage.after(closeAll)
outage.run()
