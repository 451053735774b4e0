// The call budget: never more in a minute than the broker allows, however its minute is cut; and the pace of a connection, never
// more in a second. Purchases first.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { PastCalls, ScopeRecords } from '../../db/platform/call-records.ts'
import { BrokerError } from '../../worker/broker/broker-error.ts'
import { Budgets } from '../../worker/broker/budgets.ts'
import type { CallLimits } from '../../worker/broker/transport/call-window.ts'
import { ConnectionPace } from '../../worker/broker/transport/connection-pace.ts'
import { Budget } from '../../worker/broker/transport/quota.ts'
import type { Clock } from '../../worker/platform/clock.ts'
import { failure, keptLog } from './broker-script.ts'

const quota = suite('a call budget')

/** A clock that is frozen until it is moved; alarms ring on the way. */
class HandClock implements Pick<Clock, 'now' | 'after'> {
  /** How many alarms rang. */
  rung = 0
  #time = 1_000_000
  #alarms = new Set<{ at: number; run: () => void }>()

  now(): number {
    return this.#time
  }

  after(delayMs: number, run: () => void): () => void {
    const alarm = { at: this.#time + delayMs, run }
    this.#alarms.add(alarm)
    return () => this.#alarms.delete(alarm)
  }

  async move(ms: number): Promise<void> {
    const end = this.#time + ms
    for (;;) {
      const next = [...this.#alarms].filter(each => each.at <= end).sort((a, b) => a.at - b.at)[0]
      if (next === undefined) break
      this.#alarms.delete(next)
      this.#time = Math.max(this.#time, next.at)
      this.rung += 1
      next.run()
      await Promise.resolve()
    }
    this.#time = end
    await Promise.resolve()
  }
}

function budgetOf(perMinute: number, perHour = 0): { clock: HandClock; budget: Budget } {
  const clock = new HandClock()
  const limits: CallLimits = { pricing: { perMinute, perHour }, general: { perMinute: 180, perHour: 14_400 } }
  return { clock, budget: new Budget(limits, { clock }) }
}

/** How many calls go at once. */
function drain(budget: Budget, urgent: boolean, most = 500): number {
  for (let count = 0; count < most; count++) {
    const wait = budget.take('pricing', { urgent, waitMs: 0 })
    if (wait === undefined) continue
    wait.catch(() => undefined)
    return count
  }
  return most
}

quota('refuses at once what could only go too late, as a call that did not run', async () => {
  const { budget } = budgetOf(10)
  assert.is(drain(budget, true), 10)
  const error = await failure(budget.take('pricing', { urgent: true, waitMs: 5_000 }))
  assert.is(error.code, 'BROKER_UPSTREAM')
  assert.is(error.brokerCode, 'QuotaExhausted')
  assert.is(error.ran, 'no')
})

quota('keeps the last tenth for purchases and sales', () => {
  const { budget } = budgetOf(80)
  assert.is(drain(budget, false), 72)
  assert.is(drain(budget, true), 8)
})

quota('never lets more than the limit into any 60 seconds', async () => {
  const { clock, budget } = budgetOf(20)
  const sent: number[] = []
  for (let step = 0; step < 400; step++) {
    while (budget.take('pricing', { urgent: true, waitMs: 0 })?.catch(() => undefined) === undefined)
      sent.push(clock.now())
    await clock.move(977)
  }
  for (const start of sent) {
    const within = sent.filter(each => each >= start && each < start + 60_000).length
    assert.ok(within <= 20, `${within} within a minute of ${start}`)
  }
  assert.ok(sent.length > 100, `and yet it flows: ${sent.length}`)
})

quota('holds the hour as well as the minute', async () => {
  const { clock, budget } = budgetOf(20, 50)
  let sent = 0
  for (let minute = 0; minute < 55; minute++) {
    sent += drain(budget, true)
    await clock.move(66_000)
  }
  assert.is(sent, 50)
  await clock.move(3_700_000)
  assert.is(drain(budget, true), 20)
})

quota('lets waiting calls go when their time comes, purchases before reads', async () => {
  const { clock, budget } = budgetOf(10)
  assert.is(drain(budget, true), 10)
  const order: string[] = []
  const wait = (name: string, urgent: boolean) =>
    budget.take('pricing', { urgent, waitMs: 120_000 })!.then(() => order.push(name))
  const all = [wait('read', false), wait('buy', true), wait('sell', true)]
  await clock.move(30_000)
  assert.equal(order, [])
  await clock.move(40_000)
  await Promise.all(all)
  assert.equal(order, ['buy', 'sell', 'read'])
})

quota('gives up a wait when its time runs out or it is called off', async () => {
  const { clock, budget } = budgetOf(10)
  drain(budget, true)
  const off = new AbortController()
  const called = budget.take('pricing', { urgent: true, waitMs: 120_000, signal: off.signal })!
  off.abort()
  assert.is((await failure(called)).ran, 'no')
  // A limit lowered while one waits: the wait that was promised does not come true.
  const late = budget.take('pricing', { urgent: true, waitMs: 70_000 })!.then(
    () => 'went',
    (error: BrokerError) => error.brokerCode
  )
  budget.setLimits({ pricing: { perMinute: 5, perHour: 5 } })
  await clock.move(71_000)
  assert.is(await late, 'QuotaExhausted')
})

quota('gives up a read when its time runs out although a purchase still waits', async () => {
  const { clock, budget } = budgetOf(1_000)
  let ended = 'waits'
  budget.backOff('pricing')
  budget.take('pricing', { waitMs: 5_000 })!.catch((error: BrokerError) => {
    ended = error.brokerCode
  })
  const bought = budget.take('pricing', { urgent: true, waitMs: 60_000 })!
  budget.backOff('pricing')
  budget.backOff('pricing')
  const before = clock.rung
  await clock.move(7_000)
  assert.is(ended, 'QuotaExhausted')
  assert.ok(clock.rung - before < 5, `${clock.rung - before} alarms rang`)
  await clock.move(1_000)
  await bought
})

quota('gives up a wait that was called off while it was read what others spent', async () => {
  const read = Promise.withResolvers<PastCalls>()
  const records: ScopeRecords = { load: () => read.promise, record: async () => {}, settle: async () => {} }
  const budget = new Budget({ pricing: { perMinute: 8, perHour: 0 } }, { clock: new HandClock(), records })
  const off = new AbortController()
  const called = budget.take('pricing', { waitMs: 120_000, signal: off.signal })!
  off.abort()
  // Four that live may have spent a quarter each.
  read.resolve({ counters: Array.from({ length: 4 }, () => ({ ageMs: 0 })), records: [] })
  assert.is((await failure(called)).ran, 'no')
})

quota('pauses after the broker refused a call as one too many, longer each time, 15 s at most', async () => {
  const { clock, budget } = budgetOf(1_000)
  for (const pause of [2_500, 5_000, 7_500, 10_000, 12_500, 15_000, 15_000]) {
    budget.backOff('pricing')
    await clock.move(pause - 100)
    assert.is(drain(budget, true, 1), 0, `still paused before ${pause}`)
    await clock.move(100)
    assert.is(drain(budget, true, 1), 1, `free after ${pause}`)
  }
  budget.succeeded('pricing')
  budget.backOff('pricing')
  await clock.move(2_500)
  assert.is(drain(budget, true, 1), 1)
})

quota('takes no limit for unlimited, and keeps other classes apart', () => {
  const { budget } = budgetOf(0)
  assert.is(drain(budget, false, 500), 500)
  assert.is(budget.take('general'), undefined)
  assert.is(budget.take('a class nobody named'), undefined)
  assert.is(budget.left().pricing, 1)
})

quota('shows how much is left, and when it remembers nothing', async () => {
  const { clock, budget } = budgetOf(10, 1_000)
  assert.ok(budget.blank)
  drain(budget, true, 5)
  assert.is(budget.left().pricing, 0.5)
  assert.not(budget.blank)
  await clock.move(3_700_000)
  assert.ok(budget.blank)
})

quota('bounds how many wait', async () => {
  const { budget } = budgetOf(10)
  drain(budget, true)
  const waiting = Array.from({ length: 501 }, () => budget.take('pricing', { urgent: true, waitMs: 600_000 })!)
  for (const each of waiting.slice(0, 500)) each.catch(() => undefined)
  assert.is((await failure(waiting[500])).brokerCode, 'QuotaExhausted')
})

quota('is kept for the connection that counts in it, however many there are', () => {
  const budgets = new Budgets({
    dialect: 'v3',
    limits: { general: { perMinute: 180, perHour: 0 } },
    log: keptLog().log
  })
  const [used, unused] = ['CR1', 'CR2'].map(spender => budgets.of('1', spender))
  for (let each = 0; each < 2_000; each++) budgets.of('1', `of many ${each}`)
  budgets.sweep(() => [{ appId: '1', spender: 'CR1' }])
  assert.is(budgets.of('1', 'CR1'), used)
  assert.is.not(budgets.of('1', 'CR2'), unused)
})

const pace = suite('the pace of a connection')

/** The names of calls in the order in which they leave. */
function paced(clock: HandClock) {
  const pace = new ConnectionPace(100, clock)
  const left: string[] = []
  const waiting: Promise<unknown>[] = []
  const take = (name: string, urgent = false, waitMs = 10_000) => {
    const turn = pace.take({ urgent, waitMs })
    if (turn === undefined) left.push(name)
    else waiting.push(turn.then(() => left.push(name)))
  }
  return { pace, left, waiting, take }
}

pace('delays no call below nine tenths of what the broker allows in a second', async () => {
  const clock = new HandClock()
  const { pace } = paced(clock)
  for (let second = 0; second < 20; second++) {
    for (let call = 0; call < 90; call++) assert.is(pace.take({}), undefined)
    await clock.move(1_300)
  }
})

pace('lets no more leave in any second than the broker allows, purchases and sales before reads', async () => {
  const clock = new HandClock()
  const { left, waiting, take } = paced(clock)
  const sentAt: number[] = []
  for (let call = 0; call < 300; call++) take('read')
  for (let call = 0; call < 20; call++) take('buy', true)
  assert.equal([left.filter(name => name === 'read').length, left.filter(name => name === 'buy').length], [90, 5])
  for (let step = 0; step < 500; step++) {
    while (sentAt.length < left.length) sentAt.push(clock.now())
    await clock.move(11)
  }
  await Promise.all(waiting)
  assert.is(left.length, 320)
  assert.is(left.lastIndexOf('buy'), 90 + 20 - 1, 'those that waited went first')
  for (const start of sentAt) {
    const within = sentAt.filter(each => each >= start && each < start + 1_000).length
    assert.ok(within <= 95, `${within} within a second`)
  }
})

pace('bounds how many wait and for how long, and lets go of them when the connection is gone', async () => {
  const clock = new HandClock()
  const { pace, take } = paced(clock)
  for (let call = 0; call < 90; call++) take('read')
  assert.is((await failure(pace.take({ waitMs: 1_000 }))).brokerCode, 'QuotaExhausted')
  const turns = Array.from({ length: 501 }, () => pace.take({ waitMs: 60_000 })!)
  const ends = Promise.allSettled(turns)
  assert.is((await failure(turns[500])).brokerCode, 'QuotaExhausted')
  pace.close(new BrokerError('BROKER_UPSTREAM', 'gone', { brokerCode: 'NotConnected', ran: 'no' }))
  assert.is((await ends).filter(({ status }) => status === 'rejected').length, 501)
})

for (const tests of [quota, pace]) tests.run()
