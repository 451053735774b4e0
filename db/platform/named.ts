// Records by whatever a ticket calls them: an order by its clientOrderId or its contract, a trader by the partner's id for
// it, its e-mail or an account, a partner by its name. All partners are searched, so one name may fit several records.
import { ApiError } from '../../schemas/errors/errors.ts'
import { allOrders, orderName } from '../orders/archive.ts'
import { findOrders, type OrderRow } from '../orders/reading.ts'
import { findPartner, getPartner, type PartnerRecord } from '../partners/partners.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { getTraderById, type TraderRecord } from '../traders/traders.ts'

/** At most so many are offered to choose from. */
const CANDIDATES = 20

/** A name fits several records: `candidates` has the fields that distinguish them. */
export class SeveralFit extends ApiError {
  readonly candidates: object[]

  constructor(message: string, candidates: object[]) {
    super('CONFLICT', message)
    this.candidates = candidates
  }
}

/** A candidate order, with the fields that distinguish it from others of its name. */
interface OrderCandidate {
  orderId: string
  partnerId: string
  partner: string
  clientOrderId: string | null
  brokerOrderId: string | null
  accountId: string
  status: string
  createdAt: Date
}

/** Orders whose orderId, clientOrderId or contract id this is, newest first, at most 20. */
export async function findNamedOrders(db: Db, name: string): Promise<OrderCandidate[]> {
  return rows<OrderCandidate>(
    db,
    `with named as materialized (
       select id from orders where id = :name
       union select o.id from partners p
         cross join lateral (select id from orders where partner_id = p.id and client_order_id = :name) o
       union select n.order_id from partners p join archived_names n on n.name = ${orderName('p.id', ':name')}
       union select o.id from partners p
         cross join lateral (select id from orders where partner_id = p.id and broker_order_id = :name) o
       union select id from orders_archive where broker_order_id = :name
       union select id from orders_archive where id = :name)
     select o.id as "orderId", o.partner_id as "partnerId", p.name as partner, o.client_order_id as "clientOrderId",
            o.broker_order_id as "brokerOrderId", o.account_id as "accountId", o.status, o.created_at as "createdAt"
       -- One order after the other: joined to both tables, these are read whole.
       from named cross join lateral (select * from ${allOrders} a where a.id = named.id limit 1) o
       join partners p on p.id = o.partner_id
      order by o.id desc limit ${CANDIDATES}`,
    { name }
  )
}

/** The order that goes by this name. Throws NOT_FOUND when there is none, SeveralFit when it is several. */
export async function getNamedOrder(db: Db, name: string): Promise<OrderRow> {
  const found = await findNamedOrders(db, name)
  const { orderId } = only(found, { kind: 'order', plural: 'orders', name, id: each => each.orderId })
  return (await findOrders(db, [orderId]))[0] as OrderRow
}

/** A trader to choose. */
interface TraderCandidate {
  traderId: string
  partnerId: string
  partner: string
  traderExternalId: string
  name: string | null
  email: string | null
  /** The broker's accounts it is connected with. */
  accountIds: string[]
}

const traderCandidate = `t.id as "traderId", t.partner_id as "partnerId", p.name as partner, t.external_id as "traderExternalId",
  t.name, t.email, array(select account_id from broker_accounts where trader_id = t.id order by account_id limit 20) as "accountIds"`

/** Traders whose id, external id, e-mail or broker account this is, e-mails compared without case, at most 20. */
async function findNamedTraders(db: Db, name: string): Promise<TraderCandidate[]> {
  return rows<TraderCandidate>(
    db,
    `select ${traderCandidate}
       from traders t join partners p on p.id = t.partner_id
      where t.id in (
        select id from traders where id = :name or lower(email) = lower(:name)
        union select t.id from partners p
          cross join lateral (select id from traders where partner_id = p.id and external_id = :name) t
        union select trader_id from broker_accounts where account_id = :name)
      order by t.id limit ${CANDIDATES}`,
    { name }
  )
}

/** The trader that goes by this name. Throws NOT_FOUND when there is none, SeveralFit when it is several. */
export async function getNamedTrader(db: Db, name: string): Promise<TraderRecord> {
  const found = await findNamedTraders(db, name)
  const { traderId } = only(found, {
    kind: 'trader',
    plural: 'traders',
    name,
    id: each => each.traderId,
    search: '`operator traders find TEXT` searches parts of names.'
  })
  return getTraderById(db, traderId)
}

/** Traders with this text in their ids, name, e-mail or a broker account, compared without case, newest first. */
export async function searchTraders(db: Db, text: string, limit: number): Promise<TraderCandidate[]> {
  return rows<TraderCandidate>(
    db,
    `select ${traderCandidate}
       from traders t join partners p on p.id = t.partner_id
      where t.id in (
        select id from traders where strpos(lower(concat_ws(' ', id, external_id, name, email)), lower(:text)) > 0
        union select trader_id from broker_accounts where strpos(lower(account_id), lower(:text)) > 0)
      order by t.id desc limit :limit`,
    { text, limit }
  )
}

/** A partner to choose. */
interface PartnerCandidate {
  partnerId: string
  name: string
  plan: string
  createdAt: Date
}

/**
 * The partner with this id or name, compared without case; a part of a name will do where no whole one fits. Throws
 * NOT_FOUND when there is none, SeveralFit when it is several.
 */
export async function getNamedPartner(db: Db, name: string): Promise<PartnerRecord> {
  const byId = await findPartner(db, name)
  if (byId) return byId
  const found = await rows<PartnerCandidate & { whole: boolean }>(
    db,
    `select id as "partnerId", name, plan, created_at as "createdAt", lower(name) = lower(:name) as whole
       from partners where test_of is null and strpos(lower(name), lower(:name)) > 0 order by whole desc, id limit ${CANDIDATES}`,
    { name }
  )
  const whole = found.filter(each => each.whole)
  const fitting = (whole.length > 0 ? whole : found).map(({ whole: _, ...each }) => each)
  const { partnerId } = only(fitting, {
    kind: 'partner',
    plural: 'partners',
    name,
    id: each => each.partnerId,
    search: '`operator partners list` has them all.'
  })
  return getPartner(db, partnerId)
}

function only<Candidate extends object>(
  found: Candidate[],
  of: { kind: string; plural: string; name: string; id(each: Candidate): string; search?: string }
): Candidate {
  const [first, ...others] = found
  if (!first) throw new ApiError('NOT_FOUND', `There is no ${of.kind} ${of.name}${of.search ? `; ${of.search}` : '.'}`)
  if (others.length === 0) return first
  const count = found.length === CANDIDATES ? `${CANDIDATES} or more` : found.length
  throw new SeveralFit(`${count} ${of.plural} go by ${of.name}: name one by its id.`, found)
}
