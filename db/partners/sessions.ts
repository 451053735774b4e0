// Sessions: a random token in a cookie or header, of which only a peppered hash is kept here. A partner's session
// manages its keys; a trader's session names the trader on whose behalf a key acts. Read afresh on every request, so
// that a revocation holds at once on every process.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { hashSecret, newToken, type Pepper } from '../platform/crypto.ts'
import { type Db, rows } from '../postgres/connection.ts'
import {
  getRealPartner,
  groupLimits,
  type PartnerFacts,
  partnerFactsColumns,
  type WithLimitColumns
} from './partners.ts'

interface IssuedSession {
  sessionId: string
  /** Shown once, stored nowhere. */
  token: string
  expiresAt: Date
}

const TOKEN = /^[A-Za-z0-9_-]{43}$/

const hashToken = (pepper: Pepper, token: string) => hashSecret(pepper, `session:${token}`)

async function insertSession(
  trx: Db,
  pepper: Pepper,
  session: { partnerId: string; traderId: string | null; ttlHours: number }
): Promise<IssuedSession> {
  const token = newToken()
  const [row] = await rows<Omit<IssuedSession, 'token'>>(
    trx,
    `insert into sessions (id, partner_id, trader_id, hash, expires_at)
     values (:id, :partnerId, :traderId, :hash, now() + make_interval(hours => :ttlHours))
     returning id as "sessionId", expires_at as "expiresAt"`,
    { id: newId('session'), ...session, hash: hashToken(pepper, token) }
  )
  return { ...(row as Omit<IssuedSession, 'token'>), token }
}

/** Issues a partner's session for `ttlHours`. Throws NOT_FOUND. */
export async function insertPartnerSession(
  trx: Db,
  pepper: Pepper,
  { partnerId, ttlHours }: { partnerId: string; ttlHours: number }
): Promise<IssuedSession> {
  await getRealPartner(trx, partnerId)
  return insertSession(trx, pepper, { partnerId, traderId: null, ttlHours })
}

const MAX_OF_TRADER = 50

/** Issues a trader's session for `ttlHours`; of more than 50 that hold, the oldest end. */
export async function insertTraderSession(
  trx: Db,
  pepper: Pepper,
  session: { partnerId: string; traderId: string; ttlHours: number }
): Promise<IssuedSession> {
  await rows(
    trx,
    `update sessions set revoked_at = now() where id in
       (select id from sessions where trader_id = :traderId and revoked_at is null and expires_at > now()
         order by created_at desc, id desc offset :kept)`,
    { traderId: session.traderId, kept: MAX_OF_TRADER - 1 }
  )
  return insertSession(trx, pepper, session)
}

interface PartnerSession extends PartnerFacts {
  sessionId: string
}

/** The partner behind a token that is neither expired nor revoked. */
export async function findPartnerSession(db: Db, pepper: Pepper, token: string): Promise<PartnerSession | undefined> {
  if (!TOKEN.test(token)) return undefined
  const [row] = await rows<WithLimitColumns<PartnerSession>>(
    db,
    `select s.id as "sessionId", ${partnerFactsColumns}
       from sessions s join partners p on p.id = s.partner_id
      where s.hash = :hash and s.trader_id is null and s.revoked_at is null and s.expires_at > now()`,
    { hash: hashToken(pepper, token) }
  )
  return row && groupLimits(row)
}

interface TraderSession {
  sessionId: string
  traderId: string
  traderExternalId: string
  expiresAt: Date
}

/** The trader of this partner behind a token that is neither expired nor revoked. */
export async function findTraderSession(
  db: Db,
  pepper: Pepper,
  { partnerId, token }: { partnerId: string; token: string }
): Promise<TraderSession | undefined> {
  if (!TOKEN.test(token)) return undefined
  const [row] = await rows<TraderSession>(
    db,
    `select s.id as "sessionId", s.trader_id as "traderId", t.external_id as "traderExternalId", s.expires_at as "expiresAt"
       from sessions s join traders t on t.id = s.trader_id
      where s.hash = :hash and s.partner_id = :partnerId and s.revoked_at is null and s.expires_at > now()
        and t.disabled_at is null`,
    { hash: hashToken(pepper, token), partnerId }
  )
  return row
}

interface SessionRecord {
  sessionId: string
  partnerId: string
  /** The trader whose session it is; null for the partner's own. */
  traderId: string | null
  createdAt: Date
  expiresAt: Date
  revokedAt: Date | null
}

const columns = [
  'id as sessionId',
  'partner_id as partnerId',
  'trader_id as traderId',
  'created_at as createdAt',
  'expires_at as expiresAt',
  'revoked_at as revokedAt'
]

/** Ends a session; one that was revoked before stays as it was. Throws NOT_FOUND. */
export async function revokeSession(trx: Db, sessionId: string): Promise<SessionRecord> {
  const [row] = (await trx('sessions')
    .where({ id: sessionId })
    .update({ revoked_at: trx.raw('coalesce(revoked_at, now())') })
    .returning(columns)) as SessionRecord[]
  if (!row) throw new ApiError('NOT_FOUND', `There is no session ${sessionId}.`)
  return row
}

/** Ends a session, unless it has ended. That of a trader who was erased meanwhile is gone. */
export async function endSession(trx: Db, sessionId: string): Promise<void> {
  await trx('sessions').where({ id: sessionId }).whereNull('revoked_at').update({ revoked_at: trx.fn.now() })
}

/** Sessions of a partner and of its traders that are not expired, newest first, at most 1000. */
export async function listPartnerSessions(db: Db, partnerId: string): Promise<SessionRecord[]> {
  return db('sessions')
    .select(columns)
    .where({ partner_id: partnerId })
    .where('expires_at', '>', db.fn.now())
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(1000)
}

/** Deletes sessions that expired an hour ago or earlier, those that were ended before among them. Returns how many. */
export async function deleteOldSessions(db: Db): Promise<number> {
  let total = 0
  // In small bites, and not for ever: what is left waits for the next run.
  for (let bite = 0; bite < 100; bite++) {
    const gone = await rows<{ id: string }>(
      db,
      `delete from sessions where id in
         (select id from sessions where expires_at < now() - interval '1 hour' order by expires_at limit 5000)
       returning id`
    )
    total += gone.length
    if (gone.length < 5000) break
  }
  return total
}
