// What tests of webhooks need again and again: registered endpoints, and orders whose events are sent.
import { listWebhookDeliveries } from '../../api/webhooks/deliveries.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { sequenceAll } from '../events/reading.ts'
import type { CallInput, Harness, TestPartner, TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import type { Receiver } from './receiver.ts'

export function openWorld({ services: { db } }: Pick<Harness, 'services'>) {
  return {
    /** Registers a receiver; it gets what happens from now on. */
    async register(partner: TestPartner, receiver: Receiver, body: object = {}) {
      // What happened before is no event of it.
      await sequenceAll(db)
      const { body: made } = await partner.call(createWebhook, { body: { url: receiver.url, ...body } })
      receiver.secrets.push(made.secret)
      return made as { webhookId: string; secret: string }
    },

    async deliveriesOf(partner: TestPartner, id: string, query: CallInput['query'] = {}) {
      return (await partner.call(listWebhookDeliveries, { params: { id }, query })).body.data
    },

    /** Opens and closes orders of a trader, so that each is two events. */
    async tradeOrders(partner: TestPartner, count: number, known?: TestTrader): Promise<TestTrader> {
      const trader = known ?? (await partner.makeTrader())
      await insertOrderRows(db, trader, { count, phase: 'open' })
      const rows = () => db('orders').where({ trader_id: trader.traderId }).whereNot({ phase: 'closed' })
      await rows().update({ phase: 'queued' })
      await rows().update({ phase: 'open' })
      await rows().update({ phase: 'closed', pnl: 1, closed_at: new Date() })
      return trader
    }
  }
}
