// Equal broker requests of one process share one row and one wait for it. A partner whose broker is slow sends the same
// requests again and again; without this each of them wrote a row and read it until its time was over. When the broker responds at
// last, hundreds of a partner's requests end within a moment: they leave no faster than its pace, so that others' pass between them.
import { setTimeout as sleep } from 'node:timers/promises'
import { awaitEnd, type BrokerRequest, type BrokerRequestRow, responseOf } from '../../db/platform/broker-requests.ts'
import type { Bus } from '../../db/platform/bus.ts'
import { openPace } from './pace.ts'

// Of one partner in one process: as many a second as the largest plan has calls, and more at once than one page of an application
// sends.
const ENDS = { perMs: 0.2, burst: 50 }

interface Shared {
  /** When the time of its row is over, by the process's monotonic clock in milliseconds. */
  endsAt: number
  /** The finished row; undefined when its time is over. */
  ended: Promise<BrokerRequestRow | undefined>
  /** Requests that wait for it; without any, the row is not read. */
  waiting: number
  abandon: AbortController
}

/** Sends a broker request and waits for its end; throws as `responseOf`, also when the signal aborts. */
export type SendShared = (request: Omit<BrokerRequest, 'replyChannel'>, signal: AbortSignal) => Promise<unknown>

/** Shares what `store` stores and `read` reads. */
export function shareRequests({
  bus,
  store,
  read
}: {
  bus: Bus
  store(request: BrokerRequest): Promise<{ id: string }>
  read(id: string): Promise<BrokerRequestRow | undefined>
}): SendShared {
  const underWay = new Map<string, Shared>()
  const pace = openPace({ usual: ENDS })

  /** Waits until the pace of the partner lets one more of its requests end, at most some two seconds. */
  async function takeTurn(partnerId: string, signal: AbortSignal): Promise<void> {
    const waitMs = pace.waitMs(partnerId)
    pace.spend(partnerId, 1)
    if (waitMs > 0) await sleep(waitMs, undefined, { signal }).catch(() => {})
  }

  function begin(name: string, request: Omit<BrokerRequest, 'replyChannel'>): Shared {
    const { timeoutMs } = request
    const abandon = new AbortController()
    const ended = store({ ...request, replyChannel: bus.replyChannel }).then(({ id }) =>
      awaitEnd(bus, read, id, { timeoutMs, signal: abandon.signal })
    )
    const shared = { endsAt: performance.now() + timeoutMs, ended, waiting: 0, abandon }
    underWay.set(name, shared)
    const over = () => forget(name, shared)
    ended.then(over, over)
    return shared
  }

  function forget(name: string, shared: Shared): void {
    if (underWay.get(name) === shared) underWay.delete(name)
  }

  return async (request, signal) => {
    const name = `${request.kind} ${request.key}`
    const deadline = performance.now() + request.timeoutMs
    for (;;) {
      const leftMs = deadline - performance.now()
      const known = underWay.get(name)
      // A request whose time is nearly over is stored again instead, which gives its row more time.
      const shared =
        known && enough(known, deadline) ? known : begin(name, { ...request, timeoutMs: Math.ceil(leftMs) })
      const row = await waitFor(name, shared, leftMs, signal)
      if (row && request.partnerId !== undefined) await takeTurn(request.partnerId, signal)
      if (row || signal.aborted || performance.now() >= deadline) return responseOf(row)
    }
  }

  /** Whether a request may wait for it: its time is not over before the request's, or not for long. */
  function enough({ endsAt }: Shared, deadline: number): boolean {
    const now = performance.now()
    return endsAt >= deadline || endsAt - now >= (deadline - now) / 2
  }

  /** The finished row; undefined after `leftMs`, on abort, or when the row's own time is over. */
  async function waitFor(
    name: string,
    shared: Shared,
    leftMs: number,
    signal: AbortSignal
  ): Promise<BrokerRequestRow | undefined> {
    let leave = () => {}
    const left = new Promise<undefined>(resolve => {
      leave = () => resolve(undefined)
    })
    const timer = setTimeout(leave, Math.max(0, leftMs))
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    shared.waiting += 1
    try {
      return await Promise.race([shared.ended, left])
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
      shared.waiting -= 1
      if (shared.waiting === 0) {
        shared.abandon.abort()
        forget(name, shared)
      }
    }
  }
}
