// Renews the tokens that expire, ahead of their end: each once for all workers, since a refresh token may be good once. An
// account whose token can be renewed no more is REJECTED when it ends.
import { endRenewal, type Renewal, retryRenewal, saveRenewed, takeRenewals } from '../../db/traders/token-renewal.ts'
import { renewToken } from '../broker/dialects/next-tokens.ts'
import { BrokerError } from '../broker/port.ts'
import { persist } from '../orders/persist.ts'
import type { WorkerServices } from '../services.ts'
import { noteRefusal } from './applications.ts'

const AT_ONCE = 10

/** Renews what is due now; returns whether there may be more. */
export async function renewTokens(
  services: Pick<WorkerServices, 'db' | 'vault' | 'config' | 'log' | 'clock'>
): Promise<boolean> {
  const { db, vault, config, log } = services
  if (!config.brokerNext) return false
  const { due, rejected, unreadable } = await takeRenewals(db, vault, AT_ONCE)
  for (const accountRowId of rejected) log.warn({ accountRowId }, 'the token of an account has expired')
  const { authUrl } = config.brokerNext
  if (unreadable.length > 0)
    log.error({ accountRowIds: unreadable }, 'the refresh tokens of accounts cannot be decrypted')
  await Promise.all(due.map(renewal => renew(services, renewal, authUrl)))
  return due.length === AT_ONCE
}

async function renew(
  { db, vault, log, clock }: Pick<WorkerServices, 'db' | 'vault' | 'log' | 'clock'>,
  renewal: Renewal,
  authUrl: string
): Promise<void> {
  const { appId, refreshToken } = renewal
  const facts = { appId, accountRowIds: renewal.accounts.map(({ id }) => id) }
  let renewed: Awaited<ReturnType<typeof renewToken>>
  try {
    renewed = await renewToken(authUrl, { clientId: appId, refreshToken })
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error
    await noteRefusal({ db, log }, { dialect: 'next', appId }, error)
    log.warn({ ...facts, brokerCode: error.brokerCode, err: error }, 'a token could not be renewed')
    await (error.rejected ? endRenewal(db, renewal) : retryRenewal(db, renewal.accounts))
    return
  }
  // The old refresh token may be used up: what came for it must be stored, also while the database is away for a moment.
  const saved = await persist({ log, clock }, () => saveRenewed(db, vault, renewal, renewed))
  log.info({ ...facts, saved, expiresInSeconds: renewed.expiresInSeconds }, 'a token was renewed')
}
