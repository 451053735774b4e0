// What is sold: purchases and subscriptions, each one transaction with its movement in the ledger.
// The order of locks is that of listings.ts.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { isLess, negated, shown, splitSale } from '../../schemas/fields/money.ts'
import type { PurchaseStatus, SubscriptionStatus } from '../../schemas/marketplace/sales.ts'
import { endOfPeriod } from '../money/billing.ts'
import { accounts, outsideOf, type TransferEntry, transfer } from '../money/ledger.ts'
import { holdParty, type Party } from '../partners/party.ts'
import { requireWithin } from '../platform/bounds.ts'
import { type CursorList, foreignCursor, readListCursor, writeListCursor } from '../platform/list-cursors.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { databaseNow } from '../postgres/now.ts'
import type { BotRow } from './bot-rows.ts'
import { lockBot, type MarketParty, requireVisible } from './listings.ts'

export interface PurchaseRow {
  id: string
  bot_id: string
  partner_id: string
  party_id: string
  price: string
  fee: string
  status: PurchaseStatus
  purchased_at: Date
  refunded_at: Date | null
  refund_reason: string | null
}

export interface SubscriptionRow {
  id: string
  bot_id: string
  partner_id: string
  party_id: string
  price: string
  status: SubscriptionStatus
  periods: number
  current_period_end: Date
  cancel_at_period_end: boolean
  created_at: Date
  /** The day its periods end on, once they were moved; else that of created_at. */
  billing_anchor: Date | null
  refunded_at: Date | null
  refund_reason: string | null
}

/** The details of a paid month in the ledger, shown in the statement. */
export function periodDetails(paid: {
  id: string
  botId: string
  botName: string
  period: number
  start: Date
  end: Date
}): Record<string, unknown> {
  const { id: subscriptionId, botId, botName, period, start, end } = paid
  return { subscriptionId, botId, botName, period, periodStart: start.toISOString(), periodEnd: end.toISOString() }
}

/** The price leaves the buyer's wallet: the fee to the platform, the rest to the creator's earnings. */
export function saleEntries(sale: {
  buyer: string
  bot: Pick<BotRow, 'partner_id' | 'test'>
  price: string
  feePct: string
}): {
  entries: TransferEntry[]
  feeUsd: string
  netUsd: string
} {
  const { feeUsd, netUsd } = splitSale(sale.price, sale.feePct)
  const entries = [
    { account: accounts.wallet(sale.buyer), amountUsd: negated(sale.price) },
    { account: outsideOf(sale.bot.test).fees, amountUsd: feeUsd },
    { account: accounts.earnings(sale.bot.partner_id), amountUsd: netUsd }
  ]
  // A fee of 0 or 100 % leaves one side with nothing to move.
  return { entries: entries.filter(({ amountUsd }) => amountUsd !== '0.00'), feeUsd, netUsd }
}

/** The sale and its fee; `expectedUsd` is the price the buyer was shown, where the request has it. */
interface SaleOf {
  botId: string
  feePct: string
  expectedUsd?: string | undefined
}

function refuseSale(
  { bot, partyId, what, expectedUsd }: { bot: BotRow; partyId: string; what: string; expectedUsd: string | undefined },
  price: string | null
): asserts price is string {
  if (bot.party_id === partyId) throw new ApiError('CONFLICT', "One's own bot is not for sale to oneself.")
  if (price === null) throw new ApiError('CONFLICT', `The bot has no ${what} price.`)
  // Not why: the standing of another partner is not for buyers to read.
  if (bot.creator_suspended) throw new ApiError('CONFLICT', 'The bot is not for sale at present.')
  if (expectedUsd === undefined || (!isLess(price, expectedUsd) && !isLess(expectedUsd, price))) return
  const priceUsd = shown(price)
  throw new ApiError('PRICE_CHANGED', `The ${what} price is ${priceUsd} USD now.`, { extras: { priceUsd } })
}

