// Stands between a client and a simulated broker and holds every frame the client sends against the broker's own
// schemas, where they are at hand.

import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { ValidateFunction } from 'ajv'
import Draft04 from 'ajv-draft-04'
import { WebSocket, WebSocketServer } from 'ws'
import { sharedFolder } from './shared.ts'

export interface Relay {
  url: string
  /** Names of the calls that went through. */
  calls: Set<string>
  /** What the schemas say against frames that went through. */
  complaints: string[]
  /** Whether there were schemas to hold frames against. */
  checking: boolean
  close(): void
}

/** Opens a relay to the broker at `target`. */
export async function openRelay(target: string): Promise<Relay> {
  const checks = await readChecks()
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { pathname } = new URL(target)
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`
  const relay: Relay = { url, calls: new Set(), complaints: [], checking: checks.size > 0, close: () => undefined }
  const sockets = new WebSocketServer({ server })
  relay.close = () => {
    for (const socket of sockets.clients) socket.terminate()
    server.close()
    server.closeAllConnections()
  }
  sockets.on('connection', (client, request) => {
    const broker = new WebSocket(new URL(request.url ?? '/', target.replace(pathname, '')))
    const early: string[] = []
    client.on('message', data => {
      const text = String(data)
      judge(relay, checks, JSON.parse(text) as Record<string, unknown>)
      if (broker.readyState === WebSocket.OPEN) broker.send(text)
      else early.push(text)
    })
    broker.on('open', () => {
      for (const text of early.splice(0)) broker.send(text)
    })
    broker.on('message', data => client.send(String(data)))
    for (const [from, to] of [
      [client, broker],
      [broker, client]
    ] as const) {
      from.on('close', () => to.terminate())
      from.on('error', () => to.terminate())
    }
  })
  return relay
}

function judge(relay: Relay, checks: Map<string, ValidateFunction>, frame: Record<string, unknown>): void {
  const call = Object.keys(frame)[0]!
  relay.calls.add(call)
  if (typeof frame.req_id !== 'number') relay.complaints.push(`${call}: no req_id`)
  const check = checks.get(call)
  if (relay.checking && check === undefined) relay.complaints.push(`${call}: no such call`)
  if (check === undefined || check(frame)) return
  relay.complaints.push(`${call}: ${check.errors!.map(each => `${each.instancePath} ${each.message}`).join(', ')}`)
}

async function readChecks(): Promise<Map<string, ValidateFunction>> {
  const checks = new Map<string, ValidateFunction>()
  const folder = sharedFolder('broker-api/v3')
  if (folder === null) {
    console.log('SKIPPED: ../shared/broker-api is not here, frames are not held against its schemas')
    return checks
  }
  const ajv = new Draft04.default({ strict: false })
  for (const call of await readdir(folder)) {
    checks.set(call, ajv.compile(JSON.parse(await readFile(join(folder, call, 'send.json'), 'utf8')) as object))
  }
  return checks
}
