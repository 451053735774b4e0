// The broker's report of an application's markups, compared with the orders: by day of UTC, as the broker reports, and by
// currency. Both sides contain real accounts only, and contracts with a markup only. Several partners may use one application,
// whose report contains the contracts of all: those that orders of other partners have are left out. Where the report has sums
// only, the broker's figures are null for a day on which another partner bought something.
import { allOrders } from '../orders/archive.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { MOST_ROWS, refuseTooMany } from './windows.ts'

/** A partner's application at the broker. */
export interface ReportedApplication {
  partnerId: string
  dialect: string
  appId: string
}

/** The broker's side of a day. */
interface TheirDay {
  sums: { currency: string; contracts: number; markup: string }[]
  /** Each contract, by the broker's id of its purchase; null where only sums are known. */
  contracts: { transactionId: string; accountId: string; currency: string; markup: string }[] | null
  consistent: boolean
}

// The broker reports a contract an hour after its purchase; the second hour is for clocks and late reports.
const REPORTED_AFTER = `interval '2 hours'`
// A day that is not complete by then is not compared again.
const GIVEN_UP_AFTER = `interval '8 days'`
const AGAIN_AFTER = `interval '1 hour'`
const MOST_MISSING = 100
// A report in US dollars only is the sum of all currencies. It is comparable where we have nothing in another currency, nor has
// any other partner.
const comparable = `(:listed or c.currency = 'USD' and not exists (select from our_sums where currency <> 'USD')
                      and not exists (select from of_others))`
const dayStart = ":day::date::timestamp at time zone 'UTC'"

/**
 * Days, as YYYY-MM-DD, that are over and due to be compared: those of the last `back` days that never were, and those that were
 * not complete and whose time has come. Oldest first.
 */
export async function dueDays(db: Db, application: ReportedApplication, back: number): Promise<string[]> {
  const found = await rows<{ day: string }>(
    db,
    `select d.day::date::text as day
       from generate_series((now() at time zone 'UTC')::date - :back::int, ((now() - ${REPORTED_AFTER}) at time zone 'UTC')::date - 1, '1 day') d (day)
       left join reconciled_days r on r.partner_id = :partnerId and r.dialect = :dialect and r.app_id = :appId and r.day = d.day::date
      where r.day is null or (not r.complete and r.again_at <= now())
      order by d.day`,
    { ...application, back }
  )
  return found.map(({ day }) => day)
}

/** Compares a day with the orders and stores the result in place of an earlier one. */
export async function storeReconciliation(
  db: Db,
  application: ReportedApplication,
  { day, theirs }: { day: string; theirs: TheirDay }
): Promise<void> {
  await db.transaction(async trx => {
    const bindings = { ...application, day }
    // A worker and an operator may compare the same day at once.
    await rows(
      trx,
      `select pg_advisory_xact_lock(hashtextextended('reconcile ' || :partnerId::text || ' ' || :day::text, 0))`,
      {
        partnerId: application.partnerId,
        day
      }
    )
    await rows(
      trx,
      `delete from reconciled_days where partner_id = :partnerId and dialect = :dialect and app_id = :appId and day = :day::date`,
      bindings
    )
    // One statement: what is compared and whether all of it is known are of one snapshot.
    await rows(trx, comparing, {
      ...bindings,
      consistent: theirs.consistent,
      listed: theirs.contracts !== null,
      sums: JSON.stringify(theirs.sums),
      contracts: JSON.stringify(theirs.contracts ?? [])
    })
  })
}

const ofDay = `opened_at >= ${dayStart} and opened_at < (${dayStart}) + interval '1 day'`
// A contract may have an instant on the other side of midnight at the broker.
const aroundDay = `opened_at >= ${dayStart} - interval '1 day' and opened_at < (${dayStart}) + interval '2 days'`
const ofApplication = `phase in ('open', 'closed') and app_id = :appId and dialect = :dialect`

