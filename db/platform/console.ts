// Statements of the operator's console beyond those of the commands. It refreshes every second, so orders are read in parts,
// by one of their indexes.
import type { AccountMode } from '../../schemas/fields/fields.ts'
import { orderIdAt } from '../../schemas/fields/ids.ts'
import type { Plan, SaasStatus } from '../../schemas/partners.ts'
import { inReview } from '../orders/listing.ts'
import type { Phase } from '../orders/reading.ts'
import { saasStatus } from '../partners/partners.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { findNamedOrders } from './named.ts'

const STATEMENT_TIMEOUT_MS = 3000

/** Runs `read` in one read-only transaction, each of whose statements ends after 3 s. */
export async function readShortly<T>(db: Db, read: (trx: Db) => Promise<T>): Promise<T> {
  return db.transaction(
    async trx => {
      await trx.raw(`set local statement_timeout = ${STATEMENT_TIMEOUT_MS}`)
      return read(trx)
    },
    { readOnly: true }
  )
}

/** What became of the orders of one minute. */
export interface Minute {
  /** Its beginning, in seconds since 1970. */
  at: number
  placed: number
  failed: number
  /** Median of the time from when an order was sent to the broker's response, without orders of test keys; null when nothing was bought. */
  brokerMs: number | null
}

/** Most orders read for the figures of a window. */
const WINDOW_ORDERS = 200_000
// Identifiers are ordered by time: the primary key serves as the index by time, which orders do not have. They
// are made a moment before the row, by clocks that may differ a little.
const CLOCK_SLACK_MS = 60_000

/** The minutes with orders among the last `minutes`, oldest first, the one under way included. */
export async function readMinutes(db: Db, minutes: number): Promise<Minute[]> {
  return rows<Minute>(
    db,
    `select extract(epoch from date_trunc('minute', created_at))::int as at, count(*) as placed,
            count(*) filter (where phase = 'failed') as failed,
            percentile_cont(0.5) within group (order by extract(epoch from answered_at - sent_at)::float8 * 1000)
              filter (where answered_at is not null and sent_at is not null and dialect <> 'test') as "brokerMs"
       from (select created_at, phase, answered_at, sent_at, dialect from orders where id >= :since order by id desc limit ${WINDOW_ORDERS}) o
      where created_at >= date_trunc('minute', clock_timestamp()) - (:minutes - 1) * interval '1 minute'
      group by 1 order by 1`,
    { minutes, since: orderIdAt(Date.now() - minutes * 60_000 - CLOCK_SLACK_MS) }
  )
}

/** How many orders are in a phase that has not ended, and how old the oldest is. */
export interface PhaseCount {
  phase: Phase
  count: number
  oldestSeconds: number | null
  /** Of open orders, how many wait for the operator's decision, since their settlement contradicts itself. */
  decisions: number
}

/** Unproven, queued, sending, review and open orders; one partial index each. Those of test keys raise no alarms: of all but the open ones they are left out. */
export async function readPhaseCounts(db: Db): Promise<PhaseCount[]> {
  const one = (phase: Phase, since: string) =>
    `select '${phase}' as phase, count(*) as count,
            extract(epoch from clock_timestamp() - min(${since}))::float8 as "oldestSeconds", 0 as decisions
       from orders where phase = '${phase}' and dialect <> 'test'`
  return rows<PhaseCount>(
    db,
    [
      one('unproven', 'queued_at'),
      one('queued', 'queued_at'),
      one('sending', 'sent_at'),
      one('review', 'coalesce(sent_at, queued_at)'),
      // Open orders are counted from their index alone. Those that wait for a decision are found by what was reported of them.
      `select 'open' as phase, count(*) as count, null::float8 as "oldestSeconds",
              (select count(*) from contract_breaks f join orders o on o.id = f.order_id
                where f.kind = 'IMPLAUSIBLE' and o.phase = 'open' and o.dialect <> 'test' and ${inReview}) as decisions
         from orders where phase = 'open'`
    ].join(' union all ')
  )
}

export interface LedgerSummary {
  wallets: number
  /** What the wallets hold together. */
  heldUsd: string
  negativeWallets: number
  /** Sum of all balances; anything but 0 is an alarm. */
  driftUsd: string
}

/** The ledger at a glance; proving it is `operator ledger verify`. */
export async function readLedger(db: Db): Promise<LedgerSummary> {
  const [summary] = await rows<LedgerSummary>(
    db,
    `select count(*) filter (where kind = 'wallet' and not test) as wallets,
            coalesce(sum(balance) filter (where kind = 'wallet' and not test), 0)::text as "heldUsd",
            count(*) filter (where kind = 'wallet' and balance < 0) as "negativeWallets",
            coalesce(sum(balance), 0)::text as "driftUsd"
       from ledger_accounts`
  )
  return summary as LedgerSummary
}

