// Traders' own accounts: sign-up, login, own profile, logout.

import { endSession, insertTraderSession } from '../../db/partners/sessions.ts'
import { requireRoom } from '../../db/platform/bounds.ts'
import { hashPassword, isPassword } from '../../db/platform/passwords.ts'
import { listAccounts, presentAccount } from '../../db/traders/accounts.ts'
import {
  findLogin,
  getTraderById,
  insertSignup,
  loginHolds,
  type StoredLogin,
  type TraderRecord
} from '../../db/traders/traders.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { setCookie, TRADER_COOKIE } from '../../schemas/fields/cookies.ts'
import { LoggedOut, Login, Signup, TraderAccount, TraderLogin } from '../../schemas/traders/traders.ts'
import type { ApiServices, Operation, SessionTrader } from '../operation.ts'
import { guarded } from '../request/guessing.ts'
import { Reply } from '../request/respond.ts'
import { refuseCommon } from './credentials.ts'

export const signUpTrader: Operation<{ body: Signup }> = {
  name: 'signUpTrader',
  method: 'POST',
  path: '/v1/traders/signup',
  tag: 'Traders',
  summary: 'Sign a trader up',
  description:
    "Makes a trader with e-mail and password and logs it in. Its traderExternalId is its traderId: upload its broker tokens under it through the exchange, and it can trade. The session's token is in the response and in the cookie trader_session. One of the most common passwords is refused.",
  auth: 'key',
  scope: 'traders:write',
  body: Signup,
  response: TraderLogin,
  endUser: true,
  errors: ['EMAIL_TAKEN'],
  headers: ['Set-Cookie'],
  async handle({ partner: { partnerId }, body, endUserIp, signal }, services) {
    const { email, name = null } = body
    await refuseCommon(body.password, '/body/password')
    // Looked up before anything is hashed; an e-mail that is taken counts as a failed guess.
    const guess = { what: 'signup', partnerId, subject: email, endUserIp, signal } as const
    const free = await guarded(guess, services, async () =>
      (await findLogin(services.db, { partnerId, email })) ? undefined : true
    )
    if (!free) throw new ApiError('EMAIL_TAKEN')
    await requireRoom(services.db, 'traders', partnerId)
    const passwordHash = await hashPassword(partnerId, body.password)
    return services.db.transaction(async trx => {
      const trader = await insertSignup(trx, { partnerId, email, name, passwordHash })
      return logIn(trader, { ...services, db: trx })
    })
  }
}

export const logInTrader: Operation<{ body: Login }> = {
  name: 'logInTrader',
  method: 'POST',
  path: '/v1/traders/login',
  tag: 'Traders',
  summary: 'Log a trader in',
  description:
    'Returns what signing up returns. A wrong password and an unknown e-mail have the same error. After 10 failures within 15 minutes further logins of the e-mail take longer, up to 8 seconds, one at a time; pass the address of the end user in X-End-User-IP, and only that address is slowed.',
  auth: 'key',
  scope: 'traders:write',
  body: Login,
  response: TraderLogin,
  endUser: true,
  errors: ['INVALID_CREDENTIALS'],
  headers: ['Set-Cookie'],
  async handle({ partner: { partnerId }, body, endUserIp, signal }, services) {
    const guess = { what: 'login', partnerId, subject: body.email, endUserIp, signal } as const
    const found = await guarded(guess, services, () =>
      findRight({ partnerId, email: body.email }, body.password, services)
    )
    if (!found) throw new ApiError('INVALID_CREDENTIALS')
    return services.db.transaction(async trx => {
      if (!(await loginHolds(trx, found))) throw new ApiError('INVALID_CREDENTIALS')
      return logIn(found.trader, { ...services, db: trx })
    })
  }
}

/** The trader's login, if e-mail and password are right. */
async function findRight(
  login: { partnerId: string; email: string },
  password: string,
  { db }: ApiServices
): Promise<StoredLogin | undefined> {
  const found = await findLogin(db, login)
  const right = await isPassword(login.partnerId, found?.passwordHash, password)
  return right && found?.trader.disabledAt === null ? found : undefined
}

/** Opens a session; its token is in the body for servers, in a cookie for browsers. */
async function logIn(trader: TraderRecord, { db, pepper, config }: ApiServices): Promise<Reply> {
  const { partnerId, traderId } = trader
  const session = await insertTraderSession(db, pepper, { partnerId, traderId, ttlHours: config.sessionTtlHours })
  return new Reply(
    { ...presentTrader(trader), sessionToken: session.token, expiresAt: session.expiresAt.toISOString() },
    { 'Set-Cookie': setCookie(TRADER_COOKIE, session, config) }
  )
}

function presentTrader({ traderId, externalId, email, name, createdAt }: TraderRecord) {
  return { traderId, traderExternalId: externalId, email, name, createdAt: createdAt.toISOString() }
}

export const getTraderMe: Operation<object> = {
  name: 'getTraderMe',
  method: 'GET',
  path: '/v1/traders/me',
  tag: 'Traders',
  summary: 'The trader behind the session',
  description: 'The trader, when its session ends, and its broker accounts.',
  auth: 'trader',
  scope: 'traders:read',
  response: TraderAccount,
  errors: [],
  async handle({ trader }, { db }) {
    const { traderId, expiresAt } = trader as SessionTrader
    const [found, accounts] = await Promise.all([getTraderById(db, traderId), listAccounts(db, traderId)])
    return {
      ...presentTrader(found),
      expiresAt: expiresAt.toISOString(),
      accounts: accounts.map(account => presentAccount(account, found.activeAccountId))
    }
  }
}

export const logOutTrader: Operation<object> = {
  name: 'logOutTrader',
  method: 'POST',
  path: '/v1/traders/logout',
  tag: 'Traders',
  summary: 'Log a trader out',
  description: 'Ends the session that came with the request, at once and everywhere, and removes its cookie.',
  auth: 'trader',
  scope: 'traders:write',
  response: LoggedOut,
  atomic: true,
  errors: [],
  headers: ['Set-Cookie'],
  async handle({ trader }, { db, config }) {
    await endSession(db, (trader as SessionTrader).sessionId)
    return new Reply({ loggedOut: true }, { 'Set-Cookie': setCookie(TRADER_COOKIE, undefined, config) })
  }
}
