// Equal broker requests of one api process: one row, one wait, each caller with its own time.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { shareRequests } from '../../api/request/shared-requests.ts'
import {
  awaitEnd,
  type BrokerRequest,
  findBrokerRequests,
  storeBrokerRequests,
  storeRefusal,
  storeResponse
} from '../../db/platform/broker-requests.ts'
import { batch } from '../../db/postgres/batch.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { closeAll, openHarness, until } from '../support/harness.ts'

const { services, makePartner } = await openHarness()
const { db, bus, queue } = services
const tests = suite('equal broker requests of a process')
const LONG_MS = 60_000
const nobody = new AbortController().signal

function openShared() {
  const stored: string[] = []
  let calls = 0
  let reads = 0
  const send = shareRequests({
    bus,
    async store(question: BrokerRequest) {
      calls += 1
      const [row] = await db.transaction(trx => storeBrokerRequests(trx, queue, [question]))
      stored.push(row?.id as string)
      return { id: row?.id as string }
    },
    async read(id) {
      reads += 1
      return (await findBrokerRequests(db, [id]))[0]
    }
  })
  // No account has such a key, so that each test has its own.
  const key = newId('account')
  const request = (timeoutMs = LONG_MS, signal: AbortSignal = nobody, of: { partnerId?: string } = {}) =>
    send({ kind: 'balance', key, data: { accountRowId: key }, timeoutMs, ...of }, signal).catch(
      (error: { code: string }) => error.code
    )
  const row = (count: number) =>
    until(`row ${count} to be stored`, async () => stored.length === count && stored[count - 1]) as Promise<string>
  const finish = async (id: string, end: (id: string) => Promise<string | undefined>) =>
    bus.publish((await end(id)) as string, 'ask', id)
  return { stored, calls: () => calls, reads: () => reads, request, row, finish }
}

tests('share one row and one wait for it; whoever comes after its end is given another', async () => {
  const { stored, reads, request, row, finish } = openShared()
  const all = Array.from({ length: 200 }, () => request())
  const id = await row(1)
  await finish(id, id => storeResponse(db, id, { balance: '1' }))
  for (const response of await Promise.all(all)) assert.equal(response, { balance: '1' })
  assert.equal(stored, [id])
  assert.ok(reads() < all.length / 10, `${reads()} reads`)
  const next = request()
  const second = await row(2)
  assert.is.not(second, id)
  await finish(second, id => storeRefusal(db, id, { code: 'MARKET_CLOSED', message: 'Closed.' }))
  assert.is(await next, 'MARKET_CLOSED')
})

tests('are not given up with the one that came first: each has its own time, and its own caller', async () => {
  const { calls, request, row, finish } = openShared()
  const gone = new AbortController()
  const [hasty, left, patient] = [request(100), request(LONG_MS, gone.signal), request()]
  assert.is(calls(), 2, 'one whose time is over long before is not joined, the other is')
  gone.abort()
  assert.is(await left, 'BROKER_UPSTREAM')
  assert.is(await hasty, 'BROKER_UPSTREAM')
  const joined = request()
  const id = await row(2)
  await finish(id, id => storeResponse(db, id, { balance: '2' }))
  assert.equal(await Promise.all([patient, joined]), [{ balance: '2' }, { balance: '2' }])
})

tests('are stored again once when their row is lost, as in a crash of the database', async () => {
  const { stored, request, row, finish } = openShared()
  const all = [request(), request(), request()]
  const lost = await row(1)
  await db('broker_requests').where({ id: lost }).del()
  bus.publish(bus.replyChannel, 'ask', lost)
  const id = await row(2)
  await finish(id, id => storeResponse(db, id, { balance: '3' }))
  for (const response of await Promise.all(all)) assert.equal(response, { balance: '3' })
  assert.is(stored.length, 2)
})

tests('are read no more when all who waited are gone', async () => {
  const { reads, request, row } = openShared()
  const gone = new AbortController()
  const all = [request(LONG_MS, gone.signal), request(LONG_MS, gone.signal)]
  await row(1)
  gone.abort()
  assert.equal(await Promise.all(all), ['BROKER_UPSTREAM', 'BROKER_UPSTREAM'])
  const next = request()
  await row(2)
  assert.ok(reads() <= 4, `${reads()} reads`)
  void next
})

tests('that differ read their rows again together, whenever each was stored', async () => {
  const COUNT = 60
  const groups: number[] = []
  const read = batch(async (ids: string[]) => {
    groups.push(ids.length)
    return findBrokerRequests(db, ids)
  })
  const over = new AbortController()
  const requests = Array.from({ length: COUNT }, (): BrokerRequest => {
    const key = newId('account')
    const { replyChannel } = bus
    return { kind: 'balance', key, data: { accountRowId: key }, timeoutMs: LONG_MS, replyChannel }
  })
  const stored = await db.transaction(trx => storeBrokerRequests(trx, queue, requests))
  const waits: Promise<unknown>[] = []
  for (const { id } of stored) {
    waits.push(awaitEnd(bus, read, id, { timeoutMs: LONG_MS, signal: over.signal }))
    // Each begins some milliseconds after the one before, as if stored then; a statement between them takes seconds on a busy machine.
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  const sum = () => groups.reduce((total, size) => total + size, 0)
  await until('each row to be read twice', () => sum() >= 2 * COUNT)
  over.abort()
  await Promise.all(waits)
  assert.ok(groups.length < 1.5 * COUNT, `${sum()} rows in ${groups.length} statements`)
})

tests('of one partner leave by its pace when their row has ended, and others’ leave at once', async () => {
  const { request, row, finish } = openShared()
  const { partnerId: greedy } = await makePartner()
  const left: string[] = []
  const send = async (of: { partnerId?: string }, signal = nobody) => {
    await request(LONG_MS, signal, of)
    left.push(of.partnerId ?? 'nobody')
  }
  const gone = new AbortController()
  const all = Array.from({ length: 250 }, () => send({ partnerId: greedy }))
  const id = await row(1)
  const other = send({ partnerId: 'another' })
  const leaving = send({ partnerId: greedy }, gone.signal)
  const startedAt = performance.now()
  await finish(id, id => storeResponse(db, id, { balance: '1' }))
  await other
  assert.ok(left.length <= 60, `after ${left.length - 1} of the others’`)
  gone.abort()
  await leaving
  await Promise.all(all)
  // Fifty at once, the others at 200 a second.
  assert.ok(performance.now() - startedAt > 900)
})

tests('are queued again when the worker that took them is gone, however many join them', async () => {
  const key = newId('account')
  const store = async () => {
    const request = { kind: 'balance', key, data: { accountRowId: key }, timeoutMs: LONG_MS, replyChannel: 'nobody' }
    const [row] = await db.transaction(trx => storeBrokerRequests(trx, queue, [request]))
    return row?.id as string
  }
  const timesQueued = async (id: string) =>
    (await queue.take(db, 'ask', 1000)).filter(({ brokerRequestId }) => brokerRequestId === id).length
  const id = await store()
  assert.is(await timesQueued(id), 1)
  assert.equal([await store(), await store(), await timesQueued(id)], [id, id, 0])
  // Whoever joins gives it more time, so that it is never over. In the second case the database's clock was set back.
  for (const at of ["clock_timestamp() - interval '10 seconds'", "clock_timestamp() + interval '1 hour'"]) {
    await db('broker_requests')
      .where({ id })
      .update({ created_at: db.raw(at) })
    assert.equal([await store(), await store(), await timesQueued(id)], [id, id, 1])
  }
})

tests.after(closeAll)
tests.run()
