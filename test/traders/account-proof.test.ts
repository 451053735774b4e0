// test once for each dialect
// The broker's facts of an account decide: whether it is play money, its currency, and whose it is.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeOrder, placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { type AccountRef, findAccountRef } from '../../db/traders/accounts.ts'
import { openSession, rejectToken } from '../../worker/accounts/accounts.ts'
import { BrokerError } from '../../worker/broker/broker-error.ts'
import type { Session } from '../../worker/broker/port.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import {
  closeAll,
  FEW_LOOKS_MS,
  newAccountId,
  onClose,
  openHarness,
  type TestPartner,
  until
} from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

// Of orders that wait in vain, and of those that are to be placed, which a busy machine takes long for.
const VAIN_MS = 6000
const TTL_MS = 60_000
const ANSWER_MS = 2000
const simulator = await startSimulator({ tickMs: 10, seed: 21, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    SWEEP_MS: '200',
    ORDER_TTL_MS: String(TTL_MS),
    PERMIT_MS: '1000',
    RECONCILE_AFTER_MS: '1500',
    BROKER_ANSWER_TIMEOUT_MS: String(ANSWER_MS)
  }
})
const { services } = await startTestWorker(harness.env)
const partner = await harness.makePartner()

interface Given {
  accountId: string
  token?: string
  accountMode?: 'DEMO' | 'REAL'
  currency?: string
}

/** Exchanges an account with these facts; returns the trader's external id. */
async function exchange(
  { accountId, token = `sim-${accountId}`, accountMode = 'DEMO', ...rest }: Given,
  traderExternalId = `user-${randomUUID()}`,
  by: TestPartner = partner
): Promise<string> {
  const body = { traderExternalId, accounts: [{ accountId, token, accountMode, ...rest }] }
  assert.is((await by.call(exchangeTokens, { body })).status, 200)
  return traderExternalId
}

/** Has orders that are placed meanwhile wait in vain. */
async function inVain<Result>(run: () => Promise<Result>): Promise<Result> {
  const { config } = harness.services
  config.orderTtlMs = VAIN_MS
  return run().finally(() => {
    config.orderTtlMs = TTL_MS
  })
}

const place = (traderExternalId: string, by: TestPartner = partner, changes: object = {}) =>
  by.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { duration: 3, ...changes })
  })
const accountOf = async (traderExternalId: string, by: TestPartner = partner) =>
  (await by.call(listAccounts, { query: { traderExternalId } })).body.data[0]
const contractsOf = (accountId: string) => simulator.ledger().filter(entry => entry.loginid === accountId)
const realId = () => newAccountId().replace('VRTC', 'CR')

const checking = suite('an account compared with what the broker returns for it')

checking('is refused when it is real and was exchanged as DEMO, and nothing is bought', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId })
  const { status, body } = await place(traderExternalId)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'MODE_MISMATCH')
  const account = await accountOf(traderExternalId)
  assert.equal([account.status, account.reason], ['REJECTED', 'MODE_MISMATCH'])
  const balance = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(balance.status, 404)
  assert.match(balance.body.message, 'MODE_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
})

checking('is refused when it is play money and was exchanged as REAL, also by a balance', async () => {
  const traderExternalId = await exchange({ accountId: newAccountId(), accountMode: 'REAL' })
  const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'MODE_MISMATCH')
  assert.is((await accountOf(traderExternalId)).reason, 'MODE_MISMATCH')
})

checking('goes by the broker alone, whatever the id begins with', async () => {
  const [looksReal, looksDemo] = [realId(), newAccountId()]
  const demo = await exchange({ accountId: looksReal, token: `sim-${looksReal}-demo` })
  const real = await exchange({ accountId: looksDemo, token: `sim-${looksDemo}-real`, accountMode: 'REAL' })
  assert.equal([(await place(demo)).body.status, (await place(real)).body.status], ['CLOSED', 'CLOSED'])
  const wrong = await exchange({ accountId: looksDemo, token: `sim-${looksDemo}-real` })
  assert.match((await place(wrong)).body.message, 'MODE_MISMATCH')
})

