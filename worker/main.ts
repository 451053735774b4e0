// The worker process: read config, open, work, drain on SIGTERM.
import { openBus } from '../db/platform/bus.ts'
import { openCallRecords } from '../db/platform/call-records.ts'
import { showInstallation } from '../db/platform/installations.ts'
import { openLog } from '../db/platform/log.ts'
import { collectBudget, collectClockOffset, collectProcessMetrics, collectUnreachable } from '../db/platform/metrics.ts'
import { readiness, serveMetrics } from '../db/platform/metrics-server.ts'
import { watchOpenFiles } from '../db/platform/open-files.ts'
import {
  announceReady,
  endInOrder,
  keepHeapSmall,
  loadEnvironment,
  stopOn,
  warnOfSettings
} from '../db/platform/process.ts'
import { newProcessName, registerProcess } from '../db/platform/processes.ts'
import { openQueue } from '../db/platform/queue.ts'
import { openStore } from '../db/platform/store.ts'
import { collectStoreMetrics } from '../db/platform/store-metrics.ts'
import { isCopy } from '../db/postgres/lineage.ts'
import { analyseGrown } from '../db/postgres/statistics.ts'
import { openBrokers } from './broker/brokers.ts'
import { startWork } from './jobs.ts'
import { systemClock } from './platform/clock.ts'
import { startLoop } from './platform/loop.ts'
import { openSignal } from './signal.ts'
import { openTestBroker } from './test-broker.ts'

const config = loadEnvironment('worker')
const log = openLog({ level: config.logLevel, name: 'worker' })
const stopping = stopOn(log)
warnOfSettings(config, 'worker', log)
const worker = newProcessName()
const { close, ...store } = await openStore(config, { name: 'worker', log, writes: true })
if (await isCopy(store.db))
  log.warn(
    'this database is a copy: a worker at its origin and one here use up the same refresh tokens, so let none work there'
  )
const testBroker = await openTestBroker({
  config,
  databaseUrl: store.url,
  db: store.db,
  log,
  clock: systemClock,
  worker
})
const brokers = openBrokers(config, log, { records: openCallRecords(store.db, worker), testBroker })
const bus = await openBus({ url: store.url, redisUrl: config.redisUrl, log })
void showInstallation({ db: store.db, bus, redisUrl: config.redisUrl, log })
const queue = await openQueue({ url: store.url, role: 'worker', log })
const statistics = startLoop({
  name: 'statistics',
  everyMs: 1000,
  log,
  clock: systemClock,
  async round() {
    await analyseGrown(store.db)
    return false
  }
})
const work = await startWork({
  config,
  ...store,
  bus,
  queue,
  log,
  brokers,
  worker,
  clock: systemClock,
  changes: openSignal()
})
collectProcessMetrics()
watchOpenFiles(log)
collectStoreMetrics(store.db)
collectBudget(() => brokers.budget())
collectClockOffset(() => work.clockOffsetMs())
collectUnreachable(() => brokers.unreachable())
const metrics = await serveMetrics({
  host: config.metricsHost,
  port: config.metricsPort,
  log,
  ready: readiness(store.db, bus, brokers),
  warnings: () => work.warnings()
})
const unregister = registerProcess(store.db, {
  name: worker,
  kind: 'worker',
  report: () => ({ broker: brokers.reach(), markets: brokers.seenMarkets() }),
  log
})
announceReady()
keepHeapSmall()

await stopping
await endInOrder(log, [
  { name: 'work', end: () => Promise.all([work.stop(), statistics.stop()]), untilMs: 22_000 },
  { name: 'broker', end: () => brokers.close(), untilMs: 22_500 },
  { name: 'test broker', end: async () => testBroker?.close(), untilMs: 23_000 },
  {
    name: 'queue and bus',
    end: () => Promise.allSettled([metrics.close(), queue.close(), bus.close(), unregister()]),
    untilMs: 23_500
  },
  { name: 'database', end: close, untilMs: 24_500 }
])
