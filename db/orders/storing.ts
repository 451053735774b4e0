// Orders of requests, stored with their jobs in one statement: those of a group share it. The statement itself proves what
// the requests were decided on: it joins caller, trader, account and halts, and stores nothing for those that do not hold.
import type { AccountMode } from '../../schemas/fields/fields.ts'
import type { HaltFacts } from '../../schemas/halts.ts'
import { callerHolds } from '../partners/keys.ts'
import { WORK } from '../platform/bus.ts'
import { haltOf, isHalted } from '../platform/halts.ts'
import { notifying } from '../platform/hints.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { accountToTrade } from '../traders/accounts.ts'
import { findArchivedNames, isArchived } from './archive.ts'
import { endsMsOf } from './expired.ts'
import {
  type DraftBase,
  endOfLife,
  hasFollowers,
  insertFrom,
  jobsOfStored,
  valueColumns,
  valuesOf
} from './inserting.ts'
import type { OrderRow } from './reading.ts'

/** An order about to be stored. The statement itself finds trader, account and application. */
export interface Draft extends DraftBase {
  clientOrderId: string
  /** It is placed only on an account of this mode; null: of either mode. */
  accountMode: AccountMode | null
  /** The facts that the caller was authenticated by: the order is stored only if all of them still hold. Null: no key was used. */
  caller: { lookup: string; facts: string } | null
  /** The bus channel of the process that waits for it. */
  replyChannel: string | null
}

/** What is known of an order once it is stored. */
export type StoredOrder = Pick<OrderRow, 'id' | 'partner_id' | 'phase' | 'request_hash'> & {
  client_order_id: string
  /** What is left of its time to live when it is read, ms, by the database's clock; negative once it is over. */
  ttl_left_ms: number
  /** When it is over, ms since the epoch. */
  ends_ms: number
  /** The database's clock then, ms since the epoch. */
  read_ms: number
}

const columns =
  `o.id, o.partner_id, o.client_order_id, o.phase, o.request_hash, ${endsMsOf('o')} as ends_ms, ` +
  '(extract(epoch from o.expires_at - clock_timestamp()) * 1000)::float8 as ttl_left_ms, (extract(epoch from clock_timestamp()) * 1000)::float8 as read_ms'

export interface Stored {
  order: StoredOrder
  /** false when this is a repeat that found its order. */
  created: boolean
  /** Why a failed order that may be repeated was not queued again: a halt, or its account is of another mode than the repeat's. */
  halt?: HaltFacts
  otherMode?: true
}

/** An order that is not stored, since placing is halted. */
export interface Halted {
  order?: undefined
  halt: HaltFacts
}

/**
 * An order that was neither stored nor found: the caller's facts have changed, or the trader has no account to trade with, or one
 * of another mode. The caller finds out which refusal that is by checking in the documented order.
 */
export interface Lacking {
  order?: undefined
  lacks: 'caller' | 'account' | 'mode'
}

const draftColumns = `${valueColumns}, client_order_id text, reply_channel text, caller int, expected_mode text`

// The callers of a group whose facts hold, each checked once: usually one key stores many orders at a time. Lateral, so that each
// is found by its key also with a plan made when there were few rows.
const proven = `callers as materialized (
       select c.no, c.partner_id, p.app_id, p.dialect
         from jsonb_to_recordset(:callers::jsonb) as c (no int, partner_id text, lookup text, facts text)
        cross join lateral (select p.broker_app_id as app_id, p.broker_dialect as dialect from partners p
                             where p.id = c.partner_id and (c.facts is null or ${callerHolds({ lookup: 'c.lookup', partnerId: 'c.partner_id', facts: 'c.facts' })})
                             limit 1) p
     )`
const callerOf = (order: string) => `c.no = ${order}.caller and c.partner_id = ${order}.partner_id`

// Each draft with all that is stored with it. A null app_id means that its caller's facts do not hold, a null account that it has
// no account. Traders and accounts are found by their keys, as above.
const found = `select v.*, c.app_id, c.dialect, a.trader_id, a.broker_account_id, a.account_id, a.account_mode, a.currency, a.phase,
              null::text as copied_from, null::text as follow_id, null::boolean as raised_to_minimum
         from jsonb_to_recordset(:values::jsonb) as v (${draftColumns})
         left join callers c on ${callerOf('v')}
         left join lateral ${accountToTrade('v')} a on c.app_id is not null`

interface DraftGroup {
  values: Value[]
  /** The callers of the orders, each once. */
  callers: DraftCaller[]
}

type Value = ReturnType<typeof valuesOf> & {
  client_order_id: string
  reply_channel: string | null
  caller: number
  expected_mode: AccountMode | null
}

/** A caller of the group, by its number `no`, with the facts that authenticated it. */
interface DraftCaller {
  no: number
  partner_id: string
  lookup: string | null
  facts: string | null
}