checking('is refused when the currency given is not its own; where none was given, it takes the broker’s', async () => {
  const accountId = newAccountId()
  const token = `sim-${accountId}-EUR`
  const wrong = await exchange({ accountId, token, currency: 'USD' })
  const { status, body } = await place(wrong)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(body.message, 'CURRENCY_MISMATCH')
  assert.is((await accountOf(wrong)).reason, 'CURRENCY_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
  const silent = await exchange({ accountId, token })
  assert.is((await partner.call(getBalance, { query: { traderExternalId: silent } })).status, 200)
  assert.is((await accountOf(silent)).currency, 'EUR')
})

checking('trades again once it is exchanged as it is', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId })
  assert.is((await place(traderExternalId)).status, 404)
  await exchange({ accountId, accountMode: 'REAL' }, traderExternalId)
  assert.is((await accountOf(traderExternalId)).reason, undefined)
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
})

checking('places no order for DEMO that was stored before it was exchanged as REAL, by a repeat neither', async () => {
  const { db } = harness.services
  const owner = await harness.makePartner()
  const accountId = realId()
  const traderExternalId = await exchange({ accountId }, undefined, owner)
  // No worker opens it before the test allows it.
  const prove = (at: string | null) => db('broker_accounts').where({ account_id: accountId }).update({ prove_at: at })
  await prove('infinity')
  const [expecting, silent] = [randomUUID(), randomUUID()]
  const placeAs = (clientOrderId: string, changes: object = {}) =>
    place(traderExternalId, owner, { clientOrderId, ...changes })
  const placing = [placeAs(expecting, { expectedAccountMode: 'DEMO' }), placeAs(silent)]
  await until('both to be stored', async () => (await db('orders').where({ account_id: accountId })).length === 2)
  await exchange({ accountId, accountMode: 'REAL' }, traderExternalId, owner)
  await prove(null)
  for (const { status, body } of await Promise.all(placing)) {
    assert.equal([status, body.error], [409, 'CONFLICT'], JSON.stringify(body))
    assert.match(body.message, `Account ${accountId} is REAL by now, and was DEMO when the order was stored`)
  }
  const refusal = async () => {
    const { status, body } = await placeAs(expecting, { expectedAccountMode: 'DEMO' })
    assert.equal([status, body.error], [409, 'CONFLICT'], JSON.stringify(body))
    return body.message
  }
  assert.match(await refusal(), `Account ${accountId} is REAL, and the order is for one that is DEMO`)
  // Also where the trader's active account is a DEMO one by now: the order is for the account that it was stored for.
  const demo = newAccountId()
  await exchange({ accountId: demo }, traderExternalId, owner)
  const activated = await owner.call(activateAccount, { body: { traderExternalId, accountId: demo } })
  assert.is(activated.status, 200)
  assert.match(await refusal(), /^The account of order \w+ is REAL, and the order is for one that is DEMO/)
  assert.is(contractsOf(accountId).length, 0)
  assert.is((await placeAs(silent)).body.status, 'CLOSED')
  const [{ account_mode: mode }] = await db('orders').where({ client_order_id: silent })
  assert.is(mode, 'REAL')
  assert.is(contractsOf(accountId).length, 1)
})

