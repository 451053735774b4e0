// What becomes of a trader's credentials after the sign-up: change, reset, end of all sessions, disabling by the partner.
import { hashPassword, isCommonPassword, isPassword } from '../../db/platform/passwords.ts'
import {
  endTraderSessions,
  findReset,
  insertReset,
  replacePassword,
  setDisabled,
  takeReset
} from '../../db/traders/credentials.ts'
import { findLogin, findLoginById, getTraderById } from '../../db/traders/traders.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import {
  DisabledTrader,
  EndedSessions,
  NewPassword,
  PasswordChange,
  PasswordReset,
  ResetRequest,
  SessionsEnd
} from '../../schemas/traders/credentials.ts'
import type { Operation, SessionTrader } from '../operation.ts'
import { guarded } from '../request/guessing.ts'

/** Throws VALIDATION_FAILED for a password on the list of those guessed first. */
export async function refuseCommon(password: string, path: string): Promise<void> {
  if (await isCommonPassword(password))
    throw invalid([{ path, message: 'must not be one of the passwords that are used most often' }])
}

const WRONG = 'The current password is wrong.'

export const changePassword: Operation<{ body: PasswordChange }> = {
  name: 'changePassword',
  method: 'POST',
  path: '/v1/traders/password',
  tag: 'Traders',
  summary: "Change a trader's password",
  description:
    'Needs the current password in addition to the session. All other sessions of the trader end; the one that came with the request stays.',
  auth: 'trader',
  scope: 'traders:write',
  endUser: true,
  body: PasswordChange,
  response: EndedSessions,
  errors: ['INVALID_CREDENTIALS', 'RATE_LIMITED'],
  async handle({ partner: { partnerId }, trader, body, endUserIp, signal }, services) {
    const { traderId, sessionId } = trader as SessionTrader
    await refuseCommon(body.newPassword, '/body/newPassword')
    const guess = { what: 'password', partnerId, subject: traderId, endUserIp, signal } as const
    const replaced = await guarded(guess, services, async () => {
      const login = await findLoginById(services.db, partnerId, traderId)
      return (await isPassword(partnerId, login?.passwordHash, body.currentPassword)) ? login?.passwordHash : undefined
    })
    if (!replaced) throw new ApiError('INVALID_CREDENTIALS', WRONG)
    const passwordHash = await hashPassword(partnerId, body.newPassword)
    // Replaces only the password that was checked: a reset that ended during the hashing must not be undone with the old password.
    const sessionsEnded = await services.db.transaction(trx =>
      replacePassword(trx, { traderId, passwordHash, replaced, keptSessionId: sessionId })
    )
    if (sessionsEnded === undefined) throw new ApiError('INVALID_CREDENTIALS', WRONG)
    return { traderId, sessionsEnded }
  }
}

export const resetPassword: Operation<{ body: ResetRequest }> = {
  name: 'resetPassword',
  method: 'POST',
  path: '/v1/traders/password/reset',
  tag: 'Traders',
  summary: 'Begin a reset of a password',
  description:
    "Returns a token with which the trader may choose a new password within an hour, once; a later one replaces it. Deliver it to the trader's e-mail address, and respond alike whether or not there is such a trader. The password stays as it is until then.",
  auth: 'key',
  scope: 'traders:write',
  body: ResetRequest,
  response: PasswordReset,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner: { partnerId }, body }, { db, pepper }) {
    const login = await findLogin(db, { partnerId, email: body.email })
    const reset = login && (await insertReset(db, pepper, login.trader.traderId))
    if (!reset) throw new ApiError('NOT_FOUND', 'No trader of yours signed up with this e-mail.')
    return { resetToken: reset.resetToken, expiresAt: reset.expiresAt.toISOString() }
  }
}

export const confirmPassword: Operation<{ body: NewPassword }> = {
  name: 'confirmPassword',
  method: 'POST',
  path: '/v1/traders/password/confirm',
  tag: 'Traders',
  summary: 'Choose a new password with a reset token',
  description:
    'The token is used up, and all sessions of the trader end. A token that is unknown, used or expired is a 401.',
  auth: 'key',
  scope: 'traders:write',
  body: NewPassword,
  response: EndedSessions,
  errors: ['INVALID_CREDENTIALS'],
  async handle({ partner: { partnerId }, body }, { db, pepper }) {
    const refused = new ApiError('INVALID_CREDENTIALS', 'The resetToken is unknown, used or expired.')
    await refuseCommon(body.newPassword, '/body/newPassword')
    // Looked up before hashing: an invented token costs no hash. Its 256 random bits cannot be guessed, so attempts need no bound.
    const traderId = await findReset(db, pepper, { partnerId, resetToken: body.resetToken })
    if (!traderId) throw refused
    const passwordHash = await hashPassword(partnerId, body.newPassword)
    return db.transaction(async trx => {
      if (!(await takeReset(trx, pepper, { traderId, resetToken: body.resetToken }))) throw refused
      return { traderId, sessionsEnded: (await replacePassword(trx, { traderId, passwordHash })) ?? 0 }
    })
  }
}

export const endSessions: Operation<{ body: SessionsEnd }> = {
  name: 'endSessions',
  method: 'POST',
  path: '/v1/traders/sessions/end',
  tag: 'Traders',
  summary: 'End all sessions of a trader',
  description: 'Of the trader named, else of the one whose session came with the request; at once and everywhere.',
  auth: 'key',
  actor: true,
  scope: 'traders:write',
  body: SessionsEnd,
  response: EndedSessions,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle({ partner, trader, body }, { db }) {
    const traderId = body.traderId ?? trader?.traderId
    if (traderId === undefined)
      throw invalid([{ path: '/body/traderId', message: 'is required where no session of a trader comes along' }])
    const found = await getTraderById(db, traderId)
    if (found.partnerId !== partner.partnerId) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
    return { traderId, sessionsEnded: await endTraderSessions(db, traderId) }
  }
}

interface TraderPath {
  traderId: string
}
const traderPath = {
  type: 'object',
  required: ['traderId'],
  properties: { traderId: pathId('trd', 'traderId of the trader.') }
} as const

/** Enabling and disabling a trader, which differ only in their texts. */
function switching(
  disabled: boolean,
  words: Pick<Operation, 'name' | 'path' | 'summary' | 'description'>
): Operation<{ params: TraderPath }> {
  return {
    ...words,
    method: 'POST',
    tag: 'Traders',
    auth: 'key',
    scope: 'traders:write',
    params: traderPath,
    response: DisabledTrader,
    atomic: true,
    errors: ['NOT_FOUND'],
    async handle({ partner: { partnerId }, params: { traderId } }, { db }) {
      const at = await db.transaction(trx => setDisabled(trx, { partnerId, traderId, disabled }))
      return { traderId, disabledAt: at?.toISOString() ?? null }
    }
  }
}

export const disableTrader = switching(true, {
  name: 'disableTrader',
  path: '/v1/traders/{traderId}/disable',
  summary: 'Keep a trader from logging in',
  description:
    'Its sessions end, sockets that tickets opened for it close, and its logins fail as with a wrong password, until it is enabled again. Orders placed with your key are not affected. A subscription of its own ends with the month that is paid, unless it is enabled by then. Repeating it changes nothing.'
})

export const enableTrader = switching(false, {
  name: 'enableTrader',
  path: '/v1/traders/{traderId}/enable',
  summary: 'Let a trader log in again',
  description: 'Enables a disabled trader; repeating it changes nothing. One that the operator erased is a 404.'
})
