// No request of a webhook reaches an address that is not public: whatever form the address has, whatever a name resolves to, also when
// it resolves differently between check and connection, and where a redirect points. Listeners count connections on every local address.
import { createSocket } from 'node:dgram'
import { channel } from 'node:diagnostics_channel'
import { Resolver } from 'node:dns/promises'
import { createServer, type Server } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isPublicAddress } from '../../schemas/public-address.ts'
import { urlFault } from '../../schemas/webhook-url.ts'
import { openRequests } from '../../worker/webhooks/request.ts'
import { closeAll, onClose } from '../support/harness.ts'
import { openReceiver } from './receiver.ts'

// Whatever is reached is reached here: all local addresses, IPv4 and IPv6.
let connections = 0
const listener = await new Promise<Server>(resolve => {
  const server = createServer(socket => {
    connections += 1
    socket.destroy()
  })
  server.listen({ port: 0, host: '::', ipv6Only: false }, () => resolve(server))
})
onClose(async () => listener.close())
const { port } = listener.address() as { port: number }

/** A DNS server that returns for each name the address in its first label (`-` for `.` or `:`), or in turn. */
const questions: string[] = []
const dns = createSocket('udp4')
dns.on('message', (query, from) => dns.send(dnsResponse(query), from.port, from.address))
await new Promise<void>(resolve => dns.bind(0, '127.0.0.1', resolve))
onClose(async () => dns.close())
const servers = [`127.0.0.1:${dns.address().port}`]

const inTurn = new Map<string, string[]>()
// Names whose look-up fails, and with which code of DNS.
const failures = new Map<string, number>()
const [SERVFAIL, REFUSED] = [2, 5]

function dnsResponse(query: Buffer): Buffer {
  const labels: string[] = []
  let at = 12
  for (; query[at]; at += (query[at] as number) + 1)
    labels.push(query.subarray(at + 1, at + 1 + (query[at] as number)).toString())
  const type = query.readUInt16BE(at + 1)
  const name = labels.join('.')
  questions.push(name)
  const failing = failures.get(name)
  if (failing !== undefined) {
    const refused = Buffer.from(query.subarray(0, at + 5))
    refused.writeUInt16BE(0x8180 + failing, 2)
    for (const counts of [6, 8, 10]) refused.writeUInt16BE(0, counts)
    return refused
  }
  const turns = inTurn.get(name)
  const address = turns ? (turns.length > 1 && type === 1 ? turns.shift() : turns[0]) : labels[0]?.replaceAll('-', '.')
  const bytes =
    type === 1 && address && /^[\d.]+$/.test(address) ? Buffer.from(address.split('.').map(Number)) : undefined
  const mapped =
    type === 28 && labels[0] === 'six' ? Buffer.from((labels[1] as string).padStart(32, '0'), 'hex') : undefined
  const data = bytes ?? mapped
  const head = Buffer.from(query.subarray(0, 12))
  head.writeUInt16BE(0x8180, 2)
  head.writeUInt16BE(data ? 1 : 0, 6)
  head.writeUInt32BE(0, 8)
  const question = query.subarray(12, at + 5)
  if (!data) return Buffer.concat([head, question])
  const record = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, data.length])
  return Buffer.concat([head, question, record, data])
}

const privateV4 = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.127.255.254',
  '127.0.0.1',
  '127.0.0.2',
  '127.1.2.3',
  '127.255.255.254',
  '169.254.0.1',
  '169.254.169.254',
  '169.254.170.2',
  '169.254.169.123',
  '169.254.0.23',
  '172.16.0.1',
  '172.17.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.0.192',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.0.1',
  '192.168.1.1',
  '192.168.255.255',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '224.0.0.251',
  '239.255.255.250',
  '240.0.0.1',
  '250.1.2.3',
  '255.255.255.255',
  '168.63.129.16',
  '100.100.100.200'
]
const number = (address: string) => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const hex = (address: string) => number(address).toString(16).padStart(8, '0')
const pair = (address: string) => `${hex(address).slice(0, 4)}:${hex(address).slice(4)}`
const other = (address: string, radix: (part: number) => string) =>
  address
    .split('.')
    .map(part => radix(Number(part)))
    .join('.')