const comparing = `
  with sharing as materialized (
    select id from partners where id = :partnerId or broker_dialect = :dialect and broker_app_id = :appId
  ), reported as materialized (
    select t."transactionId" as transaction_id, t."accountId" as account_id, t.currency, t.markup
      from jsonb_to_recordset(:contracts::jsonb) as t ("transactionId" text, "accountId" text, currency text, markup numeric)
  ), others as materialized (
    -- Also those that have left the application, by the accounts that the report names.
    select id from sharing where id <> :partnerId
    union
    select partner_id from broker_accounts where account_id in (select account_id from reported) and partner_id <> :partnerId
  ), of_others as materialized (
    -- \`offset 0\` keeps each lookup a walk along the index of one partner.
    select o.transaction_id
      from others cross join lateral (
        select transaction_id, account_mode, markup, ${ofDay} as of_day from ${allOrders} o
         where partner_id = others.id and ${aroundDay} and ${ofApplication} offset 0) o
     where case when :listed then o.transaction_id in (select transaction_id from reported)
                else o.of_day and o.account_mode = 'REAL' and (o.markup is null or o.markup > 0) end
  ), theirs as materialized (
    select transaction_id, currency from reported
     where not exists (select from of_others where of_others.transaction_id = reported.transaction_id)
  ), ours as materialized (
    select id, transaction_id, coalesce(currency, '') as currency, markup
      from ${allOrders} o where partner_id = :partnerId and ${ofDay} and ${ofApplication} and account_mode = 'REAL' and (markup is null or markup > 0)
  ), known as materialized (
    -- Also those that are not on our side of this day: without a markup by their state, or with an instant on the other side of midnight.
    select transaction_id from ${allOrders} o where :listed and partner_id = :partnerId and transaction_id is not null and ${aroundDay}
  ), our_sums as (
    select currency, count(*)::int as contracts, coalesce(sum(markup), 0) as markup, (count(*) filter (where markup is null))::int as unknown
      from ours group by currency
  ), their_sums as (
    select t.currency, t.contracts - coalesce(l.contracts, 0) as contracts, t.markup - coalesce(l.markup, 0) as markup
      from jsonb_to_recordset(:sums::jsonb) as t (currency text, contracts int, markup numeric)
      left join (select currency, count(*)::int as contracts, sum(markup) as markup
                   from reported where transaction_id in (select transaction_id from of_others) group by currency) l using (currency)
  ), missing_here as (
    select currency, (array_agg(transaction_id order by transaction_id))[1:${MOST_MISSING}] as ids
      from theirs where not exists (select from known where known.transaction_id = theirs.transaction_id) group by currency
  ), missing_there as (
    select currency, (array_agg(id order by id))[1:${MOST_MISSING}] as ids
      from ours where :listed and not exists (select from reported where reported.transaction_id = ours.transaction_id)
       -- The broker's list has no contracts without a markup, and an unknown one may be none.
       and markup is not null
     group by currency
  ), state as materialized (
    select now() >= (${dayStart}) + interval '1 day' + ${REPORTED_AFTER} and :consistent
           -- One of another partner may have the contract that no order has.
           and not exists (select from sharing cross join lateral (
                             select from orders where partner_id = sharing.id and status = 'PENDING' and phase in ('sending', 'review')
                                and app_id = :appId and coalesce(sent_at, created_at) >= ${dayStart} - interval '1 day'
                                and coalesce(sent_at, created_at) < (${dayStart}) + interval '1 day' offset 0) o)
           and not exists (select from ${allOrders} o
                            where partner_id = :partnerId and ${ofDay} and ${ofApplication} and account_mode = 'REAL' and markup is null) as complete
  ), compared as (
    insert into reconciled_days (partner_id, dialect, app_id, day, complete, again_at)
    select :partnerId, :dialect, :appId, :day::date, complete,
           case when not complete and now() < (${dayStart}) + ${GIVEN_UP_AFTER} then now() + ${AGAIN_AFTER} end
      from state
  )
  insert into reconciled_currencies (partner_id, dialect, app_id, day, currency, our_contracts, our_markup, our_unknown,
         their_contracts, their_markup, missing_here, missing_there)
  select :partnerId, :dialect, :appId, :day::date, c.currency, coalesce(o.contracts, 0), coalesce(o.markup, 0), coalesce(o.unknown, 0),
         case when ${comparable} then coalesce(t.contracts, 0) end, case when ${comparable} then coalesce(t.markup, 0) end,
         coalesce(h.ids, '{}'), coalesce(m.ids, '{}')
    from (select currency from our_sums
          union select currency from their_sums where not exists (select from of_others) or :listed and contracts > 0) c
    left join our_sums o using (currency) left join their_sums t using (currency)
    left join missing_here h using (currency) left join missing_there m using (currency)`

