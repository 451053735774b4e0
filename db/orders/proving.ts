// From unproven to queued: orders on accounts whose token the broker has not accepted yet. They are in no account's queue and
// cannot be its one order at the broker. A worker authorises their account first, within a share for each partner.
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import { expiredMessageOf, isOver } from './expired.ts'
import { otherModeMessageOf } from './other-mode.ts'
import type { OrderRow } from './reading.ts'

/** An account to be authorised because orders wait for it. */
export interface Unproven {
  accountRowId: string
  partnerId: string
  accountId: string
  appId: string
  dialect: string
  /** The broker accepted its token since its orders were stored. */
  proven: boolean
}

// The worker that is going to place the account's orders authorises it, and keeps the connection: one that serves it or another account
// of the same trader; any worker where no living one serves either.
const servedHere = `${servedByNoOther('a.account_id', ':worker')}
             and (exists (select 1 from broker_accounts b join account_leases l on l.account_id = b.account_id
                           where b.trader_id = a.trader_id and l.worker = :worker)
                  or not exists (select 1 from broker_accounts b where b.trader_id = a.trader_id
                                   and not (${servedByNoOther('b.account_id', ':worker')})))`

/** Whether any order waits for its account to be authorised. */
export async function anyUnproven(db: Db): Promise<boolean> {
  const [row] = await rows<{ waits: boolean }>(
    db,
    `select exists (select from orders where phase = 'unproven') as waits`
  )
  return row?.waits === true
}

/**
 * Takes accounts with unproven orders that `worker` may serve, at most `limit`, round-robin among partners; no other worker gets
 * one for `leaseMs`. A partner in `busy` gets at most its entry in `rooms`, any other at most `room`.
 */
export async function takeUnproven(
  db: Db,
  options: { worker: string; limit: number; room: number; busy: string[]; rooms: number[]; leaseMs: number }
): Promise<Unproven[]> {
  return rows<Unproven>(
    db,
    // There are few partners among many orders: each is found by one step into the index.
    `with recursive owners (id) as (
       select min(partner_id) from orders where phase = 'unproven'
       union all
       select (select min(partner_id) from orders where phase = 'unproven' and partner_id > p.id) from owners p where p.id is not null
     ), waiting as (
       select w.id, row_number() over (partition by p.id order by w.since) as turn
         from owners p
         left join unnest(:busy::text[], :rooms::int[]) as b (id, room) on b.id = p.id
        cross join lateral (
          select a.id, o.since
            from (select broker_account_id, min(queued_at) as since from orders
                   where phase = 'unproven' and partner_id = p.id and expires_at > clock_timestamp() group by 1) o
            join broker_accounts a on a.id = o.broker_account_id
           where (a.prove_at is null or a.prove_at <= clock_timestamp()) and ${servedHere}
           order by o.since limit coalesce(b.room, :room)) w
        where p.id is not null
     ), mine as (
       select a.id from broker_accounts a
        where a.id in (select id from waiting order by turn, id limit :limit)
          and (a.prove_at is null or a.prove_at <= clock_timestamp())
        for no key update skip locked
     )
     update broker_accounts a set prove_at = clock_timestamp() + :leaseMs * interval '1 millisecond'
       from partners p
      where a.id in (select id from mine) and p.id = a.partner_id
     returning a.id as "accountRowId", a.partner_id as "partnerId", a.account_id as "accountId", p.broker_app_id as "appId",
       p.broker_dialect as dialect, coalesce(a.proven_version = a.token_version, false) as proven`,
    options
  )
}

/**
 * Queues the unproven orders of an account whose token the broker has accepted, as of now; `accountId` when there were any.
 * Those that were stored while the account was exchanged as one of the other mode are failed, for what was expected then does
 * not hold; they may be repeated. They are placed where the token is proven: under the application and in the dialect that their
 * partner has now. One whose time to live is over stays for `expireUnproven`, which knows what it waited for. Does
 * nothing for an account that is not proven.
 */
