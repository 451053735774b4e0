// The contract subscriptions of an account's session. A stream dies with its connection; those still needed are
// requested again on the next one, and given up only when that fails for a minute. A connection carries only so many
// streams: contracts beyond that wait for a place, and are read now and then meanwhile. Those whose end is far are
// parked without one (rests.ts).
import { setTimeout as delay } from 'node:timers/promises'
import type { Dialect, PipSizeOf } from '../dialects/dialect.ts'
import { bodyOf } from '../dialects/reading.ts'
import { endOf } from '../dialects/shortcode.ts'
import { type Bought, BrokerError, type ContractListener, type ContractState } from '../port.ts'
import { readAnswer } from './line.ts'
import { Rests, type RestsOptions } from './rests.ts'
import type { Connection, Frame, Stream } from './sockets.ts'

export interface FollowsOptions extends Omit<RestsOptions, 'onOver' | 'onBehind'> {
  dialect: Dialect
  pipSizeOf: PipSizeOf
  /** How long a stream may be missing before `lost` is called on its listeners. */
  lostAfterMs: number
}

interface Source {
  connection: Connection
  stream: Stream
}

interface Follow {
  contractId: string
  listeners: Set<ContractListener>
  last: ContractState | null
  /** When it ends (epoch seconds), where that is known beforehand and its value is not needed until then. */
  endsAt: number | null
  /** It seems to have ended and must not be parked. */
  restless: boolean
  /** Where it streams now; null while it is parked or waits for a connection. */
  source: Source | null
  /** The subscription under way. */
  asking: Promise<ContractState> | null
  /** Whether that request subscribes to a stream. */
  subscribing: boolean
  awaySince: number
  over: boolean
}

const backOffStepMs = 1_000
const backOffCapMs = 15_000
// A sale by another program is found so late at most.
const AWAY_MS = 10 * 60_000
/** Contracts without a place for a stream that are read in one round. */
const askedPerRound = 10
const answer = 'proposal_open_contract'

export class Follows {
  readonly #options: FollowsOptions
  readonly #byContract = new Map<string, Follow>()
  readonly #stop = new AbortController()
  readonly #rests: Rests
  #restoring = false
  #reserved = 0
  /** Contracts whose last stream is not yet ended at the broker: another one would be refused. */
  readonly #leaving = new Set<string>()
  /** Ends the pause of contracts that wait for a place. */
  #pause: AbortController | null = null

