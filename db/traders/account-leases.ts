// Which worker serves a broker account (its orders, closes and broker requests), so that one process counts the account's calls
// and holds its connection. The row names the worker, and is valid as long as that worker's lease in `lease_holders`. Nothing may
// rely on it for safety: two workers may believe that they serve an account, and the order's row decides.
import { createHash } from 'node:crypto'
import { type Db, listing, rows, sql } from '../postgres/connection.ts'

/** The bus channel of one worker: topic `claim` names an account, topic `ask` a broker request. */
export function channelOf(worker: string): string {
  return `svc_worker_${createHash('sha256').update(worker).digest('hex').slice(0, 16)}`
}

const lives = (worker: string) =>
  `exists (select 1 from lease_holders living where living.name = ${worker} and living.lease_until >= clock_timestamp())`

/** A condition: no living worker but `worker` serves the account. */
export function servedByNoOther(accountId: string, worker: string): string {
  return `not exists (select 1 from account_leases l where l.account_id = ${accountId} and l.worker <> ${worker} and ${lives('l.worker')})`
}

/** A condition: a living worker serves the account. */
export function isServed(accountId: string): string {
  return `exists (select 1 from account_leases l where l.account_id = ${accountId} and ${lives('l.worker')})`
}

// Two steps, each by its key (`offset 0` keeps them apart): joined freely, a plan for a table of accounts that is thought to be empty
// reads all of them for each of them.
const othersOfTrader = (accountId: string) =>
  `(select o.account_id from (select t.trader_id from broker_accounts t where t.account_id = ${accountId} offset 0) t
                                 cross join lateral (select b.account_id from broker_accounts b
                                                      where b.trader_id = t.trader_id and b.account_id <> ${accountId} offset 0) o)`

/**
 * Common table expressions that follow one named `accounts (account_id)`: `served (account_id, worker)` has the worker
 * that serves each of them. Accounts that no living worker serves are taken for `:sender`, or for the worker that
 * serves another account of the same trader, since one broker token often opens several and connections count by token.
 * The worker is null where another worker was about to take the account.
 */
export const serving = `lease as materialized (
       select a.account_id, (select l.worker from account_leases l where l.account_id = a.account_id) as worker from accounts a
     ), taken_lease as (
       insert into account_leases as l (account_id, worker)
       select f.account_id,
              coalesce((select s.worker from ${othersOfTrader('f.account_id')} b join account_leases s on s.account_id = b.account_id
                         where ${lives('s.worker')} limit 1), :sender)
         from lease f
        where f.worker is distinct from :sender and (f.worker is null or not ${lives('f.worker')})
        order by f.account_id
       on conflict (account_id) do update set worker = excluded.worker, leased_at = clock_timestamp() where not ${lives('l.worker')}
       returning l.account_id, l.worker
     ), served as materialized (
       select f.account_id,
              coalesce(t.worker, case when f.worker = :sender or ${lives('f.worker')} then f.worker end) as worker
         from lease f left join taken_lease t on t.account_id = f.account_id
     )`

/** The worker that serves an account; null where another one was about to take it. */
export interface Served {
  accountId: string
  worker: string | null
}

/** Takes the accounts that no living worker serves for `worker`; returns the worker of each. */
export async function serveAccounts(db: Db, worker: string, accountIds: string[]): Promise<Served[]> {
  if (accountIds.length === 0) return []
  return rows<Served>(
    db,
    sql`with accounts as (select distinct account_id from ${listing('accountIds')} as a (account_id)), ${serving}
     select account_id as "accountId", worker from served`,
    { accountIds: [...new Set(accountIds)], sender: worker }
  )
}

/** Lets other workers give accounts to this one. */
export async function acceptAccounts(db: Db, worker: string): Promise<void> {
  await rows(db, 'update lease_holders set takes_accounts = true where name = :worker', { worker })
}

/** A worker has clearly more than its share of accounts where it serves this much more, and one account besides. */
const MORE_THAN_SHARE = 1.1
// A large excess goes in larger steps, so that it is gone within a minute.
const STEPS = 20

/**
 * Where `worker` serves clearly more accounts than its share among the living workers, gives a step of the excess to those
 * that serve less: `limit` accounts, or the excess divided by STEPS, or the accounts of one trader, whichever is most. All of a
 * trader's accounts go together, none in `busy` and none with an order being sent. Returns the accounts, each with its new worker.
 */
