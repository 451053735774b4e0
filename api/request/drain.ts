// Graceful stop: no new connections, requests under way complete, idle connections are closed. Requests that wait for a
// settlement return the order's state in time; what is left after the bound is cut.
import type { Server } from 'node:http'
import type { Waits } from './waits.ts'

const LAST_CALL_MS = 15_000
const BOUND_MS = 19_500

/** Resolves when the server is closed, at the latest after 19.5 s. */
export async function drain(server: Server, waits: Waits): Promise<void> {
  const closed = new Promise<void>(resolve => {
    server.close(() => resolve())
  })
  // A client that always has a next request at hand would keep its connection until the bound.
  server.prependListener('request', (_request, response) => response.setHeader('Connection', 'close'))
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const lastCall = setTimeout(() => waits.endAll(), LAST_CALL_MS)
  const bound = setTimeout(() => server.closeAllConnections(), BOUND_MS)
  await closed
  clearInterval(idle)
  clearTimeout(lastCall)
  clearTimeout(bound)
}
