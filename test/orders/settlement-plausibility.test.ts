// test once for each dialect
// A settlement is booked only when what the broker reports about it can be true; one bad field beside it does not keep it
// from being booked. Broker: the simulated one, which spoils the states of contracts that it sends.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { renewLease } from '../../db/orders/leases.ts'
import { listBreaks } from '../../db/orders/reconciliation.ts'
import { resolveSettledBreaks } from '../../db/orders/review.ts'
import type { ContractState } from '../../worker/broker/port.ts'
import { contradictions, lacksPrices, type OwnContract } from '../../worker/orders/plausible.ts'
import { openSettling } from '../../worker/orders/settle.ts'
import type { StateRule } from '../../worker/simulator/faults.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { holdPrice } from '../support/market-stage.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), LEASE_MS: '60000', SWEEP_MS: '200' } })
const { db } = harness.services
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const pure = suite('settlement plausibility: the check')

const option: OwnContract = {
  kind: 'BINARY',
  broker_order_id: '7',
  buy_price: '10',
  payout: '19.53',
  currency: 'USD',
  multiplier: null
}
const multiplier: OwnContract = { ...option, kind: 'MULTIPLIER', payout: '0', multiplier: '100' }
const bitcoin: OwnContract = { ...multiplier, currency: 'BTC', buy_price: '0.0005' }
const won: ContractState = {
  contractId: '7',
  status: 'won',
  settled: true,
  reported: { sold: true, status: 'won' },
  buyPrice: '10.00',
  payout: '19.53',
  bidPrice: null,
  profit: '9.53',
  sellPrice: '19.53',
  entryPrice: '1219.5',
  exitPrice: '1219.84',
  currentSpot: null,
  commission: null,
  markup: null,
  purchaseTime: 1_700_000_000,
  sellTime: 1_700_000_010,
  expiryTime: null,
  sellable: false,
  shortcode: null
}
type StatusOfEnd = ContractState['status']
const ended = (status: StatusOfEnd | null, sellPrice: string, profit: string, rest: Partial<ContractState> = {}) => ({
  ...won,
  status: status ?? (Number(sellPrice) > 0 ? 'won' : 'lost'),
  reported: { sold: true, status },
  sellPrice,
  profit,
  ...rest
})
const unreported = { payout: null, buyPrice: null, profit: null, currency: null }

pure('believes every end that a contract can have', () => {
  const ends: [OwnContract, ContractState][] = [
    [option, won],
    [option, { ...won, ...unreported }],
    [
      { ...option, payout: null },
      { ...won, payout: null }
    ],
    [option, { ...won, reported: { sold: null, status: 'won' } }],
    [option, ended('lost', '0', '-10')],
    [option, ended('sold', '4.20', '-5.80')],
    [option, ended('cancelled', '10', '0')],
    [option, ended(null, '0', '-10.00')],
    [option, ended(null, '3', '-7', { reported: undefined, status: 'sold' })],
    [multiplier, ended('won', '14.9', '4.9', { exitPrice: '1225.5', payout: null })],
    [multiplier, ended('lost', '0', '-10', { exitPrice: '1200' })],
    [multiplier, ended('sold', '9.6', '-0.4', { entryPrice: null, exitPrice: null })],
    [multiplier, ended('sold', '900', '890', { entryPrice: null, exitPrice: null })],
    [multiplier, ended(null, '0', '-10')],
    [bitcoin, ended('sold', '0.00097', '0.00047', { buyPrice: '0.0005' })],
    [option, ended('sold', '4.20', '-5.8000000000000007')]
  ]
  for (const [own, state] of ends) assert.equal(contradictions(own, state), [], JSON.stringify(state))
})

