// Requests to the workers: a broker request and its job are stored, the response is read from its row. The api has no
// connection to the broker and never opens a token.
import type { Open } from '../operation.ts'

/**
 * The workers' response to a broker request. Throws their refusal, or BROKER_UPSTREAM when no response comes in time.
 */
export async function ask<Answer>(
  { gathered }: Pick<Open, 'gathered'>,
  question: {
    partnerId: string
    kind: string
    key: string
    data: object
    timeoutMs?: number
    signal: AbortSignal
    trace?: string
  }
): Promise<Answer> {
  const { signal, ...given } = question
  return (await gathered.ask({ timeoutMs: 15_000, ...given }, signal)) as Answer
}
