// The contract subscriptions of an account's session. A stream dies with its connection; those still needed are
// requested again on the next one (restoring.ts), and given up only when that fails for a minute. A connection carries
// only so many streams (stream-places.ts); contracts whose end is far are parked without one (parked.ts).

import { BrokerError } from '../broker-error.ts'
import type { Dialect, PipSizeOf } from '../dialects/dialect.ts'
import { bodyOf } from '../dialects/reading.ts'
import { endOf } from '../dialects/shortcode.ts'
import type { Bought, ContractListener, ContractState } from '../port.ts'
import { ParkedContracts, type ParkedOptions } from './parked.ts'
import { readResponse } from './reconnecting.ts'
import { Restoring } from './restoring.ts'
import type { BrokerConnection, Frame, Stream } from './sockets.ts'
import { StreamPlaces } from './stream-places.ts'
import { type ContractSubscription, newSubscription, type Source } from './subscription.ts'

export interface SubscriptionsOptions extends Omit<ParkedOptions, 'onOver' | 'onBehind'> {
  dialect: Dialect
  pipSizeOf: PipSizeOf
  /** How long a stream may be missing before `lost` is called on its listeners. */
  lostAfterMs: number
}

// A sale by another program is found after this at the latest.
const AWAY_MS = 10 * 60_000
const CALL = 'proposal_open_contract'

