// The client of api/client against the service: what is repeated and what is not, ids that are kept, waits, lists, the stream
// over cuts and restarts, webhooks.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { copyFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { clientTypes, TYPES_FILE } from '../../api/client/generate.ts'
import {
  type Attempt,
  Client,
  openStream,
  type Schemas,
  ServiceError,
  verifyWebhook
} from '../../api/client/src/index.ts'
import { writeCursor } from '../../db/events/cursor.ts'
import { readLogState } from '../../db/events/read.ts'
import { newEventEpoch } from '../../db/events/sequence.ts'
import { revokeKey } from '../../db/partners/keys.ts'
import { errors } from '../../schemas/errors/errors.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, FEW_LOOKS_MS, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { openReceiver } from '../webhooks/receiver.ts'
import { openRelay } from './relay.ts'

const ROOT = join(import.meta.dirname, '../../api/client')
const simulator = await startSimulator({ tickMs: 10, seed: 21, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const env = { ...brokerEnv(simulator), WEBHOOK_ALLOW_PRIVATE: '1' }
const harness = await openHarness({ env })
await startTestWorker(harness.env)
const relay = await openRelay(harness.address)

/** A client of a new partner, over the relay; `attempts` is what it tried. */
async function makeClient() {
  const partner = await harness.makePartner()
  const attempts: Attempt[] = []
  const onAttempt = (attempt: Attempt) => attempts.push(attempt)
  return { partner, attempts, client: new Client({ baseUrl: relay.address, key: partner.key, onAttempt }) }
}

/** Drops so many responses that match from now on. */
function dropResponses(count: number, to: string): void {
  let matching = false
  relay.passing = (what, text) => {
    if (what === 'request') matching = text.includes(to)
    if (what === 'request' || !matching || count === 0) return true
    count -= 1
    return false
  }
}

const refusal = async (call: Promise<unknown>): Promise<ServiceError> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown
  )
  assert.instance(error, ServiceError)
  return error as ServiceError
}

const being = suite('the client')

being('has the types of the description: `make client` writes them', async () => {
  assert.ok((await readFile(TYPES_FILE, 'utf8')) === (await clientTypes()), 'run `make client`')
})

being('is at most 420 lines of code of ours, and needs nothing but itself', async () => {
  const files = (await readdir(join(ROOT, 'src'))).filter(name => name !== 'service.ts')
  const texts = files.map(name => readFileSync(join(ROOT, 'src', name), 'utf8'))
  const lines = texts.flatMap(text => text.split('\n')).filter(line => !/^\s*(\/\/|\/\*\*|\*|$)/.test(line))
  assert.ok(lines.length <= 420, `${lines.length} lines`)
  const imported = texts.flatMap(text => [...text.matchAll(/from '([^']+)'/g)].map(([, name]) => name as string))
  assert.equal(
    imported.filter(name => !name.startsWith('./')),
    []
  )
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  assert.is(manifest.dependencies ?? manifest.peerDependencies, undefined)
})

const order = {
  traderExternalId: 'x',
  asset: 'R_100',
  contractType: 'CALL',
  stake: 1,
  duration: 1,
  durationUnit: 't'
} as const

/** What must not compile; never called, and exported so that it may be. */
export const mistakes = (client: Client) => [
  // @ts-expect-error a query parameter is missing
  client.get('/v1/balance', { query: {} }),
  // @ts-expect-error there is no such path
  client.get('/v1/balances'),
  // @ts-expect-error there is no such contract
  client.placeBinary({ ...order, contractType: 'ROULETTE' }),
  // @ts-expect-error a result has no such field
  client.get('/v1/me').then(({ nickname }) => nickname)
]

being('is built to JavaScript and declarations that its package names', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'operator-test-built-'))
  onClose(() => rm(dir, { recursive: true, force: true }))
  const compiler = join(ROOT, '../../node_modules/typescript7/bin/tsc')
  await promisify(execFile)(process.execPath, [compiler, '-p', ROOT, '--singleThreaded', '--outDir', join(dir, 'dist')])
  await copyFile(join(ROOT, 'package.json'), join(dir, 'package.json'))
  const { exports, files } = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'))
  assert.equal(files, ['dist'])
  assert.match(readFileSync(join(dir, exports['.'].types), 'utf8'), 'Client')
  const built = await import(join(dir, exports['.'].default))
  assert.equal(Object.keys(built).sort(), ['Client', 'ServiceError', 'WebhookRefused', 'openStream', 'verifyWebhook'])
})

