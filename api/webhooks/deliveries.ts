// Deliveries to a webhook endpoint over HTTP: what was sent, sending again, and tests.

import { readCursor } from '../../db/events/cursor.ts'
import { WORK } from '../../db/platform/bus.ts'
import { type CursorList, foreignCursor, readListCursor, writeListCursor } from '../../db/platform/list-cursors.ts'
import {
  deliveryIdOf,
  insertReplay,
  listDeliveries,
  presentDelivery,
  readDeliveryId,
  retryDelivery
} from '../../db/webhooks/deliveries.ts'
import { getWebhook } from '../../db/webhooks/endpoints.ts'
import { findTestResult, insertTest } from '../../db/webhooks/tests.ts'
import { WEBHOOK_TESTS, WEBHOOKS } from '../../db/webhooks/topics.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { readInstant } from '../../schemas/fields/instants.ts'
import {
  DeliveriesQuery,
  Delivery,
  DeliveryPage,
  DeliveryPath,
  NewReplay,
  Replay,
  TEST_TYPE,
  WebhookPath,
  WebhookTest
} from '../../schemas/webhooks.ts'
import { expiredOf } from '../events/events.ts'
import type { Operation } from '../operation.ts'

// An attempt takes 15 s at most.
const TEST_WAIT_MS = 20_000
// A hint that it is over may be lost.
const REREAD_MS = 1000

export const testWebhook: Operation<{ params: WebhookPath }> = {
  name: 'testWebhook',
  method: 'POST',
  path: '/v1/webhooks/{id}/test',
  tag: 'Webhooks',
  summary: 'Send a test event',
  description:
    'Sends an event of the type `webhook.test` once, signed as any other, also to a disabled endpoint, and returns how it went. It is in no log.',
  auth: 'key',
  scope: 'webhooks:write',
  params: WebhookPath,
  response: WebhookTest,
  errors: ['NOT_FOUND', 'RATE_LIMITED', 'UNAVAILABLE'],
  async handle(request, { db, bus }) {
    const { partner, params } = request
    await getWebhook(db, params.id, partner.partnerId)
    const id = await insertTest(db, { endpointId: params.id, partnerId: partner.partnerId, channel: bus.replyChannel })
    bus.publish(WORK, WEBHOOK_TESTS, id)
    const { signal } = request
    const until = performance.now() + TEST_WAIT_MS
    for (;;) {
      const leftMs = until - performance.now()
      const woken = bus.wait(TEST_TYPE, id, Math.max(1, Math.min(leftMs, REREAD_MS)), signal)
      const result = await findTestResult(db, id)
      if (result) return result
      if (leftMs <= 0 || signal.aborted)
        throw new ApiError(
          'UNAVAILABLE',
          'No worker has sent the test in time; see the deliveries of the endpoint later.'
        )
      await woken
    }
  }
}

export const listWebhookDeliveries: Operation<{ params: WebhookPath; query: DeliveriesQuery }> = {
  name: 'listWebhookDeliveries',
  method: 'GET',
  path: '/v1/webhooks/{id}/deliveries',
  tag: 'Webhooks',
  summary: 'What was sent to a webhook endpoint',
  description:
    'Every attempt of 30 days, successes too, and what waits to be sent; the newest first. One that is under way while address, types, status or secret of the endpoint change is made again, and is listed then. With `status` a page may be short, or empty, and have a `nextCursor` all the same: a page passes over 10,000 attempts at most.',
  auth: 'key',
  scope: 'webhooks:read',
  params: WebhookPath,
  query: DeliveriesQuery,
  response: DeliveryPage,
  errors: ['NOT_FOUND'],
  weight: 'page',
  async handle({ partner, params, query }, { db }) {
    const { partnerId } = partner
    const list: CursorList = { name: 'deliveries', partnerId, filters: { id: params.id, status: query.status } }
    const after = query.cursor === undefined ? null : afterOf(list, query.cursor)
    if (after === undefined) throw foreignCursor()
    await getWebhook(db, params.id, partnerId)
    const { deliveries, next } = await listDeliveries(db, {
      endpointId: params.id,
      status: query.status ?? null,
      limit: query.limit ?? 50,
      after
    })
    return {
      data: deliveries.map(presentDelivery),
      nextCursor: next === null ? null : writeListCursor(list, [deliveryIdOf(next)])
    }
  }
}

/**
 * The attempt after which a page begins; undefined for a cursor of another list. In the previous version the cursor was the
 * attempt's id.
 */
function afterOf(list: CursorList, cursor: string): string | undefined {
  const [id = cursor] = readListCursor(list, cursor, 1) ?? []
  return typeof id === 'string' ? readDeliveryId(id) : undefined
}

export const retryWebhookDelivery: Operation<{ params: DeliveryPath }> = {
  name: 'retryWebhookDelivery',
  method: 'POST',
  path: '/v1/webhooks/{id}/deliveries/{deliveryId}/retry',
  tag: 'Webhooks',
  summary: 'Send an event again',
  description:
    'The event of this attempt is sent again now, under its id, whether it was delivered or not; at an endpoint that is FAILING, within about a minute. Returns the attempt that waits.',
  auth: 'key',
  scope: 'webhooks:write',
  params: DeliveryPath,
  response: Delivery,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle({ partner, params: { id, deliveryId } }, { db, bus }) {
    const row = await db.transaction(async trx => {
      requireEnabled(await getWebhook(trx, id, partner.partnerId))
      return retryDelivery(trx, { endpointId: id, partnerId: partner.partnerId, deliveryId })
    })
    bus.publish(WORK, WEBHOOKS, id)
    return presentDelivery(row)
  }
}

export const replayWebhook: Operation<{ params: WebhookPath; body: NewReplay }> = {
  name: 'replayWebhook',
  method: 'POST',
  path: '/v1/webhooks/{id}/replay',
  tag: 'Webhooks',
  summary: 'Send past events again',
  description:
    'Events that the endpoint has passed are sent again under their ids, in order for each record, while new events are sent as usual. Events that it has not reached yet are sent in any case and are not counted. A pause that the endpoint has requested by Retry-After is waited for.',
  auth: 'key',
  scope: 'webhooks:write',
  params: WebhookPath,
  body: NewReplay,
  response: Replay,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT', 'CURSOR_EXPIRED', 'LIMIT_REACHED'],
  async handle({ partner, params, body }, { db, bus, pepper }) {
    const { partnerId } = partner
    if ((body.after === undefined) === (body.since === undefined))
      throw invalid([{ path: '/body', message: 'must have either after or since' }])
    const point = body.after === undefined ? null : readCursor(pepper, partnerId, body.after)
    if (point === undefined) throw invalid([{ path: '/body/after', message: 'is not a cursor of events' }])
    const range = {
      point,
      since: body.since === undefined ? null : readInstant(body.since, '/body/since'),
      until: body.until === undefined ? null : readInstant(body.until, '/body/until'),
      types: body.types ?? null
    }
    const events = await db.transaction(async trx => {
      requireEnabled(await getWebhook(trx, params.id, partnerId))
      return insertReplay(trx, { endpointId: params.id, partnerId }, range).catch((error: unknown) => {
        throw expiredOf({ pepper }, partnerId, error)
      })
    })
    bus.publish(WORK, WEBHOOKS, params.id)
    return { events }
  }
}

function requireEnabled({ id, enabled }: { id: string; enabled: boolean }): void {
  if (!enabled) throw new ApiError('CONFLICT', `The endpoint ${id} is DISABLED: enable it first.`)
}
