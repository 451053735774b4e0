// How much a partner or a trader may keep here: records and bytes of each kind. The limits are far above any normal
// use, and keep one party from filling the disk of all.
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, rows } from '../postgres/connection.ts'

interface Bound {
  /** Its name in the refusal. */
  what: string
  records: number
  bytes?: number
  /** Records and bytes of `:owner`, not counting past the limit. */
  sql: string
}

const MIB = 2 ** 20

/** Counts rows of `table` that meet `condition`, at most one more than the limit. */
const counting = (table: string, condition: string) =>
  `select count(*) as records, 0 as bytes from (select 1 from ${table} where ${condition} limit :most) as found`

export const bounds = {
  traders: { what: 'traders of a partner', records: 1_000_000, sql: counting('traders', 'partner_id = :owner') },
  accounts: {
    what: 'broker accounts of a trader',
    records: 100,
    sql: counting('broker_accounts', 'trader_id = :owner')
  },
  partnerAccounts: {
    what: 'broker accounts of all traders of a partner',
    records: 2_000_000,
    sql: counting('broker_accounts', 'partner_id = :owner')
  },
  keys: {
    what: 'keys of a partner, revoked ones included',
    records: 5000,
    sql: counting('api_keys', 'partner_id = :owner')
  },
  follows: {
    what: 'leaders a trader follows or followed',
    records: 1000,
    sql: counting('follows', 'trader_id = :owner')
  },
  partnerFollows: {
    what: 'leaders that all traders of a partner follow or followed',
    records: 1_000_000,
    sql: counting('follows', 'partner_id = :owner')
  },
  trades: {
    what: 'trade records of a partner',
    records: 2_000_000,
    sql: counting('trade_records', 'partner_id = :owner')
  },
  creatorBots: {
    what: 'marketplace bots of a partner and its traders',
    records: 1000,
    bytes: 100 * MIB,
    sql: `select count(*) as records, coalesce(sum(octet_length(code)), 0)::bigint as bytes
            from marketplace_bots where partner_id = :owner`
  },
  purchases: {
    what: 'purchases of a partner and its traders',
    records: 100_000,
    sql: counting('marketplace_purchases', 'partner_id = :owner')
  },
  subscriptions: {
    what: 'subscriptions of a party',
    records: 5000,
    sql: counting('marketplace_subscriptions', 'party_id = :owner')
  },
  partnerSubscriptions: {
    what: 'subscriptions of a partner and its traders that run',
    records: 100_000,
    sql: counting('marketplace_subscriptions', `partner_id = :owner and status <> 'CANCELED'`)
  },
  payouts: {
    what: 'payouts of a partner that are not decided',
    records: 100,
    sql: counting('payouts', `partner_id = :owner and status = 'REQUESTED'`)
  },
  idempotencyKeys: {
    what: 'responses kept under Idempotency-Keys in 24 hours',
    records: 1_000_000,
    bytes: 1024 * MIB,
    sql: `select count(*) as records, coalesce(sum(octet_length(answer)), 0)::bigint as bytes
            from (select answer from idempotency_keys where partner_id = :owner limit :most) as found`
  }
} as const satisfies Record<string, Bound>

export type BoundKind = keyof typeof bounds

// Small bounds are counted each time. Counting a million rows each time would cost more than the rows: after a count,
// a process lets a hundredth of the limit pass before it counts again, so a large bound holds to a few per cent.
const EXACT = 5000
const FULL_MS = 10_000
const RECOUNT_MS = 600_000
const MAX_KNOWN = 20_000

interface Known {
  /** The latest count reached the limit. */
  full: boolean
  /** How much more may be made before it is counted again. */
  records: number
  bytes: number
  until: number
}

const known = new Map<string, Known>()

/** Makes sure that what `owner` keeps of a kind is within its bound, in the transaction that added to it. Throws LIMIT_REACHED. */
export async function requireWithin(trx: Db, kind: BoundKind, owner: string): Promise<void> {
  const bound: Bound = bounds[kind]
  const held = await countHeld(trx, bound, owner)
  if (held.records > bound.records) throw refusal(bound, bound.records)
  if (bound.bytes !== undefined && held.bytes > bound.bytes)
    throw refusal({ what: `bytes of ${bound.what}` }, bound.bytes)
}

async function countHeld(db: Db, { sql, records }: Bound, owner: string): Promise<{ records: number; bytes: number }> {
  const [held] = await rows<{ records: number; bytes: number }>(db, sql, {
    owner,
    ...(sql.includes(':most') ? { most: records + 1 } : {})
  })
  return held as { records: number; bytes: number }
}

/**
 * Makes sure that `owner` (a partner's id, for some kinds a trader's) may keep one more record of a kind, of so many bytes.
 * Throws LIMIT_REACHED with `limit`.
 */
export async function requireRoom(db: Db, kind: BoundKind, owner: string, bytes = 0): Promise<void> {
  const bound: Bound = bounds[kind]
  const name = `${kind} ${owner}`
  const credit = known.get(name)
  if (credit && credit.until > performance.now()) {
    if (credit.full) throw refusal(bound, bound.records)
    credit.records -= 1
    credit.bytes -= bytes
    if (credit.records >= 0 && credit.bytes >= 0) return
  }
  known.delete(name)
  const { records, bytes: heldBytes } = await countHeld(db, bound, owner)
  const full = records >= bound.records
  if (bound.records > EXACT) {
    if (known.size >= MAX_KNOWN) known.clear()
    const room = full ? 0 : Math.ceil(bound.records / 100)
    const bytesLeft = bound.bytes === undefined ? Number.POSITIVE_INFINITY : (bound.bytes - heldBytes) / 100
    known.set(name, { full, records: room, bytes: bytesLeft, until: performance.now() + (full ? FULL_MS : RECOUNT_MS) })
  }
  if (full) throw refusal(bound, bound.records)
  if (bound.bytes !== undefined && heldBytes + bytes > bound.bytes)
    throw refusal({ what: `bytes of ${bound.what}` }, bound.bytes)
}

/** Counts bytes that `owner` keeps of a kind and that were not known when requireRoom was called. */
export function countBytes(kind: BoundKind, owner: string, bytes: number): void {
  const credit = known.get(`${kind} ${owner}`)
  if (credit) credit.bytes -= bytes
}

/** As requireRoom; without room it passes also where `find` has the record that a repeat returns, so that none is made. */
export async function requireRoomUnless(
  db: Db,
  kind: BoundKind,
  owner: string,
  find: () => Promise<unknown>
): Promise<void> {
  try {
    await requireRoom(db, kind, owner)
  } catch (error) {
    if (!(error instanceof ApiError) || !(await find())) throw error
  }
}

function refusal({ what }: { what: string }, limit: number): ApiError {
  return new ApiError('LIMIT_REACHED', `The limit of ${limit} ${what} is reached.`, { extras: { limit } })
}
