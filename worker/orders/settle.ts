// Settlement: the worker that bought (or took over) a contract subscribes to its stream (watching.ts), holds one short lease for all of
// its contracts (contract-leases.ts), and writes their ends (closing.ts).
import { type Closed, endLease, type LeasedOrder } from '../../db/orders/leases.ts'
import type { ContractListener, ContractState } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { openClosing } from './closing.ts'
import { type ContractLeases, MAX_WATCHED, openContractLeases } from './contract-leases.ts'
import { EndedContracts } from './ended.ts'
import type { WatchedContract } from './watched.ts'
import { RETRY_PAUSES, Watching } from './watching.ts'

export interface Expected {
  listener: ContractListener
  /** The row is open: a settlement received so far, or from now on, is written. */
  opened(order: LeasedOrder): void
  /** Nothing was bought, or another worker leases it. */
  cancel(): void
}

export interface Settling extends ContractLeases {
  /** A contract about to be bought: receives its stream from the first message. */
  expect(order: Pick<LeasedOrder, 'id' | 'stop_loss' | 'take_profit'>): Expected
  /** Watches an open order's contract; the lease is held already. */
  watch(order: LeasedOrder): Promise<void>
  /**
   * Writes what is known to be the end of an open order; undefined when it was closed before. Throws BROKER_UPSTREAM when
   * the state contradicts the order or itself: then the order is marked instead.
   */
  close(order: LeasedOrder, state: ContractState): Promise<Closed | undefined>
  /** Lets go of all, once the ends under way are written. */
  release(): Promise<void>
  watched(): number
}

export function openSettling(services: WorkerServices): Settling {
  const { db, config, log, worker } = services
  const watched = new Map<string, WatchedContract>()
  const closing = openClosing(services, watched)
  const { close, settle, write } = closing
  const watching = new Watching(services, { watched, closing })
  const ended = new EndedContracts(services, {
    write,
    watch: order => void watchLeft(order),
    handBack: (ids, retryMs) => watching.handBack(ids, retryMs)
  })

  /** Watches a contract that the list of closed ones lacks, unless there are too many already. */
  async function watchLeft(order: LeasedOrder): Promise<void> {
    if (watched.size >= MAX_WATCHED) watching.handBack([order.id], RETRY_PAUSES.mostMs)
    else await watching.watch(order)
  }

  return {
    ...openContractLeases(services, { watched, watching, ended }),
    expect({ id, stop_loss: stopLoss, take_profit: takeProfit }) {
      const entry = watching.listen(id)
      entry.requested = { stopLoss, takeProfit }
      return {
        listener: entry.listener,
        opened(order) {
          watching.own(entry, order)
          settle(id, entry)
        },
        cancel() {
          if (watched.get(id) === entry) watching.drop(id)
        }
      }
    },
    watch: order => watching.watch(order),
    close,
    async release() {
      for (const id of [...watched.keys()]) watching.drop(id)
      await Promise.all([closing.written(), ended.stop()])
      await endLease(db, worker, config.leaseMs).catch((error: unknown) =>
        log.warn({ err: error }, 'the lease could not be ended; it runs out by itself')
      )
    },
    watched: () => watched.size
  }
}
