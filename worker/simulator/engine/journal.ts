// The journal: every account, purchase, change and sale is appended to a file, one JSON line each, before a client is
// notified. After a kill the next start restores the contracts from it.
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import type { SimulatedAccount } from './accounts.ts'
import type { Deposit, SaleEntry } from './books.ts'
import type { Offer, SimulatedContract } from './contracts.ts'
import { toAmount } from './currencies.ts'
import type { Engine } from './engine.ts'
import type { MarketTick } from './market.ts'
import { symbols } from './symbols.ts'

export interface Journal {
  opened(account: SimulatedAccount, transactionId: number): void
  deposited(account: SimulatedAccount, deposit: Deposit): void
  bought(contract: SimulatedContract): void
  changed(contract: SimulatedContract): void
  sold(contract: SimulatedContract, entry: SaleEntry): void
  /** Puts what the file holds into a new engine. */
  replay(engine: Engine): void
  close(): void
}

/** Remembers nothing. */
export const noJournal: Journal = {
  opened() {},
  deposited() {},
  bought() {},
  changed() {},
  sold() {},
  replay() {},
  close() {}
}

interface StoredTick {
  n: number
  epoch: number
  pips: number
}

type StoredContract = Omit<
  SimulatedContract,
  'account' | 'offer' | 'entry' | 'exit' | 'ticks' | 'watchers' | 'endMs' | 'delivered'
> & {
  loginid: string
  endMs: number | null
  entry: StoredTick | null
  offer: Omit<Offer, 'symbol'> & { symbol: string }
}

type JournalLine =
  | { kind: 'account'; loginid: string; currency: string; cents: number; createdMs: number; transactionId: number }
  | { kind: 'deposit'; loginid: string; deposit: Deposit }
  | { kind: 'bought'; contract: StoredContract }
  | { kind: 'limits'; id: number; takeProfitCents: number | null; stopLossCents: number | null }
  | {
      kind: 'sold'
      id: number
      sale: SaleEntry
      entry: StoredTick | null
      exit: StoredTick | null
      ended: boolean
    }

/** Opens the journal at `path`, made if there is none. Throws when it cannot be written. */
export function openJournal(path: string): Journal {
  const lines = readLines(path)
  const file = openSync(path, 'a')
  const write = (line: JournalLine) => {
    writeSync(file, `${JSON.stringify(line)}\n`)
  }
  return {
    opened: ({ loginid, currency, balanceCents, createdMs }, transactionId) =>
      write({ kind: 'account', loginid, currency, cents: balanceCents, createdMs, transactionId }),
    deposited: ({ loginid }, deposit) => write({ kind: 'deposit', loginid, deposit }),
    bought: contract => write({ kind: 'bought', contract: store(contract) }),
    changed: ({ id, offer: { takeProfitCents, stopLossCents } }) =>
      write({ kind: 'limits', id, takeProfitCents, stopLossCents }),
    sold: ({ id, entry, exit, ended }, sale) =>
      write({ kind: 'sold', id, sale, entry: storeTick(entry), exit: storeTick(exit), ended }),
    replay(engine) {
      for (const line of lines) replayLine(engine, line)
      for (const contract of engine.contracts.values()) if (contract.status === 'open') engine.lives.resume(contract)
    },
    close: () => closeSync(file)
  }
}

/** The lines of the file; a last line cut off by a kill is taken off, any other broken line stops the start. */
function readLines(path: string): JournalLine[] {
  if (!existsSync(path)) return []
  const text = readFileSync(path, 'utf8')
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  if (whole.length < text.length) truncateSync(path, Buffer.byteLength(whole))
  return whole
    .split('\n')
    .filter(line => line !== '')
    .map((line, i) => {
      try {
        return JSON.parse(line) as JournalLine
      } catch (cause) {
        throw new Error(`${path}:${i + 1} is not a line of this journal`, { cause })
      }
    })
}

function replayLine(engine: Engine, line: JournalLine): void {
  if (line.kind === 'account') {
    const { loginid, currency, cents, createdMs, transactionId } = line
    engine.books.restoreAccount({ loginid, currency, balance: toAmount(cents, currency) }, { createdMs, transactionId })
    return
  }
  if (line.kind === 'deposit') {
    const account = engine.accounts.all.get(line.loginid)
    if (!account) throw new Error(`The journal's deposit has no account ${line.loginid}`)
    engine.books.restoreDeposit(account, line.deposit)
    return
  }
  if (line.kind === 'bought') {
    engine.books.restorePurchase(revive(engine, line.contract))
    return
  }
  const contract = engine.contracts.get(line.id)
  // Forgotten already: more contracts in the file than the engine keeps.
  if (!contract) return
  if (line.kind === 'limits') {
    contract.offer.takeProfitCents = line.takeProfitCents
    contract.offer.stopLossCents = line.stopLossCents
    return
  }
  contract.entry = reviveTick(contract.offer, line.entry)
  contract.exit = reviveTick(contract.offer, line.exit)
  contract.ended = line.ended
  engine.books.restoreSale(contract, line.sale)
}

function store(contract: SimulatedContract): StoredContract {
  const { account, offer, entry, exit, ticks, watchers, delivered, ...rest } = contract
  return {
    ...rest,
    loginid: account.loginid,
    endMs: Number.isFinite(rest.endMs) ? rest.endMs : null,
    entry: storeTick(entry),
    offer: { ...offer, symbol: offer.symbol.code }
  }
}

function revive(engine: Engine, stored: StoredContract): SimulatedContract {
  const { loginid, endMs, entry, offer, ...rest } = stored
  const account = engine.accounts.all.get(loginid)
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

function storeTick(tick: MarketTick | null): StoredTick | null {
  return tick && { n: tick.n, epoch: tick.epoch, pips: tick.pips }
}

function reviveTick({ symbol }: Offer, stored: StoredTick | null): MarketTick | null {
  return stored && { symbol, ...stored, quote: stored.pips / 10 ** symbol.decimals }
}