pure('finds what contradicts the contract or itself, and names it', () => {
  const lies: [OwnContract, Partial<ContractState>, RegExp][] = [
    [option, { contractId: '8' }, /another contract/],
    [option, { contractId: null }, /id is missing/],
    [option, { settled: false, contractId: '8' }, /another contract/],
    [option, { reported: { sold: true, status: 'open' } }, /status is open/],
    [option, { reported: { sold: false, status: 'won' } }, /not sold/],
    [option, { sellPrice: null }, /paid is missing/],
    [{ ...option, buy_price: null }, { buyPrice: null }, /cost is not known/],
    [option, { sellPrice: '-5', profit: null }, /paid -5/],
    [option, { currency: 'EUR' }, /in EUR, not USD/],
    [option, { buyPrice: '1', profit: null }, /cost 1, not 10/],
    [option, { profit: '-10' }, /not a profit of -10/],
    [bitcoin, ended('sold', '0.00097', '0.00057', { buyPrice: '0.0005' }), /not a profit of 0.00057/],
    [option, { payout: '99' }, /payout is 99/],
    [option, ended('sold', '1000', '990'), /more than 19.53/],
    [{ ...option, payout: '0' }, ended('won', '1000000', '999990', { payout: null }), /more than 10000/],
    [option, ended('lost', '19.53', '9.53'), /lost and paid/],
    [option, ended('won', '0', '-10'), /won and paid 0/],
    [option, ended('won', '12', '2'), /won and paid 12/],
    [option, ended('cancelled', '19.53', '9.53'), /cancelled and paid/],
    [multiplier, ended('won', '0', '-10'), /won and paid 0/],
    [multiplier, ended('lost', '10.5', '0.5'), /lost and paid/],
    [multiplier, ended('cancelled', '12', '2'), /cancelled and paid/],
    [multiplier, ended('won', '990', '980', { exitPrice: '1219.6' }), /can have moved/],
    [multiplier, ended('sold', '1000000', '999990', { entryPrice: null }), /can have moved/]
  ]
  for (const [own, lie, reason] of lies) {
    assert.match(contradictions(own, { ...won, ...lie }).join('; '), reason, JSON.stringify(lie))
  }
})

pure('requests prices that a settled contract has, or that could not be read', () => {
  const early = ended('sold', '9', '-1', { exitPrice: null })
  assert.not(lacksPrices(won))
  assert.ok(lacksPrices({ ...won, entryPrice: null }))
  assert.ok(lacksPrices({ ...won, exitPrice: null }))
  assert.not(lacksPrices(early))
  assert.not(lacksPrices({ ...early, unreadable: ['commission'] }))
  assert.ok(lacksPrices({ ...early, unreadable: ['exit_spot'] }))
})

const spoil = (rule: StateRule) => simulator.faults.set({ states: [...simulator.faults.settings.states, rule] })
const heal = ({ accountId }: TestTrader) =>
  simulator.faults.set({ states: simulator.faults.settings.states.filter(({ loginid }) => loginid !== accountId) })
const entryOf = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listOrders, { query: { traderExternalId } })).body.data[0]
const bookedOf = ({ accountId }: TestTrader) => {
  const [booked] = simulator.ledger().filter(({ loginid }) => loginid === accountId)
  assert.ok(booked)
  return { profit: Number(booked.sellPrice) - Number(booked.buyPrice) }
}
const cents = (amount: number) => Math.round(amount * 100)
/** How many contracts are streamed over connections of the trader's account. */
const streamsOf = ({ accountId }: TestTrader) =>
  [...simulator.v3.connections, ...simulator.next.front.connections]
    .filter(({ grants }) => grants.has(accountId))
    .reduce((sum, { streams }) => sum + streams.count('proposal_open_contract'), 0)

const placeOption = ({ traderExternalId }: TestTrader) =>
  partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { contractType: 'DIGITEVEN', stake: 10 })
  })
const placeMultiplier = ({ traderExternalId }: TestTrader) => {
  holdPrice(simulator.engine)
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100 }
  return partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId: randomUUID(), ...terms } })
}

