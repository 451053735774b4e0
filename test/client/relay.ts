// A relay in front of an api: an address that stays while the api behind it is started again, and that can be cut at each
// request and each response.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onClose } from '../support/harness.ts'

export interface ClientRelay {
  address: string
  /** Sends connections to another api from now on. */
  lead(address: string): void
  /**
   * Called with what is about to pass: a request, or a response. False: it is dropped, and its connection is cut on both sides.
   */
  passing: (what: 'request' | 'response', text: string) => boolean
  /** Cuts every connection. */
  cut(): void
}

/** Opens a relay to the api at `address`. */
export async function openRelay(address: string): Promise<ClientRelay> {
  let target = new URL(address)
  const sockets = new Set<Socket>()
  const pass = (from: Socket, to: Socket, what: 'request' | 'response') => {
    sockets.add(from)
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
    from.on('error', () => {})
    from.on('data', data => {
      if (relay.passing(what, data.toString('latin1'))) to.write(data)
      else {
        from.destroy()
        to.destroy()
      }
    })
  }
  const server = createServer(client => {
    const api = connect(Number(target.port), target.hostname)
    pass(client, api, 'request')
    pass(api, client, 'response')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const relay: ClientRelay = {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lead: next => {
      target = new URL(next)
    },
    passing: () => true,
    cut: () => {
      for (const socket of sockets) socket.destroy()
    }
  }
  onClose(async () => {
    relay.cut()
    await new Promise(resolve => server.close(resolve))
  })
  return relay
}