/** Each address as whoever wants to hide it would write it. */
const hidden = privateV4.flatMap(address => [
  address,
  String(number(address)),
  `0x${hex(address)}`,
  other(address, part => `0${part.toString(8)}`),
  other(address, part => `0x${part.toString(16)}`),
  `[::ffff:${address}]`,
  `[::ffff:${pair(address)}]`,
  `[::${address}]`,
  `[64:ff9b::${address}]`,
  `[2002:${pair(address)}::1]`
])
const v6 = [
  '::',
  '::1',
  'fe80::1',
  'fec0::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd20:ce::254',
  'ff02::1',
  'ff0e::1',
  '100::1',
  '2001::1',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '3fff::1',
  '5f00::1',
  '64:ff9b:1::a00:1',
  '::ffff:0:127.0.0.1',
  '2620:4f:8000::1',
  '4000::1',
  '::2',
  '0:0:0:0:0:0:0:1',
  'fe80::a9fe:a9fe'
].map(address => `[${address}]`)
const short = [
  '127.1',
  '127.0.1',
  '10.1',
  '0',
  '0x7f.1',
  '017700000001',
  '0x7f000001',
  '2130706433',
  '192.168.257',
  '127.0.0.1.',
  '0177.0.0.1',
  '①②⑦.0.0.1'
]
const names = [
  ...privateV4.map(address => `${address.replaceAll('.', '-')}.evil.test`),
  'six.00000000000000000000000000000001.evil.test',
  'six.00000000000000000000ffff7f000001.evil.test',
  'six.fd000ec2000000000000000000000254.evil.test',
  'six.fe800000000000000000000000000001.evil.test',
  'six.0064ff9b0000000000000000a9fea9fe.evil.test',
  'nothing.evil.test',
  'localhost',
  'a.localhost',
  'localhost.'
]

const requests = openRequests({ allowPrivate: false, servers })
const lax = openRequests({ allowPrivate: true, servers })
onClose(async () => {
  requests.close()
  lax.close()
})
const post = (url: string) => requests.post(url, {}, '{}')

const hostile = suite('hostile addresses')

hostile('are reached by no form, and by no name that resolves to them', async () => {
  const hosts = [...hidden, ...v6, ...short, ...names]
  assert.ok(new Set(hosts).size >= 200, `${new Set(hosts).size} of them`)
  for (let from = 0; from < hosts.length; from += 50)
    await Promise.all(
      hosts.slice(from, from + 50).map(async host => {
        const outcome = await post(`https://${host}:${port}/`)
        assert.equal([outcome.error, outcome.httpStatus, outcome.response], ['ADDRESS_NOT_ALLOWED', null, null], host)
      })
    )
  assert.is(connections, 0)
})

hostile('hide behind no name that resolves differently between check and connection', async () => {
  inTurn.set('turns.evil.test', ['93.184.215.14', '127.0.0.1'])
  const resolver = new Resolver()
  resolver.setServers(servers)
  assert.equal(await resolver.resolve4('turns.evil.test'), ['93.184.215.14'])
  assert.is((await post(`https://turns.evil.test:${port}/`)).error, 'ADDRESS_NOT_ALLOWED')
  assert.is(connections, 0)
})

hostile('are refused where only one of a name’s addresses is one', async () => {
  inTurn.set('both.evil.test', ['10.0.0.1'])
  assert.is((await post(`https://both.evil.test:${port}/`)).error, 'ADDRESS_NOT_ALLOWED')
  assert.is(connections, 0)
})

hostile('are not what a look-up that failed is reported as: the connection failed', async () => {
  failures.set('failing.evil.test', SERVFAIL)
  failures.set('refused.evil.test', REFUSED)
  // A port on which no DNS server listens.
  const away = createSocket('udp4')
  await new Promise<void>(resolve => away.bind(0, '127.0.0.1', resolve))
  const nobody = `127.0.0.1:${away.address().port}`
  await new Promise<void>(resolve => away.close(() => resolve()))
  const unresolved = openRequests({ allowPrivate: false, servers: [nobody] })
  onClose(async () => unresolved.close())
  const outcomes = [
    post(`https://failing.evil.test:${port}/`),
    post(`https://refused.evil.test:${port}/`),
    unresolved.post(`https://93-184-215-14.evil.test:${port}/`, {}, '{}')
  ]
  for (const { error, httpStatus } of await Promise.all(outcomes))
    assert.equal([error, httpStatus], ['CONNECTION_FAILED', null])
  assert.is(connections, 0)
})

