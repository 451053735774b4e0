// The simulated broker's customers: accounts, their money in whole cents (the smallest unit of the currency, see
// currencies.ts) with every movement of it, and the tokens that open them. A token of the form sim-<loginid>[-<flag>…]
// opens its account on first use; the flag x<epoch> sets when it ends.

import { currencies, startIn, toAmount, unitsWithin } from './currencies.ts'
import type { Row, SimulatedAccount, SimulatedContract } from './records.ts'
import { SimulatedRefusal } from './refusal.ts'

export type TokenScope = 'read' | 'trade' | 'trading_information' | 'payments' | 'admin'

/** What a token gives. */
export interface Grant {
  token: string
  /** What follows the account in the token. */
  flags: ReadonlySet<string>
  account: SimulatedAccount
  scopes: ReadonlySet<TokenScope>
}

/** An account prepared by option or control call; money as a decimal number of the account's currency. */
export interface AccountPreset {
  loginid: string
  token?: string
  currency?: string
  balance?: number
  disabled?: boolean
  /** Play money; by default from the login id's prefix. */
  virtual?: boolean | undefined
  scopes?: TokenScope[]
}

const START_CENTS = 1_000_000
const POOR_CENTS = 100
const MAX_ROWS = 200_000
const MAX_ACCOUNTS = 500_000
const FULL: TokenScope[] = ['read', 'trade', 'trading_information', 'payments', 'admin']
const READ_ONLY: TokenScope[] = ['read', 'trading_information']
/** What a flag in a token does; a currency is one, too. The page on testing shows them. */
export const tokenFlags = {
  demo: 'The account is a demo account, whatever its id begins with.',
  real: 'The account is a real one, whatever its id begins with.',
  poor: 'It has 1.00 in its currency instead of 10,000.00.',
  readonly: 'The token may read and not trade.',
  disabled: 'The broker refuses the account.'
} as const

const TOKEN = /^sim-([A-Z]{2,4}[0-9]{1,10})((?:-[A-Za-z0-9]+)*)$/

export class Accounts {
  readonly all = new Map<string, SimulatedAccount>()
  #presets = new Map<string, { loginid: string; scopes: TokenScope[] }>()
  #revoked = new Set<string>()
  #now: () => number
  #created: (account: SimulatedAccount) => void

  /** `created` is called with every new account before its first use. */
  constructor(now: () => number, created: (account: SimulatedAccount) => void) {
    this.#now = now
    this.#created = created
  }

  /** Opens the token's account, creating it where the token's form allows it. Throws InvalidToken, AccountDisabled. */
  grant(token: string): Grant {
    const invalid = () => new SimulatedRefusal('InvalidToken', 'The token is invalid.')
    if (this.#revoked.has(token) || token.length < 10) throw invalid()
    const preset = this.#presets.get(token)
    const match = preset ? null : TOKEN.exec(token)
    if (!preset && !match) throw invalid()
    const loginid = preset?.loginid ?? (match?.[1] as string)
    if (this.#revoked.has(loginid)) throw invalid()
    if (!this.all.has(loginid) && this.all.size >= MAX_ACCOUNTS) throw invalid()
    const flags = new Set(match?.[2]?.split('-').slice(1))
    const has = (flag: keyof typeof tokenFlags) => flags.has(flag)
    const [ends] = [...flags].filter(flag => /^x\d{1,10}$/.test(flag))
    if (ends !== undefined && this.#now() >= Number(ends.slice(1)) * 1000) throw invalid()
    const currency = currencies.find(currency => flags.has(currency)) ?? 'USD'
    const units = has('poor') ? startIn(currency, POOR_CENTS) : startIn(currency, START_CENTS)
    const virtual = has('demo') ? true : has('real') ? false : undefined
    const balance = toAmount(units, currency)
    const account = this.all.get(loginid) ?? this.create({ loginid, balance, currency, virtual })
    if (account.disabled || has('disabled')) throw disabled(account)
    const scopes = preset?.scopes ?? (has('readonly') ? READ_ONLY : FULL)
    account.flags = flags
    return { token, flags, account, scopes: new Set(scopes) }
  }

  /** Throws when the grant no longer holds: its token revoked, its account disabled. */
  check(grant: Grant): void {
    if (grant.account.disabled) throw disabled(grant.account)
    if (this.#revoked.size === 0) return
    if (this.#revoked.has(grant.token) || this.#revoked.has(grant.account.loginid)) {
      throw new SimulatedRefusal('InvalidToken', 'The token is invalid.')
    }
  }

  /** Opens an account, or changes the standing of one that exists. */
  create(preset: AccountPreset): SimulatedAccount {
    const { loginid } = preset
    if (preset.token) this.#presets.set(preset.token, { loginid, scopes: preset.scopes ?? FULL })
    const known = this.all.get(loginid)
    if (known) {
      known.disabled = preset.disabled ?? known.disabled
      return known
    }
    const currency = preset.currency ?? 'USD'
    const start = startIn(currency, START_CENTS)
    const account: SimulatedAccount = {
      loginid,
      userId: Number(loginid.replace(/\D/g, '')),
      currency,
      isVirtual: preset.virtual ?? /^(VR|DOT|TST)/.test(loginid),
      disabled: preset.disabled ?? false,
      flags: new Set(),
      balanceCents: preset.balance === undefined ? start : unitsWithin(preset.balance, currency).floor,
      createdMs: this.#now(),
      open: new Map(),
      closed: [],
      rows: [],
      listeners: new Set()
    }
    this.all.set(loginid, account)
    this.#created(account)
    return account
  }

  /** Makes a token, or every token of a login id, invalid from now on; open connections notice at their next call. */
  revoke(tokenOrLoginid: string): void {
    this.#revoked.add(tokenOrLoginid)
  }

  /** Takes a revocation back. */
  restore(tokenOrLoginid: string): void {
    this.#revoked.delete(tokenOrLoginid)
  }
}

/** Enters a movement whose amount is already part of the balance, and notifies the listeners. */
export function enterRow(account: SimulatedAccount, row: Row): void {
  account.rows.push(row)
  if (account.rows.length > MAX_ROWS) account.rows.splice(0, MAX_ROWS / 10)
  for (const listener of account.listeners) listener({ kind: 'row', row })
}

/** Forgets the contract of its account that closed first; both its rows are near the head. */
export function forgetContract(contract: SimulatedContract): void {
  const { closed, rows } = contract.account
  closed.shift()
  // Gone already, with the oldest rows of the account.
  if ((rows[0]?.atMs ?? Infinity) > (contract.soldMs ?? 0)) return
  for (const action of ['buy', 'sell']) {
    const at = rows.findIndex(row => row.contract === contract && row.action === action)
    if (at >= 0) rows.splice(at, 1)
  }
}

function disabled(account: SimulatedAccount): SimulatedRefusal {
  return new SimulatedRefusal('AccountDisabled', `The account ${account.loginid} is disabled.`)
}