function bindAll(drafts: Draft[]): DraftGroup {
  const callers = new Map<string, DraftCaller>()
  const values = drafts.map(draft => {
    const { partnerId, caller } = draft
    const name = caller ? `${partnerId} ${caller.lookup} ${caller.facts}` : partnerId
    const known = callers.get(name) ?? {
      no: callers.size,
      partner_id: partnerId,
      lookup: caller?.lookup ?? null,
      facts: caller?.facts ?? null
    }
    callers.set(name, known)
    const { clientOrderId, replyChannel, accountMode } = draft
    return {
      ...valuesOf(draft),
      client_order_id: clientOrderId,
      reply_channel: replyChannel,
      caller: known.no,
      expected_mode: accountMode
    }
  })
  return { values, callers: [...callers.values()] }
}

const textsOf = ({ values, callers }: DraftGroup) => ({
  values: JSON.stringify(values),
  callers: JSON.stringify(callers)
})

/**
 * Stores orders and their jobs at once: no transaction around it is needed. A clientOrderId that exists finds its
 * order; a FAILED one that never reached the broker is queued again under the same id. Returns them in the order of the
 * drafts; two equal ids among them share one order. A repeat with other terms throws nothing here: compare
 * `request_hash`. With `notify` the workers are notified of the jobs; without, that is the caller's.
 */
export async function storeOrders(
  db: Db,
  queue: Queue,
  drafts: Draft[],
  { notify = false }: { notify?: boolean } = {}
): Promise<(Stored | Halted | Lacking)[]> {
  const group = bindAll(drafts)
  const { values } = group
  const known = new Map<string, Stored>()
  const halted = new Map<string, HaltFacts>()
  const lacking = new Map<string, Lacking['lacks']>()
  for (const { draft_id, lacks, halt, ...order } of await insertOrders(db, queue, group, notify)) {
    if (lacks) lacking.set(draft_id, lacks)
    else if (halt) halted.set(draft_id, halt)
    else known.set(keyOf(order), { order, created: true })
  }
  const repeats = values.filter(value => !lacking.has(value.id) && !known.has(keyOf(value)))
  if (repeats.length > 0) {
    for (const order of await reopenOrders(db, queue, { ...group, values: repeats }, notify))
      known.set(keyOf(order), { order, created: true })
    for (const { halt, otherMode, ...order } of await findRepeated(db, repeats))
      if (!known.has(keyOf(order)))
        known.set(keyOf(order), {
          order,
          created: false,
          ...(halt ? { halt } : {}),
          ...(otherMode ? { otherMode } : {})
        })
    const others = repeats.filter(value => !known.has(keyOf(value)))
    for (const order of await findArchivedOrders(db, others)) known.set(keyOf(order), { order, created: false })
  }
  const mentioned = new Set<string>()
  return values.map((value): Stored | Halted | Lacking => {
    const lacks = lacking.get(value.id)
    if (lacks) return { lacks }
    const stored = known.get(keyOf(value))
    const halt = halted.get(value.id)
    if (!stored && halt) return { halt }
    if (!stored) throw new Error(`The draft ${value.id} was neither stored nor refused.`)
    // When two drafts of a group have the same id, only the first one created the order.
    const created = stored.created && !mentioned.has(stored.order.id)
    mentioned.add(stored.order.id)
    return { ...stored, created }
  })
}

// Notifies the workers of the work that each phase needs.
const workNotified = `, ${notifying(`select '${WORK}', case phase when 'queued' then 'order.place new' else 'account.prove new' end from stored group by phase`)}`
// Reading them makes the statement send them.
const messagesSent = ', (select messages from woken) as messages'

type Handled = StoredOrder & { draft_id: string; halt: HaltFacts | null; lacks: Lacking['lacks'] | null }

/** Inserts the drafts whose facts hold. Returns these and the refused ones; a draft that is in neither has its order already. */
function insertOrders(db: Db, queue: Queue, group: DraftGroup, notify: boolean): Promise<Handled[]> {
  return rows(
    db,
    sql`with ${proven}, found as materialized (${found}), wanted as materialized (
       select f.*, ${haltOf('f')} as halt,
              case when f.app_id is null then 'caller' when f.broker_account_id is null then 'account'
                   when f.expected_mode <> f.account_mode then 'mode' end as lacks
         from found f
     ), stored as (
       ${insertFrom(`(select * from wanted w
                where w.lacks is null and w.halt is null and not ${isArchived('w.partner_id', 'w.client_order_id')}
                order by w.partner_id, w.client_order_id, w.id) v`)}
       returning o.account_id, ${columns}
     ), enqueued as (${queue.enqueueing('order.place', jobsOfStored)})${notify ? workNotified : ''}
     select w.id as draft_id, w.halt, w.lacks, s.*${notify ? messagesSent : ''} from wanted w left join stored s on s.id = w.id
      where s.id is not null or w.lacks is not null or w.halt is not null`,
    textsOf(group)
  )
}

