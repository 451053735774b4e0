// Random questions of analytics over orders that keep changing, each compared with a plain sum over the orders of the same snapshot.
import { Big } from 'big.js'
import { type Revenue, type RevenueGroup, readRevenue } from '../../db/analytics/revenue.ts'
import { listTraderSums } from '../../db/analytics/trader-pages.ts'
import { readTrader, type TraderAnalytics, type TraderSums, traderSorts } from '../../db/analytics/traders.ts'
import type { Interval, Window } from '../../db/analytics/windows.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { TestPartner, TestTrader } from '../support/harness.ts'
import { bucketOf, bucketsOf, groupOf, plainSums } from './plain.ts'

const DAY_MS = 86_400_000
// Half and quarter hours, daylight saving at midnight, at odd hours and by half an hour, both sides of the date line.
export const zones = [
  'UTC',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Europe/Berlin',
  'America/New_York',
  'America/St_Johns',
  'Australia/Lord_Howe',
  'Australia/Adelaide',
  'Pacific/Chatham',
  'Pacific/Kiritimati',
  'America/Havana',
  'Africa/Cairo',
  'Asia/Beirut',
  'America/Santiago',
  'Pacific/Marquesas'
]

/** Numbers of [0, 1) that follow from a seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

const pick = <T>(of: readonly T[], next: () => number): T => of[Math.floor(next() * of.length)] as T

export interface Question extends Window {
  kind: 'revenue' | 'traders' | 'trader'
  groupBy: RevenueGroup | null
  sort: (typeof traderSorts)[number]
  trader: string
}

/** A question about the last `days` days, of which every sort comes up. */
export function questionOf(
  next: () => number,
  { partnerId, traders, days, nowMs }: { partnerId: string; traders: TestTrader[]; days: number; nowMs: number }
): Question {
  const interval = pick<Interval>(['hour', 'day', 'day', 'week', 'month'], next)
  const firstMs = nowMs - days * DAY_MS
  const most = interval === 'hour' ? Math.min(days, 10) : days
  const length = next() ** 2 * most * DAY_MS + 1
  const round = pick([1, 60_000, 900_000, DAY_MS], next)
  const start = Math.floor((firstMs + next() * (days * DAY_MS - length)) / round) * round
  // Half of them end now.
  const to = next() < 0.5 ? nowMs : Math.min(nowMs, start + length)
  const from = interval === 'hour' ? Math.max(start, to - most * DAY_MS) : start
  return {
    partnerId,
    kind: pick(['revenue', 'revenue', 'revenue', 'traders', 'trader'], next),
    from: new Date(Math.min(from, to - 1)).toISOString(),
    to: new Date(to).toISOString(),
    timezone: pick(zones, next),
    interval,
    accountMode: pick(['REAL', 'DEMO', 'ALL'] as const, next),
    currency: pick([null, null, 'USD', 'EUR'], next),
    groupBy: pick([null, null, 'asset', 'contractType', 'kind', 'accountMode'] as const, next),
    sort: pick(traderSorts, next),
    trader: pick(traders, next).traderExternalId
  }
}

/** What of the response differs from the plain sums, in words; empty when nothing does. Reads both in one snapshot. */
export async function differencesOf(db: Db, question: Question): Promise<string[]> {
  // Compared after the transaction: the database ends one that is idle while this process computes.
  const comparison = await db.transaction(
    async trx => {
      const axis = question.kind === 'revenue' ? 'opened_at' : 'closed_at'
      const orders = await rows<OrderRow>(
        trx,
        `select * from orders where partner_id = :partnerId and phase in ('open', 'closed') and ${axis} >= :from::timestamptz and ${axis} < :to::timestamptz
            and (:accountMode = 'ALL' or account_mode = :accountMode) and (:currency::text is null or currency = :currency)`,
        { ...question }
      )
      const closed = orders.filter(({ phase }) => phase === 'closed')
      if (question.kind === 'revenue') return ofRevenue(trx, question, orders)
      return question.kind === 'traders' ? ofTraders(trx, question, closed) : ofTrader(trx, question, closed)
    },
    { isolationLevel: 'repeatable read', readOnly: true }
  )
  return comparison()
}

