// Bounds of a socket that the other tests do not reach: traders over all of its subscriptions, a client that reads nothing for a
// minute, and the places of an api that was killed.
// test in the full run only
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket, WebSocketServer } from 'ws'
import { StreamSocket } from '../../api/events/stream/socket.ts'
import { Tails } from '../../api/events/stream/tail.ts'
import { Ticks } from '../../api/events/stream/ticks.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startApi } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { openClient, refusedUpgrade } from './client.ts'

const harness = await openHarness()
const redis = await startRedis()

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
  socket.tick(performance.now() + 59_000)
  assert.is(ws.readyState, ws.OPEN)
  socket.tick(performance.now() + 61_000)
  assert.ok(socket.closed)
  release()
})

bounds('read the log for one subscription that is behind after another, by turns among partners', async () => {
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
  const { key } = await harness.makePartner({ plan: 'LAUNCH' })
  await Promise.all([1, 2, 3, 4, 5].map(() => openClient(killed.address, { key })))
  assert.is((await refusedUpgrade(other.address, { key })).body.error, 'LIMIT_REACHED')
  killed.kill('SIGKILL')
  await killed.ended
  const five = async () => openClient(other.address, { key }).catch(() => undefined)
  for (let count = 0; count < 5; count++) await until('a free place', five, 60_000)
  assert.is((await refusedUpgrade(other.address, { key })).body.error, 'LIMIT_REACHED')
})

bounds.after(closeAll)
bounds.run()