const lies: Omit<StateRule, 'loginid'>[] = [
  { set: { sell_price: -5 } },
  { set: { sell_price: 1e30 } },
  { set: { sell_price: '1e30' } },
  { set: { sell_price: 'ten' } },
  { set: { sell_price: { amount: 10 } } },
  { set: { sell_price: 999_999, profit: 999_989 } },
  { set: { sell_price: 0, profit: -10, status: 'won' } },
  { set: { status: 'open' } },
  { set: { contract_id: 12_345 } },
  { set: { contract_id: 'x' } },
  { drop: ['contract_id'] },
  { set: { buy_price: 1 } },
  { set: { profit: 4321 } },
  { set: { currency: 'EUR' } },
  ...(dialect === 'v3' ? [{ set: { is_sold: 0 } }] : [])
]

const booking = suite('settlement plausibility: an implausible end')

booking(
  'of an option is not booked: 502, REVIEW_REQUIRED, a finding; a plausible one settles it by itself',
  async () => {
    await Promise.all(
      [...lies, { set: { payout: 99 } }].map(async lie => {
        const about = JSON.stringify(lie)
        const trader = await partner.makeTrader()
        spoil({ ...lie, loginid: trader.accountId })
        const { status, body } = await placeOption(trader)
        assert.equal([status, body.error, body.status], [502, 'BROKER_UPSTREAM', 'OPEN'], about)
        const entry = await entryOf(trader)
        assert.equal([entry.status, entry.pnl, entry.error?.error], ['OPEN', null, 'REVIEW_REQUIRED'], about)
        assert.is(body.message, entry.error.message)
        const found = async () => (await listBreaks(db, 1000)).filter(({ orderId }) => orderId === entry.orderId)
        assert.equal(
          (await found()).map(({ kind }) => kind),
          ['IMPLAUSIBLE'],
          about
        )
        heal(trader)
        const closed = await until(`${about} to be settled`, async () => {
          const now = await entryOf(trader)
          return now.status === 'CLOSED' && now
        })
        assert.equal([cents(closed.pnl), closed.error], [cents(bookedOf(trader).profit), null], about)
        await resolveSettledBreaks(db)
        assert.equal(await found(), [], about)
      })
    )
  }
)

booking('of a multiplier contract that is sold is not booked either', async () => {
  await Promise.all(
    lies.map(async lie => {
      const about = JSON.stringify(lie)
      const trader = await partner.makeTrader()
      const { body: placed } = await placeMultiplier(trader)
      spoil({ ...lie, loginid: trader.accountId })
      const close = () => partner.call(closeMultiplierOrder, { params: { orderId: placed.orderId } })
      const { status, body } = await close()
      assert.equal([status, body.error, body.status], [502, 'BROKER_UPSTREAM', 'OPEN'], about)
      assert.equal((await entryOf(trader)).error?.error, 'REVIEW_REQUIRED', about)
      heal(trader)
      const closed = await until(`${about} to be settled`, async () => {
        const now = await entryOf(trader)
        return now.status === 'CLOSED' && now
      })
      assert.is(cents(closed.pnl), cents(bookedOf(trader).profit), about)
    })
  )
})

// By its schema a state need not show what its contract paid.
const unpaid: Omit<StateRule, 'loginid'>[] = [{ drop: ['sell_price'] }, { set: { sell_price: null } }]
const unpaidAndMore = unpaid.flatMap(rule => [rule, { ...rule, drop: [...(rule.drop ?? []), 'profit', 'status'] }])