/** The party's purchase of the bot that was not paid back. */
export async function findPurchase(db: Db, partyId: string, botId: string): Promise<PurchaseRow | undefined> {
  return db('marketplace_purchases').where({ bot_id: botId, party_id: partyId, status: 'COMPLETED' }).first()
}

/**
 * Buys a bot, once: a party that has it gets its first purchase, and no money moves. Throws NOT_FOUND,
 * CONFLICT (one's own bot, no one-time price, a suspended creator), PRICE_CHANGED, WALLET_INSUFFICIENT, or UNAUTHENTICATED for a trader who
 * may no longer act.
 */
export async function purchaseBot(
  trx: Db,
  party: MarketParty,
  { botId, feePct, expectedUsd }: SaleOf
): Promise<PurchaseRow> {
  const { partnerId, partyId } = party
  // What an erased trader bought nobody could use.
  await holdParty(trx, party)
  const found = await lockBot(trx, botId)
  const first = await findPurchase(trx, partyId, botId)
  // Also of a bot that was retired since: a buyer whose response was lost is to find the purchase.
  if (first) return first
  const bot = requireVisible(found, botId, party)
  refuseSale({ bot, partyId, what: 'one-time', expectedUsd }, bot.one_time_price)
  const price = bot.one_time_price
  const { entries, feeUsd, netUsd } = saleEntries({ buyer: partnerId, bot, price, feePct })
  const [purchase] = await rows<PurchaseRow>(
    trx,
    `insert into marketplace_purchases (id, bot_id, partner_id, party_id, price, fee)
     values (:id, :botId, :partnerId, :partyId, :price, :feeUsd)
     on conflict (bot_id, party_id) where status = 'COMPLETED' do nothing
     returning *`,
    { id: newId('purchase'), botId, partnerId, partyId, price, feeUsd }
  )
  if (!purchase) return (await findPurchase(trx, partyId, botId)) as PurchaseRow
  await rows(
    trx,
    `update marketplace_bots set downloads = downloads + 1, sales = sales + 1, gross = gross + :price::numeric, net = net + :netUsd::numeric
      where id = :botId`,
    { botId, price, netUsd }
  )
  if (isLess('0', price))
    await transfer(trx, {
      reference: `purchase:${purchase.id}`,
      kind: 'sale',
      entries,
      details: { purchaseId: purchase.id, botId, botName: bot.name }
    })
  return purchase
}

/** Whether the party subscribes to the bot. */
export async function hasSubscription(db: Db, partyId: string, botId: string): Promise<boolean> {
  const found = await rows(
    db,
    `select from marketplace_subscriptions where bot_id = :botId and party_id = :partyId and status <> 'CANCELED'`,
    { partyId, botId }
  )
  return found.length > 0
}

/**
 * Subscribes to a bot and pays the first month. Who subscribes already gets that subscription, its cancellation
 * taken back unless the bot is retired, and no money moves. Throws NOT_FOUND, CONFLICT (one's own bot, no monthly price, a suspended
 * creator), PRICE_CHANGED, WALLET_INSUFFICIENT, LIMIT_REACHED, or UNAUTHENTICATED for a trader who may no longer act.
 */
