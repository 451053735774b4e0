// From which failure on an attempt with a password is slowed: by its e-mail, by the end user's address, by its partner.
import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { endUserIpOf, guarded } from '../../api/request/guessing.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { startApi } from '../support/processes.ts'

const harness = await openHarness()

/** Attempts of a partner's traders, all of which fail. */
function openAttempts() {
  const partnerId = newId('partner')
  let subjects = 0
  /** One with a wrong password; returns whether it was slowed: nobody waits for its end any more, so a pause ends it, uncounted. */
  const fail = async ({ subject = `someone-${++subjects}`, ip }: { subject?: string; ip?: string } = {}) => {
    const guess = { what: 'login', partnerId, subject, endUserIp: ip, signal: AbortSignal.abort() } as const
    let checked = false
    const check = async () => {
      checked = true
      return undefined
    }
    const failure = await guarded(guess, harness.services, check).catch((error: ApiError) => error)
    assert.is(failure === undefined, checked)
    if (failure) assert.is(failure.code, 'UNAVAILABLE')
    return !checked
  }
  /** How many of at most so many attempts are not slowed. */
  const failures = async (most: number, attempt: (index: number) => Parameters<typeof fail>[0]) => {
    for (let count = 0; count < most; count++) if (await fail(attempt(count))) return count
    return most
  }
  return { fail, failures }
}

const slowing = suite('an attempt with a password')

slowing('is slowed from the eleventh of its e-mail on', async () => {
  const { fail, failures } = openAttempts()
  assert.is(await failures(20, () => ({ subject: 'victim' })), 10)
  assert.is(await fail(), false)
})

slowing('is slowed from the eleventh of its e-mail and address on, and from no other address', async () => {
  const { fail, failures } = openAttempts()
  assert.is(await failures(20, () => ({ subject: 'victim', ip: '203.0.113.1' })), 10)
  assert.is(await fail({ subject: 'victim', ip: '203.0.113.2' }), false)
})

slowing('is slowed from the hundred and first of its e-mail on, each from an address of its own', async () => {
  const { fail, failures } = openAttempts()
  assert.is(await failures(200, index => ({ subject: 'victim', ip: `203.0.113.${index}` })), 100)
  assert.is(await fail({ ip: '198.51.100.1' }), false)
})

slowing('is slowed from the thirty-first of its address on, each of an e-mail of its own', async () => {
  const { fail, failures } = openAttempts()
  assert.is(await failures(60, () => ({ ip: '203.0.113.1' })), 30)
  assert.is(await fail({ ip: '203.0.113.2' }), false)
  assert.is(await fail(), false)
})

slowing(
  'is slowed from the two thousand and first of its partner on, but from an address without failures',
  async () => {
    const { fail, failures } = openAttempts()
    assert.is(await failures(2100, () => ({})), 2000)
    // The first of an address is a failure of it; no other.
    for (const ip of ['203.0.113.1', '203.0.113.2'])
      assert.equal([await fail({ ip }), await fail({ ip })], [false, true])
    assert.is(await openAttempts().fail(), false)
  }
)

slowing('that its caller does not wait for is no fault for the operator to look at', async () => {
  const { key } = await harness.makePartner()
  const api = await startApi(harness.env)
  const body = JSON.stringify({ email: 'victim@example.com', password: 'a wrong password' })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  for (let count = 0; count < 10; count++) {
    const { status } = await fetch(`${api.address}/v1/traders/login`, { method: 'POST', headers, body })
    assert.is(status, 401)
  }
  const { hostname, port } = new URL(api.address)
  /** A login whose caller hangs up after so long; returns its line in the log. */
  const hangUp = async (afterMs: number) => {
    const id = randomUUID()
    const fields = Object.entries({ ...headers, host: hostname, 'content-length': body.length, 'x-request-id': id })
    const lines = ['POST /v1/traders/login HTTP/1.1', ...fields.map(([name, value]) => `${name}: ${value}`), '', body]
    const socket = connect(Number(port), hostname)
    socket.write(lines.join('\r\n'), () => setTimeout(() => socket.destroy(), afterMs))
    return JSON.parse(await api.line(new RegExp(`"requestId":"${id}"`))) as { level: number; error: string }
  }
  let afterMs = 1
  let line = await hangUp(afterMs)
  while (line.error !== 'UNAVAILABLE') {
    // Before its body is read it ends as a broken upload, and after the pause, which is longer then, as a failure.
    afterMs = line.error === 'MALFORMED_JSON' ? 2 * afterMs : 1
    line = await hangUp(afterMs)
  }
  assert.is(line.level, 30)
})

const address = suite('X-End-User-IP')

address('is one address in every way to write it, and a network of IPv6 counts as one', () => {
  const of = (text: string) =>
    endUserIpOf({ request: { headers: { 'x-end-user-ip': text } } } as unknown as Parameters<typeof endUserIpOf>[0])
  for (const same of ['203.0.113.7', '::ffff:203.0.113.7', '::FFFF:cb00:7107', '0:0:0:0:0:ffff:cb00:7107'])
    assert.is(of(same), '203.0.113.7', same)
  assert.is(of('::ffff:203.0.113.8'), '203.0.113.8')
  for (const same of ['2001:db8:1:2::1', '2001:0db8:1:2:ffff::', '2001:db8:1:2:3:4:203.0.113.7'])
    assert.is(of(same), '2001:db8:1:2', same)
})

address.after(closeAll)
slowing.run()
address.run()
