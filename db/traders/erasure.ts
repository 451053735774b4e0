// A trader's data given out whole, and a trader erased: both read personal-data.ts, which decides on each column.
import { ApiError } from '../../schemas/errors/errors.ts'
import { isLess } from '../../schemas/fields/money.ts'
import { stop } from '../copy/closing.ts'
import { getEarnings } from '../money/earnings.ts'
import { listRequests, presentRequest } from '../partners/requests.ts'
import type { Vault } from '../platform/crypto.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { sealToken } from './accounts.ts'
import { type ColumnDecision, liveOrdersOf, personalData, type TableDecision } from './personal-data.ts'
import { pseudonymOf } from './traders.ts'

interface Subject {
  traderId: string
  partnerId: string
  externalId: string
}

const BATCH = 5000
// 50 million rows: more is no trader.
const MAX_BATCHES = 10_000

/**
 * Reads the trader, and with `lock` locks its row until the end of the transaction: no new row can refer to it meanwhile. Throws CONFLICT
 * while something of the trader's is under way, NOT_FOUND.
 */
async function getErasable(trx: Db, traderId: string, { lock }: { lock: boolean }): Promise<Subject> {
  const [found] = await rows<Subject>(
    trx,
    `select id as "traderId", partner_id as "partnerId", external_id as "externalId" from traders where id = :traderId ${lock ? 'for update' : ''}`,
    { traderId }
  )
  if (!found) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
  const obstacles = await listObstacles(trx, found)
  if (obstacles.length > 0) throw new ApiError('CONFLICT', `This trader cannot be erased yet: ${obstacles.join('; ')}.`)
  return found
}

/** Why a trader cannot be erased yet; empty when nothing is in the way. */
async function listObstacles(db: Db, { traderId, partnerId, externalId }: Subject): Promise<string[]> {
  const [found] = await rows<{ orders: number; bots: number; sold: number; bought: number }>(
    db,
    `select (select count(*) from orders where ${liveOrdersOf} and phase not in ('closed', 'failed')) as orders,
            (select count(*) from marketplace_bots where party_id = :traderId and status = 'PUBLISHED') as bots,
            (select count(*) from marketplace_subscriptions s join marketplace_bots b on b.id = s.bot_id
              where b.party_id = :traderId and s.status <> 'CANCELED') as sold,
            (select count(*) from marketplace_subscriptions where party_id = :traderId and status <> 'CANCELED') as bought`,
    { traderId, partnerId, externalId }
  )
  const { orders, bots, sold, bought } = found as NonNullable<typeof found>
  const { availableUsd, heldUsd } = await getEarnings(db, { partnerId, partyId: traderId })
  const { availableUsd: ofPartner } = await getEarnings(db, { partnerId, partyId: partnerId })
  // What refunds took below zero, or its partner has taken out, nobody can pay out to it.
  const payableUsd = isLess(ofPartner, availableUsd) ? ofPartner : availableUsd
  const payable = isLess('0', payableUsd) ? [`${payableUsd} USD are available`] : []
  const held = isLess('0', heldUsd) ? [`${heldUsd} USD held`] : []
  return [
    ...(orders > 0 ? [`${orders} orders are not final: close them, or wait`] : []),
    ...(payable.length + held.length > 0 ? [`earnings of ${[...payable, ...held].join(' and ')}: pay them out`] : []),
    ...(bots > 0 ? [`${bots} bots are published: retire them`] : []),
    ...(sold > 0 ? [`${sold} subscriptions to its bots run: they end first`] : []),
    ...(bought > 0
      ? [
          `${bought} subscriptions of its own run: cancel them, they end first, or refund their last month, which ends them at once`
        ]
      : [])
  ]
}

/** Erased first, since they take seconds: rows that calls of other parties change, too, are locked after that. */
const LARGE = ['orders', 'orders_archive', 'trade_records']

interface Erased {
  traderId: string
  /** Rows changed or deleted, by table; empty when there was nothing left to erase. */
  tables: Record<string, number>
}

/**
 * Erases a trader in the caller's transaction: what must be kept loses its name, the rest goes. Repeating it erases what
 * came since, usually nothing. Throws CONFLICT while something of the trader's is under way, NOT_FOUND.
 */
export async function eraseTrader(trx: Db, vault: Vault, traderId: string): Promise<Erased> {
  // Before the lock as well: no order is copied for a trader that is locked, and one who is not erased loses none.
  await getErasable(trx, traderId, { lock: false })
  const subject = await getErasable(trx, traderId, { lock: true })
  const tables: Record<string, number> = {}
  const note = (table: string, count: number) => {
    if (count > 0) tables[table] = (tables[table] ?? 0) + count
  }
  const eraseFrom = async (table: string) => {
    const { rows: mine, becomes } = personalData[table] as TableDecision
    if (mine === null || becomes === 'keep' || becomes === 'expires') return
    const count =
      becomes === 'delete'
        ? await deleteRows(trx, table, mine, subject)
        : await blankRows(trx, table, { mine, becomes, subject })
    note(table, count)
  }
  for (const table of LARGE) await eraseFrom(table)
  await rows(
    trx,
    `update community_bots set likes = likes - 1 where id in (select bot_id from community_likes where party_id = :traderId)`,
    { traderId }
  )
  await forgetTokens(trx, vault, traderId)
  for (const table of Object.keys(personalData)) if (!LARGE.includes(table)) await eraseFrom(table)
  const followers = await rows(
    trx,
    // In the order in which several follows are locked everywhere (db/copy/fanout.ts).
    `update follows set ${stop}
      where id = any(array(select id from follows where leader_id = :traderId and status <> 'STOPPED' order by id for no key update))
      returning id`,
    { traderId }
  )
  note('follows', followers.length)
  return { traderId, tables }
}

