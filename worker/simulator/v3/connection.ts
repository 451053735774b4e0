// One connection of the first dialect, and the steps of a request: read, check, authorise, apply faults, count, run,
// respond. Updates of a stream follow the response that opened it, never overtake it.
import type { Grant } from '../engine/accounts.ts'
import type { PurchaseTerms } from '../engine/contracts.ts'
import type { DialectMapping } from '../engine/dialect-mapping.ts'
import { CallsOfSecond } from '../engine/quota.ts'
import type { AppId, SimulatedAccount } from '../engine/records.ts'
import type { CallRule } from '../engine/shapes.ts'
import type { FaultRule } from '../faults.ts'
import { magicOfPurchase, magicOfSale, orderOf } from '../magic.ts'
import { accountCalls } from './account.ts'
import { catalogueCalls } from './catalogue.ts'
import { directoryCalls } from './directory.ts'
import { V3Error } from './errors.ts'
import { marketCalls } from './market.ts'
import { markupCalls } from './markup.ts'
import { ClientStreams } from './stream.ts'
import { tradingCalls } from './trading.ts'
import type { CallRequest, CallResponse, ClientSession, Handler, Peer, V3 } from './v3.ts'

const LATE_MS = 1_000
const HOLD_MS = 200
const handlers: Record<string, Handler> = {
  ...accountCalls,
  ...markupCalls,
  ...catalogueCalls,
  ...directoryCalls,
  ...marketCalls,
  ...tradingCalls
}
const PASSTHROUGH_KEY = /^[A-Za-z0-9_-]{1,50}$/
const MAX_PASSTHROUGH = 300

interface CheckedCall {
  name: string
  rule: CallRule
  request: CallRequest
  tail: string
  grant: Grant | null
}

export class ClientConnection implements ClientSession {
  readonly appId: AppId
  readonly streams: ClientStreams
  grants = new Map<string, Grant>()
  multi = false
  readonly proposals = new Map<string, PurchaseTerms>()
  #v3: V3
  #mapping: DialectMapping
  #peer: Peer
  #key: string
  #seconds: CallsOfSecond | null
  #lastSeen: number
  #cancelIdle: (() => void) | undefined
  #held: (() => void)[] = []
  #closed = false

  constructor(v3: V3, appId: AppId, peer: Peer) {
    this.#v3 = v3
    this.#mapping = v3.mapping
    this.appId = appId
    this.#peer = peer
    this.#key = v3.newId()
    const { perSecond } = v3.mapping
    this.#seconds = perSecond && new CallsOfSecond(perSecond)
    this.streams = new ClientStreams(
      () => v3.newId(),
      { present: (field, body) => v3.present(field, body), maxStreams: v3.mapping.maxStreams },
      text => this.#peer.send(text)
    )
    this.#lastSeen = v3.engine.clock.wall()
    v3.connections.add(this)
    this.#watchIdle(v3.idleMs)
  }

