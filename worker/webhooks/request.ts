// One request to an endpoint: only to public addresses, checked at the connection itself; redirects are not followed,
// and no more than 16 KiB of the response is read.
import dns from 'node:dns'
import type { Agent, IncomingHttpHeaders } from 'node:http'
import https from 'node:https'
import type { LookupFunction, Socket } from 'node:net'
import type { RequestFilteringHttpAgent } from 'request-filtering-agent'
import { http } from '../../db/platform/http.ts'
import { isPublicAddress } from '../../schemas/public-address.ts'
import type { DeliveryError } from '../../schemas/webhook-endpoint.ts'
import { urlFault } from '../../schemas/webhook-url.ts'

/** A request as a whole, up to the head of its response. */
const TIMEOUT_MS = 15_000
// Time-out of the rest of a response after its head.
const BODY_MS = 2000
const READ_BYTES = 16 * 1024
// Before the head of its response an endpoint may send responses of 1xx, empty lines and tickets of TLS sessions without an end: reading
// them keeps this worker from orders.
const AHEAD_BYTES = 64 * 1024
const KEPT_BYTES = 1024
const DNS_MS = 3000
// Idle connections: how long one is kept, and how many to one origin.
const IDLE_MS = 10_000
const IDLE_AT_ORIGIN = 16
const MAX_RETRY_AFTER_S = 3600

export interface DeliveryResponse {
  /** null: delivered. */
  error: DeliveryError | null
  httpStatus: number | null
  /** From the beginning to the head of the response. */
  ms: number
  /** The beginning of the response as text, at most 1 KiB. */
  response: string | null
  /** The pause that the endpoint requested, s; null without one. At most an hour. */
  retryAfterS: number | null
}

export interface Requests {
  /** Sends `body`; never throws. */
  post(url: string, headers: Record<string, string>, body: string): Promise<DeliveryResponse>
  close(): void
}

class NotAllowed extends Error {}

/** Opens what sends requests; `allowPrivate` is for development alone. `servers` are DNS servers, for tests. */
export function openRequests({
  allowPrivate,
  servers,
  timeoutMs = TIMEOUT_MS
}: {
  allowPrivate: boolean
  servers?: readonly string[] | undefined
  timeoutMs?: number
}): Requests {
  const resolver = new dns.promises.Resolver({ timeout: DNS_MS, tries: 2 })
  if (servers) resolver.setServers(servers)
  const lookup = lookupBy(resolver, allowPrivate)
  const common = {
    keepAlive: true,
    timeout: IDLE_MS,
    maxFreeSockets: IDLE_AT_ORIGIN,
    lookup,
    allowPrivateIPAddress: allowPrivate,
    allowMetaIPAddress: allowPrivate
  }
  let agents: ReturnType<typeof openAgents> | undefined
  return {
    async post(text, headers, body) {
      const url = URL.parse(text)
      // A row may be older than the setting.
      if (!url || urlFault(text, allowPrivate)) return { ...failed('ADDRESS_NOT_ALLOWED', 0), httpStatus: null }
      agents ??= openAgents(common)
      const opened = await agents
      const secure = url.protocol === 'https:'
      const sending = {
        url,
        headers,
        body,
        timeoutMs,
        allowPrivate,
        secure,
        agent: secure ? opened.https : opened.http
      }
      // A server may close an idle connection just as it is used again: that is no failure of the endpoint.
      return send(sending).then(({ stale, ...first }) =>
        stale ? send(sending).then(({ stale: _, ...second }) => second) : first
      )
    },
    close() {
      resolver.cancel()
      void agents?.then(opened => {
        for (const agent of Object.values(opened)) agent.destroy()
      })
    }
  }
}

type AgentOptions = NonNullable<ConstructorParameters<typeof RequestFilteringHttpAgent>[0]>

/** Agents that connect to public addresses alone. Loaded with the first request: their import loads fetch and HTTP/2 as well (`http.ts`). */
async function openAgents(options: AgentOptions): Promise<{ http: Agent; https: Agent }> {
  const { RequestFilteringHttpAgent, RequestFilteringHttpsAgent } = await import('request-filtering-agent')
  return { http: new RequestFilteringHttpAgent(options), https: new RequestFilteringHttpsAgent(options) }
}

const failed = (error: DeliveryError, ms: number): DeliveryResponse => ({
  error,
  httpStatus: null,
  ms,
  response: null,
  retryAfterS: null
})

// What a look-up ends with where the name has no address; whatever else it ends with is a failure of the look-up itself.
const NO_ADDRESS = /^(ENODATA|ENOTFOUND)$/

/**
 * Resolves names without libuv's threads, which hash passwords. One address that is not public refuses the name. A failed look-up
 * decides nothing about the name: it counts as a failed connection.
 */
