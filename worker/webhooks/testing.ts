// Tests of endpoints: a made-up event, sent once, whatever the endpoint's state is.
import { deliveryIdOf, readDeliveryId } from '../../db/webhooks/deliveries.ts'
import { writeTestAttempt } from '../../db/webhooks/outcomes.ts'
import { signedHeaders } from '../../db/webhooks/sign.ts'
import { endTest, type TestRow, takeTests } from '../../db/webhooks/tests.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { TEST_TYPE } from '../../schemas/webhooks.ts'
import type { WorkerServices } from '../services.ts'
import { keysOf } from './keys.ts'
import type { DeliveryResponse, Requests } from './request.ts'

const AT_ONCE = 20

interface Testing {
  /** Takes tests that wait. Returns whether there may be more. */
  round(): Promise<boolean>
  busy(): boolean
}

export function openTesting(services: WorkerServices, requests: Requests): Testing {
  const { db, bus, log, clock, worker, vault } = services
  let underWay = 0

  async function run(test: TestRow): Promise<void> {
    const outcome = await sendTest(test)
    const { error, httpStatus, ms, response } = outcome
    const uuid = readDeliveryId(test.id) as string
    await writeTestAttempt(db, {
      endpointId: test.endpoint_id,
      partnerId: test.partner_id,
      id: uuid,
      eventId: null,
      position: null,
      eventDay: null,
      type: TEST_TYPE,
      subject: null,
      attempt: 1,
      status: error === null ? 'DELIVERED' : 'FAILED',
      httpStatus,
      ms,
      error,
      response,
      agoMs: ms,
      nextMs: null,
      replay: false
    }).catch((failure: unknown) => log.warn({ err: failure }, 'the test of a webhook is not in its list'))
    await endTest(db, test.id, { deliveryId: deliveryIdOf(uuid), httpStatus, ms, error, response })
    bus.publish(test.channel, TEST_TYPE, test.id)
  }

  function sendTest(test: TestRow): Promise<DeliveryResponse> {
    const now = clock.now()
    let keys: ReturnType<typeof keysOf>
    try {
      keys = keysOf(vault, test.endpoint_id, test, now)
    } catch (error) {
      log.error({ err: error, webhook: test.endpoint_id }, 'the secret of a webhook cannot be decrypted')
      return Promise.resolve({ error: 'SECRET_UNREADABLE', httpStatus: null, ms: 0, response: null, retryAfterS: null })
    }
    const atMs = clock.wall()
    const id = newId('event')
    const body = JSON.stringify({
      id,
      type: TEST_TYPE,
      createdAt: new Date(atMs).toISOString(),
      traderExternalId: null,
      data: { webhookId: test.endpoint_id }
    })
    const signed = signedHeaders(
      keys.map(({ key }) => key),
      { id, body, atMs }
    )
    return requests.post(test.url, signed, body)
  }

  return {
    busy: () => underWay > 0,
    async round() {
      const tests = await takeTests(db, worker, AT_ONCE)
      for (const test of tests) {
        underWay += 1
        void run(test)
          .catch((error: unknown) => log.warn({ err: error }, 'the test of a webhook failed'))
          .finally(() => {
            underWay -= 1
          })
      }
      return tests.length === AT_ONCE
    }
  }
}
