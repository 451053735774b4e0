// test in the full run only
// A broker that accepts connections and does not respond, over TCP alone or after its handshake: it is reported while the first
// call still waits, and until something arrives from it.

import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { checkBroker } from '../../cli/doctor/around.ts'
import { readiness } from '../../db/platform/metrics-server.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import { Reachability } from '../../worker/broker/transport/reachability.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { failure, keptLog, reply, scriptedBroker } from './broker-script.ts'

// Longer than it takes until it is reported, also on a busy machine.
const CALL_MS = 12_000

const { services } = await openHarness()
const silent = suite('a broker that accepts connections and does not respond')

/** What a first call finds of the broker at the address, which responds after the call has failed where `respond` makes it. */
async function check(url: string, respond?: () => void) {
  const { log, lines } = keptLog()
  const broker = createV3Broker({ url, log, connectTimeoutMs: CALL_MS, responseTimeoutMs: CALL_MS })
  onClose(() => broker.close())
  const ready = readiness(services.db, { healthy: () => true }, broker)
  let ended = false
  const call = failure(broker.market('7').symbols()).finally(() => {
    ended = true
  })
  await until('it is reported', async () => (await ready()).length > 0)
  assert.not.ok(ended, 'reported only after the call')
  assert.match((await ready())[0] ?? '', /^broker unreachable since .*127\.0\.0\.1:\d+ \(it does not respond\)$/)
  const { brokerCode } = await call
  assert.is((await ready()).length, 1, 'ready between two calls')
  assert.is(lines.filter(line => line.includes('the broker is unreachable')).length, 1)
  // No second call waits for as long.
  assert.is((await failure(broker.session(account))).brokerCode, 'NotConnected')
  if (respond) {
    respond()
    await until('it is reached again', async () => (await ready()).length === 0)
  }
  return brokerCode
}

const account = {
  appId: '7',
  accountId: 'CR1',
  credentialId: '1',
  token: async () => 'token-of-cr1'
}

silent('is unready before its first call has failed, and until it responds', async () => {
  const deaf = createServer(socket => socket.on('error', () => undefined)).listen(0, '127.0.0.1')
  onClose(async () => void deaf.close())
  await once(deaf, 'listening')
  let responds = false
  const mute = await scriptedBroker((frame, socket) => {
    if (responds) reply(socket, frame, { ping: 'pong' })
  })
  onClose(mute.close)
  const deafUrl = `ws://127.0.0.1:${(deaf.address() as AddressInfo).port}/`
  const [connecting, calling, ...doctor] = await Promise.all([
    check(deafUrl),
    check(mute.url, () => {
      responds = true
    }),
    ...[deafUrl, mute.url].map(url => checkBroker({ ...services.config, brokerUrl: url }))
  ])
  assert.equal([connecting, calling], ['NotConnected', 'NoAnswer'])
  for (const [found] of doctor) {
    assert.is(found?.status, 'fail')
    assert.match(found?.found ?? '', /does not respond/)
  }
})

silent('is not taken for away by a ping without a response, and is by a longer call whose timer ran early', () => {
  const reachability = new Reachability({ what: 'the broker', probe: () => new Promise(() => {}) })
  onClose(async () => reachability.close())
  const before = (ms: number) => performance.now() - ms
  reachability.unanswered(5000, before(5001))
  assert.is(reachability.unreachable, null)
  reachability.unanswered(8000, before(7999.5))
  assert.is(reachability.unreachable?.cause, 'it does not respond')
})

silent.after(closeAll)
silent.run()