/** Computes the plain sums and compares. */
type Comparison = () => string[]

const same = (a: unknown, b: unknown): boolean =>
  typeof a === 'string' && typeof b === 'string' && /^-?[\d.]+$/.test(a) && /^-?[\d.]+$/.test(b)
    ? new Big(a).eq(b)
    : a === b

/** Where two lists of rows under keys differ. */
function compare(actual: Map<string, object>, expected: Map<string, object>): string[] {
  const found: string[] = []
  for (const key of new Set([...actual.keys(), ...expected.keys()])) {
    const [is, should] = [actual.get(key), expected.get(key)]
    if (!is || !should)
      found.push(`${key}: ${is ? `not expected ${JSON.stringify(is)}` : `missing ${JSON.stringify(should)}`}`)
    else
      for (const [name, value] of Object.entries(should))
        if (!same((is as Record<string, unknown>)[name], value))
          found.push(`${key}: ${name} is ${(is as Record<string, unknown>)[name]}, the orders say ${value}`)
  }
  return found
}

function grouped<T>(list: T[], keyOf: (each: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const each of list) {
    const key = keyOf(each)
    const group = groups.get(key)
    if (group) group.push(each)
    else groups.set(key, [each])
  }
  return groups
}

async function ofRevenue(trx: Db, question: Question, orders: OrderRow[]): Promise<Comparison> {
  const revenue = await readRevenue(trx, question)
  return () => compareRevenue(revenue, question, orders)
}

function compareRevenue(revenue: Revenue, question: Question, orders: OrderRow[]): string[] {
  const { groupBy, from } = question
  const expected = new Map<string, object>()
  const keyOf = (bucket: string, currency: string | null, group: string | null) => `${bucket} ${currency} ${group}`
  const bucketOfOrder = ({ opened_at }: OrderRow) => bucketOf((opened_at as Date).getTime(), question)
  for (const [key, some] of grouped(orders, order =>
    keyOf(bucketOfOrder(order), order.currency, groupOf(order, groupBy))
  ))
    expected.set(key, plainSums(some))
  if (groupBy === null)
    for (const currency of new Set(orders.map(order => order.currency)))
      for (const bucket of bucketsOf(Date.parse(from), Date.parse(question.to), question)) {
        const key = keyOf(bucket, currency, null)
        if (!expected.has(key)) expected.set(key, plainSums([]))
      }
  const actual = new Map(
    revenue.data.map(row => [keyOf(bucketOf(row.start.getTime(), question), row.currency, row.group), row])
  )
  const found = compare(actual, expected)
  if (actual.size !== revenue.data.length) found.push('a bucket comes twice')
  for (const { start } of revenue.data)
    if (
      start.getTime() !== Date.parse(from) &&
      bucketOf(start.getTime() - 1, question) === bucketOf(start.getTime(), question)
    )
      found.push(`${start.toISOString()} is not the first instant of its bucket`)
  const unknown = orders.some(({ phase, markup }) => phase === 'open' || markup === null)
  if (unknown && revenue.complete) found.push('it is said to be complete')
  return found
}

function tradedSums(orders: OrderRow[]) {
  const { contracts, stake, payout, markup, markupUnknown, tradersPnl } = plainSums(orders)
  return {
    trades: contracts,
    won: orders.filter(({ pnl }) => Number(pnl) > 0).length,
    stake,
    payout,
    pnl: tradersPnl,
    markup,
    markupUnknown,
    copied: orders.filter(({ copied_from }) => copied_from !== null).length
  }
}

type ReadTrader = Pick<TraderSums, 'traderExternalId' | 'stake' | 'pnl' | 'markup' | 'trades' | 'lastTradeAt'>

