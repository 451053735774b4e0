// What worker/broker/transport/opening.ts is in a simulation: a socket whose frames are handed over in memory, to whoever serves
// its address, and the way to break it off.
import { EventEmitter } from 'node:events'
import { BrokerError } from '../../worker/broker/broker-error.ts'

/** The other end of a socket. */
export interface SocketPeer {
  receive(text: string): void
  /** The socket is closed, or broken off: `reset` means that nothing more of it is delivered. */
  ended(reset: boolean): void
}

/** A socket as far as the dialects use one. */
export class Socket extends EventEmitter {
  readyState = 1
  readonly bufferedAmount = 0
  peer: SocketPeer | undefined

  send(text: string): void {
    this.peer?.receive(text)
  }

  close(code = 1000): void {
    this.#end(code, false)
  }

  terminate(): void {
    this.#end(1006, true)
  }

  /** A frame from the other end. */
  arrive(frame: object): void {
    if (this.readyState === 1) this.emit('message', Buffer.from(JSON.stringify(frame)), false)
  }

  #end(code: number, reset: boolean): void {
    if (this.readyState === 3) return
    this.readyState = 3
    this.peer?.ended(reset)
    this.emit('close', code)
  }
}

type Dial = (url: string) => Promise<Socket>

let dial: Dial = async () => {
  throw new Error('nobody serves sockets here')
}

/** Has `serve` open every socket from now on. */
export function serveSockets(serve: Dial): void {
  dial = serve
}

/** As opening.ts does: rejects with BrokerError NotConnected when there is no connection in time. */
export function openSocket<Attached>(
  { url, connectTimeoutMs }: { url: string; connectTimeoutMs: number },
  attach: (open: { socket: Socket; wire: Socket }) => Attached
): Promise<Attached> {
  return new Promise((resolve, reject) => {
    const fail = (cause: string) =>
      reject(
        new BrokerError('BROKER_UPSTREAM', 'The broker could not be reached.', {
          brokerCode: 'NotConnected',
          ran: 'no',
          cause
        })
      )
    let late = false
    const timer = setTimeout(() => {
      late = true
      fail('no connection in time')
    }, connectTimeoutMs)
    dial(url).then(
      socket => {
        clearTimeout(timer)
        if (late) socket.terminate()
        else resolve(attach({ socket, wire: socket }))
      },
      (error: Error) => {
        clearTimeout(timer)
        fail(error.message)
      }
    )
  })
}

/** Resets a connection; `afterwards` runs when it is closed. */
export function breakOff(
  wire: Socket,
  { afterwards = () => {} }: { ending?: boolean; afterwards?: () => void } = {}
): void {
  wire.terminate()
  setImmediate(afterwards)
}
