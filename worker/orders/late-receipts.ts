// Receipts that no order waits for: of purchases that the broker had refused, further ones of the same request, and those that came
// when the order was decided. The order may have failed by then, and may be queued or even sent again. The contract is there all the
// same: where a repeat could buy a second one, it becomes the order's; where that is too late, or the order has failed for good, it is
// reported at once.
import type { Claimed } from '../../db/orders/claiming.ts'
import { openOrders, type Receipt } from '../../db/orders/placing.ts'
import { claimedContracts, insertBreak } from '../../db/orders/reconciliation.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { WorkerServices } from '../services.ts'
import { notifyCallers } from './notify.ts'
import { persist } from './persist.ts'
import type { Settling } from './settle.ts'

/** Opens the order with the contract, or reports a contract that no order owns. Never rejects: what fails here the audit finds. */
export async function openLate(
  services: WorkerServices,
  settling: Pick<Settling, 'watch'>,
  order: Claimed,
  receipt: Receipt
): Promise<void> {
  const { log } = services
  const facts = { orderId: order.id, trace: order.trace, contractId: receipt.brokerOrderId }
  log.error(facts, 'the broker sent a receipt that no order waits for')
  const boughtUnder = { appId: order.app_id, dialect: order.dialect, accountMode: order.account_mode }
  try {
    if (!(await open(services, settling, { ...receipt, isLate: true, boughtUnder })))
      await reportUnowned(services, order, receipt)
  } catch (error) {
    log.error({ ...facts, err: error }, 'a late receipt could not be stored')
  }
}

async function open(services: WorkerServices, settling: Pick<Settling, 'watch'>, receipt: Receipt): Promise<boolean> {
  const { db, queue, bus, worker } = services
  const { orders, copying } = await persist(services, () => openOrders(db, queue, [receipt], worker))
  const [opened] = orders
  if (!opened) return false
  if (copying) bus.publish(WORK, 'copy.fanout', 'new')
  services.changes.give()
  notifyCallers(services, [opened])
  await settling.watch(opened)
  return true
}

async function reportUnowned({ db, log }: WorkerServices, order: Claimed, receipt: Receipt): Promise<void> {
  const { account_id: accountId, partner_id: partnerId, id: orderId } = order
  const { brokerOrderId: contractId, buyPrice, openedAt: purchaseTime } = receipt
  if ((await claimedContracts(db, accountId, [contractId])).size > 0) return
  const details = { why: 'its order was decided before the receipt came', buyPrice, purchaseTime }
  const found = { kind: 'ORPHAN', accountId, contractId, partnerId, orderId, details } as const
  if (await insertBreak(db, found)) log.error(found, 'the books differ')
}
