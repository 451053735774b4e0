// Requests to the workers: a broker request is stored with its job, and its response is read from its row. The api has no
// connection to the broker and never decrypts a token.
import { queueOf } from '../../db/platform/broker-requests.ts'
import type { ApiServices } from '../operation.ts'
import { LONG_MS } from './backlog.ts'

/**
 * The workers' response to a broker request. Throws their refusal, or BROKER_UPSTREAM when no response comes in time, or RATE_LIMITED when
 * many of the partner's have waited for long.
 */
export async function requestFromBroker<Response>(
  { batched, backlog }: Pick<ApiServices, 'batched' | 'backlog'>,
  request: {
    partnerId: string
    kind: string
    key: string
    data: object
    timeoutMs?: number
    signal: AbortSignal
    trace?: string
  }
): Promise<Response> {
  const { signal, ...given } = request
  const { partnerId, kind } = request
  const lane = queueOf(kind)
  backlog.requireRoom(partnerId, lane)
  let leave = () => {}
  const timer = setTimeout(() => {
    leave = backlog.add(partnerId, lane)
  }, LONG_MS)
  try {
    return (await batched.sendBrokerRequest({ timeoutMs: 15_000, ...given }, signal)) as Response
  } finally {
    clearTimeout(timer)
    leave()
  }
}
