// The journal: every account, purchase, change and sale is appended to a file, or to another store of lines, before a client is
// notified. After a kill the next start restores accounts and contracts from it (restore.ts).
import { closeSync, existsSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import type { MarketTick } from './market.ts'
import type { Deposit, Offer, SaleEntry, SimulatedAccount, SimulatedContract } from './records.ts'

export interface Journal {
  /** What was stored when it was opened; the broker that reads it takes it out, since it would be in memory twice. */
  readonly lines: JournalLine[]
  opened(account: SimulatedAccount, transactionId: number): void
  deposited(account: SimulatedAccount, deposit: Deposit): void
  bought(contract: SimulatedContract): void
  changed(contract: SimulatedContract): void
  sold(contract: SimulatedContract, entry: SaleEntry): void
  close(): void
}

/** Remembers nothing. */
export const noJournal: Journal = {
  lines: [],
  opened() {},
  deposited() {},
  bought() {},
  changed() {},
  sold() {},
  close() {}
}

export interface StoredTick {
  n: number
  epoch: number
  pips: number
}

export type StoredContract = Omit<
  SimulatedContract,
  'account' | 'offer' | 'entry' | 'exit' | 'ticks' | 'watchers' | 'endMs' | 'delivered'
> & {
  loginid: string
  endMs: number | null
  entry: StoredTick | null
  offer: Omit<Offer, 'symbol'> & { symbol: string }
}

export type JournalLine =
  | {
      kind: 'account'
      loginid: string
      currency: string
      cents: number
      /** Journals of earlier versions do not have it: the prefix of its id is its kind. */
      virtual?: boolean | undefined
      createdMs: number
      transactionId: number
    }
  | { kind: 'deposit'; loginid: string; deposit: Deposit }
  | { kind: 'bought'; contract: StoredContract }
  | {
      kind: 'limits'
      id: number
      takeProfitCents: number | null
      stopLossCents: number | null
      /** Journals of earlier versions do not have it. */
      atMs?: number | undefined
    }
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
  return createJournal({
    lines,
    write: line => void writeSync(file, `${JSON.stringify(line)}\n`),
    close: () => closeSync(file)
  })
}

/** A journal on a store of lines: what it holds, and how one more is written. */
export function createJournal({
  lines,
  write,
  close
}: Pick<Journal, 'lines' | 'close'> & { write(line: JournalLine): void }): Journal {
  return {
    lines,
    opened: ({ loginid, currency, balanceCents: cents, isVirtual: virtual, createdMs }, transactionId) =>
      write({ kind: 'account', loginid, currency, cents, virtual, createdMs, transactionId }),
    deposited: ({ loginid }, deposit) => write({ kind: 'deposit', loginid, deposit }),
    bought: contract => write({ kind: 'bought', contract: store(contract) }),
    changed: ({ id, offer: { takeProfitCents, stopLossCents }, limitsChangedMs: atMs }) =>
      write({ kind: 'limits', id, takeProfitCents, stopLossCents, atMs }),
    sold: ({ id, entry, exit, ended }, sale) =>
      write({ kind: 'sold', id, sale, entry: storeTick(entry), exit: storeTick(exit), ended }),
    close
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

function storeTick(tick: MarketTick | null): StoredTick | null {
  return tick && { n: tick.n, epoch: tick.epoch, pips: tick.pips }
}
