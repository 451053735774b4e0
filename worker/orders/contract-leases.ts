// The leases of open orders that a worker holds: which it takes over, which it keeps, and which it gives up to others.
import { anyLeftAlone, renewLease, takeOver } from '../../db/orders/leases.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import type { WorkerServices } from '../services.ts'
import type { EndedContracts } from './ended.ts'
import type { WatchedContract } from './watched.ts'
import type { Watching } from './watching.ts'

// Contracts watched by one worker, and taken over in one go.
export const MAX_WATCHED = 20_000
const TAKE_OVER = 200
// A contract that needs no attention for this long may be given to another worker.
const QUIET_MS = 30_000

export interface ContractLeases {
  /** Takes over orders without a lease holder; returns how many. */
  sweep(): Promise<number>
  /** Accounts with a contract that is about to end, or that may be: they are not given to another worker now. */
  busyAccounts(): Set<string>
  /** Lets go of the contracts of accounts that another worker serves from now on. */
  leave(accountIds: string[]): Promise<void>
  /** Renews the lease, and compares the orders under it with the contracts that are watched. */
  renew(): Promise<void>
}

export function openContractLeases(
  services: WorkerServices,
  {
    watched,
    watching,
    ended
  }: { watched: ReadonlyMap<string, WatchedContract>; watching: Watching; ended: EndedContracts }
): ContractLeases {
  const { db, config, log, worker, clock, brokers } = services
  /** Open orders that name this worker, but were unknown to it at the previous check. */
  let unknownLeases = new Set<string>()
  /** Contracts taken over whose streams are being opened. */
  let opening = 0

  return {
    async sweep() {
      if (!(await anyLeftAlone(db))) return 0
      const together = await ended.sweep()
      const room = Math.min(MAX_WATCHED - watched.size, TAKE_OVER - opening)
      if (room <= 0) return 0
      // Contracts whose broker cannot be reached from here would be handed back at once, and taken again within seconds.
      const away = brokers.reach().flatMap(({ dialect, state }) => (state === 'UNREACHABLE' ? [dialect] : []))
      const orders = await takeOver(db, { worker, limit: room, ended: !together, away })
      if (orders.length === 0) return 0
      log.info({ orders: orders.length }, 'taking over open orders')
      const accountIds = orders.map(({ account_id }) => account_id)
      const served = new Map((await serveAccounts(db, worker, accountIds)).map(each => [each.accountId, each.worker]))
      const ours = orders.filter(({ account_id }) => served.get(account_id) === worker)
      const others = orders.filter(order => !ours.includes(order)).map(({ id }) => id)
      if (others.length > 0) watching.handBack(others, 0)
      // Not awaited: their connections may take a while, and the sweep also claims orders.
      opening += ours.length
      for (const order of ours)
        void watching.watch(order).finally(() => {
          opening -= 1
        })
      return orders.length
    },
    busyAccounts() {
      const busy = new Set(ended.accounts())
      const until = clock.now() + QUIET_MS
      const endsAfter = (clock.wall() + QUIET_MS) / 1000
      for (const { order, last, closing, lastUpdateAt } of watched.values()) {
        if (!order) continue
        // A parked contract gets its next update when parking ends; a multiplier has no known end.
        const quiet = order.kind === 'MULTIPLIER' || lastUpdateAt >= until || (last?.expiryTime ?? 0) > endsAfter
        if (closing || !quiet) busy.add(order.account_id)
      }
      return busy
    },
    async leave(accountIds) {
      const left = new Set(accountIds)
      const ids = [...watched].flatMap(([id, { order, closing }]) =>
        order && !closing && left.has(order.account_id) ? [id] : []
      )
      if (ids.length === 0) return
      for (const id of ids) watching.forget(id)
      watching.handBack(ids, 0)
    },
    async renew() {
      const ids = [...watched].filter(([, { order, closing }]) => order && !closing).map(([id]) => id)
      const held = await renewLease(db, worker, config.leaseMs)
      await watching.markUpdated()
      watching.pollSilent()
      for (const id of ids) if (!held.has(id)) watching.forget(id)
      const unknown = [...held].filter(id => !watched.has(id) && !ended.has(id))
      // Unknown at two checks in a row: not just being opened or taken over, but the acknowledgement was lost.
      const lost = unknown.filter(id => unknownLeases.has(id))
      unknownLeases = new Set(unknown)
      if (lost.length > 0) watching.handBack(lost, 0)
    }
  }
}