checking('places no order that waits for DEMO once the account is REAL, whatever the broker states', async () => {
  const { db } = harness.services
  const trader = await partner.makeTrader()
  const { traderExternalId, traderId, accountId } = trader
  // Its session is open and its token accepted: the broker is not called for its mode again.
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
  const { app_id, dialect: spoken } = await db('orders').where({ trader_id: traderId }).first('app_id', 'dialect')
  await db.transaction(async trx => {
    await insertOrderRows(trx, trader, { phase: 'queued' })
    const lasting = { app_id, dialect: spoken, expires_at: trx.raw(`now() + interval '10 minutes'`) }
    await trx('orders').where({ trader_id: traderId, phase: 'queued' }).update(lasting)
    await trx('broker_accounts').where({ account_id: accountId }).update({ account_mode: 'REAL' })
  })
  const refused = await until('the order to be refused', () =>
    db('orders').where({ trader_id: traderId, phase: 'failed' }).first('error_code', 'error_message', 'retryable')
  )
  assert.equal(refused, {
    error_code: 'CONFLICT',
    error_message: `Account ${accountId} is REAL by now, and was DEMO when the order was stored: nothing was bought.`,
    retryable: true
  })
  assert.is(contractsOf(accountId).length, 1)
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
})

checking('that was stored before it was ever compared is compared when it is opened next', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId, accountMode: 'REAL' })
  // As a process of the previous version would have left it: stored as DEMO, and never compared.
  await harness.services.db('broker_accounts').where({ account_id: accountId }).update({ account_mode: 'DEMO' })
  assert.match((await place(traderExternalId)).body.message, 'MODE_MISMATCH')
  assert.is(contractsOf(accountId).length, 0)
})

checking(
  'is refused for what the broker says in a session opened with its present token, and with none before',
  async () => {
    const accountId = newAccountId()
    const traderExternalId = await exchange({ accountId })
    const row = await harness.services.db('broker_accounts').where({ account_id: accountId }).first()
    const place = (await findAccountRef(harness.services.db, row.id)) as AccountRef
    const refusal = async (session: Session) => {
      simulator.faults.add({ effect: 'error', call: 'balance', code: 'DisabledClient', loginid: accountId, times: 1 })
      const error = await session.balance().catch((cause: unknown) => cause as BrokerError)
      assert.ok(error instanceof BrokerError && error.rejected, String(error))
      return error
    }
    // It is written only once the next token was read for the account.
    const late = await refusal(await openSession(services, place))
    await exchange({ accountId }, traderExternalId)
    const session = await openSession(services, place, { anew: true })
    await rejectToken(services, place, late)
    assert.is((await accountOf(traderExternalId)).status, 'CONNECTED')
    await rejectToken(services, place, await refusal(session))
    assert.is((await accountOf(traderExternalId)).status, 'REJECTED')
  }
)

checking('shows no balance by what an older token opened, of a wrong mode or a wrong token', async () => {
  const accountId = realId()
  const traderExternalId = await exchange({ accountId, accountMode: 'REAL' })
  const balance = async () => {
    const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
    return [status, body.accountMode ?? (await accountOf(traderExternalId)).reason]
  }
  assert.equal(await balance(), [200, 'REAL'])
  await exchange({ accountId, accountMode: 'DEMO' }, traderExternalId)
  assert.equal(await balance(), [404, 'MODE_MISMATCH'])
  await exchange({ accountId, accountMode: 'REAL' }, traderExternalId)
  assert.equal(await balance(), [200, 'REAL'])
  await exchange({ accountId, accountMode: 'REAL', token: 'never-issued-to-anybody' }, traderExternalId)
  assert.equal(await balance(), [404, 'TOKEN_REFUSED'])
})

checking(
  'buys what was placed with its present token, although the broker refuses the one before it later',
  async () => {
    const accountId = newAccountId()
    const call = dialect === 'v3' ? 'authorize' : 'accounts'
    simulator.faults.add({ effect: 'slow', call, delayMs: ANSWER_MS - 500, times: 1 })
    const traderExternalId = await exchange({ accountId, token: `sim-${newAccountId()}` })
    const first = place(traderExternalId)
    await until('its token to be at the broker', () => simulator.faults.settings.rules.length === 0)
    await exchange({ accountId }, traderExternalId)
    const { body } = await place(traderExternalId)
    assert.is(body.status, 'CLOSED', JSON.stringify(body))
    await first
  }
)