export async function queueProven(
  db: Db,
  accountRowId: string
): Promise<{ accountId: string | null; failed: Pick<OrderRow, 'id' | 'reply_channel'>[] }> {
  const [row] = await rows<{ accountId: string | null; failed: Pick<OrderRow, 'id' | 'reply_channel'>[] }>(
    db,
    `with clock as materialized (select clock_timestamp() as at), account as (
       update broker_accounts set prove_at = null where id = :accountRowId and proven_version = token_version
       returning id, partner_id, account_id, account_mode, currency,
         (select p.broker_app_id from partners p where p.id = broker_accounts.partner_id) as app_id,
         (select p.broker_dialect from partners p where p.id = broker_accounts.partner_id) as dialect
     ), waiting as (
       -- They keep the order of their arrival, a microsecond apart, whatever the order of the rows.
       select o.id, clock.at - (row_number() over (order by o.queued_at desc, o.id desc) - 1) * interval '1 microsecond' as at
         from orders o cross join clock
        where o.broker_account_id = :accountRowId and o.phase = 'unproven' and not ${isOver('o')}
          and o.partner_id = (select partner_id from broker_accounts where id = :accountRowId)
     ), queued as (
       update orders o
          set phase = 'queued', queued_at = w.at, currency = coalesce(o.currency, a.currency), app_id = a.app_id, dialect = a.dialect
         from account a, waiting w
        where o.id = w.id and o.phase = 'unproven' and o.account_mode = a.account_mode
       returning o.account_id
     ), failed as (
       update orders o
          set phase = 'failed', error_code = 'CONFLICT', retryable = true,
              error_message = ${otherModeMessageOf('o', 'a.account_mode')}
         from account a
        where o.broker_account_id = a.id and o.partner_id = a.partner_id and o.phase = 'unproven' and o.account_mode <> a.account_mode
       returning o.id, o.reply_channel
     )
     select (select account_id from queued limit 1) as "accountId",
            coalesce((select jsonb_agg(jsonb_build_object('id', id, 'reply_channel', reply_channel)) from failed), '[]') as failed`,
    { accountRowId }
  )
  return row as NonNullable<typeof row>
}

/** No worker tries to open the account for its orders before `pauseMs` have passed. */
export async function pauseProving(db: Db, accountRowId: string, pauseMs: number): Promise<void> {
  await rows(
    db,
    `update broker_accounts set prove_at = clock_timestamp() + :pauseMs * interval '1 millisecond' where id = :accountRowId`,
    { accountRowId, pauseMs }
  )
}

/**
 * Fails the unproven orders of an account, whose next order may be tried at once; one that ends with BROKER_UPSTREAM
 * may be tried again. Returns the rows: none where the broker has refused a token and the account got another one meanwhile, with
 * which its orders are tried next.
 */
export async function failUnproven(
  db: Db,
  accountRowId: string,
  { code, message }: { code: ErrorCode; message: string }
): Promise<Pick<OrderRow, 'id' | 'reply_channel'>[]> {
  return rows(
    db,
    `with account as (
       update broker_accounts set prove_at = null where id = :accountRowId returning id, partner_id, status
     )
     update orders o
        set phase = 'failed', error_code = :code, error_message = :message, retryable = (:code = 'BROKER_UPSTREAM')
       from account a
      where o.phase = 'unproven' and o.broker_account_id = a.id and o.partner_id = a.partner_id
        and (a.status = 'REJECTED' or :code <> 'BROKER_DISCONNECTED')
     returning o.id, o.reply_channel`,
    { accountRowId, code, message }
  )
}

/** Fails unproven orders whose time to live is over, at most `limit`. Returns the rows. */
export async function expireUnproven(db: Db, limit: number): Promise<Pick<OrderRow, 'id' | 'reply_channel'>[]> {
  return rows(
    db,
    `update orders o
        set phase = 'failed', error_code = 'BROKER_UPSTREAM', retryable = true, error_message = ${expiredMessageOf('o')}
      where id in (select u.id from orders u where u.phase = 'unproven' and ${isOver('u')}
                    limit :limit for update skip locked)
     returning id, reply_channel`,
    { limit }
  )
}
