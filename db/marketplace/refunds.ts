// What was sold and is paid back: purchases, and the last month of subscriptions, each one transaction with its movement in the ledger.
// The order of locks is that of listings.ts.
import { ApiError } from '../../schemas/errors/errors.ts'
import { negated } from '../../schemas/fields/money.ts'
import { findTransfer, type TransferEntry, transfer } from '../money/ledger.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { lockBot } from './listings.ts'
import { takeReviewBack } from './reviews.ts'
import type { PurchaseRow, SubscriptionRow } from './sales.ts'

/** The side a record is looked for on; both where it is left out, for the operator. */
interface OnSide {
  test?: boolean
}

/** Throws NOT_FOUND. */
export async function getPurchase(db: Db, purchaseId: string, { test }: OnSide = {}): Promise<PurchaseRow> {
  const [purchase] = await rows<PurchaseRow>(db, saleOfSide('marketplace_purchases'), {
    id: purchaseId,
    test: test ?? null
  })
  if (!purchase) throw new ApiError('NOT_FOUND', `There is no purchase ${purchaseId}.`)
  return purchase
}

/**
 * Pays a purchase back, the platform's fee included: the mirror of its sale, once. Earnings may go below zero. Its download
 * leaves the bot's figures, and so does the review of a party that has the bot no more. Throws NOT_FOUND, or CONFLICT when it is REFUNDED already.
 */
export async function refundPurchase(
  trx: Db,
  purchaseId: string,
  { reason, ...side }: { reason: string } & OnSide
): Promise<PurchaseRow> {
  const { bot_id: botId, party_id: partyId } = await getPurchase(trx, purchaseId, side)
  await lockBot(trx, botId)
  const [purchase] = await rows<PurchaseRow>(
    trx,
    `update marketplace_purchases set status = 'REFUNDED', refunded_at = now(), refund_reason = :reason
      where id = :purchaseId and status = 'COMPLETED'
      returning *`,
    { purchaseId, reason }
  )
  if (!purchase) throw new ApiError('CONFLICT', 'The purchase is REFUNDED; only one that is COMPLETED can be REFUNDED.')
  await rows(
    trx,
    `update marketplace_bots
        set downloads = greatest(0, downloads - 1), sales = sales - 1, gross = gross - :price::numeric,
            net = net - (:price::numeric - :fee::numeric)
      where id = :botId`,
    { botId, price: purchase.price, fee: purchase.fee }
  )
  await takeReviewBack(trx, botId, partyId)
  // A bot sold for nothing moved nothing.
  const sale = await findTransfer(trx, `purchase:${purchase.id}`)
  if (sale)
    await transfer(trx, {
      reference: `refund:${purchase.id}`,
      kind: 'refund',
      entries: mirrored(sale.entries),
      details: { purchaseId: purchase.id, botId, reason }
    })
  return purchase
}

/** Throws NOT_FOUND. */
export async function getSubscription(db: Db, subscriptionId: string, { test }: OnSide = {}): Promise<SubscriptionRow> {
  const [found] = await rows<SubscriptionRow>(db, saleOfSide('marketplace_subscriptions'), {
    id: subscriptionId,
    test: test ?? null
  })
  if (!found) throw new ApiError('NOT_FOUND', `There is no subscription ${subscriptionId}.`)
  return found
}

/**
 * Pays the last month of a subscription back, the platform's fee included: the mirror of its payment, once. The
 * subscription ends at once, if it has not; download and review as with a purchase. Throws NOT_FOUND, or CONFLICT when
 * it was paid back already.
 */
export async function refundSubscription(
  trx: Db,
  subscriptionId: string,
  { reason, ...side }: { reason: string } & OnSide
): Promise<SubscriptionRow> {
  const { bot_id: botId, party_id: partyId } = await getSubscription(trx, subscriptionId, side)
  await lockBot(trx, botId)
  const [before] = await rows<SubscriptionRow>(
    trx,
    'select * from marketplace_subscriptions where id = :subscriptionId for no key update',
    { subscriptionId }
  )
  if (!before || before.refunded_at)
    throw new ApiError('CONFLICT', 'The last month of the subscription is REFUNDED; nothing is left to be REFUNDED.')
  const [refunded] = (await rows<SubscriptionRow>(
    trx,
    `update marketplace_subscriptions
        set status = 'CANCELED', canceled_at = coalesce(canceled_at, now()), refunded_at = now(), refund_reason = :reason
      where id = :subscriptionId returning *`,
    { subscriptionId, reason }
  )) as [SubscriptionRow]
  // A month that cost nothing moved nothing.
  const paid = await findTransfer(trx, `subscription:${subscriptionId}:${before.periods}`)
  const earned = paid?.entries.find(({ account }) => account.startsWith('earnings:'))?.amountUsd ?? '0.00'
  await rows(
    trx,
    `update marketplace_bots
        set downloads = greatest(0, downloads - 1), subscribers = subscribers - :ended,
            gross = gross - :price::numeric, net = net - :net::numeric
      where id = :botId`,
    { botId, ended: before.status === 'CANCELED' ? 0 : 1, price: paid ? before.price : '0', net: earned }
  )
  await takeReviewBack(trx, botId, partyId)
  if (paid)
    await transfer(trx, {
      reference: `refund:${subscriptionId}:${before.periods}`,
      kind: 'refund',
      entries: mirrored(paid.entries),
      details: { subscriptionId, botId, period: before.periods, reason }
    })
  return refunded
}

function saleOfSide(table: string): string {
  return `select s.* from ${table} s join marketplace_bots b on b.id = s.bot_id
           where s.id = :id and (:test::boolean is null or b.test = :test::boolean)`
}

function mirrored(entries: TransferEntry[]): TransferEntry[] {
  return entries.map(({ account, amountUsd }) => ({ account, amountUsd: negated(amountUsd) }))
}
