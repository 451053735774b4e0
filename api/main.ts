// The API process: read config, open, listen, close on SIGTERM.
import type { AddressInfo } from 'node:net'
import { openRequestLog } from '../db/partners/request-log.ts'
import { openUsage } from '../db/partners/usage.ts'
import { openBus } from '../db/platform/bus.ts'
import { showInstallation } from '../db/platform/installations.ts'
import { openLimits } from '../db/platform/limits.ts'
import { openLog } from '../db/platform/log.ts'
import { collectProcessMetrics } from '../db/platform/metrics.ts'
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
import { openReads } from '../db/postgres/replica.ts'
import { listenAt } from '../db/postgres/system-errors.ts'
import { ownAddress } from '../schemas/config/config.ts'
import { createApp } from './app.ts'
import { openFeed } from './events/feed.ts'
import { EventStream } from './events/stream/server.ts'
import { openBacklog } from './request/backlog.ts'
import { openBatched } from './request/batched.ts'
import { openByteAccounts } from './request/byte-accounts.ts'
import { drain } from './request/drain.ts'
import { openHeldKeys } from './request/held-keys.ts'
import { openKnownKeys } from './request/known-keys.ts'
import { createListener } from './request/listen.ts'
import { openPace } from './request/pace.ts'
import { openPlaces } from './request/places.ts'
import { openStalls } from './request/stalls.ts'
import { openWaits } from './request/waits.ts'

const config = loadEnvironment('api')
const log = openLog({ level: config.logLevel, name: 'api' })
const stopping = stopOn(log)
warnOfSettings(config, 'api', log)
const store = await openStore(config, { name: 'api', log, writes: true })
const bus = await openBus({ url: store.url, redisUrl: config.redisUrl, log })
void showInstallation({ db: store.db, bus, redisUrl: config.redisUrl, log })
const queue = await openQueue({ url: store.url, role: 'sender', log })
const limits = await openLimits({ redisUrl: config.redisUrl, log })
const usage = openUsage({ db: store.db, log })
const requests = openRequestLog({ db: store.db, log, keepDays: config.requestDays })
const reads = openReads({
  db: store.db,
  url: config.databaseReadUrl,
  waitMs: config.readWaitMs,
  pool: config.databasePool,
  log
})
const batched = openBatched({ db: store.db, queue, bus, reads })
const waits = openWaits()
const feed = await openFeed(bus)
const pace = openPace()
const places = openPlaces({ pool: config.databasePool, pace })
const services = {
  config,
  ...store,
  queue,
  bus,
  reads,
  limits,
  log,
  usage,
  requests,
  batched,
  waits,
  backlog: openBacklog(),
  bytes: openByteAccounts(),
  pace,
  places,
  knownKeys: openKnownKeys(),
  heldKeys: openHeldKeys({ db: store.db, log }),
  stalls: openStalls(),
  feed
}

const server = createListener(createApp(services), services)
services.stalls.watch(server)
const stream = new EventStream(services)
stream.attach(server)
await listenAt(server, { ...config, settings: { host: 'HOST', port: 'PORT' } })
const address = ownAddress(config.host, (server.address() as AddressInfo).port, config.tls !== undefined)

collectProcessMetrics()
watchOpenFiles(log)
collectStoreMetrics(store.db)
const metrics = await serveMetrics({
  host: config.metricsHost,
  port: config.metricsPort,
  log,
  ready: readiness(store.db, bus),
  warnings: () => reads.warnings()
})
const unregister = registerProcess(store.db, { name: newProcessName(), kind: 'api', address, log })
log.info({ address }, 'listening')
announceReady({ address })
keepHeapSmall()

await stopping
await endInOrder(log, [
  { name: 'requests', end: () => Promise.all([drain(server, waits), stream.stop()]), untilMs: 20_000 },
  { name: 'usage counts and request log', end: () => Promise.all([usage.close(), requests.close()]), untilMs: 22_000 },
  {
    name: 'queue, bus and limits',
    end: () => {
      services.heldKeys.close()
      services.stalls.close()
      return Promise.allSettled([metrics.close(), queue.close(), bus.close(), limits.close(), unregister()])
    },
    untilMs: 23_000
  },
  { name: 'database', end: () => Promise.all([store.close(), reads.close()]), untilMs: 24_000 }
])
