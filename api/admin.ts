// Operations of keys with admin scope: such a key acts for the platform, on records of any partner of its side.

import { refundPurchase as refund, refundSubscription as refundMonth } from '../db/marketplace/refunds.ts'
import { presentPurchase, presentSubscription } from '../db/marketplace/sales.ts'
import { recordAudit } from '../db/platform/audit.ts'
import { Purchase, Refund, Subscription } from '../schemas/marketplace/sales.ts'
import { type IdParams, idParams } from './marketplace/listings.ts'
import type { Operation } from './operation.ts'

export const refundPurchase: Operation<{ params: IdParams; body: Refund }> = {
  name: 'refundPurchase',
  method: 'POST',
  path: '/v1/admin/marketplace/purchases/{id}/refund',
  tag: 'Admin',
  summary: 'Refund a purchase',
  description:
    "Pays any partner's purchase back, the platform's fee included, and takes the bot away. Its download and the buyer's review leave the bot's figures. Once: a purchase that is REFUNDED is a 409. The creator's earnings may go below zero.",
  auth: 'key',
  scope: 'admin:write',
  params: idParams('pur', 'purchaseId of the purchase.'),
  body: Refund,
  response: Purchase,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle({ partner, params, body }, { db }) {
    return db.transaction(async trx => {
      const purchase = await refund(trx, params.id, { reason: body.reason, test: partner.testOf !== null })
      await recordAudit(trx, {
        actor: `key:${partner.keyId}`,
        action: 'purchases.refund',
        target: purchase.id,
        details: { reason: body.reason, partnerId: purchase.partner_id, priceUsd: purchase.price }
      })
      return presentPurchase(purchase)
    })
  }
}

export const refundSubscription: Operation<{ params: IdParams; body: Refund }> = {
  name: 'refundSubscription',
  method: 'POST',
  path: '/v1/admin/marketplace/subscriptions/{id}/refund',
  tag: 'Admin',
  summary: 'Refund the last month of a subscription',
  description:
    "Pays the last month of any partner's subscription back, the platform's fee included, and ends the subscription at once. Its download and the subscriber's review leave the bot's figures. Once: a repeat is a 409. The creator's earnings may go below zero.",
  auth: 'key',
  scope: 'admin:write',
  params: idParams('sub', 'subscriptionId of the subscription.'),
  body: Refund,
  response: Subscription,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle({ partner, params, body }, { db }) {
    return db.transaction(async trx => {
      const subscription = await refundMonth(trx, params.id, { reason: body.reason, test: partner.testOf !== null })
      await recordAudit(trx, {
        actor: `key:${partner.keyId}`,
        action: 'subscriptions.refund',
        target: subscription.id,
        details: { reason: body.reason, partnerId: subscription.partner_id, priceUsd: subscription.price }
      })
      return presentSubscription(subscription)
    })
  }
}
