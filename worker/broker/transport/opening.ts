// Opening a WebSocket to the broker, and the TCP connection below it, which alone can be broken off at once.
import { connect, isIP, type Socket, type TcpNetConnectOpts } from 'node:net'
import { type ConnectionOptions as ConnectionOptionsOfTls, connect as connectTls } from 'node:tls'
import WebSocket, { type ClientOptions } from 'ws'
import { BrokerError } from '../broker-error.ts'

const MAX_FRAME_BYTES = 16 * 1024 * 1024

export interface OpenSocket {
  socket: WebSocket
  /** What the socket writes to. */
  wire: Socket
}

/**
 * Opens a socket and returns the result of `attach`, which runs at once: a frame, or the end, may follow before code
 * that awaits this goes on. Rejects with BrokerError BROKER_UPSTREAM (ran 'no'): NotConnected, or Refused with the HTTP
 * status of a refused upgrade.
 */
export function openSocket<Attached>(
  { url, connectTimeoutMs }: { url: string; connectTimeoutMs: number },
  attach: (open: OpenSocket) => Attached
): Promise<Attached> {
  return new Promise((resolve, reject) => {
    let wire: Socket | undefined
    const socket = new WebSocket(url, {
      createConnection: ((where: TcpNetConnectOpts & { host: string }) => {
        wire = connect({ host: where.host, port: where.port })
        if (!url.startsWith('wss:')) return wire
        const servername = isIP(where.host) ? '' : where.host
        return connectTls({ ...where, path: undefined, servername, socket: wire } as ConnectionOptionsOfTls)
      }) as NonNullable<ClientOptions['createConnection']>,
      // Compression would write a frame later than send() is called, and a purchase must leave at that moment.
      perMessageDeflate: false,
      maxPayload: MAX_FRAME_BYTES,
      followRedirects: false
    })
    const fail = (message: string, brokerCode: string, cause?: unknown) => {
      clearTimeout(timer)
      socket.terminate()
      reject(new BrokerError('BROKER_UPSTREAM', message, { brokerCode, ran: 'no', cause }))
    }
    const timer = setTimeout(
      () => fail('The broker did not accept a connection in time.', 'NotConnected'),
      connectTimeoutMs
    )
    const onError = (cause: Error) => fail('The broker could not be reached.', 'NotConnected', cause.message)
    socket.on('error', onError)
    socket.once('unexpected-response', (_request, response) => {
      fail('The broker refused the connection.', 'Refused', `status ${response.statusCode}`)
    })
    socket.once('open', () => {
      clearTimeout(timer)
      socket.off('error', onError)
      resolve(attach({ socket, wire: wire as Socket }))
    })
  })
}

/**
 * Resets a connection; `afterwards` runs when it is closed. One whose last byte was written and whose end is just being
 * sent cannot be reset in that moment: Node would report EINVAL, never close it, and spin for ever at its own exit.
 * `ending` means that a layer above the connection, such as TLS, may be sending an end of its own. And that layer must
 * not be destroyed before the close: a TLS socket torn down in the turn of the reset below it ends the whole process
 * with a segmentation fault.
 */
export function breakOff(wire: Socket, { ending = false, afterwards = () => {} } = {}): void {
  const reset = () => {
    if (wire.destroyed) return void setImmediate(afterwards)
    wire.on('error', () => {})
    wire.once('close', afterwards)
    wire.resetAndDestroy()
  }
  const finishing = wire.writableEnded && !wire.writableFinished && wire.writableLength === 0
  if (ending || finishing) setImmediate(reset)
  else reset()
}
