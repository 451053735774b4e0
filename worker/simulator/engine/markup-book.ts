// The broker's own book of what applications earned: one entry for each contract of a real account that was charged a
// markup. Reports are made from it, and audits compare it with ours.
import type { AppId, SimulatedContract } from './records.ts'

export interface MarkupEntry {
  appId: AppId
  loginid: string
  currency: string
  /** In the smallest unit of the currency. */
  units: number
  transactionId: number
  contractId: number
  /** Purchase time, epoch ms. */
  atMs: number
}

/** Past the bound the oldest entries go. */
const MAX_ENTRIES = 1_000_000

export class MarkupBook {
  /** In the order of purchase. */
  readonly entries: MarkupEntry[] = []
  /** How long after its purchase a contract is reported. */
  reportDelayMs = 0

  /** Enters a purchase; play money earns nobody anything. */
  bought({ account, appId, offer, markupCents, buyTransaction, id, boughtMs }: SimulatedContract): void {
    if (account.isVirtual || markupCents <= 0) return
    if (this.entries.length >= MAX_ENTRIES) this.entries.splice(0, MAX_ENTRIES / 10)
    this.entries.push({
      appId,
      loginid: account.loginid,
      currency: offer.currency,
      units: markupCents,
      transactionId: buyTransaction,
      contractId: id,
      atMs: boughtMs
    })
  }

  /** What is reported at `nowMs` of purchases within [from, to], epoch seconds, oldest first. */
  reported({ from, to }: { from: number; to: number }, nowMs: number): MarkupEntry[] {
    return this.entries.filter(({ atMs }) => {
      const second = Math.floor(atMs / 1000)
      return second >= from && second <= to && atMs + this.reportDelayMs <= nowMs
    })
  }
}
