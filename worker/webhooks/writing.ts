// Writes the outcomes of attempts, of all endpoints of a worker together, and notes what else the statement shows of an endpoint.
import { WORK } from '../../db/platform/bus.ts'
import { isDataError } from '../../db/postgres/batch.ts'
import { lacksPartition, makeDays } from '../../db/postgres/day-partitions.ts'
import { disableEndpoint } from '../../db/webhooks/leases.ts'
import { type Outcomes, writeOutcomes } from '../../db/webhooks/outcomes.ts'
import { sleep } from '../platform/clock.ts'
import type { WorkerServices } from '../services.ts'
import type { Changes } from './changes.ts'
import type { Endpoint } from './endpoint.ts'
import { loadPending } from './loading.ts'
import type { Sender } from './sender.ts'

const WRITE_RETRY_MS = 500

type Taken = { endpoint: Endpoint; progress: Outcomes['progress'][number]; changes: Changes }

export class OutcomeWriting {
  readonly #services: WorkerServices
  readonly #sender: Sender
  #writing: Promise<void> | undefined
  #even = false
  /** Whether some of the outcomes that are put back may have been written. */
  #again = false

  constructor(services: WorkerServices, sender: Sender) {
    this.#services = services
    this.#sender = sender
  }

  /** Writes what there is to write, in groups, one after the other: what ends while one is written is in the next. */
  write(): Promise<void> {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined
    })
    return this.#writing
  }

  /** Writes positions, too, where nothing but the position has changed. */
  async writeEven(): Promise<void> {
    await this.#writing
    this.#even = true
    await this.write()
  }

  /** Rows were added to an endpoint from outside. */
  reload(endpoint: Endpoint, version: number): void {
    endpoint.version = version
    endpoint.replaying = true
    loadPending(this.#services, endpoint)
      .catch((error: unknown) => {
        endpoint.version = -1
        this.#services.log.warn({ err: error, webhook: endpoint.id }, 'what waits at a webhook could not be read')
      })
      .finally(() => this.#sender.wake(endpoint))
  }

  async #writeAll(): Promise<void> {
    const { clock, log } = this.#services
    for (;;) {
      // Outcomes of this moment go together.
      await new Promise<void>(resolve => setImmediate(resolve))
      const taken = this.#sender.endpoints.flatMap(endpoint => {
        const changed = endpoint.takeChanges(clock.now(), this.#even)
        return changed ? [{ endpoint, ...changed }] : []
      })
      this.#even = false
      if (taken.length === 0) return
      try {
        await this.#writeThese(taken)
        this.#again = false
        for (const { endpoint, changes } of taken) this.#sender.written(endpoint, changes)
      } catch (error) {
        this.#again = true
        for (const { endpoint, changes } of taken) endpoint.putBack(changes)
        log.warn({ err: error }, 'outcomes of webhooks could not be written, trying again')
        await sleep(clock, WRITE_RETRY_MS)
      }
    }
  }

  async #writeThese(taken: Taken[]): Promise<void> {
    let held: Map<string, number>
    try {
      held = await this.#store(taken)
    } catch (error) {
      if (lacksPartition(error) || !isDataError(error)) throw error
      if (taken.length > 1) {
        // One of the outcomes cannot be written: write them one by one.
        for (const one of taken) await this.#writeThese([one])
        return
      }
      const { endpoint } = taken[0] as Taken
      this.#services.log.error({ err: error, webhook: endpoint.id }, 'outcomes of a webhook cannot be written')
      this.#sender.drop(endpoint)
      return
    }
    for (const { endpoint } of taken) {
      const version = held.get(endpoint.id)
      if (version === undefined) this.#sender.drop(endpoint)
      else if (endpoint.disable) await this.#disable(endpoint, endpoint.disable)
      else if (version !== endpoint.version) this.reload(endpoint, version)
    }
  }

  /** Returns the versions of the endpoints that this worker still holds, by their ids. */
  async #store(taken: Taken[]): Promise<Map<string, number>> {
    const { db, worker } = this.#services
    const outcomes: Outcomes = {
      progress: taken.map(({ progress }) => progress),
      pending: taken.flatMap(({ changes }) => changes.pending),
      done: taken.flatMap(({ endpoint, changes }) => changes.done.map(done => ({ endpointId: endpoint.id, ...done }))),
      attempts: taken.flatMap(({ changes }) => changes.attempts)
    }
    const again = this.#again
    const held = await writeOutcomes(db, worker, outcomes, { again }).catch(async (error: unknown) => {
      if (!lacksPartition(error)) throw error
      // Housekeeping may not have run for days.
      await makeDays(db, 'webhook_attempts')
      return writeOutcomes(db, worker, outcomes, { again })
    })
    return new Map(held.map(({ id, version }) => [id, version]))
  }

  async #disable(endpoint: Endpoint, reason: NonNullable<Endpoint['disable']>): Promise<void> {
    const { db, bus, log, worker } = this.#services
    const { id, lease } = endpoint
    this.#sender.drop(endpoint)
    if (await disableEndpoint(db, { worker, id, lease, reason })) {
      log.info({ webhook: id, reason }, 'disabled a webhook')
      bus.publish(WORK, 'events', 'new')
    }
  }
}
