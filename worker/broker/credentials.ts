// A broker account's token on its way from the store to the broker: read for one use, never kept, never logged.

import { ApiError } from '../../schemas/errors/errors.ts'
import { type RejectedReason, rejectionMessages } from '../../schemas/traders/accounts.ts'
import { BrokerError } from './broker-error.ts'
import type { AccountFacts, BrokerAccount } from './port.ts'

/** The account's token. Rejects with BROKER_DISCONNECTED when there is none, or when it is malformed. */
export async function readToken(account: Pick<BrokerAccount, 'token'>, form: RegExp): Promise<string> {
  let token: string
  try {
    token = await account.token()
  } catch (cause) {
    if (cause instanceof BrokerError) throw cause
    // Either there is none or, far more likely, our own database is away for a moment, which is no refusal of the account.
    const none = cause instanceof ApiError && cause.code === 'BROKER_DISCONNECTED'
    // The reason for which there is none is shown to the partner.
    const message = none ? cause.message : 'The stored token could not be read.'
    throw new BrokerError(none ? 'BROKER_DISCONNECTED' : 'BROKER_UPSTREAM', message, {
      brokerCode: 'TokenUnreadable',
      cause
    })
  }
  if (!form.test(token)) throw tokenRefused('InvalidToken', 'TOKEN_REFUSED', 'The token does not have the form of one.')
  return token
}

/** Passes on the broker's facts of the account whose token it accepted. Rejects with BrokerError. */
export async function confirmAccount(account: BrokerAccount, facts: AccountFacts): Promise<void> {
  try {
    await account.accepted?.(facts)
  } catch (cause) {
    if (cause instanceof BrokerError) throw cause
    const message = 'What the broker says of the account could not be stored.'
    throw new BrokerError('BROKER_UPSTREAM', message, { brokerCode: 'FactsNotStored', cause })
  }
}

/** The token, or its claim to the account, was refused for `reason`; the message is what partners are shown for it. */
export function tokenRefused(
  brokerCode: string,
  reason: RejectedReason = 'TOKEN_REFUSED',
  cause?: unknown
): BrokerError {
  return new BrokerError('BROKER_DISCONNECTED', rejectionMessages[reason], {
    brokerCode,
    ran: 'no',
    rejected: true,
    reason,
    cause
  })
}
