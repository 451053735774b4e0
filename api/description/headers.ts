// Header fields in the description: those of responses, and those of requests.

const header = (description: string, example: string, extra: { pattern?: string; required?: boolean } = {}) => ({
  description,
  ...(extra.required ? { required: true } : {}),
  schema: { type: 'string', ...(extra.pattern ? { pattern: extra.pattern } : {}) },
  example
})

const ITEM = (fields: string) => `"(key|trader)";${fields}`
const LIST = (fields: string) => `^${ITEM(fields)}(, ${ITEM(fields)})?$`

export const headers = {
  RequestId: header(
    'The id of the request: your own X-Request-Id where it has the right form, else a new one. Quote it when you ask for help.',
    '5f0c6a8e-0d3b-4a55-9b7a-3d1b8a6f2f10',
    { pattern: '^[A-Za-z0-9._-]{8,64}$', required: true }
  ),
  RateLimit: header(
    'What is left: r calls, for t more seconds; one item for the key, one for the trader where one is named.',
    '"key";r=599;t=42, "trader";r=119;t=42',
    { pattern: LIST('r=\\d+;t=\\d+') }
  ),
  RateLimitPolicy: header('The limits: q calls in w seconds.', '"key";q=600;w=60, "trader";q=120;w=60', {
    pattern: LIST('q=\\d+;w=\\d+')
  }),
  RetryAfter: header('Seconds to wait before the next try.', '17', { pattern: '^\\d+$' }),
  Replayed: header(
    '`true` when this is the response to an earlier request with the same clientOrderId or Idempotency-Key.',
    'true',
    {
      pattern: '^true$'
    }
  ),
  SessionCookie: header(
    'The session of the trader for browsers, as the cookie `trader_session`; removed by logging out.',
    'trader_session=Zm9yIHRoZSBleGFtcGxlIG9ubHksIG5vdCBhIHRva2V; Path=/; HttpOnly; Secure; SameSite=Lax'
  ),
  AsOf: header('With CSV: the instant that the response is of.', '2026-11-21T08:00:00.000Z'),
  Complete: header('With CSV: whether everything of the window is known.', 'true', { pattern: '^(true|false)$' }),
  NextCursor: header('With CSV, of a list with another page: pass as cursor.', 'WyJwbmwiLCIxMS4yNSIsInRyZF8wMSJd'),
  Challenge: header('Names the scheme of the key.', 'Bearer'),
  TestMode: header('`true` when a test key made the request; else left out.', 'true', { pattern: '^true$' })
} as const

/** What the responses of deprecated operations carry besides. */
export const deprecationHeaders = {
  Deprecation: header(
    'Since when the operation is deprecated, in seconds since 1970 after an @ (RFC 9745).',
    '@1764547200',
    { pattern: '^@\\d+$' }
  ),
  Sunset: header('When the operation is taken away (RFC 8594).', 'Tue, 01 Dec 2026 00:00:00 GMT'),
  Link: header(
    'Address of the policy, with the relations `deprecation` and `sunset`.',
    '<https://api.example.com/docs#/section/versions-and-deprecation>; rel="deprecation"; type="text/html"'
  )
} as const

/** What requests that check a password may carry. */
export const endUserIp = {
  name: 'X-End-User-IP',
  in: 'header',
  required: false,
  description:
    'Address of the end user (IPv4 or IPv6) from whom the attempt comes. Failures are counted by it, so that guessing from elsewhere does not slow this user down. Only your servers know it: pass the address that your own proxies report, never one that the browser sends.',
  schema: { type: 'string' },
  example: '203.0.113.7'
} as const

/** What requests that change something may carry, but the placing of orders. */
export const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Your own id of what is requested, 8 to 64 visible ASCII characters, new for each. A repeat within 24 hours gets the first response again, with `Idempotent-Replayed: true`, and nothing is done twice; a request that was refused frees its key.',
  schema: { type: 'string' },
  example: '5d0b7a5e-4c0e-4a3a-9a53-0a3c3bb8c1f2'
} as const

const ref = (name: keyof typeof headers | keyof typeof deprecationHeaders) => ({ $ref: `#/components/headers/${name}` })

/** Header fields of a response by its status; `extra` are those of the operation. */
export function headersOf(
  status: number,
  extra: readonly ('Idempotent-Replayed' | 'Set-Cookie' | 'Retry-After' | 'X-As-Of' | 'Deprecation')[] = []
): object {
  return {
    'X-Request-Id': ref('RequestId'),
    RateLimit: ref('RateLimit'),
    'RateLimit-Policy': ref('RateLimitPolicy'),
    'Test-Mode': ref('TestMode'),
    ...(status === 401 ? { 'WWW-Authenticate': ref('Challenge') } : {}),
    ...(status === 429 || status === 503 || extra.includes('Retry-After') ? { 'Retry-After': ref('RetryAfter') } : {}),
    ...(extra.includes('Idempotent-Replayed') ? { 'Idempotent-Replayed': ref('Replayed') } : {}),
    ...(extra.includes('X-As-Of')
      ? { 'X-As-Of': ref('AsOf'), 'X-Complete': ref('Complete'), 'X-Next-Cursor': ref('NextCursor') }
      : {}),
    ...(extra.includes('Deprecation')
      ? { Deprecation: ref('Deprecation'), Sunset: ref('Sunset'), Link: ref('Link') }
      : {}),
    ...(extra.includes('Set-Cookie') ? { 'Set-Cookie': ref('SessionCookie') } : {})
  }
}

/** What any request may carry. */
export const requestHeaders = {
  RequestId: {
    name: 'X-Request-Id',
    in: 'header',
    required: false,
    description: 'Your own id of the request: 8 to 64 letters, digits, dots, hyphens or underscores.',
    schema: { type: 'string' },
    example: 'checkout-7f3a91c2'
  },
  Traceparent: {
    name: 'traceparent',
    in: 'header',
    required: false,
    description: 'A W3C trace context; its trace id follows the order through every process.',
    schema: { type: 'string' },
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  }
} as const
