// The money of test sides: what a wallet begins with, and what the operator does for live partners by hand, done by the billing check.
// Nothing of it is anybody's: it comes from accounts of its own, and is paid out to nobody.
import { type Db, rows } from '../postgres/connection.ts'
import type { BillingContext } from './billing-context.ts'
import { accounts, move, outsideOf, transfer } from './ledger.ts'
import { approvePayout, markPayoutPaid, rejectPayout } from './payouts.ts'

/** What the wallet of a test side begins with. */
export const PLAY_MONEY_USD = '10000.00'
/** A test wallet with less is filled up, once a day. */
export const LEAST_PLAY_MONEY_USD = '1000.00'
/** A payout of a test side whose amount ends in these cents is rejected; others are approved and paid. */
export const REJECTED_CENTS = 1

const BATCH = 50
// Of one check; the next one goes on.
const MOST_AT_ONCE = 1000

/** Gives a test side what it begins with, once. */
export async function openTestWallet(trx: Db, partnerId: string): Promise<void> {
  await transfer(trx, {
    reference: `play:${partnerId}`,
    kind: 'topup',
    entries: move(outsideOf(true).world, accounts.wallet(partnerId), PLAY_MONEY_USD),
    details: { reference: 'play money' }
  })
}

/** Fills up test wallets that are nearly empty. */
export async function refillTestWallets(
  db: Db,
  { now, signal, failed }: Pick<BillingContext, 'now' | 'signal' | 'failed'>
): Promise<Record<never, never>> {
  const day = now.toISOString().slice(0, 10)
  const poor = await rows<{ id: string; lacking: string }>(
    db,
    `select p.id, (:full::numeric - a.balance)::text as lacking
       from ledger_accounts a join partners p on p.id = a.partner_id
      where a.test and a.kind = 'wallet' and a.balance < :least::numeric
        and not exists (select from ledger_transfers t where t.reference = 'play:' || p.id || ':' || :day)
      order by p.id limit ${MOST_AT_ONCE}`,
    { full: PLAY_MONEY_USD, least: LEAST_PLAY_MONEY_USD, day }
  )
  for (const { id, lacking } of poor) {
    if (signal.aborted) break
    const filled = {
      reference: `play:${id}:${day}`,
      kind: 'topup',
      entries: move(outsideOf(true).world, accounts.wallet(id), lacking),
      details: { reference: 'play money' }
    } as const
    await db.transaction(trx => transfer(trx, filled)).catch(error => failed(id, error))
  }
  return {}
}

/** Takes each step in the lives of payouts of test sides, as the operator does with those of the live side. */
export async function decideTestPayouts(
  db: Db,
  { signal, failed }: Pick<BillingContext, 'signal' | 'failed'>
): Promise<Record<never, never>> {
  for (let decided = 0, last = ''; decided < MOST_AT_ONCE; decided += BATCH) {
    const batch = await rows<{ id: string; status: string; rejected: boolean }>(
      db,
      `select y.id, y.status, mod(y.amount * 100, 100) = ${REJECTED_CENTS} as rejected
         from payouts y join partners p on p.id = y.partner_id and p.test_of is not null
        where y.status in ('REQUESTED', 'APPROVED') and y.id > :last order by y.id limit ${BATCH}`,
      { last }
    )
    for (const { id, status, rejected } of batch) {
      if (signal.aborted) return {}
      try {
        if (rejected) await db.transaction(trx => rejectPayout(trx, id, 'rejected as its amount demands'))
        else {
          if (status === 'REQUESTED') await db.transaction(trx => approvePayout(trx, id))
          await db.transaction(trx => markPayoutPaid(trx, id, 'play money'))
        }
      } catch (error) {
        failed(id, error)
      }
    }
    last = batch.at(-1)?.id ?? last
    if (batch.length < BATCH) return {}
  }
  return {}
}
