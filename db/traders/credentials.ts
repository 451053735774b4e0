// The life of a trader's credentials after the sign-up: another password, a reset by a token that the partner delivers, the
// end of all sessions, and a partner's switch. Whatever replaces a password ends the sessions that came with the old one.
import { ApiError } from '../../schemas/errors/errors.ts'
import { hashSecret, newToken, type Pepper } from '../platform/crypto.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { holdTrader, pseudonymOf } from './traders.ts'

const RESET_HOURS = 1

const hashToken = (pepper: Pepper, token: string) => hashSecret(pepper, `reset:${token}`)

/** Ends the sessions of a trader but the one to be kept. Returns how many there were. */
export async function endTraderSessions(trx: Db, traderId: string, keptSessionId = ''): Promise<number> {
  const ended = await rows(
    trx,
    `update sessions set revoked_at = now()
      where trader_id = :traderId and id <> :keptSessionId and revoked_at is null and expires_at > now()
      returning id`,
    { traderId, keptSessionId }
  )
  return ended.length
}

/**
 * Stores a new password's hash, voids a reset that is open, and ends the sessions. Returns how many ended; undefined, and nothing
 * changes, where the password is another by now than the one whose hash is `replaced`.
 */
export async function replacePassword(
  trx: Db,
  {
    traderId,
    passwordHash,
    replaced,
    keptSessionId
  }: { traderId: string; passwordHash: string; replaced?: string; keptSessionId?: string }
): Promise<number | undefined> {
  await holdTrader(trx, traderId)
  const changed = await trx('traders')
    .where({ id: traderId, ...(replaced === undefined ? {} : { password_hash: replaced }) })
    .update({ password_hash: passwordHash })
  if (changed === 0) return undefined
  await trx('password_resets').where({ trader_id: traderId }).del()
  return endTraderSessions(trx, traderId, keptSessionId)
}

/**
 * A token for a new password, instead of one issued before; only its hash is stored. Undefined for a trader who was erased meanwhile;
 * fails as holdTrader does.
 */
export async function insertReset(
  trx: Db,
  pepper: Pepper,
  traderId: string
): Promise<{ resetToken: string; expiresAt: Date } | undefined> {
  const resetToken = newToken()
  const [row] = await rows<{ expires_at: Date }>(
    trx,
    `insert into password_resets (trader_id, hash, expires_at)
     select id, :hash, now() + make_interval(hours => :hours) from traders
      where id = :traderId and password_hash is not null for key share nowait
     on conflict (trader_id) do update set hash = excluded.hash, expires_at = excluded.expires_at
     returning expires_at`,
    { traderId, hash: hashToken(pepper, resetToken), hours: RESET_HOURS }
  )
  return row && { resetToken, expiresAt: row.expires_at }
}

/** The trader of this partner whose reset the token is, while it holds. */
export async function findReset(
  db: Db,
  pepper: Pepper,
  { partnerId, resetToken }: { partnerId: string; resetToken: string }
): Promise<string | undefined> {
  const [row] = await rows<{ trader_id: string }>(
    db,
    `select r.trader_id from password_resets r join traders t on t.id = r.trader_id
      where r.hash = :hash and t.partner_id = :partnerId and r.expires_at > now()`,
    { partnerId, hash: hashToken(pepper, resetToken) }
  )
  return row?.trader_id
}

/** Takes the token's reset of this trader, once: of two at the same time one gets it. */
export async function takeReset(
  trx: Db,
  pepper: Pepper,
  { traderId, resetToken }: { traderId: string; resetToken: string }
): Promise<boolean> {
  await holdTrader(trx, traderId)
  // The trader first, as replacePassword locks them: a change of the password at the same time waits, or is waited for.
  await rows(trx, 'select id from traders where id = :traderId for no key update', { traderId })
  const taken = await rows(
    trx,
    'delete from password_resets where trader_id = :traderId and hash = :hash and expires_at > now() returning trader_id',
    { traderId, hash: hashToken(pepper, resetToken) }
  )
  return taken.length > 0
}

/** Deletes resets that have expired. */
export async function deleteOldResets(db: Db): Promise<void> {
  await rows(db, 'delete from password_resets where expires_at < now()')
}

/**
 * Lets a trader of the partner log in or not; disabling ends its sessions. Repeating it changes nothing. Throws NOT_FOUND for
 * a trader that is not the partner's, or was erased.
 */
export async function setDisabled(
  trx: Db,
  { partnerId, traderId, disabled }: { partnerId: string; traderId: string; disabled: boolean }
): Promise<Date | null> {
  const [row] = await rows<{ disabled_at: Date | null }>(
    trx,
    // As holdTrader, but never another partner's trader.
    `with held as materialized (
       select id from traders where id = :traderId and partner_id = :partnerId and external_id <> :erased for key share nowait
     )
     update traders t set disabled_at = case when :disabled then coalesce(t.disabled_at, now()) end
       from held where t.id = held.id
      returning t.disabled_at`,
    { partnerId, traderId, disabled, erased: pseudonymOf(traderId) }
  )
  if (!row) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
  if (disabled) await endTraderSessions(trx, traderId)
  return row.disabled_at
}
