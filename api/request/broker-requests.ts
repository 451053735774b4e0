// Requests to the workers: a broker request is stored with its job, and its response is read from its row. The api has no
// connection to the broker and never decrypts a token.
import type { ApiServices } from '../operation.ts'

/**
 * The workers' response to a broker request. Throws their refusal, or BROKER_UPSTREAM when no response comes in time.
 */
export async function requestFromBroker<Response>(
  { batched }: Pick<ApiServices, 'batched'>,
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
  return (await batched.sendBrokerRequest({ timeoutMs: 15_000, ...given }, signal)) as Response
}
