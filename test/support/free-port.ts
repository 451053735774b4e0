import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'

// Below the ports that Linux gives to connections: one of those may be taken before its process listens, and stays so.
const PORTS = { first: 20_000, count: 12_000 }

/** A port of this machine on which nobody listens, and which no other test process is given while this one lives. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count)
    if ((await reserve(port)) && (await isFree(port))) return port
  }
}

/**
 * Whether the port is ours from now on. UDP's port of the same number, which nobody uses, shows other test processes that it is taken
 * before somebody listens on it, and between two processes that do.
 */
function reserve(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = createSocket('udp4')
    socket.once('error', () => resolve(false))
    socket.bind(port, '127.0.0.1', () => {
      socket.unref()
      resolve(true)
    })
  })
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
