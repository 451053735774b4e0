// Orders stored with their jobs in one statement: those of a group share it, and a job among up to ORDERS_A_JOB of them.
import { hash } from 'node:crypto'
import { newId } from '../../schemas/fields/ids.ts'
import type { HaltFacts } from '../../schemas/halts.ts'
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import { haltOf, isHalted } from '../platform/halts.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import type { OrderRow } from './reading.ts'

/** The terms of the purchase; a repeat under the same clientOrderId must have the same. */
export interface OrderTerms {
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
  /** Set by a caller that subscribes to the order before it is stored. */
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
  /** Whether the broker has accepted the account's token; else the order waits until it has. */
  proven: boolean
  clientOrderId: string | null
  terms: OrderTerms
  ttlMs: number
  /** The bus channel of the process that waits for it. */
  replyChannel: string | null
  trace?: string | null
  copiedFrom?: string | null
  followId?: string | null
  raisedToMinimum?: boolean | null
}

/** What a repeat is compared by. */
export function hashTerms(traderExternalId: string, terms: OrderTerms): Buffer {
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
  return hash('sha256', JSON.stringify(parts), 'buffer')
}

/** What is known of an order once it is stored. */
export type StoredOrder = Pick<
  OrderRow,
  'id' | 'partner_id' | 'client_order_id' | 'copied_from' | 'follow_id' | 'phase' | 'request_hash'
> & {
  /** What is left of its time to live when it is read, ms, by the database's clock; negative once it is over. */
  ttl_left_ms: number
}

const columns =
  'o.id, o.partner_id, o.client_order_id, o.copied_from, o.follow_id, o.phase, o.request_hash, ' +
  '(extract(epoch from o.expires_at - clock_timestamp()) * 1000)::float8 as ttl_left_ms'

export interface Stored {
  order: StoredOrder
  /** false when this is a repeat that found its order. */
  created: boolean
  /** Why a failed order that may be repeated was not queued again. */
  halt?: HaltFacts
}

/** An order that is not stored, since placing is halted. */
export interface Halted {
  order?: undefined
  halt: HaltFacts
}

/**
 * Stores orders and their jobs at once: no transaction around it is needed. A clientOrderId that exists finds its
 * order; a FAILED one that never reached the broker is queued again under the same id. Returns them in the order of the
 * drafts; two equal ids among them share one order. A repeat with other terms throws nothing here: compare
 * `request_hash`. Drafts without clientOrderId (copies) that exist already are left as they are; halts are applied to
 * them when they are claimed.
 */
