// A relay between a client and a simulated broker, in both dialects, that checks every frame in both directions, and the
// responses of REST calls, against the broker's own schemas where they are at hand.

import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import Draft04 from 'ajv-draft-04'
import { WebSocket, WebSocketServer } from 'ws'
import type { Simulator } from '../../worker/simulator/server.ts'
import { sharedFolder } from '../support/shared.ts'

type RelayFrame = Record<string, unknown>
type Checks = Map<string, ValidateFunction>
type Target = Pick<Simulator, 'url' | 'nextUrl' | 'appIdHeader'>

export interface Relay extends Target {
  /** Names of the calls that went through. */
  calls: Set<string>
  /** Violations of the schemas by frames that went through. */
  complaints: string[]
  close(): void
}

interface Schemas {
  requests: Checks
  responses: Checks
}

/**
 * Opens a relay to a broker; `rewrite` may change the frames that the broker sends, and `rewriteRest` the bodies of its responses to REST
 * calls, within what its schemas allow.
 */
export async function openRelay(
  target: Target,
  rewrite = (frame: RelayFrame) => frame,
  rewriteRest = (_path: string, body: RelayFrame) => body
): Promise<Relay> {
  const older = await readOlder()
  const newer = await readNewer()
  const rest = await readRest()
  const { pathname } = new URL(target.url)
  const sockets = new WebSocketServer({ noServer: true })
  const server = createServer((request, response) => {
    passOn(request, response).catch(() => response.destroy())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const here = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const there = new URL(target.url).host
  const relay: Relay = {
    url: `ws://${here}${pathname}`,
    nextUrl: `http://${here}`,
    appIdHeader: target.appIdHeader,
    calls: new Set(),
    complaints: [],
    close() {
      for (const socket of sockets.clients) socket.terminate()
      server.close()
      server.closeAllConnections()
    }
  }

  /** A REST call; the addresses in its response lead here. */
  async function passOn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authorization = '', [target.appIdHeader.toLowerCase()]: appId = '' } = request.headers
    if (!/^Bearer \S+$/.test(String(authorization))) relay.complaints.push(`${request.url}: no bearer token`)
    if (!appId) relay.complaints.push(`${request.url}: no application id`)
    const upstream = await fetch(`http://${there}${request.url}`, {
      method: request.method,
      headers: { authorization: String(authorization), [target.appIdHeader]: String(appId) }
    })
    const text = JSON.stringify(rewriteRest(String(request.url), (await upstream.json()) as RelayFrame))
    if (upstream.status === 200) judgeRest(relay, rest, String(request.url), text)
    response.writeHead(upstream.status, { 'content-type': 'application/json' }).end(text.replaceAll(there, here))
  }

  server.on('upgrade', (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, client => {
      const schemas = new URL(request.url ?? '/', 'ws://x').pathname === pathname ? older : newer
      const broker = new WebSocket(`ws://${there}${request.url}`)
      const early: string[] = []
      client.on('message', data => {
        const text = String(data)
        judgeRequest(relay, schemas, JSON.parse(text) as RelayFrame)
        if (broker.readyState === WebSocket.OPEN) broker.send(text)
        else early.push(text)
      })
      broker.on('open', () => {
        for (const text of early.splice(0)) broker.send(text)
      })
      broker.on('message', data => {
        const frame = rewrite(JSON.parse(String(data)) as RelayFrame)
        judgeResponse(relay, schemas, frame)
        client.send(JSON.stringify(frame))
      })
      for (const [from, to] of [
        [client, broker],
        [broker, client]
      ] as const) {
        from.on('close', () => to.terminate())
        from.on('error', () => to.terminate())
      }
    })
  })
  return relay
}

