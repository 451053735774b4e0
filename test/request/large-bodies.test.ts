// What is read of a large body: no more than its request needs, and as fast as its partner's pace allows. The rest waits with the
// client, where it costs the others nothing.
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createApp } from '../../api/app.ts'
import { getMe } from '../../api/me.ts'
import { createListener } from '../../api/request/listen.ts'
import { countValues } from '../../schemas/fields/sizes.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'

const harness = await openHarness({ env: { RATE_LIMIT_LAUNCH: '1000' } })
const server = createListener(createApp(harness.services), harness.services).listen(0, '127.0.0.1')
await once(server, 'listening')
onClose(async () => {
  server.closeAllConnections()
  server.close()
})
const { port } = server.address() as AddressInfo

const MIB = 2 ** 20
// Read before anything is decided, and what the kernel and the stream hold meanwhile.
const LEAST_READ = 400_000
const EMPTY_ACCOUNTS = `{"traderExternalId":"x","accounts":[${'{},'.repeat(349_000)}{}]}`
const ONE_TEXT = `{"code":"${'x'.repeat(MIB - 100)}"}`

interface Sent {
  /** The connection as the server has it. */
  accepted: Socket
  /** Emitted once the server has ended its side of the connection. */
  ended: Promise<unknown>
  /** All that came back, once both sides have ended. */
  response: Promise<string>
}

/** Sends a request as fast as the server reads it. */
async function send(head: string, body: string): Promise<Sent> {
  const connected = once(server, 'connection')
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  let received = ''
  socket.setEncoding('latin1').on('data', chunk => {
    received += chunk
  })
  socket.write(head + body)
  const ended = once(socket, 'end')
  const response = once(socket, 'close', { signal: AbortSignal.timeout(20_000) }).then(() => received)
  const [accepted] = await connected
  return { accepted, ended, response }
}

const headOf = (key: string, path: string, length: string) =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`
const announced = ({ key }: Pick<TestPartner, 'key'>, path: string, body: string) =>
  send(headOf(key, path, `Content-Length: ${body.length}`), body)
const chunked = ({ key }: Pick<TestPartner, 'key'>, path: string, body: string) =>
  send(headOf(key, path, 'Transfer-Encoding: chunked'), `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`)

const EXCHANGE = '/v1/auth/broker/exchange'
const BOTS = '/v1/marketplace/creator/bots'

/** That a request was refused, that the connection ended with it, and that most of its body was left with the client. */
async function isLeft({ accepted, ended, response }: Sent, status: number): Promise<void> {
  const closed = once(accepted, 'close')
  await ended
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
  assert.not(accepted.destroyed, 'a client that still sends can read its response')
  await closed
  const received = await response
  assert.match(received, new RegExp(`^HTTP/1.1 ${status} `))
  assert.match(received, /^Connection: close\r$/im)
  assert.ok(accepted.bytesRead < LEAST_READ, `${accepted.bytesRead} bytes were read`)
}

const left = suite('the rest of a large body')

left('is not read once what has come holds too many values', async () => {
  const partner = await harness.makePartner()
  await isLeft(await announced(partner, EXCHANGE, EMPTY_ACCOUNTS), 400)
  await isLeft(await chunked(partner, EXCHANGE, EMPTY_ACCOUNTS), 400)
})

left('is not read where the request is refused before it', async () => {
  const partner = await harness.makePartner()
  await isLeft(await announced({ key: 'nobody’s' }, BOTS, ONE_TEXT), 401)
  await isLeft(await chunked({ key: 'nobody’s' }, BOTS, ONE_TEXT), 401)
  await isLeft(await announced(partner, '/v1/nowhere', ONE_TEXT), 404)
  await isLeft(await announced(partner, '/v1/me', ONE_TEXT), 405)
  const { release } = harness.services.bytes.add(partner.partnerId, 8 * MIB)
  await isLeft(await announced(partner, BOTS, ONE_TEXT), 429)
  release()
})

left('is read while its partner’s pace allows it, and not before', async () => {
  const partner = await harness.makePartner()
  for (const begin of [announced, chunked]) {
    harness.services.pace.spend(partner.partnerId, 20 * MIB)
    const { accepted, response } = await begin(partner, BOTS, ONE_TEXT)
    await until('as much as is read at once', async () => accepted.bytesRead > 65_536)
    assert.is((await partner.call(getMe)).status, 200)
    assert.ok(accepted.bytesRead < LEAST_READ, `${accepted.bytesRead} bytes were read`)
    await until('all of it', async () => accepted.bytesRead > MIB)
    accepted.end()
    assert.match(await response, /^HTTP\/1.1 400 /)
  }
})

left('is read of a small one, whose connection stays', async () => {
  const body = `{"code":"${'x'.repeat(50_000)}"}`
  const { accepted, response } = await announced({ key: 'nobody’s' }, BOTS, body)
  await until('all of it', async () => accepted.bytesRead > body.length)
  assert.ok(accepted.writable)
  accepted.end()
  assert.match(await response, /^HTTP\/1.1 401 [\s\S]*Connection: keep-alive/)
})

const memory = suite('memory of large bodies')

memory('is given back with their response, and not when V8 collects garbage', async () => {
  const partners = await Promise.all(Array.from({ length: 8 }, () => harness.makePartner()))
  const before = process.memoryUsage().arrayBuffers
  for (const partner of partners) {
    const { accepted, response } = await announced(partner, BOTS, ONE_TEXT)
    await until('all of it', async () => accepted.bytesRead > MIB)
    accepted.end()
    assert.match(await response, /^HTTP\/1.1 400 /)
  }
  const left = process.memoryUsage().arrayBuffers - before
  assert.ok(left < 2 * MIB, `${left} bytes of ${partners.length} bodies are left`)
})

const counting = suite('values counted part by part')

counting('are as many as those of the whole text, wherever it is cut', () => {
  const count = (parts: Buffer[]) => {
    const tooMuchIn = countValues()
    return parts.map(part => tooMuchIn(part)).find(message => message !== undefined)
  }
  const long = 'x'.repeat(70)
  // Without the quotes and backslashes that they hold, or read as a string where there is none, they have fewer values.
  const texts = ['\\\\', '\\"', `${long}\\"`, `${long}\\\\`, '\\\\\\"', ',[{', '"'].map(
    inner => `["${inner}","${inner}${long}",[${'0,'.repeat(9990)}0]]`
  )
  for (const text of texts) {
    const whole = Buffer.from(text)
    const over = Buffer.from(text.replace('[0,', '[0,0,0,0,0,0,0,0,0,0,'))
    for (let at = 0; at < 200; at++) {
      for (const bytes of [whole, over])
        assert.is(count([bytes.subarray(0, at), bytes.subarray(at)]), count([bytes]), `${text.slice(0, 90)} at ${at}`)
      const single = [...whole.subarray(0, at)].map(byte => Buffer.of(byte))
      assert.is(count([...single, whole.subarray(at)]), count([whole]), `${text.slice(0, 90)} byte by byte to ${at}`)
    }
  }
})

counting.after(closeAll)
for (const tests of [left, memory, counting]) tests.run()