  /** Takes a frame from the peer. */
  receive(text: string): void {
    if (this.#closed) return
    this.#lastSeen = this.#v3.engine.clock.wall()
    const request = readObject(text)
    if (!request) {
      this.#fail('error', tailOf({}), new V3Error('BadRequest', 'The frame is not a JSON object.'))
      return
    }
    // By the order of the table: some requests carry the key of another call too.
    const name = this.#v3.order.find(call => request[call] !== undefined)
    const tail = tailOf(request)
    if (name === undefined) {
      this.#fail('error', tail, new V3Error('UnrecognisedRequest', 'Unrecognised request.'))
      return
    }
    try {
      this.#accept(name, request, tail)
    } catch (error) {
      this.#fail(name, tail, this.#mapping.refuse(error, 'MarketIsClosed'))
    }
  }

  /** The peer is gone: streams end; calls under way run to their end, and their responses are dropped. */
  closed(): void {
    if (this.#closed) return
    this.#closed = true
    this.#v3.connections.delete(this)
    this.#cancelIdle?.()
    this.streams.forgetAll()
    this.#held = []
  }

  cut(): void {
    this.closed()
    this.#peer.terminate()
  }

  #accept(name: string, request: CallRequest, tail: string): void {
    if (this.#seconds && !this.#v3.quota.takeInSecond(this.#seconds, name === 'ping')) throw limitReached(name)
    const rule = this.#mapping.calls[name] as CallRule
    checkPassthrough(request)
    const details = this.#mapping.complaints(name, request, this.#v3.mode)
    if (details) {
      const text = `Input validation failed: ${Object.keys(details).join(', ')}.`
      throw new V3Error('InputValidationFailed', text, details)
    }
    const grant = this.#grantFor(rule, request)
    const requested: CheckedCall = { name, rule, request: this.#mapping.read(name, request), tail, grant }
    const fate = this.#fate(requested)
    if (fate?.effect === 'error') throw refusalOf(fate)
    const account = requested.grant?.account.loginid
    const who = account === undefined ? this.#key : `${account} ${this.appId}`
    if (rule.class !== null && !this.#v3.quota.take(who, rule.class)) throw limitReached(name)
    this.#run(requested, fate)
  }

  #grantFor(rule: CallRule, request: CallRequest): Grant | null {
    const loginid = request.loginid as string | undefined
    const grant = loginid === undefined ? this.#only() : this.grants.get(loginid)
    if (!grant) {
      if (rule.scopes === null && loginid === undefined) return null
      if (this.grants.size === 0) throw new V3Error('AuthorizationRequired', 'Please log in.')
      if (loginid !== undefined) throw new V3Error('PermissionDenied', `Account ${loginid} is not authorised here.`)
      throw new V3Error('InputValidationFailed', 'Input validation failed: loginid.', { loginid: 'is required' })
    }
    this.#v3.engine.accounts.check(grant)
    if (rule.scopes !== null && !rule.scopes.some(scope => grant.scopes.has(scope))) {
      throw new V3Error('PermissionDenied', `Permission denied, requires ${rule.scopes.join(' or ')} scope.`)
    }
    return grant
  }

  #only(): Grant | undefined {
    return this.multi ? undefined : this.grants.values().next().value
  }

  #fate({ name, rule, request, grant }: CheckedCall): FaultRule | null {
    const { magic, faults } = this.#v3
    if (faults.settings.rules.length === 0 && !(magic && (name === 'buy' || name === 'sell'))) return null
    const contract = this.#v3.engine.contracts.get((request.sell ?? request.contract_id ?? request.cancel) as number)
    const terms =
      (request.parameters as CallRequest | undefined) ?? this.proposals.get(request.buy as string) ?? request
    const flags = grant?.flags ?? []
    const currency = grant?.account.currency
    const provoked = !magic
      ? null
      : name === 'buy'
        ? magicOfPurchase({ amount: terms.amount, currency, asset: terms.symbol, flags })
        : name === 'sell' && contract
          ? magicOfSale(orderOf(contract))
          : null
    return (
      provoked ??
      faults.fate({
        call: name,
        class: rule.class,
        loginid: grant?.account.loginid,
        symbol: (terms.symbol as string | undefined) ?? contract?.offer.symbol.code,
        appId: this.appId
      })
    )
  }

  #run(requested: CheckedCall, fate: FaultRule | null): void {
    const { clock } = this.#v3.engine
    const latencyMs = this.#v3.faults.latencyMs()
    const half = latencyMs / 2
    const later = (delayMs: number, run: () => void) => {
      if (delayMs > 0) clock.after(delayMs, run)
      else run()
    }
    switch (fate?.effect) {
      case 'drop-before':
        this.cut()
        return
      case 'error-late':
        later(latencyMs, () => this.#fail(requested.name, requested.tail, refusalOf(fate)))
        later(latencyMs + (fate.delayMs ?? LATE_MS), () => this.#deliver(this.#execute(requested), null))
        return
      case 'ignore':
        return
      case 'timeout':
      case 'timeout-late':
        later(latencyMs, () =>
          this.#fail(requested.name, requested.tail, new V3Error('Timeout', 'The request timed out.'))
        )
        if (fate.effect === 'timeout-late') later(fate.delayMs ?? LATE_MS, () => void this.#execute(requested))
        return
      case 'drop-after':
        later(half, () => {
          this.#execute(requested)
          this.cut()
        })
        return
      case 'mute':
        later(half + (fate.delayMs ?? 0), () => void this.#execute(requested))
        return
    }
    const wait = half + (fate?.effect === 'slow' ? (fate.delayMs ?? LATE_MS) : 0)
    const call = fate?.effect === 'altered' ? { ...requested, request: merged(requested.request, fate.set) } : requested
    later(half, () => {
      const results = Array.from({ length: fate?.effect === 'twice' ? 2 : 1 }, () => this.#execute(call))
      for (const deliver of results) later(wait, () => this.#deliver(deliver, fate))
    })
  }

  /** Runs the call; the returned function delivers its response to the peer. */
  #execute({ name, request, tail, grant }: CheckedCall): (times: number) => void {
    if (this.#v3.closed) return () => {}
    const call = { v3: this.#v3, connection: this, grant, account: grant?.account as SimulatedAccount, tail }
    try {
      const result = (handlers[name] as Handler)(request, call)
      const responses = Array.isArray(result) ? result : [result]
      return times => {
        for (const response of responses) this.#send(name, response, { tail, times })
      }
    } catch (error) {
      const closedCode =
        name === 'proposal' || name === 'buy' ? this.#v3.faults.settings.marketClosedCode : 'MarketIsClosed'
      const refusal = this.#mapping.refuse(error, closedCode)
      return times => {
        for (let i = 0; i < times; i++) this.#fail(name, tail, refusal)
      }
    }
  }

  #deliver(deliver: (times: number) => void, fate: FaultRule | null): void {
    if (this.#closed) return
    if (fate?.effect === 'reorder') {
      const release = () => {
        const at = this.#held.indexOf(release)
        if (at < 0) return
        this.#held.splice(at, 1)
        deliver(1)
      }
      this.#held.push(release)
      this.#v3.engine.clock.after(fate.delayMs ?? HOLD_MS, release)
      return
    }
    deliver(fate?.effect === 'duplicate' ? 2 : 1)
    for (const release of [...this.#held]) release()
  }

  #send(name: string, response: CallResponse, { tail, times }: { tail: string; times: number }): void {
    if (this.#closed) return
    const type = response.msgType ?? this.#mapping.calls[name]?.msgType ?? name
    const subscription = response.stream ? `,"subscription":{"id":"${response.stream.id}"}` : ''
    const body = Object.entries(response.body).map(([field, value]) => [field, this.#v3.present(field, value)])
    const text = `${JSON.stringify(Object.fromEntries(body)).slice(0, -1)},"msg_type":"${type}",${tail}${subscription}}`
    for (let i = 0; i < times; i++) if (!this.#peer.send(text)) return
    response.sent?.()
    if (response.stream) this.streams.start(response.stream)
  }

  #fail(name: string, tail: string, { code, message, details, finer }: V3Error): void {
    if (this.#closed) return
    const error = JSON.stringify({ code, message, ...(details ? { details } : {}), ...finer })
    this.#peer.send(`{"error":${error},"msg_type":"${name}",${tail}}`)
  }

  #watchIdle(delayMs: number): void {
    const { clock } = this.#v3.engine
    this.#cancelIdle = clock.after(delayMs, () => {
      const quietMs = clock.wall() - this.#lastSeen
      if (quietMs < this.#v3.idleMs) {
        this.#watchIdle(this.#v3.idleMs - quietMs)
        return
      }
      this.closed()
      this.#peer.close()
    })
  }
}

/** The object a frame holds, or null where it holds none. */
function readObject(text: string): CallRequest | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as CallRequest) : null
}

/** The end of a frame that responds to this request: its echo, with tokens hidden, and its ids. */
function tailOf(request: CallRequest): string {
  let echo = request
  if (request.authorize !== undefined || request.tokens !== undefined) {
    const tokens = Array.isArray(request.tokens) ? { tokens: request.tokens.map(() => '<not shown>') } : {}
    echo = { ...request, ...(request.authorize === undefined ? {} : { authorize: '<not shown>' }), ...tokens }
  }
  const reqId = Number.isInteger(request.req_id) ? `,"req_id":${request.req_id}` : ''
  const { passthrough } = request
  const carried =
    typeof passthrough === 'object' && passthrough !== null ? `,"passthrough":${JSON.stringify(passthrough)}` : ''
  return `"echo_req":${JSON.stringify(echo)}${reqId}${carried}`
}

function refusalOf({ code = 'InternalServerError', message, details }: FaultRule): V3Error {
  return new V3Error(code, message ?? `The broker returns ${code}.`, details)
}

function merged(request: CallRequest, changes: CallRequest = {}): CallRequest {
  const isObject = (value: unknown): value is CallRequest => typeof value === 'object' && value !== null
  const fields = Object.entries(changes).map(([field, value]) => {
    const own = request[field]
    return [field, isObject(value) && isObject(own) ? merged(own, value) : value]
  })
  return { ...request, ...Object.fromEntries(fields) }
}

function limitReached(call: string): V3Error {
  return new V3Error('RateLimit', `You have reached the rate limit for ${call}.`)
}

function checkPassthrough(request: CallRequest): void {
  const { passthrough } = request
  if (typeof passthrough !== 'object' || passthrough === null) return
  for (const [key, value] of Object.entries(passthrough)) {
    if (PASSTHROUGH_KEY.test(key) && String(value).length <= MAX_PASSTHROUGH) continue
    throw new V3Error('SanityCheckFailed', 'Parameters sanity check failed.')
  }
}
