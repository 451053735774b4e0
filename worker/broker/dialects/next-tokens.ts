// Renews a token of the newer dialect at the broker's authorisation server, by OAuth 2.0 (RFC 6749, section 6). The documents
// state no lifetime, so the one in the response counts.

import { BrokerError } from '../broker-error.ts'
import { unreachable } from './next-refusals.ts'
import { unknowns } from './next-unknowns.ts'

interface TokenGrant {
  token: string
  /** null: the one used stays good. */
  refreshToken: string | null
  /** null: not stated, or as no life of a token; with 0 it would be renewed again at once, without end. */
  expiresInSeconds: number | null
}

const MAX_RESPONSE_BYTES = 65_536

/**
 * Exchanges a refresh token for a token. Rejects with BrokerError: BROKER_DISCONNECTED (rejected, TOKEN_EXPIRED) when the
 * broker refuses the refresh token, InvalidApplication when it refuses the client, else an error that may pass.
 */
export async function renewToken(
  authUrl: string,
  { clientId, refreshToken }: { clientId: string; refreshToken: string }
): Promise<TokenGrant> {
  let status: number
  let body: Record<string, unknown>
  try {
    const response = await fetch(`${authUrl}/oauth2/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: refreshToken, client_id: clientId }),
      // A token is not sent on to a redirect's target.
      redirect: 'error',
      signal: AbortSignal.timeout(unknowns.restTimeoutMs)
    })
    status = response.status
    body = await readJson(response)
  } catch (cause) {
    // Nothing of the request is kept: its body is a secret.
    throw unreachable(cause instanceof Error && cause.name === 'TimeoutError' ? 'no response in time' : 'no response')
  }
  if (status !== 200) throw refusal(status, body)
  const { access_token: token, refresh_token: next, expires_in: stated } = body
  // No document of the broker has its form: other servers send it as a text, too.
  const seconds = typeof stated === 'string' && /^\d+$/.test(stated) ? Number(stated) : stated
  if (typeof token !== 'string' || !unknowns.tokenForm.test(token)) throw unreachable('the response has no token')
  return {
    token,
    refreshToken: typeof next === 'string' && unknowns.tokenForm.test(next) ? next : null,
    expiresInSeconds: typeof seconds === 'number' && seconds >= 1 && seconds < 1e9 ? Math.floor(seconds) : null
  }
}

function refusal(status: number, { error }: Record<string, unknown>): BrokerError {
  const cause = `status ${status} ${typeof error === 'string' ? error.slice(0, 80) : 'without a code'}`
  if (error === 'invalid_grant')
    return new BrokerError('BROKER_DISCONNECTED', 'The broker does not renew the token any more.', {
      ...{ brokerCode: 'InvalidGrant', ran: 'no', rejected: true, reason: 'TOKEN_EXPIRED', cause }
    })
  if (error === 'invalid_client' || error === 'unauthorized_client')
    return new BrokerError('BROKER_UPSTREAM', "The broker refused the partner's application id.", {
      ...{ brokerCode: 'InvalidApplication', ran: 'no', cause }
    })
  return unreachable(cause)
}

async function readJson(response: Response): Promise<Record<string, unknown>> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    if (text.length > MAX_RESPONSE_BYTES) throw new Error('the response is too long')
  }
  try {
    const body = JSON.parse(text + decoder.decode()) as unknown
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {}
  } catch {
    // A proxy's page; the status suffices.
    return {}
  }
}
