// The halts of trading in a worker's memory, for orders that it has claimed and not sent yet: the claim checked the
// halts in the database, and the purchase may leave seconds later. A hint wakes the loop that reads them; the clock
// does too.

import type { OrderRow } from '../../db/orders/reading.ts'
import { failHalted, type Halt, listHalts } from '../../db/platform/halts.ts'
import type { WorkerServices } from '../services.ts'
import { notifyCallers } from './notify.ts'

// Waiting orders failed in one statement.
const FAILED_AT_ONCE = 500

/** How long a worker may not know of a halt whose hint was lost. */
export const HALTS_MS = 500

export interface Halts {
  /** The widest halt that applies to an order, as last read. */
  of(order: Pick<OrderRow, 'partner_id' | 'app_id' | 'dialect' | 'asset'>): Halt | undefined
  /** Reads the halts and fails waiting orders to which one applies; returns whether there may be more of these. */
  round(): Promise<boolean>
}

export function openHalts(services: WorkerServices): Halts {
  const { db, log } = services
  let halts: Halt[] = []
  return {
    of: ({ partner_id, app_id, dialect, asset }) =>
      halts.find(({ scope, subject }) => {
        if (scope === 'all') return true
        // Applications of the test broker are numbers of ours.
        const application = dialect === 'test' ? null : app_id
        return subject === { partner: partner_id, application, asset }[scope]
      }),
    async round() {
      halts = await listHalts(db)
      if (halts.length === 0) return false
      const failed = await failHalted(db, FAILED_AT_ONCE)
      notifyCallers(services, failed)
      if (failed.length > 0) log.info({ orders: failed.length }, 'refused waiting orders: trading is halted')
      return failed.length === FAILED_AT_ONCE
    }
  }
}
