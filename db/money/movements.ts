// What a movement of a wallet was for, and for which time: one line that a customer can read, made from what the books
// keep of it.
import type { TransferKind } from './ledger.ts'

interface Movement {
  kind: TransferKind
  details: Record<string, unknown>
}

export interface ExplainedMovement {
  description: string
  /** The time it paid for; null where it paid for no time. */
  periodStart: string | null
  periodEnd: string | null
}

/** Explains a movement. Movements of older versions have fewer details. */
export function explain({ kind, details }: Movement): ExplainedMovement {
  const text = (name: string) => (typeof details[name] === 'string' ? (details[name] as string) : null)
  const [periodStart, periodEnd] = [text('periodStart'), text('periodEnd')]
  const time = [periodStart && `from ${day(periodStart)}`, periodEnd && `to ${day(periodEnd)}`]
    .filter(Boolean)
    .join(' ')
  const bot = `${text('botName') ?? 'a bot'} (${text('botId') ?? 'unknown'})`
  return { description: `${whatFor()}${time ? `, ${time}` : ''}`, periodStart, periodEnd }

  function whatFor(): string {
    switch (kind) {
      case 'topup':
        return text('reference') === null ? 'Paid in' : `Paid in: ${text('reference')}`
      case 'debit':
        return `Taken out by the operator: ${text('reason')}`
      case 'plan_fee':
        return `Plan ${text('plan')}, a month`
      case 'plan_upgrade':
        return `Upgrade from ${text('from')} to ${text('plan')}, the rest of the period`
      case 'sale':
        return `Purchase of the bot ${bot}`
      case 'subscription':
        return `Subscription to the bot ${bot}, month ${String(details.period ?? '?')}`
      case 'refund':
        return `Refund of ${text('purchaseId') ?? `${text('subscriptionId')}, month ${String(details.period)}`}${text('reason') === null ? '' : `: ${text('reason')}`}`
      default:
        return kind.replaceAll('_', ' ')
    }
  }
}

/** People need only dates here; the exact times are beside the text. */
function day(iso: string): string {
  return iso.slice(0, 10)
}
