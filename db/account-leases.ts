// Which worker serves a broker account: its orders, closes and broker requests, so that one process counts the account's
// calls and holds its connection. The row names the worker; it holds as long as that worker's lease in `followers` does.
// Nothing may rely on it for safety: two workers may believe that they serve an account, and the order's row decides.
import { createHash } from 'node:crypto'
import { type Db, listing, rows, sql } from './connection.ts'

/** The bus channel that a worker listens on alone: topic `claim` names an account, topic `ask` a broker request. */
export function channelOf(worker: string): string {
  return `svc_worker_${createHash('sha256').update(worker).digest('hex').slice(0, 16)}`
}

const lives = (worker: string) =>
  `exists (select 1 from followers living where living.name = ${worker} and living.lease_until >= clock_timestamp())`

/** A condition: no living worker but `worker` serves the account. */
export function servedByNoOther(accountId: string, worker: string): string {
  return `not exists (select 1 from account_leases l where l.account_id = ${accountId} and l.worker <> ${worker} and ${lives('l.worker')})`
}

/**
 * Common table expressions, to stand behind one named `accounts (account_id)`: `served (account_id, worker)` says who
 * serves each of them. Accounts that no living worker serves are taken for `:sender`, or for the worker that serves
 * another account of the same trader, since one broker token often opens several and connections count by token. The
 * worker is null where somebody else was about to take the account.
 */
export const serving = `lease as materialized (
       select a.account_id, (select l.worker from account_leases l where l.account_id = a.account_id) as worker from accounts a
     ), taken_lease as (
       insert into account_leases as l (account_id, worker)
       select f.account_id,
              coalesce((select s.worker
                          from (select o.trader_id from orders o where o.account_id = f.account_id and o.phase = 'queued' limit 1) t
                          join broker_accounts b on b.trader_id = t.trader_id and b.account_id <> f.account_id
                          join account_leases s on s.account_id = b.account_id
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

/** Who serves an account; null where somebody else was about to take it. */
export interface Served {
  accountId: string
  worker: string | null
}

/** Takes the accounts that no living worker serves for `worker`; returns who serves each. */
export async function serveAccounts(db: Db, worker: string, accountIds: string[]): Promise<Served[]> {
  if (accountIds.length === 0) return []
  return rows<Served>(
    db,
    sql`with accounts as (select distinct account_id from ${listing('accountIds')} as a (account_id)), ${serving}
     select account_id as "accountId", worker from served`,
    { accountIds: [...new Set(accountIds)], sender: worker }
  )
}

/** Gives up all accounts of a worker that is about to end. */
export async function releaseAccounts(db: Db, worker: string): Promise<void> {
  await rows(
    db,
    `delete from account_leases where account_id in
      (select account_id from account_leases where worker = :worker order by account_id for update skip locked)`,
    { worker }
  )
}

/** Forgets accounts whose worker has been gone for a day. */
export async function forgetAccountLeases(db: Db): Promise<void> {
  await rows(
    db,
    `delete from account_leases l
      where l.leased_at < now() - interval '1 day' and not exists (select 1 from followers f where f.name = l.worker)`
  )
}
