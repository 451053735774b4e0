// Wake-ups that go wrong end no process: what nobody knows is passed over, and a Redis that never responds can be left.
// test in the full run only
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Redis } from 'ioredis'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { openBus, WORK } from '../../db/platform/bus.ts'
import { openLog } from '../../db/platform/log.ts'
import { logOutages } from '../../db/platform/redis-outage.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startWorker } from '../support/processes.ts'
import { startMovingAddress, startRedis } from '../support/redis.ts'

const harness = await openHarness()
const log = openLog({ level: 'silent', name: 'test' })

const strange = suite('a hint of a topic that is none')

strange('is passed over by the workers', async () => {
  const worker = await startWorker(harness.env)
  for (const topic of ['constructor', '__proto__', 'toString', 'none', '']) {
    harness.services.bus.publish(WORK, topic, 'new')
    await harness.services.db.raw('select pg_notify(?, ?)', [WORK, `${topic} new`])
  }
  await harness.services.db.raw('select pg_notify(?, ?)', [WORK, ''])
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0, worker.lines.slice(-5).join('\n'))
})

/** As much of a Redis as a subscription takes; once `mute`, it subscribes nobody. */
async function startMuteRedis(port = 0) {
  const sockets = new Set<Socket>()
  const received: string[] = []
  const redis = { mute: false, received, url: '', cut: () => sockets.forEach(socket => void socket.destroy()) }
  const responseTo = (name: string, channel = ''): string => {
    if (name === 'hello') return `-ERR unknown command 'HELLO'\r\n`
    if (name === 'info') return '$21\r\nredis_version:7.0.0\r\n\r\n'
    if (name !== 'subscribe') return '+OK\r\n'
    return redis.mute ? '' : `*3\r\n$9\r\nsubscribe\r\n$${channel.length}\r\n${channel}\r\n:1\r\n`
  }
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', data => {
      for (const call of String(data)
        .split(/^\*\d+\r\n/m)
        .slice(1)) {
        const [name = '', channel] = call.split('\r\n').filter((_, index) => index % 2 === 1)
        received.push(name.toLowerCase())
        socket.write(responseTo(name.toLowerCase(), channel))
      }
    })
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  onClose(async () => {
    redis.cut()
    server.close()
  })
  redis.url = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`
  return redis
}

const mute = suite('a Redis that comes back and subscribes nobody')

mute('can be left', async () => {
  const redis = await startMuteRedis()
  const bus = await openBus({ url: '', redisUrl: redis.url, log })
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  redis.mute = true
  redis.received.length = 0
  redis.cut()
  await until('the channel to be subscribed again', () => redis.received.includes('subscribe'))
  await bus.close()
  // What nobody handled is reported at the end of the turn in which the connection ends.
  await until('the connection to end', () => !bus.healthy())
  await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
  process.off('unhandledRejection', note)
  assert.equal(unhandled, [])
})

/** A bus whose user of Redis may do everything, until `rights` changes that. */
async function openLimitedBus() {
  const redis = await startRedis()
  if (!redis) return undefined
  const admin = new Redis(redis.url)
  onClose(async () => admin.disconnect())
  const rights = (...rules: string[]) => admin.call('ACL', 'SETUSER', 'service', ...rules)
  await rights('on', '>secret', '~*', '&svc_*', '+@all')
  const redisUrl = redis.url.replace('//', '//service:secret@')
  const warnings: unknown[] = []
  const noting = Object.assign(Object.create(log), { warn: (_: object, text: string) => void warnings.push(text) })
  const bus = await openBus({ url: '', redisUrl, log: noting, silenceMs: 100 })
  onClose(() => bus.close())
  return { admin, rights, warnings, bus }
}

const refusing = suite('a Redis whose user may not subscribe')

refusing('is reported, and tried until it may', async () => {
  const limited = await openLimitedBus()
  if (!limited) return
  const { admin, rights, warnings, bus } = limited
  const received: string[] = []
  await bus.listen('svc_test_refused', ({ id }) => void received.push(id))
  // It ends the connections of those who have subscribed.
  await rights('resetchannels')
  await until('a refusal', () => warnings.includes('Redis refused a subscription, trying again'))
  assert.not(bus.healthy())
  await rights('&svc_*')
  await until('it well again', () => bus.healthy())
  await until('a hint', async () => {
    await admin.publish('svc_test_refused', 'a hint')
    return received.includes('hint')
  })
})

const silenced = suite('a Redis whose user may not publish')

silenced('is reported once, and tried until it may', async () => {
  const limited = await openLimitedBus()
  if (!limited) return
  const { rights, warnings, bus } = limited
  await rights('-publish')
  for (const id of ['a', 'b']) {
    bus.publish('svc_test_unsent', 'a', id)
    await until('a refusal', () => !bus.healthy())
  }
  // On a busy machine it is silent for so short a time now and then, which is another warning.
  assert.equal(
    warnings.filter(text => String(text).includes('refused')),
    ['Redis refused a message, trying again']
  )
  await rights('+publish')
  await until('it well again', () => bus.healthy())
})

const away = suite('a Redis that is away')

away('is logged once, and once when it is back, however often it is tried', async () => {
  const port = await freePort()
  const written: string[] = []
  const note = (_: object, text: string) => void written.push(text)
  const options = { enableOfflineQueue: false, retryStrategy: () => 20 }
  const clients = [new Redis(port, '127.0.0.1', options), new Redis(port, '127.0.0.1', options)]
  onClose(async () => clients.forEach(client => void client.disconnect()))
  logOutages(clients, { log: { warn: note, info: note } as never, meanwhile: 'nothing' })
  let refused = 0
  for (const client of clients) client.on('error', () => void refused++)
  await until('some attempts', () => refused >= 10)
  assert.equal(written, ['Redis is unreachable'])
  await startMuteRedis(port)
  await until('both to be back', () => clients.every(({ status }) => status === 'ready'))
  assert.equal(written, ['Redis is unreachable', 'Redis can be reached again'])
})

const silent = suite('a server that is gone without a word')

for (const through of ['PostgreSQL', 'Redis'])
  silent(`is noticed by who only listens, and hints arrive again, through ${through}`, async () => {
    const redis = through === 'Redis' ? await startRedis() : undefined
    if (through === 'Redis' && !redis) return
    const direct = harness.env.DATABASE_URL as string
    const network = await FaultyNetwork.open(Number(new URL(redis?.url ?? direct).port))
    onClose(() => network.close())
    const behind = (url: string) => Object.assign(new URL(url), { port: String(network.port) }).href
    const far = await openBus({ url: behind(direct), redisUrl: redis && behind(redis.url), log, silenceMs: 300 })
    const near = await openBus({ url: direct, redisUrl: redis?.url, log })
    for (const bus of [far, near]) onClose(() => bus.close())
    const heard: string[] = []
    await far.listen('svc_test_silent', ({ id }) => void heard.push(id))
    const arrives = (id: string) =>
      until(`the hint ${id}`, () => {
        near.publish('svc_test_silent', 'test', id)
        return heard.includes(id)
      })
    await arrives('before')
    // Nobody resets the connection, as when a machine loses power or a firewall forgets it.
    network.hold(() => true, 'both')
    await arrives('after')
    // What it sends goes through a connection of its own, which may come back later.
    await until('it well again', () => far.healthy())
  })

const demoted = suite('a Redis that has become a replica')

demoted('is left for the primary that its address leads to by now: what it is sent reaches nobody there', async () => {
  const [first, next] = [await startRedis(), await startRedis()]
  if (!first || !next) return
  const address = await startMovingAddress(first)
  // On a busy machine a response may take long: a connection that breaks for it would reconnect by itself.
  const far = await openBus({ url: '', redisUrl: address.url, log, silenceMs: 2000 })
  const near = await openBus({ url: '', redisUrl: next.url, log, silenceMs: 2000 })
  for (const bus of [far, near]) onClose(() => bus.close())
  const heardFar: string[] = []
  const heardNear: string[] = []
  await far.listen('svc_test_demoted', ({ id }) => void heardFar.push(id))
  await near.listen('svc_test_demoted', ({ id }) => void heardNear.push(id))
  await until('a hint', () => {
    far.publish('svc_test_demoted', 'test', 'before')
    return heardFar.includes('before')
  })
  address.moveTo(next)
  const admin = new Redis(first.url)
  onClose(async () => admin.disconnect())
  await admin.replicaof('127.0.0.1', new URL(next.url).port)
  await until('a hint of it at the new primary', () => {
    far.publish('svc_test_demoted', 'test', 'after')
    return heardNear.includes('after')
  })
  await until('it well again', () => far.healthy())
  await until('a hint of the new primary', () => {
    near.publish('svc_test_demoted', 'test', 'back')
    return heardFar.includes('back')
  })
})

demoted.after(closeAll)
for (const tests of [strange, mute, refusing, silenced, away, silent, demoted]) tests.run()
