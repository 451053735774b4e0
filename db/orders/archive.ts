// Final orders that have moved to the archive (archiving.ts), found by their ids and names. Orders move in one direction only:
// what is in neither table at two successive reads does not exist. A lookup reads `orders` first, and the archive when the order
// is not there; a list reads both in one statement.
import { ARCHIVE_LEAST_DAYS } from '../../schemas/config/config.ts'
import { timeOfOrderId } from '../../schemas/fields/ids.ts'
import { among, type Db, listing, rows } from '../postgres/connection.ts'

/** Orders, archived or not, as a relation of SQL. In one statement, and so in one snapshot, each order is there once. */
export const allOrders = '(select * from orders union all select * from orders_archive)'

// Ids, moves and lists are made by processes with different clocks.
export const CLOCK_SLACK_MS = 86_400_000

/** The instant (ms since the epoch) from which on no order that was created is in the archive. */
export const neverArchivedFrom = (): number => Date.now() - ARCHIVE_LEAST_DAYS * 86_400_000 + CLOCK_SLACK_MS

/** SQL: the name of a clientOrderId in archived_names. */
export const orderName = (partner: string, clientOrderId: string): string => `order_name(${partner}, ${clientOrderId})`

/** SQL: whether the clientOrderId is that of an archived order. A lookup by the key, whatever else the statement joins. */
export const isArchived = (partner: string, clientOrderId: string): string =>
  `coalesce((select true from archived_names n where n.name = ${orderName(partner, clientOrderId)} limit 1), false)`

/**
 * Of these orders, those that are archived, with these columns; `id` must be one. They are looked for in the months of their ids first:
 * planning a statement over 61 months takes 13 ms, 250 ms on a connection's first. Where clocks were wrong an order is in another one.
 */
export async function findArchived<Row extends { id: string }>(db: Db, ids: string[], columns = '*'): Promise<Row[]> {
  const times = ids.flatMap(id => timeOfOrderId(id) ?? [])
  const near =
    times.length === 0
      ? []
      : await rows<Row>(
          db,
          `select ${columns} from orders_archive where id = ${among('ids')} and created_at >= :from and created_at < :to`,
          {
            ids,
            from: new Date(Math.min(...times) - CLOCK_SLACK_MS),
            to: new Date(Math.max(...times) + CLOCK_SLACK_MS)
          }
        )
  const found = new Set(near.map(({ id }) => id))
  const missing = ids.filter(id => !found.has(id))
  if (missing.length === 0) return near
  return [
    ...near,
    ...(await rows<Row>(db, `select ${columns} from orders_archive where id = ${among('ids')}`, { ids: missing }))
  ]
}

/** An order that a clientOrderId named before it was archived. */
interface ArchivedName {
  id: string
  partnerId: string
  clientOrderId: string
  /** What a repeat is compared by; null when the order was dropped. */
  requestHash: Buffer | null
  phase: 'closed' | 'failed'
}

/** The archived orders of these clientOrderIds, also those that were dropped. */
export async function findArchivedNames(
  db: Db,
  names: { partnerId: string; clientOrderId: string }[]
): Promise<ArchivedName[]> {
  return rows<ArchivedName>(
    db,
    `select n.order_id as id, r.partner_id as "partnerId", r.client_order_id as "clientOrderId", a.request_hash as "requestHash",
            coalesce(a.phase, 'closed') as phase
       from ${listing('partners', 'clients')} as r (partner_id, client_order_id)
       join archived_names n on n.name = ${orderName('r.partner_id', 'r.client_order_id')}
       left join lateral (select request_hash, phase from orders_archive
                           where id = n.order_id and created_at = n.created_at limit 1) a on true`,
    {
      partners: names.map(({ partnerId }) => partnerId),
      clients: names.map(({ clientOrderId }) => clientOrderId)
    }
  )
}
