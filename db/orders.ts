// Orders as rows: stored with their job, found, listed. How an order is bought stands in
// orders-placing.ts, how it is followed to its end in orders-following.ts.
import { createHash } from 'node:crypto'
import type { ErrorCode, ErrorExtras } from '../schemas/errors.ts'
import { ApiError } from '../schemas/errors.ts'
import { newId } from '../schemas/ids.ts'
import type { OrderStatus } from '../schemas/orders.ts'
import { type Db, rows } from './connection.ts'
import type { Queue } from './queue.ts'

export type Phase = 'queued' | 'sending' | 'open' | 'closed' | 'failed' | 'review'

export interface OrderRow {
  id: string
  partner_id: string
  trader_id: string
  trader_external_id: string
  broker_account_id: string
  account_id: string
  account_mode: 'REAL' | 'DEMO'
  currency: string | null
  app_id: string
  dialect: string
  kind: 'BINARY' | 'MULTIPLIER'
  client_order_id: string | null
  request_hash: Buffer
  asset: string
  contract_type: string | null
  direction: 'up' | 'down' | null
  multiplier: string | null
  stake: string
  duration: number | null
  duration_unit: 't' | 's' | 'm' | 'h' | 'd' | null
  barrier: string | null
  stop_loss: string | null
  take_profit: string | null
  phase: Phase
  status: OrderStatus
  attempt: number
  created_at: Date
  queued_at: Date
  expires_at: Date
  sent_at: Date | null
  permit_until: Date | null
  sender: string | null
  reconcile_at: Date | null
  looks: number
  broker_order_id: string | null
  transaction_id: string | null
  buy_price: string | null
  payout: string | null
  commission: string | null
  opened_at: Date | null
  expiry_at: Date | null
  current_value: string | null
  unrealized_pnl: string | null
  marked_at: Date | null
  pnl: string | null
  entry_price: string | null
  exit_price: string | null
  closed_at: Date | null
  error_code: ErrorCode | null
  error_message: string | null
  error_extras: ErrorExtras | null
  retryable: boolean
  evidence: unknown
  follower: string | null
  lease_until: Date | null
  origin: string | null
  copied_from: string | null
  follow_id: string | null
  /** The trader had followers when it placed this order. */
  leads: boolean
  /** Trace id of the request that asked last. */
  trace: string | null
}

/** What is to be bought; a repeat under the same clientOrderId must ask for the same. */
export interface Terms {
  kind: 'BINARY' | 'MULTIPLIER'
  asset: string
  contractType: string | null
  direction: 'up' | 'down' | null
  multiplier: string | null
  stake: string
  duration: number | null
  durationUnit: string | null
  barrier: string | null
  stopLoss: string | null
  takeProfit: string | null
}

/** An order about to be stored. */
export interface Draft {
  /** Chosen by who wants to hear of the order before it is stored. */
  id?: string
  partnerId: string
  appId: string
  dialect: string
  traderId: string
  traderExternalId: string
  accountRowId: string
  accountId: string
  accountMode: string
  currency: string | null
  clientOrderId: string | null
  terms: Terms
  ttlMs: number
  /** The bus channel of the process that waits for it. */
  origin: string | null
  trace?: string | null
  copiedFrom?: string | null
  followId?: string | null
}