export interface PartnerLine {
  partnerId: string
  name: string
  plan: Plan
  saasStatus: SaasStatus
  suspendedReason: string | null
  brokerDialect: string
  createdAt: Date
  /** Counted up to 1000. */
  traders: number
  balanceUsd: string
}

/** Partners, newest first, at most `limit`; with `text` in their name or id where one is given. */
export async function listPartnerLines(
  db: Db,
  { text = '', partnerId = null, limit }: { text?: string; partnerId?: string | null; limit: number }
): Promise<PartnerLine[]> {
  return rows<PartnerLine>(
    db,
    `select p.id as "partnerId", p.name, p.plan, ${saasStatus} as "saasStatus", p.suspended_reason as "suspendedReason",
            p.broker_dialect as "brokerDialect", p.created_at as "createdAt",
            (select count(*) from (select from traders t where t.partner_id = p.id limit 1000) t) as traders,
            coalesce((select a.balance from ledger_accounts a where a.id = 'wallet:' || p.id), 0.00)::text as "balanceUsd"
       from (select * from partners
              where (:sought = '' or strpos(lower(name), lower(:sought)) > 0 or strpos(id, :sought) > 0)
                and case when :partnerId::text is null then test_of is null else id = :partnerId end
              order by id desc limit :limit) p
      order by p.id desc`,
    { sought: text, partnerId, limit }
  )
}

export interface TraderLine {
  traderId: string
  externalId: string
  name: string | null
  accountId: string | null
  connectedAt: Date | null
}

/** Traders of a partner in the order of its own ids for them, at most `limit`, with the account each is on. */
export async function listTraderLines(
  db: Db,
  { partnerId, limit }: { partnerId: string; limit: number }
): Promise<TraderLine[]> {
  return rows<TraderLine>(
    db,
    `select t.id as "traderId", t.external_id as "externalId", t.name, a.account_id as "accountId",
            t.connected_at as "connectedAt"
       from (select * from traders where partner_id = :partnerId order by external_id limit :limit) t
       left join broker_accounts a on a.id = t.active_account_id
      order by t.external_id`,
    { partnerId, limit }
  )
}

export interface OrderLine {
  id: string
  phase: Phase
  status: string
  partner: string
  trader_external_id: string
  account_id: string
  kind: string
  asset: string
  contract_type: string | null
  direction: string | null
  multiplier: string | null
  stake: string
  currency: string | null
  pnl: string | null
  error_code: string | null
  created_at: Date
  /** Since it was sent, or queued where it was not. */
  ageSeconds: number
  /** For a review: how many contracts of the broker could be this order's. */
  candidates: number
}

const line = `o.id, o.phase, o.status, p.name as partner, o.trader_external_id, o.account_id, o.kind, o.asset, o.contract_type,
  o.direction, o.multiplier, o.stake::text, o.currency, o.pnl::text, o.error_code, o.created_at,
  extract(epoch from clock_timestamp() - coalesce(o.sent_at, o.queued_at))::float8 as "ageSeconds",
  case jsonb_typeof(o.evidence) when 'array' then jsonb_array_length(o.evidence) else 0 end as candidates`

/** How many of the newest orders a filter reads. */
export const MOST_SEARCHED = 10_000

interface OrderLineFilter {
  /** PENDING, OPEN, CLOSED, FAILED or REVIEW. */
  status?: string
  /** Part of an order's, contract's, account's or trader's id, of clientOrderId or of the asset. */
  text?: string
  limit: number
}

/**
 * Orders of all partners, newest first; with a filter, those of the newest 10 000 that pass it, and those that the text
 * names in full, however old they are.
 */
export async function listOrderLines(db: Db, filter: OrderLineFilter): Promise<OrderLine[]> {
  const lines = await listRecentLines(db, filter)
  const { status = '', text = '', limit } = filter
  if (text === '' || status !== '' || lines.length >= limit) return lines
  const named = await findNamedOrders(db, text)
  const missing = named.map(({ orderId }) => orderId).filter(id => !lines.some(each => each.id === id))
  if (missing.length === 0) return lines
  const older = await rows<OrderLine>(
    db,
    `select ${line} from orders o join partners p on p.id = o.partner_id where o.id = any(:missing) order by o.id desc`,
    { missing }
  )
  return [...lines, ...older].slice(0, limit)
}