checking("whose token belongs to another account is refused as not the token's", async () => {
  const other = newAccountId()
  const traderExternalId = await exchange({ accountId: newAccountId(), token: `sim-${other}` })
  assert.match((await place(traderExternalId)).body.message, 'ACCOUNT_NOT_FOUND')
  assert.is(contractsOf(other).length, 0)
})

const naming = suite("a partner that names another one's account")
// The call with which an account is opened.
const opening = dialect === 'v3' ? 'authorize' : 'otp'
const phasesOf = (partnerId: string) => harness.services.db('orders').where({ partner_id: partnerId }).pluck('phase')

naming('with a token the broker is slow to refuse does not hold up the owner', async () => {
  const accountId = newAccountId()
  const owner = await exchange({ accountId })
  const trade = async () => {
    const startedAt = performance.now()
    for (let i = 0; i < 3; i++) assert.is((await place(owner)).body.status, 'CLOSED')
    return performance.now() - startedAt
  }
  assert.is((await place(owner)).body.status, 'CLOSED')
  const usualMs = await trade()
  const stranger = await harness.makePartner()
  const intruder = await exchange({ accountId, token: `sim-${newAccountId()}` }, undefined, stranger)
  // Whatever is opened from now on gets no response; the owner's connection is open.
  simulator.faults.add({ effect: 'ignore', call: dialect === 'v3' ? 'authorize' : 'accounts' })
  const intrusions = Promise.all([1, 2, 3].map(() => place(intruder, stranger)))
  await until('the intrusions to be stored', async () => (await phasesOf(stranger.partnerId)).length === 3)
  // Behind the intrusions each would wait for as long as a call to the broker is waited for. A machine that was busy trades once more.
  let trades = 0
  await until(
    'trades as quick as ever',
    async () => {
      trades += 3
      return (await trade()) < 3 * usualMs + 2 * ANSWER_MS
    },
    FEW_LOOKS_MS
  )
  assert.equal(await phasesOf(stranger.partnerId), ['unproven', 'unproven', 'unproven'])
  simulator.faults.reset()
  for (const { status, body } of await intrusions) {
    assert.ok(status === 404 || status === 502, JSON.stringify(body))
    assert.not(body.brokerOrderId)
  }
  assert.is(contractsOf(accountId).length, 4 + trades)
})

naming('again and again with made-up tokens is made to wait', async () => {
  const [stranger, accountId] = [await harness.makePartner(), newAccountId()]
  const traderExternalId = `user-${randomUUID()}`
  const refused: number[] = []
  let message = ''
  const clientOrderId = randomUUID()
  while (refused.at(-1) !== 502 && refused.length < 12) {
    await exchange({ accountId, token: `sim-${newAccountId()}` }, traderExternalId, stranger)
    const changes = refused.length === 0 ? { clientOrderId } : {}
    const attempt = () => place(traderExternalId, stranger, changes)
    const { status, body } = refused.length < 4 ? await attempt() : await inVain(attempt)
    refused.push(status)
    message = body.message
  }
  assert.equal(refused.slice(0, 4), [404, 404, 404, 404])
  assert.is(refused.at(-1), 502)
  assert.match(message, 'the next try is made in')
  // Refused so often that the rest lasts for a minute: an order does not even pass through the queue.
  await harness.services.db('broker_accounts').where({ partner_id: stranger.partnerId }).update({ refusals: 20 })
  const stored = await phasesOf(stranger.partnerId)
  const { status, body, headers } = await place(traderExternalId, stranger)
  assert.equal([status, body.error], [502, 'BROKER_UPSTREAM'])
  assert.ok(Number(headers.get('retry-after')) > 30)
  assert.equal(await phasesOf(stranger.partnerId), stored)
  // Nor is the token tried for anything else.
  const balance = await stranger.call(getBalance, { query: { traderExternalId } })
  assert.is(balance.status, 502)
  assert.match(balance.body.message, 'the next try is made in')
  assert.is((await place(traderExternalId, stranger, { clientOrderId })).status, 404)
  // Its other accounts that were proven go on.
  assert.is((await place(await exchange({ accountId: newAccountId() }, undefined, stranger), stranger)).status, 200)
})

