// The API process: read config, open, listen, close on SIGTERM.
import type { AddressInfo } from 'node:net'
import { openBus } from '../db/bus.ts'
import { openLimits } from '../db/limits.ts'
import { openLog } from '../db/log.ts'
import { collectProcessMetrics, collectStoreMetrics, readiness, serveMetrics } from '../db/metrics.ts'
import { announceReady, endInOrder, keepHeapSmall, loadEnvironment, stopOn, warnOfSettings } from '../db/process.ts'
import { newProcessName, registerProcess } from '../db/processes.ts'
import { openQueue } from '../db/queue.ts'
import { openStore } from '../db/store.ts'
import { listenAt } from '../db/system-errors.ts'
import { openUsage } from '../db/usage.ts'
import { createApp } from './app.ts'
import { drain } from './drain.ts'
import { openFeed } from './feed.ts'
import { openGathered } from './gathered.ts'
import { createListener } from './listen.ts'
import { openPlaces } from './places.ts'
import { openStream } from './stream/server.ts'
import { openWaits } from './waits.ts'

keepHeapSmall()
const config = loadEnvironment('api')
const log = openLog({ level: config.logLevel, name: 'api' })
const stopping = stopOn(log)
warnOfSettings(config, 'api', log)
const store = await openStore(config, { name: 'api', log })
const bus = await openBus({ url: store.url, redisUrl: config.redisUrl, log })
const queue = await openQueue({ url: store.url, role: 'sender', log })
const limits = await openLimits({ redisUrl: config.redisUrl, log })
const usage = openUsage({ db: store.db, log })
const gathered = openGathered({ db: store.db, queue, bus })
const waits = openWaits()
const feed = await openFeed(bus)
const places = openPlaces({ pool: config.databasePool })
const open = { config, ...store, queue, bus, limits, log, usage, gathered, waits, places, feed }

const server = createListener(createApp(open), open)
const stream = openStream(open)
stream.attach(server)
await listenAt(server, { ...config, settings: { host: 'HOST', port: 'PORT' } })
const address = `http${config.tls ? 's' : ''}://${config.host}:${(server.address() as AddressInfo).port}`

collectProcessMetrics()
collectStoreMetrics(store.db)
const metrics = await serveMetrics({
  host: config.metricsHost,
  port: config.metricsPort,
  log,
  ready: readiness(store.db, bus)
})
const unregister = registerProcess(store.db, { name: newProcessName(), kind: 'api', address, log })
log.info({ address }, 'listening')
announceReady({ address })

await stopping
await endInOrder(log, [
  { name: 'requests', end: () => Promise.all([drain(server, waits), stream.stop()]), untilMs: 20_000 },
  { name: 'usage counts', end: () => usage.close(), untilMs: 22_000 },
  {
    name: 'queue, bus and limits',
    end: () => Promise.allSettled([metrics.close(), queue.close(), bus.close(), limits.close(), unregister()]),
    untilMs: 23_000
  },
  { name: 'database', end: () => store.close(), untilMs: 24_000 }
])
