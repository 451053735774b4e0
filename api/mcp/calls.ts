// One call of the service for a tool: the arguments go where the operation has them, the response is bounded.
import { randomUUID } from 'node:crypto'
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import type { Operation } from '../operation.ts'

export interface ApiTarget {
  /** http://127.0.0.1:8080 */
  baseUrl: string
  key: string
}

export interface CallResult {
  ok: boolean
  text: string
  body: unknown
  /** Seconds after which to repeat the call, as the service requests. */
  retryAfter: string | null
}

/** More than a model can use of one response. */
const MAX_CHARACTERS = 50_000
/** The default size of a page. */
const PAGE = 20
const READ_TIMEOUT_MS = 60_000
/** Longer than the service waits for a settlement by default. */
const ORDER_TIMEOUT_MS = 150_000

/** Calls the operation. Never rejects: a failure is a result that is not ok. */
export async function callOperation(
  row: Operation,
  given: Record<string, unknown>,
  { baseUrl, key }: ApiTarget
): Promise<CallResult> {
  const within = (part?: { properties?: unknown }) => Object.keys((part?.properties ?? {}) as object)
  const pick = (names: string[]) =>
    Object.fromEntries(names.flatMap(name => (name in given ? [[name, given[name]]] : [])))
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given[name])))
  const fields = within(row.query)
  const query = { ...(fields.includes('limit') ? { limit: PAGE } : {}), ...pick(fields) }
  const url = new URL(`${baseUrl}${path}`)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
  const changes = row.scope?.endsWith(':write') ?? false
  try {
    const response = await fetch(url, {
      method: row.method,
      headers: {
        authorization: `Bearer ${key}`,
        'x-request-id': `mcp-${randomUUID()}`,
        ...(row.body ? { 'content-type': 'application/json' } : {})
      },
      ...(row.body ? { body: JSON.stringify(pick(within(row.body))) } : {}),
      redirect: 'error',
      signal: AbortSignal.timeout(changes ? ORDER_TIMEOUT_MS : READ_TIMEOUT_MS)
    })
    const text = await response.text()
    if (text.length > MAX_CHARACTERS)
      return refusal(
        'PAYLOAD_TOO_LARGE',
        `The response has ${text.length} characters, more than ${MAX_CHARACTERS}: ask for less, with limit, filters or a shorter window.`
      )
    return { ok: response.ok, text, body: parse(text), retryAfter: response.headers.get('retry-after') }
  } catch (error) {
    const { name, cause } = error as { name: string; cause?: { code?: string } }
    const again = changes ? ' Whether it was done is not known: repeat it with the same arguments.' : ''
    return refusal('UNAVAILABLE', `${baseUrl} gave no response (${cause?.code ?? name}).${again}`)
  }
}

/** A result without a response of the service, in the shape of its errors: the reason for which nothing was called, or nothing came. */
export function refusal(error: ErrorCode, message: string, details?: { path: string; message: string }[]): CallResult {
  return { ok: false, text: JSON.stringify({ error, message, details }), body: null, retryAfter: null }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