naming('with many of its traders uses its own budget up, and nobody else’s', async () => {
  const [stranger, victim] = [await harness.makePartner(), newAccountId()]
  const good = await exchange({ accountId: newAccountId() }, undefined, stranger)
  assert.is((await place(good, stranger)).status, 200)
  const traders = await Promise.all(
    Array.from({ length: 60 }, () =>
      exchange({ accountId: victim, token: `sim-${newAccountId()}` }, undefined, stranger)
    )
  )
  const tried = await inVain(() => Promise.all(traders.map(each => place(each, stranger))))
  assert.ok(tried.every(({ status }) => status === 404 || status === 502))
  const fresh = await exchange({ accountId: newAccountId() }, undefined, stranger)
  const { status, body } = await inVain(() => place(fresh, stranger))
  assert.is(status, 502)
  assert.match(body.message, 'the next try is made in')
  // Its proven accounts, and the unproven ones of others, are not concerned.
  assert.is((await place(good, stranger)).status, 200)
  assert.is((await place(await exchange({ accountId: newAccountId() }))).status, 200)
})

naming(
  'is no matter of accounts that the broker accepted before: forty tokens that lapse keep no fresh one waiting',
  async () => {
    const owner = await harness.makePartner()
    const accountIds = Array.from({ length: 40 }, newAccountId)
    const traders = await Promise.all(accountIds.map(accountId => exchange({ accountId }, undefined, owner)))
    const statusesOf = async (names: string[]) => [
      ...new Set((await Promise.all(names.map(name => place(name, owner)))).map(({ status }) => status))
    ]
    assert.equal(await statusesOf(traders), [200])
    for (const accountId of accountIds) simulator.engine.accounts.revoke(`sim-${accountId}`)
    assert.equal(await statusesOf(traders), [404])
    // Some bring the token again that the broker has refused.
    await Promise.all(traders.map((name, at) => exchange({ accountId: accountIds[at] as string }, name, owner)))
    assert.equal(await statusesOf(traders), [404])
    const [accountId = '', name = ''] = [accountIds[0], traders[0]]
    simulator.engine.accounts.restore(`sim-${accountId}`)
    await exchange({ accountId }, name, owner)
    assert.is((await place(name, owner)).status, 200)
    assert.is((await place(await exchange({ accountId: newAccountId() }, undefined, owner), owner)).status, 200)
  }
)

const first = suite('the first order of an account')

first('returns with its end, after one authorisation', async () => {
  // Other accounts may be opened meanwhile, whose connections a busy machine has lost: then once more.
  await until(
    'one authorisation',
    async () => {
      simulator.faults.reset()
      simulator.faults.add({ effect: 'slow', delayMs: 0, call: opening, times: 10 })
      const traderExternalId = await exchange({ accountId: newAccountId() })
      assert.is((await place(traderExternalId)).body.status, 'CLOSED')
      assert.is((await place(traderExternalId)).body.status, 'CLOSED')
      return simulator.faults.settings.rules[0]?.times === 9
    },
    FEW_LOOKS_MS
  )
  simulator.faults.reset()
})

first('after a new token is bought with that one, not with what the old one opened', async () => {
  const accountId = newAccountId()
  const traderExternalId = await exchange({ accountId })
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
  await exchange({ accountId, token: 'never-issued-to-anybody' }, traderExternalId)
  const { status, body } = await place(traderExternalId)
  assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
  await exchange({ accountId }, traderExternalId)
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
})

