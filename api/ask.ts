// Asking the workers: a question and its job are stored, the answer is read from its row. The api never
// talks to the broker and never opens a token.
import type { AskRow } from '../db/asks.ts'
import { ApiError } from '../schemas/errors.ts'
import type { Open } from './operations.ts'

// A lost wake-up costs at most this long.
const REREAD_MS = 500

/**
 * The workers' answer to a question. Throws what they refused it with, or BROKER_UPSTREAM when there is no
 * answer in time.
 */
export async function ask<Answer>(
  { gathered, bus }: Open,
  question: { kind: string; key: string; data: object; timeoutMs?: number; signal: AbortSignal; trace?: string }
): Promise<Answer> {
  const timeoutMs = question.timeoutMs ?? 15_000
  const deadline = performance.now() + timeoutMs
  const { id } = await gathered.storeAsk({
    kind: question.kind,
    key: question.key,
    data: question.data,
    origin: bus.origin,
    ...(question.trace ? { trace: question.trace } : {}),
    timeoutMs
  })
  for (;;) {
    // Listen first, read then, so that an answer between the two is not missed.
    const woken = bus.wait('ask', id, Math.min(REREAD_MS, deadline - performance.now()), question.signal)
    const row = await gathered.ask(id)
    if (row?.state === 'answered') return row.answer as Answer
    if (row?.state === 'refused') {
      const { code, message, extras } = row.error as NonNullable<AskRow['error']>
      throw new ApiError(code, message, { extras: extras ?? {} })
    }
    if (!row || performance.now() >= deadline || question.signal.aborted) {
      throw new ApiError('BROKER_UPSTREAM', 'There was no answer from the broker in time; try again.')
    }
    await woken
  }
}