hostile('are not reached by a redirect', async () => {
  const receiver = await openReceiver()
  for (const status of [301, 302, 303, 307, 308]) {
    receiver.respond = (_received, response) =>
      response.writeHead(status, { location: `http://127.0.0.1:${port}/` }).end()
    const outcome = await lax.post(receiver.url, {}, '{}')
    assert.equal([outcome.error, outcome.httpStatus], ['REDIRECT', status])
  }
  assert.is(connections, 0)
})

hostile('are reached where private ones are allowed, so that the counter counts', async () => {
  const outcome = await lax.post(`http://127.0.0.1:${port}/`, {}, '{}')
  assert.is(outcome.error, 'CONNECTION_FAILED')
  assert.ok(connections > 0)
})

const judging = suite('public addresses')

judging('are these, and no others', () => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '93.184.215.14',
    '172.32.0.1',
    '192.167.255.255',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81c::200e'
  ])
    assert.ok(isPublicAddress(address), address)
  for (const address of [
    ...privateV4,
    ...v6.map(text => text.slice(1, -1)),
    '2606:4700:4700::1111%eth0',
    '',
    'nonsense'
  ])
    assert.not.ok(isPublicAddress(address), address)
  assert.is(urlFault('https://example.com/hook?x=1', false), undefined)
})

const responses = suite('responses')

responses('are read to 16 KiB, and kept to 1 KiB of text that can be stored', async () => {
  const receiver = await openReceiver()
  let written = 0
  receiver.respond = (_received, response) => {
    response.writeHead(200)
    const more = () => {
      while (!response.destroyed && response.write('é\u0000'.repeat(1000))) written += 1
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  }
  const outcome = await lax.post(receiver.url, {}, '{}')
  assert.is(outcome.error, null)
  assert.ok(Buffer.byteLength(outcome.response ?? '') <= 1024)
  assert.not.ok(outcome.response?.includes('\u0000'))
  assert.ok(written < 10_000)
})

responses('that come a byte a second, or never, end in time', async () => {
  const receiver = await openReceiver()
  receiver.respond = (_received, response) => {
    response.writeHead(200)
    response.write('a')
  }
  const begun = performance.now()
  const slow = await lax.post(receiver.url, {}, '{}')
  assert.equal([slow.error, slow.response], [null, 'a'])
  receiver.respond = () => {}
  const impatient = openRequests({ allowPrivate: true, timeoutMs: 500 })
  assert.is((await impatient.post(receiver.url, {}, '{}')).error, 'TIMEOUT')
  impatient.close()
  assert.ok(performance.now() - begun < 14_000)
})

responses('are given up where more comes before their head than belongs there', async () => {
  const receiver = await openReceiver()
  for (const ahead of ['HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n', '\r\n']) {
    const part = ahead.repeat(1000)
    let written = 0
    receiver.respond = (_received, _response, { socket }) => {
      const more = () => {
        while (!socket.destroyed && socket.write(part)) written += part.length
      }
      socket.on('drain', more)
      more()
    }
    const patient = openRequests({ allowPrivate: true, timeoutMs: 10_000 })
    assert.is((await patient.post(receiver.url, {}, '{}')).error, 'CONNECTION_FAILED', `after ${written} bytes`)
    patient.close()
  }
})

responses('count by their status, also where the connection is reset after their head', async () => {
  const receiver = await openReceiver()
  receiver.respond = (_received, response, { socket }) => {
    channel('http.client.response.finish').subscribe(function reset() {
      channel('http.client.response.finish').unsubscribe(reset)
      socket.resetAndDestroy()
    })
    response.writeHead(202, { 'content-length': 5 }).flushHeaders()
  }
  const { error, httpStatus } = await lax.post(receiver.url, {}, '{}')
  assert.equal([error, httpStatus], [null, 202])
})

responses('may request a pause of an hour at most', async () => {
  const receiver = await openReceiver()
  for (const [value, seconds] of [
    ['7', 7],
    ['999999', 3600],
    ['nonsense', null]
  ] as const) {
    receiver.respond = (_received, response) => response.writeHead(503, { 'retry-after': value }).end()
    assert.is((await lax.post(receiver.url, {}, '{}')).retryAfterS, seconds)
  }
})

responses.after(closeAll)
hostile.run()
judging.run()
responses.run()
