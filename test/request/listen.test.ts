// What reaches the server before there is a request: broken HTTP, header fields without end, clients that take their
// time. Each is refused in words, with the envelope, and none keeps its connection.
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createApp } from '../../api/app.ts'
import { ErrorEnvelope } from '../../api/description/errors.ts'
import { createListener } from '../../api/request/listen.ts'
import { violations } from '../../schemas/checks/validator.ts'
import { closeAll, onClose, openHarness } from '../support/harness.ts'

const harness = await openHarness({ env: { ORDER_TTL_MS: '500', SETTLE_WAIT_MS: '500' } })
const partner = await harness.makePartner()
// Whoever is too slow must not be cut off as idle first, however long this process did not run meanwhile.
const patience = { headersMs: 300, requestMs: 600, idleMs: 100_000, checkMs: 50 }
// What a busy machine takes from this process makes no time longer.
const neverStalled = { ...harness.services, stalls: { ...harness.services.stalls, lostMs: () => 0 } }
/** A listener with other times than the usual ones, until the end of the tests. */
async function listen(times: typeof patience, services = neverStalled) {
  const server = createListener(createApp(services), services, times).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onClose(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { server, port: (server.address() as AddressInfo).port }
}
const { server: impatient, port: impatientPort } = await listen(patience)
const usualPort = Number(new URL(harness.address).port)

/** Sends bytes as they are and reads until the server ends the connection, within 20 s: Node's own times are longer. */
async function speak(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  let received = ''
  socket.setEncoding('latin1').on('data', chunk => {
    received += chunk
  })
  socket.write(text, 'latin1')
  await once(socket, 'close', { signal: AbortSignal.timeout(20_000) })
  return received
}

/** Sends bytes on a connection that is open, and has the process do nothing else for a while, until the server ends it. */
async function speakBeforeStall(
  { server, port }: Awaited<ReturnType<typeof listen>>,
  text: string,
  stallMs: number
): Promise<string> {
  const accepted = once(server, 'connection')
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  let received = ''
  socket.setEncoding('latin1').on('data', chunk => {
    received += chunk
  })
  await accepted
  socket.write(text, 'latin1')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, stallMs)
  await once(socket, 'close', { signal: AbortSignal.timeout(20_000) })
  return received
}

/** Status and code of a response that must be a whole envelope with the usual header fields. */
function refusal(received: string): [number, string] {
  const [head = '', body = ''] = received.split('\r\n\r\n')
  const envelope = JSON.parse(body) as { error: string; requestId: string }
  assert.equal(violations(ErrorEnvelope, envelope), [])
  assert.match(head, new RegExp(`^X-Request-Id: ${envelope.requestId}\r?$`, 'im'))
  assert.match(head, /^Content-Type: application\/json; charset=utf-8\r?$/im)
  assert.match(head, /^X-Content-Type-Options: nosniff\r?$/im)
  assert.match(head, /^Connection: close\r?$/im)
  assert.not.match(head, /^(Server|X-Powered-By):/im)
  return [Number(head.split(' ')[1]), envelope.error]
}

const get = (more = '') =>
  `GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${partner.key}\r\n${more}\r\n`
const post = (more: string) =>
  `POST /v1/trades/collect HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${partner.key}\r\nContent-Type: application/json\r\n${more}`

const broken = suite('what is not HTTP')

broken('returns 400 MALFORMED_REQUEST', async () => {
  for (const text of [
    get('Host: y\r\n'),
    get('hOST: x\r\n'),
    'good day\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'GET /v1/me HTTP/9.9\r\nHost: x\r\n\r\n',
    'GET /v1/me HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n',
    'GET /v1/me HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n',
    post('Content-Length: minus one\r\n\r\n'),
    post('Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}'),
    post('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}'),
    post('Transfer-Encoding: chunked\r\n\r\nnot a size\r\n')
  ])
    assert.equal(refusal(await speak(usualPort, text)), [400, 'MALFORMED_REQUEST'], JSON.stringify(text))
})

broken('includes HTTP/1.1 without a Host', async () => {
  const received = await speak(usualPort, 'GET /v1/me HTTP/1.1\r\nConnection: close\r\n\r\n')
  assert.equal(refusal(received), [400, 'MALFORMED_REQUEST'])
})

broken('includes a Host with anything but one name or address and a port', async () => {
  const withHost = (host: string) => speak(usualPort, get().replace('Host: x', `Host: ${host}`))
  const refused = ['a, b', 'a,b', 'a b', 'someone@a', 'a/b', 'a:80:81', 'a:http', '[::1', '::1', 'a%2', 'a?b', '"a"']
  for (const host of refused) assert.equal(refusal(await withHost(host)), [400, 'MALFORMED_REQUEST'], host)
  const accepted = ['a', 'A.example', 'a_b:8080', '127.0.0.1:80', '[::1]', '[2001:db8::1]:443', 'a:', 'a%2Db', '']
  for (const host of accepted) assert.match(await withHost(host), /^HTTP\/1\.1 200 OK/, host)
})

broken('is not the response to a whole request before it, which is the last one of its connection', async () => {
  const whole = get().replace('Connection: close\r\n', '')
  for (const rest of ['good day\r\n\r\n', `${'x'.repeat(100_000)}\r\n\r\n`, whole.slice(0, 40)]) {
    const received = await speak(impatientPort, `${whole}${rest}`)
    assert.match(received, /^HTTP\/1\.1 200 OK/, rest.slice(0, 20))
    // What is only slow may have its own response once the one before has been sent.
    if (!rest.startsWith('GET')) assert.match(received, /^Connection: close\r?$/im)
    assert.is(received.includes('MALFORMED_REQUEST'), false)
  }
})