export async function storeOrders(db: Db, queue: Queue, drafts: Draft[]): Promise<(Stored | Halted)[]> {
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
    phase: draft.proven ? 'queued' : 'unproven',
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
    reply_channel: draft.replyChannel,
    trace: draft.trace ?? null,
    copied_from: draft.copiedFrom ?? null,
    follow_id: draft.followId ?? null,
    raised_to_minimum: draft.raisedToMinimum ?? null
  }))
  // Copies are stored by themselves.
  const enqueued = queue.enqueueing(
    drafts.some(({ copiedFrom }) => copiedFrom) ? 'order.copy' : 'order.place',
    `select jsonb_build_object('accountIds', jsonb_agg(account_id))
       from (select account_id, (row_number() over () - 1) / ${ORDERS_A_JOB} as part from stored where phase = 'queued') numbered
      group by part`
  )
  const handled = await rows<StoredOrder & { draft_id: string; halt: HaltFacts | null }>(
    db,
    sql`with wanted as materialized (
       select v.*, case when v.copied_from is null then ${haltOf('v')} end as halt
         from jsonb_to_recordset(:values::jsonb) as v (id text, partner_id text, trader_id text, trader_external_id text,
              broker_account_id text, account_id text, account_mode text, currency text, app_id text, dialect text, kind text,
              client_order_id text, phase text, request_hash text, asset text, contract_type text, direction text, multiplier numeric,
              stake numeric, duration int, duration_unit text, barrier text, stop_loss numeric, take_profit numeric, ttl_ms int,
              reply_channel text, trace text, copied_from text, follow_id text, raised_to_minimum boolean)
     ), stored as (
       insert into orders as o (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency,
           app_id, dialect, kind, client_order_id, request_hash, asset, contract_type, direction, multiplier, stake, duration,
           duration_unit, barrier, stop_loss, take_profit, phase, created_at, queued_at, expires_at, reply_channel, trace, copied_from, follow_id, raised_to_minimum,
           has_followers)
       select v.id, v.partner_id, v.trader_id, v.trader_external_id, v.broker_account_id, v.account_id, v.account_mode, v.currency,
              v.app_id, v.dialect, v.kind, v.client_order_id, decode(v.request_hash, 'hex'), v.asset, v.contract_type, v.direction,
              v.multiplier, v.stake, v.duration, v.duration_unit, v.barrier, v.stop_loss, v.take_profit, v.phase,
              clock_timestamp(), clock_timestamp(), clock_timestamp() + v.ttl_ms * interval '1 millisecond', v.reply_channel, v.trace, v.copied_from, v.follow_id, v.raised_to_minimum,
              v.copied_from is null and exists (select 1 from follows f where f.leader_id = v.trader_id and f.status in ('ACTIVE', 'PAUSED_MISMATCH'))
         from wanted v
        where v.halt is null
        order by v.partner_id, v.client_order_id, v.id
       on conflict do nothing
       returning o.account_id, ${columns}
     ), enqueued as (${enqueued})
     select w.id as draft_id, w.halt, s.* from wanted w left join stored s on s.id = w.id
      where s.id is not null or w.halt is not null`,
    { values: JSON.stringify(values) }
  )
  const inserted = handled.filter(({ halt }) => halt === null)
  const halted = new Map(handled.flatMap(({ draft_id, halt }) => (halt ? [[draft_id, halt] as const] : [])))
  const known = new Map<string, Stored>(inserted.map(order => [keyOf(order), { order, created: true }]))
  const repeats = values.filter(value => value.client_order_id !== null && !known.has(keyOf(value)))
  if (repeats.length > 0) {
    const wanted = {
      partners: repeats.map(({ partner_id }) => partner_id),
      clients: repeats.map(({ client_order_id }) => client_order_id),
      hashes: repeats.map(({ request_hash }) => request_hash),
      ttls: repeats.map(({ ttl_ms }) => ttl_ms),
      channels: repeats.map(({ reply_channel }) => reply_channel),
      traces: repeats.map(({ trace }) => trace)
    }
    const reopened = await rows<StoredOrder>(
      db,
      sql`with stored as (
         update orders o
            set phase = case when exists (select from broker_accounts a where a.id = o.broker_account_id
                                           and a.proven_version = a.token_version) then 'queued' else 'unproven' end,
                queued_at = clock_timestamp(), not_before = null,
                expires_at = clock_timestamp() + r.ttl_ms * interval '1 millisecond', reply_channel = r.reply_channel, trace = r.trace, sent_at = null,
                permit_until = null, sender = null, resolve_at = null, checks = 0, absence_checks = 0, error_code = null, error_message = null,
                error_extras = null, retryable = false, evidence = null
           from unnest(:partners::text[], :clients::text[], :hashes::text[], :ttls::int[], :channels::text[], :traces::text[])
                  as r (partner_id, client_order_id, hash, ttl_ms, reply_channel, trace)
          where o.partner_id = r.partner_id and o.client_order_id = r.client_order_id
            and o.phase = 'failed' and o.retryable and o.request_hash = decode(r.hash, 'hex') and not ${isHalted('o')}
         returning o.account_id, ${columns}
       ), enqueued as (${enqueued})
       select * from stored`,
      wanted
    )
    for (const order of reopened) known.set(keyOf(order), { order, created: true })
    const found = await rows<StoredOrder & { halt: HaltFacts | null }>(
      db,
      `select ${columns}, case when o.phase = 'failed' and o.retryable then ${haltOf('o')} end as halt
         from unnest(:partners::text[], :clients::text[]) as r (partner_id, client_order_id)
         join orders o using (partner_id, client_order_id)`,
      { partners: wanted.partners, clients: wanted.clients }
    )
    for (const { halt, ...order } of found)
      if (!known.has(keyOf(order))) known.set(keyOf(order), { order, created: false, ...(halt ? { halt } : {}) })
  }
  const told = new Set<string>()
  return values.flatMap((value): (Stored | Halted)[] => {
    const stored = known.get(keyOf(value))
    const halt = halted.get(value.id)
    if (!stored) return halt ? [{ halt }] : []
    // Of two equal ids in one group only the first one is the order's own request.
    const created = stored.created && !told.has(stored.order.id)
    told.add(stored.order.id)
    return [{ ...stored, created }]
  })
}

/** The order of a clientOrderId, and whether a repeat may place it. */
export async function findStored(
  db: Db,
  { partnerId, clientOrderId }: { partnerId: string; clientOrderId: string }
): Promise<(StoredOrder & { retryable: boolean }) | undefined> {
  const [found] = await rows<StoredOrder & { retryable: boolean }>(
    db,
    `select ${columns}, o.retryable from orders o where o.partner_id = :partnerId and o.client_order_id = :clientOrderId`,
    { partnerId, clientOrderId }
  )
  return found
}

function keyOf({
  partner_id,
  client_order_id,
  copied_from,
  follow_id
}: Pick<OrderRow, 'partner_id' | 'client_order_id' | 'copied_from' | 'follow_id'>): string {
  return client_order_id === null ? `copy ${copied_from} ${follow_id}` : `${partner_id} ${client_order_id}`
}
