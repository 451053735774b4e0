// Webhooks in a worker: what starts and ends delivery, the lease, and the writing of outcomes.
import { EVENTS, WORK } from '../../db/platform/bus.ts'
import { dropDays, lacksPartition, makeDays } from '../../db/postgres/day-partitions.ts'
import { disableEndpoint, listHeld, releaseEndpoints, releaseSender, renewSender } from '../../db/webhooks/leases.ts'
import { ATTEMPT_DAYS, type Outcomes, writeOutcomes } from '../../db/webhooks/outcomes.ts'
import { WEBHOOK_TESTS, WEBHOOKS } from '../../db/webhooks/topics.ts'
import { sleep } from '../platform/clock.ts'
import { startLoop } from '../platform/loop.ts'
import type { WorkerServices } from '../services.ts'
import type { Changes } from './changes.ts'
import type { Endpoint } from './endpoint.ts'
import { openLoading } from './loading.ts'
import { openRequests } from './request.ts'
import { Sender } from './sender.ts'
import { openTesting } from './testing.ts'

// An endpoint with nothing to do is given back after so long.
const IDLE_MS = 30_000
// What is under way when the worker ends is waited for so long.
const DRAIN_MS = 10_000
const WRITE_RETRY_MS = 500

export interface Webhooks {
  /** The log of a partner has grown. */
  grown(partnerId: string): void
  stop(): Promise<void>
}

/** Starts delivering. */
export async function startWebhooks(services: WorkerServices): Promise<Webhooks> {
  const { db, bus, config, log, clock, worker } = services
  const requests = openRequests({ allowPrivate: config.webhookAllowPrivate })
  let writing: Promise<void> | undefined
  let even = false
  const sender = new Sender(services, requests, () => void write())
  const loading = openLoading(services, () => {
    throw new Error('Only rows are read here.')
  })
  const testing = openTesting(services, requests)

  /** Writes what there is to write, in groups, one after the other: what ends while one is written is in the next. */
  function write(): Promise<void> {
    writing ??= writeAll().finally(() => {
      writing = undefined
    })
    return writing
  }

  /** Writes positions, too, where nothing but the position has changed. */
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

  type Taken = { endpoint: Endpoint; progress: Outcomes['progress'][number]; changes: Changes }

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

  /** Rows were added from outside. */
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

  /** Renews the lease, and compares what the database has this worker hold with what it knows. */
  async function renew(): Promise<void> {
    const from = clock.now()
    await renewSender(db, worker, config.leaseMs)
    sender.goodUntil = from + config.leaseMs
    sender.pump()
    await sender.inTurn(async () => {
      const rows = await listHeld(db, worker)
      const byId = new Map(rows.map(row => [row.id, row]))
      for (const endpoint of sender.endpoints) {
        const row = byId.get(endpoint.id)
        if (row?.lease !== endpoint.lease) {
          sender.drop(endpoint)
          taking.wake()
        } else if (row.version !== endpoint.version) reload(endpoint, row.version)
      }
      // Held without knowing: the response of a taking was lost.
      const strange = rows.filter(({ id, lease }) => sender.find(id)?.lease !== lease)
      const left = rows.filter(({ standing }) => !standing)
      await writeEven()
      const since = clock.now() - IDLE_MS
      const idle = sender.endpoints.filter(
        endpoint => endpoint.idle && endpoint.waiting === 0 && endpoint.activeAt < since
      )
      const given = [...strange, ...left, ...idle]
      for (const { id } of given) {
        const known = sender.find(id)
        if (known) sender.drop(known)
      }
      await releaseEndpoints(
        db,
        worker,
        given.map(({ id, lease }) => ({ id, lease }))
      )
    })
  }

  await makeDays(db, 'webhook_attempts')
  await renewSender(db, worker, config.leaseMs)
  sender.goodUntil = clock.now() + config.leaseMs
  const lease = startLoop({
    name: 'webhook lease',
    everyMs: config.leaseMs / 3,
    log,
    clock,
    async round() {
      await renew()
      // Growth whose hint was lost.
      for (const partnerId of new Set(sender.endpoints.map(endpoint => endpoint.partnerId))) sender.grown(partnerId)
      return false
    }
  })
  const taking = startLoop({
    name: 'webhooks',
    everyMs: config.sweepMs,
    log,
    clock,
    async round() {
      await sender.take(null)
      return false
    }
  })
  const tests = startLoop({
    name: 'webhook tests',
    everyMs: config.sweepMs,
    log,
    clock,
    round: () => testing.round()
  })
  const deaf = [
    await bus.listen(EVENTS, ({ id }) => sender.grown(id)),
    await bus.listen(WORK, ({ topic, id }) => {
      if (topic === WEBHOOK_TESTS) tests.wake()
      if (topic !== WEBHOOKS) return
      const known = sender.find(id)
      // Its settings may have changed, or rows were added for it.
      if (known) lease.wake()
      else void sender.take(id).catch((error: unknown) => log.warn({ err: error }, 'a webhook could not be taken'))
    })
  ]

  return {
    grown: partnerId => sender.grown(partnerId),
    async stop() {
      for (const close of deaf) close()
      sender.stop()
      await Promise.all([lease.stop(), taking.stop(), tests.stop()])
      const until = clock.now() + DRAIN_MS
      while ((sender.sending > 0 || testing.busy()) && clock.now() < until) await sleep(clock, 20)
      await writeEven()
      await releaseSender(db, worker).catch((error: unknown) =>
        log.warn({ err: error }, 'webhooks could not be released')
      )
      requests.close()
    }
  }
}

/** Makes the partitions of the coming days and drops those that are not kept any more. */
export async function keepWebhookDays({ db, log }: Pick<WorkerServices, 'db' | 'log'>): Promise<void> {
  await makeDays(db, 'webhook_attempts')
  const dropped = await dropDays(db, 'webhook_attempts', { keepDays: ATTEMPT_DAYS })
  if (dropped > 0) log.info({ days: dropped }, 'dropped attempts of webhooks that are not kept any more')
}
