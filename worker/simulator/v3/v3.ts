// The first dialect: one JSON object a frame over a WebSocket. The steps of a request are in connection.ts, the calls
// in the other files of this folder. None of it uses sockets: the owner of a socket hands in a peer.
import type { Grant } from '../engine/accounts.ts'
import type { PurchaseTerms } from '../engine/contracts.ts'
import { type DialectMapping, v3Mapping } from '../engine/dialect-mapping.ts'
import type { Engine } from '../engine/engine.ts'
import type { Quota } from '../engine/quota.ts'
import { hashNumber } from '../engine/random.ts'
import type { AppId, SimulatedAccount } from '../engine/records.ts'
import type { Faults } from '../faults.ts'
import type { ClientStreams, SimulatedStream } from './stream.ts'

/** The other end of a connection. */
export interface Peer {
  /** Hands a frame over; false when the connection can no longer take one. */
  send(text: string): boolean
  /** Ends the conversation in good order. */
  close(): void
  /** Cuts it. */
  terminate(): void
}

/** What calls read and change of the connection they come over. */
export interface ClientSession {
  readonly appId: AppId
  readonly streams: ClientStreams
  /** Authorised accounts, by login id. */
  grants: Map<string, Grant>
  /** Authorised for several accounts at once: account calls must name the account. */
  multi: boolean
  /** Terms quoted on this connection and not yet bought, by proposal id. */
  readonly proposals: Map<string, PurchaseTerms>
  /** Cuts the connection. */
  cut(): void
}

export type CallRequest = Record<string, unknown>

/** A response: the body under its name, and what to do after it was sent. */
export interface CallResponse {
  body: Record<string, unknown>
  msgType?: string
  stream?: SimulatedStream
  sent?: () => void
}

/** What a call is handed besides its request. */
export interface CallContext {
  v3: V3
  connection: ClientSession
  /** The account it is about; null where none is needed and none known. */
  grant: Grant | null
  /** The account; only for calls that need one. */
  account: SimulatedAccount
  /** The end of every frame that responds to it. */
  tail: string
}

export type Handler = (request: CallRequest, call: CallContext) => CallResponse | CallResponse[]

export interface SimulatedV3Options {
  engine: Engine
  faults: Faults
  quota: Quota
  /** Lenient accepts numbers for strings and the reverse, as the live broker does; default strict. */
  mode?: 'strict' | 'lenient'
  idleMs?: number
  /** Whether the stakes of magic.ts provoke their trouble. */
  magic?: boolean
  seed?: number
  /** Default: the first dialect's own. */
  mapping?: DialectMapping
}

const IDLE_MS = 120_000

export class V3 {
  readonly engine: Engine
  readonly faults: Faults
  readonly quota: Quota
  readonly mode: 'strict' | 'lenient'
  readonly idleMs: number
  readonly magic: boolean
  readonly mapping: DialectMapping
  /** The calls' names in the order in which a request is taken for one. */
  readonly order: string[]
  /** A connection enters itself when it begins. */
  readonly connections = new Set<ClientSession>()
  /** The status that website_status reports. */
  siteStatus: 'up' | 'down' | 'updating' = 'up'
  /** Called at a change of the site's status. */
  readonly statusListeners = new Set<() => void>()
  closed = false
  #seed: number
  #ids = 0
  #cancelMaintenance: (() => void) | undefined

  constructor(options: SimulatedV3Options) {
    this.engine = options.engine
    this.faults = options.faults
    this.quota = options.quota
    this.mode = options.mode ?? 'strict'
    this.idleMs = options.idleMs ?? IDLE_MS
    this.magic = options.magic ?? false
    this.mapping = options.mapping ?? v3Mapping
    this.order = Object.keys(this.mapping.calls)
    this.#seed = options.seed ?? 1
  }

  /** A body under its field, in the dialect's format; the state of a contract after the faults were applied. */
  present(field: string, body: unknown): unknown {
    const presented = this.mapping.present(field, body)
    if (field !== 'proposal_open_contract' || this.faults.settings.states.length === 0) return presented
    const contract = this.engine.contracts.get((body as { contract_id?: number }).contract_id as number)
    if (!contract) return presented
    const facts = { loginid: contract.account.loginid, over: contract.status !== 'open' }
    return this.faults.spoil(presented as Record<string, unknown>, facts)
  }

  /** Announces maintenance on every status stream and cuts all connections `dropAfterMs` later. */
  maintain(dropAfterMs: number): void {
    const { clock } = this.engine
    this.#cancelMaintenance?.()
    this.#setStatus('updating')
    this.#cancelMaintenance = clock.after(dropAfterMs, () => {
      this.cutAll()
      this.#setStatus('up')
    })
  }

  /** Disconnects all clients; requests that have not run yet never run. */
  close(): void {
    this.closed = true
    this.#cancelMaintenance?.()
    this.cutAll()
  }

  /** Cuts every connection, or those of one account. */
  cutAll(loginid?: string): number {
    const cut = [...this.connections].filter(each => loginid === undefined || each.grants.has(loginid))
    for (const connection of cut) connection.cut()
    return cut.length
  }

  /** An id for a stream or a proposal, the same ones for the same seed. */
  newId(): string {
    const n = ++this.#ids
    const words = [1, 2, 3, 4].map(word =>
      hashNumber(this.#seed + word, n)
        .toString(16)
        .padStart(8, '0')
    )
    const hex = words.join('')
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  }

  #setStatus(status: V3['siteStatus']): void {
    this.siteStatus = status
    for (const listener of this.statusListeners) listener()
  }
}
