// Lists of orders, newest first, page by page: of the live ones and of those in the archive.
import type { Knex } from 'knex'
import { orderIdAt } from '../../schemas/fields/ids.ts'
import type { OrderStatus } from '../../schemas/orders.ts'
import { type CursorList, foreignCursor, readListCursor, writeListCursor } from '../platform/list-cursors.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { allOrders, CLOCK_SLACK_MS, neverArchivedFrom, orderName } from './archive.ts'
import { entryColumns } from './entry.ts'
import type { OrderRow } from './reading.ts'

/** A condition: the order waits for the operator's decision, bought or not; as SQL. */
export const inReview = `(phase = 'review' or (phase = 'open' and error_code = 'REVIEW_REQUIRED'))`

interface OrderFilter {
  partnerId?: string
  traderExternalId?: string
  status?: OrderStatus
  clientOrderId?: string
  brokerOrderId?: string
  review?: boolean
  limit: number
  cursor?: string
  errorCode?: string
  asset?: string
  accountId?: string
  /** When it was placed: at or after, and before. */
  from?: Date
  to?: Date
}

/** What a list shows of an order: a third of its columns, and reading a page takes as much less of a process's time. */
type ListedOrder = Pick<OrderRow, (typeof entryColumns)[number]>

interface OrderPage<Row extends ListedOrder> {
  orders: Row[]
  nextCursor: string | null
}

/** Where a page begins: microseconds since 1970 and id of the order before it. */
type PagePosition = [string, string]

/** An order of a page, with its place in microseconds: a Date would round it. */
type Placed<Row extends ListedOrder> = Row & { created_micros: string }

/**
 * A page of orders, newest first: of a partner by (created_at, id), of all partners by id; stable while new ones arrive, and while
 * old ones move to the archive.
 * A page that may have archived orders is read from both tables in one statement, and so in one snapshot.
 */
export function listOrders(db: Db, filter: OrderFilter): Promise<OrderPage<OrderRow>> {
  return page(db, ['*'], filter)
}

/** The same page, with only what a list shows of each order. */
export function listEntries(db: Db, filter: OrderFilter): Promise<OrderPage<ListedOrder>> {
  return page(db, entryColumns, filter)
}

/** The columns and orders of a page, and the place where it begins. */
interface PageReading {
  columns: readonly string[]
  filter: OrderFilter
  position: PagePosition | undefined
}

async function page<Row extends ListedOrder>(
  db: Db,
  columns: readonly string[],
  filter: OrderFilter
): Promise<OrderPage<Row>> {
  const list = cursorList(filter)
  const position = filter.cursor ? readCursor(list, filter.cursor) : undefined
  const found = await pageOfBoth<Row>(db, { columns, filter, position })
  const orders = found.slice(0, filter.limit)
  const last = orders.at(-1)
  return {
    orders,
    nextCursor: found.length > filter.limit && last ? writeListCursor(list, [last.created_micros, last.id]) : null
  }
}

/** The page, read from the live orders alone where no archived ones belong to it. */
async function pageOfBoth<Row extends ListedOrder>(db: Db, reading: PageReading): Promise<Placed<Row>[]> {
  const { filter } = reading
  const live = await pageOf<Row>(db('orders'), reading)
  if (filter.review || filter.status === 'PENDING' || filter.status === 'OPEN') return live
  // The only order of its name.
  if (live.length > 0 && filter.partnerId && filter.clientOrderId !== undefined) return live
  // An order older than the last one of a full page, or than the window, cannot be on the page.
  const oldest = live.length > filter.limit ? live.at(-1)?.created_at : filter.from
  const isAbove = (newest: number): boolean => oldest !== undefined && oldest.getTime() > newest
  if (isAbove(neverArchivedFrom())) return live
  // Read after the live orders: an order that moved in between was among those.
  const archived = await findNewest(db, filter)
  if (archived === undefined || isAbove(archived.newest)) return live
  return pageOf<Row>(db.from(withArchived(db, filter, archived)), reading)
}

/** What is known of the archived orders that a filter may find. */
interface Archived {
  /** When the newest of them was created, ms since 1970. */
  newest: number
  /** The only one of the partner's clientOrderId. */
  named?: { id: string; createdAt: string }
}

