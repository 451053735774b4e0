// The monthly renewal of subscriptions, a step of the billing check: each period is paid once, however often
// and by however many the check is run.
import { isLess } from '../../schemas/fields/money.ts'
import { endOfPeriod } from '../money/billing.ts'
import type { BillingContext } from '../money/billing-context.ts'
import { tryTransfer } from '../money/ledger.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { lockBot } from './listings.ts'
import { periodDetails, type SubscriptionRow, saleEntries } from './sales.ts'

/** How long an unpaid subscription stays usable after its period. */
const GRACE_DAYS = 3

// Small, so that few subscriptions are read that another check has renewed meanwhile.
const BATCH = 25
/** Periods of one subscription renewed in one go, at most; the next check goes on. */
const PERIODS_AT_ONCE = 120

/**
 * A subscription `s` whose partner was suspended in a month that is paid: the rest of the month comes after the suspension
 * (db/partners/standing.ts), so until then it neither falls due nor ends.
 */
const paused = 'exists (select from partners p where p.id = s.partner_id and p.suspended_at < s.current_period_end)'

/** What became of a subscription that was due. */
type RenewalOutcome = 'renewed' | 'unpaid' | 'canceled' | 'settled by another'

/**
 * Renews what is due at `now`: charges the next month, or ends what was canceled or is unpaid for three days.
 * Each period is a transaction of its own.
 */
export async function renewSubscriptions(
  db: Db,
  { now, feePct, signal, counts, failed }: Pick<BillingContext, 'now' | 'feePct' | 'signal' | 'counts' | 'failed'>
): Promise<void> {
  // A subscription that stays due because it is unpaid is skipped, so that it is not read again in this run.
  let last: DueSubscription | undefined
  for (;;) {
    const batch = await listDue(db, now, last)
    for (const due of batch) {
      if (signal.aborted) return
      try {
        // Read before the lock: checks that run at once would otherwise all queue for every bot.
        if (!(await isDue(db, due.id, now))) continue
        for (let i = 0; i < PERIODS_AT_ONCE; i++) {
          if ((await db.transaction(trx => renew(trx, due, { now, feePct }))) !== 'renewed') break
          counts.renewed += 1
        }
      } catch (error) {
        failed(due.id, error)
      }
    }
    last = batch.at(-1)
    if (batch.length < BATCH) return
  }
}

interface DueSubscription {
  id: string
  bot_id: string
  current_period_end: Date
}

async function listDue(db: Db, now: Date, last: DueSubscription | undefined): Promise<DueSubscription[]> {
  return rows<DueSubscription>(
    db,
    `select id, bot_id, current_period_end from marketplace_subscriptions s
      where status <> 'CANCELED' and current_period_end <= :now and not ${paused}
        and (current_period_end, id) > (coalesce(:lastEnd::timestamptz, '-infinity'), :lastId)
      order by current_period_end, id limit ${BATCH}`,
    { now, lastEnd: last?.current_period_end ?? null, lastId: last?.id ?? '' }
  )
}

async function isDue(db: Db, id: string, now: Date): Promise<boolean> {
  const sql = `select from marketplace_subscriptions where id = :id and status <> 'CANCELED' and current_period_end <= :now`
  return (await rows(db, sql, { id, now })).length > 0
}

interface Buyer {
  locked_out: boolean
  active_since: Date | null
}

/**
 * The order of locks begins with the buyer here: its standing must not change meanwhile, and a change of standing locks
 * the buyer before its subscriptions.
 */
async function renew(
  trx: Db,
  { id, bot_id: botId }: DueSubscription,
  as: { now: Date; feePct: string }
): Promise<RenewalOutcome> {
  const [buyer] = await rows<Buyer>(
    trx,
    `select not plan_active or suspended_at is not null as locked_out, active_since from partners
      where id = (select partner_id from marketplace_subscriptions where id = :id) for share`,
    { id }
  )
  const bot = await lockBot(trx, botId)
  const [due] = await rows<SubscriptionRow & { unpaid_too_long: boolean; disabled: boolean }>(
    trx,
    `select *, current_period_end + :grace * interval '1 day' <= :now as unpaid_too_long,
            exists (select from traders t where t.id = s.party_id and t.disabled_at is not null) as disabled
       from marketplace_subscriptions s
      where id = :id and status <> 'CANCELED' and current_period_end <= :now and not ${paused}
        for no key update`,
    { id, now: as.now, grace: GRACE_DAYS }
  )
  if (!due || !bot || !buyer) return 'settled by another'
  // A party that can neither use nor cancel it does not pay for it. A disabled trader's subscription ends: nobody else can cancel it.
  if (due.cancel_at_period_end || due.disabled || bot.status === 'RETIRED') return cancel(trx, due, as.now)
  if (buyer.locked_out) return due.unpaid_too_long ? cancel(trx, due, as.now) : markPastDue(trx, due)

  const period = due.periods + 1
  const { price } = due
  // After a time in which the buyer was locked out, the month begins when that was over.
  const late = buyer.active_since !== null && buyer.active_since > due.current_period_end
  const start = late ? (buyer.active_since as Date) : due.current_period_end
  const anchor = late ? start : (due.billing_anchor ?? due.created_at)
  const end = endOfPeriod(anchor, start)
  const { entries, netUsd } = saleEntries({ buyer: due.partner_id, bot, price, feePct: as.feePct })
  if (isLess('0', price)) {
    const reference = `subscription:${id}:${period}`
    const details = periodDetails({ id, botId, botName: bot.name, period, start, end })
    const paid = await tryTransfer(trx, { reference, kind: 'subscription', entries, details })
    if ('short' in paid) return due.unpaid_too_long ? cancel(trx, due, as.now) : markPastDue(trx, due)
  }
  await rows(
    trx,
    `update marketplace_subscriptions set status = 'ACTIVE', periods = :period, current_period_end = :end, billing_anchor = :anchor
      where id = :id`,
    { id, period, end, anchor }
  )
  await rows(
    trx,
    'update marketplace_bots set gross = gross + :price::numeric, net = net + :netUsd::numeric where id = :botId',
    { botId, price, netUsd }
  )
  return 'renewed'
}

async function markPastDue(trx: Db, { id }: SubscriptionRow): Promise<RenewalOutcome> {
  await trx('marketplace_subscriptions').where({ id, status: 'ACTIVE' }).update({ status: 'PAST_DUE' })
  return 'unpaid'
}

async function cancel(trx: Db, { id, bot_id: botId }: SubscriptionRow, now: Date): Promise<RenewalOutcome> {
  await trx('marketplace_subscriptions').where({ id }).update({ status: 'CANCELED', canceled_at: now })
  await trx('marketplace_bots').where({ id: botId }).decrement('subscribers', 1)
  return 'canceled'
}