async function ofTraders(trx: Db, question: Question, orders: OrderRow[]): Promise<Comparison> {
  const { sort } = question
  const currency = question.currency ?? 'USD'
  const { partnerId, from, to, accountMode } = question
  const read: ReadTrader[] = []
  let cursor: string | null = null
  do {
    const page = await listTraderSums(trx, {
      partnerId,
      from,
      to,
      accountMode,
      currency,
      sort,
      limit: 7,
      ...(cursor ? { cursor } : {})
    })
    read.push(...page.data)
    cursor = page.nextCursor
  } while (cursor)
  return () => compareTraders(read, question, orders)
}

function compareTraders(read: ReadTrader[], question: Question, orders: OrderRow[]): string[] {
  const { sort } = question
  const currency = question.currency ?? 'USD'
  const expected = new Map<string, object>()
  for (const [key, some] of grouped(
    orders.filter(order => order.currency === currency),
    order => order.trader_external_id
  ))
    expected.set(key, tradedSums(some))
  const found = compare(new Map(read.map(row => [row.traderExternalId, row])), expected)
  if (new Set(read.map(({ traderExternalId }) => traderExternalId)).size !== read.length)
    found.push('a trader comes twice')
  const keys = read.map(row =>
    Number(sort === 'volume' ? row.stake : sort === 'lastTradeAt' ? row.lastTradeAt : row[sort])
  )
  if (keys.some((key, index) => index > 0 && key > (keys[index - 1] as number))) found.push('the order is wrong')
  return found
}

async function ofTrader(trx: Db, question: Question, all: OrderRow[]): Promise<Comparison> {
  const analytics = await readTrader(trx, { ...question, traderExternalId: question.trader })
  return () => compareTrader(analytics, question, all)
}

function compareTrader(analytics: TraderAnalytics, question: Question, all: OrderRow[]): string[] {
  const orders = all.filter(order => order.trader_external_id === question.trader)
  const whole = new Map<string, object>()
  for (const [key, some] of grouped(orders, order => `${order.currency}`)) whole.set(key, tradedSums(some))
  const series = new Map<string, object>()
  const keyOf = (order: OrderRow) => `${bucketOf((order.closed_at as Date).getTime(), question)} ${order.currency}`
  for (const [key, some] of grouped(orders, keyOf)) series.set(key, tradedSums(some))
  return [
    ...compare(new Map(analytics.data.map(row => [`${row.currency}`, row])), whole),
    ...compare(
      new Map(analytics.series.map(row => [`${bucketOf(row.start.getTime(), question)} ${row.currency}`, row])),
      series
    )
  ]
}

