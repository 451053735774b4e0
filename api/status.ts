// GET /status, for anybody: whether the parts of the service work now, as JSON and, for browsers, as a small page. Read at most
// every few seconds however many requests come, and limited by address.
import type { Context, Middleware, Next } from 'koa'
import { readStatus, unreachableStatus } from '../db/platform/status.ts'
import { ApiError } from '../schemas/errors/errors.ts'
import { Status } from '../schemas/status.ts'
import type { ApiServices } from './operation.ts'

const FRESH_MS = 5000
const PER_ADDRESS_PER_MINUTE = 60
const PATH = '/status'
const SUMMARY = 'State of the service'

/** The operation in the description. It needs no key, so it is not in the list of operations. */
export const statusPath = {
  path: PATH,
  summary: SUMMARY,
  description: `Whether api, workers, queue, broker and markets work now, and how long orders took in the last minutes. Without a key; read at most every ${FRESH_MS / 1000} seconds, and at most ${PER_ADDRESS_PER_MINUTE} calls a minute from an address. A browser gets a page. The HTTP status is always 200.`,
  response: Status
} as const

/** Serves /status; leaves every other path to what follows. Throws RATE_LIMITED and METHOD_NOT_ALLOWED. */
export function status({ db, limits, log }: Pick<ApiServices, 'db' | 'limits' | 'log'>): Middleware {
  let kept: { value: Promise<Status>; until: number } | undefined
  const current = () => {
    if (kept && performance.now() < kept.until) return kept.value
    const value = readStatus(db).catch((error: unknown) => {
      log.warn({ err: error }, 'the status could not be read')
      return unreachableStatus()
    })
    kept = { value, until: performance.now() + FRESH_MS }
    return value
  }

  return async (ctx: Context, next: Next) => {
    if (ctx.path !== PATH) return next()
    ctx.state.operation = 'status'
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
      throw new ApiError('METHOD_NOT_ALLOWED', 'This path takes GET, HEAD.', { headers: { Allow: 'GET, HEAD' } })
    const { allowed, resetSeconds } = await limits.hit(`status:${ctx.ip}`, PER_ADDRESS_PER_MINUTE)
    if (!allowed)
      throw new ApiError(
        'RATE_LIMITED',
        `The limit of ${PER_ADDRESS_PER_MINUTE} calls a minute from an address is reached.`,
        {
          headers: { 'Retry-After': String(resetSeconds) }
        }
      )
    const found = await current()
    ctx.status = 200
    ctx.set('Cache-Control', `public, max-age=${FRESH_MS / 1000}`)
    ctx.vary('Accept')
    if (ctx.accepts('json', 'html') === 'html') {
      ctx.set(
        'Content-Security-Policy',
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
      )
      ctx.type = 'text/html; charset=utf-8'
      ctx.body = pageOf(found)
    } else ctx.body = found
  }
}

const words = { OK: 'Everything works', DEGRADED: 'Works for some, or slowly', DOWN: 'Does not work' } as const

/** The page: a line for each part. Every value is a number or one of our words. */
function pageOf({ state, at, api, workers, queue, broker, trading, markets, latency }: Status): string {
  const ms = (value: number | null) => (value === null ? '–' : `${value} ms`)
  const lines = [
    ['API', api.state, `${api.processes} processes`],
    ['Workers', workers.state, `${workers.processes} processes`],
    [
      'Queue',
      queue.state,
      `${queue.waiting} waiting${queue.oldestSeconds === null ? '' : `, the oldest for ${queue.oldestSeconds} s`}`
    ],
    ['Broker', broker.state, `reached by ${broker.reachedBy} workers, not by ${broker.unreachedBy}`],
    ['Trading', trading.state, trading.halted ? 'placing is halted, closing goes on' : 'orders are placed'],
    ['Markets', markets?.state ?? '–', markets ? `${markets.open} open, ${markets.closed} closed` : 'not read lately'],
    [
      'Latency',
      '',
      `${ms(latency.p50Ms)} (half), ${ms(latency.p99Ms)} (99 %), ${latency.orders} orders of ${latency.minutes} minutes`
    ]
  ]
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Status: ${words[state]}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta http-equiv="refresh" content="30" />
    <link rel="icon" href="/docs/icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/docs/page.css" />
  </head>
  <body>
    <main class="stream">
      <h1>${words[state]}</h1>
      <table>
        ${lines.map(cells => `<tr>${cells.map(cell => `<td>${cell}</td>`).join('')}</tr>`).join('\n        ')}
      </table>
      <p><time datetime="${at}">${at}</time> · read again every 30 seconds · <a href="/docs">the reference</a></p>
    </main>
  </body>
</html>
`
}
