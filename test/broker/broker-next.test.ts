// test in a process of its own
// What only the newer dialect has: one-time addresses bought over REST, its budgets, its bound on sockets, its secrets.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket } from 'ws'
import type { BrokerError } from '../../worker/broker/broker-error.ts'
import { Rest } from '../../worker/broker/dialects/next-rest.ts'
import { unknowns } from '../../worker/broker/dialects/next-unknowns.ts'
import type { AccountFacts, BrokerAccount } from '../../worker/broker/port.ts'
import { Pauses } from '../../worker/platform/pauses.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds } from '../support/dialects.ts'
import { upTo } from '../support/turns.ts'
import { appIdHeader, closeNext, newNextAccount, nextClientOf, startRest } from './broker-next-port.ts'
import { buyOptions, even, lines, newRecorder, ownedBy, quick, simulator, up } from './broker-port.ts'
import { openRelay } from './broker-relay.ts'
import { failure } from './broker-script.ts'

const opening = suite('opening an account')

const refusals: [what: string, account: BrokerAccount][] = [
  ['a token never issued', { ...newNextAccount(), token: async () => 'never-issued-to-anybody' }],
  ['the token of a closed account', newNextAccount('-disabled')],
  ['a token that may only read', newNextAccount('-readonly')],
  ["another user's account", { ...newNextAccount(), token: newNextAccount().token }],
  ['an account id that is none', { ...newNextAccount(), accountId: '../otp' }],
  ['a token no header can carry', { ...newNextAccount(), token: async () => 'bad\r\ntoken' }]
]

for (const [what, account] of refusals) {
  opening(`is refused, as a token refused, with ${what}`, async () => {
    const error = await failure(nextClientOf().session(account))
    assert.equal([error.code, error.rejected, error.ran], ['BROKER_DISCONNECTED', true, 'no'])
  })
}

const troubles = ['RateLimit', 'InternalServerError', 'ValidationError', 'BadInputRequest'] as const

for (const code of troubles) {
  opening(`does not call the token refused when the broker returns ${code}`, async () => {
    const account = newNextAccount()
    simulator.faults.add({ effect: 'error', call: 'otp', code, loginid: account.accountId, times: 1 })
    const error = await failure(nextClientOf().session(account))
    assert.equal([error.code, error.rejected, error.ran], ['BROKER_UPSTREAM', false, 'no'])
  })
}

opening('that the broker has a fault with keeps no other account waiting', async () => {
  const client = nextClientOf()
  const account = newNextAccount()
  simulator.faults.add({
    effect: 'error',
    call: 'otp',
    code: 'InternalServerError',
    loginid: account.accountId,
    times: 4
  })
  for (const credentialId of ['one', 'two', 'three', 'four'])
    assert.is((await failure(client.session({ ...account, credentialId }))).brokerCode, 'RestInternalServerError')
  assert.equal(client.unreachable(), [])
  await client.session(newNextAccount())
})

opening('does not call the token refused when the broker hangs up, is down or is not there', async () => {
  const own = await startSimulator({ limits: 'off' })
  const account = newNextAccount()
  own.faults.add({ effect: 'drop-before', call: 'otp', times: 1 })
  const cut = await failure(nextClientOf({}, own).session(account))
  own.faults.set({ down: true })
  const down = await failure(nextClientOf({}, own).session(account))
  await own.close()
  const gone = await failure(nextClientOf({}, own).session(account))
  for (const error of [cut, down, gone])
    assert.equal([error.brokerCode, error.rejected, error.ran], ['NotConnected', false, 'no'])
})

opening('has the address decide where the list of accounts comes without its rows', async () => {
  const relay = await openRelay(
    simulator,
    frame => frame,
    (path, body) => (path.endsWith('/accounts') ? { meta: body.meta } : body)
  )
  const facts: AccountFacts[] = []
  const unproven = { compared: () => false, accepted: async (found: AccountFacts) => void facts.push(found) }
  const account = { ...newNextAccount(), ...unproven }
  const session = await nextClientOf({}, relay).session(account)
  assert.is((await session.balance()).currency, 'USD')
  assert.equal(facts, [{ mode: 'DEMO', currency: null }])
  const unknown = { ...account, accountId: newNextAccount().accountId }
  assert.is((await failure(nextClientOf({}, relay).session(unknown))).reason, 'ACCOUNT_NOT_FOUND')
  assert.is(facts.length, 1)
  assert.equal(relay.complaints, [])
  relay.close()
})

