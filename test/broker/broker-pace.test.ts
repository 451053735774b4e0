// Calls of a second on one connection of the newer dialect: the simulated broker refuses what its documents do not allow, and the
// client keeps below that.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { systemClock } from '../../worker/platform/clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { closeAll, onClose, until } from '../support/harness.ts'
import { closeNext, newNextAccount, nextClientOf, scripted } from './broker-next-port.ts'
import { buyOptions, newRecorder, up } from './broker-port.ts'
import { reply } from './broker-script.ts'
import { BrokerSocket } from './broker-socket.ts'

const simulator = await startSimulator({ tickMs: 1_000, seed: 41, limits: 'published' })
onClose(() => simulator.close())
const { front } = simulator.next

const limit = suite('the simulated broker')

limit('takes a hundred calls in a second on a connection, ten pings among them', async () => {
  let now = Date.now()
  const clock = { wall: () => now, after: systemClock.after }
  const stopped = await startSimulator({ clock, limits: 'published' })
  onClose(() => stopped.close())
  const open = () => BrokerSocket.open(`ws://127.0.0.1:${stopped.port}/trading/v1/options/ws/public`, '')
  const [socket, other] = [await open(), await open()]
  const codes = async (request: object, count: number, over = socket) => {
    const frames = await Promise.all(Array.from({ length: count }, () => over.call(request)))
    return frames.map(({ error }) => error?.code ?? 'none')
  }
  assert.equal((await codes({ ping: 1 }, 11)).slice(9), ['none', 'RateLimit'])
  assert.equal((await codes({ time: 1 }, 91)).slice(89), ['none', 'RateLimit'])
  assert.equal(await codes({ ping: 1 }, 1), ['RateLimit'])
  assert.equal(await codes({ time: 1 }, 1, other), ['none'])
  now += 999
  assert.equal(await codes({ time: 1 }, 1), ['RateLimit'])
  now += 1
  assert.equal([...new Set([...(await codes({ time: 1 }, 90)), ...(await codes({ ping: 1 }, 10))])], ['none'])
  assert.is(stopped.next.front.quota.refused, 4)
})

const client = suite('a connection of the client')

/** A session of a new account with the simulated broker, and a contract of it. */
async function openSession() {
  const account = newNextAccount()
  const session = await nextClientOf({}, simulator).session(account)
  const { listener } = newRecorder()
  const { contractId } = await session.buy(up, { ...buyOptions, listener })
  return { account, session, contractId, listener }
}

client('has every one of many reads at a time responded to', async () => {
  const { session, contractId } = await openSession()
  const states = await Promise.all(Array.from({ length: 250 }, () => session.contract(contractId)))
  assert.equal([states.length, front.quota.refused], [250, 0])
})

client('has a sale go before the reads that wait', async () => {
  const sent: string[] = []
  const { session, close } = await scripted((frame, socket) => {
    const call = frame.sell === undefined ? 'read' : 'sell'
    sent.push(call)
    // No such contract, for what is tested is only the order.
    reply(socket, frame, { error: { code: 'ContractNotFound', message: 'not found' }, msg_type: call })
  })
  const contracts = Array.from({ length: 150 }, (_, index) => `${index + 1}`)
  const reads = contracts.map(each => session.contract(each))
  // More of them than there are places kept.
  const sales = contracts.slice(0, 10).map(each => session.sell(each))
  for (const end of await Promise.allSettled([...reads, ...sales])) assert.is(end.status, 'rejected')
  assert.equal([sent.length, sent.lastIndexOf('sell')], [160, 90 + 10 - 1])
  await close()
})

client('has what waits go over the next one when it breaks', async () => {
  const { account, session, contractId } = await openSession()
  let done = 0
  const reads = Array.from({ length: 120 }, async () => {
    await session.contract(contractId)
    done += 1
  })
  const all = Promise.all(reads)
  await until('the first ones to be done', () => done > 0)
  assert.is(front.cutAll(account.accountId), 1)
  await all
  assert.equal([done, front.quota.refused], [120, 0])
})

client('ends its streams at that pace as well', async () => {
  const { account, session, contractId, listener } = await openSession()
  const others = Array.from({ length: 29 }, () => session.buy(up, { ...buyOptions, listener }))
  const contracts = [contractId, ...(await Promise.all(others)).map(each => each.contractId)]
  const reads = Promise.all(Array.from({ length: 60 }, () => session.contract(contractId)))
  for (const each of contracts) session.unsubscribe(each)
  const [connection] = [...front.connections].filter(({ grants }) => grants.has(account.accountId))
  await until('the streams to be ended', () => connection!.streams.count('proposal_open_contract') === 0, 30_000)
  await reads
  assert.is(front.quota.refused, 0)
})

client.after(closeNext)
client.after(closeAll)
for (const tests of [limit, client]) tests.run()
