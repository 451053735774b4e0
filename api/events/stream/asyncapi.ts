// The stream's description: AsyncAPI 3.0 of the schemas that check every message.
import {
  closeCodes,
  describedFromService,
  fromClient,
  HEARTBEAT_SECONDS,
  SUBPROTOCOL
} from '../../../schemas/stream.ts'
import { Components } from '../../description/schemas.ts'

const DESCRIPTION = `One WebSocket for what happens to a partner, as it happens. JSON text frames, one message each.

Open it with \`Authorization: Bearer <key>\` (scope events:read for events, trading:read for ticks), or in a browser with a ticket of \`POST /v1/stream/tickets\`:
\`Sec-WebSocket-Protocol: ${SUBPROTOCOL}, ticket.<ticket>\`. What keeps a request from being served keeps a socket from being opened, with the same envelope.
A socket beyond those of the plan is opened and closed with 4429 at once, which a browser can see.

Send \`subscribe\`. Keep the cursor of the last event you have dealt with, and subscribe with it as \`after\` when you reconnect: nothing is missed.
Each event names the cursor of the one before it on its subscription as \`previous\`; another one than the last you saw is a gap. A socket on which
no message arrives for ${2 * HEARTBEAT_SECONDS} seconds is broken: open another one. Events come at least once; an id seen before is a repeat.

The channel \`ticks\` carries live prices of up to 100 assets a socket. They have no cursor and are not replayed; a socket that reads slowly gets the
newest of each asset.`

const codes = Object.entries(closeCodes)
  .map(([code, meaning]) => `- ${code}: ${meaning}`)
  .join('\n')

/** The AsyncAPI 3.0 document of a stream at `streamUrl`. */
export function describeStream(streamUrl: string): object {
  const components = new Components()
  const { host, protocol, pathname } = new URL(streamUrl)
  const messages: Record<string, object> = {}
  for (const [type, schema] of [...Object.entries(fromClient), ...Object.entries(describedFromService)])
    messages[type] = { name: type, title: type, summary: schema.description, payload: components.refer(schema) }
  const named = (types: Record<string, unknown>) =>
    Object.keys(types).map(type => ({ $ref: `#/channels/stream/messages/${type}` }))
  return {
    asyncapi: '3.0.0',
    info: { title: 'Trading Operator Service: the stream', version: '1.0.0', description: DESCRIPTION },
    defaultContentType: 'application/json',
    servers: {
      service: {
        host,
        protocol: protocol.replace(':', ''),
        pathname,
        description: 'The stream of this installation.',
        security: [{ $ref: '#/components/securitySchemes/key' }]
      }
    },
    channels: {
      stream: {
        address: '/v1/stream',
        title: 'The stream',
        description: `The socket. It closes with:\n\n${codes}`,
        servers: [{ $ref: '#/servers/service' }],
        messages: Object.fromEntries(
          Object.keys(messages).map(type => [type, { $ref: `#/components/messages/${type}` }])
        ),
        bindings: { ws: { method: 'GET' } }
      }
    },
    operations: {
      fromClient: {
        action: 'receive',
        channel: { $ref: '#/channels/stream' },
        summary: 'What a client sends.',
        messages: named(fromClient)
      },
      fromService: {
        action: 'send',
        channel: { $ref: '#/channels/stream' },
        summary: 'What the service sends.',
        messages: named(describedFromService)
      }
    },
    components: {
      messages,
      schemas: components.schemas,
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'An API key.' } }
    }
  }
}
