// A restarted broker reads accounts, contracts and movements of money from its journal.
import type { Books } from './books.ts'
import { toAmount } from './currencies.ts'
import type { JournalLine, StoredContract, StoredTick } from './journal.ts'
import type { MarketTick } from './market.ts'
import type { Offer, SimulatedContract } from './records.ts'
import { symbols } from './symbols.ts'

/** Enters the journal's lines into empty books, in their order; returns when the last was written, in ms, 0 without one. */
export function restore(books: Books, lines: readonly JournalLine[]): number {
  for (const line of lines) restoreLine(books, line)
  return lines.reduce((last, line) => Math.max(last, timeOf(line)), 0)
}

function timeOf(line: JournalLine): number {
  switch (line.kind) {
    case 'account':
      return line.createdMs
    case 'deposit':
      return line.deposit.atMs
    case 'bought':
      return line.contract.boughtMs
    case 'limits':
      return line.atMs ?? 0
    case 'sold':
      return line.sale.soldMs
  }
}

function restoreLine(books: Books, line: JournalLine): void {
  if (line.kind === 'account') {
    const { loginid, currency, cents, virtual, createdMs, transactionId } = line
    const balance = toAmount(cents, currency)
    books.restoreAccount({ loginid, currency, balance, virtual }, { createdMs, transactionId })
    return
  }
  if (line.kind === 'deposit') {
    const account = books.accounts.all.get(line.loginid)
    if (!account) throw new Error(`The journal's deposit has no account ${line.loginid}`)
    books.restoreDeposit(account, line.deposit)
    return
  }
  if (line.kind === 'bought') {
    books.restorePurchase(revive(books, line.contract))
    return
  }
  const contract = books.contracts.get(line.id)
  // Forgotten already: more contracts in the file than the books keep.
  if (!contract) return
  if (line.kind === 'limits') {
    contract.offer.takeProfitCents = line.takeProfitCents
    contract.offer.stopLossCents = line.stopLossCents
    contract.limitsChangedMs = line.atMs ?? contract.limitsChangedMs
    return
  }
  contract.entry = reviveTick(contract.offer, line.entry)
  contract.exit = reviveTick(contract.offer, line.exit)
  contract.ended = line.ended
  books.restoreSale(contract, line.sale)
}

function revive(books: Books, stored: StoredContract): SimulatedContract {
  const { loginid, endMs, entry, offer, ...rest } = stored
  const account = books.accounts.all.get(loginid)
  const symbol = symbols.get(offer.symbol)
  if (!account || !symbol) throw new Error(`The journal's contract ${stored.id} has no account or no symbol`)
  const whole: Offer = { ...offer, symbol }
  return {
    ...rest,
    account,
    offer: whole,
    endMs: endMs ?? Infinity,
    entry: reviveTick(whole, entry),
    exit: null,
    ticks: [],
    delivered: null,
    watchers: new Set()
  }
}

function reviveTick({ symbol }: Offer, stored: StoredTick | null): MarketTick | null {
  return stored && { symbol, ...stored, quote: stored.pips / 10 ** symbol.decimals }
}