function judgeRequest(relay: Relay, { requests }: Schemas, frame: RelayFrame): void {
  // Clients put the call's key anywhere; some calls take the name of another as a field.
  const call = [...requests.keys()].find(each => Object.hasOwn(frame, each)) ?? Object.keys(frame)[0]!
  relay.calls.add(call)
  if (typeof frame.req_id !== 'number') relay.complaints.push(`${call}: no req_id`)
  const check = requests.get(call)
  if (requests.size > 0 && check === undefined) relay.complaints.push(`${call}: no such call`)
  complain(relay, call, check, frame)
}

const maxComplaints = 50

const callOf: Record<string, string> = { tick: 'ticks', history: 'ticks_history', candles: 'ticks_history' }

/** Errors and candle updates are in no schema. */
function judgeResponse(relay: Relay, { responses }: Schemas, frame: RelayFrame): void {
  const type = String(frame.msg_type)
  if (frame.error === undefined) complain(relay, `response to ${type}`, responses.get(callOf[type] ?? type), frame)
}

function complain(relay: Relay, what: string, check: ValidateFunction | undefined, frame: RelayFrame): void {
  if (check === undefined || check(frame) || relay.complaints.length >= maxComplaints) return
  relay.complaints.push(`${what}: ${check.errors!.map(each => `${each.instancePath} ${each.message}`).join(', ')}`)
}

const ajv = new Draft04.default({ strict: false })

async function readOlder(): Promise<Schemas> {
  const folder = shared('broker-api/v3')
  const requests: Checks = new Map()
  for (const call of folder === null ? [] : await readdir(folder))
    requests.set(call, await compile(join(folder!, call, 'send.json')))
  const responses: Checks = new Map()
  for (const call of requests.keys())
    if (!unmeetable.has(call)) responses.set(call, await compile(join(folder!, call, 'receive.json')))
  return { requests: inOrder(requests), responses }
}

async function readNewer(): Promise<Schemas> {
  const folder = shared('broker-api/next/schemas')
  const schemas: Schemas = { requests: new Map(), responses: new Map() }
  for (const file of folder === null ? [] : await readdir(folder)) {
    const [, call, kind] = /^(\w+)_(request|response)\.schema\.json$/.exec(file) ?? []
    if (call === undefined) continue
    const text = await readFile(join(folder!, file), 'utf8')
    // REST calls are described in another draft.
    if (!text.includes('draft-04')) continue
    const checks = kind === 'request' ? schemas.requests : schemas.responses
    checks.set(call, ajv.compile(JSON.parse(text) as object))
  }
  return { ...schemas, requests: inOrder(schemas.requests) }
}

/** Longer names first: `ticks_history` may carry no `ticks`, but `proposal_open_contract` is no `proposal`. */
function inOrder(checks: Checks): Checks {
  return new Map([...checks].sort(([one], [other]) => other.length - one.length))
}

/** The schema requires a field that it forbids. */
const unmeetable = new Set(['account_list'])

const restAjv = new Ajv({ strict: false })

/** Path of a REST call → the check of its response. */
async function readRest(): Promise<[path: RegExp, check: ValidateFunction][]> {
  const folder = shared('broker-api/next/schemas')
  if (folder === null) return []
  const read = async (file: string) => restAjv.compile(JSON.parse(await readFile(join(folder, file), 'utf8')) as object)
  return [
    [/\/accounts$/, await read('get_accounts_response.schema.json')],
    [/\/otp$/, await read('websocket_response.schema.json')]
  ]
}

function judgeRest(relay: Relay, checks: [RegExp, ValidateFunction][], path: string, text: string): void {
  const [, check] = checks.find(([pattern]) => pattern.test(path)) ?? []
  complain(relay, `response to ${path}`, check, JSON.parse(text) as RelayFrame)
}

async function compile(path: string): Promise<ValidateFunction> {
  return ajv.compile(JSON.parse(await readFile(path, 'utf8')) as object)
}

function shared(name: string): string | null {
  const folder = sharedFolder(name)
  if (folder === null) console.log(`SKIPPED: ../shared/${name} is not here, frames are not held against its schemas`)
  return folder
}
