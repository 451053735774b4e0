// Bytes of each partner that wait in memory, in one account: bodies from their first byte until their request has ended, whether
// they are being received, parsed, or wait for a place, and responses until their client has read them. How long all of that takes
// is up to the client, or to others; so a partner has a bound on it, and takes no memory from the others.
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

// The bound for one partner: eight bodies of the largest size, tens of thousands of orders, eighty full pages of them.
const MAX_BYTES = 8 * 2 ** 20

/** Bytes in a partner's account. */
export interface Held {
  /** Sets the number of bytes to what is known now. */
  resize(bytes: number): void
  /** Takes them out of the account; once is enough. */
  release(): void
}

export interface ByteAccounts {
  /** Adds a body of at most `bytes`. Throws RATE_LIMITED with Retry-After when the partner's account has no room for it. */
  admit(partnerId: string, bytes: number): Held
  /** Throws RATE_LIMITED with Retry-After when the partner's account is full: for a request whose response is not known yet. */
  requireRoom(partnerId: string): void
  /** Adds bytes that are there already, whether or not there is room. */
  add(partnerId: string, bytes: number): Held
}

/** The accounts of one process. */
export function openByteAccounts({ maxBytes = MAX_BYTES } = {}): ByteAccounts {
  const accounts = new Map<string, number>()
  const heldBy = (partnerId: string) => accounts.get(partnerId) ?? 0

  function change(partnerId: string, bytes: number): void {
    const left = heldBy(partnerId) + bytes
    if (left > 0) accounts.set(partnerId, left)
    else accounts.delete(partnerId)
  }

  function add(partnerId: string, bytes: number): Held {
    let held = bytes
    change(partnerId, held)
    const resize = (now: number) => {
      change(partnerId, now - held)
      held = now
    }
    return { resize, release: () => resize(0) }
  }

  return {
    admit(partnerId, bytes) {
      const held = heldBy(partnerId)
      // Alone every body has room.
      if (held > 0 && held + bytes > maxBytes) refuse()
      return add(partnerId, bytes)
    },
    requireRoom(partnerId) {
      if (heldBy(partnerId) >= maxBytes) refuse()
    },
    add
  }
}

function refuse(): never {
  countTurnedAway('bytes')
  const message =
    'Too many bytes of this partner’s requests are being received, or wait, or are in responses that are not read: let some of them end first.'
  throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
}