being('refuses a key in a browser', () => {
  Object.assign(globalThis, { document: {} })
  try {
    assert.throws(
      () => new Client({ baseUrl: 'https://api.example.com', key: 'service_live_' }),
      /must not be in a browser/
    )
  } finally {
    Reflect.deleteProperty(globalThis, 'document')
  }
})

const calling = suite('a call')

calling(
  'throws an error with its code, its docs, its request and its facts, and does not repeat the call',
  async () => {
    const { client, attempts } = await makeClient()
    const query = { traderExternalId: 'nobody' }
    const unknown = await refusal(client.get('/v1/balance', { query }))
    assert.is(unknown.code, 'TRADER_NOT_FOUND')
    assert.match(unknown.docs ?? '', /errors\/trader_not_found$/)
    assert.is(unknown.requestId, attempts[0]?.requestId)
    const broken = await refusal(client.post('/v1/community/messages', { body: { content: '' } }))
    assert.is(broken.facts.details?.[0]?.path, '/body/content')
    assert.is(attempts.length, 2)
  }
)

calling('that changes something is done once when its responses are lost, and again for a new intent', async () => {
  const { client, attempts } = await makeClient()
  dropResponses(2, '/v1/community/messages')
  const first = await client.post('/v1/community/messages', { body: { content: 'once' } })
  assert.equal(
    attempts.map(({ error }) => error?.code),
    ['NO_ANSWER', 'NO_ANSWER', undefined]
  )
  await client.post('/v1/community/messages', { body: { content: 'once' } })
  const kept = { body: { content: 'kept' }, idempotencyKey: crypto.randomUUID() }
  const one = await client.post('/v1/community/messages', kept)
  assert.is((await client.post('/v1/community/messages', kept)).messageId, one.messageId)
  const messages: Schemas['Message'][] = []
  for await (const message of client.list('/v1/community/messages')) messages.push(message)
  assert.is(messages.length, 3)
  assert.is(messages.at(-1)?.messageId, first.messageId)
})