function lookupBy(resolver: dns.promises.Resolver, allowPrivate: boolean): LookupFunction {
  return (hostname, options, callback) => {
    let failure: NodeJS.ErrnoException | undefined
    const done = (found: { address: string; family: number }[]) => {
      if (found.length === 0 && failure) return callback(failure, '')
      const hidden = found.some(({ address }) => !allowPrivate && !isPublicAddress(address))
      if (found.length === 0 || hidden) callback(new NotAllowed('no public address'), '')
      else if (options.all) callback(null, found)
      else callback(null, found[0]?.address as string, found[0]?.family)
    }
    const none = (error: NodeJS.ErrnoException) => {
      if (!NO_ADDRESS.test(error.code ?? '')) failure = error
      return [] as string[]
    }
    void Promise.all([resolver.resolve4(hostname).catch(none), resolver.resolve6(hostname).catch(none)]).then(
      ([four, six]) => {
        const found = [
          ...four.map(address => ({ address, family: 4 })),
          ...six.map(address => ({ address, family: 6 }))
        ]
        if (found.length > 0 || !allowPrivate) return done(found)
        // Names of this machine are in no DNS.
        dns.lookup(hostname, { all: true }, (error, local) => done(error ? [] : local))
      }
    )
  }
}

interface OutgoingRequest {
  url: URL
  headers: Record<string, string>
  body: string
  timeoutMs: number
  allowPrivate: boolean
  secure: boolean
  agent: Agent
}

/** `stale`: the connection was an old one that had been closed. */
function send({
  url,
  headers,
  body,
  timeoutMs,
  allowPrivate,
  secure,
  agent
}: OutgoingRequest): Promise<DeliveryResponse & { stale?: boolean }> {
  return new Promise(resolve => {
    const begun = performance.now()
    const passed = () => Math.round(performance.now() - begun)
    const request = (secure ? https : http).request(url, {
      method: 'POST',
      agent,
      headers: { 'content-type': 'application/json', ...headers, 'content-length': String(Buffer.byteLength(body)) }
    })
    let ended = false
    const end = (outcome: DeliveryResponse & { stale?: boolean }) => {
      if (ended) return
      ended = true
      clearTimeout(timer)
      resolve(outcome)
    }
    const timer = setTimeout(() => {
      end(failed('TIMEOUT', passed()))
      request.destroy()
    }, timeoutMs)
    // After the head of the response its status counts, whatever becomes of the connection.
    let responded = false
    request.on('error', (error: Error & { code?: string }) => {
      const stale = request.reusedSocket && error.code === 'ECONNRESET'
      if (!responded) end({ ...failed(errorOf(error), passed()), stale })
    })
    request.on('close', () => {
      if (!responded) end(failed('CONNECTION_FAILED', passed()))
    })
    request.on('socket', (socket: Socket) => {
      // In addition to the two checks of the look-up: the address that the socket is really connected to.
      const judge = () => {
        if (!allowPrivate && !isPublicAddress(socket.remoteAddress ?? '')) socket.destroy(new NotAllowed('not public'))
      }
      if (socket.connecting) socket.once('connect', judge)
      else judge()
      let ahead = 0
      const count = ({ length }: Buffer) => {
        ahead += length
        if (ahead > AHEAD_BYTES) request.destroy()
      }
      for (const event of ['data', 'session']) {
        socket.on(event, count)
        request.once('response', () => socket.off(event, count))
      }
    })
    request.on('response', response => {
      responded = true
      const ms = passed()
      const status = response.statusCode ?? 0
      clearTimeout(timer)
      const parts: Buffer[] = []
      let read = 0
      const enough = setTimeout(() => response.destroy(), Math.max(0, Math.min(BODY_MS, timeoutMs - ms)))
      const whole = () => {
        clearTimeout(enough)
        end({
          error: verdict(status),
          httpStatus: status,
          ms,
          response: textOf(Buffer.concat(parts)),
          retryAfterS: retryAfter(response.headers)
        })
      }
      response.on('data', (part: Buffer) => {
        if (read < KEPT_BYTES) parts.push(part)
        read += part.length
        if (read >= READ_BYTES) response.destroy()
      })
      response.on('error', whole)
      response.on('close', whole)
      response.on('end', whole)
    })
    request.end(body)
  })
}

function verdict(status: number): DeliveryError | null {
  if (status >= 200 && status < 300) return null
  if (status === 410) return 'GONE'
  return status >= 300 && status < 400 ? 'REDIRECT' : 'HTTP_STATUS'
}

/** As text that PostgreSQL and JSON can hold, at most 1 KiB of it. */
function textOf(bytes: Buffer): string {
  const text = bytes.subarray(0, KEPT_BYTES).toString('utf8').replaceAll('\u0000', '\ufffd')
  return Buffer.byteLength(text) <= KEPT_BYTES
    ? text
    : Buffer.from(text)
        .subarray(0, KEPT_BYTES - 3)
        .toString('utf8')
        .replace(/\ufffd+$/, '')
}

/** The seconds of a Retry-After, as number or date; null where there is none. A date is one of the endpoint's clock, which `Date` shows. */
function retryAfter({ 'retry-after': value, date = '' }: IncomingHttpHeaders): number | null {
  if (value === undefined) return null
  const now = Date.parse(date) || Date.now()
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - now) / 1000
  return Number.isFinite(seconds) ? Math.min(MAX_RETRY_AFTER_S, Math.max(0, seconds)) : null
}

// Details such as the resolved address are not for the partner: they would show our network.
function errorOf(error: Error & { code?: string }): DeliveryError {
  if (error instanceof NotAllowed || /is not allowed\. Because/.test(error.message)) return 'ADDRESS_NOT_ALLOWED'
  const code = error.code ?? ''
  if (/^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|EPROTO)/.test(code))
    return 'TLS_FAILED'
  return code === 'ETIMEDOUT' ? 'TIMEOUT' : 'CONNECTION_FAILED'
}
