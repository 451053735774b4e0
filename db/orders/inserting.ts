// What orders of requests (storing.ts) and copies (copies.ts) share: the terms of a purchase, how a draft is bound to a
// statement, and the insert itself, which takes rows from wherever the statement has them.

import { hash } from 'node:crypto'
import { newId } from '../../schemas/fields/ids.ts'
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import type { MultiplierDirection } from '../../schemas/orders.ts'
import { copying } from '../copy/fanout.ts'

/** The terms of the purchase; a repeat under the same clientOrderId must have the same. */
export interface OrderTerms {
  kind: 'BINARY' | 'MULTIPLIER'
  asset: string
  contractType: string | null
  direction: MultiplierDirection | null
  multiplier: string | null
  stake: string
  duration: number | null
  durationUnit: string | null
  barrier: string | null
  stopLoss: string | null
  takeProfit: string | null
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

/** What every order has before it is stored. */
export interface DraftBase {
  /** Set by a caller that subscribes to the order before it is stored. */
  id?: string
  partnerId: string
  traderExternalId: string
  terms: OrderTerms
  ttlMs: number
  /** The latest end of its time to live, ms since the epoch by the database's clock: a statement may reach the database late. */
  endsBy?: number | undefined
  trace?: string | null
}

/** The columns of `valuesOf`, as SQL. */
export const valueColumns = `id text, partner_id text, trader_external_id text, kind text, request_hash text, asset text,
              contract_type text, direction text, multiplier numeric, stake numeric, duration int, duration_unit text,
              barrier text, stop_loss numeric, take_profit numeric, ttl_ms int, ends_by float8, trace text`

/** A draft as a statement binds it. */
export function valuesOf({ id, partnerId, traderExternalId, terms, ttlMs, endsBy, trace }: DraftBase) {
  return {
    id: id ?? newId('order'),
    partner_id: partnerId,
    trader_external_id: traderExternalId,
    kind: terms.kind,
    request_hash: hashTerms(traderExternalId, terms).toString('hex'),
    asset: terms.asset,
    contract_type: terms.contractType,
    direction: terms.direction,
    multiplier: terms.multiplier,
    stake: terms.stake,
    duration: terms.duration,
    duration_unit: terms.durationUnit,
    barrier: terms.barrier,
    stop_loss: terms.stopLoss,
    take_profit: terms.takeProfit,
    ttl_ms: ttlMs,
    ends_by: endsBy ?? null,
    trace: trace ?? null
  }
}

// Finds the first leader at or after the trader, one step into the index of leaders, and compares it. With an equality, where
// most follows have the same leader, the plan for any trader would expect a match at once and read all follows for an order of a
// trader without followers.
export const hasFollowers = (traderId: string) =>
  `(select min(f.leader_id) from follows f where f.leader_id >= ${traderId} and f.${copying}) is not distinct from ${traderId}`

/**
 * SQL: when the time to live of an order is over that the statement queues, from its row of `valueColumns`. Counted from `livesFrom`, but
 * never from later than the statement's start: it may wait for a lock before it gets to the row.
 */
export const endOfLife = (row: string, livesFrom = 'statement_timestamp()') =>
  `least(least(${livesFrom}, statement_timestamp()) + ${row}.ttl_ms * interval '1 millisecond', to_timestamp(${row}.ends_by / 1000))`

/**
 * Inserts orders from the rows `v` of `source`, as SQL; those that exist are left as they are. Their time to live begins at
 * `livesFrom`, by default with the statement. Orders are `o` in RETURNING.
 */
export const insertFrom = (source: string, { livesFrom }: { livesFrom?: string } = {}) =>
  `insert into orders as o (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency,
           app_id, dialect, kind, client_order_id, request_hash, asset, contract_type, direction, multiplier, stake, duration,
           duration_unit, barrier, stop_loss, take_profit, phase, created_at, queued_at, expires_at, reply_channel, trace,
           copied_from, follow_id, raised_to_minimum, has_followers)
       select v.id, v.partner_id, v.trader_id, v.trader_external_id, v.broker_account_id, v.account_id, v.account_mode, v.currency,
              v.app_id, v.dialect, v.kind, v.client_order_id, decode(v.request_hash, 'hex'), v.asset, v.contract_type, v.direction,
              v.multiplier, v.stake, v.duration, v.duration_unit, v.barrier, v.stop_loss, v.take_profit, v.phase,
              clock_timestamp(), clock_timestamp(), ${endOfLife('v', livesFrom)}, v.reply_channel, v.trace,
              v.copied_from, v.follow_id, v.raised_to_minimum,
              v.copied_from is null and ${hasFollowers('v.trader_id')}
         from ${source}
       on conflict do nothing`

/** The data of jobs for the queued ones of `stored`, as SQL: up to ORDERS_A_JOB orders share one. */
export const jobsOfStored = `select jsonb_build_object('accountIds', jsonb_agg(account_id))
       from (select account_id, (row_number() over () - 1) / ${ORDERS_A_JOB} as part from stored where phase = 'queued') numbered
      group by part`
