// The named schemas of the description. A schema exported from schemas/ under a capital letter is a component of that
// name wherever it is used whole; one that is not exported is inlined. Also the example of a schema, composed of those
// of its fields.

import * as ai from '../../schemas/ai.ts'
import * as analytics from '../../schemas/analytics.ts'
import * as community from '../../schemas/community.ts'
import * as copy from '../../schemas/copy.ts'
import * as events from '../../schemas/events.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import * as keys from '../../schemas/keys.ts'
import * as creator from '../../schemas/marketplace/creator.ts'
import * as marketplace from '../../schemas/marketplace/marketplace.ts'
import * as sales from '../../schemas/marketplace/sales.ts'
import * as multipliers from '../../schemas/multipliers.ts'
import * as orderEntries from '../../schemas/order-entries.ts'
import * as orders from '../../schemas/orders.ts'
import * as partners from '../../schemas/partners.ts'
import * as reconciliation from '../../schemas/reconciliation.ts'
import * as requests from '../../schemas/requests.ts'
import * as status from '../../schemas/status.ts'
import * as stream from '../../schemas/stream.ts'
import * as templates from '../../schemas/templates.ts'
import * as accounts from '../../schemas/traders/accounts.ts'
import * as traderCredentials from '../../schemas/traders/credentials.ts'
import * as traders from '../../schemas/traders/traders.ts'
import * as trades from '../../schemas/traders/trades.ts'
import * as usage from '../../schemas/usage.ts'
import * as webhookEndpoint from '../../schemas/webhook-endpoint.ts'
import * as webhooks from '../../schemas/webhooks.ts'

const nouns = [
  accounts,
  ai,
  analytics,
  community,
  copy,
  events,
  keys,
  marketplace,
  creator,
  sales,
  multipliers,
  orderEntries,
  orders,
  partners,
  reconciliation,
  requests,
  status,
  stream,
  templates,
  traders,
  traderCredentials,
  trades,
  usage,
  webhookEndpoint,
  webhooks
]

const names = new Map<unknown, string>()
for (const noun of nouns) {
  for (const [name, schema] of Object.entries(noun)) {
    if (!/^[A-Z][a-z]/.test(name) || (schema as Schema).type !== 'object') continue
    if ([...names.values()].includes(name)) throw new Error(`Two schemas are called ${name}.`)
    names.set(schema, name)
  }
}

/** Collects the named schemas a description comes to use. */
export class Components {
  readonly schemas: Record<string, object> = {}

  /** The schema, with a $ref wherever a named one is used whole. */
  refer(schema: unknown): unknown {
    const name = names.get(schema)
    if (name === undefined) return this.#inside(schema)
    if (!this.schemas[name]) {
      this.schemas[name] = {} // Holds the place while it is filled.
      const { examples = [exampleOf(schema as Schema)], ...rest } = schema as Schema
      this.schemas[name] = { title: name, ...(this.#inside(rest) as object), examples }
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  #inside(part: unknown): unknown {
    if (Array.isArray(part)) return part.map(item => this.refer(item))
    if (part === null || typeof part !== 'object') return part
    return Object.fromEntries(Object.entries(optional(part)).map(([key, value]) => [key, this.refer(value)]))
  }
}

// Generators of clients take a field with a default for one that is always present, and so for one that must be sent:
// in bodies and responses the description text has the default. Parameters keep theirs; they are not referred to.
function optional(part: object): object {
  if (!('default' in part) || !('type' in part)) return part
  const { default: value, description, ...rest } = part as { default: unknown; description?: string }
  return { ...rest, description: `${description ?? ''} Default: ${JSON.stringify(value)}.`.trim() }
}

/** An example that matches the schema: its own, else one made of the examples of its parts. */
export function exampleOf(schema: Schema): unknown {
  const { examples, properties, items, oneOf } = schema as {
    examples?: unknown[]
    properties?: Record<string, Schema>
    items?: Schema
    oneOf?: Schema[]
  }
  if (examples) return examples[0]
  if ('const' in schema) return schema.const
  if (properties) {
    return Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, exampleOf(field)]))
  }
  if (items) return [exampleOf(items)]
  if (oneOf?.[0]) return exampleOf(oneOf[0])
  throw new Error(`A schema has no example: ${JSON.stringify(schema).slice(0, 200)}`)
}
