// The tools of `operator mcp`: the operations that read, and with leave those that place and close orders. Names, words and
// schemas are the operations' own.
import type { Schema } from '../../schemas/fields/fields.ts'
import type { Operation } from '../operation.ts'
import { getSpec, operations } from '../operations.ts'

export interface Tool {
  row: Operation
  /** One object of path and query parameters and the fields of the body. */
  inputSchema: Schema & { type: 'object' }
  description: string
  /** It places or closes an order. */
  orders: boolean
}

const ORDERS = ['placeBinaryOrder', 'placeMultiplierOrder', 'closeOrder', 'closeMultiplierOrder']

/** Every tool by its name, which is the operation's; those about orders only where they are allowed. */
export function toolsOf({ allowOrders }: { allowOrders: boolean }): Map<string, Tool> {
  const reading = operations.filter(row => row.auth === 'key' && reads(row) && row !== getSpec)
  const ordering = allowOrders ? operations.filter(({ name }) => ORDERS.includes(name)) : []
  return new Map([...reading.map(row => toolOf(row, false)), ...ordering.map(row => toolOf(row, true))])
}

// The two signals of AI are a POST for their body's sake: they need the scope of reading.
const reads = ({ method, scope }: Operation) => method === 'GET' || (scope?.endsWith(':read') ?? false)

function toolOf(row: Operation, orders: boolean): [string, Tool] {
  const parts = [row.params, row.query, row.body].filter(part => part !== undefined)
  const inputSchema = {
    type: 'object' as const,
    additionalProperties: false,
    required: parts.flatMap(({ required }) => (required ?? []) as string[]),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)) as object
  }
  return [row.name, { row, inputSchema, orders, description: wordsOf(row, orders) }]
}

function wordsOf({ method, path, summary, description, scope, weight = 1 }: Operation, orders: boolean): string {
  const calls =
    weight === 'page'
      ? 'one call, or one for each 20 of a `limit` above 50,'
      : weight === 1
        ? 'one call'
        : `${weight} calls`
  const cost = `Costs ${calls} of the key's limit a minute${scope ? `; the key needs the scope ${scope}` : ''}.`
  const change = orders
    ? path.endsWith('/close')
      ? 'Changes the account: sells an open contract at the market. Refused unless the order is on a DEMO account or the key is a test key.'
      : 'Changes the account: buys a contract with its stake. Refused unless the trader trades on a DEMO account or the key is a test key. A repeat under the same clientOrderId never buys twice.'
    : 'Changes nothing.'
  return `${summary} (${method} ${path}). ${description}\n\n${change} ${cost}`
}
