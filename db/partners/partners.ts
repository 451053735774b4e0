// Partners and their standing.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { type Plan, refuseTestSide, type SaasStatus } from '../../schemas/partners.ts'
import { openTestWallet } from '../money/play-money.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { forgetRejections } from '../traders/accounts.ts'

export interface PartnerRecord {
  partnerId: string
  name: string
  plan: Plan
  /** The cheaper plan it changes to with the next period. */
  nextPlan: Plan | null
  saasStatus: SaasStatus
  suspendedReason: string | null
  brokerAppId: string
  brokerDialect: string
  limits: PartnerLimits
  createdAt: Date
  /** For a test side: the partner whose test side it is. */
  testOf: string | null
}

/** Calls a minute that a partner's own limits allow; null where the plan's or the configuration's limit holds. */
interface PartnerLimits {
  perKeyPerMinute: number | null
  perTraderPerMinute: number | null
}

/** What every request needs to know of the partner behind it. */
export interface PartnerFacts {
  partnerId: string
  partnerName: string
  plan: Plan
  saasStatus: SaasStatus
  brokerAppId: string
  brokerDialect: string
  limits: PartnerLimits
  /** For a test side: the partner whose test side it is. */
  testOf: string | null
}

/** The standing of a row of `partners`, as SQL. Suspension by the operator outranks an unpaid fee; the two are independent. */
export const saasStatus = `case when suspended_at is not null then 'SUSPENDED' when plan_active then 'ACTIVE' else 'INACTIVE' end`

/** The columns of the facts, of `partners p`; the limits among them are grouped by `groupLimits`. */
export const partnerFactsColumns = `p.id as "partnerId", p.name as "partnerName", p.plan, ${saasStatus} as "saasStatus",
  p.broker_app_id as "brokerAppId", p.broker_dialect as "brokerDialect", p.key_limit as "perKeyPerMinute",
  p.trader_limit as "perTraderPerMinute", p.test_of as "testOf"`

const columns = `id as "partnerId", name, plan, next_plan as "nextPlan", ${saasStatus} as "saasStatus",
  suspended_reason as "suspendedReason", broker_app_id as "brokerAppId", broker_dialect as "brokerDialect",
  key_limit as "perKeyPerMinute", trader_limit as "perTraderPerMinute", created_at as "createdAt", test_of as "testOf"`

/** A row in which each limit is a column. */
export type WithLimitColumns<Facts extends { limits: PartnerLimits }> = Omit<Facts, 'limits'> & PartnerLimits

export function groupLimits<Row extends PartnerLimits>({ perKeyPerMinute, perTraderPerMinute, ...facts }: Row) {
  return { ...facts, limits: { perKeyPerMinute, perTraderPerMinute } }
}

/** A new partner, its plan active; its first period is the trial, free of charge. */
export async function insertPartner(
  trx: Db,
  {
    name,
    plan,
    brokerAppId,
    brokerDialect,
    trialDays = 30
  }: { name: string; plan: Plan; brokerAppId: string; brokerDialect: string; trialDays?: number }
): Promise<PartnerRecord> {
  const [row] = await rows<WithLimitColumns<PartnerRecord>>(
    trx,
    `insert into partners (id, name, plan, broker_app_id, broker_dialect, period_end, billing_anchor)
     values (:id, :name, :plan, :brokerAppId, :brokerDialect, now() + :trialDays * interval '24 hours', now() + :trialDays * interval '24 hours')
     returning ${columns}`,
    { id: newId('partner'), name, plan, brokerAppId, brokerDialect, trialDays }
  )
  return groupLimits(row as WithLimitColumns<PartnerRecord>)
}

export async function findPartner(db: Db, partnerId: string): Promise<PartnerRecord | undefined> {
  const [row] = await rows<WithLimitColumns<PartnerRecord>>(
    db,
    `select ${columns} from partners where id = :partnerId`,
    { partnerId }
  )
  return row && groupLimits(row)
}

/** Throws NOT_FOUND. */
export async function getPartner(db: Db, partnerId: string): Promise<PartnerRecord> {
  const partner = await findPartner(db, partnerId)
  if (!partner) throw new ApiError('NOT_FOUND', `There is no partner ${partnerId}.`)
  return partner
}

/** A partner that is no test side: what its test side is follows from it. Throws NOT_FOUND. */
export async function getRealPartner(db: Db, partnerId: string): Promise<PartnerRecord> {
  const partner = await getPartner(db, partnerId)
  if (partner.testOf !== null) throw refuseTestSide(partnerId, partner.testOf)
  return partner
}

