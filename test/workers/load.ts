// Uneven load: a few partners, each with its own application, the first with half of the orders; in each some accounts
// with most of them.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { type Random, seeded } from '../money-storm/random.ts'
import type { TestPartner, TestTrader } from '../support/harness.ts'

export interface Owned {
  partner: TestPartner
  trader: TestTrader
}

/** An order, from the client's side. */
export interface Sent {
  clientOrderId: string
  accountId: string
  /** performance.now() */
  at: number
  /** Until it was placed; null where it was not. */
  ms: number | null
  /** The last response. */
  said: string
}

export interface WorkersLoad {
  sent: Sent[]
  /** Orders a second from now on. */
  rate: number
  /** Sends no more; resolves when each has its end. */
  stop(): Promise<void>
}

const PATIENCE_MS = 60_000

/** Places an order, and sends it again under the same clientOrderId while it is neither placed nor failed. */
export async function place({ partner, trader }: Owned, ticks = false): Promise<Sent> {
  const clientOrderId = randomUUID()
  const at = performance.now()
  const body = {
    traderExternalId: trader.traderExternalId,
    clientOrderId,
    asset: 'R_100',
    contractType: 'CALL',
    stake: 1,
    ...(ticks ? { duration: 5, durationUnit: 't' } : { duration: 2, durationUnit: 'm' })
  }
  for (;;) {
    const { status, body: answer } = await partner.call(placeBinaryOrder, { body })
    const said = status === 200 ? answer.status : `${status} ${answer.error}${answer.status ? ` ${answer.status}` : ''}`
    const placed = answer.status === 'OPEN' || answer.status === 'CLOSED'
    const over = placed || answer.status === 'FAILED' || (status !== 200 && answer.status !== 'PENDING')
    if (over || performance.now() - at > PATIENCE_MS)
      return { clientOrderId, accountId: trader.accountId, at, ms: placed ? performance.now() - at : null, said }
  }
}

/** Sends orders until it is stopped. */
export function startLoad(accounts: Owned[], { rate, seed }: { rate: number; seed: number }): WorkersLoad {
  const random = seeded(seed)
  const choose = chooser(accounts, random)
  const living = new Set<Promise<unknown>>()
  let stopped = false
  const load: WorkersLoad = {
    sent: [],
    rate,
    async stop() {
      stopped = true
      await sending
      await Promise.all(living)
    }
  }
  const sending = (async () => {
    let dueAt = performance.now()
    while (!stopped) {
      dueAt = Math.max(dueAt + 1000 / load.rate, performance.now() - 1000)
      const early = dueAt - performance.now()
      if (early > 1) await sleep(early)
      // A fifth lasts some ticks, the others minutes.
      const life: Promise<void> = place(choose(), random.below(5) === 0)
        .then(sent => void load.sent.push(sent))
        .finally(() => living.delete(life))
      living.add(life)
    }
  })()
  return load
}

/** Each partner has half as many orders as the one before it; in each, one in ten accounts has half of them. */
function chooser(accounts: Owned[], random: Random): () => Owned {
  const byPartner = [...Map.groupBy(accounts, ({ partner }) => partner.partnerId).values()]
  return () => {
    let index = 0
    while (index < byPartner.length - 1 && random.below(2) === 0) index += 1
    const own = byPartner[index] as Owned[]
    const few = own.slice(0, Math.ceil(own.length / 10))
    return random.pick(random.below(2) === 0 ? few : own)
  }
}
