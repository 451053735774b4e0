// The streams of one connection: found by the number of the call that opened them or by the id the broker gave them,
// and updates held back that came before their stream was named.

/** A frame from the broker. Nothing in it is checked yet. */
export type Frame = Record<string, unknown>

/** Receives every frame of a subscribing call: its response, first or not, and every update. */
export interface Stream<Source = unknown> {
  /** Whether the frame, which came over `connection`, was of any use. */
  receive(frame: Frame, connection: Source): boolean
}

const MAX_HELD_FRAMES = 64

export class Streams {
  readonly #byReqId = new Map<number, Stream>()
  readonly #byId = new Map<string, Stream>()
  readonly #names = new Map<Stream, { reqId: number; subscriptionId: string | null }>()
  readonly #held = new Map<string, Frame[]>()
  #heldFrames = 0

  add(reqId: number, stream: Stream): void {
    this.#byReqId.set(reqId, stream)
    this.#names.set(stream, { reqId, subscriptionId: null })
  }

  find(reqId: number | null, subscriptionId: string | null): Stream | null {
    const byReqId = reqId === null ? undefined : this.#byReqId.get(reqId)
    return byReqId ?? (subscriptionId === null ? undefined : this.#byId.get(subscriptionId)) ?? null
  }

  /** Remembers the broker's id for a stream; the first one stays. Returns false for a stream that was dropped. */
  name(stream: Stream, subscriptionId: string): boolean {
    const names = this.#names.get(stream)
    if (names === undefined) return false
    if (names.subscriptionId !== null) return true
    names.subscriptionId = subscriptionId
    this.#byId.set(subscriptionId, stream)
    return true
  }

  /** Lets go of a stream; returns its id at the broker, if it has one. */
  drop(stream: Stream): string | null {
    const names = this.#names.get(stream)
    if (names === undefined) return null
    this.#names.delete(stream)
    this.#byReqId.delete(names.reqId)
    if (names.subscriptionId !== null) this.#byId.delete(names.subscriptionId)
    return names.subscriptionId
  }

  /** Whether updates are held back. */
  get holding(): boolean {
    return this.#heldFrames > 0
  }

  /** Keeps an update until its stream is named; false when too many are kept already. */
  hold(subscriptionId: string, frame: Frame): boolean {
    if (this.#heldFrames >= MAX_HELD_FRAMES) return false
    const held = this.#held.get(subscriptionId)
    if (held === undefined) this.#held.set(subscriptionId, [frame])
    else held.push(frame)
    this.#heldFrames += 1
    return true
  }

  heldIds(): string[] {
    return [...this.#held.keys()]
  }

  /** Hands out what was kept for an id. */
  release(subscriptionId: string): Frame[] {
    const frames = this.#held.get(subscriptionId) ?? []
    this.#held.delete(subscriptionId)
    this.#heldFrames -= frames.length
    return frames
  }

  clear(): void {
    this.#byReqId.clear()
    this.#byId.clear()
    this.#names.clear()
    this.#held.clear()
    this.#heldFrames = 0
  }
}

/** The broker's id of the stream a frame belongs to. */
export function subscriptionOf(frame: Frame): string | null {
  const id = (frame.subscription as { id?: unknown } | null | undefined)?.id
  return typeof id === 'string' ? id : null
}