booking('without what it paid is booked by its status and profit, or by the list of closed contracts', async () => {
  await Promise.all(
    unpaidAndMore.map(async rule => {
      const about = JSON.stringify(rule)
      const [trader, seller] = [await partner.makeTrader(), await partner.makeTrader()]
      const { body: placed } = await placeMultiplier(seller)
      for (const { accountId } of [trader, seller]) spoil({ ...rule, loginid: accountId })
      const { status, body } = await placeOption(trader)
      assert.equal([status, body.status, cents(body.pnl)], [200, 'CLOSED', cents(bookedOf(trader).profit)], about)
      const closed = await partner.call(closeMultiplierOrder, { params: { orderId: placed.orderId } })
      assert.equal([closed.status, closed.body.status], [200, 'CLOSED'], about)
      assert.is(cents(closed.body.pnl), cents(bookedOf(seller).profit), about)
      const found = await listBreaks(db, 1000, { all: true })
      assert.equal(
        found.filter(({ orderId }) => [body.orderId, placed.orderId].includes(orderId as string)),
        [],
        about
      )
    })
  )
})

booking('that was shown once, for a moment, is not worth a review', async () => {
  const trader = await partner.makeTrader()
  spoil({ set: { sell_price: '' }, loginid: trader.accountId, times: 1 })
  const { status, body } = await placeOption(trader)
  assert.equal([status, body.status], [200, 'CLOSED'], JSON.stringify(body))
})

booking(
  'of a contract sold by request, shown for a moment by its stream and where it is read, is not either',
  async () => {
    const trader = await partner.makeTrader()
    const { body: placed } = await placeMultiplier(trader)
    spoil({ set: { sell_price: '' }, loginid: trader.accountId, times: 2 })
    const { status, body } = await partner.call(closeMultiplierOrder, { params: { orderId: placed.orderId } })
    assert.equal([status, body.status], [200, 'CLOSED'], JSON.stringify(body))
    const found = (await listBreaks(db, 1000, { all: true })).filter(({ orderId }) => orderId === placed.orderId)
    assert.equal(found, [])
  }
)

booking('of a contract that is still open is forgotten, and the contract followed on', async () => {
  const trader = await partner.makeTrader()
  const { body: placed } = await placeMultiplier(trader)
  spoil({ when: 'always', set: { status: 'won', is_sold: 1 }, loginid: trader.accountId })
  await until('the review', async () => (await entryOf(trader)).error?.error === 'REVIEW_REQUIRED')
  heal(trader)
  await until('the mark to be gone', async () => (await entryOf(trader)).error === null)
  const unresolved = (await listBreaks(db, 1000)).filter(({ orderId }) => orderId === placed.orderId)
  assert.equal(unresolved, [])
  // The trader sells it with other software: the contract's stream shows that long before it would be polled.
  const { engine } = simulator
  const contract = [...engine.contracts.values()].find(({ account }) => account.loginid === trader.accountId)
  assert.ok(contract)
  await until('its stream', () => streamsOf(trader) > 0)
  engine.sell(contract.account, { appId: 2, contractId: contract.id, floorCents: 0 })
  await until('the end', async () => (await entryOf(trader)).status === 'CLOSED')
})

const fields = suite('settlement plausibility: a field that cannot be read')

// Whatever is in them, the id, the end and what it paid are there.
const optional = 'payout bid_price profit commission purchase_time sell_time date_expiry expiry_time shortcode status'
const garbage = [null, 'x', '', {}, [], true, -1e30, 1e30, '1e400', 12.5]

fields('keeps no contract from its settlement, missing or garbage', async () => {
  const cases = optional
    .split(' ')
    .flatMap(field => [{ drop: [field] }, ...garbage.map(value => ({ set: { [field]: value } }))])
  // Well-formed times long before the purchase, and long after now.
  for (const sell_time of [1_000_000_000, 9_000_000_000]) cases.push({ set: { sell_time } })
  // A payout or profit that can be read is checked, and 12.5 is neither.
  const rules = cases.filter(({ set = {} }: StateRule) => set.payout !== 12.5 && set.profit !== 12.5)
  for (let done = 0; done < rules.length; done += 20)
    await Promise.all(
      rules.slice(done, done + 20).map(async rule => {
        const trader = await partner.makeTrader()
        spoil({ ...rule, when: 'always', loginid: trader.accountId } as StateRule)
        const { status, body } = await placeOption(trader)
        assert.equal([status, body.status], [200, 'CLOSED'], JSON.stringify([rule, body]))
        assert.is(cents(body.pnl), cents(bookedOf(trader).profit), JSON.stringify(rule))
        const age = Math.abs(Date.parse(body.closedAt) - Date.now())
        assert.ok(age < 60_000, `${JSON.stringify(rule)} closed at ${body.closedAt}`)
        heal(trader)
      })
    )
})