  constructor(options: FollowsOptions) {
    this.#options = options
    this.#rests = new Rests({
      ...options,
      onOver: (contractId, sold) => this.#wake(contractId, sold),
      onBehind: () => this.#restore()
    })
  }

  /** Contracts followed. */
  get size(): number {
    return this.#byContract.size
  }

  /** How long all of them remain parked, in ms; 0 when one is not. */
  get restMs(): number {
    let least = Infinity
    for (const contractId of this.#byContract.keys()) least = Math.min(least, this.#rests.leftOf(contractId))
    return Number.isFinite(least) ? least : 0
  }

  /** Whether a contract bought now that ends then (epoch seconds) needs no stream for a while. */
  mayRest(endsAt: number): boolean {
    return this.#rests.lengthOf(endsAt) > 0
  }

  /** Keeps a place for the stream of a purchase, until the returned function is called; null when all are taken. */
  reserve(): (() => void) | null {
    if (this.#places() <= 0) return null
    this.#reserved += 1
    return () => {
      this.#reserved -= 1
      this.#freed()
    }
  }

  /** Follows a contract, sharing a stream that is there; resolves with its first state, or its latest known. */
  async follow(contractId: string, listener: ContractListener): Promise<ContractState> {
    const known = this.#byContract.get(contractId)
    if (known?.last != null && known.source !== null) {
      known.listeners.add(listener)
      this.#tell(known, () => listener.update(known.last!))
      return known.last
    }
    const follow = known ?? this.#add(contractId)
    follow.listeners.add(listener)
    try {
      return await this.#subscribe(follow)
    } catch (error) {
      // The caller learns it from the rejection alone, unless others still wait for this contract.
      follow.listeners.delete(listener)
      if (follow.listeners.size === 0) this.#remove(follow)
      throw error
    }
  }

  /**
   * Takes over the stream that a purchase opened; null when it opened none. The returned function takes that stream's
   * frames.
   */
  adopt(
    { contractId, expiryTime }: Pick<Bought, 'contractId' | 'expiryTime'>,
    source: Source | null,
    listener: ContractListener
  ): (frame: Frame) => boolean {
    const follow = this.#byContract.get(contractId) ?? this.#add(contractId)
    follow.listeners.add(listener)
    follow.endsAt = expiryTime
    if (source === null || follow.source !== null) {
      this.#release(source, follow.contractId)
      if (follow.source === null && !this.#rest(follow)) this.#restore()
      return () => false
    }
    follow.source = source
    return frame => this.#hear(follow, frame, source)
  }

  /** Stops following, also at the broker. */
  unfollow(contractId: string): void {
    const follow = this.#byContract.get(contractId)
    if (follow === undefined) return
    const { source } = follow
    this.#remove(follow)
    this.#release(source, follow.contractId)
  }

  /** A connection is gone: its streams are sought again elsewhere. */
  down(connection: Connection): void {
    const now = performance.now()
    for (const follow of this.#byContract.values()) {
      if (follow.source?.connection !== connection) continue
      follow.source = null
      follow.awaySince = now
    }
    this.#rests.down(connection)
    this.#restore()
  }

  /**
   * Gives up parked contracts, so that their connection can serve another account: each listener is called with when to
   * return.
   */
  giveWay(): void {
    for (const follow of [...this.#byContract.values()]) {
      const retryMs = Math.min(this.#rests.leftOf(follow.contractId), AWAY_MS)
      this.#lose(follow, gaveWay(retryMs))
    }
  }

  /** Gives up everything followed. */
  close(cause: unknown): void {
    this.#stop.abort()
    for (const follow of [...this.#byContract.values()]) this.#lose(follow, cause)
  }

  #add(contractId: string): Follow {
    const follow: Follow = {
      contractId,
      listeners: new Set(),
      last: null,
      endsAt: null,
      restless: false,
      source: null,
      asking: null,
      subscribing: false,
      awaySince: performance.now(),
      over: false
    }
    this.#byContract.set(contractId, follow)
    return follow
  }

  #remove(follow: Follow): void {
    follow.over = true
    this.#rests.end(follow.contractId)
    if (this.#byContract.get(follow.contractId) === follow) this.#byContract.delete(follow.contractId)
  }

  /** Opens the contract's stream; askers at the same time share one subscription. */
  #subscribe(follow: Follow): Promise<ContractState> {
    follow.asking ??= this.#ask(follow).finally(() => {
      follow.asking = null
    })
    return follow.asking
  }

  /** How many more streams the connection carries. */
  #places(): number {
    const { dialect, line } = this.#options
    let places = dialect.maxStreams - this.#reserved - (line.current?.lingering ?? 0)
    // Mostly there are few contracts, and no need to count.
    if (this.#byContract.size < places) return places - this.#byContract.size
    for (const { source, subscribing } of this.#byContract.values()) if (source !== null || subscribing) places -= 1
    return places
  }

  async #ask(follow: Follow): Promise<ContractState> {
    const request = { proposal_open_contract: 1, contract_id: Number(follow.contractId) }
    const stream: Stream<Connection> = {
      hear: (frame, connection) => this.#hear(follow, frame, { connection, stream })
    }
    const { line } = this.#options
    const subscribing = this.#places() > 0 && !this.#leaving.has(follow.contractId)
    this.#rests.end(follow.contractId)
    let frame: Frame
    try {
      follow.subscribing = subscribing
      frame = await line.read(answer, subscribing ? { ...request, subscribe: 1 } : request, { stream })
    } catch (error) {
      line.leaveDoubled(error)
      throw error
    } finally {
      follow.subscribing = false
    }
    const state = readAnswer(frame, each => this.#read(each))
    if (!follow.over && frame.subscription === undefined && !this.#rests.has(follow.contractId)) this.#away(follow)
    return state
  }

  #hear(follow: Follow, frame: Frame, source: Source): boolean {
    if (follow.over) return false
    if (follow.source !== null && follow.source.stream !== source.stream) {
      this.#release(source, follow.contractId)
      return false
    }
    if (frame.error !== undefined) {
      this.#away(follow)
      return true
    }
    if (frame.proposal_open_contract === undefined) return false
    const state = this.#read(frame)
    // A settled state under another id is for the listener to judge; of an open contract it is of no use.
    if (state.contractId !== follow.contractId && !state.settled) return false
    // Frames sent before we unsubscribed may still arrive; only a settlement matters.
    const resting = this.#rests.has(follow.contractId)
    if (resting && !state.settled) return true
    if (frame.subscription !== undefined && source.connection.usable) follow.source = source
    if (follow.last === null && state.shortcode !== null) follow.endsAt = endOf(state.shortcode)
    follow.last = state
    if (state.settled) {
      this.#remove(follow)
      // The broker keeps the stream of an ended contract open until it is forgotten.
      this.#release(source, follow.contractId)
    }
    for (const listener of follow.listeners) this.#tell(follow, () => listener.update(state))
    if (!state.settled) this.#rest(follow)
    return true
  }

  /** Parks a contract, if it may be: its stream ends. Returns whether it is parked. */
  #rest(follow: Follow): boolean {
    const ms = follow.over || follow.restless ? 0 : this.#rests.lengthOf(follow.endsAt)
    if (ms === 0) return false
    const { source } = follow
    follow.source = null
    this.#rests.begin(follow.contractId, ms)
    this.#release(source, follow.contractId)
    for (const listener of follow.listeners) this.#tell(follow, () => listener.rests?.(ms))
    return true
  }

  /** Ends a stream at the broker; its place is free once that is done. */
  #release(source: Source | null, contractId: string): void {
    if (source === null) return
    this.#leaving.add(contractId)
    void source.connection.forget(source.stream).then(() => {
      this.#leaving.delete(contractId)
      this.#freed()
    })
  }

  #wake(contractId: string, sold: boolean): void {
    const follow = this.#byContract.get(contractId)
    if (follow === undefined) return
    follow.restless ||= sold
    follow.awaySince = performance.now()
    void this.#again(follow).then(() => this.#restore())
  }

  /** The stream brings nothing any more, though the connection is up: request it again. */
  #away(follow: Follow): void {
    follow.source = null
    follow.awaySince = performance.now()
    this.#restore()
  }

  #read(frame: Frame): ContractState {
    const body = bodyOf(frame.proposal_open_contract, answer)
    if (Object.keys(body).length === 0) throw notFound()
    return this.#options.dialect.readState(body, this.#options.pipSizeOf)
  }

  #restore(): void {
    if (this.#restoring || this.#stop.signal.aborted) return
    this.#restoring = true
    this.#restoreAll().catch(cause => {
      this.#restoring = false
      this.#options.log.error({ err: cause }, 'streams could not be restored')
    })
  }

  /** A place is free; a contract that waits for one skips the rest of the pause. */
  #freed(): void {
    this.#pause?.abort()
  }

  async #restoreAll(): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const away = [...this.#byContract.values()].filter(
        ({ source, contractId }) => source === null && !this.#rests.has(contractId)
      )
      if (away.length === 0 && this.#rests.behindMs === null) {
        this.#restoring = false
        return
      }
      const pauseMs = Math.min(backOffStepMs * 2 ** attempt, backOffCapMs) * Math.random() * (attempt === 0 ? 0.25 : 1)
      const crowded = away.length > this.#places()
      if (crowded) this.#pause = new AbortController()
      const { signal: freed } = this.#pause ?? this.#stop
      await delay(pauseMs, undefined, { signal: AbortSignal.any([this.#stop.signal, freed]) }).catch(() => undefined)
      this.#pause = null
      if (this.#stop.signal.aborted) return
      // The one requested longest ago first. A free place is no reason to read more contracts than it takes.
      away.sort((one, other) => one.awaySince - other.awaySince)
      const asked = Math.max(0, this.#places()) + (freed.aborted ? 0 : askedPerRound)
      const some = crowded ? away.slice(0, asked) : away
      await Promise.all([this.#catchUp(), ...some.map(follow => this.#again(follow))])
    }
  }

  /** A contract stays parked only while the account's sales are received. */
  async #catchUp(): Promise<void> {
    if (this.#rests.behindMs === null) return
    try {
      await this.#rests.catchUp()
    } catch (error) {
      if (!isFinal(error) && (this.#rests.behindMs ?? 0) <= this.#options.lostAfterMs) return
      for (const contractId of this.#rests.ids()) this.#lose(this.#byContract.get(contractId) as Follow, error)
    }
  }

  async #again(follow: Follow): Promise<void> {
    if (follow.over || follow.source !== null || follow.asking !== null) return
    try {
      await this.#subscribe(follow)
    } catch (error) {
      const away = performance.now() - follow.awaySince
      const { line, log, lostAfterMs } = this.#options
      log.debug(
        { contractId: follow.contractId, awayMs: Math.round(away), up: line.current !== null },
        'a stream is still away'
      )
      if (isFinal(error) || away > lostAfterMs) this.#lose(follow, error)
    }
  }

  #lose(follow: Follow, cause: unknown): void {
    if (follow.over) return
    this.#remove(follow)
    for (const listener of follow.listeners) this.#tell(follow, () => listener.lost(cause))
  }

  #tell(follow: Follow, tell: () => void): void {
    try {
      tell()
    } catch (cause) {
      this.#options.log.error({ err: cause, contractId: follow.contractId }, 'a contract listener failed')
    }
  }
}

function gaveWay(retryMs: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection of resting contracts was needed for another account.', {
    brokerCode: 'GaveWay',
    ran: 'no',
    retryMs
  })
}

/** Refused for good: the token, or the contract is not this account's. */
function isFinal(error: unknown): boolean {
  return error instanceof BrokerError && (error.rejected || error.code === 'INVALID_CONTRACT')
}

/** The broker returns an empty body for a contract it does not know. */
export function notFound(): BrokerError {
  return new BrokerError('INVALID_CONTRACT', 'The broker does not know this contract.', {
    brokerCode: 'ContractNotFound',
    ran: 'no'
  })
}
