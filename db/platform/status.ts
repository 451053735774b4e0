// The content of GET /status, read from the heartbeats of the processes, the queue and the orders of the last minutes.
import { orderIdAt } from '../../schemas/fields/ids.ts'
import type { Status } from '../../schemas/status.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { readShortly } from './console.ts'
import { listHalts } from './halts.ts'
import { listProcesses, type RunningProcess } from './processes.ts'
import { readQueueDepths } from './queue-depths.ts'

const MINUTES = 5
const COUNTED_ORDERS = 5000
// Work that waits for longer than that is noticed by those who wait for it.
const LATE_SECONDS = 10
const MARKETS_SECONDS = 3600
// The attempt of an order that was claimed once: it counts up from 1 with each claim.
const SENT_ONCE = 2

type State = Status['state']

/** The state of the service. Each of its statements reads a bounded part of a table and ends after 3 s. */
export async function readStatus(db: Db): Promise<Status> {
  return readShortly(db, async trx => {
    const processes = (await listProcesses(trx)).filter(({ alive }) => alive)
    const halted = (await listHalts(trx)).some(({ scope }) => scope === 'all')
    const apis = processes.filter(({ kind }) => kind === 'api').length
    const workers = processes.length - apis
    const queue = await readQueue(trx)
    const broker = brokerOf(processes)
    const parts = {
      // This one responds, whether or not its heartbeat is written yet.
      api: { state: 'OK' as const, processes: Math.max(1, apis) },
      workers: { state: workers > 0 ? ('OK' as const) : ('DOWN' as const), processes: workers },
      queue,
      broker
    }
    return {
      state: worst([...Object.values(parts).map(({ state }) => state), halted ? 'DEGRADED' : 'OK']),
      at: new Date().toISOString(),
      ...parts,
      trading: { state: halted ? 'DOWN' : 'OK', halted },
      markets: marketsOf(processes),
      latency: await readLatency(trx)
    }
  })
}

/** The status while the database does not respond: nothing works then. */
export function unreachableStatus(): Status {
  return {
    state: 'DOWN',
    at: new Date().toISOString(),
    api: { state: 'DOWN', processes: 1 },
    workers: { state: 'DOWN', processes: 0 },
    queue: { state: 'DOWN', waiting: 0, oldestSeconds: null },
    broker: { state: 'DOWN', reachedBy: 0, unreachedBy: 0 },
    trading: { state: 'DOWN', halted: false },
    markets: null,
    latency: { minutes: MINUTES, orders: 0, p50Ms: null, p99Ms: null }
  }
}

async function readQueue(db: Db): Promise<Status['queue']> {
  const depths = await readQueueDepths(db)
  const waiting = depths.reduce((sum, each) => sum + each.waiting, 0)
  const oldest = Math.max(...depths.map(({ oldestWaitingSeconds }) => oldestWaitingSeconds ?? 0))
  return { state: oldest > LATE_SECONDS ? 'DEGRADED' : 'OK', waiting, oldestSeconds: waiting === 0 ? null : oldest }
}

/** Without the test broker, whose state means nothing for the orders of other keys. */
function brokerOf(processes: RunningProcess[]): Status['broker'] {
  const words = processes.map(({ report }) =>
    (report?.broker ?? []).flatMap(({ dialect, state }) => (dialect === 'test' ? [] : state))
  )
  const unreachedBy = words.filter(states => states.includes('UNREACHABLE')).length
  const reachedBy = words.filter(states => states.includes('REACHED') && !states.includes('UNREACHABLE')).length
  const state = unreachedBy === 0 ? 'OK' : reachedBy === 0 ? 'DOWN' : 'DEGRADED'
  return { state, reachedBy, unreachedBy }
}

function marketsOf(processes: RunningProcess[]): Status['markets'] {
  const seen = processes
    .flatMap(({ report }) => report?.markets ?? [])
    .filter(({ seconds }) => seconds <= MARKETS_SECONDS)
    .sort((a, b) => a.seconds - b.seconds)
  const [latest] = seen
  if (!latest) return null
  return { state: latest.open > 0 ? 'OK' : 'DOWN', ...latest }
}

async function readLatency(db: Db): Promise<Status['latency']> {
  const [found] = await rows<{ orders: number; p50Ms: number | null; p99Ms: number | null }>(
    db,
    `select count(*)::int as orders,
            round(percentile_cont(0.5) within group (order by ms)::numeric, 1)::float8 as "p50Ms",
            round(percentile_cont(0.99) within group (order by ms)::numeric, 1)::float8 as "p99Ms"
       from (select greatest(0, extract(epoch from answered_at - created_at)::float8 * 1000) as ms
               from (select answered_at, created_at, attempt, broker_order_id, dialect from orders where id >= :since
                      order by id desc limit ${COUNTED_ORDERS}) recent
              where answered_at is not null and broker_order_id is not null and attempt = ${SENT_ONCE} and dialect <> 'test'
                and created_at >= clock_timestamp() - ${MINUTES} * interval '1 minute') bought`,
    { since: orderIdAt(Date.now() - MINUTES * 60_000) }
  )
  return { minutes: MINUTES, ...(found as Omit<Status['latency'], 'minutes'>) }
}

/** DOWN before DEGRADED before OK. */
function worst(states: State[]): State {
  return states.includes('DOWN') ? 'DOWN' : states.includes('DEGRADED') ? 'DEGRADED' : 'OK'
}
