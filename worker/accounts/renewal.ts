// Renews the tokens that expire, ahead of their end: each once for all workers, since a refresh token may be good once. An
// account whose token can be renewed no more is REJECTED when it ends.
import {
  endRenewal,
  type Renewal,
  type Renewed,
  retryRenewal,
  saveRenewed,
  takeRenewals
} from '../../db/traders/token-renewal.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import { renewToken } from '../broker/dialects/next-tokens.ts'
import { persist } from '../orders/persist.ts'
import type { WorkerServices } from '../services.ts'
import { noteRefusal } from './applications.ts'

const AT_ONCE = 10
/** Renewed tokens that could not be stored yet: while there are so many, no others are renewed. */
const MAX_UNSAVED = 100

type RenewalServices = Pick<WorkerServices, 'db' | 'vault' | 'config' | 'log' | 'clock'>

export class Renewals {
  readonly #services: RenewalServices
  /** Tokens renewed while the database was away: the old refresh tokens may be used up, and only this process has the new ones. */
  readonly #unsaved = new Map<Renewal, Renewed>()

  constructor(services: RenewalServices) {
    this.#services = services
  }

  /** Renews what is due now; returns whether there may be more. */
  async round(): Promise<boolean> {
    const { db, vault, config, log } = this.#services
    if (!config.brokerNext) return false
    await this.#saveAgain()
    if (this.#unsaved.size >= MAX_UNSAVED) return false
    const { due, rejected, unreadable, more } = await takeRenewals(db, vault, AT_ONCE)
    for (const accountRowId of rejected) log.warn({ accountRowId }, 'the token of an account has expired')
    const { authUrl } = config.brokerNext
    if (unreadable.length > 0)
      log.error({ accountRowIds: unreadable }, 'the refresh tokens of accounts cannot be decrypted')
    await Promise.all(due.map(renewal => this.#renew(renewal, authUrl)))
    return more
  }

  /** Stores what could not be stored yet, if that is possible now. */
  async drain(): Promise<void> {
    await this.#saveAgain().catch((error: unknown) =>
      this.#services.log.error(
        { err: error, renewals: this.#unsaved.size },
        'renewed tokens are lost: they could not be stored'
      )
    )
  }

  async #renew(renewal: Renewal, authUrl: string): Promise<void> {
    const { db, log } = this.#services
    const { wasInterrupted } = renewal
    const facts = factsOf(renewal)
    if (wasInterrupted)
      log.warn(facts, 'a renewal has not ended: what it brought is lost, unless the broker gives it again')
    let renewed: Renewed
    try {
      renewed = await this.#request(renewal, authUrl)
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      log.warn({ ...facts, brokerCode: error.brokerCode, err: error }, 'a token could not be renewed')
      if (error.rejected && wasInterrupted)
        log.error(
          facts,
          'the refresh token was used by a renewal whose outcome is lost: exchange the accounts again before their token ends'
        )
      await (error.rejected ? endRenewal(db, renewal) : retryRenewal(db, renewal.accounts))
      return
    }
    this.#unsaved.set(renewal, renewed)
    await this.#save(renewal, renewed)
  }

  /** Rejects with the refusal under the last of the applications that the token may be of. */
  async #request({ appIds, refreshToken }: Renewal, authUrl: string): Promise<Renewed> {
    const { db, log } = this.#services
    for (const [index, appId] of appIds.entries()) {
      try {
        return await renewToken(authUrl, { clientId: appId, refreshToken })
      } catch (error) {
        const isOfAnother = error instanceof BrokerError && (error.rejected || isAppRefused(error.brokerCode))
        if (isOfAnother && index < appIds.length - 1) continue
        await noteRefusal({ db, log }, { dialect: 'next', appId }, error)
        throw error
      }
    }
    throw new BrokerError('BROKER_UPSTREAM', 'The partner has no application that could renew it.', {
      brokerCode: 'NotConfigured',
      ran: 'no'
    })
  }

  async #save(renewal: Renewal, renewed: Renewed): Promise<void> {
    const { db, vault, log, clock } = this.#services
    const saved = await persist({ log, clock }, () => saveRenewed(db, vault, renewal, renewed))
    this.#unsaved.delete(renewal)
    log.info({ ...factsOf(renewal), saved, expiresInSeconds: renewed.expiresInSeconds }, 'a token was renewed')
  }

  async #saveAgain(): Promise<void> {
    for (const [renewal, renewed] of this.#unsaved) await this.#save(renewal, renewed)
  }
}

function factsOf({ appIds, accounts }: Renewal): { appIds: string[]; accountRowIds: string[] } {
  return { appIds, accountRowIds: accounts.map(({ id }) => id) }
}