/** What a repeat is compared by. */
export function hashTerms(traderExternalId: string, terms: Terms): Buffer {
  const parts = [
    traderExternalId,
    terms.kind,
    terms.asset,
    terms.contractType,
    terms.direction,
    terms.multiplier,
    terms.stake,
    terms.duration,
    terms.durationUnit,
    terms.barrier,
    terms.stopLoss,
    terms.takeProfit
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest()
}

export interface Stored {
  order: OrderRow
  /** false when this is a repeat that found its order. */
  created: boolean
}

/**
 * Stores orders and their jobs in the transaction `trx`. A clientOrderId that exists finds its order; a
 * FAILED one that never reached the broker is queued again under the same id. Answers in the order of the
 * drafts; two equal ids among them share one order. A repeat with other terms throws nothing here: compare
 * `request_hash`. Drafts without clientOrderId (copies) that exist already are left as they are.
 */
export async function storeOrders(trx: Db, queue: Queue, drafts: Draft[]): Promise<Stored[]> {
  const values = drafts.map(draft => ({
    id: draft.id ?? newId('order'),
    partner_id: draft.partnerId,
    trader_id: draft.traderId,
    trader_external_id: draft.traderExternalId,
    broker_account_id: draft.accountRowId,
    account_id: draft.accountId,
    account_mode: draft.accountMode,
    currency: draft.currency,
    app_id: draft.appId,
    dialect: draft.dialect,
    kind: draft.terms.kind,
    client_order_id: draft.clientOrderId,
    request_hash: hashTerms(draft.traderExternalId, draft.terms).toString('hex'),
    asset: draft.terms.asset,
    contract_type: draft.terms.contractType,
    direction: draft.terms.direction,
    multiplier: draft.terms.multiplier,
    stake: draft.terms.stake,
    duration: draft.terms.duration,
    duration_unit: draft.terms.durationUnit,
    barrier: draft.terms.barrier,
    stop_loss: draft.terms.stopLoss,
    take_profit: draft.terms.takeProfit,
    ttl_ms: draft.ttlMs,
    origin: draft.origin,
    trace: draft.trace ?? null,
    copied_from: draft.copiedFrom ?? null,
    follow_id: draft.followId ?? null
  }))
  const inserted = await rows<OrderRow>(
    trx,
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency,
         app_id, dialect, kind, client_order_id, request_hash, asset, contract_type, direction, multiplier, stake, duration,
         duration_unit, barrier, stop_loss, take_profit, phase, created_at, queued_at, expires_at, origin, trace, copied_from, follow_id, leads)
     select v.id, v.partner_id, v.trader_id, v.trader_external_id, v.broker_account_id, v.account_id, v.account_mode, v.currency,
            v.app_id, v.dialect, v.kind, v.client_order_id, decode(v.request_hash, 'hex'), v.asset, v.contract_type, v.direction,
            v.multiplier, v.stake, v.duration, v.duration_unit, v.barrier, v.stop_loss, v.take_profit, 'queued',
            clock_timestamp(), clock_timestamp(), clock_timestamp() + v.ttl_ms * interval '1 millisecond', v.origin, v.trace, v.copied_from, v.follow_id,
            v.copied_from is null and exists (select 1 from follows f where f.leader_id = v.trader_id and f.status = 'ACTIVE')
       from jsonb_to_recordset(:values::jsonb) as v (id text, partner_id text, trader_id text, trader_external_id text,
            broker_account_id text, account_id text, account_mode text, currency text, app_id text, dialect text, kind text,
            client_order_id text, request_hash text, asset text, contract_type text, direction text, multiplier numeric,
            stake numeric, duration int, duration_unit text, barrier text, stop_loss numeric, take_profit numeric, ttl_ms int,
            origin text, trace text, copied_from text, follow_id text)
      order by v.partner_id, v.client_order_id, v.id
     on conflict do nothing
     returning *`,
    { values: JSON.stringify(values) }
  )
  const known = new Map(inserted.map(order => [keyOf(order), { order, created: true }]))
  const repeats = values.filter(value => value.client_order_id !== null && !known.has(keyOf(value)))
  const reopened: OrderRow[] = []
  if (repeats.length > 0) {
    const wanted = {
      partners: repeats.map(({ partner_id }) => partner_id),
      clients: repeats.map(({ client_order_id }) => client_order_id),
      hashes: repeats.map(({ request_hash }) => request_hash),
      ttls: repeats.map(({ ttl_ms }) => ttl_ms),
      origins: repeats.map(({ origin }) => origin),
      traces: repeats.map(({ trace }) => trace)
    }
    reopened.push(
      ...(await rows<OrderRow>(
        trx,
        `update orders o
            set phase = 'queued', attempt = o.attempt + 1, queued_at = clock_timestamp(),
                expires_at = clock_timestamp() + r.ttl_ms * interval '1 millisecond', origin = r.origin, trace = r.trace, sent_at = null,
                permit_until = null, sender = null, reconcile_at = null, looks = 0, error_code = null, error_message = null,
                error_extras = null, retryable = false, evidence = null
           from unnest(:partners::text[], :clients::text[], :hashes::text[], :ttls::int[], :origins::text[], :traces::text[])
                  as r (partner_id, client_order_id, hash, ttl_ms, origin, trace)
          where o.partner_id = r.partner_id and o.client_order_id = r.client_order_id
            and o.phase = 'failed' and o.retryable and o.request_hash = decode(r.hash, 'hex')
         returning o.*`,
        wanted
      ))
    )
    for (const order of reopened) known.set(keyOf(order), { order, created: true })
    const found = await rows<OrderRow>(
      trx,
      `select o.* from unnest(:partners::text[], :clients::text[]) as r (partner_id, client_order_id)
         join orders o using (partner_id, client_order_id)`,
      { partners: wanted.partners, clients: wanted.clients }
    )
    for (const order of found) if (!known.has(keyOf(order))) known.set(keyOf(order), { order, created: false })
  }
  const fresh = [...inserted, ...reopened]
  if (fresh.length > 0) {
    await queue.enqueue(
      trx,
      'order.place',
      fresh.map(({ id, account_id }) => ({ orderId: id, accountId: account_id }))
    )
  }
  const told = new Set<string>()
  return values.flatMap(value => {
    const stored = known.get(keyOf(value))
    if (!stored) return []
    // Of two equal ids in one group only the first one is the order's own request.
    const created = stored.created && !told.has(stored.order.id)
    told.add(stored.order.id)
    return [{ order: stored.order, created }]
  })
}

function keyOf({
  partner_id,
  client_order_id,
  copied_from,
  follow_id
}: Pick<OrderRow, 'partner_id' | 'client_order_id' | 'copied_from' | 'follow_id'>): string {
  return client_order_id === null ? `copy ${copied_from} ${follow_id}` : `${partner_id} ${client_order_id}`
}

/** Several orders at once, in the order of their ids; undefined where there is none. */
export async function findOrders(db: Db, ids: string[]): Promise<(OrderRow | undefined)[]> {
  const found = await rows<OrderRow>(db, 'select * from orders where id = any(:ids)', { ids })
  const byId = new Map(found.map(order => [order.id, order]))
  return ids.map(id => byId.get(id))
}

/** The partner's order. Throws NOT_FOUND, also for another partner's. */
export async function getOrder(db: Db, partnerId: string, orderId: string): Promise<OrderRow> {
  const row = (await db('orders').where({ id: orderId, partner_id: partnerId }).first()) as OrderRow | undefined
  if (!row) throw new ApiError('NOT_FOUND', `There is no order ${orderId}.`)
  return row
}

/**
 * Fails orders whose time to live ran out before any worker took them. Conditional on both, so it never
 * races a worker: whoever updates the row first decides.
 */
export async function expireOrders(db: Db, ids: string[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders
        set phase = 'failed', error_code = 'BROKER_UPSTREAM', retryable = true,
            error_message = 'The order could not be placed within its time to live; it was not placed.'
      where id = any(:ids) and phase = 'queued' and expires_at <= clock_timestamp()
     returning *`,
    { ids }
  )
}

