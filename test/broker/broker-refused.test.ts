// What the broker's REST side refuses, and what a partner and the operator see of it: an account that is not there, a token,
// an application. The status is too coarse; the error's code decides.
// test in the full run only
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { listAccounts } from '../../api/traders/accounts.ts'
import { RefusedApplications, restRefusal } from '../../worker/broker/dialects/next-refusals.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, type TestPartner, type TestTrader } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 20, limits: 'off', revokedAppIds: ['gone-app', 66] })
onClose(() => simulator.close())
// What fails at once needs the half of it at most.
const TTL_MS = 60_000
const harness = await openHarness({ env: { ...brokerEnv(simulator, 'next'), ORDER_TTL_MS: String(TTL_MS) } })
const metricsPort = await freePort()
const worker = await startWorker({ ...harness.env, METRICS_PORT: String(metricsPort) })

const refusals = suite('a refusal of the REST side')
const appIdHeader = simulator.appIdHeader
const list = (code: string, more: object = {}) => ({
  errors: [{ status: 400, code, message: 'No.', ...more }],
  meta: {}
})
const single = (code: string, more: object = {}) => ({ error: { code, message: 'No.', ...more } })

const cases: [what: string, status: number, body: unknown, expected: [string, string | null, string]][] = [
  [
    'an unknown account',
    400,
    list('AccountNotFound'),
    ['BROKER_DISCONNECTED', 'ACCOUNT_NOT_FOUND', 'RestAccountNotFound']
  ],
  [
    'the same, as one error',
    400,
    single('AccountNotFound'),
    ['BROKER_DISCONNECTED', 'ACCOUNT_NOT_FOUND', 'RestAccountNotFound']
  ],
  [
    'an account id of another form',
    400,
    list('ValidationError', { field: 'accountId' }),
    ['BROKER_DISCONNECTED', 'ACCOUNT_NOT_FOUND', 'RestValidationError']
  ],
  ['a refused token', 401, list('Unauthorized'), ['BROKER_DISCONNECTED', 'TOKEN_REFUSED', 'RestUnauthorized']],
  [
    'a token without the scope',
    403,
    single('AccessDenied'),
    ['BROKER_DISCONNECTED', 'TOKEN_REFUSED', 'RestAccessDenied']
  ],
  [
    'a refused token under another status',
    400,
    list('UnauthorizedAccess'),
    ['BROKER_DISCONNECTED', 'TOKEN_REFUSED', 'RestUnauthorizedAccess']
  ],
  ['an expired token', 401, single('TokenExpired'), ['BROKER_DISCONNECTED', 'TOKEN_EXPIRED', 'RestTokenExpired']],
  ['a 401 without a code', 401, null, ['BROKER_DISCONNECTED', 'TOKEN_REFUSED', 'Rest401']],
  [
    'an unknown application',
    401,
    list('Unauthorized', { message: 'Invalid application' }),
    ['BROKER_UPSTREAM', null, 'InvalidApplication']
  ],
  [
    'no application',
    401,
    list('Unauthorized', { field: appIdHeader }),
    ['BROKER_UPSTREAM', null, 'InvalidApplication']
  ],
  [
    'no application, in words',
    401,
    single('Unauthorized', { message: 'Broker-App-ID header is required for PAT tokens' }),
    ['BROKER_UPSTREAM', null, 'InvalidApplication']
  ],
  ['too many calls', 429, null, ['BROKER_UPSTREAM', null, 'RateLimit']],
  ['too many calls in a word that is new', 429, list('TooFast'), ['BROKER_UPSTREAM', null, 'RateLimit']],
  ['too many calls under another status', 400, list('RateLimit'), ['BROKER_UPSTREAM', null, 'RateLimit']],
  ['a fault there', 500, list('InternalServerError'), ['BROKER_UPSTREAM', null, 'RestInternalServerError']],
  ['a fault before it', 500, null, ['BROKER_UPSTREAM', null, 'NotConnected']],
  ['a gateway that waits in vain', 504, list('InternalServerError'), ['BROKER_UPSTREAM', null, 'NotConnected']],
  ['a wrong request', 400, list('BadInputRequest'), ['BROKER_UPSTREAM', null, 'RestBadInputRequest']],
  ['a proxy that lets nobody in', 403, null, ['BROKER_UPSTREAM', null, 'Rest403']],
  ['an address where there is no such call', 404, null, ['BROKER_UPSTREAM', null, 'Rest404']]
]

for (const [what, status, body, expected] of cases) {
  refusals(`is read as ${what}`, () => {
    const error = restRefusal(status, body, { appIdHeader })
    assert.equal([error.code, error.reason, error.brokerCode, error.ran], [...expected, 'no'])
    assert.is(error.rejected, expected[1] !== null)
  })
}

