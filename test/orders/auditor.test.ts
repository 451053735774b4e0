// The auditor, which every fault test trusts: each kind of damage is put in front of it by hand.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type AuditedOrder, type AuditInput, audit, type BookedContract, summary } from '../support/auditor.ts'

const at = (seconds: number) => new Date(1_800_000_000_000 + seconds * 1000)

const order = (changes: Partial<AuditedOrder> = {}): AuditedOrder => ({
  id: 'ord_1',
  client_order_id: 'client-1',
  account_id: 'CR1',
  app_id: '1',
  phase: 'closed',
  kind: 'BINARY',
  asset: 'R_100',
  contract_type: 'CALL',
  direction: null,
  multiplier: null,
  stake: '1.5',
  duration: 1,
  duration_unit: 'm',
  barrier: null,
  queued_at: at(0),
  expires_at: at(10),
  broker_order_id: '7',
  buy_price: '1.50',
  payout: '2.9',
  pnl: '1.4',
  evidence: null,
  ...changes
})

const contract = (changes: Partial<BookedContract> = {}): BookedContract => ({
  contractId: '7',
  accountId: 'CR1',
  appId: '1',
  contractType: 'CALL',
  asset: 'R_100',
  duration: 60,
  durationUnit: 's',
  barrier: null,
  multiplier: null,
  buyPrice: '1.50',
  payout: '2.90',
  boughtAtMs: at(1).getTime(),
  sellPrice: '2.90',
  ...changes
})

const failed = { phase: 'failed', broker_order_id: null, buy_price: null, payout: null, pnl: null }
const run = (input: Partial<AuditInput>) =>
  audit({ orders: [order()], contracts: [contract()], lateToleranceMs: 15_000, ...input })
const kinds = (input: Partial<AuditInput>) => run(input).findings.map(({ kind }) => kind)

const auditor = suite('the auditor')

auditor('finds nothing where every contract has its order and every order its end', () => {
  const report = run({ orders: [order(), order({ id: 'ord_2', ...failed })], accepted: ['ord_1', 'client-1'] })
  assert.equal(report.findings, [])
  assert.equal(report.phases, { closed: 1, failed: 1 })
  assert.match(summary(report), '2 orders (1 closed, 1 failed), 1 contracts: 0 doubled, 0 lost')
})

auditor('calls a second contract of one order doubled', () => {
  assert.equal(kinds({ contracts: [contract(), contract({ contractId: '8' })] }), ['doubled'])
})

auditor('calls one contract owned by two orders doubled', () => {
  assert.equal(kinds({ orders: [order(), order({ id: 'ord_2' })] }), ['doubled'])
})

auditor('calls a contract lost that no order knows, and one that only an order knows', () => {
  assert.equal(kinds({ orders: [order(failed)] }), ['lost'])
  assert.equal(kinds({ contracts: [] }), ['lost'])
})

auditor('calls an accepted order without a row lost', () => {
  assert.equal(kinds({ accepted: ['client-1', 'client-2'] }), ['lost'])
})

auditor('calls a purchase late after the time to live and the tolerance', () => {
  assert.equal(kinds({ contracts: [contract({ boughtAtMs: at(25).getTime() })] }), [])
  assert.equal(kinds({ contracts: [contract({ boughtAtMs: at(26.1).getTime() })] }), ['late'])
})

auditor('calls a purchase late whose request left a millisecond after the time to live', () => {
  assert.equal(kinds({ contracts: [contract({ writtenAtMs: at(10).getTime() })] }), [])
  assert.equal(kinds({ contracts: [contract({ writtenAtMs: at(10).getTime() + 1 })] }), ['late'])
})

auditor('calls a purchase late that belongs to an attempt before this one', () => {
  assert.equal(kinds({ orders: [order({ queued_at: at(5), expires_at: at(15) })] }), ['late'])
})

auditor('sees price, payout, result, terms and application that differ', () => {
  assert.equal(kinds({ orders: [order({ buy_price: '1.51' })] }), ['money'])
  assert.equal(kinds({ orders: [order({ payout: '2.91' })] }), ['money'])
  assert.equal(kinds({ orders: [order({ pnl: '-1.5' })] }), ['money'])
  assert.equal(kinds({ orders: [order({ duration: 2 })] }), ['money'])
  assert.equal(kinds({ orders: [order({ stake: '1.6' })] }), ['money'])
  assert.equal(kinds({ contracts: [contract({ appId: '2' })] }), ['money'])
  assert.equal(kinds({ contracts: [contract({ sellPrice: null })] }), ['money'])
})

auditor("leaves others' purchases alone, unless an order owns one", () => {
  const bought = [contract(), contract({ contractId: '8' })]
  assert.equal(kinds({ contracts: bought, foreign: new Set(['8']) }), [])
  assert.equal(kinds({ contracts: bought, foreign: new Set(['7', '8']) }), ['money'])
})

auditor('calls an order without an end stuck, and an open one only when its contract has ended', () => {
  const open = order({ phase: 'open', pnl: null })
  assert.equal(kinds({ orders: [order({ phase: 'sending' }), order({ ...failed, phase: 'queued' })] }), [
    'stuck',
    'stuck'
  ])
  assert.equal(kinds({ orders: [open] }), ['stuck'])
  assert.equal(kinds({ orders: [open], openIsFine: true }), ['stuck'])
  assert.equal(kinds({ orders: [open], contracts: [contract({ sellPrice: null })], openIsFine: true }), [])
})

auditor('counts contracts apart that the service reported or shows in a review', () => {
  const report = run({ orders: [order(failed)], reported: new Set(['7']) })
  assert.equal([report.findings.length, report.reported], [0, 1])
  const review = order({ ...failed, phase: 'review', evidence: [{ contractId: '7' }] })
  assert.equal(kinds({ orders: [review] }), [])
  assert.equal(kinds({ orders: [review], contracts: [contract({ contractId: '8' })] }), ['lost'])
})

auditor.run()