/** A day, application and currency, both sides. */
export interface ReconciledRow {
  /** YYYY-MM-DD, of UTC. */
  day: string
  application: string
  currency: string | null
  ours: { contracts: number; markup: string; markupUnknown: number }
  theirs: { contracts: number; markup: string } | null
  /** Ours less theirs; null without theirs. */
  difference: string | null
  /** The broker's ids of purchases that no order has. */
  missingHere: string[]
  /** Orders that the broker's report does not have. */
  missingThere: string[]
}

interface Reconciliation {
  data: ReconciledRow[]
  /** When the day compared longest ago was compared; now, where none was. */
  asOf: Date
  /** Whether each day of the window was compared with a final report, and nothing of ours is unknown. */
  complete: boolean
}

// The present application alone is compared: of one that the partner left in the middle of a day, that day may never be. When it was
// left is in the audit log, which `operator partners set-broker` writes with the change. A day without orders of it has nothing to compare.
const leftApplications = `with left_applications as (
    select details -> 'from' ->> 'dialect' as dialect, details -> 'from' ->> 'brokerAppId' as app_id,
           coalesce(lag(at) over (order by seq), '-infinity') as since, at + interval '1 hour' as until
      from audit_log where target = :partnerId and action = 'partners.set-broker'
  ), uncompared as (
    select from left_applications l
     cross join generate_series((greatest(l.since, :from::timestamptz) at time zone 'UTC')::date,
                                (least(l.until, :to::timestamptz - interval '1 microsecond') at time zone 'UTC')::date, '1 day') d (day)
     where not exists (select from reconciled_days r
                        where r.partner_id = :partnerId and r.dialect = l.dialect and r.app_id = l.app_id and r.day = d.day::date)
       and exists (select from ${allOrders} o
                    where partner_id = :partnerId and opened_at >= d.day::date::timestamp at time zone 'UTC'
                      and opened_at < (d.day::date + 1)::timestamp at time zone 'UTC'
                      and phase in ('open', 'closed') and app_id = l.app_id and dialect = l.dialect and account_mode = 'REAL'
                      and (markup is null or markup > 0))
  )`

/** Every day that has a part in [from, to), of all applications that the partner has had, oldest first. */
export async function readReconciliation(
  db: Db,
  { partnerId, from, to, currency }: { partnerId: string; from: string; to: string; currency: string | null }
): Promise<Reconciliation> {
  const days = `d.partner_id = :partnerId and d.day >= (:from::timestamptz at time zone 'UTC')::date
      and d.day <= ((:to::timestamptz - interval '1 microsecond') at time zone 'UTC')::date`
  // One statement, and so one snapshot: a day that is compared meanwhile is known and shown, or neither.
  const found = await rows<ReconciledRow & Pick<Reconciliation, 'asOf' | 'complete'>>(
    db,
    `${leftApplications}
     select s."asOf", s.complete and not exists (select from uncompared) as complete, c.*
       from (select coalesce(min(d.compared_at), now()) as "asOf",
                    count(distinct d.day) = ((:to::timestamptz - interval '1 microsecond') at time zone 'UTC')::date - (:from::timestamptz at time zone 'UTC')::date + 1
                      and coalesce(bool_and(d.complete), false) as complete
               from reconciled_days d where ${days}) s
       left join (select d.day::text as day, d.app_id as application, nullif(d.currency, '') as currency,
                         jsonb_build_object('contracts', our_contracts, 'markup', our_markup::text, 'markupUnknown', our_unknown) as ours,
                         case when their_markup is not null then jsonb_build_object('contracts', their_contracts, 'markup', their_markup::text) end as theirs,
                         (our_markup - their_markup)::text as difference, missing_here as "missingHere", missing_there as "missingThere"
                    from reconciled_currencies d where ${days} and (:currency::text is null or d.currency = :currency)
                   limit ${MOST_ROWS + 1}) c on true
      order by c.day, c.application, c.currency nulls first`,
    { partnerId, from, to, currency }
  )
  refuseTooMany(found)
  const [first] = found as [(typeof found)[number]]
  const data = found.flatMap(({ asOf: _asOf, complete: _complete, ...row }) => (row.day === null ? [] : [row]))
  return { data, asOf: first.asOf, complete: first.complete }
}