refusals(
  'of an application counts for its user alone, until a second one meets it and it was not let in lately',
  () => {
    const refused = restRefusal(401, list('Unauthorized', { message: 'Invalid application' }), { appIdHeader })
    const applications = new RefusedApplications()
    const isRefused = (user: string) => {
      try {
        applications.check('app', user)
        return false
      } catch {
        return true
      }
    }
    const standing = () => ['one', 'two', 'three'].map(isRefused)
    applications.note('app', 'one', refused)
    assert.equal(standing(), [true, false, false])
    applications.note('app', 'one', refused)
    assert.equal(standing(), [true, false, false])
    applications.note('app', 'two', refused)
    assert.equal(standing(), [true, true, true])
    applications.letIn('app')
    assert.equal(standing(), [true, false, false])
    applications.note('app', 'one', refused)
    applications.note('app', 'two', refused)
    assert.equal(standing(), [true, true, false])
  }
)

async function place(partner: TestPartner, trader: TestTrader) {
  const startedAt = Date.now()
  const body = {
    ...{ traderExternalId: trader.traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', contractType: 'CALL' },
    ...{ stake: 1, duration: 1, durationUnit: 't' }
  }
  const response = await partner.call(placeBinaryOrder, { body })
  return { ...response, ms: Date.now() - startedAt }
}

const accountOf = async (partner: TestPartner, { traderExternalId }: TestTrader) =>
  (await partner.call(listAccounts, { query: { traderExternalId } })).body.data[0]

const orders = suite('an order')

orders('on an account the broker does not have fails at once, and the account is rejected for it', async () => {
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  simulator.faults.add({ effect: 'error', call: 'otp', code: 'AccountNotFound', loginid: trader.accountId })
  const { status, body, ms } = await place(partner, trader)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'ACCOUNT_NOT_FOUND')
  assert.ok(ms < TTL_MS / 2, `${ms} ms`)
  const { status: standing, reason } = await accountOf(partner, trader)
  assert.equal([standing, reason], ['REJECTED', 'ACCOUNT_NOT_FOUND'])
})

for (const dialect of ['next', 'v3'] as const) {
  orders(
    `under an application refused in ${dialect} gets 502 at once, rejects no account and alarms the operator`,
    async () => {
      const appId = dialect === 'v3' ? '66' : 'gone-app'
      const partner = await harness.makePartner()
      const set = (id: string) =>
        harness.services
          .db('partners')
          .where({ id: partner.partnerId })
          .update({ broker_app_id: id, broker_dialect: dialect })
      await set(appId)
      const trader = await partner.makeTrader()
      for (let time = 0; time < 4; time++) {
        const { status, body, ms } = await place(partner, trader)
        assert.equal([status, body.error], [502, 'BROKER_UPSTREAM'], JSON.stringify(body))
        assert.match(body.message, /appl?ication|app_id/)
        assert.ok(ms < TTL_MS / 2, `${ms} ms`)
      }
      assert.is((await accountOf(partner, trader)).status, 'CONNECTED')
      await worker.line(new RegExp(`"event":"broker_app_refused".*"appId":"${appId}"`))

      const doctor = await operator(harness.env, 'doctor', '--json')
      const found = doctor.json.checks.filter(({ check }: { check: string }) => check === 'broker_app_refused')
      assert.ok(found.some(({ found: text }: { found: string }) => text.includes(`${appId} in ${dialect}`)))
      assert.is(doctor.exitCode, 1)
      const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
      assert.match(metrics, `service_broker_app_refused{dialect="${dialect}",app_id="${appId}"} 1`)

      // The right application is known at once: the refusal is remembered for the other one alone.
      await set(appIds[dialect])
      assert.is((await place(partner, trader)).status, 200)
    }
  )
}

orders(
  'of one trader whose token belongs to another application stops no other trader, and alarms nobody',
  async () => {
    const partner = await harness.makePartner()
    const [first, foreign, second] = [
      await partner.makeTrader(),
      await partner.makeTrader(),
      await partner.makeTrader()
    ]
    simulator.faults.add({
      ...{ effect: 'error', call: 'otp', loginid: foreign.accountId },
      ...{ code: 'Unauthorized', message: 'Invalid application' }
    })
    assert.is((await place(partner, first)).status, 200)
    const refused = await place(partner, foreign)
    assert.equal([refused.status, refused.body.error], [502, 'BROKER_UPSTREAM'], JSON.stringify(refused.body))
    const noted = await harness.services.db('broker_app_refusals').where({ app_id: appIds.next })
    assert.equal(noted, [])
    const { status, body } = await place(partner, second)
    assert.is(status, 200, JSON.stringify(body))
  }
)

refusals.run()
orders.after(closeAll)
orders.run()