/** Open orders of a partner, or of one of its traders, newest first, at most 1000. */
export async function listPositions(
  db: Db,
  filter: { partnerId: string; traderExternalId?: string }
): Promise<OrderRow[]> {
  const query = db('orders')
    .where({ partner_id: filter.partnerId, phase: 'open' })
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(1000)
  if (filter.traderExternalId !== undefined) query.where({ trader_external_id: filter.traderExternalId })
  return (await query) as OrderRow[]
}

export interface OrderFilter {
  partnerId?: string
  traderExternalId?: string
  status?: OrderStatus
  review?: boolean
  limit: number
  cursor?: string
}

/** A page of orders, newest first, by (created_at, id): stable while new ones arrive. */
export async function listOrders(
  db: Db,
  filter: OrderFilter
): Promise<{ orders: OrderRow[]; nextCursor: string | null }> {
  const query = db('orders')
    .select('*')
    .orderBy([
      { column: 'created_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(filter.limit + 1)
  if (filter.partnerId) query.where({ partner_id: filter.partnerId })
  if (filter.traderExternalId !== undefined) query.where({ trader_external_id: filter.traderExternalId })
  if (filter.status) query.where({ status: filter.status })
  if (filter.review) query.where({ phase: 'review' })
  if (filter.cursor) {
    const [micros, id] = readCursor(filter.cursor)
    query.whereRaw(`(created_at, id) < (timestamptz 'epoch' + ? * interval '1 microsecond', ?)`, [micros, id])
  }
  const found = (await query.select(
    db.raw(`(extract(epoch from created_at) * 1000000)::bigint::text as created_micros`)
  )) as (OrderRow & {
    created_micros: string
  })[]
  const orders = found.slice(0, filter.limit)
  const last = orders.at(-1)
  return {
    orders,
    nextCursor: found.length > filter.limit && last ? writeCursor([last.created_micros, last.id]) : null
  }
}

// A cursor holds the last entry's position; timestamps in microseconds, since a Date would round them.
function writeCursor(position: [string, string]): string {
  return Buffer.from(JSON.stringify(position)).toString('base64url')
}

function readCursor(cursor: string): [string, string] {
  let position: unknown
  try {
    position = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
  } catch {
    position = undefined
  }
  const [micros, id] = Array.isArray(position) ? position : []
  if (
    typeof micros !== 'string' ||
    !/^\d{1,18}$/.test(micros) ||
    typeof id !== 'string' ||
    !/^ord_[0-9a-z]{26}$/.test(id)
  ) {
    const details = [{ path: '/query/cursor', message: 'is not a cursor of this list' }]
    throw new ApiError('VALIDATION_FAILED', 'cursor is not a cursor of this list', { extras: { details } })
  }
  return [micros, id]
}
