// Asking the workers: a question and its job are stored, the answer is read from its row. The api never
// talks to the broker and never opens a token.
import { awaitAnswer } from '../../db/platform/broker-requests.ts'
import type { Open } from '../operations.ts'

/**
 * The workers' answer to a question. Throws what they refused it with, or BROKER_UPSTREAM when there is no
 * answer in time.
 */
export async function ask<Answer>(
  { gathered, bus }: Open,
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
  const { partnerId, kind, key, data, timeoutMs = 15_000, signal, trace } = question
  const { id } = await gathered.storeAsk({
    partnerId,
    kind,
    key,
    data,
    timeoutMs,
    origin: bus.origin,
    ...(trace ? { trace } : {})
  })
  return awaitAnswer(bus, gathered.ask, id, { timeoutMs, signal })
}
