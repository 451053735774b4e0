// The broker's books: the only code that changes balances, statement rows, contracts and issued numbers. Every change
// is written to the journal before a client is notified.
import { type AccountPreset, Accounts, enterRow, forgetContract } from './accounts.ts'
import type { WallClock } from './agenda.ts'
import type { Journal } from './journal.ts'
import { MarkupBook } from './markup-book.ts'
import type { ContractExit, Deposit, SaleEntry, SimulatedAccount, SimulatedContract } from './records.ts'

export class Books {
  readonly accounts: Accounts
  /** In the order of purchase. */
  readonly contracts = new Map<number, SimulatedContract>()
  /** Closed ones in the order they closed. */
  readonly #closed = new Set<SimulatedContract>()
  readonly markups = new MarkupBook()
  #clock: WallClock
  #journal: Journal
  #maxContracts: number
  #nextContract: number
  #nextTransaction: number
  #restoring: { createdMs: number; transactionId: number } | null = null

  constructor(open: { clock: WallClock; journal: Journal; maxContracts: number }) {
    this.#clock = open.clock
    this.#journal = open.journal
    this.#maxContracts = open.maxContracts
    // Ids grow with time, so that a restarted broker never gives one out twice.
    this.#nextContract = this.#clock.wall() * 1000
    this.#nextTransaction = this.#clock.wall() * 2000
    this.accounts = new Accounts(
      () => this.#clock.wall(),
      account => this.#welcome(account)
    )
  }

  /** Numbers for a purchase about to be entered. */
  newIds(): { id: number; buyTransaction: number } {
    return { id: this.#nextContract++, buyTransaction: this.#nextTransaction++ }
  }

  /** Enters a purchase. */
  bought(contract: SimulatedContract): void {
    contract.account.balanceCents -= contract.buyCents
    this.#journal.bought(contract)
    this.#enterPurchase(contract)
    for (const listener of contract.account.listeners) listener({ kind: 'bought', contract })
  }

  /** Enters a change of a contract's limits. */
  changed(contract: SimulatedContract): void {
    this.#journal.changed(contract)
  }

  /** Enters a sale, by the client or by the engine. */
  sold(contract: SimulatedContract, sale: ContractExit): void {
    const entry = { ...sale, soldMs: this.#clock.wall(), transactionId: this.#nextTransaction++ }
    this.#journal.sold(contract, entry)
    this.#enterSale(contract, entry)
  }

  /** Enters money that came, or went, without a contract. */
  deposited(account: SimulatedAccount, cents: number): void {
    const deposit = { cents, atMs: this.#clock.wall(), transactionId: this.#nextTransaction++ }
    this.#journal.deposited(account, deposit)
    this.#enterDeposit(account, deposit)
  }

  /** Puts a deposit read from the journal back. */
  restoreDeposit(account: SimulatedAccount, deposit: Deposit): void {
    this.#nextTransaction = Math.max(this.#nextTransaction, deposit.transactionId + 1)
    this.#enterDeposit(account, deposit)
  }

  /** Puts an account read from the journal back, with the movement that opened it. */
  restoreAccount(preset: AccountPreset, facts: { createdMs: number; transactionId: number }): void {
    this.#restoring = facts
    this.accounts.create(preset)
    this.#restoring = null
  }

  /** Puts a contract read from the journal back as it was bought. */
  restorePurchase(contract: SimulatedContract): void {
    contract.account.balanceCents -= contract.buyCents
    this.#nextContract = Math.max(this.#nextContract, contract.id + 1)
    this.#nextTransaction = Math.max(this.#nextTransaction, contract.buyTransaction + 1)
    this.#enterPurchase(contract)
  }

  /** Puts the sale of a restored contract back. */
  restoreSale(contract: SimulatedContract, entry: SaleEntry): void {
    this.#nextTransaction = Math.max(this.#nextTransaction, entry.transactionId + 1)
    this.#enterSale(contract, entry)
  }

  #welcome(account: SimulatedAccount): void {
    const transactionId = this.#restoring?.transactionId ?? this.#nextTransaction
    this.#nextTransaction = Math.max(this.#nextTransaction, transactionId) + 1
    account.createdMs = this.#restoring?.createdMs ?? account.createdMs
    if (!this.#restoring) this.#journal.opened(account, transactionId)
    const { balanceCents: cents, createdMs: atMs } = account
    account.balanceCents = 0
    this.#enterDeposit(account, { cents, atMs, transactionId })
  }

  #enterDeposit(account: SimulatedAccount, { cents, atMs, transactionId }: Deposit): void {
    account.balanceCents += cents
    enterRow(account, {
      transactionId,
      referenceId: null,
      action: account.isVirtual ? 'virtual_credit' : 'deposit',
      contract: null,
      amountCents: cents,
      balanceCents: account.balanceCents,
      atMs,
      appId: null
    })
  }

  #enterPurchase(contract: SimulatedContract): void {
    const { account } = contract
    this.contracts.set(contract.id, contract)
    this.markups.bought(contract)
    account.open.set(contract.id, contract)
    this.#forgetOldest()
    enterRow(account, {
      transactionId: contract.buyTransaction,
      referenceId: null,
      action: 'buy',
      contract,
      amountCents: -contract.buyCents,
      balanceCents: account.balanceCents,
      atMs: contract.boughtMs,
      appId: contract.appId
    })
  }

  #enterSale(contract: SimulatedContract, entry: SaleEntry): void {
    const { account } = contract
    contract.status = entry.status
    contract.sellCents = entry.cents
    contract.sellAppId = entry.appId
    contract.soldMs = entry.soldMs
    contract.sellTransaction = entry.transactionId
    account.balanceCents += entry.cents
    account.open.delete(contract.id)
    account.closed.push(contract)
    this.#closed.add(contract)
    enterRow(account, {
      transactionId: entry.transactionId,
      referenceId: contract.buyTransaction,
      action: 'sell',
      contract,
      amountCents: entry.cents,
      balanceCents: account.balanceCents,
      atMs: entry.soldMs,
      appId: entry.appId
    })
  }

  /** Past the bound the contract that closed first goes, with all that its account has of it. */
  #forgetOldest(): void {
    if (this.contracts.size <= this.#maxContracts) return
    const [oldest] = this.#closed
    if (oldest === undefined) return
    this.#closed.delete(oldest)
    this.contracts.delete(oldest.id)
    forgetContract(oldest)
  }
}
