// A port for the API: the configured one, or a free one where none was configured explicitly.
import { createServer } from 'node:net'

/** The configured port; when it is a default and busy, a free one. */
export async function choosePort(port: number, { host, fixed }: { host: string; fixed: boolean }): Promise<number> {
  if (fixed && port !== 0) return port
  return (await tryPort(port, host)) ?? (await tryPort(0, host)) ?? 0
}

async function tryPort(port: number, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(undefined)
      else reject(error)
    })
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : undefined))
    })
  })
}
