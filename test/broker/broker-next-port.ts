// For tests of the newer dialect alone: clients of it, a REST side that returns the configured response, and sessions with a broker that
// does what a script has.
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ClientOptions } from '../../worker/broker/client.ts'
import { createNextBroker } from '../../worker/broker/dialects/next.ts'
import type { Broker } from '../../worker/broker/port.ts'
import type { Simulator } from '../../worker/simulator/server.ts'
import { appIds } from '../support/dialects.ts'
import { closeClients, log, newAccount, simulator } from './broker-port.ts'
import { type Script, scriptedBroker } from './broker-script.ts'

export const { appIdHeader } = simulator
const clients: Broker[] = []

/** A client of a broker in the newer dialect, the shared simulated one by default; closed by `closeNext`. */
export function nextClientOf(options: Partial<ClientOptions> = {}, at: Pick<Simulator, 'nextUrl'> = simulator): Broker {
  const client = createNextBroker({ url: at.nextUrl, appIdHeader, log, ...options })
  clients.push(client)
  return client
}

/** An account nobody has used yet, under an application of the newer dialect. */
export const newNextAccount = (flags = '') => newAccount(flags, appIds.next)

/** Closes the clients and the shared broker. */
export async function closeNext(): Promise<void> {
  for (const client of clients) await client.close()
  await closeClients()
}

/** A session with a broker whose response to each call is configured. */
export async function scripted(script: Script, options: Partial<ClientOptions> = {}) {
  const broker = await scriptedBroker(script)
  const rest = await startRest(200, { data: { url: broker.url } })
  const client = nextClientOf(options, { nextUrl: rest.base })
  const session = await client.session({ accountId: 'CR1', appId: appIds.next, token: async () => 'some-token' })
  const close = async () => {
    await client.close()
    await rest.close()
    await broker.close()
  }
  return { session, close }
}

/**
 * A REST side that responds to every call alike. Sockets opened at its own address are led to `socketPort`, as those for
 * market data are at the broker.
 */
export async function startRest(
  status: number,
  body: object,
  headers: Record<string, string> = {},
  socketPort?: string
) {
  const rest = { base: '', requests: 0, close: async () => {} }
  const server = createServer((_request, response) => {
    rest.requests += 1
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  })
  const upgraded = new Set<Duplex>()
  server.on('upgrade', (request, socket) => {
    upgraded.add(socket)
    if (socketPort === undefined) return void socket.destroy()
    const broker = connect(Number(socketPort), '127.0.0.1')
    const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`)
    broker.write(`GET ${request.url} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`)
    broker.pipe(socket).pipe(broker)
    for (const each of [broker, socket]) each.on('error', () => broker.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  rest.base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  rest.close = async () => {
    server.closeAllConnections()
    for (const socket of upgraded) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  }
  return rest
}
