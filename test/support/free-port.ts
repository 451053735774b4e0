import { createServer } from 'node:net'

// Below the ports that Linux gives to connections: one of those may be taken before its process listens, and stays so.
const PORTS = { first: 20_000, count: 12_000 }

/** A port of this machine on which nobody listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count)
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
