// Halts of trading: an operator stops placing for everybody, a partner, a broker application or an asset. An order is
// refused while any halt applies to it; bought contracts go on, and may be closed. The statements that store, reopen
// and claim orders read the halts themselves, so that a halt holds on every process from its commit on; workers also
// keep them in memory for the orders they have claimed and not sent yet (worker/orders/halts.ts).
import { ApiError } from '../../schemas/errors/errors.ts'
import { type HaltFacts, type HaltScope, haltMessage, haltScopes } from '../../schemas/halts.ts'
import { inPhases, type OrderRow } from '../orders/reading.ts'
import { getPartner } from '../partners/partners.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { type Bus, WORK } from './bus.ts'

export interface Halt extends HaltFacts {
  /** The partner, the application id or the asset; null for all. */
  subject: string | null
  actor: string
  haltedAt: Date
}

/** What a halt is for: with a subject for every scope but `all`. */
export interface HaltedScope {
  scope: HaltScope
  subject: string | null
}

const columns = `scope, reason, nullif(subject, '') as subject, actor, halted_at as "haltedAt"`

// Test sides have numbers of ours for applications, which partners' applications at the broker may have too.
const applies = (order: string) =>
  `(h.scope, h.subject) in (('all', ''), ('partner', ${order}.partner_id), ('application', ${order}.app_id), ('asset', ${order}.asset))
   and not (h.scope = 'application' and is_test_side(${order}.partner_id))`

// Read once in a statement: usually there is no halt at all, and none is searched for order by order.
const anyHalt = '(select exists (select from trading_halts))'

/** A condition: a halt applies to the order, as SQL. It needs partner_id, app_id and asset. */
export const isHalted = (order: string) =>
  `(${anyHalt} and exists (select from trading_halts h where ${applies(order)}))`

/** The widest halt that applies to an order, as SQL: `{ scope, reason }` or null. */
export const haltOf = (order: string) =>
  `case when ${anyHalt} then (select jsonb_build_object('scope', h.scope, 'reason', h.reason) from trading_halts h
     where ${applies(order)} order by array_position(array['${haltScopes.join("','")}'], h.scope::text) limit 1) end`

/** Why a halted order failed, as SQL. `halt` is what `haltOf` selected. */
export const haltMessageOf = (halt: string) => `'${haltMessage('')}' || (${halt}->>'reason')`

/**
 * Stops placing for a scope; one that is halted already gets the new reason. Call `announceHalts` after the commit. Throws
 * NOT_FOUND for a partner that does not exist.
 */
export async function haltTrading(
  trx: Db,
  { scope, subject, reason, actor }: HaltedScope & { reason: string; actor: string }
): Promise<Halt> {
  if (scope === 'partner') await getPartner(trx, subject as string)
  const [halt] = await rows<Halt>(
    trx,
    `insert into trading_halts (scope, subject, reason, actor) values (:scope, coalesce(:subject, ''), :reason, :actor)
     on conflict (scope, subject) do update set reason = excluded.reason, actor = excluded.actor
     returning ${columns}`,
    { scope, subject, reason, actor }
  )
  return halt as Halt
}

/**
 * Ends the halt of a scope, of exactly that one: orders to which another one applies stay refused. Call `announceHalts`
 * after the commit. Throws CONFLICT when there is none.
 */
export async function resumeTrading(trx: Db, { scope, subject }: HaltedScope): Promise<Halt> {
  const [halt] = await rows<Halt>(
    trx,
    `delete from trading_halts where scope = :scope and subject = coalesce(:subject, '') returning ${columns}`,
    { scope, subject }
  )
  if (halt) return halt
  const others = await listHalts(trx)
  const named = others.map(other => (other.subject === null ? other.scope : `${other.scope} ${other.subject}`))
  throw new ApiError(
    'CONFLICT',
    `Trading is not halted for ${subject === null ? scope : `${scope} ${subject}`}; halted: ${named.join(', ') || 'nothing'}.`
  )
}

/** All halts in force, the widest first, at most 1000. */
export async function listHalts(db: Db): Promise<Halt[]> {
  return rows<Halt>(
    db,
    `select ${columns} from trading_halts
      order by array_position(array['${haltScopes.join("','")}'], scope::text), subject limit 1000`
  )
}

// Number of orders, of all partners, that show whether a symbol is traded: a day of a busy service, read in milliseconds.
const RECENT_ORDERS = 20_000

/** How many of the latest orders of all partners are on an asset, out of how many, and the assets of most of them. */
export async function recentOrdersOn(db: Db, asset: string): Promise<{ named: number; of: number; most: string[] }> {
  const [found] = await rows<{ named: number; of: number; most: string[] }>(
    db,
    `with latest as (select asset from orders order by id desc limit ${RECENT_ORDERS}),
          counted as (select asset, count(*)::int as orders from latest group by asset)
     select coalesce(sum(orders) filter (where asset = :asset), 0)::int as named, coalesce(sum(orders), 0)::int as of,
            array(select asset from counted order by orders desc, asset limit 5) as most
       from counted`,
    { asset }
  )
  return found as { named: number; of: number; most: string[] }
}

/** Has every worker read the halts at once. Without it they do within half a second. */
export function announceHalts(bus: Bus): void {
  bus.publish(WORK, 'halts', 'changed')
}

/** Fails waiting orders to which a halt applies, at most `limit`; they may be repeated under their id. Returns the rows. */
export async function failHalted(db: Db, limit: number): Promise<Pick<OrderRow, 'id' | 'reply_channel'>[]> {
  return rows(
    db,
    `update orders o
        set phase = 'failed', error_code = 'TRADING_HALTED', retryable = true, error_extras = w.halt,
            error_message = ${haltMessageOf('w.halt')}
       from (select q.id, ${haltOf('q')} as halt from orders q
              where ${inPhases('q', ['queued', 'unproven'])} and ${isHalted('q')}
              limit :limit for update of q skip locked) w
      where o.id = w.id and w.halt is not null
     returning o.id, o.reply_channel`,
    { limit }
  )
}
