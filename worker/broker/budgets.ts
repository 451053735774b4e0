// The call budgets of a client: one for each account or report under each application, and one for the application's market
// data. What they spend is recorded for the workers that serve the account next.
import type { CallRecords } from '../../db/platform/call-records.ts'
import type { BrokerLog } from './port.ts'
import type { CallLimits } from './transport/call-window.ts'
import { Budget, settleAll } from './transport/quota.ts'

const MAX_BLANK_BUDGETS = 2_000

interface BudgetsOptions {
  /** The name of the dialect: its calls are counted apart from those of the other. */
  dialect: string
  limits: CallLimits
  /** Where calls are counted together with other workers; without it, this process counts for itself. */
  records?: CallRecords | undefined
  log: BrokerLog
}

export class Budgets {
  readonly #options: BudgetsOptions
  readonly #budgets = new Map<string, Budget>()
  #limits: CallLimits

  constructor(options: BudgetsOptions) {
    this.#options = options
    this.#limits = options.limits
  }

  /** The budget of an account, or of the owner of a report token (markup-report.ts); `spender` is '' for market data. */
  of(appId: string, spender: string): Budget {
    const key = keyOf(appId, spender)
    let budget = this.#budgets.get(key)
    if (budget === undefined) {
      const { dialect, records } = this.#options
      // Market data comes over connections of this process alone.
      const shared = spender === '' ? undefined : records?.of(`${dialect} ${appId} ${spender}`)
      budget = new Budget(this.#limits, { records: shared })
      this.#budgets.set(key, budget)
    }
    return budget
  }

  /** Limits of budgets that are made from now on. */
  setLimits(limits: CallLimits): void {
    this.#limits = limits
  }

  /** Class → the fraction left where the least is. */
  left(): Record<string, number> {
    const least: Record<string, number> = {}
    for (const budget of this.#budgets.values()) {
      for (const [name, left] of Object.entries(budget.left())) least[name] = Math.min(least[name] ?? 1, left)
    }
    return least
  }

  /** The spenders whose calls other workers allow for until they are settled. */
  counted(): string[] {
    return [...this.#budgets].flatMap(([key, budget]) => (budget.counting ? [spenderOf(key)] : []))
  }

  /** Publishes what was spent: all of it, or that of some spenders. Rejects when some could not be. */
  async settle(spenders?: ReadonlySet<string>): Promise<void> {
    const settled = [...this.#budgets].filter(([key]) => spenders === undefined || spenders.has(spenderOf(key)))
    await settleAll(settled.map(([, budget]) => budget))
  }

  /** Removes budgets that are unused and that no connection of `inUse` counts in, once there are many. */
  sweep(inUse: () => Iterable<{ appId: string; spender: string }>): void {
    if (this.#budgets.size <= MAX_BLANK_BUDGETS) return
    const used = new Set(Array.from(inUse(), ({ appId, spender }) => keyOf(appId, spender)))
    for (const [key, budget] of this.#budgets)
      if (!used.has(key) && budget.blank && this.#budgets.delete(key)) budget.end(this.#options.log)
  }
}

const keyOf = (appId: string, spender: string) => `${appId} ${spender}`

function spenderOf(key: string): string {
  return key.slice(key.indexOf(' ') + 1)
}
