// `ledger verify`: its output for a sound ledger, and that it names the row for every way to break one. The
// guards are switched off by the owner of the tables, each time in a transaction that is rolled back.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { refundSubscription } from '../../db/marketplace/refunds.ts'
import { purchaseBot, subscribeToBot } from '../../db/marketplace/sales.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { approvePayout, markPayoutPaid, rejectPayout, requestPayout } from '../../db/money/payouts.ts'
import { verifyLedger, verifyWithin } from '../../db/money/verify.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { type Db, openDatabase } from '../../db/postgres/connection.ts'
import { closeAll, openTestDatabase } from '../support/harness.ts'
import { putOnSale } from '../support/marketplace-makers.ts'
import { partnerWith } from '../support/money-makers.ts'

const db = openDatabase({ url: await openTestDatabase(), pool: 4, name: 'verify-test' })
const { partnerId } = await insertPartner(db, { name: 'P', plan: 'PRO', brokerAppId: '1', brokerDialect: 'v3' })
const wallet = accounts.wallet(partnerId)
for (const amount of ['10', '20', '30'])
  await transfer(db, { reference: `in:${amount}`, kind: 'topup', entries: move('world', wallet, amount) })
const { transferId } = await transfer(db, {
  reference: 'fee',
  kind: 'plan_fee',
  entries: move(wallet, 'fees', '25')
})
await transfer(db, { reference: 'won', kind: 'topup', entries: move(wallet, accounts.earnings(partnerId), '5') })
const address = { destination_address: 'T'.repeat(34) }
const party = { party_id: partnerId }
const { payoutId } = await requestPayout(db, {
  partnerId,
  amountUsd: '5',
  destinationAddress: address.destination_address
})

const tables = [
  'ledger_accounts',
  'ledger_transfers',
  'ledger_entries',
  'earnings_entries',
  'payouts',
  'marketplace_purchases',
  'marketplace_subscriptions'
]

/** The output of verify after `harm` was done with all guards off. */
async function after(harm: (trx: Db) => Promise<unknown>): Promise<string> {
  let said: string | null = null
  const trx = await db.transaction()
  try {
    const each = async (word: string) => {
      for (const table of tables) await trx.raw(`alter table ${table} ${word} trigger all`)
    }
    await each('disable')
    await trx.raw('alter table ledger_accounts drop constraint ledger_accounts_covered')
    await harm(trx)
    await each('enable')
    said = (await verifyWithin(trx)).broken
  } finally {
    await trx.rollback()
  }
  assert.ok(said, 'nothing was found')
  return said as unknown as string
}

const verifying = suite('ledger verify')

verifying('finds nothing wrong with a sound ledger and counts what it read', async () => {
  assert.equal(await verifyLedger(db), { accounts: 7, transfers: 6, entries: 12, broken: null })
})

verifying('names an entry whose amount was changed', async () => {
  const said = await after(trx =>
    trx('ledger_entries').where({ account_id: wallet, version: 2 }).update({ amount: '21' })
  )
  assert.match(said, `Entry 2 of ${wallet}`)
  assert.match(said, 'says the balance is 30.00, but it is 31.00')
})

verifying('names an entry whose balance was changed', async () => {
  const said = await after(trx =>
    trx('ledger_entries').where({ account_id: wallet, version: 3 }).update({ balance: '61' })
  )
  assert.match(said, `Entry 3 of ${wallet}`)
})

verifying('names the gap where an entry was deleted', async () => {
  const said = await after(trx => trx('ledger_entries').where({ account_id: wallet, version: 2 }).delete())
  assert.match(said, `Entry 3 of ${wallet}`)
  assert.match(said, 'should be number 2')
})

verifying('names the account where its last entry was deleted', async () => {
  const said = await after(trx => trx('ledger_entries').where({ account_id: 'fees', version: 1 }).delete())
  assert.match(said, /^Transfer trf_\w+ \(fee\) has 1 entries\.$/)
})

verifying('names an account whose balance or count was changed', async () => {
  assert.match(
    await after(trx => trx('ledger_accounts').where({ id: wallet }).update({ balance: '99' })),
    `Account ${wallet} shows 99, but its entries come to 30.00`
  )
  assert.match(
    await after(trx => trx('ledger_accounts').where({ id: 'world' }).update({ version: 9 })),
    'Account world counts 9 entries, but there are 3'
  )
  assert.match(
    await after(trx => trx('ledger_accounts').insert({ id: 'earnings:x', balance: '1', version: 0 })),
    'Account earnings:x shows 1'
  )
})