opening('takes a fresh address for every connection, each good for one', async () => {
  const account = newNextAccount()
  const session = await nextClientOf().session(account)
  await session.balance()
  simulator.next.front.cutAll(account.accountId)
  assert.is((await session.balance()).currency, 'USD')
  assert.is(account.unsealed, 2)
  const rest = new Rest({ base: simulator.nextUrl, appIdHeader })
  const { accountId } = account
  const address = await rest.socketAddress({ appId: appIds.next, accountId, token: `sim-${accountId}` })
  const statuses = [await upgrade(address), await upgrade(address), await upgrade(address.replace(/otp=.*/, 'otp=x'))]
  assert.equal(statuses, [101, 401, 401])
})

opening('names the application as text, and the broker knows the contracts bought under it', async () => {
  const account = { ...newNextAccount(), appId: 'app-7Q2' }
  const session = await nextClientOf().session(account)
  await session.buy(even, buyOptions)
  assert.is(ownedBy(account)[0]?.appId, 'app-7Q2')
})

opening('believes no address that is not secure, and follows no redirect', async () => {
  const addresses = ['ws://127.0.0.1:1/x', 'https://broker.example/x', 'no address', '']
  for (const url of addresses) {
    const rest = await startRest(200, { data: { url } })
    const base = url.startsWith('ws:') ? rest.base.replace('http:', 'https:') : rest.base
    const address = new Rest({ base, appIdHeader }).socketAddress({
      appId: appIds.next,
      accountId: 'CR1',
      token: 'some-token'
    })
    const error = await failure(address)
    assert.equal([error.code, error.rejected, error.ran], ['BROKER_UPSTREAM', false, 'no'], url)
    await rest.close()
  }
  const elsewhere = await startRest(200, { data: { url: 'wss://x/' } })
  const moved = await startRest(302, {}, { location: elsewhere.base })
  const error = await failure(
    new Rest({ base: moved.base, appIdHeader }).socketAddress({
      appId: appIds.next,
      accountId: 'CR1',
      token: 'some-token'
    })
  )
  assert.is(error.code, 'BROKER_UPSTREAM')
  assert.is(elsewhere.requests, 0)
  for (const each of [moved, elsewhere]) await each.close()
})

const budgets = suite('its budgets')

budgets('leave the last calls of a user unspent: it waits, and is refused before the broker would', async () => {
  const own = await startSimulator({})
  const rest = new Rest({ base: own.nextUrl, appIdHeader })
  const account = newNextAccount()
  const requested = { appId: appIds.next, accountId: account.accountId, token: await account.token() }
  let granted = 0
  let error: BrokerError | undefined
  while (error === undefined && granted < 100) {
    error = await rest.socketAddress(requested).then(
      () => void granted++,
      each => each
    )
  }
  assert.is(error?.brokerCode, 'QuotaExhausted')
  assert.is(error?.ran, 'no')
  assert.ok(granted >= 50 && granted <= unknowns.restOfUser.perMinute, String(granted))
  // Another user is not held up by it.
  const other = newNextAccount()
  assert.ok(await rest.socketAddress({ appId: appIds.next, accountId: other.accountId, token: await other.token() }))
  await own.close()
})

budgets("of the machine's address is as large as it was granted", async () => {
  const own = await startSimulator({ limits: 'off' })
  const rest = new Rest({ base: own.nextUrl, appIdHeader, callsPerMinute: 3 })
  const requestAddress = async () => {
    const { accountId, token } = newNextAccount()
    return rest.socketAddress({ appId: appIds.next, accountId, token: await token() })
  }
  for (let granted = 0; granted < 3; granted++) await requestAddress()
  assert.is((await failure(requestAddress())).brokerCode, 'QuotaExhausted')
  await own.close()
})

budgets('of the address is left alone for a while after any refusal: whose limit it was is not known', async () => {
  const busy = await startRest(429, {})
  const rest = new Rest({ base: busy.base, appIdHeader })
  const requestAddress = (token: string) => rest.socketAddress({ appId: appIds.next, accountId: 'CR1', token })
  assert.is((await failure(requestAddress('one-user'))).brokerCode, 'RateLimit')
  const startedAt = performance.now()
  assert.is((await failure(requestAddress('another-user'))).brokerCode, 'RateLimit')
  assert.ok(performance.now() - startedAt >= 2_000)
  assert.is(busy.requests, 2)
  await busy.close()
})

budgets('are kept by class, as published, without a call to the broker', async () => {
  const own = await startSimulator({ tickMs: 20 })
  const client = nextClientOf({}, own)
  const session = await client.session(newNextAccount())
  const reads = await Promise.allSettled(Array.from({ length: 40 }, () => session.portfolio()))
  const refused = reads.filter(each => each.status === 'rejected')
  assert.is(reads.length - refused.length, unknowns.limits.lists.perMinute * 0.9)
  for (const each of refused) assert.is(each.reason.brokerCode, 'QuotaExhausted')
  // The other classes have theirs.
  await session.buy(even, buyOptions)
  assert.is((await session.statement({ from: 0 })).length, 1)
  await own.close()
})

