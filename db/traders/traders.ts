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
}

interface TraderRow {
  id: string
  partner_id: string
  external_id: string
  email: string | null
  name: string | null
  active_account_id: string | null
  connected_at: Date | null
  created_at: Date
}

function toTrader(row: TraderRow): TraderRecord {
  return {
    traderId: row.id,
    partnerId: row.partner_id,
    externalId: row.external_id,
    email: row.email,
    name: row.name,
    activeAccountId: row.active_account_id,
    connectedAt: row.connected_at,
    createdAt: row.created_at
  }
}

/** The trader that was sent through the exchange. Throws TRADER_NOT_FOUND. */
export async function getTrader(db: Db, partnerId: string, externalId: string): Promise<TraderRecord> {
  const row = (await db('traders')
    .where({ partner_id: partnerId, external_id: externalId })
    .whereNotNull('connected_at')
    .first()) as TraderRow | undefined
  if (!row) throw new ApiError('TRADER_NOT_FOUND')
  return toTrader(row)
}

/**
 * Finds or makes the trader, and fills in e-mail and name where they are given. Locks the row. The e-mail of a
 * trader who signed up is its login and stays.
 */
export async function upsertTrader(
  trx: Db,
  trader: { partnerId: string; externalId: string; email: string | null; name: string | null }
): Promise<TraderRecord> {
  const [row] = await rows<TraderRow>(
    trx,
    `insert into traders (id, partner_id, external_id, email, name)
     values (:id, :partnerId, :externalId, :email, :name)
     on conflict (partner_id, external_id) do update
       set email = case when traders.password_hash is null then coalesce(excluded.email, traders.email)
                        else traders.email end,
           name = coalesce(excluded.name, traders.name)
     returning *`,
    { id: newId('trader'), ...trader }
  )
  return toTrader(row as TraderRow)
}

/** A trader who signed up. */
export interface StoredLogin {
  trader: TraderRecord
  passwordHash: string
  /** When the partner disabled it; null for one that may log in. */
  disabledAt: Date | null
}

interface LoginRow extends TraderRow {
  password_hash: string
  disabled_at: Date | null
}

const toLogin = (row: LoginRow): StoredLogin => ({
  trader: toTrader(row),
  passwordHash: row.password_hash,
  disabledAt: row.disabled_at
})

/** A trader of this partner who signed up, by its id. */
export async function findLoginById(db: Db, partnerId: string, traderId: string): Promise<StoredLogin | undefined> {
  const [row] = await rows<LoginRow>(
    db,
    'select * from traders where id = :traderId and partner_id = :partnerId and password_hash is not null',
    { partnerId, traderId }
  )
  return row && toLogin(row)
}

/** Makes a trader who signs up; its external id is its own id. Throws EMAIL_TAKEN. */
export async function insertSignup(
  trx: Db,
  trader: { partnerId: string; email: string; name: string | null; passwordHash: string }
): Promise<TraderRecord> {
  const [row] = await rows<TraderRow>(
    trx,
    `insert into traders (id, partner_id, external_id, email, name, password_hash)
     values (:id, :partnerId, :id, :email, :name, :passwordHash)
     on conflict (partner_id, lower(email collate "C")) where password_hash is not null do nothing
     returning *`,
    { id: newId('trader'), ...trader }
  )
  if (!row) throw new ApiError('EMAIL_TAKEN')
  return toTrader(row)
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
    `select * from traders
      where partner_id = :partnerId and lower(email collate "C") = lower(:email collate "C")
        and password_hash is not null`,
    { partnerId, email }
  )
  return row && toLogin(row)
}

/** Marks the trader as connected, on its active account or, for a new one, on `firstAccount`. */
export async function connectTrader(trx: Db, traderId: string, firstAccount: string): Promise<TraderRecord> {
  const [row] = await rows<TraderRow>(
    trx,
    `update traders
        set connected_at = now(), active_account_id = coalesce(active_account_id, :firstAccount)
      where id = :traderId
      returning *`,
    { traderId, firstAccount }
  )
  return toTrader(row as TraderRow)
}

/** Traders of a partner, oldest first, at most `limit`. */
export async function listTraders(db: Db, partnerId: string, limit: number): Promise<TraderRecord[]> {
  const found = (await db('traders')
    .where({ partner_id: partnerId })
    .orderBy(['created_at', 'id'])
    .limit(limit)) as TraderRow[]
  return found.map(toTrader)
}

/** A trader by its own id. Throws NOT_FOUND. */
export async function getTraderById(db: Db, traderId: string): Promise<TraderRecord> {
  const row = (await db('traders').where({ id: traderId }).first()) as TraderRow | undefined
  if (!row) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
  return toTrader(row)
}