export async function subscribeToBot(
  trx: Db,
  party: MarketParty,
  { botId, feePct, expectedUsd, now: given }: SaleOf & { now?: Date }
): Promise<SubscriptionRow> {
  const { partnerId, partyId } = party
  // What an erased trader subscribed to would be charged every month, and nobody could cancel it.
  await holdParty(trx, party)
  // Subscriptions of one party are made one after another, so that they can be counted.
  const own = partyId === partnerId ? 'partners' : 'traders'
  await rows(trx, `select id from ${own} where id = :partyId for no key update`, { partyId })
  const found = await lockBot(trx, botId)
  // The subscription to a retired bot still ends.
  const [kept] = await rows<SubscriptionRow>(
    trx,
    `update marketplace_subscriptions set cancel_at_period_end = cancel_at_period_end and :retired
      where bot_id = :botId and party_id = :partyId and status <> 'CANCELED'
      returning *`,
    { botId, partyId, retired: found?.status === 'RETIRED' }
  )
  if (kept) return kept
  const bot = requireVisible(found, botId, party)
  refuseSale({ bot, partyId, what: 'monthly', expectedUsd }, bot.monthly_price)
  const price = bot.monthly_price
  const now = given ?? (await databaseNow(trx))
  const end = endOfPeriod(now, now)
  const [subscription] = (await rows<SubscriptionRow>(
    trx,
    `insert into marketplace_subscriptions (id, bot_id, partner_id, party_id, price, created_at, current_period_end)
     values (:id, :botId, :partnerId, :partyId, :price, :now, :end)
     returning *`,
    { id: newId('subscription'), botId, partnerId, partyId, price, now, end }
  )) as [SubscriptionRow]
  await requireWithin(trx, 'subscriptions', partyId)
  const { entries, netUsd } = saleEntries({ buyer: partnerId, bot, price, feePct })
  await rows(
    trx,
    `update marketplace_bots
        set downloads = downloads + 1, subscribers = subscribers + 1, gross = gross + :price::numeric, net = net + :netUsd::numeric
      where id = :botId`,
    { botId, price, netUsd }
  )
  if (isLess('0', price))
    await transfer(trx, {
      reference: `subscription:${subscription.id}:1`,
      kind: 'subscription',
      entries,
      details: periodDetails({ id: subscription.id, botId, botName: bot.name, period: 1, start: now, end })
    })
  return subscription
}

/**
 * Ends a subscription with its period; one that is PAST_DUE, whose period is over, ends at once. A repeat returns the
 * same. Throws NOT_FOUND for another party's, CONFLICT for one that is CANCELED.
 */
export async function cancelSubscription(trx: Db, subscriptionId: string, partyId: string): Promise<SubscriptionRow> {
  const own = (await trx('marketplace_subscriptions')
    .where({ id: subscriptionId, party_id: partyId })
    .first('bot_id')) as { bot_id: string } | undefined
  if (!own) throw new ApiError('NOT_FOUND', `There is no subscription ${subscriptionId}.`)
  await lockBot(trx, own.bot_id)
  const [subscription] = await rows<SubscriptionRow>(
    trx,
    `update marketplace_subscriptions
        set cancel_at_period_end = true,
            canceled_at = case status when 'PAST_DUE' then now() end,
            status = case status when 'PAST_DUE' then 'CANCELED' else status end
      where id = :subscriptionId and status <> 'CANCELED'
      returning *`,
    { subscriptionId }
  )
  if (!subscription)
    throw new ApiError('CONFLICT', 'The subscription is CANCELED; only one that is ACTIVE or PAST_DUE can be CANCELED.')
  if (subscription.status === 'CANCELED')
    await trx('marketplace_bots').where({ id: own.bot_id }).decrement('subscribers', 1)
  return subscription
}

