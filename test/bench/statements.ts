// How many statements an order costs PostgreSQL, listed by statement: alone and in groups, as the server itself counts them. A
// statement of the service is a round trip each, begin and commit among them; what foreign keys look up is none, and left out.
import { setTimeout as sleep } from 'node:timers/promises'
import { openTickOrders, TICK_MS } from './added-time.ts'
import { print } from './report.ts'
import { load, type Stage, setStage } from './stage.ts'

const ALONE = 200
const IN_GROUPS = 4000
const CONNECTIONS = 64
// What the clock starts is counted for so long without orders, and taken off.
const IDLE_MS = 5000
// Statements of fewer an order are added up.
const LEAST_AN_ORDER = 0.02
const SHOWN = 76

/** `BENCH_BEFORE` counts those of that checkout instead. */
export async function statements(): Promise<void> {
  const stage = await setStage(['--tick-ms', String(TICK_MS)], 'v3', {
    settings: { shared_preload_libraries: 'pg_stat_statements' },
    ...(process.env.BENCH_BEFORE ? { checkout: process.env.BENCH_BEFORE } : {})
  })
  await stage.db.raw('create extension pg_stat_statements')
  const { address } = await stage.startApi()
  await stage.startWorker()
  const { through, close } = await openTickOrders(stage, address)
  await sleep(IDLE_MS)
  const idle = await counted(stage, () => sleep(IDLE_MS))
  for (const connections of [1, CONNECTIONS]) {
    const calls = connections === 1 ? ALONE : IN_GROUPS
    let index = 0
    const found = await counted(stage, async () => {
      await load({ connections, seconds: 60, calls, work: () => through(index++) })
      // The events of the last ones.
      await sleep(200)
    })
    report(found, { idle, calls, connections })
  }
  await close()
  await stage.close()
}

interface Counted {
  ms: number
  /** WAL written, bytes. */
  wal: number
  byText: Map<string, { calls: number; ms: number }>
}

async function counted(stage: Stage, run: () => Promise<unknown>): Promise<Counted> {
  const position = async () =>
    Number((await stage.db.raw(`select pg_current_wal_lsn() - '0/0'::pg_lsn as at`)).rows[0].at)
  await stage.db.raw('select pg_stat_statements_reset()')
  const [startedAt, from] = [performance.now(), await position()]
  await run()
  const [ms, wal] = [performance.now() - startedAt, (await position()) - from]
  const { rows } = await stage.db.raw(
    `select query, sum(calls)::float8 as calls, sum(total_exec_time)::float8 as ms from pg_stat_statements
      where query !~ '^select pg_stat_statements_reset|^select pg_current_wal_lsn|FOR KEY SHARE OF x$' group by query`
  )
  return { ms, wal, byText: new Map(rows.map(({ query, ...row }: { query: string }) => [query, row])) }
}

function report(
  { ms, wal, byText }: Counted,
  { idle, calls, connections }: { idle: Counted; calls: number; connections: number }
): void {
  const all = [...byText].map(([text, found]) => {
    const byClock = ((idle.byText.get(text)?.calls ?? 0) * ms) / idle.ms
    return { text, each: Math.max(0, found.calls - byClock) / calls, micros: (1000 * found.ms) / found.calls }
  })
  const often = all.filter(({ each }) => each >= LEAST_AN_ORDER).sort((a, b) => b.each - a.each)
  const sum = (list: typeof all) => list.reduce((total, { each }) => total + each, 0)
  const rare = sum(all) - sum(often)
  print(
    `Statements of a tick order, ${connections === 1 ? 'one at a time' : `${connections} connections`}, ${calls} orders; without what the clock starts`,
    ['an order', 'executed in', 'statement'],
    [
      ...often.map(({ text, each, micros }) => [
        each.toFixed(2),
        `${micros.toFixed(0)} µs`,
        text.replaceAll(/\s+/g, ' ').slice(0, SHOWN)
      ]),
      [rare.toFixed(2), '', `others, of less than ${LEAST_AN_ORDER} each`],
      [sum(all).toFixed(2), '', `all; ${(wal / calls).toFixed(0)} bytes of WAL an order`]
    ]
  )
}
