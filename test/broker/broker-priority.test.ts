// Openings in the newer dialect: those for orders go before those that follow contracts, which are few at a time and leave a share
// of the REST calls that the broker grants to the machine's address.
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { Rest } from '../../worker/broker/dialects/next-rest.ts'
import { Gate } from '../../worker/broker/transport/gate.ts'
import { closeAll, onClose, until } from '../support/harness.ts'
import { closeNext, nextClientOf } from './broker-next-port.ts'

let opened = 0
const server = createServer((_request, response) => {
  opened += 1
  response.end(JSON.stringify({ data: { url: 'ws://127.0.0.1:9/once' } }))
})
await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
onClose(async () => {
  server.closeAllConnections()
  server.close()
})
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const openRest = () => {
  const rest = new Rest({ base, appIdHeader: 'App-Id', callsPerMinute: 300 })
  let number = 0
  return (hurry?: AbortSignal) => {
    number += 1
    return rest.socketAddress({ appId: '1', accountId: `A${number}`, token: `token-of-${number}`, hurry })
  }
}

// Whoever waits for calls of the next minute waits for longer, also on a busy machine.
const AT_ONCE_MS = 20_000

const priority = suite('an order, after a restart with 600 open accounts,')

priority('opens its connection at once, though the openings that follow contracts have used their share', async () => {
  const open = openRest()
  opened = 0
  const following = Array.from({ length: 600 }, () => open(new AbortController().signal))
  for (const each of following) each.catch(() => {})
  await until('the share of the following to be used', () => opened >= 180)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: 60 }, () => open()))
  assert.ok(performance.now() - startedAt < AT_ONCE_MS, `${performance.now() - startedAt} ms`)
  assert.is(opened, 240)
})

priority('whose account is waiting to be followed, makes that opening urgent', async () => {
  const open = openRest()
  opened = 0
  for (const each of Array.from({ length: 200 }, () => open(new AbortController().signal))) each.catch(() => {})
  await until('the share of the following to be used', () => opened >= 180)
  const hurry = new AbortController()
  const waiting = open(hurry.signal)
  const startedAt = performance.now()
  hurry.abort()
  await waiting
  assert.ok(performance.now() - startedAt < AT_ONCE_MS)
})

/** A client whose openings the test ends, each by its account. */
async function openHeld() {
  const held = new Map<string, ServerResponse>()
  const slow = createServer((request, response) => {
    const accountId = /accounts\/(\w+)\/otp/.exec(request.url ?? '')?.[1]
    if (accountId === undefined) response.end('{}')
    else held.set(accountId, response)
  })
  await new Promise<void>(resolve => slow.listen(0, '127.0.0.1', resolve))
  const client = nextClientOf({}, { nextUrl: `http://127.0.0.1:${(slow.address() as AddressInfo).port}` })
  onClose(async () => {
    slow.closeAllConnections()
    slow.close()
  })
  return {
    held,
    client,
    open(accountId: string, leisurely: boolean) {
      const token = async () => `token-of-${accountId}`
      const session = client.session({ accountId, appId: 'app-1', token, leisurely })
      session.catch(() => {})
      return session
    },
    /** The broker refuses it. */
    end: (accountId: string) => held.get(accountId)?.writeHead(403).end('{}')
  }
}

const names = (letter: string) => Array.from({ length: 60 }, (_, index) => `${letter}${index}`)

priority('opens its connection beside a few of those that follow contracts, and not behind all of them', async () => {
  const { held, open, end } = await openHeld()
  const following = names('F')
  for (const each of following) void open(each, true)
  await until('the first of them to be under way', () => held.has('F0'))
  for (const each of names('P')) void open(each, false)
  await until('all orders to be opened for', () => names('P').every(each => held.has(each)))
  const begun = following.filter(each => held.has(each))
  assert.ok(begun.length < 20, `${begun.length} of 60 under way`)
  const next = following[begun.length] as string
  end('F0')
  await until('the next one to begin', () => held.has(next))
})

priority('opens the connection at once whose turn has not come', async () => {
  const { held, open } = await openHeld()
  for (const each of names('F')) void open(each, true)
  await until('the first of them to be under way', () => held.has('F0'))
  void open('F59', false)
  await until('the order to be opened for', () => held.has('F59'))
  assert.not(held.has('F58'))
})

priority('is refused at once what still waits for its turn when the client is closed', async () => {
  const { held, open, client } = await openHeld()
  const refused: string[] = []
  for (const each of names('F')) open(each, true).catch(() => refused.push(each))
  await until('the first of them to be under way', () => held.has('F0'))
  await client.close()
  // Those under way are held by the broker until the test ends, so that none of them makes room for another.
  await until('all others to be refused', () => refused.length + held.size === 60)
})

/** Work at a gate that the test ends, on a clock of its own. */
function atGate() {
  let now = 0
  const gate = new Gate({ least: 2, most: 4, now: () => now })
  const running: (() => void)[] = []
  return {
    running,
    begin: () => void gate.run({ withinMs: 60_000 }, () => new Promise<void>(resolve => running.push(resolve))),
    async end(count: number, tookMs: number) {
      now += tookMs
      for (const done of running.splice(0, count)) done()
      await new Promise(setImmediate)
    }
  }
}

priority(
  'leaves more of those that follow contracts a place while they are quick, and fewer when they are slow',
  async () => {
    const { running, begin, end } = atGate()
    for (let count = 0; count < 40; count++) begin()
    await new Promise(setImmediate)
    assert.is(running.length, 2)
    await end(2, 100)
    assert.is(running.length, 4)
    await end(4, 100)
    assert.is(running.length, 4, 'no more than the most')
    await end(4, 900)
    assert.is(running.length, 4, 'as before, neither quick nor slow')
    await end(4, 1_100)
    assert.is(running.length, 2)
    await end(2, 900)
    assert.is(running.length, 2, 'no more, for the fastest took 100 ms')
    await end(2, 1_100)
    assert.is(running.length, 2, 'no fewer than the least')
    while (running.length > 0) await end(running.length, 100)
  }
)

priority('leaves more of them a place however far the broker is', async () => {
  const { running, begin, end } = atGate()
  for (let count = 0; count < 12; count++) begin()
  await new Promise(setImmediate)
  await end(2, 1_800)
  await end(running.length, 1_800)
  assert.is(running.length, 4)
  while (running.length > 0) await end(running.length, 100)
})

priority.after(closeNext)
priority.after(closeAll)
priority.run()
