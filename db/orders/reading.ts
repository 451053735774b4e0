// Orders as rows, found by their ids. Lists are in listing.ts, storing is in storing.ts, buying in placing.ts, contract leases and settlement in
// leases.ts.

import { createHash } from 'node:crypto'
import type { ErrorCode, ErrorExtras } from '../../schemas/errors/errors.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import type { DurationUnit, MultiplierDirection, OrderStatus } from '../../schemas/orders.ts'
import { among, type Db, rows, sql } from '../postgres/connection.ts'
import { findArchived } from './archive.ts'
import { endsMsOf, expiredMessageOf, isOver } from './expired.ts'

/** `unproven` is before `queued`: the broker has not accepted the account's token yet. */
export type Phase = 'unproven' | 'queued' | 'sending' | 'open' | 'closed' | 'failed' | 'review'

/**
 * A condition: the order is in one of these phases. Each has an index of its own, and `phase in (…)` matches none of them: all
 * orders would be read.
 */
export const inPhases = (order: string, phases: readonly Phase[]): string =>
  `(${phases.map(phase => `${order}.phase = '${phase}'`).join(' or ')})`

export interface OrderRow {
  id: string
  partner_id: string
  trader_id: string
  trader_external_id: string
  broker_account_id: string
  account_id: string
  account_mode: AccountMode
  currency: string | null
  app_id: string
  dialect: string
  kind: 'BINARY' | 'MULTIPLIER'
  client_order_id: string | null
  request_hash: Buffer
  asset: string
  contract_type: string | null
  direction: MultiplierDirection | null
  multiplier: string | null
  /** In USD. */
  stake: string
  /** In the account's currency; null on an account in USD, and before it was converted. */
  stake_in_account: string | null
  /** Units of the account's currency that one USD was worth; null with the former. */
  exchange_rate: string | null
  duration: number | null
  duration_unit: DurationUnit | null
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
  claim_no: number | null
  resolve_at: Date | null
  checks: number
  reset_attempt: number | null
  reset_at: Date | null
  absence_checks: number
  broker_order_id: string | null
  transaction_id: string | null
  buy_price: string | null
  payout: string | null
  commission: string | null
  /** The partner application's markup by the broker's contract state, in the account's currency; null: unknown. */
  markup: string | null
  opened_at: Date | null
  answered_at: Date | null
  expiry_at: Date | null
  current_value: string | null
  unrealized_pnl: string | null
  marked_at: Date | null
  pnl: string | null
  entry_price: string | null
  exit_price: string | null
  closed_at: Date | null
  /** Why the order failed, or that it waits for a review: what a partner reads as `error`. */
  error_code: ErrorCode | 'REVIEW_REQUIRED' | null
  error_message: string | null
  error_extras: ErrorExtras | null
  retryable: boolean
  evidence: unknown
  lease_holder: string | null
  lease_until: Date | null
  reply_channel: string | null
  copied_from: string | null
  follow_id: string | null
  /** For a copy: its stake was raised to the broker's minimum. */
  raised_to_minimum: boolean | null
  /** The contract ended before its own expiry. */
  closed_early: boolean
  /** When the contract is to be sold because its leader closed, and how often that was tried. */
  close_at: Date | null
  close_tries: number
  /** How often the limits of a leader's contract were changed; of a copy, the change that its limits follow. */
  limits_version: number
  /** For a copy: limits that are still to be set at the broker, when the next try is, and how many there were. */
  new_stop_loss: string | null
  new_take_profit: string | null
  limits_at: Date | null
  limits_tries: number
  /** The trader had followers when it placed this order. */
  has_followers: boolean
  /** Trace id of the last request for this order. */
  trace: string | null
}

/** How often a worker took the order to send it. Its `attempt` is 1 before the first time. */
export function triesOf({ attempt }: Pick<OrderRow, 'attempt'>): number {
  return attempt - 1
}

/** Whether a failed order may be repeated: under its clientOrderId, which a copy does not have. */
export function mayRepeat({ retryable, client_order_id }: Pick<OrderRow, 'retryable' | 'client_order_id'>): boolean {
  return retryable && client_order_id !== null
}

/** Several orders at once, in the order of their ids; undefined where there is none. */
export async function findOrders(db: Db, ids: string[]): Promise<(OrderRow | undefined)[]> {
  return inOrder(db, ids, await rows<OrderRow>(db, `select * from orders where id = ${among('ids')}`, { ids }))
}

const outcome = [
  'id',
  'phase',
  'status',
  'kind',
  'asset',
  'direction',
  'multiplier',
  'stake',
  'stake_in_account',
  'exchange_rate',
  'stop_loss',
  'take_profit',
  'broker_order_id',
  'buy_price',
  'payout',
  'commission',
  'opened_at',
  'pnl',
  'entry_price',
  'exit_price',
  'closed_at',
  'error_code',
  'error_message',
  'error_extras'
] as const

