// Stopping without cutting anybody off: no new connections, requests under way are answered (an order's
// waiter has its deadline), idle connections are closed, and after the bound what is left is cut.
import type { Server } from 'node:http'

/** Resolves when the server is closed, at the latest after `boundMs`. */
export async function drain(server: Server, boundMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => {
    server.close(() => resolve())
  })
  // A client that always has a next request at hand would keep its connection until the bound.
  server.prependListener('request', (_request, response) => response.setHeader('Connection', 'close'))
  const idle = setInterval(() => server.closeIdleConnections(), 50)
  const bound = setTimeout(() => server.closeAllConnections(), boundMs)
  await closed
  clearInterval(idle)
  clearTimeout(bound)
}
