// Decides which upgrades may open a socket at /v1/stream: the checks of every request, then a ticket or a key, and a place among
// the sockets of the key.
import type { IncomingMessage, ServerResponse } from 'node:http'
import Koa, { type Context } from 'koa'
import { redeemTicket } from '../../../db/events/tickets.ts'
import { ApiError } from '../../../schemas/errors/errors.ts'
import { channelScopes, socketsPerKey } from '../../../schemas/stream.ts'
import type { ApiServices, Caller } from '../../operation.ts'
import { authenticateKey, checkStanding } from '../../request/authenticate.ts'
import { limitKey } from '../../request/limit.ts'
import { respond } from '../../request/respond.ts'
import { secure } from '../../request/secure.ts'
import type { SocketHolder } from './socket.ts'
import type { SurplusSockets } from './surplus.ts'
import type { PartnerTail, Tails } from './tail.ts'

export const STREAM_PATH = '/v1/stream'

interface SocketPlace {
  release(): void
}

export interface Admission {
  holder: SocketHolder
  held: SocketPlace
  tail: PartnerTail
  release(): void
}

/** An upgrade request: `admitted` when it may open a socket; `surplus` is the reason for which its socket is opened and closed at once. */
export type AdmittedRequest = IncomingMessage & { admitted?: Admission; surplus?: string }

/**
 * Handles upgrades. For a request that is admitted no HTTP response is written, and `admitted` is set. A request beyond the
 * sockets that its key may have gets `surplus` instead, as long as there is room for such sockets: a browser reads the reason
 * from the close code.
 */
export function openGate(
  services: ApiServices,
  { tails, stopping, surplus }: { tails: Tails; stopping: () => boolean; surplus: SurplusSockets }
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const { log, config, limits } = services
  const gate = new Koa({ proxy: config.trustProxy > 0, maxIpsCount: config.trustProxy })
  gate.on('error', (error: unknown) => log.error({ err: error }, 'after the response'))
  gate.use(respond(services))
  gate.use(secure(config))
  gate.use(async ctx => {
    if (ctx.path !== STREAM_PATH) throw new ApiError('NOT_FOUND', `WebSockets are opened at ${STREAM_PATH}.`)
    if (ctx.method !== 'GET') throw new ApiError('METHOD_NOT_ALLOWED', undefined, { headers: { Allow: 'GET' } })
    if (stopping()) throw new ApiError('UNAVAILABLE', undefined, { headers: { 'Retry-After': '1' } })
    ctx.state.operation = 'openStream'
    const holder = await admit(services, ctx)
    const request = ctx.req as AdmittedRequest
    const most = socketsPerKey[holder.plan]
    const held = await limits.hold(`stream:${holder.keyId}`, most)
    if (!held) {
      const message = `The key has ${most} sockets open already.`
      if (!surplus.take(request.socket)) throw new ApiError('LIMIT_REACHED', message, { extras: { limit: most } })
      ctx.state.refusal = 'LIMIT_REACHED'
      request.surplus = message
    } else
      try {
        request.admitted = { holder, held, ...(await tails.take(holder.partnerId)) }
      } catch (error) {
        held.release()
        throw error
      }
    ctx.respond = false
    ctx.status = 101
  })
  return gate.callback()
}

/** Authenticates an upgrade by its ticket or its key, after the checks of every request in their order. */
async function admit(services: ApiServices, ctx: Context): Promise<SocketHolder & Pick<Caller, 'plan'>> {
  const offered = String(ctx.request.headers['sec-websocket-protocol'] ?? '').split(',')
  const ticket = offered.map(each => each.trim()).find(each => each.startsWith('ticket.'))
  if (ticket === undefined) {
    const caller = await authenticateKey(ctx, services)
    await limitKey(ctx, caller, services)
    const { events, ticks } = channelScopes
    if (!caller.scopes.includes(events) && !caller.scopes.includes(ticks))
      throw new ApiError('INSUFFICIENT_SCOPE', `This needs a key with the scope ${events}, or ${ticks} for ticks.`, {
        extras: { requiredScope: events }
      })
    return caller
  }
  const used = await redeemTicket(services.db, services.pepper, ticket.slice('ticket.'.length))
  if (!used)
    throw new ApiError(
      'UNAUTHENTICATED',
      'The ticket is unknown or expired, was used before, or its trader is disabled.'
    )
  ctx.state.partnerId = used.partnerId
  if (used.revoked) throw new ApiError('KEY_REVOKED')
  ctx.state.keyId = used.keyId
  await checkStanding(used, services)
  await limitKey(ctx, used, services)
  const { traderId, traderExternalId, channels, assets } = used
  return { ...used, ticket: { traderId, traderExternalId, channels, assets } }
}
