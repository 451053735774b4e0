// One process of the money storm: draws operations and runs several at a time until its share is done. Prints
// on stdout what it knows, a line an operation, so that whoever kills it knows which responses it had.
//   m <reference> ...  moved it     r <reference> ...  found it there     n  refused, or nothing to do
//   c  the connection was cut       e <error>  something that must never happen
import { openDatabase } from '../../db/postgres/connection.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { draw } from './operations.ts'
import { type Random, seeded } from './random.ts'
import type { MoneyScene } from './scene.ts'

export interface ActorShare {
  url: string
  seed: number
  operations: number
  concurrency: number
  /** Its instant as text. */
  scene: Omit<MoneyScene, 'now'> & { now: string }
}

export const STORM_NAME = 'money-storm'

const expected: ErrorCode[] = ['WALLET_INSUFFICIENT', 'CONFLICT', 'NOT_FOUND']

if (import.meta.main) await act(JSON.parse(process.argv[2] as string) as ActorShare)

async function act({ url, seed, operations, concurrency, scene }: ActorShare): Promise<void> {
  const db = openDatabase({ url, pool: concurrency, name: STORM_NAME })
  const known: MoneyScene = { ...scene, now: new Date(scene.now) }
  let left = operations
  const lane = async (number: number) => {
    const random = seeded(seed * 1000 + number)
    while (left-- > 0) process.stdout.write(`${await once(random, known)}\n`)
  }
  async function once(random: Random, scene: MoneyScene): Promise<string> {
    const operation = draw(random)
    try {
      const { made, repeated = [] } = await operation.run(db, random, scene)
      if (made.length > 0) return `m ${made.join(' ')}`
      return repeated.length > 0 ? `r ${repeated.join(' ')}` : 'n'
    } catch (error) {
      if (error instanceof ApiError && expected.includes(error.code)) return 'n'
      if (isCut(error)) return 'c'
      return `e ${operation.name}: ${JSON.stringify(error instanceof Error ? (error.stack ?? error.message) : error)}`
    }
  }
  await Promise.all(Array.from({ length: concurrency }, (_, i) => lane(i)))
  await db.destroy()
}

// Whether the storm itself ended the connection (57P01), or the client noticed it gone.
function isCut(error: unknown): boolean {
  const { code, message, cause } = error as { code?: string; message?: string; cause?: unknown }
  if (code === '57P01' || code === 'ECONNRESET' || code === 'EPIPE') return true
  if (message !== undefined && /Connection (terminated|ended)|not queryable/.test(message)) return true
  return cause !== undefined && isCut(cause)
}
