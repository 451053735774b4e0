// Traders, found by the partner's own id for them.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { type Db, rows } from '../postgres/connection.ts'

export interface TraderRecord {
  traderId: string
  partnerId: string
  externalId: string
  email: string | null
  name: string | null
  activeAccountId: string | null
  connectedAt: Date | null
  createdAt: Date
  /** When the partner disabled it; null for one that may log in. */
  disabledAt: Date | null
}

const columns = `id as "traderId", partner_id as "partnerId", external_id as "externalId", email, name,
  active_account_id as "activeAccountId", connected_at as "connectedAt", created_at as "createdAt", disabled_at as "disabledAt"`

/** The external id of a trader who was erased. */
export const pseudonymOf = (traderId: string): string => `erased-${traderId}`

/**
 * Locks a trader as a foreign key does, until `trx` ends. Fails with lock_not_available, a 503, while the trader is being erased: that
 * takes seconds, in which a call that waited would keep a connection from others. Nothing else conflicts with this lock.
 */
export async function holdTrader(trx: Db, traderId: string): Promise<void> {
  await rows(trx, 'select from traders where id = :traderId for key share nowait', { traderId })
}

/** The trader that was sent through the exchange. Throws TRADER_NOT_FOUND. */
export async function getTrader(db: Db, partnerId: string, externalId: string): Promise<TraderRecord> {
  const row = (await db('traders')
    .where({ partner_id: partnerId, external_id: externalId })
    .whereNotNull('connected_at')
    .first(db.raw(columns))) as TraderRecord | undefined
  if (!row) throw new ApiError('TRADER_NOT_FOUND')
  return row
}

/**
 * Finds or makes the trader, and fills in e-mail and name where they are given. Locks the row. The e-mail of a
 * trader who signed up is its login and stays.
 */
export async function upsertTrader(
  trx: Db,
  trader: { partnerId: string; externalId: string; email: string | null; name: string | null }
): Promise<TraderRecord & { created: boolean }> {
  // As holdTrader.
  await rows(
    trx,
    'select from traders where partner_id = :partnerId and external_id = :externalId for key share nowait',
    trader
  )
  const [row] = await rows<TraderRecord & { created: boolean }>(
    trx,
    `insert into traders (id, partner_id, external_id, email, name)
     values (:id, :partnerId, :externalId, :email, :name)
     on conflict (partner_id, external_id) do update
       set email = case when traders.password_hash is null then coalesce(excluded.email, traders.email)
                        else traders.email end,
           name = coalesce(excluded.name, traders.name)
     returning ${columns}, xmax = 0 as created`,
    { id: newId('trader'), ...trader }
  )
  return row as TraderRecord & { created: boolean }
}

/** A trader who signed up. */
export interface StoredLogin {
  trader: TraderRecord
  passwordHash: string
}

type LoginRow = TraderRecord & Omit<StoredLogin, 'trader'>

const loginColumns = `${columns}, password_hash as "passwordHash"`

const asLogin = ({ passwordHash, ...trader }: LoginRow): StoredLogin => ({ trader, passwordHash })

/** A trader of this partner who signed up, by its id. */
export async function findLoginById(db: Db, partnerId: string, traderId: string): Promise<StoredLogin | undefined> {
  const [row] = await rows<LoginRow>(
    db,
    `select ${loginColumns} from traders
      where id = :traderId and partner_id = :partnerId and password_hash is not null`,
    { partnerId, traderId }
  )
  return row && asLogin(row)
}

/** Makes a trader who signs up; its external id is its own id. Throws EMAIL_TAKEN. */
export async function insertSignup(
  trx: Db,
  trader: { partnerId: string; email: string; name: string | null; passwordHash: string }
): Promise<TraderRecord> {
  const [row] = await rows<TraderRecord>(
    trx,
    `insert into traders (id, partner_id, external_id, email, name, password_hash)
     values (:id, :partnerId, :id, :email, :name, :passwordHash)
     on conflict (partner_id, lower(email collate "C")) where password_hash is not null do nothing
     returning ${columns}`,
    { id: newId('trader'), ...trader }
  )
  if (!row) throw new ApiError('EMAIL_TAKEN')
  return row
}

/**
 * The trader of this partner who signed up with that e-mail, compared without case, and its password's hash; one that the
 * partner has disabled is there, too.
 */
export async function findLogin(
  db: Db,
  { partnerId, email }: { partnerId: string; email: string }
): Promise<StoredLogin | undefined> {
  const [row] = await rows<LoginRow>(
    db,
    `select ${loginColumns} from traders
      where partner_id = :partnerId and lower(email collate "C") = lower(:email collate "C")
        and password_hash is not null`,
    { partnerId, email }
  )
  return row && asLogin(row)
}

/**
 * Whether a login is still as it was read: the same password, and not disabled. Until `trx` ends it stays so, and no other login of the
 * trader comes as far, so that its sessions can be counted. A password takes long to compare, and what replaces it meanwhile, or
 * disables the trader, must not be outrun by a login that began before.
 */
export async function loginHolds(
  trx: Db,
  { trader: { traderId }, passwordHash }: Pick<StoredLogin, 'trader' | 'passwordHash'>
): Promise<boolean> {
  await holdTrader(trx, traderId)
  const found = await rows(
    trx,
    'select from traders where id = :traderId and password_hash = :passwordHash and disabled_at is null for no key update',
    { traderId, passwordHash }
  )
  return found.length > 0
}

/** Marks the trader as connected, on its active account or, for a new one, on `firstAccount`. */
export async function connectTrader(trx: Db, traderId: string, firstAccount: string): Promise<TraderRecord> {
  const [row] = await rows<TraderRecord>(
    trx,
    `update traders
        set connected_at = now(), active_account_id = coalesce(active_account_id, :firstAccount)
      where id = :traderId
      returning ${columns}`,
    { traderId, firstAccount }
  )
  return row as TraderRecord
}

/** Traders of a partner, oldest first, at most `limit`. */
export async function listTraders(db: Db, partnerId: string, limit: number): Promise<TraderRecord[]> {
  return db('traders')
    .select(db.raw(columns))
    .where({ partner_id: partnerId })
    .orderBy(['created_at', 'id'])
    .limit(limit)
}

/** A trader by its own id. Throws NOT_FOUND. */
export async function getTraderById(db: Db, traderId: string): Promise<TraderRecord> {
  const row = (await db('traders').where({ id: traderId }).first(db.raw(columns))) as TraderRecord | undefined
  if (!row) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
  return row
}
