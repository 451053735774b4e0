// What waits for the operator about contracts: orders open past their end, and differences from the broker's books.

import { countBreaks } from '../../db/orders/reconciliation.ts'
import { countPastEnd } from '../../db/orders/review.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, ok, warn } from './finding.ts'

export async function checkSettlements(db: Db): Promise<Finding[]> {
  const [{ count, oldestSeconds }, findings] = [await countPastEnd(db), await countBreaks(db)]
  const total = findings.reduce((sum, each) => sum + each.count, 0)
  const kinds = findings.map(each => `${each.count} ${each.kind}`).join(', ')
  return [
    count === 0
      ? ok('settlements', 'no order is open past the end of its contract')
      : warn(
          'settlements',
          `${count} orders are open past the end of their contract, the oldest for ${Math.round(oldestSeconds)} s`,
          'see `operator orders audit` and `operator findings list`; what the broker no longer shows, `operator orders settle`'
        ),
    total === 0
      ? ok('findings', "nothing unresolved differs from the broker's books")
      : warn('findings', `unresolved: ${kinds}`, 'see `operator findings list`')
  ]
}
