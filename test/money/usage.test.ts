// What a partner used: requests counted without a write for each, orders, traders, limits, wallet.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createKey } from '../../api/keys.ts'
import { getMe } from '../../api/me.ts'
import { listAccounts } from '../../api/traders/accounts.ts'
import { getUsage } from '../../api/usage.ts'
import { deleteOldUsage, openUsage } from '../../db/partners/usage.ts'
import { openLog } from '../../db/platform/log.ts'
import { call, closeAll, openHarness } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startApi } from '../support/processes.ts'

const harness = await openHarness({ env: { RATE_LIMIT_PRO: '3000', RATE_LIMIT_TRADER: '120' } })
const { db } = harness.services
const log = openLog({ level: 'silent', name: 'test' })
const usage = suite('GET /v1/usage')
const counting = suite('counting requests')

usage('returns the period, the limits and the wallet of a new partner', async () => {
  const partner = await harness.makePartner({ plan: 'PRO' })
  const { status, body } = await partner.call(getUsage)
  assert.is(status, 200)
  const { periodStart, periodEnd, ...rest } = body
  assert.is(Math.round((Date.parse(periodEnd) - Date.parse(periodStart)) / 86_400_000), 30)
  assert.ok(Math.abs(Date.parse(periodStart) - Date.now()) < 60_000)
  assert.equal(rest, {
    plan: 'PRO',
    saasStatus: 'ACTIVE',
    requests: { total: 0, errors: 0, byDay: [] },
    orders: { placed: 0, closed: 0, failed: 0 },
    traders: 0,
    rateLimit: { perKeyPerMinute: 3000, perTraderPerMinute: 120 },
    wallet: { balanceUsd: 0, feeUsd: 199, nextFeeAt: periodEnd }
  })
})

usage("counts the partner's requests and errors, of keys and sessions, and no other's", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const { cookie } = await partner.makeSession()
  for (let i = 0; i < 3; i++) await partner.call(getMe)
  await partner.call(listAccounts, { query: { traderExternalId: 'nobody' } })
  await partner.call(listAccounts)
  await call(harness.address, createKey, { headers: { cookie } })
  await call(harness.address, createKey, { headers: { cookie, origin: 'https://evil.example' } })
  await call(harness.address, getMe)
  await other.call(getMe)
  const { requests } = (await partner.call(getUsage)).body
  const date = new Date().toISOString().slice(0, 10)
  assert.equal(requests, { total: 7, errors: 3, byDay: [{ date, requests: 7, errors: 3 }] })
})

usage('counts requests, orders and traders of this period only', async () => {
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  const before = new Date(Date.now() - 86_400_000)
  const at = (date: Date, requests: number) =>
    db('usage_hours').insert({ partner_id: partner.partnerId, hour: date, requests, errors: 1 })
  await at(new Date(Date.UTC(2026, 0, 1)), 1000)
  await db('partners').where({ id: partner.partnerId }).update({ period_start: before })
  await insertOrderRows(db, trader, { at: new Date(before.getTime() - 1000), count: 5 })
  await insertOrderRows(db, trader, { count: 3 })
  await insertOrderRows(db, trader, { phase: 'open' })
  await insertOrderRows(db, trader, { phase: 'queued' })
  await insertOrderRows(db, trader, { phase: 'failed', count: 2 })
  const { body } = await partner.call(getUsage)
  assert.is(body.requests.total, 1, 'the exchange')
  assert.equal(body.orders, { placed: 7, closed: 3, failed: 2 })
  assert.is(body.traders, 1)
})

usage('adds up the days of the period', async () => {
  const partner = await harness.makePartner()
  await db('partners')
    .where({ id: partner.partnerId })
    .update({
      period_start: new Date(Date.UTC(2026, 1, 3, 10, 30)),
      period_end: new Date(Date.UTC(2026, 2, 3, 10, 30))
    })
  const hours = [
    [new Date(Date.UTC(2026, 1, 3, 9)), 100],
    [new Date(Date.UTC(2026, 1, 3, 10)), 1],
    [new Date(Date.UTC(2026, 1, 3, 23)), 2],
    [new Date(Date.UTC(2026, 1, 4, 0)), 4]
  ] as const
  for (const [hour, requests] of hours)
    await db('usage_hours').insert({ partner_id: partner.partnerId, hour, requests, errors: 0 })
  const { requests } = (await partner.call(getUsage)).body
  assert.equal(requests, {
    total: 7,
    errors: 0,
    byDay: [
      { date: '2026-02-03', requests: 3, errors: 0 },
      { date: '2026-02-04', requests: 4, errors: 0 }
    ]
  })
})