/** Seals nothing over the tokens. */
async function forgetTokens(trx: Db, vault: Vault, traderId: string): Promise<void> {
  const found = await rows<{ id: string }>(trx, 'select id from broker_accounts where trader_id = :traderId', {
    traderId
  })
  for (const { id } of found) {
    const { keyId, sealed } = sealToken(vault, id, '')
    await rows(
      trx,
      `update broker_accounts set token_key_id = :keyId, token_sealed = :sealed, token_version = token_version + 1 where id = :id`,
      { id, keyId, sealed }
    )
  }
}

async function deleteRows(trx: Db, table: string, mine: string, subject: Subject): Promise<number> {
  const gone = await rows(trx, `delete from ${table} where ${mine} returning 1`, { ...subject })
  return gone.length
}

/** Changes the rows that are not yet as decided, in batches: a trader may have many orders. */
async function blankRows(
  trx: Db,
  table: string,
  { mine, becomes, subject }: { mine: string; becomes: Record<string, ColumnDecision>; subject: Subject }
): Promise<number> {
  const changes = Object.entries(becomes).flatMap(([column, decision]) => {
    const value = sqlOf(decision)
    return value === undefined ? [] : [{ column, value }]
  })
  const sets = changes.map(({ column, value }) => `${column} = ${value}`).join(', ')
  const differs = changes.map(({ column, value }) => `${column} is distinct from ${value}`).join(' or ')
  const bindings = { ...subject, pseudonym: pseudonymOf(subject.traderId), limit: BATCH }
  let count = 0
  for (let batch = 0; batch < MAX_BATCHES; batch++) {
    const [done] = await rows<{ found: number; changed: number }>(
      trx,
      // A row's place is its own within its partition alone.
      `with mine as materialized (select tableoid as part, ctid as place from ${table} where ${mine} and (${differs}) limit :limit),
            changed as (update ${table} set ${sets}
                         where ctid = any(array(select place from mine)) and (tableoid, ctid) in (select part, place from mine) returning 1)
       select (select count(*)::int from mine) as found, (select count(*)::int from changed) as changed`,
      bindings
    )
    const { found, changed } = done as NonNullable<typeof done>
    count += changed
    // A row that another transaction has changed or moved since the statement began is at another place by now and was left out:
    // the next statement finds it there, or in the archive, whose turn comes later.
    if (found < BATCH && changed === found) return count
  }
  throw new Error(`Rows of ${table} are still not as decided after ${MAX_BATCHES} batches of ${BATCH}.`)
}

function sqlOf(decision: ColumnDecision): string | undefined {
  if (decision === 'keep') return undefined
  if (decision === 'blank') return 'null'
  return decision === 'pseudonym' ? ':pseudonym::text' : `(${decision.set})`
}

const FETCHED = 1000
const CURSOR = 'exported_rows'

/**
 * Everything that is the trader's, table by table, as of one moment: each row with the name of its table and without
 * secrets. A row is the text of a JSON object: its numbers have more digits than a JavaScript number has. Throws NOT_FOUND.
 */
export async function* exportTrader(trx: Db, traderId: string): AsyncGenerator<{ table: string; row: string }> {
  const [subject] = await rows<Subject>(
    trx,
    `select id as "traderId", partner_id as "partnerId", external_id as "externalId" from traders where id = :traderId`,
    { traderId }
  )
  if (!subject) throw new ApiError('NOT_FOUND', `There is no trader ${traderId}.`)
  for (const [table, { rows: mine, secret = [] }] of Object.entries(personalData)) {
    if (mine === null) continue
    await rows(
      trx,
      `declare ${CURSOR} no scroll cursor for select (to_jsonb(t) - :secret::text[])::text as row from ${table} t where ${mine}`,
      { ...subject, secret }
    )
    for (;;) {
      const found = (await trx.raw(`fetch ${FETCHED} from ${CURSOR}`)).rows as { row: string }[]
      for (const { row } of found) yield { table, row }
      if (found.length < FETCHED) break
    }
    await trx.raw(`close ${CURSOR}`)
  }
  yield* exportRequests(trx, subject)
}

async function* exportRequests(
  trx: Db,
  { partnerId, externalId: trader }: Subject
): AsyncGenerator<{ table: string; row: string }> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await listRequests(trx, { partnerId, trader, limit: FETCHED, cursor })
    for (const row of page.requests) yield { table: 'requests', row: JSON.stringify(presentRequest(row)) }
    cursor = page.nextCursor
  }
}
