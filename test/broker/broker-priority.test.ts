// REST calls of the newer dialect: orders go before the following of contracts, which leaves them a share of what the
// broker grants to the machine's address.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { Rest } from '../../worker/broker/dialects/next-rest.ts'
import { closeAll, onClose, until } from '../support/harness.ts'

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

const priority = suite('an order, after a restart with 600 open accounts,')

priority('opens its connection at once, though the openings that follow contracts have used their share', async () => {
  const open = openRest()
  opened = 0
  const following = Array.from({ length: 600 }, () => open(new AbortController().signal))
  for (const each of following) each.catch(() => {})
  await until('the share of the following to be used', () => opened >= 180)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: 60 }, () => open()))
  assert.ok(performance.now() - startedAt < 3000, `${performance.now() - startedAt} ms`)
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
  assert.ok(performance.now() - startedAt < 3000)
})

priority.after(closeAll)
priority.run()
