// What is sent to webhook endpoints, as the section `webhooks` of the description: an entry for each type of event, of the same
// schemas that check the list and the stream.
import { Event, type EventType, eventTypes } from '../../schemas/events.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import { TEST_TYPE, WebhookTestEvent } from '../../schemas/webhooks.ts'
import { type Components, exampleOf } from './schemas.ts'

const header = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example
})

const signed = [
  header('webhook-id', 'The id of the event: the same each time it is sent.', 'evt_01k3hv9c7bf5tvxkz1qd3rn8ma'),
  header('webhook-timestamp', 'When it is sent, in seconds since 1970.', '1795248000'),
  header(
    'webhook-signature',
    'By Standard Webhooks, `v1,` and HMAC-SHA256 over `id.timestamp.body`; two, with a space between, after a rotation.',
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  )
]

/** The entries, by type. */
export function describeWebhooks(components: Components): Record<string, object> {
  const types = Object.keys(eventTypes) as EventType[]
  const events = types.map((type, index) => {
    const schema = Event.oneOf[index] as Schema
    return [type, { post: sent({ type, summary: eventTypes[type].summary, schema, components }) }]
  })
  const summary = 'What POST /v1/webhooks/{id}/test sends; it is in no log.'
  const test = { post: sent({ type: TEST_TYPE, summary, schema: WebhookTestEvent, components }) }
  return Object.fromEntries([...events, [TEST_TYPE, test]])
}

function sent({
  type,
  summary,
  schema,
  components
}: {
  type: string
  summary: string
  schema: Schema
  components: Components
}): object {
  return {
    operationId: `on${type.replaceAll(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase())}`,
    tags: ['Webhooks'],
    summary: type,
    description: summary,
    security: [],
    parameters: signed,
    requestBody: {
      required: true,
      description: 'The event.',
      content: { 'application/json': { schema: components.refer(schema), example: exampleOf(schema) } }
    },
    responses: {
      '2XX': { description: 'Any 2xx within 15 s: the event is delivered.' },
      410: { description: 'The endpoint is gone: it is disabled.' },
      default: { description: 'The event is sent again later.' }
    }
  }
}