/** Inserts orders of random terms and states, bought within the last `days` days. Stakes in other currencies are converted. */
export async function insertRandomOrders(
  db: Db,
  { traders, count, days, seconds = 0 }: { traders: TestTrader[]; count: number; days: number; seconds?: number }
): Promise<void> {
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id, dialect,
       kind, contract_type, direction, multiplier, client_order_id, copied_from, request_hash, asset, stake, stake_in_account, exchange_rate, phase, created_at, expires_at,
       broker_order_id, transaction_id, buy_price, payout, commission, markup, opened_at, pnl, closed_at)
     select 'ord_' || left(replace(gen_random_uuid()::text, '-', ''), 26), t.partner_id, t.id, t.external_id, a.id, a.account_id,
       d.mode, d.currency, '1', 'v3', d.kind, case d.kind when 'BINARY' then (array['CALL', 'PUT', 'DIGITEVEN'])[1 + floor(random() * 3)::int] end,
       case d.kind when 'MULTIPLIER' then (array['up', 'down'])[1 + floor(random() * 2)::int] end, case d.kind when 'MULTIPLIER' then 100 end,
       case when d.copy and first.id is not null then null else gen_random_uuid()::text end, case when d.copy then first.id end,
       '\\x00', (array['R_100', 'R_50', '1HZ100V', 'frxEURUSD'])[1 + floor(random() * 4)::int], d.stake,
       case when d.currency = 'EUR' then round(d.stake * 0.9137, 2) end, case when d.currency = 'EUR' then 0.9137 end,
       case when d.closed then 'closed' else 'open' end, d.opened, d.opened, gen_random_uuid()::text, (1e12 * random())::bigint::text, d.stake, round(d.stake * 1.95, 2),
       case d.kind when 'MULTIPLIER' then round((random() * 2)::numeric, 2) end, case when random() < 0.8 then round((random() * 0.6)::numeric, 2) end,
       d.opened, case when d.closed then round((random() * 20 - d.stake)::numeric, 2) end,
       case when d.closed then least(now(), d.opened + (random() ^ 3) * interval '2 days') end
       from generate_series(1, :count) n
      cross join lateral (
        select n % 9 = 0 as copy, (:traders::text[])[1 + floor(random() * :many)::int] as trader, random() < 0.7 as closed,
               case when random() < 0.7 then 'REAL' else 'DEMO' end as mode, (array['USD', 'USD', 'EUR', 'JPY'])[1 + floor(random() * 4)::int] as currency,
               case when random() < 0.8 then 'BINARY' else 'MULTIPLIER' end as kind, round((1 + random() * 99)::numeric, 2) as stake,
               date_trunc('milliseconds', case when :seconds::float8 > 0 then now() - random() * :seconds::float8 * interval '1 second'
                                               else now() - random() * :days::float8 * interval '1 day' end) as opened) d
       join traders t on t.id = d.trader join broker_accounts a on a.id = t.active_account_id
       left join (select min(id) as id from orders where copied_from is null and partner_id = (select partner_id from traders where id = (:traders::text[])[1])) first on true`,
    { count, days, seconds, traders: traders.map(({ traderId }) => traderId), many: traders.length }
  )
}

/** As if nothing that was opened or closed since had ever been added up, and nothing been marked. */
export async function forgetSums(db: Db, since: string): Promise<void> {
  await db.raw(
    `update analytics_until set until = date_bin('1 day', now() - interval '${since}', timestamptz '2000-01-01 00:00+00')`
  )
  await db.raw('update analytics_closes_until set until = u.until from analytics_until u')
  for (const table of [
    'closes',
    'late_closes',
    'quarters',
    'days',
    'trader_days',
    'late_quarters',
    'late_days',
    'steps',
    'step_groups',
    'step_places',
    'step_chunks',
    'step_totals',
    'step_changes'
  ])
    await db.raw(`delete from analytics_${table}`)
}

/** What happens to orders late: some close, long ago or now, of some the markup becomes known, some are corrected. */
export async function changeOrders(
  db: Db,
  { partnerId }: Pick<TestPartner, 'partnerId'>,
  next: () => number
): Promise<void> {
  const some = (phase: string) =>
    `(select id from orders where partner_id = :partnerId and phase = '${phase}' and random() < 0.3 limit 12)`
  const changes = [
    `update orders set phase = 'closed', pnl = round((random() * 20 - buy_price)::numeric, 2), closed_at = date_trunc('milliseconds', now()), markup = coalesce(markup, 0.11)
      where id in ${some('open')} and phase = 'open'`,
    `update orders set phase = 'closed', pnl = round((random() * 20 - buy_price)::numeric, 2),
            closed_at = date_trunc('milliseconds', opened_at + random() * (now() - opened_at)) where id in ${some('open')} and phase = 'open'`,
    `update orders set markup = round((random() * 0.6)::numeric, 2) where id in ${some('open')}`,
    `update orders set markup = coalesce(markup, 0) + 0.01 where id in ${some('closed')}`,
    `update orders set commission = coalesce(commission, 0) + 0.05 where id in ${some('open')} and kind = 'MULTIPLIER'`,
    `update orders set pnl = pnl + 0.37 where id in ${some('closed')}`,
    `update orders set closed_at = greatest(opened_at, date_trunc('milliseconds', closed_at - interval '3 hours')) where id in ${some('closed')}`,
    `update orders set current_value = 1, marked_at = now() where id in ${some('open')}`
  ]
  await rows(db, pick(changes, next), { partnerId })
}
