// What endpoints read from the database besides the newest events: older events, waiting rows, replays.
import { type EventPlace, type EventRow, findEventsAt, findEventsUpTo } from '../../db/events/read.ts'
import { stepReplay } from '../../db/webhooks/deliveries.ts'
import { listPending } from '../../db/webhooks/outcomes.ts'
import type { WorkerServices } from '../services.ts'
import type { Endpoint } from './endpoint.ts'
import type { DeliverableEvent } from './tail.ts'

const AT_ONCE = 200

interface Wanted {
  place: EventPlace
  resolve(entry: DeliverableEvent | undefined): void
  reject(error: unknown): void
}

export function openLoading(
  { db, clock }: Pick<WorkerServices, 'db' | 'clock'>,
  entry: (row: EventRow) => DeliverableEvent
) {
  let wanted: Wanted[] = []
  let reading = false
  const nameOf = ({ partnerId, position }: { partnerId: string; position: number }) => `${partnerId} ${position}`

  async function readAll(): Promise<void> {
    reading = true
    while (wanted.length > 0) {
      const now = wanted.slice(0, AT_ONCE)
      wanted = wanted.slice(AT_ONCE)
      try {
        const found = new Map(
          (
            await findEventsAt(
              db,
              now.map(({ place }) => place)
            )
          ).map(row => [nameOf(row), entry(row)])
        )
        for (const { place, resolve } of now) resolve(found.get(nameOf(place)))
      } catch (error) {
        for (const { reject } of now) reject(error)
      }
    }
    reading = false
  }

  return {
    /** What the last holder of an endpoint had open; what is not kept is left out. Days may lie between the first and the last. */
    async open(of: Parameters<typeof findEventsUpTo>[1]): Promise<DeliverableEvent[]> {
      return (await findEventsUpTo(db, of)).map(entry)
    },
    /** One event, read together with others of this moment; undefined when it is not kept. */
    later(place: EventPlace): Promise<DeliverableEvent | undefined> {
      return new Promise((resolve, reject) => {
        wanted.push({ place, resolve, reject })
        if (!reading) {
          reading = true
          setImmediate(() => void readAll())
        }
      })
    },
    /** Adds events of the endpoint's replays to those that wait. Returns whether a replay is left. */
    async replay(endpoint: Endpoint, limit: number): Promise<boolean> {
      const left = await stepReplay(db, { endpointId: endpoint.id, lease: endpoint.lease, limit })
      await loadPending({ db, clock }, endpoint)
      return left
    }
  }
}

/** Reads the rows that wait at an endpoint. */
export async function loadPending(
  { db, clock }: Pick<WorkerServices, 'db' | 'clock'>,
  endpoint: Endpoint
): Promise<void> {
  endpoint.beginLoading(clock.now())
  endpoint.load(await listPending(db, endpoint.id), clock.now())
}