/** The id of the partner's test side, which is made, with its play money, at the first call. Throws NOT_FOUND. Call it in a transaction. */
export async function ensureTestSide(trx: Db, partnerId: string): Promise<string> {
  await getRealPartner(trx, partnerId)
  await rows(
    trx,
    `insert into partners (id, name, plan, next_plan, plan_active, suspended_at, suspended_reason, broker_app_id, broker_dialect, key_limit,
                           trader_limit, period_start, period_end, billing_anchor, test_of)
     select :id, name, plan, next_plan, plan_active, suspended_at, suspended_reason, nextval('test_applications')::text, 'test', key_limit, trader_limit,
            period_start, period_end, billing_anchor, id
       from partners where id = :partnerId for no key update
     on conflict (test_of) do nothing`,
    { id: newId('partner'), partnerId }
  )
  const [side] = await rows<{ id: string }>(trx, 'select id from partners where test_of = :partnerId', { partnerId })
  const { id } = side as { id: string }
  await openTestWallet(trx, id)
  return id
}

/** The ids of partners: the one named, which may be a test side, or the first ones without test sides. */
export async function findPartnerIds(
  db: Db,
  { named, limit }: { named: string | undefined; limit: number }
): Promise<string[]> {
  const found = await rows<{ id: string }>(
    db,
    `select id from partners where case when :named::text is null then test_of is null else id = :named end
      order by id limit :limit`,
    { named: named ?? null, limit }
  )
  return found.map(({ id }) => id)
}

/** How many partners have this application at the broker; the applications of test sides are at the test broker. */
export async function countOfApplication(db: Db, appId: string): Promise<number> {
  const [row] = await rows<{ count: number }>(
    db,
    'select count(*) as count from partners where broker_app_id = :appId and test_of is null',
    {
      appId
    }
  )
  return row?.count ?? 0
}

/** The newest partner of this name, compared without case; undefined where there is none. */
export async function findNamesake(
  db: Db,
  name: string
): Promise<Pick<PartnerRecord, 'partnerId' | 'createdAt'> | undefined> {
  const [found] = await rows<Pick<PartnerRecord, 'partnerId' | 'createdAt'>>(
    db,
    `select id as "partnerId", created_at as "createdAt" from partners
      where lower(name) = lower(:name) and test_of is null order by created_at desc, id desc limit 1`,
    { name }
  )
  return found
}

/** All partners but test sides, oldest first, at most 10 000. */
export async function listPartners(db: Db): Promise<PartnerRecord[]> {
  const found = await rows<WithLimitColumns<PartnerRecord>>(
    db,
    `select ${columns} from partners where test_of is null order by created_at, id limit 10000`
  )
  return found.map(groupLimits)
}

async function updatePartner(trx: Db, partnerId: string, changes: object): Promise<PartnerRecord> {
  await trx('partners').where({ id: partnerId }).whereNull('test_of').update(changes)
  return getRealPartner(trx, partnerId)
}

/**
 * Has the partner's calls and new orders go to the broker in a dialect, under an application there. Orders carry their
 * own: those under way end in the dialect they were bought with. Tokens that the old dialect refused get another chance.
 */
export async function setBroker(
  trx: Db,
  partnerId: string,
  { dialect, appId }: { dialect: string; appId?: string | undefined }
): Promise<PartnerRecord> {
  const changes = { broker_dialect: dialect, ...(appId === undefined ? {} : { broker_app_id: appId }) }
  const partner = await updatePartner(trx, partnerId, changes)
  await forgetRejections(trx, partnerId)
  return partner
}

/**
 * Gives a partner limits of its own, from the next request on; null takes one away, a missing one stays. Throws NOT_FOUND.
 */
export async function setLimits(
  trx: Db,
  partnerId: string,
  { perKeyPerMinute, perTraderPerMinute }: Partial<PartnerLimits>
): Promise<PartnerRecord> {
  const changes = {
    ...(perKeyPerMinute === undefined ? {} : { key_limit: perKeyPerMinute }),
    ...(perTraderPerMinute === undefined ? {} : { trader_limit: perTraderPerMinute })
  }
  if (Object.keys(changes).length === 0) return getPartner(trx, partnerId)
  return updatePartner(trx, partnerId, changes)
}

/** The broker's dialects that partners use, and how many use each. */
export async function listBrokerDialects(db: Db): Promise<{ dialect: string; partners: number }[]> {
  return rows(db, 'select broker_dialect as dialect, count(*)::int as partners from partners group by 1 order by 1')
}

/** How many traders a partner has. */
export async function countTraders(db: Db, partnerId: string): Promise<number> {
  const [row] = await rows<{ count: number }>(
    db,
    'select count(*) as count from traders where partner_id = :partnerId',
    { partnerId }
  )
  return (row as { count: number }).count
}

/** How many of a partner's orders in another dialect than this are not final. */
export async function countUnfinished(
  db: Db,
  partnerId: string,
  { notIn: dialect }: { notIn: string }
): Promise<number> {
  const row = (await db('orders')
    .where({ partner_id: partnerId })
    // As they are in an index: a partner has few of these among millions.
    .whereIn('status', ['PENDING', 'OPEN'])
    .whereNot({ dialect })
    .count('* as count')
    .first()) as { count: number | string }
  return Number(row.count)
}
