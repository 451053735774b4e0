// The parties of the community and the marketplace.
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, rows } from '../postgres/connection.ts'

/** The acting party: a trader, or the partner itself; its rows and its money belong to the partner either way. */
export interface Party {
  partnerId: string
  partyId: string
}

/**
 * Locks a trader who is about to write, as a foreign key does, until `trx` ends: an erasure comes after it, or has come before and
 * leaves nothing to write for. Throws UNAUTHENTICATED then, and for a trader who was disabled; fails as holdTrader does during an erasure.
 */
export async function holdParty(trx: Db, { partnerId, partyId }: Party): Promise<void> {
  if (partyId === partnerId) return
  const [held] = await rows(
    trx,
    'select id from traders where id = :partyId and disabled_at is null for key share nowait',
    { partyId }
  )
  if (!held) throw new ApiError('UNAUTHENTICATED', "The trader's session has ended: log in again.")
}
