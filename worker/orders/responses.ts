// What becomes of an order that was claimed: the broker's response goes onto the row, bought, refused or in doubt. One that
// is in doubt is never sent again here: the row stays `sending` until resolution decides.
import type { Claimed } from '../../db/orders/claiming.ts'
import {
  markFailed,
  markReset,
  type OpenedOrder,
  type OrderRefusal,
  openOrders,
  type Receipt
} from '../../db/orders/placing.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { markReview } from '../../db/orders/resolving.ts'
import { WORK } from '../../db/platform/bus.ts'
import { notifiesItself, withRoom } from '../../db/platform/hints.ts'
import { observeBuy } from '../../db/platform/metrics.ts'
import { batch } from '../../db/postgres/batch.ts'
import { ApiError, type ErrorExtras } from '../../schemas/errors/errors.ts'
import { MultiplierOrderRequest } from '../../schemas/multipliers.ts'
import { BinaryOrder } from '../../schemas/orders.ts'
import { rejectToken } from '../accounts/accounts.ts'
import { ReviewNeeded } from '../accounts/books.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import type { Bought, Contract, OrderField } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { type Grouped, groupOrders } from './grouping.ts'
import { openLate } from './late-receipts.ts'
import { notifyCallers } from './notify.ts'
import { persist } from './persist.ts'
import { receiptOf } from './receipts.ts'
import type { Releases } from './releases.ts'
import type { Expected, Settling } from './settle.ts'
import { refOf } from './terms.ts'

/** An order's attempt, as the row that is to be written has to know it. */
interface AttemptKey {
  id: string
  attempt: number
}

export class Responses {
  readonly #services: WorkerServices
  readonly #releases: Releases
  readonly #settling: Pick<Settling, 'watch'>
  readonly #saveOpen: Grouped<Receipt, OpenedOrder | undefined>
  readonly #saveFailed: Grouped<OrderRefusal, OrderRefusal>
  readonly #saveReset: (attempt: AttemptKey) => Promise<AttemptKey>
  readonly #findKept: (id: string) => Promise<OrderRow | undefined>