budgets('let a user have so many sockets; the one unused longest makes room', async () => {
  const own = await startSimulator({ tickMs: 20 })
  const client = nextClientOf({}, own)
  const ids = ['CR', 'MF', 'DOT', 'ROT', 'VR', 'VRTC'].map(prefix => `${prefix}900001`)
  for (const loginid of ids) own.engine.accounts.create({ loginid })
  // One user, whatever the account: the token is the user's.
  const accounts = ids.map(accountId => ({ accountId, appId: appIds.next, token: async () => 'sim-CR900001' }))
  const sessions = []
  for (const account of accounts) {
    sessions.push(await client.session(account))
    assert.ok(own.next.front.connections.size <= 5)
  }
  await upTo(() => own.next.front.connections.size === unknowns.socketsOfUser)
  for (const session of sessions.slice(2)) await session.buy(up, { ...buyOptions, listener: newRecorder().listener })
  assert.is((await failure(sessions[0]!.sell('123'))).brokerCode, 'TooManyConnections')
  // Another user has its own.
  await client.session(newNextAccount())
  await own.close()
})

budgets('let an owner of accounts have so many sockets whatever their tokens; what is in use stays open', async () => {
  const own = await startSimulator({ tickMs: 20 })
  const client = nextClientOf({}, own)
  const ids = ['CR', 'MF', 'DOT', 'ROT', 'VR', 'VRTC'].map(prefix => `${prefix}900002`)
  for (const loginid of ids) own.engine.accounts.create({ loginid })
  const owner = () => 'the owner'
  const sessions = []
  for (const accountId of ids) {
    const token = async () => `sim-${accountId}`
    sessions.push(await client.session({ accountId, appId: appIds.next, token, owner }))
  }
  await upTo(() => own.next.front.connections.size === unknowns.socketsOfUser)
  // One place is kept for a connection that is being closed: the broker lets it be used.
  for (const session of sessions.slice(2)) await session.buy(up, { ...buyOptions, listener: newRecorder().listener })
  assert.ok((await sessions[0]!.balance()).balance)
  await own.close()
})

budgets('make a user that fails again and again wait longer each time, up to a bound', () => {
  const pauses = new Pauses({ firstMs: 40, mostMs: 80 })
  const between = (ms: number, least: number) => assert.ok(ms >= least && ms <= least * 1.25, String(ms))
  between(pauses.failed('a'), 40)
  between(pauses.failed('a'), 80)
  for (let time = 0; time < 50; time++) between(pauses.failed('a'), 80)
  between(pauses.failed('b'), 40)
  pauses.succeeded('a')
  between(pauses.failed('a'), 40)
})

const secrets = suite('its secrets')

secrets('never reach the log or an error: neither tokens nor one-time addresses', async () => {
  const own = await startSimulator({ limits: 'off' })
  const account = newNextAccount()
  const errors: unknown[] = []
  const client = nextClientOf(quick, own)
  own.faults.add({ effect: 'error', call: 'otp', code: 'Unauthorized', message: 'Not with sim-token.', times: 1 })
  errors.push(await failure(client.session(account)))
  const session = await client.session(account)
  own.faults.add({ effect: 'drop-after', call: 'buy', times: 1 })
  errors.push(await failure(session.buy(even, buyOptions)))
  own.faults.set({ down: true })
  errors.push(await failure(session.balance()))
  errors.push(await failure(client.session({ ...newNextAccount(), token: async () => 'sim-bad\r\nheader' })))
  await own.close()
  const text = [...lines, ...errors.map(spell)].join('\n')
  assert.ok(lines.length > 0)
  assert.not.match(text, /sim-(VRTC|bad|token)|otp=|[?&]otp/i)
})

secrets.after(closeNext)
opening.run()
budgets.run()
secrets.run()

/** Everything an error carries. */
function spell(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? ''
  return `${error.message} ${error.stack} ${JSON.stringify(error)} ${spell(error.cause)}`
}

/** The status of the response for an address. */
async function upgrade(address: string): Promise<number> {
  const socket = new WebSocket(address)
  return new Promise(resolve => {
    socket.once('open', () => {
      socket.terminate()
      resolve(101)
    })
    socket.once('unexpected-response', (_request, { statusCode }) => resolve(statusCode ?? 0))
    socket.once('error', () => {})
  })
}
