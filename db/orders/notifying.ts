// How a statement that changes orders notifies those who wait for them: itself, with its commit, or by giving its caller what a
// hint is to carry.
import { hintOf, notifying } from '../platform/hints.ts'

/** What a statement returns of an order for those who wait for it. */
export interface Notifiable {
  /** The statement has notified them. */
  notified: boolean
  /** What the hint carries, where the statement has not (`outcomeOf`). */
  outcome: string | null
}

/**
 * Common table expressions that notify who waits for the orders in `changed`, which has `id`, `reply_channel` and `outcome`
 * (`outcomeLine`); where `condition` holds for them.
 */
export const notifyingOf = (changed: string, condition = 'true'): string =>
  notifying(
    `select reply_channel, ${hintOf('order', 'id', 'outcome')} from ${changed} where reply_channel is not null and ${condition}`
  )

/** `columns` of the rows in `changed` with what Notifiable has; it makes the statement notify. */
export const notifiedColumns = (changed: string, columns: readonly string[], notify: boolean): string =>
  [
    ...columns.map(column => `${changed}.${column}`),
    ...(notify
      ? ['(select messages from woken) is not null as notified', 'null::text as outcome']
      : [`false as notified`, `${changed}.outcome`])
  ].join(', ')
