// What is open while a worker runs; handed to every handler.
import type { Bus } from '../db/platform/bus.ts'
import type { Vault } from '../db/platform/crypto.ts'
import type { Log } from '../db/platform/log.ts'
import type { Queue } from '../db/platform/queue.ts'
import type { Db } from '../db/postgres/connection.ts'
import type { Config } from '../schemas/config/config.ts'
import type { Brokers } from './broker/brokers.ts'
import type { Clock } from './platform/clock.ts'
import type { OrderSignal } from './signal.ts'

export interface WorkerServices {
  config: Config
  db: Db
  queue: Queue
  bus: Bus
  log: Log
  vault: Vault
  brokers: Brokers
  clock: Clock
  changes: OrderSignal
  /** Names this worker in claims and leases. */
  worker: string
}
