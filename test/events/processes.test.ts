// The stream over several api processes, with PostgreSQL's wake-ups and with Redis: every socket is notified, places are counted
// over all of them where there is Redis, and a stop loses nothing.
// test in the full run only
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { Client as ServiceClient } from '../../api/client/src/index.ts'
import { closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { type Client, openClient, openCounted, openSurplusCounted, openWithPlace, subscribe } from './client.ts'
import { readAll } from './reading.ts'

const harness = await openHarness()
const redis = await startRedis()
const connected = (client: Client, traderExternalId: string) =>
  client.take('event', ({ event }) => event.traderExternalId === traderExternalId)

const across = suite('the stream across processes')

type Processes = { worker: TestProcess; apis: Awaited<ReturnType<typeof startApi>>[] }
/** Those of the last kind of wake-ups, for the test after it. */
let processes: Processes

function reaches(name: string, more: Record<string, string>): void {
  across(`sends to sockets of every process what a worker logs, through ${name}`, async () => {
    const env = { ...harness.env, ...more, SWEEP_MS: '60000' }
    const [worker, ...apis] = await Promise.all([startWorker(env), startApi(env), startApi(env)])
    processes = { worker, apis }
    const partner = await harness.makePartner()
    const clients = await Promise.all(apis.map(({ address }) => openClient(address, { key: partner.key })))
    for (const client of clients) await subscribe(client)
    const account = { accountId: 'VRTC1', token: 'sim-VRTC1-token', accountMode: 'DEMO' } as const
    for (const [index, { address }] of apis.entries()) {
      const traderExternalId = `${name}-${index}`
      const service = new ServiceClient({ baseUrl: address, key: partner.key })
      await service.post('/v1/auth/broker/exchange', { body: { traderExternalId, accounts: [account] } })
      for (const client of clients) await connected(client, traderExternalId)
    }
    for (const client of clients) client.close()
  })
}

if (redis) reaches('Redis', { REDIS_URL: redis.url })

across('counts the sockets of a key over all processes with Redis', async () => {
  if (!redis) return
  const { worker, apis } = processes
  const [first, second] = apis.map(({ address }) => address) as [string, string]
  const { key, clients } = await openCounted(harness, redis, [first, first, first, second, second])
  for (const address of [first, second]) assert.match(await openSurplusCounted(address, { key }), '5 sockets')
  clients[0]?.close()
  await until('a free place', () => openWithPlace(second, { key }))
  for (const process of [worker, ...apis]) process.kill('SIGTERM')
  await Promise.all([worker, ...apis].map(({ ended }) => ended))
})

reaches('PostgreSQL', {})

across('announces that a process stops, closes with 1012, and misses nothing after a reconnect', async () => {
  const { worker, apis } = processes
  const [old, next] = apis as [Processes['apis'][0], Processes['apis'][0]]
  const partner: TestPartner = await harness.makePartner()
  const client = await openClient(old.address, { key: partner.key })
  const { cursor: begun } = await subscribe(client)
  for (let count = 0; count < 5; count++) await partner.makeTrader()
  const { cursor } = await client.take('event', ({ event }) => event.type === 'account.connected')
  old.kill('SIGTERM')
  const { reconnectAfterMs } = await client.take('closing')
  assert.ok(reconnectAfterMs >= 0)
  assert.is(await client.closed, 1012)
  for (let count = 0; count < 5; count++) await partner.makeTrader()
  const again = await openClient(next.address, { key: partner.key })
  await subscribe(again, { after: cursor })
  const total = (await until('all in the log', async () => {
    const { events } = await readAll(partner, { after: begun, types: 'account.connected' })
    return events.length === 10 && events
  })) as { position: number }[]
  await again.take('event', ({ event }) => event.position === total.at(-1)?.position)
  const positions = (from: Client) =>
    from.messages.filter(({ type }) => type === 'event').map(({ event }) => event.position)
  const upTo = client.messages.find(message => message.cursor === cursor)?.event.position
  const received = [...positions(client).filter(position => position <= upTo), ...positions(again)]
  assert.equal(
    received,
    Array.from({ length: received.length }, (_, index) => (received[0] as number) + index)
  )
  assert.is(received.at(-1), total.at(-1)?.position)
  assert.is(await old.ended, 0)
  worker.kill('SIGTERM')
  await worker.ended
})

across.after(closeAll)
across.run()