/**
 * Queues failed orders again that may be repeated, if their callers' facts hold: with their terms, their account as it is now, and the
 * application and dialect that their partner has now. Their old ones may not be in use any more, and another halt applies to these.
 */
function reopenOrders(db: Db, queue: Queue, repeats: DraftGroup, notify: boolean): Promise<StoredOrder[]> {
  return rows(
    db,
    sql`with ${proven}, present as materialized (
         -- The trader is locked as the foreign key of a new order locks it: an erasure finds the order queued, or has come before.
         select v.*, c.app_id, c.dialect, t.trader_id
           from jsonb_to_recordset(:values::jsonb) as v (${draftColumns})
           join callers c on ${callerOf('v')}
          cross join lateral (select t.id as trader_id from traders t where t.partner_id = v.partner_id and t.external_id = v.trader_external_id
                               limit 1 for key share skip locked) t
       ), stored as (
         update orders o
            set phase = case when a.proven_version = a.token_version then 'queued' else 'unproven' end, account_mode = a.account_mode,
                app_id = r.app_id, dialect = r.dialect,
                queued_at = clock_timestamp(), not_before = null,
                expires_at = ${endOfLife('r')}, reply_channel = r.reply_channel, trace = r.trace, sent_at = null,
                permit_until = null, sender = null, resolve_at = null, checks = 0, absence_checks = 0, error_code = null, error_message = null,
                error_extras = null, retryable = false, evidence = null,
                has_followers = ${hasFollowers('o.trader_id')}
           from present r, broker_accounts a
          where a.id = o.broker_account_id and o.partner_id = r.partner_id and o.client_order_id = r.client_order_id and o.trader_id = r.trader_id
            and o.phase = 'failed' and o.retryable and o.request_hash = decode(r.request_hash, 'hex')
            and (r.expected_mode is null or r.expected_mode = a.account_mode)
            and not ${isHalted('r')}
         returning o.account_id, ${columns}
       ), enqueued as (${queue.enqueueing('order.place', jobsOfStored)})${notify ? workNotified : ''}
       select *${notify ? messagesSent : ''} from stored`,
    textsOf(repeats)
  )
}

/** The existing orders of clientOrderIds; with the reason for which one that may be repeated cannot be now. */
function findRepeated(
  db: Db,
  repeats: Value[]
): Promise<(StoredOrder & { halt: HaltFacts | null; otherMode: true | null })[]> {
  return rows(
    db,
    `select ${columns}, case when o.phase = 'failed' and o.retryable then ${haltOf('w')} end as halt,
            case when o.phase = 'failed' and o.retryable and r.expected_mode <> a.account_mode then true end as "otherMode"
       from unnest(:partners::text[], :clients::text[], :modes::text[]) as r (partner_id, client_order_id, expected_mode)
       join orders o using (partner_id, client_order_id) join broker_accounts a on a.id = o.broker_account_id
       join partners p on p.id = o.partner_id
      cross join lateral (select o.partner_id, o.asset, p.broker_app_id as app_id) w`,
    {
      partners: repeats.map(({ partner_id }) => partner_id),
      clients: repeats.map(({ client_order_id }) => client_order_id),
      modes: repeats.map(({ expected_mode }) => expected_mode)
    }
  )
}

/**
 * The archived orders of clientOrderIds. A dropped order has an empty hash, which matches no terms: its clientOrderId is taken,
 * and what it bought is unknown.
 */
async function findArchivedOrders(
  db: Db,
  repeats: Pick<StoredOrder, 'partner_id' | 'client_order_id'>[]
): Promise<StoredOrder[]> {
  if (repeats.length === 0) return []
  const found = await findArchivedNames(
    db,
    repeats.map(repeat => ({ partnerId: repeat.partner_id, clientOrderId: repeat.client_order_id }))
  )
  return found.map(({ id, partnerId, clientOrderId, requestHash, phase }) => ({
    id,
    partner_id: partnerId,
    client_order_id: clientOrderId,
    phase,
    request_hash: requestHash ?? Buffer.alloc(0),
    ttl_left_ms: 0,
    ends_ms: 0,
    read_ms: 0
  }))
}

/** The order of a clientOrderId, and whether a repeat may place it. */
export async function findStored(
  db: Db,
  { partnerId, clientOrderId }: { partnerId: string; clientOrderId: string }
): Promise<(StoredOrder & { retryable: boolean }) | undefined> {
  const [order] = await rows<StoredOrder & { retryable: boolean }>(
    db,
    `select ${columns}, o.retryable from orders o where o.partner_id = :partnerId and o.client_order_id = :clientOrderId`,
    { partnerId, clientOrderId }
  )
  if (order) return order
  const [archived] = await findArchivedOrders(db, [{ partner_id: partnerId, client_order_id: clientOrderId }])
  return archived && { ...archived, retryable: false }
}

const keyOf = (order: Pick<StoredOrder, 'partner_id' | 'client_order_id'>) =>
  `${order.partner_id} ${order.client_order_id}`
