// Tickets of the stream: what a partner's server hands to a browser instead of its key.
import { insertTicket } from '../../../db/events/tickets.ts'
import { getTrader } from '../../../db/traders/traders.ts'
import { invalid } from '../../../schemas/checks/validator.ts'
import { ApiError } from '../../../schemas/errors/errors.ts'
import { channels as allChannels, channelScopes, NewTicket, StreamTicket } from '../../../schemas/stream.ts'
import type { Operation } from '../../operation.ts'
import { requireScope } from '../../request/authenticate.ts'

const DEFAULT_TTL_SECONDS = 60

export const createStreamTicket: Operation<{ body: NewTicket }> = {
  name: 'createStreamTicket',
  method: 'POST',
  path: '/v1/stream/tickets',
  tag: 'Events',
  summary: 'Let a browser open the stream',
  description:
    "A ticket opens one socket, once, for one trader, where the key must never be: in a browser. The socket is opened with `Sec-WebSocket-Protocol: service.v1, ticket.<ticket>`, receives only that trader's events, counts for this key, and closes with it and once the trader is disabled or erased. Events carry whole records, also for the trader: an order shows in `markup` what your application earns by it. Needs the scopes of its channels: events:read for events, trading:read for ticks.",
  auth: 'key',
  scope: null,
  body: NewTicket,
  response: StreamTicket,
  errors: ['TRADER_NOT_FOUND', 'INSUFFICIENT_SCOPE', 'VALIDATION_FAILED', 'CONFLICT'],
  async handle({ partner, body }, { db, pepper }) {
    const channels = [...new Set(body.channels ?? allChannels)]
    for (const channel of channels) requireScope(partner, channelScopes[channel])
    const { partnerId, keyId } = partner
    const { traderExternalId, assets, ttlSeconds = DEFAULT_TTL_SECONDS } = body
    if (assets && !channels.includes('ticks'))
      throw invalid([{ path: '/body/assets', message: 'must come with the channel ticks' }])
    const { traderId, disabledAt } = await getTrader(db, partnerId, traderExternalId)
    if (disabledAt) throw new ApiError('CONFLICT', `The trader ${traderId} is DISABLED: enable it first.`)
    const { ticket, expiresAt } = await insertTicket(db, pepper, {
      partnerId,
      keyId,
      traderExternalId,
      channels,
      assets: assets ?? null,
      ttlSeconds
    })
    return { ticket, expiresAt: expiresAt.toISOString() }
  }
}
