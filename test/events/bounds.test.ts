// Bounds of a socket that the other tests do not reach: traders over all of its subscriptions, a client that reads nothing for a
// minute, large messages, places of sockets that were not opened in the end, and those of an api that was killed.
// test in the full run only
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket, WebSocketServer } from 'ws'
import { StreamSocket } from '../../api/events/stream/socket.ts'
import { SurplusSockets } from '../../api/events/stream/surplus.ts'
import { Tails } from '../../api/events/stream/tail.ts'
import { Ticks } from '../../api/events/stream/ticks.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { socketsPerKey } from '../../schemas/stream.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startApi } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { openClient, openCounted, openSurplusCounted, openWithPlace, refusedUpgrade } from './client.ts'

const harness = await openHarness()
const redis = await startRedis()

const { db } = harness.services

/** Requests a socket in this version of WebSocket, on a connection of its own. */
function upgrade(key: string, version: string) {
  const socket = connect(Number(new URL(harness.address).port), '127.0.0.1')
  let received = ''
  socket
    .on('error', () => {})
    .setEncoding('latin1')
    .on('data', text => {
      received += text
    })
  const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n`
  socket.write(
    `GET /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n${fields}Sec-WebSocket-Version: ${version}\r\n\r\n`
  )
  return { socket, received: () => received }
}

const bounds = suite('the bounds of a socket')

bounds('count the traders of all of its subscriptions, each once', async () => {
  const client = await openClient(harness.address, { key: (await harness.makePartner()).key })
  const traders = (from: number, count: number) => Array.from({ length: count }, (_, index) => `t-${from + index}`)
  const subscribe = (id: string, traderExternalIds: string[]) =>
    client.send({ type: 'subscribe', id, channel: 'events', traderExternalIds })
  subscribe('one', traders(0, 300))
  await client.take('subscribed')
  subscribe('two', traders(200, 300))
  await client.take('subscribed')
  subscribe('three', ['t-500'])
  assert.is((await client.take('error')).error, 'LIMIT_REACHED')
  client.send({ type: 'unsubscribe', id: 'two' })
  subscribe('three', ['t-500'])
  await client.take('subscribed', ({ id }) => id === 'three')
})

bounds('end one whose client reads nothing for a minute, and none whose client reads slowly', async () => {
  const partner = await harness.makePartner()
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const coming = once(server, 'connection') as Promise<[WebSocket]>
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onClose(async () => {
    client.terminate()
    server.close()
  })
  const [ws] = await coming
  const { tail, release } = await new Tails(harness.services).take(partner.partnerId)
  const { keyId, partnerId } = partner
  const holder = { keyId, partnerId, scopes: allScopes, brokerDialect: 'v3', brokerAppId: '1' }
  const socket = new StreamSocket(harness.services, ws, { holder, tail, ticks: new Ticks(harness.services) })
  await once(client, 'message')
  client.send(JSON.stringify({ type: 'subscribe', id: 's', channel: 'events' }))
  await once(client, 'message')
  client.pause()
  const big = Buffer.alloc(1024 * 1024, 'x')
  // More than the system takes for a socket.
  while (ws.bufferedAmount === 0) {
    socket.sendTicks(big)
    await new Promise(resolve => setImmediate(resolve))
  }
  socket.tick(performance.now() + 50_000)
  assert.is(ws.readyState, ws.OPEN)
  socket.tick(performance.now() + 61_000)
  assert.ok(socket.closed)
  release()
})

bounds('close one that sends a message of more than 64 KiB, and none is compressed', async () => {
  const client = await openClient(harness.address, { key: (await harness.makePartner()).key })
  // Its client offers to.
  assert.is(client.ws.extensions, '')
  client.send(`{"type":"ping","id":"${'x'.repeat(65_536)}"}`)
  assert.is(await client.closed, 1009)
})

bounds(
  'close one that sends a message in very many frames, each of which keeps what was received with it',
  async () => {
    const client = await openClient(harness.address, { key: (await harness.makePartner()).key })
    const send = (frames: string[]) => {
      for (const [index, frame] of frames.entries()) client.ws.send(frame, { fin: index === frames.length - 1 })
    }
    send([...`{"type":"ping","id":"${'x'.repeat(60)}"}`])
    await client.take('pong')
    send([...' '.repeat(129), '{"type":"ping","id":"x"}'])
    assert.is(await client.closed, 1008)
  }
)

/** Holds that all of the key's places are free: as many sockets as its plan has can be opened. */
async function holdFree(key: string): Promise<void> {
  for (let count = 0; count < socketsPerKey.LAUNCH; count++)
    await until('a free place', () => openWithPlace(harness.address, { key }))
}

bounds('have their places free again where the log cannot be read, or the handshake is none of ours', async () => {
  const [unread, wrong] = [await harness.makePartner({ plan: 'LAUNCH' }), await harness.makePartner({ plan: 'LAUNCH' })]
  await db.raw('alter table events rename to events_away')
  for (let count = 0; count < socketsPerKey.LAUNCH; count++)
    assert.is((await refusedUpgrade(harness.address, { key: unread.key })).status, 500)
  await db.raw('alter table events_away rename to events')
  await holdFree(unread.key)
  for (let count = 0; count < socketsPerKey.LAUNCH; count++) {
    const { socket, received } = upgrade(wrong.key, '12')
    await once(socket, 'close')
    assert.match(received(), /^HTTP\/1\.1 400 /)
  }
  await holdFree(wrong.key)
})

bounds('have their places free again where the client is gone before it is let in', async () => {
  const { key, keyId } = await harness.makePartner({ plan: 'LAUNCH' })
  const lock = await db.transaction()
  await lock.raw('lock table events in access exclusive mode')
  const sockets = Array.from({ length: socketsPerKey.LAUNCH }, () => upgrade(key, '13').socket)
  const all = async () => {
    const place = await harness.services.limits.hold(`stream:${keyId}`, socketsPerKey.LAUNCH)
    place?.release()
    return !place
  }
  await until('all places to be taken', all)
  for (const socket of sockets) socket.resetAndDestroy()
  await lock.commit()
  await holdFree(key)
})

bounds('end those beyond the places of their key within seconds, of which few are open at a time', async () => {
  const { key } = await harness.makePartner({ plan: 'LAUNCH' })
  await Promise.all([1, 2, 3, 4, 5].map(() => openWithPlace(harness.address, { key })))
  // Its client does not close its side.
  const mute = upgrade(key, '13')
  await once(mute.socket, 'close')
  assert.match(mute.received(), /^HTTP\/1\.1 101 /)
  const surplus = new SurplusSockets()
  const sockets = Array.from({ length: 201 }, () => new PassThrough())
  assert.equal(
    sockets.map(socket => surplus.take(socket)),
    sockets.map((_, index) => index < 200)
  )
  const [first, last] = [sockets[0] as PassThrough, sockets[200] as PassThrough]
  first.destroy()
  await once(first, 'close')
  assert.ok(surplus.take(last))
  await once(last, 'close')
})

bounds('read the log for one subscription that is behind after another, round-robin among partners', async () => {
  const tails = new Tails(harness.services)
  const take = async () => tails.take((await harness.makePartner()).partnerId)
  const [many, few] = [await take(), await take()]
  const turns: string[] = []
  const ended: (() => void)[] = []
  const replay = ({ tail }: typeof many, name: string) =>
    tail.replay(() => {
      turns.push(name)
      return new Promise<void>(resolve => ended.push(resolve))
    })
  const replays = [replay(many, 'many'), replay(many, 'many'), replay(many, 'many'), replay(few, 'few')]
  for (let count = 1; count <= replays.length; count++) {
    await until('the next turn', () => turns.length === count)
    ended.at(-1)?.()
  }
  await Promise.all(replays)
  assert.equal(turns, ['many', 'many', 'few', 'many'])
  for (const { release } of [many, few]) release()
})

bounds('give the places of an api that was killed to others, with Redis', async () => {
  if (!redis) return
  const env = { ...harness.env, REDIS_URL: redis.url }
  const [killed, other] = await Promise.all([startApi(env), startApi(env)])
  const { key } = await openCounted(harness, redis, Array(5).fill(killed.address))
  assert.match(await openSurplusCounted(other.address, { key }), '5 sockets')
  killed.kill('SIGKILL')
  await killed.ended
  const one = () => openWithPlace(other.address, { key })
  for (let count = 0; count < 5; count++) await until('a free place', one, 60_000)
  assert.match(await openSurplusCounted(other.address, { key }), '5 sockets')
})

bounds.after(closeAll)
bounds.run()
