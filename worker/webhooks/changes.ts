// What has changed of an endpoint and its events since it was written last, until it is written.
import { newDeliveryId } from '../../db/webhooks/deliveries.ts'
import type { AttemptRow, WaitingRow } from '../../db/webhooks/outcomes.ts'
import type { Item } from './items.ts'
import type { DeliveryResponse } from './request.ts'

/** What has changed since it was written last. */
export interface Changes {
  pending: WaitingRow[]
  /** Rows that are over, by position and the ids that they have had. */
  done: { position: number; rows: string[] }[]
  attempts: AttemptRow[]
  /** One for each request that ended. */
  ended: EndedRequest[]
}

interface EndedRequest {
  /** ms, monotonic. */
  begunAt: number
  /** The window was used up when it was sent. */
  full: boolean
  delivered: boolean
  /** The endpoint was quick when it was sent. */
  quick: boolean
}

interface EndpointKey {
  id: string
  partnerId: string
}

/** An attempt that ended, and what follows. */
interface MadeAttempt {
  deliveryId: string
  attempt: number
  status: AttemptRow['status']
  response: DeliveryResponse
  nextMs: number | null
}

const noChanges = (): Changes => ({ pending: [], done: [], attempts: [], ended: [] })

export class UnwrittenChanges {
  readonly #owner: EndpointKey
  #changes = noChanges()

  constructor(owner: EndpointKey) {
    this.#owner = owner
  }

  /** What is to be written; it is empty from then on. */
  take(): Changes {
    const changes = this.#changes
    this.#changes = noChanges()
    return changes
  }

  /** Takes back what could not be written, to be written with the next group. Of each row only its latest state counts. */
  putBack({ pending, done, attempts, ended: requests }: Changes): void {
    const newer = this.#changes
    const changed = new Set([...newer.done, ...newer.pending].map(({ position }) => position))
    this.#changes = {
      pending: [...pending.filter(({ position }) => !changed.has(position)), ...newer.pending],
      done: [...done, ...newer.done],
      attempts: [...attempts, ...newer.attempts],
      ended: [...requests, ...newer.ended]
    }
  }

  requestEnded(request: EndedRequest): void {
    this.#changes.ended.push(request)
  }

  /** The item is over, and so is its row. */
  over(item: Item): void {
    if (item.stored) this.#changes.done.push({ position: item.position, rows: item.rows })
    // A write of the row must not follow its deletion.
    this.#drop(item)
  }

  /** The item waits in webhook_pending. */
  wait(item: Item, now: number): void {
    item.deliveryId ??= newDeliveryId()
    const { deliveryId, position, day, eventId, type, subject, attempts, replay } = item
    // A failed attempt is listed by itself; the one after it is by the time at which it is made.
    if (attempts > 0) item.deliveryId = null
    item.rows.push(deliveryId)
    this.#drop(item)
    this.#changes.pending.push({
      endpointId: this.#owner.id,
      partnerId: this.#owner.partnerId,
      position,
      day,
      eventId,
      type,
      subject,
      deliveryId,
      attempts,
      replay,
      nextMs: Math.max(0, item.dueAt - now),
      rows: [...item.rows]
    })
  }

  /** An attempt for the list of deliveries. */
  log(item: Item, { deliveryId, attempt, status, response, nextMs }: MadeAttempt): void {
    this.#changes.attempts.push({
      endpointId: this.#owner.id,
      partnerId: this.#owner.partnerId,
      id: deliveryId,
      eventId: item.eventId,
      position: item.position,
      eventDay: item.day,
      type: item.type,
      subject: item.subject,
      attempt,
      status,
      httpStatus: response.httpStatus,
      ms: response.ms,
      error: response.error,
      response: response.response,
      agoMs: response.ms,
      nextMs,
      replay: item.replay
    })
  }

  #drop({ position }: Item): void {
    this.#changes.pending = this.#changes.pending.filter(row => row.position !== position)
  }
}
