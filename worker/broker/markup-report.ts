// The broker's own report of what an application earned by its markups, part of the port.

/** Access to the broker's own reports about an application. */
export interface ReportAccess {
  /** The application's id at the broker. */
  appId: string
  /** The owner of the token: calls with it share a budget. */
  ownerId: string
  /** Unseals the token; called once, the value is not kept. */
  token(): Promise<string>
}

/** As whom its calls are counted, beside accounts by their ids. */
export function reporterOf({ ownerId }: Pick<ReportAccess, 'ownerId'>): string {
  return `report:${ownerId}`
}

/** A contract in the broker's report of markups. */
export interface ReportedMarkup {
  /** The broker's id of the purchase: the report has no id of the contract. */
  transactionId: string
  accountId: string
  currency: string
  markup: string
}

/** What an application earned on a day, by the broker's own report. */
export interface MarkupReport {
  /** By currency of the accounts, or all in US dollars where `contracts` is null. */
  sums: { currency: string; contracts: number; markup: string }[]
  /** Each contract; null where the dialect reports sums only, or there are too many to be read. */
  contracts: ReportedMarkup[] | null
  /** Whether the broker's sums and its list agree: while it is still writing them they do not. */
  consistent: boolean
}