broken('expectations are not: one that is unknown is ignored', async () => {
  assert.match(await speak(usualPort, get('Expect: a-miracle\r\n')), /^HTTP\/1\.1 200 OK/)
})

const offered = suite('another protocol that is offered')

offered('is left alone, as by a client that would take HTTP/2: the request is an ordinary one', async () => {
  const offering = (upgrade: string, path = '/v1/me') =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: ${upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nAuthorization: Bearer ${partner.key}\r\n\r\n`
  const received = await speak(usualPort, offering('h2c'))
  assert.match(received, /^HTTP\/1\.1 200 /)
  assert.is(JSON.parse(received.split('\r\n\r\n')[1] as string).partnerId, partner.partnerId)
  assert.match(await speak(usualPort, offering('TLS/1.2', '/v1/usage')), /^HTTP\/1\.1 200 /)
  // WebSocket is one of those offered: there is none at this path.
  assert.equal(refusal(await speak(usualPort, offering('h2c, WebSocket'))), [404, 'NOT_FOUND'])
})

const large = suite('too much')

large('of header fields is 431', async () => {
  const received = await speak(usualPort, get(`Cookie: ${'x'.repeat(20_000)}\r\n`))
  assert.equal(refusal(received), [431, 'HEADERS_TOO_LARGE'])
})

large('of fields, more than a hundred, is 431 as well', async () => {
  const more = (count: number) => Array.from({ length: count }, (_, index) => `X-${index}: y\r\n`).join('')
  const request = (count: number) => get().replace('Authorization', `${more(count)}Authorization`)
  // Beside three others.
  assert.match(await speak(usualPort, request(97)), /^HTTP\/1\.1 200 OK/)
  assert.equal(refusal(await speak(usualPort, request(98))), [431, 'HEADERS_TOO_LARGE'])
})

large('of a body is 413, by its announced length before any of it is read', async () => {
  const received = await speak(usualPort, post('Content-Length: 10000000\r\n\r\n{'))
  assert.equal(refusal(received), [413, 'PAYLOAD_TOO_LARGE'])
})

large('of a body in chunks is 413 once a mebibyte has come', async () => {
  const chunk = `${(65_536).toString(16)}\r\n${' '.repeat(65_536)}\r\n`
  const received = await speak(usualPort, `${post('Transfer-Encoding: chunked\r\n\r\n')}${chunk.repeat(17)}`)
  assert.equal(refusal(received), [413, 'PAYLOAD_TOO_LARGE'])
})

const slow = suite('too slow')

slow('with its header fields or its body is 408', async () => {
  for (const text of [get().slice(0, 40), post('Content-Length: 100\r\n\r\n{')])
    assert.equal(refusal(await speak(impatientPort, text)), [408, 'REQUEST_TIMEOUT'], text)
})

slow('with its header fields is 408 long before the time of a whole request is over', async () => {
  const { port } = await listen({ ...patience, requestMs: 100_000 })
  assert.equal(refusal(await speak(port, get().slice(0, 40))), [408, 'REQUEST_TIMEOUT'])
})

slow('is not who sent it before the process did nothing for longer: it is read then', async () => {
  const listener = await listen(patience, harness.services)
  for (const text of [get(), post(`Content-Length: 2\r\n\r\n{}`)]) {
    const received = await speakBeforeStall(listener, text, 3 * patience.requestMs)
    assert.match(received, /^HTTP\/1\.1 (200|400) /)
    assert.is(received.includes('REQUEST_TIMEOUT'), false, received)
  }
})

slow('is not who opened a connection and has not used it yet', async () => {
  const socket = connect(impatientPort, '127.0.0.1')
  const [accepted] = await once(impatient, 'connection')
  const ended = once(accepted, 'close').then(() => 'ended')
  const later = new Promise(resolve => setTimeout(resolve, patience.headersMs + 10 * patience.checkMs, 'open'))
  assert.is(await Promise.race([ended, later]), 'open')
  let received = ''
  socket.setEncoding('latin1').on('data', chunk => {
    received += chunk
  })
  socket.write(get())
  await once(socket, 'close')
  assert.match(received, /^HTTP\/1\.1 200 OK/)
})

slow('to send its next request keeps its connection longer than a proxy in front does', async () => {
  const { headers } = await fetch(`${harness.address}/docs`)
  // Proxies keep it for a minute: the one that closes first must not be the one that is about to be sent a request.
  assert.is(headers.get('keep-alive'), 'timeout=65')
})

slow('to read its responses is cut off', async () => {
  const { server: idle, port } = await listen({ ...patience, idleMs: 300 })
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  socket.pause()
  // More responses than fit between the two of them.
  for (let count = 0; count < 20; count++) socket.write('GET /docs/redoc.js HTTP/1.1\r\nHost: x\r\n\r\n')
  const [server] = await once(idle, 'connection')
  await once(server, 'close')
  socket.destroy()
})

const full = suite('a connection that cannot be accepted')

full('as when there are no file descriptors left, ends nothing', async () => {
  impatient.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE', syscall: 'accept' }))
  assert.is((await fetch(`http://127.0.0.1:${impatientPort}/docs`)).status, 200)
})

full.after(closeAll)
for (const tests of [broken, offered, large, slow, full]) tests.run()
