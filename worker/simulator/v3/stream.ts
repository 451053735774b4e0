// The streams of one connection: each has an id and a key that prevents a second one, and starts only after the
// response that opened it was sent.
import type { DialectMapping } from '../engine/dialect-mapping.ts'
import { V3Error } from './errors.ts'

export type StreamKind =
  | 'balance'
  | 'candles'
  | 'proposal'
  | 'proposal_open_contract'
  | 'ticks'
  | 'transaction'
  | 'website_status'

export interface SimulatedStream {
  id: string
  kind: StreamKind
  key: string
  /** Sends an update: `field` is the body's name, and the message type unless another is given. */
  push(field: string, body: unknown, msgType?: string): void
  /** Ends the stream; harmless when it has ended. */
  end(): void
}

interface OpenedStream extends SimulatedStream {
  attach: (stream: SimulatedStream) => () => void
  detach: (() => void) | null
}

export class ClientStreams {
  #byId = new Map<string, OpenedStream>()
  #byKey = new Map<string, OpenedStream>()
  #newId: () => string
  #mapping: Pick<DialectMapping, 'present' | 'maxStreams'>
  #send: (text: string) => void

  constructor(
    newId: () => string,
    mapping: Pick<DialectMapping, 'present' | 'maxStreams'>,
    send: (text: string) => void
  ) {
    this.#newId = newId
    this.#mapping = mapping
    this.#send = send
  }

  /**
   * Opens a stream whose updates end with `tail` (the request's echo). `start` calls `attach`, which returns the
   * function that stops the stream. Throws AlreadySubscribed for a key that is open.
   */
  open(
    facts: { kind: StreamKind; key: string; tail: string; id?: string },
    attach: (stream: SimulatedStream) => () => void
  ): SimulatedStream {
    const key = `${facts.kind} ${facts.key}`
    if (this.#byKey.has(key)) throw new V3Error('AlreadySubscribed', `You are already subscribed to ${facts.kind}.`)
    this.checkRoom()
    const id = facts.id ?? this.#newId()
    const end = `${facts.tail},"subscription":{"id":"${id}"}}`
    const stream: OpenedStream = {
      id,
      kind: facts.kind,
      key,
      attach,
      detach: null,
      push: (field, body, msgType = field) => {
        if (!this.#byId.has(id)) return
        this.#send(`{"${field}":${JSON.stringify(this.#mapping.present(field, body))},"msg_type":"${msgType}",${end}`)
      },
      end: () => this.#end(stream)
    }
    this.#byId.set(id, stream)
    this.#byKey.set(key, stream)
    return stream
  }

  /** Throws RateLimit when no more streams may be opened here. */
  checkRoom(): void {
    if (this.#byId.size >= this.#mapping.maxStreams)
      throw new V3Error('RateLimit', 'Too many subscriptions on this connection.')
  }

  /** Lets a stream's updates begin. */
  start(stream: SimulatedStream): void {
    const opened = this.#byId.get(stream.id)
    if (!opened || opened.detach) return
    const detach = opened.attach(stream)
    if (this.#byId.has(stream.id)) opened.detach = detach
    else detach()
  }

  /** Ends the stream of that id; false when there is none. */
  forget(id: string): boolean {
    const stream = this.#byId.get(id)
    stream?.end()
    return stream !== undefined
  }

  /** Ends all streams of the given kinds, by default all; returns their ids. */
  forgetAll(kinds?: string[]): string[] {
    const ended = [...this.#byId.values()].filter(stream => kinds === undefined || kinds.includes(stream.kind))
    for (const stream of ended) stream.end()
    return ended.map(stream => stream.id)
  }

  count(kind: StreamKind): number {
    let count = 0
    for (const stream of this.#byId.values()) if (stream.kind === kind) count++
    return count
  }

  #end(stream: OpenedStream): void {
    if (!this.#byId.delete(stream.id)) return
    this.#byKey.delete(stream.key)
    stream.detach?.()
  }
}