const written = async (partnerId: string) => {
  const [row] = await db('usage_hours').where({ partner_id: partnerId }).sum({ requests: 'requests', errors: 'errors' })
  return [Number(row?.requests ?? 0), Number(row?.errors ?? 0)]
}

counting('adds up what several processes write at once', async () => {
  const partners = [await harness.makePartner(), await harness.makePartner(), await harness.makePartner()]
  const processes = Array.from({ length: 4 }, () => openUsage({ db, log, everyMs: 60_000 }))
  await Promise.all(
    processes.map(async (counter, i) => {
      for (let round = 0; round < 20; round++) {
        // Each in another order, which must not make them wait for each other in a circle.
        for (const { partnerId, keyId } of i % 2 ? partners : partners.toReversed())
          counter.count({ partnerId, keyId, status: round % 2 ? 200 : 404 })
        await counter.flush()
      }
      await counter.close()
    })
  )
  for (const { partnerId } of partners) assert.equal(await written(partnerId), [80, 40])
})

counting('keeps the counts while the database refuses them', async () => {
  const { partnerId, keyId } = await harness.makePartner()
  const counter = openUsage({ db, log, everyMs: 60_000 })
  counter.count({ partnerId, keyId, status: 200 })
  await db.raw('alter table usage_hours rename to usage_hours_away')
  let refused = false
  await counter.flush().catch(() => {
    refused = true
  })
  await db.raw('alter table usage_hours_away rename to usage_hours')
  assert.ok(refused)
  counter.count({ partnerId, status: 500 })
  await counter.close()
  assert.equal(await written(partnerId), [2, 1])
  assert.ok((await db('api_keys').where({ id: keyId }).first('last_used_at')).last_used_at)
})

counting('remembers when a key was last used, and not when a revoked one was tried', async () => {
  const partner = await harness.makePartner()
  const lastUsed = async () => (await db('api_keys').where({ id: partner.keyId }).first('last_used_at')).last_used_at
  assert.is(await lastUsed(), null)
  await partner.call(getMe)
  await harness.services.usage.flush()
  const first = await lastUsed()
  assert.ok(Math.abs(first.getTime() - Date.now()) < 60_000)
  await db('api_keys').where({ id: partner.keyId }).update({ revoked_at: new Date() })
  await partner.call(getMe)
  await harness.services.usage.flush()
  assert.equal(await lastUsed(), first)
  // Another process, whose clock is ahead, has written before this one.
  const later = new Date(Date.now() + 60_000)
  await db('api_keys').where({ id: partner.keyId }).update({ revoked_at: null, last_used_at: later })
  await partner.call(getMe)
  await harness.services.usage.flush()
  assert.equal(await lastUsed(), later)
})

counting('loses nothing when the process stops in order', async () => {
  const partner = await harness.makePartner()
  const api = await startApi(harness.env)
  for (let i = 0; i < 25; i++) await call(api.address, getMe, { headers: { authorization: `Bearer ${partner.key}` } })
  api.kill('SIGTERM')
  assert.is(await api.ended, 0)
  assert.equal(await written(partner.partnerId), [25, 0])
})

counting('forgets what is older than 400 days', async () => {
  const { partnerId } = await harness.makePartner()
  for (const days of [399, 401])
    await db('usage_hours').insert({
      partner_id: partnerId,
      hour: new Date(Date.now() - days * 86_400_000),
      requests: days,
      errors: 0
    })
  await deleteOldUsage(db)
  assert.equal(await written(partnerId), [399, 0])
})

counting.after(closeAll)
usage.run()
counting.run()
