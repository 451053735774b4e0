// The header Idempotency-Key (IETF draft): a repeat of a POST, PATCH or DELETE under the same key gets the first
// response. Operations that are `atomic` run in one transaction with the storing of their response, so that a crash
// leaves both or neither; the others store it after they have run.
import { randomUUID } from 'node:crypto'
import type { Context } from 'koa'
import { countBytes, requireRoom } from '../../db/platform/bounds.ts'
import type { Bus } from '../../db/platform/bus.ts'
import { hashSecret } from '../../db/platform/crypto.ts'
import { freeKey, type HeldKey, keepResponse, takeKey } from '../../db/platform/idempotency.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import type { ApiServices, Caller, Operation } from '../operation.ts'
import { Reply } from './respond.ts'

const KEY = /^[\x21\x23-\x5b\x5d-\x7e]{8,64}$/

/** Whether the operation accepts the header: all that change something do, except placing orders, which has its clientOrderId. */
export function takesKey(row: Operation): boolean {
  return row.method !== 'GET' && !row.headers?.includes('Idempotent-Replayed')
}

/** The key of a request, with or without the quotes of a structured field. Throws VALIDATION_FAILED. */
function keyOf(ctx: Context): string | undefined {
  const header = ctx.request.headers['idempotency-key']
  if (header === undefined) return undefined
  const key = String(header).replace(/^"(.*)"$/, '$1')
  if (!KEY.test(key))
    throw invalid([{ path: '/header/Idempotency-Key', message: 'must be 8 to 64 visible ASCII characters' }])
  return key
}

interface OnceRun {
  row: Operation
  partner: Caller
  /** What makes two requests the same, beside the operation. */
  requested: { party: string; params: unknown; query: unknown; body: unknown }
  /** Runs the operation with what is open, on a transaction where it is atomic. */
  handle(services: ApiServices): Promise<unknown>
}

/** Runs the operation once for the request's Idempotency-Key, or returns the response kept under it. */
export async function once(
  ctx: Context,
  services: ApiServices,
  { row, partner, requested: request, handle }: OnceRun
): Promise<unknown> {
  const key = takesKey(row) ? keyOf(ctx) : undefined
  if (key === undefined) return handle(services)
  const { db, vault } = services
  const { partnerId } = partner
  const held: HeldKey = { partnerId, key, holder: randomUUID() }
  const canonical = JSON.stringify([row.name, sorted(request)])
  const fingerprint = hashSecret(services.pepper, `idempotency:${canonical}`)
  const kept = await takeKey(db, vault, held, { fingerprint })
  if (kept) return new Reply(kept.body, { ...kept.headers, 'Idempotent-Replayed': 'true' })
  const letGo = services.heldKeys.hold(held)
  try {
    await requireRoom(db, 'idempotencyKeys', partnerId)
    if (!row.atomic) return await keeping(handle(services), db)
    const { bus, send } = withheld(services.bus)
    const result = await db.transaction(trx => keeping(handle({ ...services, bus, db: trx }), trx))
    send()
    return result
  } catch (error) {
    // A refusal changed nothing, so the key is free for a repeat. If this fails, the lease expires.
    await freeKey(db, held).catch(() => {})
    throw error
  } finally {
    letGo()
  }

  async function keeping(running: Promise<unknown>, trx: ApiServices['db']): Promise<unknown> {
    const result = await running
    const { body, headers } = result instanceof Reply ? result : { body: result, headers: {} }
    countBytes('idempotencyKeys', partnerId, await keepResponse(trx, vault, held, { body, headers }))
    return result
  }
}

/** A bus whose hints wait for `send`: one that arrives before the commit finds nothing, and is lost. */
function withheld(real: Bus): { bus: Bus; send(): void } {
  const hints: Parameters<Bus['publish']>[] = []
  return {
    bus: { ...real, publish: (...hint) => void hints.push(hint) },
    send() {
      for (const hint of hints) real.publish(...hint)
    }
  }
}

/** The value with the fields of its objects sorted, so that their order makes no difference. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (value === null || typeof value !== 'object') return value
  return Object.entries(value)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, inner]) => [name, sorted(inner)])
}
