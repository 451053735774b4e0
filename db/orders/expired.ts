// Why an order ran out of time: the last thing it waited for. One expression for every statement that fails one.
import { isServed } from '../traders/account-leases.ts'

// The database's clock is set back, or a standby whose clock is behind has taken over.
const SET_BACK_SECONDS = 1
const isAhead = (order: string) => `${order}.queued_at > clock_timestamp() + interval '${SET_BACK_SECONDS} second'`

/** SQL: when the time to live of `order`, an alias of orders, ends, ms since the epoch. Another life ends at another time. */
export const endsMsOf = (order: string): string => `(extract(epoch from ${order}.expires_at) * 1000)::float8`

/** What an order reads whose time to live is over, before the reason. */
export const EXPIRED = 'The order could not be placed within its time to live; it was not placed.'

/**
 * SQL: the error message of `order`, an alias of orders, whose time to live is over: EXPIRED and what was missing. A claim
 * that was given back since it was queued is the best reason, whichever order of the account it was for.
 */
export const expiredMessageOf = (order: string): string => `'${EXPIRED} ' || case
   when ${isAhead(order)} then 'The clock of the database was set back.'
   when ${order}.phase = 'unproven' then 'The account could not be opened at the broker.'
   else coalesce(
     (select l.held_back from account_leases l where l.account_id = ${order}.account_id and l.held_back_at > ${order}.queued_at),
     (select 'An earlier order of the account was at the broker.' from orders s
       where s.account_id = ${order}.account_id and s.phase = 'sending' limit 1),
     case when ${order}.expires_at <= ${order}.queued_at then 'Its request had waited for as long before it was stored.'
          when ${isServed(`${order}.account_id`)} then 'The worker of its account did not get to it.'
          else 'No worker had taken its account.' end)
   end`

/**
 * SQL: the time to live of `order`, an alias of orders, is over. Also where it was queued later than now: the database's clock was set
 * back, and for how long the order has waited nobody knows; by that clock it would be placed as much too late.
 */
export const isOver = (order: string): string => `(${order}.expires_at <= clock_timestamp() or ${isAhead(order)})`