verifying('names a transfer that does not balance, has another amount, or lost its entries', async () => {
  const both = (trx: Db, changes: object) => trx('ledger_transfers').where({ id: transferId }).update(changes)
  assert.match(await after(trx => both(trx, { amount: '26' })), `Transfer ${transferId} (fee) is of 26`)
  const said = await after(async trx => {
    await trx('ledger_entries').where({ account_id: 'fees' }).update({ amount: '24', balance: '24' })
    await trx('ledger_accounts').where({ id: 'fees' }).update({ balance: '24' })
  })
  assert.match(said, `Transfer ${transferId}`)
  assert.match(said, 'does not balance: its entries come to -1')
  const orphan = await after(trx =>
    trx('ledger_transfers').insert({ id: 't', reference: 'r', kind: 'topup', amount: 1 })
  )
  assert.match(orphan, 'Transfer t (r) has 0 entries')
  assert.match(
    await after(trx => trx('ledger_transfers').where({ id: transferId }).delete()),
    `(transfer ${transferId}) belongs to no transfer`
  )
})

verifying('names a wallet that went below zero', async () => {
  const said = await after(async trx => {
    await trx('ledger_entries').where({ account_id: wallet, version: 4 }).update({ amount: '-65', balance: '-5' })
    await trx('ledger_entries').where({ account_id: wallet, version: 5 }).update({ balance: '-10' })
    await trx('ledger_accounts').where({ id: wallet }).update({ balance: '-10' })
  })
  assert.match(said, `Entry 4 of ${wallet}`)
  assert.match(said, 'below zero')
})

verifying('names what is held beyond the open payouts', async () => {
  const said = await after(trx => trx('payouts').update({ status: 'REJECTED', decided_at: new Date(), reason: 'why' }))
  assert.match(said, `Account held:${partnerId} holds 5.00, but its open payouts are of 0`)
})

verifying('names a payout, a purchase or a movement that has not its counterpart', async () => {
  const said = await after(async trx => {
    await trx('payouts').insert({ id: 'pay_x', partner_id: partnerId, ...party, amount: 1, ...address })
    await trx('payouts').where({ id: payoutId }).update({ amount: 4 })
  })
  assert.match(said, 'The payout pay_')
  assert.match(
    await after(trx =>
      trx('ledger_transfers').where({ id: transferId }).update({ kind: 'sale', reference: 'purchase:x' })
    ),
    `The transfer ${transferId} moved money for a record that does not exist`
  )
  const sold = { bot_id: 'bot_x', partner_id: partnerId, party_id: partnerId, price: 3 }
  const purchase = { ...sold, id: 'pur_x', fee: 1 }
  assert.match(await after(trx => trx('marketplace_purchases').insert(purchase)), 'The purchase pur_x does not have')
  const subscription = { ...sold, id: 'sub_x', current_period_end: new Date() }
  assert.match(
    await after(trx => trx('marketplace_subscriptions').insert(subscription)),
    'The subscription sub_x is not paid once'
  )
})

verifying(
  'finds nothing wrong with a month that was paid back, and names one that its record does not have',
  async () => {
    const botId = await putOnSale(db, { partnerId, partyId: partnerId }, { monthlyPriceUsd: '5' })
    const buyer = await partnerWith(db, '20')
    const buying = { partnerId: buyer, partyId: buyer, test: false }
    const { id } = await db.transaction(trx => subscribeToBot(trx, buying, { botId, feePct: '20' }))
    await db.transaction(trx => refundSubscription(trx, id, { reason: 'does not wait' }))
    assert.is((await verifyLedger(db)).broken, null)
    const said = `The subscription ${id} is not paid back as its record says: the last month, once.`
    const unrefunded = { refunded_at: null, refund_reason: null }
    assert.is(await after(trx => trx('marketplace_subscriptions').where({ id }).update(unrefunded)), said)
    const paidBack = { reference: `refund:${id}:1` }
    assert.is(
      await after(trx =>
        trx('ledger_transfers')
          .where(paidBack)
          .update({ reference: `refund:${id}:2` })
      ),
      said
    )
  }
)

