// The money of test sides: what a wallet begins with, and what the operator does for live partners by hand, done by the billing check.
// Nothing of it is anybody's: it comes from accounts of its own, and is paid out to nobody.
import { isLess, lacking } from '../../schemas/fields/money.ts'
import { type Db, rows } from '../postgres/connection.ts'
import type { BillingContext } from './billing-context.ts'
import { accounts, findTransfer, lockAccounts, move, outsideOf, transfer } from './ledger.ts'
import { approvePayout, markPayoutPaid, rejectPayout } from './payouts.ts'

/** What the wallet of a test side begins with. */
export const PLAY_MONEY_USD = '10000.00'
/** A test wallet with less is filled up, once a day. */
export const LEAST_PLAY_MONEY_USD = '1000.00'
/** A payout of a test side whose amount ends in these cents is rejected; others are approved and paid. */
export const REJECTED_CENTS = 1

const BATCH = 50
// Payouts handled in one check; the next one continues.
const MOST_AT_ONCE = 1000

/**
 * Gives a test side what it begins with, once; its partner is locked. A wallet that has it is not locked: a renewal locks the test side
 * before it.
 */
export async function openTestWallet(trx: Db, partnerId: string): Promise<void> {
  const reference = `play:${partnerId}`
  if (await findTransfer(trx, reference)) return
  await transfer(trx, {
    reference,
    kind: 'topup',
    entries: move(outsideOf(true).world, accounts.wallet(partnerId), PLAY_MONEY_USD),
    details: { reference: 'play money' }
  })
}

/** Fills up test wallets that are nearly empty. */
export async function refillTestWallets(
  db: Db,
  { now, signal, failed }: Pick<BillingContext, 'now' | 'signal' | 'failed'>
): Promise<void> {
  const day = now.toISOString().slice(0, 10)
  const poor = await rows<{ id: string }>(
    db,
    `select p.id
       from ledger_accounts a join partners p on p.id = a.partner_id
      where a.test and a.kind = 'wallet' and a.balance < :least::numeric
        and not exists (select from ledger_transfers t where t.reference = 'play:' || p.id || ':' || :day)
      order by p.id limit ${MOST_AT_ONCE}`,
    { least: LEAST_PLAY_MONEY_USD, day }
  )
  for (const { id } of poor) {
    if (signal.aborted) break
    await db.transaction(trx => refill(trx, id, day)).catch(error => failed(id, error))
  }
}

/** What is lacking is computed with the wallet locked: a check at the same time may have filled it, or the partner spent more. */
async function refill(trx: Db, partnerId: string, day: string): Promise<void> {
  const wallet = accounts.wallet(partnerId)
  const { world } = outsideOf(true)
  const balance = (await lockAccounts(trx, [wallet, world])).get(wallet) as string
  const reference = `play:${partnerId}:${day}`
  if (!isLess(balance, LEAST_PLAY_MONEY_USD) || (await findTransfer(trx, reference))) return
  await transfer(trx, {
    reference,
    kind: 'topup',
    entries: move(world, wallet, lacking(balance, PLAY_MONEY_USD)),
    details: { reference: 'play money' }
  })
}

/** Takes each step in the lives of payouts of test sides, as the operator does with those of the live side. */
export async function decideTestPayouts(
  db: Db,
  { signal, failed }: Pick<BillingContext, 'signal' | 'failed'>
): Promise<void> {
  for (let decided = 0, last = ''; decided < MOST_AT_ONCE; decided += BATCH) {
    const batch = await rows<{ id: string }>(
      db,
      `select y.id from payouts y join partners p on p.id = y.partner_id and p.test_of is not null
        where ${undecided} and y.id > :last order by y.id limit ${BATCH}`,
      { last }
    )
    for (const { id } of batch) {
      if (signal.aborted) return
      await db.transaction(trx => decide(trx, id)).catch(error => failed(id, error))
    }
    last = batch.at(-1)?.id ?? last
    if (batch.length < BATCH) return
  }
}

const undecided = `y.status in ('REQUESTED', 'APPROVED')`

async function decide(trx: Db, id: string): Promise<void> {
  const [payout] = await rows<{ status: string; rejected: boolean }>(
    trx,
    `select y.status, mod(y.amount * 100, 100) = ${REJECTED_CENTS} as rejected
       from payouts y where y.id = :id and ${undecided} for no key update`,
    { id }
  )
  // A check at the same time was first.
  if (!payout) return
  if (payout.rejected) {
    await rejectPayout(trx, id, 'rejected as its amount demands')
    return
  }
  if (payout.status === 'REQUESTED') await approvePayout(trx, id)
  await markPayoutPaid(trx, id, 'play money')
}
