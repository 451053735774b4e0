// Queue age: placing beside a queue with a million finished and a hundred thousand waiting jobs, against an empty
// one; and while somebody holds a transaction open, so that nothing that died since can be cleared away.
import pg from 'pg'
import { rows } from '../../db/postgres/connection.ts'
import { tickOrder } from '../support/tick-order.ts'
import { print, range, verdict } from './report.ts'
import { call, type Load, load, median, type Stage, setStage } from './stage.ts'

const CONNECTIONS = 16
// A broker lets an account call about three times a second: so many accounts share what the connections place.
const ACCOUNTS = 1000
const ROUNDS = 3
const FINISHED = 1_000_000
const WAITING = 100_000

interface QueueTheatre {
  stage: Stage
  place(): Promise<unknown>
}

/** Two stages in turns, one of them with the old queue; then the old one with a transaction held for `holdSeconds`. */
export async function queueAge(seconds: number, holdSeconds: number): Promise<void> {
  const empty = await open()
  const old = await open()
  await fill(old.stage)
  const place = ({ place: work }: QueueTheatre) => load({ connections: CONNECTIONS, seconds, work })
  const figures = { empty: [] as Load[], old: [] as Load[] }
  for (let round = 0; round < ROUNDS; round++) {
    figures.empty.push(await place(empty))
    figures.old.push(await place(old))
  }
  const base = median(figures.empty.map(({ p50 }) => p50))
  const row = (name: string, loads: Load[]) => {
    const ratio = median(loads.map(({ p50 }) => p50)) / base
    return [
      name,
      range(
        loads.map(({ p50 }) => p50),
        ' ms',
        1
      ),
      range(
        loads.map(({ p99 }) => p99),
        ' ms',
        0
      ),
      range(loads.map(({ perSecond }) => perSecond)),
      name === 'empty' ? '' : `${ratio.toFixed(2)} ×`,
      name === 'empty' ? '' : verdict('≤ 1.5 ×', ratio <= 1.5)
    ]
  }
  const body = [
    row('empty', figures.empty),
    row(`${FINISHED / 1e6} million finished, ${WAITING / 1000} thousand waiting`, figures.old)
  ]
  body.push(row(`the same, a transaction open for ${holdSeconds} s`, await held(old, holdSeconds, seconds)))
  print(
    `Placing beside an old queue, ${CONNECTIONS} connections over ${ACCOUNTS} accounts, broker without latency; half of the waiting jobs are orders due in an hour, half dead letters`,
    ['queue', 'placing p50', 'p99', 'orders a second', 'against empty', 'goal'],
    body
  )
  await empty.stage.close()
  await old.stage.close()
}

async function open(): Promise<QueueTheatre> {
  const stage = await setStage()
  const { address } = await stage.startApi()
  await stage.startWorker()
  const traders = await stage.makeTraders(address, ACCOUNTS)
  let turn = 0
  const place = () =>
    call({
      address,
      key: stage.key,
      path: '/v1/orders/binary',
      body: tickOrder(traders[turn++ % ACCOUNTS] as string, { duration: 60, durationUnit: 'm' })
    })
  // Each account's broker connection is opened, and what runs first is compiled.
  await load({ connections: CONNECTIONS, seconds: 60, calls: 2 * ACCOUNTS, work: place })
  return { stage, place }
}

async function fill({ db }: Stage): Promise<void> {
  const data = `json_build_object('accountIds', json_build_array('VRTC1'))`
  await rows(
    db,
    `insert into pgboss.job (name, data, state, created_on, start_after, started_on, completed_on)
     select 'order.place', ${data}, 'completed', at, at, at, at
       from generate_series(1, :count::int) n
      cross join lateral (select now() - random() * interval '50 minutes' as at) t`,
    { count: FINISHED }
  )
  for (const [name, start] of [
    ['order.place', `now() + interval '1 hour'`],
    ['order.place.dead', 'now()']
  ] as const) {
    await rows(
      db,
      `insert into pgboss.job (name, data, created_on, start_after)
       select :name, ${data}, now() - random() * interval '10 minutes', ${start} from generate_series(1, :count::int) n`,
      { name, count: WAITING / 2 }
    )
  }
}

/** Placing without a pause under an open transaction; the figures are those of its last seconds. */
async function held(old: QueueTheatre, holdSeconds: number, seconds: number): Promise<Load[]> {
  const holder = new pg.Client({ connectionString: old.stage.url })
  await holder.connect()
  await holder.query('begin isolation level repeatable read')
  await holder.query('select count(*) from orders')
  await load({ connections: CONNECTIONS, seconds: Math.max(0, holdSeconds - ROUNDS * seconds), work: old.place })
  const loads: Load[] = []
  for (let round = 0; round < ROUNDS; round++)
    loads.push(await load({ connections: CONNECTIONS, seconds, work: old.place }))
  await holder.query('rollback')
  await holder.end()
  return loads
}