/** Newest first, at most `limit`; of one partner with all its traders, or of everybody on the live side. */
export async function listPurchases(
  db: Db,
  { limit, ...whose }: { partnerId?: string; limit: number }
): Promise<PurchaseRow[]> {
  const query = db('marketplace_purchases')
    .orderBy([
      { column: 'purchased_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(limit)
  if (whose.partnerId) query.where({ partner_id: whose.partnerId })
  if (!whose.partnerId) query.whereRaw('partner_id not in (select id from partners where test_of is not null)')
  return query as Promise<PurchaseRow[]>
}

interface PageRequest {
  limit: number
  cursor?: string | undefined
}

/** A page of the party's purchases, newest first. Throws VALIDATION_FAILED for a cursor of another list. */
export async function pageOfPurchases(
  db: Db,
  { partnerId, partyId }: Party,
  { limit, cursor }: PageRequest
): Promise<{ purchases: PurchaseRow[]; nextCursor: string | null }> {
  const list: CursorList = { name: 'purchases', partnerId, filters: { partyId } }
  const [after] = placeIn(list, cursor, 1)
  const found = await rows<PurchaseRow>(
    db,
    `select * from marketplace_purchases where party_id = :partyId
        and (:after::text is null or (purchased_at, id) < (select a.purchased_at, a.id from marketplace_purchases a where a.id = :after and a.party_id = :partyId))
      order by purchased_at desc, id desc limit :limit + 1`,
    { partyId, after: after ?? null, limit }
  )
  const purchases = found.slice(0, limit)
  const last = found.length > limit ? purchases.at(-1) : undefined
  return { purchases, nextCursor: last ? writeListCursor(list, [last.id]) : null }
}

/**
 * A page of the party's subscriptions: those that run, which only their ids can cancel, are on the pages before canceled ones; each page is
 * in order of age, newest first. Throws VALIDATION_FAILED for a cursor of another list.
 */
export async function pageOfSubscriptions(
  db: Db,
  { partnerId, partyId }: Party,
  { limit, cursor }: PageRequest
): Promise<{ subscriptions: SubscriptionRow[]; nextCursor: string | null }> {
  const list: CursorList = { name: 'subscriptions', partnerId, filters: { partyId } }
  // Whether the last one of the page before was canceled then: it may be canceled by now, while others still run.
  const [after, canceled] = placeIn(list, cursor, 2)
  const found = await rows<SubscriptionRow>(
    db,
    `select * from marketplace_subscriptions where party_id = :partyId
        and (:after::text is null or (status = 'CANCELED') > :canceled::boolean
             or ((status = 'CANCELED') = :canceled::boolean
                 and (created_at, id) < (select a.created_at, a.id from marketplace_subscriptions a where a.id = :after and a.party_id = :partyId)))
      order by status = 'CANCELED', created_at desc, id desc limit :limit + 1`,
    { partyId, after: after ?? null, canceled: canceled === 1, limit }
  )
  const page = found.slice(0, limit)
  const last = found.length > limit ? page.at(-1) : undefined
  const byAge = (one: SubscriptionRow, other: SubscriptionRow) =>
    other.created_at.getTime() - one.created_at.getTime() || (one.id < other.id ? 1 : -1)
  return {
    subscriptions: page.toSorted(byAge),
    nextCursor: last ? writeListCursor(list, [last.id, last.status === 'CANCELED' ? 1 : 0]) : null
  }
}

/** The parts of a cursor's place; none without a cursor. */
function placeIn(list: CursorList, cursor: string | undefined, length: number): unknown[] {
  if (cursor === undefined) return []
  const place = readListCursor(list, cursor, length)
  const [id, ...rest] = place ?? []
  if (typeof id !== 'string' || rest.some(part => typeof part !== 'number')) throw foreignCursor()
  return [id, ...rest]
}

/** A purchase as its buyer and the operator see it. */
export function presentPurchase(
  row: Pick<PurchaseRow, 'id' | 'bot_id' | 'price' | 'status' | 'purchased_at' | 'refunded_at'>
) {
  return {
    purchaseId: row.id,
    botId: row.bot_id,
    priceUsd: shown(row.price),
    status: row.status,
    purchasedAt: row.purchased_at.toISOString(),
    refundedAt: row.refunded_at?.toISOString() ?? null
  }
}

/** A subscription as its holder sees it. */
export function presentSubscription(row: SubscriptionRow) {
  return {
    subscriptionId: row.id,
    botId: row.bot_id,
    priceUsd: shown(row.price),
    status: row.status,
    currentPeriodEnd: row.current_period_end.toISOString(),
    cancelAtPeriodEnd: row.cancel_at_period_end,
    createdAt: row.created_at.toISOString(),
    refundedAt: row.refunded_at?.toISOString() ?? null
  }
}