/** A server that responds to each call with the next of these codes, then with 200. */
async function scripted(...codes: string[]) {
  const server = createServer((_, response) => {
    const code = codes.shift()
    const { status } = errors[(code ?? 'INTERNAL') as keyof typeof errors]
    response.writeHead(code ? status : 200, { 'content-type': 'application/json', 'retry-after': '0' })
    response.end(JSON.stringify(code ? { error: code, message: code, requestId: 'scripted-1' } : { data: [] }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  return new Client({
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    key: 'k',
    deadlineMs: 60_000
  })
}

calling('is repeated by its code: where nothing was done, or a repeat does nothing twice', async () => {
  const again = [
    'RATE_LIMITED',
    'UNAVAILABLE',
    'BROKER_UPSTREAM',
    'TRADING_HALTED',
    'IDEMPOTENCY_IN_PROGRESS',
    'REQUEST_TIMEOUT'
  ]
  const body = { content: 'x' }
  await Promise.all(
    Object.keys(errors).map(async code => {
      const write = (await scripted(code)).post('/v1/community/messages', { body })
      if (again.includes(code)) await write
      else assert.is((await refusal(write)).code, code)
      // A read, and an order under its id, may also be repeated after a run that broke off half-way.
      const harmless = [(await scripted(code)).get('/v1/webhooks'), (await scripted(code)).placeBinary(order)]
      for (const call of harmless)
        if (again.includes(code) || code === 'INTERNAL') await call
        else assert.is((await refusal(call)).code, code)
    })
  )
})

calling('waits as a proxy asks on its way, which may do so by a date', async () => {
  const server = createServer((_, response) => {
    response.writeHead(503, { 'retry-after': new Date(Date.now() + 60_000).toUTCString() })
    response.end('<html>')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const client = new Client({ baseUrl: `http://127.0.0.1:${port}`, key: 'k', deadlineMs: 30_000 })
  const { code, facts } = await refusal(client.get('/v1/me'))
  assert.is(code, 'NO_ANSWER')
  assert.ok(Number(facts.retryAfterMs) > 50_000 && Number(facts.retryAfterMs) <= 60_000, String(facts.retryAfterMs))
})

/** A client of a server that handles the first call by `first`, and the others with 200; `calls` counts. */
async function behindProxy(first: (response: ServerResponse) => unknown) {
  const proxy = { calls: 0 }
  const server = createServer((_, response) => {
    proxy.calls += 1
    if (proxy.calls === 1) first(response)
    else response.writeHead(200).end('{}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return Object.assign(proxy, { client: new Client({ baseUrl: `http://127.0.0.1:${port}`, key: 'k' }) })
}

calling('is repeated after a 408 and a 429 of a proxy on its way, and after a response that broke off', async () => {
  const json = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n'
  const firsts: ((response: ServerResponse) => unknown)[] = [
    response => response.writeHead(408).end('<html>'),
    response => response.writeHead(429, { 'retry-after': '1' }).end('<html>'),
    response => response.socket?.end(`${json}{"orderId":"ord_`)
  ]
  for (const first of firsts) {
    const proxy = await behindProxy(first)
    await proxy.client.placeBinary(order)
    await proxy.client.post('/v1/community/messages', { body: { content: 'x' } })
    assert.is(proxy.calls, 3, String(first))
  }
})

calling('is neither repeated after a redirect, nor sent to where it leads', async () => {
  for (const status of [301, 307]) {
    const location = '/v1/me'
    const proxy = await behindProxy(response => response.writeHead(status, { location }).end())
    const { code, message } = await refusal(proxy.client.get('/v1/me'))
    assert.is(code, 'UNEXPECTED')
    assert.match(message, String(status))
    assert.is(proxy.calls, 1)
  }
})

calling('is not repeated after its deadline, nor when the service requests a longer pause', async () => {
  const limited = await openHarness({ url: harness.url, env: { ...env, RATE_LIMIT_LAUNCH: '1' } })
  const { key } = await limited.makePartner({ plan: 'LAUNCH' })
  const attempts: Attempt[] = []
  const client = new Client({
    baseUrl: limited.address,
    key,
    deadlineMs: 500,
    onAttempt: attempt => attempts.push(attempt)
  })
  await client.get('/v1/me')
  const { code, facts } = await refusal(client.get('/v1/me'))
  assert.is(code, 'RATE_LIMITED')
  assert.ok((facts.retryAfterMs ?? 0) >= 1000)
  assert.is(attempts.length, 2)
  const nobody = await refusal(new Client({ baseUrl: 'http://127.0.0.1:9', deadlineMs: 0 }).get('/v1/me'))
  assert.is(nobody.code, 'NO_ANSWER')
})

calling('says how long it waited for a response that did not come', async () => {
  const { client } = await behindProxy(() => {})
  const { code, message } = await refusal(client.get('/v1/me', { timeoutMs: 300, deadlineMs: 0 }))
  assert.is(code, 'NO_ANSWER')
  // What says so keeps the time-out's signal from being collected, which Node 20 does otherwise.
  assert.match(message, 'GET /v1/me got no response within 300 ms')
})

calling('that cannot be sent throws its own error at once', async () => {
  const { client, attempts } = await makeClient()
  const stake = 1n as unknown as number
  const id = '\ud800'
  const wrong: (() => Promise<unknown>)[] = [
    () => client.placeBinary({ ...order, stake }),
    () => client.get('/v1/orders/{id}', { path: { id } }),
    () => client.get('/v1/me', { headers: { 'x-note': 'a\nb' } }),
    () => client.get('/v1/me', { timeoutMs: -1 })
  ]
  for (const call of wrong)
    await call().then(
      () => assert.unreachable(),
      (error: Error) => assert.not.instance(error, ServiceError)
    )
  assert.is(attempts.length, 0)
})

calling('has the header fields of its caller in place of its own, however they are written', async () => {
  const { client, attempts } = await makeClient()
  const headers = { 'Idempotency-Key': crypto.randomUUID(), 'X-Request-ID': 'mine' }
  const send = () => client.post('/v1/community/messages', { body: { content: 'x' }, headers })
  assert.is((await send()).messageId, (await send()).messageId)
  // Each attempt has an id of its own, the one that is logged.
  for (const { response, requestId } of attempts) assert.is(response?.headers.get('x-request-id'), requestId)
})

calling('ends when its signal aborts', async () => {
  const signal = AbortSignal.abort(new Error('enough'))
  await makeClient().then(({ client }) =>
    client.get('/v1/me', { signal }).then(
      () => assert.unreachable(),
      (error: Error) => assert.is(error.message, 'enough')
    )
  )
})

const trading = suite('an order')
const contract = { asset: 'R_100', contractType: 'CALL', duration: 15, durationUnit: 's' } as const

trading('is bought once when its responses are lost, and waited for until it is settled', async () => {
  const { partner, client, attempts } = await makeClient()
  const { traderExternalId, accountId } = await partner.makeTrader()
  dropResponses(2, '/v1/orders/binary')
  const { orderId } = await client.placeBinary({ traderExternalId, stake: 3, ...contract })
  assert.is(attempts.length, 3)
  const settled = await client.waitUntilSettled(orderId)
  assert.is(settled.status, 'CLOSED')
  assert.type(settled.pnl, 'number')
  assert.is(simulator.ledger().filter(({ loginid }) => loginid === accountId).length, 1)
})

trading('that is refused names the id it was sent under; a wait has a deadline', async () => {
  const { partner, client } = await makeClient()
  const { traderExternalId } = await partner.makeTrader()
  const error = await refusal(client.placeBinary({ traderExternalId, stake: 1, ...contract, asset: 'NOPE' }))
  assert.is(error.code, 'INVALID_CONTRACT')
  assert.is(error.clientOrderId?.length, 36)
  const long = { ...contract, duration: 1, durationUnit: 'd' } as const
  const { orderId } = await client.placeBinary({ traderExternalId, stake: 1, ...long })
  assert.is((await refusal(client.waitUntilSettled(orderId, { deadlineMs: 0 }))).code, 'DEADLINE')
})

trading('is waited for over an outage until the deadline, by attempts longer than their wait', async () => {
  const { partner, attempts } = await makeClient()
  const { traderExternalId } = await partner.makeTrader()
  const onAttempt = (attempt: Attempt) => attempts.push(attempt)
  // The outage outlasts the deadline of a call.
  const client = new Client({ baseUrl: relay.address, key: partner.key, deadlineMs: 0, onAttempt })
  const { orderId } = await client.placeBinary({ traderExternalId, stake: 1, ...contract })
  relay.lead('http://127.0.0.1:9')
  relay.cut()
  attempts.length = 0
  assert.is((await refusal(client.waitUntilSettled(orderId, { deadlineMs: 500 }))).code, 'DEADLINE')
  const waited = client.waitUntilSettled(orderId)
  waited.catch(() => {})
  await until('attempts without a response', () => attempts.length >= 4, 60_000)
  relay.lead(harness.address)
  assert.is((await waited).status, 'CLOSED')
  const long = { ...contract, duration: 1, durationUnit: 'd' } as const
  const { orderId: open } = await client.placeBinary({ traderExternalId, stake: 1, ...long })
  // An attempt waits for a second; where its response takes a busy machine another one, once more.
  const times = { timeoutMs: 2000, deadlineMs: 3000 }
  await until(
    'attempts with a response each',
    async () => {
      attempts.length = 0
      assert.is((await refusal(client.waitUntilSettled(open, times))).code, 'DEADLINE')
      return attempts.length > 0 && attempts.every(({ error }) => !error)
    },
    FEW_LOOKS_MS
  )
})

trading('is found in lists, page after page', async () => {
  const { partner, client, attempts } = await makeClient()
  const { traderExternalId } = await partner.makeTrader()
  const placed: string[] = []
  for (let stake = 1; stake <= 3; stake++)
    placed.push((await client.placeBinary({ traderExternalId, stake, ...contract })).orderId)
  attempts.length = 0
  const listed: string[] = []
  for await (const { orderId } of client.list('/v1/orders', { query: { traderExternalId, limit: 1 } }))
    listed.push(orderId)
  assert.equal(listed, placed.reverse())
  assert.ok(attempts.length >= 3)
  const types: string[] = []
  await until('the events', async () => {
    types.length = 0
    for await (const { type } of client.list('/v1/events', { query: { limit: 1 } })) types.push(type)
    return types.filter(type => type === 'order.opened').length === 3
  })
})

const streaming = suite('the stream')

/** Adds so many events to the partner's log. */
const addEvents = (partnerId: string, count: number) =>
  harness.services.db.raw(
    `insert into event_outbox (partner_id, type, subject, facts)
     select e.partner_id, e.type, e.subject, e.facts from events e, generate_series(1, ?) where e.partner_id = ? and e.position = 1`,
    [count, partnerId]
  )

/** Reads the stream into a list, from the cursor that was stored last. */
function openReader(client: Client, more: Partial<Parameters<Client['stream']>[0]> = {}) {
  const positions: number[] = []
  const troubles: string[] = []
  const stop = new AbortController()
  const reader = {
    positions,
    troubles,
    cursor: undefined as string | undefined,
    stop: () => stop.abort(),
    ended: client.stream({
      onEvent: ({ position }) => positions.push(position),
      onCursor: cursor => {
        reader.cursor = cursor
      },
      onTrouble: reason => troubles.push(reason),
      signal: stop.signal,
      ...more
    })
  }
  const reaches = (position: number) => until(`event ${position}`, () => positions.includes(position), 60_000)
  const ready = () => until('a cursor', () => reader.cursor, 60_000)
  return Object.assign(reader, { reaches, ready })
}

/** A partner whose log has one event. */
async function makeLogged() {
  const made = await makeClient()
  await until('the first event', async () => (await made.client.get('/v1/events')).data.length > 0, 60_000)
  return made
}
const dense = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

streaming('hands over every event in order, over cuts of the connection', async () => {
  const { partner, client } = await makeLogged()
  const reader = openReader(client)
  await reader.ready()
  for (let round = 0; round < 3; round++) {
    await addEvents(partner.partnerId, 5)
    await reader.reaches(6 + 5 * round)
    relay.cut()
  }
  await addEvents(partner.partnerId, 5)
  await reader.reaches(21)
  assert.equal([...new Set(reader.positions)], dense(2, 21))
  assert.ok(reader.troubles.length >= 3)
  reader.stop()
  await reader.ended
  await addEvents(partner.partnerId, 3)
  const later = openReader(client, { after: reader.cursor })
  await later.reaches(24)
  assert.equal(later.positions, dense(22, 24))
  later.stop()
  await later.ended
})

/** The platform's socket, whose frames pass `fits`. */
function filtering(
  fits: (frame: { type: string; event?: { position: number } }) => boolean
): NonNullable<Parameters<Client['stream']>[0]['openSocket']> {
  return (url, options) => {
    const socket = new WebSocket(url, options as unknown as string[])
    return new Proxy(socket, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
      set: (target, name, value) => {
        const handler =
          name === 'onmessage' ? (message: MessageEvent) => fits(JSON.parse(message.data)) && value(message) : value
        return Reflect.set(target, name, handler, target)
      }
    })
  }
}

streaming('notices an event that was lost, and a connection that is silent, and goes on from its cursor', async () => {
  const { partner, client } = await makeLogged()
  let lost = 0
  const losing = filtering(({ type, event }) => type !== 'event' || event?.position !== 3 || lost++ > 0)
  const reader = openReader(client, { openSocket: losing })
  await reader.ready()
  await addEvents(partner.partnerId, 5)
  await reader.reaches(6)
  assert.equal(reader.positions, dense(2, 6))
  assert.match(reader.troubles[0] ?? '', 'a gap before')
  reader.stop()
  let mute = true
  const muted = openReader(client, { openSocket: filtering(() => !mute), silenceMs: 300, after: reader.cursor })
  await until('a silence', () => muted.troubles.some(reason => reason.includes('silent')), 60_000)
  mute = false
  await addEvents(partner.partnerId, 1)
  await muted.reaches(7)
  muted.stop()
  await Promise.all([reader.ended, muted.ended])
})

streaming('ends when its signal aborts, also while the service is away', async () => {
  const { client, attempts } = await makeClient()
  const reader = openReader(client)
  await reader.ready()
  relay.lead('http://127.0.0.1:9')
  relay.cut()
  await until('a call without a response', () => attempts.some(({ error }) => error?.code === 'NO_ANSWER'), 60_000)
  const began = performance.now()
  reader.stop()
  await reader.ended
  relay.lead(harness.address)
  assert.ok(performance.now() - began < 30_000)
})

streaming(
  'hands over nothing after its signal aborted: neither what waits, nor with a ticket that came later',
  async () => {
    const { partner, client } = await makeLogged()
    // The first event is held until the others have arrived behind it.
    let arrived = 0
    const counting = filtering(({ type }) => {
      if (type === 'event') arrived += 1
      return true
    })
    const stop = new AbortController()
    const positions: number[] = []
    let cursor: string | undefined
    const ended = client.stream({
      onEvent: async ({ position }) => {
        positions.push(position)
        await until('events that wait', () => arrived >= 20, 60_000)
        stop.abort()
      },
      onCursor: next => {
        cursor = next
      },
      openSocket: counting,
      signal: stop.signal
    })
    await until('a cursor', () => cursor, 60_000)
    const before = cursor
    await addEvents(partner.partnerId, 20)
    await ended
    assert.equal(positions, [2])
    assert.is.not(cursor, before, 'the one that was dealt with is stored')
    const late = new AbortController()
    let sockets = 0
    await openStream({
      url: relay.address,
      ticket: () => {
        late.abort()
        return 'late'
      },
      openSocket: (url, { protocols }) => {
        sockets += 1
        return new WebSocket(url, protocols)
      },
      onEvent: () => {},
      signal: late.signal
    })
    assert.is(sockets, 0)
  }
)

streaming('connects again after a frame that is not one of the service', async () => {
  const { partner, client } = await makeLogged()
  const wrong = ['<html>', 'null', '"text"', '{}']
  const breaking: NonNullable<Parameters<Client['stream']>[0]['openSocket']> = (url, options) => {
    const socket = new WebSocket(url, options as unknown as string[])
    const data = wrong.shift()
    // Before the first frame of the service, by the handler that the client sets.
    if (data) socket.addEventListener('open', () => socket.dispatchEvent(new MessageEvent('message', { data })))
    return socket
  }
  const reader = openReader(client, { openSocket: breaking })
  await reader.ready()
  assert.equal(reader.troubles, Array(4).fill("a frame that is not the service's"))
  await addEvents(partner.partnerId, 1)
  await reader.reaches(2)
  reader.stop()
  await reader.ended
})

streaming('keeps the cursor where a callback failed, and rejects with its error', async () => {
  const { partner, client } = await makeLogged()
  let cursor: string | undefined
  const failing = client.stream({
    onEvent: ({ position }) => {
      if (position === 3) throw new Error('not stored')
    },
    onCursor: next => {
      cursor = next
    }
  })
  await until('a cursor', () => cursor, 60_000)
  await addEvents(partner.partnerId, 3)
  await failing.then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, 'not stored')
  )
  const reader = openReader(client, { after: cursor })
  await reader.reaches(4)
  assert.equal(reader.positions, [3, 4])
  reader.stop()
  await reader.ended
})

streaming('calls back for where to go on when its cursor expired, and rejects for a key that was revoked', async () => {
  const { partner, client } = await makeLogged()
  const reader = openReader(client)
  const cursor = (await reader.ready()) as string
  reader.stop()
  await reader.ended
  await newEventEpoch(harness.services.db)
  assert.is((await refusal(client.stream({ onEvent: () => {}, after: cursor }))).code, 'CURSOR_EXPIRED')
  const all = openReader(client, { after: cursor, onExpired: ({ oldest }) => oldest })
  await all.reaches(1)
  await revokeKey(harness.services.db, partner.keyId)
  assert.is((await refusal(all.ended)).code, 'KEY_REVOKED')
})

streaming(
  'stores a later cursor where others than its own events came on a later day, and goes on with it',
  async () => {
    const { partner, client } = await makeLogged()
    const { db, pepper } = harness.services
    const { latest } = await readLogState(db, partner.partnerId)
    const after = writeCursor(pepper, partner.partnerId, { ...latest, day: latest.day - 1 })
    const reader = openReader(client, { after, traderExternalIds: ['wanted'] })
    await partner.makeTrader()
    await until('a later cursor', () => reader.cursor, 60_000)
    assert.is(reader.cursor, (await client.get('/v1/events', { query: { after: 'now' } })).cursor)
    await partner.makeTrader({ externalId: 'wanted' })
    await reader.reaches(3)
    relay.cut()
    await partner.makeTrader({ externalId: 'wanted' })
    await reader.reaches(4)
    assert.equal(reader.positions, [3, 4])
    reader.stop()
    await reader.ended
  }
)

streaming('opens with a ticket, a new one for each connection, for one trader and its prices', async () => {
  const { partner, client } = await makeClient()
  const { traderExternalId } = await partner.makeTrader()
  await partner.makeTrader()
  const stop = new AbortController()
  const traders = new Set<string | null>()
  let tickets = 0
  let ticks = 0
  let cursor: string | undefined
  const ended = openStream({
    url: relay.address,
    ticket: async () => {
      tickets += 1
      return (await client.post('/v1/stream/tickets', { body: { traderExternalId } })).ticket
    },
    assets: ['R_100'],
    onTicks: data => {
      ticks += data.length
    },
    onEvent: event => traders.add(event.traderExternalId),
    onCursor: next => {
      cursor = next
    },
    signal: stop.signal
  })
  await until('a cursor', () => cursor, 60_000)
  relay.cut()
  await until('a second ticket', () => tickets >= 2, 60_000)
  const { orderId } = await client.placeBinary({ traderExternalId, stake: 1, ...contract })
  await client.waitUntilSettled(orderId)
  await until('events and ticks', () => traders.size > 0 && ticks > 0, 60_000)
  assert.equal([...traders], [traderExternalId])
  stop.abort()
  await ended
})

const hooking = suite('verifyWebhook')
const secret = `whsec_${Buffer.alloc(24, 3).toString('base64')}`

hooking('takes what the service sends, and gives the event', async () => {
  const { client } = await makeClient()
  const receiver = await openReceiver()
  const verified: unknown[] = []
  const { webhookId, secret: own } = await client.post('/v1/webhooks', { body: { url: receiver.url } })
  receiver.respond = ({ event, headers }, response) => {
    response.writeHead(204).end()
    verified.push(verifyWebhook(JSON.stringify(event), headers, secret, own).catch(String))
  }
  await client.post('/v1/webhooks/{id}/test', { path: { id: webhookId } })
  const types = (await Promise.all(verified)).map(event => (event as { type: string }).type)
  // The partner's own key may have been announced as well.
  assert.ok(types.includes('webhook.test'), String(types))
})

hooking('refuses another body, another secret, an old timestamp and a missing signature', async () => {
  const [id, at, body] = ['evt_1', new Date(), '{"type":"order.closed"}']
  const signed = (when: Date, text = body) => ({
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(when.getTime() / 1000)),
    'webhook-signature': `v1,bm90IHRoaXMgb25l ${new Webhook(secret).sign(id, when, text)}`
  })
  assert.is((await verifyWebhook(body, new Headers(signed(at)), secret)).type, 'order.closed')
  // As a proxy writes them, and as the class of another package gives them.
  const capital = Object.entries(signed(at)).map(([name, value]): [string, string] => [name.toUpperCase(), value])
  assert.is((await verifyWebhook(body, Object.fromEntries(capital), secret)).type, 'order.closed')
  const foreign = new Map(Object.entries(signed(at))) as unknown as Headers
  assert.is((await verifyWebhook(body, foreign, secret)).type, 'order.closed')
  const other = `whsec_${Buffer.alloc(24, 4).toString('base64')}`
  const wrong: [string, Record<string, string>, string][] = [
    [`${body} `, signed(at), secret],
    [body, signed(at), other],
    [body, signed(new Date(at.getTime() - 301_000)), secret],
    [body, { ...signed(at), 'webhook-timestamp': '' }, secret],
    [body, { ...signed(at), 'webhook-id': 'evt_2' }, secret],
    [body, { 'webhook-id': id, 'webhook-timestamp': String(Math.floor(at.getTime() / 1000)) }, secret]
  ]
  for (const [text, headers, by] of wrong)
    await verifyWebhook(text, headers, by).then(
      () => assert.unreachable(JSON.stringify(headers)),
      (error: Error) => assert.is(error.name, 'WebhookRefused')
    )
})

hooking.after(closeAll)
for (const tests of [being, calling, trading, streaming, hooking]) tests.run()
