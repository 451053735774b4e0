// Before an account buys again on a database that may have lost rows (db/postgres/lineage.ts), its books are compared: a contract
// that no order owns may be the very one that is about to be bought a second time.

import type { Claimed } from '../../db/orders/claiming.ts'
import { ownedContracts } from '../../db/orders/resolving.ts'
import { booksDue, listUnowned, readClock, storeUnowned } from '../../db/postgres/lineage.ts'
import { matches } from '../broker/dialects/shortcode.ts'
import type { Contract, Evidence } from '../broker/port.ts'
import { unownedSince } from '../orders/evidence.ts'
import type { WorkerServices } from '../services.ts'

/** An order that was not sent, since a contract at the broker may be its own already: only the operator moves it on. */
export class ReviewNeeded extends Error {
  readonly evidence: Evidence[]

  constructor(message: string, evidence: Evidence[]) {
    super(message)
    this.evidence = evidence
  }
}

/**
 * Compares the account's books where that is due. Throws ReviewNeeded when a contract of the order's terms, or of terms
 * that cannot be read, belongs to no order; a BrokerError when the broker cannot be reached.
 */
export async function compareBooks(services: WorkerServices, order: Claimed, contract: Contract): Promise<void> {
  const { db, clock, log } = services
  const account = { accountRowId: order.broker_account_id, accountId: order.account_id }
  const due = await booksDue(db, account.accountRowId)
  if (due) {
    const wallBefore = clock.wall()
    const { nowMs } = await readClock(db)
    const now = { nowMs, wallMs: (wallBefore + clock.wall()) / 2 }
    const unowned = await unownedSince(services, order, { since: due.since, until: due.until, ...now })
    await storeUnowned(db, { ...account, generation: due.generation }, unowned)
    if (unowned.length > 0)
      log.error(
        { accountId: account.accountId, contracts: unowned.length },
        'the database lost purchases of an account'
      )
  }
  const unowned = await listUnowned<Evidence>(db, account.accountId)
  const fitting = unowned.filter(({ terms }) => terms === null || matches(terms, contract))
  const owned = await ownedContracts(
    db,
    account.accountId,
    fitting.map(({ contractId }) => contractId)
  )
  const doubtful = fitting.filter(({ contractId }) => !owned.has(contractId))
  if (doubtful.length === 0) return
  throw new ReviewNeeded(
    `The database was restored to an earlier point, and ${doubtful.length} contract(s) of these terms that it does not know are at the broker.`,
    doubtful
  )
}