async function listRecentLines(db: Db, { status = '', text = '', limit }: OrderLineFilter): Promise<OrderLine[]> {
  return rows<OrderLine>(
    db,
    `select ${line}
       from (select * from orders order by id desc limit :among) o join partners p on p.id = o.partner_id
      where (:status = '' or case when ${inReview} then 'REVIEW' else o.status end = :status)
        and (:sought = '' or strpos(lower(concat_ws(' ', o.id, o.client_order_id, o.broker_order_id, o.account_id,
                                                  o.trader_external_id, o.asset, p.name)), lower(:sought)) > 0)
      order by o.id desc limit :limit`,
    { status, sought: text, limit, among: status === '' && text === '' ? limit : MOST_SEARCHED }
  )
}

/** Orders sent without a response and orders waiting for a decision, reviews first, oldest first; none of test keys. */
export async function listDoubtLines(db: Db, limit: number): Promise<OrderLine[]> {
  return rows<OrderLine>(
    db,
    `select ${line}
       from ((select * from orders where phase = 'review' and dialect <> 'test' order by created_at limit :limit)
             union all
             (select * from orders where phase = 'sending' and dialect <> 'test' order by resolve_at limit :limit)) o
       join partners p on p.id = o.partner_id
      order by o.phase = 'review' desc, "ageSeconds" desc limit :limit`,
    { limit }
  )
}

/** Jobs that have failed for good and are kept by the queue, by queue. */
export async function countFailedJobs(db: Db): Promise<Map<string, number>> {
  const found = await rows<{ name: string; count: number }>(
    db,
    `select name, count(*) as count from pgboss.job where state = 'failed' group by name`
  )
  return new Map(found.map(({ name, count }) => [name, count]))
}

export interface WalletLine {
  partnerId: string
  name: string
  plan: Plan
  balanceUsd: string
}

/** Wallets, the emptiest first, at most `limit`. */
export async function listWalletLines(db: Db, limit: number): Promise<WalletLine[]> {
  return rows<WalletLine>(
    db,
    `select p.id as "partnerId", p.name, p.plan, a.balance::text as "balanceUsd"
       from (select * from ledger_accounts where kind = 'wallet' and not test order by balance, id limit :limit) a
       join partners p on p.id = a.partner_id
      order by a.balance, a.id`,
    { limit }
  )
}

export interface PayoutTotal {
  status: string
  count: number
  amountUsd: string
}

/** Payouts that still need something done, by status: how many and how much together. */
export async function readPayoutTotals(db: Db): Promise<PayoutTotal[]> {
  return rows<PayoutTotal>(
    db,
    `select status, count(*) as count, sum(amount)::text as "amountUsd" from payouts
      where status in ('REQUESTED', 'APPROVED') and partner_id not in (select id from partners where test_of is not null)
      group by status`
  )
}

/** What a partner's application earned in one currency. */
export interface EarningLine {
  partnerId: string
  name: string
  currency: string | null
  contracts: number
  stake: string
  markup: string
  /** Markup of each day of UTC, today last. */
  days: string[]
}

/** Earnings of the last `days` days as far as they are added up, without those of test sides, the largest markup first, at most `limit`. */
export async function listEarningLines(
  db: Db,
  { mode, days, limit }: { mode: AccountMode | 'ALL'; days: number; limit: number }
): Promise<EarningLine[]> {
  return rows<EarningLine>(
    db,
    `with today as materialized (
       -- A day has its row once all of it is added up, some minutes after its end.
       select now.today, least(now.today, (until at time zone 'UTC')::date) as whole
         from analytics_until cross join (select (now() at time zone 'UTC')::date as today) now
     ), parts as (
       select p.id, p.name, d.day, d.currency, d.contracts, d.stake, d.markup
         from today cross join partners p cross join lateral (
           select day, currency, contracts, stake, markup from analytics_days
            where partner_id = p.id and grouping_by = '' and account_mode = :mode and day > today - :days::int and day < whole
           union all
           select (quarter at time zone 'UTC')::date, currency, contracts, stake, markup from analytics_quarters
            where partner_id = p.id and grouping_by = '' and account_mode = :mode and quarter >= greatest(whole, today - :days::int + 1)::timestamp at time zone 'UTC') d
        where p.test_of is null
     ), sums as (
       select id, name, currency, day, sum(contracts) as contracts, sum(stake) as stake, sum(markup) as markup from parts group by 1, 2, 3, 4
     )
     select id as "partnerId", name, nullif(currency, '') as currency, sum(contracts)::int as contracts, sum(stake)::text as stake,
            sum(markup)::text as markup,
            array(select coalesce((select s.markup from sums s where s.id = w.id and s.currency = w.currency and s.day = d.day::date), 0)::text
                    from today cross join generate_series(today - :days::int + 1, today, '1 day') d (day) order by d.day) as days
       from sums w group by id, name, currency order by sum(markup) desc, id, currency limit :limit`,
    { mode, days, limit }
  )
}