first('is not kept from trading by the refusal of the token before, in the session that it had opened', async () => {
  const accountId = newAccountId()
  const traderExternalId = await exchange({ accountId })
  const { orderId } = (await place(traderExternalId, partner, { duration: 1, durationUnit: 'd' })).body
  const close = async () => (await partner.call(closeOrder, { params: { id: orderId } })).status
  await exchange({ accountId }, traderExternalId)
  // The scope of a token is the only refusal for which the session is not opened again.
  simulator.faults.add({ effect: 'error', call: 'sell', code: 'PermissionDenied', loginid: accountId, times: 1 })
  assert.is(await close(), 404)
  assert.is((await accountOf(traderExternalId)).status, 'CONNECTED')
  simulator.faults.add({ effect: 'error', call: 'sell', code: 'InvalidToken', loginid: accountId, times: 1 })
  assert.is(await close(), 200)
  assert.is((await place(traderExternalId)).body.status, 'CLOSED')
  simulator.faults.add({ effect: 'error', call: 'balance', code: 'PermissionDenied', loginid: accountId, times: 1 })
  assert.is((await partner.call(getBalance, { query: { traderExternalId } })).status, 404)
  assert.is((await accountOf(traderExternalId)).status, 'REJECTED')
})

first('is found though its hint is lost', async () => {
  const { db } = harness.services
  const trader = await partner.makeTrader()
  // A row that no statement of the service stored: no worker is notified of it.
  await insertOrderRows(db, trader, { phase: 'unproven', at: new Date(Date.now() + 60_000) })
  await until('its account to be proven', async () => {
    const [phase] = await db('orders').where({ account_id: trader.accountId }).pluck('phase')
    return phase !== 'unproven'
  })
})

first('ends with its time to live when the account cannot be opened, and may be repeated', async () => {
  const traderExternalId = await exchange({ accountId: newAccountId() })
  simulator.faults.add({ effect: 'ignore', call: opening })
  const clientOrderId = randomUUID()
  const { status, body } = await inVain(() => place(traderExternalId, partner, { clientOrderId }))
  assert.equal([status, body.error, body.status], [502, 'BROKER_UPSTREAM', 'FAILED'])
  simulator.faults.reset()
  const again = await until('the repeat', async () => {
    const { body } = await place(traderExternalId, partner, { clientOrderId })
    return body.status === 'CLOSED' && body
  })
  assert.is(again.orderId, body.orderId)
})

const sharing = suite('two partners that own an account')

sharing('are kept from each other’s order in doubt', async () => {
  const accountId = newAccountId()
  const other = await harness.makePartner()
  const [one, two] = [await exchange({ accountId }), await exchange({ accountId }, undefined, other)]
  assert.equal([(await place(one)).body.status, (await place(two, other)).body.status], ['CLOSED', 'CLOSED'])
  simulator.faults.add({ effect: 'mute', call: 'buy', loginid: accountId, times: 1 })
  // Resolved once the second order is there.
  const { config } = services
  const { reconcileAfterMs } = config
  config.reconcileAfterMs = 60_000
  const doubtful = place(one)
  const phases = () => harness.services.db('orders').where({ account_id: accountId }).orderBy('id').pluck('phase')
  await until('the doubt', async () => (await phases()).includes('sending'))
  const waiting = place(two, other)
  await until('the second order', async () => (await phases()).length === 4)
  assert.equal((await phases()).slice(2), ['sending', 'queued'])
  config.reconcileAfterMs = reconcileAfterMs
  await harness.services.db.raw(
    `update orders set resolve_at = permit_until + interval '1 millisecond' where account_id = ? and phase = 'sending'`,
    [accountId]
  )
  const [first, second] = [await doubtful, await waiting]
  assert.ok([200, 502].includes(first.status) && [200, 502].includes(second.status))
  const bought = contractsOf(accountId).length
  assert.ok(bought >= 3 && bought <= 4, `${bought}`)
})

sharing.after(closeAll)
for (const tests of [checking, naming, first, sharing]) tests.run()
