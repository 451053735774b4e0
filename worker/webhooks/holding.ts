// Which endpoints a worker holds: renewed with its lease, given back where they are idle, blocked, left or not known here.
import { listHeld, releaseEndpoints, renewSender } from '../../db/webhooks/leases.ts'
import type { WorkerServices } from '../services.ts'
import type { Sender } from './sender.ts'
import type { OutcomeWriting } from './writing.ts'

// An endpoint with nothing to do is given back after so long.
const IDLE_MS = 30_000

/**
 * Renews the lease, and compares what the database has this worker hold with what it knows. `take` has endpoints taken that may be
 * without a holder.
 */
export async function renewHeld(
  { db, config, clock, worker }: WorkerServices,
  { sender, writing, take }: { sender: Sender; writing: OutcomeWriting; take: () => void }
): Promise<void> {
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
        take()
      } else if (row.version !== endpoint.version) writing.reload(endpoint, row.version)
    }
    // Endpoints held without knowing it: the response of the statement that took them was lost.
    const unknown = rows.filter(({ id, lease }) => sender.find(id)?.lease !== lease)
    const left = rows.filter(({ standing }) => !standing)
    await writing.writeEven()
    const since = clock.now() - IDLE_MS
    const idle = sender.endpoints.filter(
      endpoint => endpoint.blocked || (endpoint.idle && endpoint.waiting === 0 && endpoint.activeAt < since)
    )
    const given = [...unknown, ...left, ...idle]
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
