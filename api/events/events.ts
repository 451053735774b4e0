// The event log over HTTP: by page, held back until something happens, and one by one.

import type { Point } from '../../db/events/cursor.ts'
import { readCursor, writeCursor } from '../../db/events/cursor.ts'
import { showEvent, showEvents } from '../../db/events/faults.ts'
import { readEventId } from '../../db/events/present.ts'
import {
  type EventsPage,
  findEvent,
  type LogState,
  PointExpired,
  readEvents,
  readLogState
} from '../../db/events/read.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import {
  Event,
  EventPage,
  EventPath,
  EventsQuery,
  type EventType,
  eventTypeNames,
  isEventType
} from '../../schemas/events.ts'
import type { ApiServices, Operation } from '../operation.ts'

// A hint that the log has grown may be lost.
const REREAD_MS = 2000

export const listEvents: Operation<{ query: EventsQuery }> = {
  name: 'listEvents',
  method: 'GET',
  path: '/v1/events',
  tag: 'Events',
  summary: 'What happened',
  description:
    "The partner's events, oldest first, kept for 30 days (EVENT_DAYS of the installation): at least once, in order for each record, nothing missing. Pass `cursor` as `after` to go on; with `wait` an empty response is held back until there is an event.",
  auth: 'key',
  scope: 'events:read',
  query: EventsQuery,
  response: EventPage,
  errors: ['CURSOR_EXPIRED', 'RATE_LIMITED'],
  weight: 'page',
  async handle(request, services) {
    const { partner, query } = request
    const { db, pepper, config } = services
    const { partnerId } = partner
    const types = typesOf(query.types)
    const traders = query.traderExternalId === undefined ? undefined : [query.traderExternalId]
    const pageOf = ({ events, next, caughtUp }: Pick<EventsPage, 'events' | 'next' | 'caughtUp'>) => ({
      data: showEvents(events, config, services),
      cursor: writeCursor(pepper, partnerId, next),
      caughtUp
    })
    if (query.after === 'now') {
      const { latest } = await readLogState(db, partnerId)
      return pageOf({ events: [], next: latest, caughtUp: true })
    }
    const filter = { partnerId, limit: query.limit ?? 50, types, traders }
    let point = query.after === undefined ? undefined : pointOf(services, partnerId, query.after)
    const read = () =>
      readEvents(db, { ...filter, point }).catch((error: unknown) => {
        throw expiredOf(services, partnerId, error)
      })
    const until = performance.now() + (query.wait ?? 0) * 1000
    if (!query.wait) return pageOf(await read())
    const { signal } = request
    // Before the first read, so that nothing can come between the two.
    const growth = watchGrowth(services, partnerId)
    try {
      for (;;) {
        const page = await read()
        const leftMs = until - performance.now()
        if (page.events.length > 0 || !page.caughtUp || leftMs <= 0 || signal.aborted) return pageOf(page)
        // What a filter has passed over is not read again.
        point = page.next
        await growth.next(Math.min(leftMs, REREAD_MS), signal)
      }
    } finally {
      growth.close()
    }
  }
}

export const getEvent: Operation<{ params: EventPath }> = {
  name: 'getEvent',
  method: 'GET',
  path: '/v1/events/{id}',
  tag: 'Events',
  summary: 'One event',
  description: 'Only while it is kept.',
  auth: 'key',
  scope: 'events:read',
  params: EventPath,
  response: Event,
  errors: ['NOT_FOUND'],
  async handle({ partner, params }, { db, config, log }) {
    const id = readEventId(params.id)
    const found = id && (await findEvent(db, { partnerId: partner.partnerId, ...id }))
    const shown = found && showEvent(found, config, { db, log })
    if (!shown) throw new ApiError('NOT_FOUND', `There is no event ${params.id}, or it is not kept any more.`)
    return shown
  }
}

/** The point of a cursor the partner sent. Throws VALIDATION_FAILED. */
function pointOf({ pepper }: ApiServices, partnerId: string, cursor: string): Point {
  const point = readCursor(pepper, partnerId, cursor)
  if (!point) throw invalid([{ path: '/query/after', message: 'is not a cursor of events' }])
  return point
}

function typesOf(list: string | undefined): EventType[] | undefined {
  const names = list?.split(',')
  const unknown = names?.find(name => !isEventType(name))
  if (unknown !== undefined) {
    const message = `names '${unknown}', which is not an event type; the types are ${eventTypeNames.join(', ')}`
    throw invalid([{ path: '/query/types', message }])
  }
  return names as EventType[] | undefined
}

/** CURSOR_EXPIRED with the cursors of what is kept, for a point that is not; any other error as it is. */
export function expiredOf({ pepper }: Pick<ApiServices, 'pepper'>, partnerId: string, error: unknown): unknown {
  if (!(error instanceof PointExpired)) return error
  return new ApiError('CURSOR_EXPIRED', undefined, { extras: kept({ pepper }, partnerId, error.state) })
}

const kept = ({ pepper }: Pick<ApiServices, 'pepper'>, partnerId: string, { oldest, latest }: LogState) => ({
  oldest: writeCursor(pepper, partnerId, oldest),
  latest: writeCursor(pepper, partnerId, latest)
})

/** Waits for the log of a partner to grow; growth between two waits ends the second one at once. */
function watchGrowth({ feed }: ApiServices, partnerId: string) {
  let grown = false
  let wake: (() => void) | undefined
  const close = feed.watch(partnerId, () => {
    grown = true
    wake?.()
  })
  return {
    close,
    async next(timeoutMs: number, signal: AbortSignal): Promise<void> {
      if (!grown && !signal.aborted)
        await new Promise<void>(resolve => {
          const done = () => {
            clearTimeout(timer)
            signal.removeEventListener('abort', done)
            resolve()
          }
          const timer = setTimeout(done, timeoutMs)
          signal.addEventListener('abort', done, { once: true })
          wake = done
        })
      wake = undefined
      grown = false
    }
  }
}
