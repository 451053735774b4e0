// Ticks over processes: workers and apis of their own, with PostgreSQL's wake-ups and with Redis. One worker forwards; when it is
// killed or frozen another one takes over, and no socket sees a tick twice or one that is older than the last.
// test in the full run only
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listWantedTicks } from '../../db/events/ticks.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, frontOf } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { type Client, openClient } from './client.ts'

const harness = await openHarness()
const { db } = harness.services
// At their real pace, so that the seconds distinguish ticks.
const simulator = await startSimulator({ limits: 'off' })
onClose(() => simulator.close())
const redis = await startRedis()
const TAKE_OVER_MS = 30_000

const epochsOf = (client: Client, asset: string): number[] =>
  client.messages
    .filter(({ type }) => type === 'ticks')
    .flatMap(({ data }) => data)
    .filter(tick => tick.asset === asset)
    .map(({ epoch }) => epoch)
const grown = (client: Client, asset: string, than: number) =>
  until(`more ticks of ${asset}`, () => epochsOf(client, asset).length > than, TAKE_OVER_MS)
const forwarding = async () => (await listWantedTicks(db))[0]?.worker ?? null
const streamed = () =>
  [...frontOf(simulator).connections].reduce((count, { streams }) => count + streams.count('ticks'), 0)

const across = suite('ticks across processes')

for (const [name, more] of [['PostgreSQL', {}], ...(redis ? [['Redis', { REDIS_URL: redis.url }] as const] : [])] as [
  string,
  Record<string, string>
][]) {
  across(`reach the sockets of every process, whichever worker is gone, through ${name}`, async () => {
    const env = { ...harness.env, ...brokerEnv(simulator), ...more }
    const workers = new Map<string, TestProcess>()
    const start = async () => {
      const worker = await startWorker(env)
      workers.set((JSON.parse(await worker.line(/"msg":"working"/)) as { worker: string }).worker, worker)
    }
    await Promise.all([start(), start()])
    const apis = await Promise.all([startApi(env), startApi(env)])
    const partner = await harness.makePartner()
    const clients = await Promise.all(apis.map(({ address }) => openClient(address, { key: partner.key })))
    for (const client of clients) {
      client.send({ type: 'subscribe', id: 'p', channel: 'ticks', assets: ['1HZ100V', 'NOSUCH'] })
      await client.take('subscribed')
    }
    for (const client of clients) {
      await grown(client, '1HZ100V', 1)
      assert.match((await client.take('error')).message, 'NOSUCH')
    }
    // One worker alone subscribes with the broker; one that has lost its lease since it was held up ends its subscription.
    await until('one subscription with the broker', () => streamed() === 1, TAKE_OVER_MS)
    const first = (await until('a worker that forwards', forwarding, TAKE_OVER_MS)) as string
    workers.get(first)?.kill('SIGKILL')
    // What it sent last may arrive after its death.
    const next = async () => [await forwarding()].find(worker => worker !== null && worker !== first)
    const second = (await until('the other worker', next, TAKE_OVER_MS)) as string
    const before = clients.map(client => epochsOf(client, '1HZ100V').length)
    for (const [index, client] of clients.entries()) await grown(client, '1HZ100V', (before[index] as number) + 2)
    // What a frozen worker does when it wakes up does not depend on what the ticks go through.
    if (!('REDIS_URL' in more)) {
      await start()
      workers.get(second)?.kill('SIGSTOP')
      await until('the third worker', async () => ![null, second].includes(await forwarding()), TAKE_OVER_MS)
      workers.get(second)?.kill('SIGCONT')
      const after = clients.map(client => epochsOf(client, '1HZ100V').length)
      for (const [index, client] of clients.entries()) await grown(client, '1HZ100V', (after[index] as number) + 4)
    }
    for (const client of clients) {
      const epochs = epochsOf(client, '1HZ100V')
      assert.equal(epochs, [...new Set(epochs)].sort())
    }
    for (const client of clients) client.close()
    await until('nothing to be subscribed to at the broker', () => streamed() === 0, TAKE_OVER_MS)
    for (const process of [...workers.values(), ...apis]) process.kill('SIGTERM')
    await Promise.all([...workers.values(), ...apis].map(({ ended }) => ended))
  })
}

across('that no worker forwards are named by the doctor', async () => {
  const client = await openClient(harness.address, { key: (await harness.makePartner()).key })
  client.send({ type: 'subscribe', id: 'p', channel: 'ticks', assets: ['1HZ100V', 'R_100'] })
  await until('to be wanted', async () => (await listWantedTicks(db)).length === 1)
  const found = async () =>
    (await operator(harness.env, 'doctor', '--json')).json.checks.filter(
      ({ check }: { check: string }) => check === 'ticks'
    )
  await db('tick_wants').update({ wanted_since: db.raw(`wanted_since - interval '1 minute'`) })
  const [{ status, found: finding, advice }] = await found()
  assert.is(status, 'warn')
  assert.match(finding, /^2 assets in dialect v3 are wanted by 1 api for \d+ s, and no worker forwards their ticks$/)
  assert.match(advice, 'start a worker')
  client.close()
  await until('not to be wanted', async () => (await listWantedTicks(db)).length === 0)
  assert.is((await found())[0].status, 'ok')
})

across.after(closeAll)
across.run()