  constructor(
    services: WorkerServices,
    { releases, settling }: { releases: Releases; settling: Pick<Settling, 'watch'> }
  ) {
    const { db, queue, bus, worker } = services
    this.#services = services
    this.#releases = releases
    this.#settling = settling
    this.#saveOpen = groupOrders(async (receipts: Receipt[]) => {
      const open = (notify: boolean) => openOrders(db, queue, receipts, worker, { notify })
      const itself = notifiesItself(bus, receipts.length)
      const { orders, copying } = await persist(services, () => withRoom(itself, open))
      if (copying) bus.publish(WORK, 'copy.fanout', 'new')
      if (orders.length > 0) services.changes.give()
      // A tick contract's caller waits for its end, which follows within seconds.
      notifyCallers(
        services,
        orders.filter(({ duration_unit }) => duration_unit !== 't')
      )
      const byId = new Map(orders.map(order => [order.id, order]))
      return receipts.map(({ id }) => byId.get(id))
    })
    this.#saveFailed = groupOrders(async (refusals: OrderRefusal[]) => {
      notifyCallers(services, await persist(services, () => markFailed(db, refusals)))
      return refusals
    })
    // Purchases without a response whose connection was reset, or carried later responses: nothing more can arrive.
    this.#saveReset = batch(async (claims: AttemptKey[]) => {
      await persist(services, () => markReset(db, claims))
      return claims
    })
    this.#findKept = batch((ids: string[]) => persist(services, () => findOrders(db, ids)))
  }

  /** Opens the order with the contract that was bought for it; 'last': no other order of the account was queued then. */
  async bought(
    order: Claimed,
    { bought, contract }: { bought: Bought; contract: Contract },
    expected: Expected
  ): Promise<'last' | undefined> {
    const receipt = receiptOf(order, bought, contract)
    const { brokerOrderId: contractId, differs } = receipt
    if (differs)
      this.#services.log.error({ orderId: order.id, contractId, differs }, 'the broker bought something else')
    const opened = await this.#saveOpen(receipt, placeOf(order))
    if (!opened) {
      await this.#recognise(order, receipt, expected)
      return undefined
    }
    expected.opened(opened)
    return opened.others_wait ? undefined : 'last'
  }

  /** Writes why there is no contract, or that it is not known whether there is one; 'released': the order was given back. */
  async failed(
    order: Claimed,
    error: unknown,
    { written, startedAt }: { written: boolean; startedAt: number }
  ): Promise<'released' | undefined> {
    const { log, clock } = this.#services
    const seconds = () => (clock.now() - startedAt) / 1000
    const { id, attempt } = order
    if (error instanceof ReviewNeeded) return this.#review(order, error)
    if (error instanceof ApiError) {
      const { code, message, extras } = error
      await this.#saveFailed({ id, attempt, code, message, extras }, placeOf(order))
      return
    }
    if (!(error instanceof BrokerError)) {
      log.error({ err: error, orderId: id }, 'placing an order failed on our side')
      return written ? undefined : this.#releases.release(order, 'The order could not be sent to the broker.')
    }
    const { message } = error.rejected
      ? await rejectToken(this.#services, refOf(order), error).catch((cause: unknown) => {
          log.warn({ err: cause }, 'account')
          return error
        })
      : error
    const facts = { orderId: id, trace: order.trace, brokerCode: error.brokerCode, ran: error.ran }
    if (error.ran === 'unknown') {
      observeBuy('doubt', seconds())
      log.warn({ ...facts, err: error }, 'an order is in doubt')
      await this.#saveReset({ id, attempt })
      return
    }
    // A refused application is refused again within the order's time; so the order fails now.
    if (!written && error.code === 'BROKER_UPSTREAM' && !isAppRefused(error.brokerCode)) {
      observeBuy('unsent', seconds())
      log.info(facts, 'an order was not sent')
      const waited = error.brokerCode === 'PermitExpired'
      return this.#releases.release(order, error.message, { retryMs: error.retryMs, waited })
    }
    observeBuy('refused', seconds())
    log.info(facts, 'the broker refused an order')
    const code = error.code === 'NOT_FOUND' ? 'INVALID_CONTRACT' : error.code
    await this.#saveFailed({ id, attempt, code, message, ...extrasOf(error, order) }, placeOf(order))
  }

  /** No row took the contract: another update was first. */
  async #recognise(order: Claimed, receipt: Receipt, expected: Expected): Promise<void> {
    const { worker } = this.#services
    const { brokerOrderId: contractId } = receipt
    const kept = await this.#findKept(order.id)
    if (kept?.broker_order_id !== contractId) {
      expected.cancel()
      return openLate(this.#services, this.#settling, order, receipt)
    }
    // It was this worker when the acknowledgement of the write was lost and the write was repeated; otherwise the
    // worker that adopted the order holds its lease.
    if (kept.phase === 'open' && kept.lease_holder === worker) expected.opened(kept)
    else expected.cancel()
    notifyCallers(this.#services, [kept])
  }

  async #review(order: Claimed, { message, evidence }: ReviewNeeded): Promise<undefined> {
    const { db, log } = this.#services
    log.error({ orderId: order.id, trace: order.trace }, 'an order needs a review')
    await persist(this.#services, () => markReview(db, { ...order, message, evidence }))
    const kept = await this.#findKept(order.id)
    notifyCallers(this.#services, kept ? [kept] : [])
  }
}

/** What decides which group an order is written in. */
const placeOf = ({ app_id, copied_from }: Claimed) => ({ app_id, isCopy: copied_from !== null })

/** The fields of the refusal beside its message: when the market opens, or the field it is about. */
function extrasOf(
  { code, message, secondsUntilOpen, field }: BrokerError,
  { kind }: Pick<Claimed, 'kind'>
): { extras?: ErrorExtras } {
  if (code === 'MARKET_CLOSED') return { extras: { secondsUntilOpen } }
  const name = field && nameIn(kind, field)
  return name === undefined ? {} : { extras: { details: [{ path: `/body/${name}`, message }] } }
}

const ofBinary: ReadonlySet<string> = new Set(Object.keys(BinaryOrder.properties))
const ofMultiplier: ReadonlySet<string> = new Set(Object.keys(MultiplierOrderRequest.properties))

/** What the request that placed such an order calls the field; undefined where it has none of that kind. */
function nameIn(kind: Claimed['kind'], field: OrderField): string | undefined {
  if (kind === 'BINARY') return ofBinary.has(field) ? field : undefined
  // The contract type of a multiplier is its direction.
  const name = field === 'contractType' ? 'direction' : field
  return ofMultiplier.has(name) ? name : undefined
}
