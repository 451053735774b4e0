// A network between two processes that can be made bad: connections cut, traffic held back for a while. What
// is held when its sender resets the connection is dropped, as the sender's kernel would drop what it could
// not deliver; what is held when its sender merely closes or dies still arrives.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { breakOff } from '../../worker/broker/transport/opening.ts'

type WireDirection = 'both' | 'there' | 'back'

/** One direction of a connection. */
class Pipe {
  #to: Socket
  #held: Buffer[] | undefined
  #ended = false

  /** What arrives is held from the first piece on that `isFirst` selects. */
  constructor(from: Socket, to: Socket, isFirst: (chunk: Buffer) => boolean = () => false) {
    this.#to = to
    from.on('data', chunk => {
      if (!this.#held && isFirst(chunk)) this.hold()
      if (this.#held) this.#held.push(chunk)
      else if (!to.write(chunk)) {
        from.pause()
        to.once('drain', () => from.resume())
      }
    })
    from.once('end', () => {
      this.#ended = true
      if (!this.#held) to.end()
    })
    from.once('error', () => {
      this.#held = undefined
      breakOff(to)
    })
  }

  hold(): void {
    this.#held ??= []
  }

  /** Bytes that are held here. */
  get held(): number {
    return this.#held?.reduce((sum, { length }) => sum + length, 0) ?? 0
  }

  release(): void {
    const held = this.#held
    this.#held = undefined
    if (!held || this.#to.destroyed) return
    for (const chunk of held) this.#to.write(chunk)
    if (this.#ended) this.#to.end()
  }
}

interface Link {
  sockets: [Socket, Socket]
  there: Pipe
  back: Pipe
}

export class FaultyNetwork {
  readonly #server: Server
  readonly #links = new Set<Link>()
  /** While it is there, what is sent over new connections is held in it. */
  #held: Pipe[] | undefined
  /** Whether what is sent over a connection is held from this piece on. */
  #isFirst: (chunk: Buffer) => boolean = () => false
  /** While false, nobody gets through: new connections are reset. */
  passing = true

  /** A network before 127.0.0.1:`target`. */
  static async open(target: number): Promise<FaultyNetwork> {
    const network = new FaultyNetwork(target)
    network.#server.listen(0, '127.0.0.1')
    await once(network.#server, 'listening')
    return network
  }

  private constructor(target: number) {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, client => {
      if (!this.passing) return void client.on('error', () => {}).resetAndDestroy()
      const server = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
      const link: Link = {
        sockets: [client, server],
        there: new Pipe(client, server, chunk => this.#isFirst(chunk)),
        back: new Pipe(server, client)
      }
      this.#links.add(link)
      if (this.#held) {
        link.there.hold()
        this.#held.push(link.there)
      }
      for (const socket of link.sockets) socket.once('close', () => this.#links.delete(link))
    })
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get connections(): number {
    return this.#links.size
  }

  /** Cuts the connections that `choose` selects; returns how many. */
  cut(choose: () => boolean = () => true): number {
    const chosen = [...this.#links].filter(() => choose())
    for (const { sockets } of chosen) for (const socket of sockets) breakOff(socket)
    return chosen.length
  }

  /**
   * Holds the traffic of the connections that `choose` selects until `release` is called; `bytes` reports how much there is.
   */
  hold(choose: () => boolean, direction: WireDirection): { held: number; bytes(): number; release(): void } {
    const pipes = [...this.#links]
      .filter(() => choose())
      .flatMap(({ there, back }) => (direction === 'both' ? [there, back] : direction === 'there' ? [there] : [back]))
    for (const pipe of pipes) pipe.hold()
    return {
      held: pipes.length,
      bytes: () => pipes.reduce((sum, pipe) => sum + pipe.held, 0),
      release() {
        for (const pipe of pipes) pipe.release()
      }
    }
  }

  /** Holds what is sent over any connection, also a new one, from the first piece on that has the text, until `release` is called. */
  holdFrom(text: string): { holds(): boolean; release(): void } {
    let holds = false
    this.#isFirst = chunk => {
      const isFirst = chunk.includes(text)
      holds ||= isFirst
      return isFirst
    }
    return {
      holds: () => holds,
      release: () => {
        this.#isFirst = () => false
        for (const { there } of this.#links) there.release()
      }
    }
  }

  /** Holds what is sent over connections that are opened from now on, until `release` is called. */
  holdNew(): { bytes(): number; release(): void } {
    const pipes: Pipe[] = []
    this.#held = pipes
    return {
      bytes: () => pipes.reduce((sum, pipe) => sum + pipe.held, 0),
      release: () => {
        this.#held = undefined
        for (const pipe of pipes) pipe.release()
      }
    }
  }

  async close(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
