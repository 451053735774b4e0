// operator sessions: partners' sessions, with which they manage their keys.
import type { Command } from 'commander'
import { getPartner } from '../../db/partners/partners.ts'
import { insertPartnerSession, listPartnerSessions, revokeSession } from '../../db/partners/sessions.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { getNamedTrader } from '../../db/platform/named.ts'
import { endTraderSessions } from '../../db/traders/credentials.ts'
import { OfPartner, SessionRef } from '../../schemas/commands/operator.ts'
import { SessionEnd } from '../../schemas/commands/traders.ts'
import { PARTNER_COOKIE, setCookie } from '../../schemas/fields/cookies.ts'
import { prefixes } from '../../schemas/fields/ids.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'

export function addSessions(program: Command): void {
  const sessions = program
    .command('sessions')
    .description("Partners' sessions for key management, and traders': issue, list, end")

  sessions
    .command('issue')
    .description('Issue a session; its cookie is shown only once')
    .requiredOption('--partner <partnerId>', 'whose session')
    .addHelpText('after', examples('sessions issue --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db, pepper, config, actor }, { partner: partnerId }: OfPartner) =>
          db.transaction(async trx => {
            const session = await insertPartnerSession(trx, pepper, { partnerId, ttlHours: config.sessionTtlHours })
            const { sessionId, expiresAt } = session
            await recordAudit(trx, { actor, action: 'sessions.issue', target: sessionId, details: { partnerId } })
            return {
              sessionId,
              partnerId,
              // Ready to send as the Cookie header, and ready for a console to set in a browser.
              cookie: `${PARTNER_COOKIE}=${session.token}`,
              setCookie: setCookie(PARTNER_COOKIE, session, config),
              expiresAt
            }
          }),
        { input: OfPartner, acts: true }
      )
    )

  sessions
    .command('list')
    .description('List sessions of a partner and of its traders that have not expired, newest first')
    .requiredOption('--partner <partnerId>', 'whose sessions')
    .addHelpText('after', examples('sessions list --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db }, { partner }: OfPartner) => {
          await getPartner(db, partner)
          const found = await listPartnerSessions(db, partner)
          return {
            data: found.map(({ sessionId, traderId, createdAt, expiresAt, revokedAt }) => ({
              sessionId,
              traderId,
              createdAt,
              expiresAt,
              revokedAt
            }))
          }
        },
        { input: OfPartner, show: ['sessionId', 'traderId', 'createdAt', 'expiresAt', 'revokedAt'] }
      )
    )

  sessions
    .command('end <session>')
    .description('End a session or, of a trader, all: named by its id, external id, e-mail or broker account')
    .addHelpText('after', examples('sessions end ses_01jd…', 'sessions end anna@example.com'))
    .action(withStore(end, { input: SessionEnd, acts: true }))

  sessions
    .command('revoke <sessionId>')
    .description('End a session, at once and for good')
    .addHelpText('after', examples('sessions revoke ses_01jd…', 'sessions revoke ses_01jd… --yes'))
    .action(withStore(revoke, { input: SessionRef, acts: true }))
}

async function revoke({ db, actor, confirm }: Opened, { sessionId }: SessionRef) {
  await confirm(`End ${sessionId}? Requests with it are refused from now on.`)
  return db.transaction(async trx => {
    const { partnerId, revokedAt } = await revokeSession(trx, sessionId)
    await recordAudit(trx, { actor, action: 'sessions.revoke', target: sessionId, details: { partnerId } })
    return { sessionId, partnerId, revokedAt }
  })
}

async function end(opened: Opened, { session }: SessionEnd): Promise<object> {
  if (session.startsWith(`${prefixes.session}_`)) return revoke(opened, { sessionId: session })
  const { db, actor, confirm } = opened
  const { traderId, partnerId, externalId } = await getNamedTrader(db, session)
  await confirm(`End every session of the trader ${externalId} (${traderId})? It has to log in again.`)
  return db.transaction(async trx => {
    const ended = await endTraderSessions(trx, traderId)
    await recordAudit(trx, { actor, action: 'sessions.end', target: traderId, details: { partnerId, ended } })
    return { traderId, partnerId, traderExternalId: externalId, ended }
  })
}