// The stored number counts from the refusal. A repeat of the order returns what is left of it now.
const extrasByNow = `case when error_extras ->> 'secondsUntilOpen' is null then error_extras
     else jsonb_set(error_extras, '{secondsUntilOpen}', to_jsonb(greatest(0,
       (error_extras ->> 'secondsUntilOpen')::int - floor(extract(epoch from now() - sent_at))::int))) end as error_extras`

const outcomeColumns = outcome.map(column => (column === 'error_extras' ? extrasByNow : column)).join(', ')

/** The result of an order, as its caller may see it. */
export type Outcome = Pick<OrderRow, (typeof outcome)[number]>

// A version with other columns reads the row instead.
const OUTCOME_VERSION = createHash('sha256').update(outcomeColumns).digest('base64url').slice(0, 6)

// Columns that JSON would turn into numbers: amounts stay decimal strings, digit by digit.
const decimals: ReadonlySet<string> = new Set<(typeof outcome)[number]>([
  'multiplier',
  'stake',
  'stake_in_account',
  'exchange_rate',
  'stop_loss',
  'take_profit',
  'buy_price',
  'payout',
  'commission',
  'pnl',
  'entry_price',
  'exit_price'
])

/**
 * The outcome of the order `o` as one line, as SQL: for the hint of the statement that changes the row. It goes to the process
 * that waits for this order, and holds nothing but what that would read.
 */
export const outcomeLine = `json_build_array('${OUTCOME_VERSION}', ${outcome
  .map(column => `o.${column}${decimals.has(column) ? '::text' : ''}`)
  .join(', ')})::text`

/** The outcome in a hint about the order `id`; undefined where the row is to be read: it is of another version or order, or none. */
export function outcomeOf(id: string, line: string | undefined): Outcome | undefined {
  const [version, ...values] = parsed(line)
  if (version !== OUTCOME_VERSION || values.length !== outcome.length) return undefined
  const found = Object.fromEntries(outcome.map((column, index) => [column, values[index]])) as unknown as Outcome
  if (found.id !== id) return undefined
  const date = (value: unknown) => (typeof value === 'string' ? new Date(value) : null)
  return { ...found, opened_at: date(found.opened_at), closed_at: date(found.closed_at) }
}

function parsed(line: string | undefined): unknown[] {
  if (line === undefined) return []
  try {
    const values: unknown = JSON.parse(line)
    return Array.isArray(values) ? values : []
  } catch {
    return []
  }
}

/** The outcomes of several orders, in the order of their ids; undefined where there is none. */
export async function findOutcomes(db: Db, ids: string[]): Promise<(Outcome | undefined)[]> {
  const found = await rows<Outcome>(db, sql`select ${outcomeColumns} from orders where id = ${among('ids')}`, { ids })
  return inOrder(db, ids, found, outcomeColumns)
}

/** What was found among the live orders and what the archive has of the rest, in the order of the ids. */
async function inOrder<Row extends { id: string }>(
  db: Db,
  ids: string[],
  live: Row[],
  columns = '*'
): Promise<(Row | undefined)[]> {
  const byId = new Map(live.map(order => [order.id, order]))
  const missing = ids.filter(id => !byId.has(id))
  if (missing.length > 0) for (const order of await findArchived<Row>(db, missing, columns)) byId.set(order.id, order)
  return ids.map(id => byId.get(id))
}

/** The partner's order. Throws NOT_FOUND, also for another partner's. */
export async function getOrder(db: Db, partnerId: string, orderId: string): Promise<OrderRow> {
  const row = (await db('orders').where({ id: orderId }).first()) as OrderRow | undefined
  const found = row ?? (await findArchived<OrderRow>(db, [orderId]))[0]
  if (found?.partner_id !== partnerId) throw new ApiError('NOT_FOUND', `There is no order ${orderId}.`)
  return found
}

/**
 * Has changes of an order that is not final published to the channel of a process. Only one channel is stored: a process that
 * waited before reads the row by its own clock.
 */
export async function notifyOf(db: Db, orderId: string, replyChannel: string): Promise<void> {
  await rows(
    db,
    `update orders set reply_channel = :replyChannel
      where id = :orderId and phase not in ('closed', 'failed') and reply_channel is distinct from :replyChannel`,
    { orderId, replyChannel }
  )
}

/**
 * Fails orders whose time to live ran out before any worker took them. Both are conditions of the update, so it never races a
 * worker: the first update of the row decides. With `endsMs` also an order whose time ends at that instant, whatever the
 * database's clock shows: the process that waits for it has measured the time by a clock that cannot be set back.
 */
export async function expireOrders(db: Db, ids: string[], endsMs: number | null = null): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders o
        set phase = 'failed', error_code = 'BROKER_UPSTREAM', retryable = true, error_message = ${expiredMessageOf('o')}
      where o.id = ${among('ids')} and o.phase in ('unproven', 'queued') and (${isOver('o')} or ${endsMsOf('o')} = :endsMs)
     returning o.*`,
    { ids, endsMs }
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
