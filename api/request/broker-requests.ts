// Asking the workers: a question and its job are stored, the answer is read from its row. The api never
// talks to the broker and never opens a token.
import type { Open } from '../operation.ts'

/**
 * The workers' answer to a question. Throws what they refused it with, or BROKER_UPSTREAM when there is no
 * answer in time.
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
