// The marketplace's part of the money storm: sales, refunds, subscriptions, cancellations in the midst of renewals.

import { type MarketParty, publishBot, retireBot } from '../../db/marketplace/listings.ts'
import { refundPurchase } from '../../db/marketplace/refunds.ts'
import { cancelSubscription, purchaseBot, subscribeToBot } from '../../db/marketplace/sales.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { putOnSale } from '../support/marketplace-makers.ts'
import { type Random, seeded } from './random.ts'
import type { MoneyScene, StormBot, StormOperation } from './scene.ts'

/** Each partner acts itself and through one trader; a trader's money is its partner's. */
function party(random: Random, { partners }: MoneyScene): MarketParty {
  const partnerId = random.pick(partners)
  return { partnerId, partyId: random.below(2) === 0 ? partnerId : `trd_of_${partnerId}`, test: false }
}

/** Makes the partners' traders, and puts `count` bots on sale: of all prices, 0 and a cent among them. */
export async function stock(db: Db, partners: string[], { count, seed }: { count: number; seed: number }) {
  for (const id of partners) await db('traders').insert({ id: `trd_of_${id}`, partner_id: id, external_id: 'storm' })
  const random = seeded(seed)
  const prices = ['0.00', '0.01', '0.03', '9.99', '33.33', random.amount(50), null]
  const bots: StormBot[] = []
  for (let i = 0; i < count; i++) {
    const partnerId = random.pick(partners)
    const creator = { partnerId, partyId: i % 3 === 0 ? `trd_of_${partnerId}` : partnerId }
    const botId = await putOnSale(db, creator, {
      oneTimePriceUsd: prices[i % prices.length] ?? null,
      monthlyPriceUsd: prices[(i + 3) % prices.length] ?? null
    })
    bots.push({ botId, creator })
  }
  return bots
}

const nothing = { made: [] }

/** A record of the newest ones, so that several processes often draw the same. */
async function recent(db: Db, random: Random, table: string, condition: string): Promise<Record<string, string>> {
  const found = await rows<Record<string, string>>(
    db,
    `select * from ${table} where ${condition} order by id desc limit 30`
  )
  return found.length > 0 ? random.pick(found) : {}
}

export const marketOperations: StormOperation[] = [
  {
    name: 'purchase',
    weight: 40,
    async run(db, random, scene) {
      const { botId } = random.pick(scene.bots)
      const buyer = party(random, scene)
      const bought = await db.transaction(trx => purchaseBot(trx, buyer, { botId, feePct: scene.feePct }))
      // Bought twice, the first purchase is returned; which of the two this was does not show.
      return Number(bought.price) > 0 ? { made: [], repeated: [`purchase:${bought.id}`] } : nothing
    }
  },
  {
    name: 'refund',
    weight: 15,
    async run(db, random) {
      const { id } = await recent(db, random, 'marketplace_purchases', `status = 'COMPLETED'`)
      if (!id) return nothing
      const refunded = await db.transaction(trx => refundPurchase(trx, id, { reason: 'drawn by lot' }))
      return Number(refunded.price) > 0 ? { made: [`refund:${id}`] } : nothing
    }
  },
  {
    name: 'subscribe',
    weight: 15,
    async run(db, random, scene) {
      const { botId } = random.pick(scene.bots)
      const buyer = party(random, scene)
      const { id, price } = await db.transaction(trx => subscribeToBot(trx, buyer, { botId, feePct: scene.feePct }))
      return Number(price) > 0 ? { made: [], repeated: [`subscription:${id}:1`] } : nothing
    }
  },
  {
    name: 'cancel',
    weight: 8,
    async run(db, random) {
      const { id, party_id } = await recent(db, random, 'marketplace_subscriptions', `status <> 'CANCELED'`)
      if (id && party_id) await db.transaction(trx => cancelSubscription(trx, id, party_id))
      return nothing
    }
  },
  {
    name: 'retire or publish',
    weight: 2,
    async run(db, random, { bots }) {
      const { botId, creator } = random.pick(bots)
      const retires = random.below(3) === 0
      await db.transaction(trx => (retires ? retireBot(trx, botId, creator.partyId) : publishBot(trx, botId, creator)))
      return nothing
    }
  }
]
