// operator purchases: what was bought in the marketplace, and paying it back.
import type { Command } from 'commander'
import { getPurchase, getSubscription, refundPurchase, refundSubscription } from '../../db/marketplace/refunds.ts'
import { listPurchases, type PurchaseRow } from '../../db/marketplace/sales.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { PurchaseFilter, PurchaseRefund } from '../../schemas/commands/money.ts'
import { shown } from '../../schemas/fields/money.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'

export function addPurchases(program: Command): void {
  const purchases = program.command('purchases').description('Marketplace purchases: list, refund')

  purchases
    .command('list')
    .description('List purchases, newest first')
    .option('--partner <partnerId>', 'only those of this partner and its traders')
    .option('--limit <count>', 'how many at most', '100')
    .addHelpText('after', examples('purchases list', 'purchases list --partner ptn_01jd… --json'))
    .action(
      withStore(
        async ({ db }, { partner: partnerId, limit = 100 }: PurchaseFilter) => {
          if (partnerId) await getPartner(db, partnerId)
          return { data: (await listPurchases(db, { partnerId, limit })).map(presentPurchase) }
        },
        {
          input: PurchaseFilter,
          show: ['purchaseId', 'partnerId', 'botId', 'priceUsd', 'status', 'purchasedAt', 'refundedAt']
        }
      )
    )

  purchases
    .command('refund <purchaseId>')
    .description(
      "Pay a purchase, or the last month of a subscription (sub_…), back, the platform's fee included; the creator's earnings may go below zero"
    )
    .requiredOption('--reason <text>', 'why, for the purchase and the audit log')
    .addHelpText('after', examples('purchases refund pur_01jd… --reason "does not do what it says"'))
    .action(
      withStore(
        async (opened, { purchaseId, reason }: PurchaseRefund) => {
          if (purchaseId.startsWith('sub_')) return refundMonth(opened, { subscriptionId: purchaseId, reason })
          const { db, actor, confirm } = opened
          const { price, partner_id: buyer } = await getPurchase(db, purchaseId)
          await confirm(`Pay ${shown(price)} USD back to ${buyer} for ${purchaseId}?`)
          return db.transaction(async trx => {
            const purchase = await refundPurchase(trx, purchaseId, { reason })
            const details = { reason, partnerId: purchase.partner_id, priceUsd: purchase.price }
            await recordAudit(trx, { actor, action: 'purchases.refund', target: purchaseId, details })
            return presentPurchase(purchase)
          })
        },
        { input: PurchaseRefund, acts: true }
      )
    )
}

/** Refunds the last month of a subscription and ends it, after confirmation. */
async function refundMonth(
  { db, actor, confirm }: Opened,
  { subscriptionId, reason }: { subscriptionId: string; reason: string }
) {
  const { price, partner_id: buyer } = await getSubscription(db, subscriptionId)
  await confirm(
    `Pay ${shown(price)} USD, the last month of ${subscriptionId}, back to ${buyer} and end the subscription?`
  )
  return db.transaction(async trx => {
    const ended = await refundSubscription(trx, subscriptionId, { reason })
    const details = { reason, partnerId: buyer, priceUsd: ended.price }
    await recordAudit(trx, { actor, action: 'subscriptions.refund', target: subscriptionId, details })
    return {
      subscriptionId,
      partnerId: buyer,
      partyId: ended.party_id,
      botId: ended.bot_id,
      priceUsd: shown(ended.price),
      status: ended.status,
      createdAt: ended.created_at,
      refundedAt: ended.refunded_at,
      reason: ended.refund_reason
    }
  })
}

function presentPurchase(purchase: PurchaseRow) {
  return {
    purchaseId: purchase.id,
    partnerId: purchase.partner_id,
    // A trader's id where a trader bought it with its partner's wallet.
    partyId: purchase.party_id,
    botId: purchase.bot_id,
    priceUsd: shown(purchase.price),
    status: purchase.status,
    purchasedAt: purchase.purchased_at,
    refundedAt: purchase.refunded_at,
    reason: purchase.refund_reason
  }
}