verifying('names a record whose movement has another kind, amount or reference, or is there without need', async () => {
  const sold = { oneTimePriceUsd: '3', monthlyPriceUsd: '5' }
  const botId = await putOnSale(db, { partnerId, partyId: partnerId }, sold)
  const buyer = await partnerWith(db, '30')
  const sale = [
    { partnerId: buyer, partyId: buyer, test: false },
    { botId, feePct: '0' }
  ] as const
  const { id: bought } = await db.transaction(trx => purchaseBot(trx, ...sale))
  const month = async () => {
    const { id } = await db.transaction(trx => subscribeToBot(trx, ...sale))
    await db.transaction(trx => refundSubscription(trx, id, { reason: 'does not wait' }))
    return id
  }
  const [first, second] = [await month(), await month()]
  const { id: running } = await db.transaction(trx => subscribeToBot(trx, ...sale))
  const payout = async () => {
    const requested = { partnerId, amountUsd: '1', destinationAddress: address.destination_address }
    return (await db.transaction(trx => requestPayout(trx, requested))).payoutId
  }
  const [paid, rejected] = [await payout(), await payout()]
  await db.transaction(trx => approvePayout(trx, paid))
  await db.transaction(trx => markPayoutPaid(trx, paid, 'r-1'))
  await db.transaction(trx => rejectPayout(trx, rejected, 'why'))
  assert.is((await verifyLedger(db)).broken, null)

  const moved = (reference: string, changes: object) => (trx: Db) =>
    trx('ledger_transfers').where({ reference }).update(changes)
  const subscription = (id: string, changes: object) => (trx: Db) =>
    trx('marketplace_subscriptions').where({ id }).update(changes)
  const broken = async (said: string, ...harms: ((trx: Db) => Promise<unknown>)[]) =>
    assert.is(
      await after(async trx => {
        for (const harm of harms) await harm(trx)
      }),
      said
    )
  await broken(
    `The purchase ${bought} does not have the movements of its status.`,
    moved(`purchase:${bought}`, { kind: 'subscription' })
  )
  const unpaid = `The subscription ${running} is not paid once for each of its periods.`
  await broken(unpaid, subscription(running, { price: 4 }))
  await broken(unpaid, subscription(running, { price: 6 }))
  await broken(unpaid, subscription(running, { price: 0 }))
  // Two refunds of one, and the refund of a month that the record does not have as paid back.
  const refunds = `The subscription ${first} is not paid back as its record says: the last month, once.`
  await broken(refunds, moved(`refund:${second}:1`, { reference: `refund:${first}:2` }))
  const notPaidBack = subscription(first, { refunded_at: null, refund_reason: null })
  await broken(refunds, moved(`refund:${first}:1`, { reference: `refund:${first}:2` }), notPaidBack)
  const statusOf = (id: string) => `The payout ${id} does not have the movements of its status.`
  await broken(statusOf(paid), moved(`payout:${paid}:paid`, { reference: `payout:${paid}:other` }))
  await broken(statusOf(rejected), moved(`payout:${rejected}:release`, { reference: `payout:${rejected}:other` }))
  for (const kind of ['sale', 'refund', 'subscription', 'payout_request', 'payout_paid', 'payout_release'])
    await broken(
      `The transfer ${transferId} moved money for a record that does not exist.`,
      moved('fee', { kind, reference: 'of:nobody:1' })
    )
})

verifying('names a side whose balances do not come to zero, though those of both sides together do', async () => {
  const said = await after(trx => trx('ledger_accounts').where({ id: 'fees' }).update({ test: true }))
  assert.match(said, /^All balances come to -?\d+\.\d\d, not to zero\.$/)
})

verifying('names what the earnings of a window have otherwise than the ledger, or besides it', async () => {
  const botId = await putOnSale(db, { partnerId, partyId: partnerId }, { monthlyPriceUsd: '5' })
  for (const feePct of ['20', '100']) {
    const buyer = await partnerWith(db, '5')
    const buying = { partnerId: buyer, partyId: buyer, test: false }
    await db.transaction(trx => subscribeToBot(trx, buying, { botId, feePct }))
  }
  assert.is((await verifyLedger(db)).broken, null)
  const entries = (trx: Db) => trx('earnings_entries')
  for (const net of ['4', '0']) {
    const of = { kind: 'subscription', net }
    assert.match(
      await after(trx => entries(trx).where(of).update({ gross: '6' })),
      'is not among the earnings of its time'
    )
    assert.match(await after(trx => entries(trx).where(of).delete()), 'is not among the earnings of its time')
  }
  const more = {
    account_id: accounts.earnings(partnerId),
    created_at: new Date(),
    version: 1000,
    kind: 'sale',
    gross: 9,
    net: 9
  }
  assert.match(await after(trx => entries(trx).insert(more)), /^The earnings by time have \d+ rows, but \d+ transfers/)
})

verifying('names each guard of its tables that is switched off', async () => {
  const tables = ['ledger_accounts', 'ledger_entries', 'ledger_transfers', 'earnings_entries']
  const { rows: guards } = (await db.raw(
    'select tgrelid::regclass::text as tab, tgname as name from pg_trigger where tgrelid::regclass::text = any(?) and not tgisinternal',
    [tables]
  )) as { rows: { tab: string; name: string }[] }
  assert.ok(guards.length > 12)
  for (const { tab, name } of guards) {
    const trx = await db.transaction()
    await trx.raw(`alter table ${tab} disable trigger ${name}`)
    const { broken } = await verifyWithin(trx)
    await trx.rollback()
    assert.is(broken, `The trigger ${name} of ${tab} is missing or switched off.`)
  }
})

verifying.after(async () => {
  await db.destroy()
  await closeAll()
})

verifying.run()
