// `make bench`: the service beside bare peers in one run on one machine. The machine is noisy, so rounds are
// interleaved and the median is reported with the least and the most; ratios are what travels, absolute figures are
// for this machine.
//   BENCH_ONLY     parts to run, by comma (without it, all but the ones marked 'on request')
//   BENCH_SECONDS  length of one measurement (4)
//   BENCH_HOLD_SECONDS  how long `age` holds a transaction open (120)
//   BENCH_ARCHIVED  archived orders beside which `archive` measures (1,000,000)
//   BENCH_PROFILE  a folder for CPU profiles of api, worker and simulated broker
import { cpus } from 'node:os'
import { analytics } from './analytics.ts'
import { archive } from './archive.ts'
import { ended } from './ended.ts'
import { events } from './events.ts'
import { history, me } from './history.ts'
import { hostile } from './hostile.ts'
import { added, fanout, memory, throughput } from './orders.ts'
import { pairs } from './pairs.ts'
import { queueAge } from './queue-age.ts'
import { quotas } from './quotas.ts'
import { requests } from './requests.ts'
import { rotation } from './rotation.ts'
import { scaling } from './scaling.ts'
import { start } from './start.ts'
import { statements } from './statements.ts'
import { sums } from './sums.ts'
import { waiting } from './waiting.ts'
import { webhooks } from './webhooks.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 4)
const holdSeconds = Number(process.env.BENCH_HOLD_SECONDS ?? 120)

interface Part {
  what: string
  onRequest?: true
  run(): Promise<unknown>
}

const parts: Record<string, Part> = {
  added: { what: 'time added to a tick order', run: () => added(seconds) },
  throughput: { what: 'orders a second beside bare peers', run: () => throughput(seconds) },
  memory: { what: 'memory idle, after 10,000 orders and at rest', run: memory },
  me: { what: 'GET /v1/me beside bare Koa', run: () => me(seconds) },
  history: { what: 'GET /v1/orders up to a million orders', run: () => history(seconds) },
  age: { what: 'placing beside an old queue', run: () => queueAge(seconds, holdSeconds) },
  waiting: { what: '2,000 requests waiting', run: () => waiting(2 * seconds) },
  scaling: { what: 'more workers and APIs', run: () => scaling(seconds) },
  copies: { what: 'copies to 1,000 followers', run: fanout },
  events: {
    what: 'what the event log costs, and how fast its frames are',
    onRequest: true,
    run: () => events(seconds)
  },
  webhooks: {
    what: 'deliveries a second of a worker, how soon, beside bad endpoints and with a backlog',
    onRequest: true,
    run: () => webhooks(seconds)
  },
  statements: { what: 'statements an order costs, each by its count', onRequest: true, run: statements },
  pairs: {
    what: 'another checkout (BENCH_BEFORE=its folder) and this one in turns',
    onRequest: true,
    run: () => pairs(seconds)
  },
  requests: { what: 'what the request log costs', onRequest: true, run: () => requests(seconds) },
  start: { what: 'API and `make run`', run: start },
  quotas: {
    what: "1,000 orders on an account, 2,000 on 200, within the broker's quotas",
    onRequest: true,
    run: quotas
  },
  ended: { what: 'contracts that ended while all workers were away', onRequest: true, run: ended },
  hostile: { what: 'a partner beside a hostile one', onRequest: true, run: () => hostile(seconds) },
  sums: { what: 'leaderboard, leaders, usage and follows of a million orders', onRequest: true, run: sums },
  analytics: {
    what: 'analytics of a million orders, and what the order path pays for them',
    onRequest: true,
    run: () => analytics(seconds)
  },
  archive: {
    what: 'placing and listing beside BENCH_ARCHIVED archived orders, and how fast orders move',
    onRequest: true,
    run: () => archive(seconds, Number(process.env.BENCH_ARCHIVED ?? 1_000_000))
  },
  rotation: { what: 'the token key changed under load', onRequest: true, run: rotation },
  logins: { what: 'whether failed logins differ in time', onRequest: true, run: () => import('./logins.ts') },
  marketplace: { what: 'lists of 100,000 bots', onRequest: true, run: () => import('./marketplace.ts') }
}

const usual = Object.keys(parts).filter(name => !parts[name]?.onRequest)
const chosen = process.env.BENCH_ONLY?.split(',') ?? usual
const unknown = chosen.filter(name => !Object.hasOwn(parts, name))
if (unknown.length > 0) {
  console.error(`BENCH_ONLY: there is no part ${unknown.join(', ')}. The parts are:`)
  for (const [name, { what, onRequest }] of Object.entries(parts))
    console.error(`  ${name.padEnd(12)} ${what}${onRequest ? ' (on request)' : ''}`)
  process.exit(2)
}

console.log(
  `${cpus().length} × ${cpus()[0]?.model.trim()}, Node ${process.version}, ${new Date().toISOString()}; PostgreSQL with fsync on; everything shares these cores`
)
for (const name of chosen) await parts[name]?.run()