export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #byContract = new Map<string, ContractSubscription>()
  readonly #parked: ParkedContracts
  readonly #places: StreamPlaces
  readonly #restoring: Restoring

  constructor(options: SubscriptionsOptions) {
    this.#options = options
    this.#parked = new ParkedContracts({
      ...options,
      onOver: (contractId, sold) => this.#wake(contractId, sold),
      onBehind: () => this.#restoring.begin()
    })
    this.#places = new StreamPlaces(options, this.#byContract, () => this.#restoring.skipPause())
    this.#restoring = new Restoring({
      subscriptions: this.#byContract,
      parked: this.#parked,
      places: this.#places,
      log: options.log,
      request: subscription => this.#again(subscription),
      catchUp: () => this.#catchUp()
    })
  }

  /** Contracts subscribed to. */
  get size(): number {
    return this.#byContract.size
  }

  /** How long all of them remain parked, in ms; 0 when one is not. */
  get parkedMs(): number {
    let least = Infinity
    for (const contractId of this.#byContract.keys()) least = Math.min(least, this.#parked.leftOf(contractId))
    return Number.isFinite(least) ? least : 0
  }

  /** Whether a contract bought now that ends then (epoch seconds) needs no stream for a while. */
  mayPark(endsAt: number): boolean {
    return this.#parked.lengthOf(endsAt) > 0
  }

  /** Keeps a place for the stream of a purchase, until the returned function is called; null when all are taken. */
  reserve(): (() => void) | null {
    return this.#places.reserve()
  }

  /** Subscribes to a contract, sharing a stream that is there; resolves with its first state, or its latest known. */
  async subscribe(contractId: string, listener: ContractListener): Promise<ContractState> {
    const known = this.#byContract.get(contractId)
    if (known?.last != null && known.source !== null) {
      known.listeners.add(listener)
      this.#notify(known, () => listener.update(known.last!))
      return known.last
    }
    const subscription = known ?? this.#add(contractId)
    subscription.listeners.add(listener)
    try {
      return await this.#openShared(subscription)
    } catch (error) {
      // The caller is notified by the rejection alone, unless others still wait for this contract.
      subscription.listeners.delete(listener)
      if (subscription.listeners.size === 0) this.#remove(subscription)
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
    const subscription = this.#byContract.get(contractId) ?? this.#add(contractId)
    subscription.listeners.add(listener)
    subscription.endsAt = expiryTime
    if (source === null || subscription.source !== null) {
      this.#places.release(source, subscription.contractId)
      if (subscription.source === null && !this.#park(subscription)) this.#restoring.begin()
      return () => false
    }
    subscription.source = source
    return frame => this.#receive(subscription, frame, source)
  }

  /** Unsubscribes, also at the broker. */
  unsubscribe(contractId: string): void {
    const subscription = this.#byContract.get(contractId)
    if (subscription === undefined) return
    const { source } = subscription
    this.#remove(subscription)
    this.#places.release(source, subscription.contractId)
  }

  /** A connection is gone: its streams are requested again on the next one. */
  down(connection: BrokerConnection): void {
    const now = performance.now()
    for (const subscription of this.#byContract.values()) {
      if (subscription.source?.connection !== connection) continue
      subscription.source = null
      subscription.awaySince = now
    }
    this.#parked.down(connection)
    this.#restoring.begin()
  }

  /**
   * Gives up parked contracts, so that their connection can serve another account: each listener is called with when to
   * return.
   */
  giveWay(): void {
    for (const subscription of [...this.#byContract.values()]) {
      const retryMs = Math.min(this.#parked.leftOf(subscription.contractId), AWAY_MS)
      this.#lose(subscription, gaveWay(retryMs))
    }
  }

  /** Gives up all subscriptions. */
  close(cause: unknown): void {
    this.#restoring.stop()
    for (const subscription of [...this.#byContract.values()]) this.#lose(subscription, cause)
  }

  #add(contractId: string): ContractSubscription {
    const subscription = newSubscription(contractId)
    this.#byContract.set(contractId, subscription)
    return subscription
  }

  #remove(subscription: ContractSubscription): void {
    subscription.over = true
    this.#parked.end(subscription.contractId)
    if (this.#byContract.get(subscription.contractId) === subscription) this.#byContract.delete(subscription.contractId)
  }

  /** Opens the contract's stream; callers at the same time share one subscription. */
  #openShared(subscription: ContractSubscription): Promise<ContractState> {
    subscription.requesting ??= this.#request(subscription).finally(() => {
      subscription.requesting = null
    })
    return subscription.requesting
  }

  async #request(subscription: ContractSubscription): Promise<ContractState> {
    const request = { proposal_open_contract: 1, contract_id: Number(subscription.contractId) }
    const stream: Stream<BrokerConnection> = {
      receive: (frame, connection) => this.#receive(subscription, frame, { connection, stream })
    }
    const { reconnecting } = this.#options
    const subscribing = this.#places.free() > 0 && !this.#places.isLeaving(subscription.contractId)
    this.#parked.end(subscription.contractId)
    let frame: Frame
    try {
      subscription.subscribing = subscribing
      frame = await reconnecting.read(CALL, subscribing ? { ...request, subscribe: 1 } : request, { stream })
    } catch (error) {
      reconnecting.leaveDoubled(error)
      throw error
    } finally {
      subscription.subscribing = false
    }
    const state = readResponse(frame, each => this.#read(each))
    if (!subscription.over && frame.subscription === undefined && !this.#parked.has(subscription.contractId))
      this.#away(subscription)
    return state
  }

  #receive(subscription: ContractSubscription, frame: Frame, source: Source): boolean {
    if (subscription.over) {
      // Given up while it was being requested: only now its stream can be ended.
      if (frame.subscription !== undefined) this.#places.release(source, subscription.contractId)
      return false
    }
    if (subscription.source !== null && subscription.source.stream !== source.stream) {
      this.#places.release(source, subscription.contractId)
      return false
    }
    if (frame.error !== undefined) {
      this.#away(subscription)
      return true
    }
    if (frame.proposal_open_contract === undefined) return false
    const state = this.#read(frame)
    // A settled state with another contract id is passed to the listener, which judges it; an open one is ignored.
    if (state.contractId !== subscription.contractId && !state.settled) return false
    // Frames sent before we unsubscribed may still arrive; only a settlement matters.
    const parked = this.#parked.has(subscription.contractId)
    if (parked && !state.settled) return true
    if (frame.subscription !== undefined && source.connection.usable) subscription.source = source
    if (subscription.last === null && state.shortcode !== null) subscription.endsAt = endOf(state.shortcode)
    subscription.last = state
    if (state.settled) {
      this.#remove(subscription)
      // The broker keeps the stream of an ended contract open until it is forgotten.
      this.#places.release(source, subscription.contractId)
    }
    for (const listener of subscription.listeners) this.#notify(subscription, () => listener.update(state))
    if (!state.settled) this.#park(subscription)
    return true
  }

  /** Parks a contract, if it may be: its stream ends. Returns whether it is parked. */
  #park(subscription: ContractSubscription): boolean {
    const ms = subscription.over || subscription.mustStream ? 0 : this.#parked.lengthOf(subscription.endsAt)
    if (ms === 0) return false
    const { source } = subscription
    subscription.source = null
    this.#parked.begin(subscription.contractId, ms)
    this.#places.release(source, subscription.contractId)
    for (const listener of subscription.listeners) this.#notify(subscription, () => listener.parked?.(ms))
    return true
  }

  #wake(contractId: string, sold: boolean): void {
    const subscription = this.#byContract.get(contractId)
    if (subscription === undefined) return
    subscription.mustStream ||= sold
    subscription.awaySince = performance.now()
    void this.#again(subscription).then(() => this.#restoring.begin())
  }

  /** The stream delivers nothing although the connection is up: request it again. */
  #away(subscription: ContractSubscription): void {
    subscription.source = null
    subscription.awaySince = performance.now()
    this.#restoring.begin()
  }

  #read(frame: Frame): ContractState {
    const body = bodyOf(frame.proposal_open_contract, CALL)
    if (Object.keys(body).length === 0) throw notFound()
    return this.#options.dialect.readState(body, this.#options.pipSizeOf)
  }

  /** A contract stays parked only while the account's sales are received. */
  async #catchUp(): Promise<void> {
    if (this.#parked.behindMs === null) return
    try {
      await this.#parked.catchUp()
    } catch (error) {
      if (!isFinal(error) && (this.#parked.behindMs ?? 0) <= this.#options.lostAfterMs) return
      for (const contractId of this.#parked.ids())
        this.#lose(this.#byContract.get(contractId) as ContractSubscription, error)
    }
  }

  async #again(subscription: ContractSubscription): Promise<void> {
    if (subscription.over || subscription.source !== null || subscription.requesting !== null) return
    try {
      await this.#openShared(subscription)
    } catch (error) {
      const away = performance.now() - subscription.awaySince
      const { reconnecting, log, lostAfterMs } = this.#options
      log.debug(
        { contractId: subscription.contractId, awayMs: Math.round(away), up: reconnecting.current !== null },
        'a stream is still away'
      )
      if (isFinal(error) || away > lostAfterMs) this.#lose(subscription, error)
    }
  }

  #lose(subscription: ContractSubscription, cause: unknown): void {
    if (subscription.over) return
    this.#remove(subscription)
    for (const listener of subscription.listeners) this.#notify(subscription, () => listener.lost(cause))
  }

  #notify(subscription: ContractSubscription, notify: () => void): void {
    try {
      notify()
    } catch (cause) {
      this.#options.log.error({ err: cause, contractId: subscription.contractId }, 'a contract listener failed')
    }
  }
}

function gaveWay(retryMs: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection of parked contracts was needed for another account.', {
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
