// Writes the outcomes of attempts, of all endpoints of a worker together, and notes what else the statement shows of an endpoint.
import { WORK } from '../../db/platform/bus.ts'
import { lacksPartition, makeDays } from '../../db/postgres/day-partitions.ts'
import { disableEndpoint } from '../../db/webhooks/leases.ts'
import { type Outcomes, writeOutcomes } from '../../db/webhooks/outcomes.ts'
import { sleep } from '../platform/clock.ts'
import type { WorkerServices } from '../services.ts'
import type { Changes } from './changes.ts'
import type { Endpoint } from './endpoint.ts'
import { openLoading } from './loading.ts'
import type { Sender } from './sender.ts'

const WRITE_RETRY_MS = 500

export interface OutcomeWriting {
  /** Writes what there is to write, in groups, one after the other: what ends while one is written is in the next. */
  write(): Promise<void>
  /** Writes positions, too, where nothing but the position has changed. */
  writeEven(): Promise<void>
  /** Rows were added to an endpoint from outside. */
  reload(endpoint: Endpoint, version: number): void
}

type Taken = { endpoint: Endpoint; progress: Outcomes['progress'][number]; changes: Changes }

export function openWriting(services: WorkerServices, sender: Sender): OutcomeWriting {
  const { db, bus, log, clock, worker } = services
  let writing: Promise<void> | undefined
  let even = false
  const loading = openLoading(services, () => {
    throw new Error('Only rows are read here.')
  })

  function write(): Promise<void> {
    writing ??= writeAll().finally(() => {
      writing = undefined
    })
    return writing
  }

  async function writeEven(): Promise<void> {
    await writing
    even = true
    await write()
  }

  async function writeAll(): Promise<void> {
    for (;;) {
      // Outcomes of this moment go together.
      await new Promise<void>(resolve => setImmediate(resolve))
      const taken = sender.endpoints.flatMap(endpoint => {
        const changed = endpoint.takeChanges(clock.now(), even)
        return changed ? [{ endpoint, ...changed }] : []
      })
      even = false
      if (taken.length === 0) return
      try {
        await writeThese(taken)
        for (const { endpoint, changes } of taken) sender.written(endpoint, changes)
      } catch (error) {
        for (const { endpoint, changes } of taken) endpoint.putBack(changes)
        log.warn({ err: error }, 'outcomes of webhooks could not be written, trying again')
        await sleep(clock, WRITE_RETRY_MS)
      }
    }
  }

  async function writeThese(taken: Taken[]): Promise<void> {
    const outcomes: Outcomes = {
      progress: taken.map(({ progress }) => progress),
      pending: taken.flatMap(({ changes }) => changes.pending),
      done: taken.flatMap(({ endpoint, changes }) =>
        changes.done.map(position => ({ endpointId: endpoint.id, position }))
      ),
      attempts: taken.flatMap(({ changes }) => changes.attempts)
    }
    let held: Map<string, number>
    try {
      held = new Map((await writeOutcomes(db, worker, outcomes)).map(({ id, version }) => [id, version]))
    } catch (error) {
      const code = String((error as { code?: unknown }).code ?? '')
      if (lacksPartition(error)) {
        // Housekeeping may not have run for days.
        await makeDays(db, 'webhook_attempts')
        held = new Map((await writeOutcomes(db, worker, outcomes)).map(({ id, version }) => [id, version]))
      } else if (!/^2[23]/.test(code)) throw error
      else if (taken.length > 1) {
        // One of them cannot be written: not at the cost of the others.
        for (const one of taken) await writeThese([one])
        return
      } else {
        const { endpoint } = taken[0] as Taken
        log.error({ err: error, webhook: endpoint.id }, 'outcomes of a webhook cannot be written')
        sender.drop(endpoint)
        return
      }
    }
    for (const { endpoint } of taken) {
      const version = held.get(endpoint.id)
      if (version === undefined) sender.drop(endpoint)
      else if (endpoint.disable) await disable(endpoint)
      else if (version !== endpoint.version) reload(endpoint, version)
    }
  }

  async function disable(endpoint: Endpoint): Promise<void> {
    const { id, lease, disable: reason } = endpoint
    if (!reason) return
    sender.drop(endpoint)
    if (await disableEndpoint(db, { worker, id, lease, reason })) {
      log.info({ webhook: id, reason }, 'disabled a webhook')
      bus.publish(WORK, 'events', 'new')
    }
  }

  function reload(endpoint: Endpoint, version: number): void {
    endpoint.version = version
    endpoint.replaying = true
    loading
      .pending(endpoint)
      .catch((error: unknown) => {
        endpoint.version = -1
        log.warn({ err: error, webhook: endpoint.id }, 'what waits at a webhook could not be read')
      })
      .finally(() => sender.wake(endpoint))
  }

  return { write, writeEven, reload }
}