/** Undefined where the filter finds no archived order. */
async function findNewest(db: Db, filter: OrderFilter): Promise<Archived | undefined> {
  const { partnerId, traderExternalId, clientOrderId } = filter
  if (partnerId === undefined) return { newest: neverArchivedFrom() }
  const [found] = await rows<{ newest: Date | null; id: string; createdAt: string }>(
    db,
    clientOrderId !== undefined
      ? `select created_at as newest, order_id as id, created_at::text as "createdAt" from archived_names
          where name = ${orderName(':partnerId', ':clientOrderId')}`
      : traderExternalId !== undefined
        ? `select a.newest from traders t join archived_traders a on a.trader_id = t.id
            where t.partner_id = :partnerId and t.external_id = :traderExternalId`
        : 'select max(newest) as newest from archived_traders where partner_id = :partnerId',
    { partnerId, traderExternalId, clientOrderId }
  )
  if (!found?.newest) return undefined
  return {
    // created_at has microseconds, which a Date cuts off.
    newest: found.newest.getTime() + 1,
    ...(clientOrderId !== undefined ? { named: { id: found.id, createdAt: found.createdAt } } : {})
  }
}

/** Live and archived orders as a table to select from. The archive finds a clientOrderId by its name, and reads one month for it. */
function withArchived(db: Db, { clientOrderId }: OrderFilter, { named }: Archived): Knex.Raw {
  if (clientOrderId === undefined) return db.raw(`${allOrders} as orders`)
  const those = named
    ? 'id = :id and created_at = :createdAt::timestamptz'
    : `id in (select n.order_id from partners p join archived_names n on n.name = ${orderName('p.id', ':clientOrderId')})`
  return db.raw(`(select * from orders union all select * from orders_archive where ${those}) as orders`, {
    ...(named ?? { clientOrderId })
  })
}

/** One more order than the page has, of those that `query` selects from. */
async function pageOf<Row extends ListedOrder>(
  query: Knex.QueryBuilder,
  { columns, filter, position }: PageReading
): Promise<Placed<Row>[]> {
  query.select(columns).limit(filter.limit + 1)
  if (filter.partnerId) ofPartner(query, filter.partnerId, position)
  else ofAll(query, filter, position)
  if (filter.traderExternalId !== undefined) query.where({ trader_external_id: filter.traderExternalId })
  if (filter.status) query.where({ status: filter.status })
  // The archive has indexes for these phases only; without them a page would read all orders of the partner.
  if (filter.status === 'FAILED' || filter.status === 'CLOSED') query.where({ phase: filter.status.toLowerCase() })
  if (filter.clientOrderId !== undefined) query.where({ client_order_id: filter.clientOrderId })
  if (filter.brokerOrderId !== undefined) query.where({ broker_order_id: filter.brokerOrderId })
  if (filter.review) query.whereRaw(inReview)
  if (filter.errorCode !== undefined) query.where({ error_code: filter.errorCode })
  if (filter.asset !== undefined) query.where({ asset: filter.asset })
  if (filter.accountId !== undefined) query.where({ account_id: filter.accountId })
  if (filter.from) query.where('created_at', '>=', filter.from)
  if (filter.to) query.where('created_at', '<', filter.to)
  return (await query.select(
    query.client.raw('(extract(epoch from created_at) * 1000000)::bigint::text as created_micros')
  )) as Placed<Row>[]
}

function ofPartner(query: Knex.QueryBuilder, partnerId: string, position: PagePosition | undefined): void {
  query.where({ partner_id: partnerId }).orderBy([
    { column: 'created_at', order: 'desc' },
    { column: 'id', order: 'desc' }
  ])
  if (position)
    query.whereRaw(`(created_at, id) < (timestamptz 'epoch' + ? * interval '1 microsecond', ?)`, [...position])
}

/**
 * Those of all partners, without their test sides, in the order of their ids: these are ordered by time, to what the clocks of
 * processes differ by, and have an index, which created_at alone has not. So no page reads all orders for its newest.
 */
function ofAll(query: Knex.QueryBuilder, { from, to }: OrderFilter, position: PagePosition | undefined): void {
  query.whereNot({ dialect: 'test' }).orderBy('id', 'desc')
  if (position) query.where('id', '<', position[1])
  if (from) query.where('id', '>=', orderIdAt(from.getTime() - CLOCK_SLACK_MS))
  if (to) query.where('id', '<', orderIdAt(to.getTime() + CLOCK_SLACK_MS))
}

function cursorList({
  partnerId,
  limit: _limit,
  cursor: _cursor,
  from: _from,
  to: _to,
  ...filters
}: OrderFilter): CursorList {
  return { name: 'orders', partnerId, filters }
}

// A cursor holds the last entry's position; timestamps in microseconds, since a Date would round them.
function readCursor(list: CursorList, cursor: string): PagePosition {
  const [micros, id] = readListCursor(list, cursor, 2) ?? []
  if (
    typeof micros !== 'string' ||
    !/^\d{1,18}$/.test(micros) ||
    typeof id !== 'string' ||
    !/^ord_[0-9a-z]{26}$/.test(id)
  )
    throw foreignCursor()
  return [micros, id]
}