fields('is null in the order, and printed thousands and fractions of a second are read', async () => {
  const trader = await partner.makeTrader()
  const names = dialect === 'v3' ? ['entry_tick_display_value', 'exit_tick_display_value'] : ['entry_spot', 'exit_spot']
  // Later than the purchase, also on a machine that takes the order's whole time to live for it.
  const sold = Math.floor(Date.now() / 1000) + 60
  const set = { [names[0] as string]: '1,219.63', [names[1] as string]: '1,234,567.8', sell_time: sold + 0.75 }
  spoil({ set: { ...set, commission: 'none' }, loginid: trader.accountId })
  const { body } = await placeOption(trader)
  assert.equal(
    [body.entryPrice, body.exitPrice, Date.parse(body.closedAt)],
    [1219.63, 1_234_567.8, sold * 1000],
    JSON.stringify(body)
  )
})

fields('that is a price is requested again for a minute, and then the order is closed without it', async () => {
  // Minutes in milliseconds: pauses are cut short, and time passes with them.
  let passedMs = 0
  const { clock } = worker.services
  const soon = {
    ...clock,
    now: () => clock.now() + passedMs,
    after: (ms: number, then: () => void) =>
      clock.after(5, () => {
        passedMs += ms
        then()
      })
  }
  const following = openSettling({ ...worker.services, worker: 'hasty', clock: soon })
  await renewLease(db, 'hasty', 60_000)
  const lack = { drop: ['entry_spot', 'entry_tick', 'entry_spot_display_value', 'entry_tick_display_value'] }

  async function settleWith(times?: number) {
    const trader = await partner.makeTrader()
    await insertOrderRows(db, trader, { phase: 'open' })
    const order = await db('orders')
      .where({ account_id: trader.accountId })
      .update({ dialect, app_id: appIds[dialect] })
      .returning('*')
    const session = await worker.services.brokers.of(dialect).session({
      accountId: trader.accountId,
      appId: appIds[dialect],
      credentialId: order[0].broker_account_id,
      token: async () => `sim-${trader.accountId}`
    })
    const { contractId } = await session.buy(
      {
        kind: 'BINARY',
        contractType: 'DIGITEVEN',
        asset: 'R_100',
        stake: '10',
        currency: 'USD',
        duration: 1,
        durationUnit: 't',
        barrier: null
      },
      { beforeSend() {}, maxPrice: '10' }
    )
    await until('the end', async () => (await session.contract(contractId)).settled)
    spoil({ ...lack, loginid: trader.accountId, ...(times === undefined ? {} : { times }) })
    await db('orders').where({ id: order[0].id }).update({ broker_order_id: contractId, lease_holder: 'hasty' })
    const [startedMs, startedAt] = [passedMs, soon.now()]
    await following.watch({ ...order[0], broker_order_id: contractId })
    const closed = await until('it to be closed', () =>
      db('orders').where({ id: order[0].id, phase: 'closed' }).first()
    )
    // What the machine itself takes passes as well, and is no pause.
    return { entryPrice: closed.entry_price, pausedMs: passedMs - startedMs, afterMs: soon.now() - startedAt }
  }
  const late = await settleWith(3)
  assert.ok(late.entryPrice !== null && late.pausedMs < 60_000, JSON.stringify(late))
  const never = await settleWith()
  assert.is(never.entryPrice, null)
  assert.ok(never.afterMs >= 60_000 && never.pausedMs < 130_000, JSON.stringify(never))
  await following.release()
})

fields.after(closeAll)
for (const tests of [pure, booking, fields]) tests.run()
