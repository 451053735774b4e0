// test in the full run only
// test time-out: 300 s
// The operator's commands that intervene, over a real api and a real worker: halts, a wrong top-up, an order closed,
// limits, sessions, what runs; and that doctor reports it.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getTraderMe, signUpTrader } from '../../api/traders/traders.ts'
import { setLimits } from '../../db/partners/partners.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, closeAll, onClose, openHarness, type TestPartner } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { operator } from '../support/operator.ts'
import { startApi, startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 13, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
const env = { ...harness.env, OPERATOR_NAME: 'Anna' }
const { db } = harness.services
const [api, worker] = await Promise.all([startApi(harness.env), startWorker(harness.env)])
const run = (...args: string[]) => operator(env, ...args, '--json')

async function document(...args: string[]) {
  const ran = await run(...args)
  assert.is(ran.exitCode, 0, ran.stderr)
  return ran.json
}

async function lastAudit(target: string): Promise<{ actor: string; action: string; details: Record<string, unknown> }> {
  return (await document('audit', 'list', '--target', target)).data[0]
}

async function place(partner: TestPartner, traderExternalId: string, changes: object = {}) {
  const body = tickOrder(traderExternalId, { stake: 2, ...changes })
  return call(api.address, placeBinaryOrder, { body, headers: { authorization: `Bearer ${partner.key}` } })
}

async function doctor(check: string): Promise<{ status: string; found: string; advice: string | null }[]> {
  return (await run('doctor')).json.checks.filter((each: { check: string }) => each.check === check)
}

const trading = suite('operator trading')

trading('halt refuses on the running processes until resume; status, doctor and audit log show it', async () => {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  assert.is((await place(partner, traderExternalId)).status, 200)
  const halted = await document('trading', 'halt', '--asset', 'R_100', '--reason', 'no ticks', '--yes')
  assert.equal([halted.scope, halted.subject, halted.reason], ['asset', 'R_100', 'no ticks'])
  assert.is(halted.warning, undefined)
  assert.match(halted.actor, '(Anna)')
  const refused = await place(partner, traderExternalId)
  assert.equal([refused.status, refused.body.error, refused.body.reason], [503, 'TRADING_HALTED', 'no ticks'])
  assert.is((await place(partner, traderExternalId, { asset: 'R_50' })).status, 200)
  assert.is((await document('trading', 'status')).data.length, 1)
  const [found] = await doctor('trading')
  assert.is(found?.status, 'warn')
  assert.match(found?.found ?? '', /halted for asset R_100 since .* by cli:.* \(Anna\): no ticks$/)
  assert.is(found?.advice, '`operator trading resume --asset R_100` once that is over')
  const written = await lastAudit('R_100')
  assert.equal([written.action, written.details], ['trading.halt', { scope: 'asset', reason: 'no ticks' }])

  const other = await run('trading', 'resume')
  assert.equal([other.exitCode, other.stdout], [1, ''])
  assert.match(other.stderr, 'not halted for all; halted: asset R_100')
  assert.equal((await document('trading', 'resume', '--asset', 'R_100')).stillHalted, [])
  assert.is((await place(partner, traderExternalId)).status, 200)
  assert.is((await lastAudit('R_100')).action, 'trading.resume')
  assert.equal(
    (await doctor('trading')).map(({ status }) => status),
    ['ok']
  )
})

trading('halt requires confirmation, takes one scope, and names what does not exist', async () => {
  for (const [args, exitCode, says] of [
    [['halt', '--reason', 'all of it'], 1, /for EVERYBODY\?.*repeat with --yes/],
    [['halt', '--reason', 'x', '--yes'], 2, /--reason/],
    [
      ['halt', '--asset', 'R_1O0', '--reason', 'no ticks'],
      1,
      /none of the latest \d+ orders is on R_1O0; they are on R_100, R_50/
    ],
    [['halt', '--asset', 'R_50', '--partner', 'ptn_a', '--reason', 'both', '--yes'], 2, /exclude each other/],
    [['halt', '--partner', 'ptn_nobody', '--reason', 'unknown', '--yes'], 1, /^NOT_FOUND/],
    [['halt', '--application', '987654', '--reason', 'unknown', '--yes'], 1, /No partner has the application 987654/]
  ] as const) {
    const ran = await run('trading', ...args)
    assert.is(ran.exitCode, exitCode, ran.stderr)
    assert.match(ran.stderr, says)
  }
  assert.equal((await document('trading', 'status')).data, [])
  const mistyped = await document('trading', 'halt', '--asset', 'R_1O0', '--reason', 'no ticks', '--yes')
  assert.match(mistyped.warning, 'is on R_1O0; they are on R_100')
  await document('trading', 'resume', '--asset', 'R_1O0')
})

const correcting = suite('operator wallet debit, orders close, partners set-limit, sessions end')

correcting('debit takes a top-up back with its reason, and never more than there is', async () => {
  const { partnerId } = await harness.makePartner()
  await document('wallet', 'topup', '--partner', partnerId, '--amount', '500')
  const debit = (amount: string, ...more: string[]) =>
    run('wallet', 'debit', '--partner', partnerId, '--amount', amount, '--reason', 'paid in twice', '--yes', ...more)
  assert.equal((await debit('400.50')).json, { partnerId, balanceUsd: 99.5, repeated: false })
  const details = { amountUsd: '400.50', reason: 'paid in twice', reference: null, repeated: false }
  assert.equal((await lastAudit(partnerId)).details, details)
  const more = await debit('99.51')
  assert.is(more.exitCode, 1)
  assert.match(more.stderr, /^WALLET_INSUFFICIENT/)
  const unasked = await run('wallet', 'debit', '--partner', partnerId, '--amount', '1', '--reason', 'why not')
  assert.is(unasked.exitCode, 1)
  assert.is((await document('wallet', 'show', '--partner', partnerId)).balanceUsd, 99.5)
  // Who repeats a command that was killed names the correction: what was taken out is not taken out twice.
  const named = (amount: string) => debit(amount, '--reference', 'wire-117-twice')
  assert.equal((await named('90')).json, { partnerId, balanceUsd: 9.5, repeated: false })
  await document('wallet', 'topup', '--partner', partnerId, '--amount', '0.50')
  assert.equal((await named('90')).json, { partnerId, balanceUsd: 10, repeated: true })
  assert.match((await named('9')).stderr, /^CONFLICT: .* belongs to another movement/)
  assert.is((await document('wallet', 'show', '--partner', partnerId)).balanceUsd, 10)
})

correcting(
  'close sells the contract of an order named by its contract id, with the reason in the audit log',
  async () => {
    const partner = await harness.makePartner()
    const { traderExternalId } = await partner.makeTrader()
    const { body } = await place(partner, traderExternalId, { duration: 1, durationUnit: 'h' })
    assert.is(body.status, 'OPEN')
    const closed = await document('orders', 'close', body.brokerOrderId, '--reason', 'ticket 4711', '--yes')
    assert.equal([closed.orderId, closed.status], [body.orderId, 'CLOSED'])
    const { action, details } = await lastAudit(body.orderId)
    assert.equal([action, details.reason, details.contractId], ['orders.close', 'ticket 4711', body.brokerOrderId])
    assert.is((await document('orders', 'show', body.orderId)).decisions[0].action, 'orders.close')
  }
)

correcting('set-limit holds for the next call, and default takes it away', async () => {
  const { partnerId, key } = await harness.makePartner()
  const policy = async () => {
    const { headers } = await call(api.address, getMe, { headers: { authorization: `Bearer ${key}` } })
    return headers.get('ratelimit-policy')
  }
  const limited = await document('partners', 'set-limit', partnerId, '--per-key', '7', '--per-trader', '3')
  assert.equal(limited.limits, { perKeyPerMinute: 7, perTraderPerMinute: 3 })
  assert.is(await policy(), '"key";q=7;w=60')
  await document('partners', 'set-limit', partnerId, '--per-key', 'default')
  assert.not.equal(await policy(), '"key";q=7;w=60')
  assert.equal((await document('partners', 'show', partnerId)).limits, { perKeyPerMinute: null, perTraderPerMinute: 3 })
  const { from, to } = (await lastAudit(partnerId)).details as Record<string, object>
  assert.equal(
    [from, to],
    [
      { perKeyPerMinute: 7, perTraderPerMinute: 3 },
      { perKeyPerMinute: null, perTraderPerMinute: 3 }
    ]
  )
  const nothing = await run('partners', 'set-limit', partnerId)
  assert.equal([nothing.exitCode, nothing.stderr.includes('--per-key')], [2, true])
})

correcting('set-limit records what a change before it has left, not what it first read', async () => {
  const { partnerId } = await harness.makePartner()
  const earlier = await db.transaction()
  await setLimits(earlier, partnerId, { perKeyPerMinute: 7 })
  const later = document('partners', 'set-limit', partnerId, '--per-trader', '3')
  await untilLockWaits(db, { work: later }).finally(() => earlier.commit())
  const both = { perKeyPerMinute: 7, perTraderPerMinute: 3 }
  assert.equal((await later).limits, both)
  assert.equal((await lastAudit(partnerId)).details, { from: { ...both, perTraderPerMinute: null }, to: both })
})

correcting('sessions end ends every session of a trader named by its e-mail, at once', async () => {
  const { key } = await harness.makePartner()
  const authorization = `Bearer ${key}`
  const email = `${randomUUID()}@example.com`
  const signed = await call(api.address, signUpTrader, {
    body: { email, password: 'correct horse battery staple 9' },
    headers: { authorization }
  })
  const me = async () =>
    (
      await call(api.address, getTraderMe, {
        headers: { authorization, 'x-trader-session': signed.body.sessionToken }
      })
    ).status
  assert.is(await me(), 200, JSON.stringify(signed.body))
  const ended = await document('sessions', 'end', email, '--yes')
  assert.equal([ended.traderId, ended.ended], [signed.body.traderId, 1])
  assert.is(await me(), 401)
  assert.is((await lastAudit(signed.body.traderId)).action, 'sessions.end')
})

const processes = suite('what runs')

processes('is listed, and an api that has been idle is no missing one for the doctor', async () => {
  // What it looked for before: connections, which an idle process gives back.
  // Of this database alone: other files' processes use the same server.
  await db.raw(`select pg_terminate_backend(pid) from pg_stat_activity
                 where application_name = 'service-api' and datname = current_database()`)
  const { data } = await document('processes', 'list')
  const of = (pid: number | undefined) => data.find((each: { pid: number }) => each.pid === pid)
  assert.equal([of(api.child.pid).kind, of(api.child.pid).address, of(api.child.pid).alive], ['api', api.address, true])
  assert.is(of(worker.child.pid).kind, 'worker')
  const [found] = await doctor('processes')
  assert.equal([found?.status, found?.found], ['ok', '1 api and 1 worker run, version 1.0.0'])
  const person = await operator(env, 'processes', 'list')
  assert.match(person.stdout, /^api +running +/m)

  // Five more of a pool of 200 would need more than the server of the tests has.
  assert.equal(await doctor('connections'), [])
  const more = [1, 2, 3, 4, 5].map(n => ({ name: `elsewhere:1:${n}`, kind: 'api', version: '1.0.0' }))
  await db('processes').insert(more)
  const { checks } = JSON.parse((await operator({ ...env, DATABASE_POOL: '200' }, 'doctor', '--json')).stdout)
  const short = checks.find((each: { check: string }) => each.check === 'connections')
  assert.is(short?.status, 'warn')
  assert.match(short?.found, /^the 7 processes that run may need 1424, /)
  await db('processes').where('name', 'like', 'elsewhere:%').delete()

  api.kill('SIGTERM')
  assert.is(await api.ended, 0)
  const [missing] = await doctor('processes')
  assert.equal([missing?.status, missing?.found], ['warn', 'no api runs'])
})

processes.after(closeAll)
for (const tests of [trading, correcting, processes]) tests.run()
