// Orders that stay open although their contract has ended, for reconciliation and the operator: which to look up, what was
// found, and how an order is settled by hand.
import { Big } from 'big.js'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import { type Closed, closeOrders } from './leases.ts'
import type { OrderRow } from './reading.ts'
import { resolveBreaks } from './reconciliation.ts'
import { pastEnd } from './review.ts'

/** An open order whose contract reconciliation reads, and its account. */
export type Overdue = Pick<
  OrderRow,
  | 'id'
  | 'kind'
  | 'partner_id'
  | 'broker_account_id'
  | 'account_id'
  | 'broker_order_id'
  | 'buy_price'
  | 'payout'
  | 'currency'
  | 'multiplier'
  | 'current_value'
  | 'expiry_at'
  | 'app_id'
  | 'dialect'
> & {
  refused: boolean
  /** Its trader was erased: nobody can give the account a token any more. */
  erased: boolean
}

/**
 * Orders that are open two minutes after their contract's end; and multiplier orders (which have no end) whose account's token
 * was refused, or which nobody watches in a dialect that their partner has left, as the token of the new dialect may not open
 * them. Orders that were reported already, and those of `except`, are left out. With a `worker`, only orders of accounts that no other
 * living worker serves. Where there are more than `limit`, a random choice is returned.
 */
export async function listOverdue(
  db: Db,
  options: { except?: string[]; limit: number; worker?: string | null }
): Promise<Overdue[]> {
  return rows<Overdue>(
    db,
    `select o.id, o.kind, o.partner_id, o.broker_account_id, o.account_id, o.broker_order_id, o.buy_price, o.payout,
            o.currency, o.multiplier, o.current_value, o.expiry_at, o.app_id, o.dialect, a.status = 'REJECTED' as refused,
            exists (select from traders t where t.id = o.trader_id and t.connected_at is null) as erased
       from orders o join broker_accounts a on a.id = o.broker_account_id join partners p on p.id = o.partner_id
      where o.phase = 'open' and o.opened_at < now() - interval '2 minutes'
        and ((${pastEnd}) or (o.kind = 'MULTIPLIER' and (a.status = 'REJECTED' or o.dialect <> p.broker_dialect and o.lease_holder is null)))
        and not exists (select 1 from contract_breaks f where f.account_id = o.account_id
                         and f.broker_order_id = o.broker_order_id and f.kind = 'UNSETTLED')
        and o.id <> all(:except::text[])
        and (:worker::text is null or ${servedByNoOther('o.account_id', ':worker')})
      order by random() limit :limit`,
    { worker: null, except: [], ...options }
  )
}

interface AccountPlace {
  accountRowId: string
  accountId: string
  appId: string
  dialect: string
}

/** The rows of the same broker account whose token is usable, those of `partnerId` first; at most three. */
export async function usablePlaces(
  db: Db,
  { accountId, partnerId }: { accountId: string; partnerId: string }
): Promise<AccountPlace[]> {
  return rows<AccountPlace>(
    db,
    `select a.id as "accountRowId", a.account_id as "accountId", p.broker_app_id as "appId", p.broker_dialect as dialect
       from broker_accounts a join partners p on p.id = a.partner_id
      where a.account_id = :accountId and a.status = 'CONNECTED'
      order by a.partner_id = :partnerId desc, a.id limit 3`,
    { accountId, partnerId }
  )
}

/** The operator's statement of how a contract ended. */
interface HandSettlement {
  /** What the contract paid, as decimal text. */
  soldFor: string
  closedAt: Date
}

/** By how many times the price of an asset may plausibly move while a multiplier contract runs. */
export const MOST_PRICE_MOVE = 10
/** What an option pays at most for its price: no barrier pays more. */
export const MOST_TIMES_PRICE = 1000

/**
 * Checks that an order may be settled by hand: it is OPEN, the service cannot do it by itself, and amount and time are
 * possible. Throws CONFLICT with the reason.
 */
export async function checkHandSettlement(
  db: Db,
  order: OrderRow,
  { soldFor, closedAt }: HandSettlement
): Promise<void> {
  if (order.phase !== 'open')
    throw new ApiError('CONFLICT', `The order is ${order.status}; only an OPEN order can be settled.`)
  const [now] = await rows<{ stuck: boolean; future: boolean }>(
    db,
    `select ((${pastEnd}) or a.status = 'REJECTED' or exists (
              select 1 from contract_breaks f where f.account_id = o.account_id and f.broker_order_id = o.broker_order_id
                 and f.kind in ('UNSETTLED', 'IMPLAUSIBLE') and f.resolved_at is null)) as stuck,
            :closedAt::timestamptz > now() as future
       from orders o join broker_accounts a on a.id = o.broker_account_id where o.id = :id`,
    { id: order.id, closedAt }
  )
  if (!now?.stuck)
    throw new ApiError(
      'CONFLICT',
      'The contract has not ended, and the service can read it: there is nothing to settle by hand.'
    )
  if (now.future) throw new ApiError('CONFLICT', 'closed-at is in the future.')
  const opened = order.opened_at as Date
  if (closedAt.getTime() < Math.floor(opened.getTime() / 1000) * 1000)
    throw new ApiError('CONFLICT', `closed-at is before the purchase at ${opened.toISOString()}.`)
  const most = mostPaid(order)
  if (new Big(soldFor).gt(most)) throw new ApiError('CONFLICT', `The contract can have paid ${most.toFixed()} at most.`)
}

function mostPaid({ kind, payout, buy_price, multiplier }: OrderRow): Big {
  if (kind === 'BINARY')
    return Number(payout) > 0 ? new Big(payout as string) : new Big(buy_price as string).times(MOST_TIMES_PRICE)
  return new Big(buy_price as string).times(2 + MOST_PRICE_MOVE * Number(multiplier ?? 0))
}

/** Whether a contract that paid this much was sold: one that runs to its end pays its payout, which may be unknown, or nothing. */
function isSale({ kind, payout }: OrderRow, soldFor: string): boolean {
  return kind === 'BINARY' && Number(payout) > 0 && ![0, Number(payout)].includes(Number(soldFor))
}

/** Closes an open order with what the operator knows of its end. Throws CONFLICT when it was settled meanwhile. */
export async function settleByHand(
  trx: Db,
  queue: Queue,
  order: OrderRow,
  { soldFor, closedAt }: HandSettlement
): Promise<Closed> {
  const [closed] = await closeOrders(trx, queue, [
    {
      id: order.id,
      pnl: new Big(soldFor).minus(order.buy_price as string).toFixed(),
      entryPrice: null,
      exitPrice: null,
      commission: null,
      markup: null,
      closedAt: closedAt.getTime() / 1000,
      copied: order.follow_id !== null,
      early: isSale(order, soldFor)
    }
  ])
  if (!closed) throw new ApiError('CONFLICT', 'The order was settled meanwhile; show it and look again.')
  const about = { accountId: order.account_id, contractId: order.broker_order_id as string }
  await resolveBreaks(trx, { ...about, resolution: 'settled by hand' })
  return closed
}