export async function evenOut(
  db: Db,
  { worker, busy, limit }: { worker: string; busy: string[]; limit: number }
): Promise<{ accountId: string; worker: string }[]> {
  const living = await rows<{ name: string; accounts: number }>(
    db,
    `select f.name, (select count(*) from account_leases l where l.worker = f.name) as accounts
       from lease_holders f where f.lease_until >= clock_timestamp() and (f.takes_accounts or f.name = :worker)`,
    { worker }
  )
  const share = Math.ceil(living.reduce((sum, { accounts }) => sum + accounts, 0) / Math.max(1, living.length))
  const own = living.find(({ name }) => name === worker)?.accounts ?? 0
  if (own <= share * MORE_THAN_SHARE + 1) return []
  const excess = own - share
  const rooms = living.filter(({ name, accounts }) => name !== worker && accounts < share)
  if (rooms.length === 0) return []
  // Starts at a random worker, so that several that give at once do not all fill the same one.
  rooms.push(...rooms.splice(0, Math.floor(Math.random() * rooms.length)))
  return rows<{ accountId: string; worker: string }>(
    db,
    sql`with mine as materialized (
       select l.account_id,
              coalesce((select min(b.trader_id) from broker_accounts b where b.account_id = l.account_id), l.account_id) as trader,
              l.account_id = any(:busy::text[])
                or exists (select from orders o where o.account_id = l.account_id and o.phase = 'sending') as busy
         from account_leases l where l.worker = :worker
     ), traders as (
       select trader, count(*) as accounts, sum(count(*)) over (order by trader) as up_to
         -- One with more accounts than the excess stays, and must not keep those after it from being given.
         from mine group by trader having not bool_or(busy) and count(*) <= :excess
     ), rooms as (
       select name, sum(room) over (order by place) as up_to
         from ${listing('names')} with ordinality as n (name, place)
         join unnest((select :rooms::int[])) with ordinality as r (room, place) using (place)
     ), given as (
       select m.account_id, (select r.name from rooms r where r.up_to >= t.up_to order by r.up_to limit 1) as worker
         from traders t join mine m using (trader)
        where t.up_to <= :excess and (t.up_to <= :limit or t.up_to = t.accounts)
     )
     update account_leases l set worker = g.worker, leased_at = clock_timestamp()
       from given g
      where l.account_id = g.account_id and l.worker = :worker and g.worker is not null
        and not exists (select from orders o where o.account_id = l.account_id and o.phase = 'sending')
     returning l.account_id as "accountId", l.worker`,
    {
      worker,
      busy,
      excess,
      limit: Math.max(limit, excess / STEPS),
      names: rooms.map(({ name }) => name),
      rooms: rooms.map(({ accounts }) => share - accounts)
    }
  )
}

/** Which of these accounts another living worker serves. */
export async function listServedByOthers(
  db: Db,
  { worker, accountIds }: { worker: string; accountIds: string[] }
): Promise<string[]> {
  if (accountIds.length === 0) return []
  const found = await rows<{ account_id: string }>(
    db,
    `select l.account_id from account_leases l where l.account_id = any(:accountIds::text[]) and l.worker <> :worker and ${lives('l.worker')}`,
    { worker, accountIds }
  )
  return found.map(({ account_id }) => account_id)
}

/** Gives up the accounts that a worker has served for `idleMs`, has not in use, and that have no orders waiting. */
export async function releaseIdle(
  db: Db,
  { worker, inUse, idleMs }: { worker: string; inUse: string[]; idleMs: number }
): Promise<string[]> {
  const released = await rows<{ account_id: string }>(
    db,
    `delete from account_leases l
      where l.worker = :worker and l.leased_at < clock_timestamp() - :idleMs * interval '1 millisecond'
        and not l.account_id = any(:inUse::text[])
        and not exists (select from orders o where o.account_id = l.account_id and o.phase = 'queued')
        and not exists (select from orders o where o.account_id = l.account_id and o.phase = 'sending')
     returning account_id`,
    { worker, inUse, idleMs }
  )
  return released.map(({ account_id }) => account_id)
}

/**
 * Gives up all accounts of a worker that is about to end, which takes none from now on; returns those of which orders wait
 * to be placed.
 */
export async function releaseAccounts(db: Db, worker: string): Promise<string[]> {
  await rows(db, 'update lease_holders set takes_accounts = false where name = :worker', { worker })
  const waiting = await rows<{ account_id: string; waits: boolean }>(
    db,
    `delete from account_leases l where account_id in
      (select account_id from account_leases where worker = :worker order by account_id for update skip locked)
     returning account_id, exists (select from orders o where o.account_id = l.account_id and o.phase = 'queued') as waits`,
    { worker }
  )
  return waiting.filter(({ waits }) => waits).map(({ account_id }) => account_id)
}

/** Forgets accounts whose worker has been gone for a day. */
export async function forgetAccountLeases(db: Db): Promise<void> {
  await rows(
    db,
    `delete from account_leases l
      where l.leased_at < now() - interval '1 day' and not exists (select 1 from lease_holders f where f.name = l.worker)`
  )
}
