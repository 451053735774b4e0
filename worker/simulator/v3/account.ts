// Calls about accounts: identity, balances and portfolios, transactions.
import type { Grant } from '../engine/accounts.ts'
import { longcodeOf, printBarrier } from '../engine/contracts.ts'
import { currencyType, digitsOf, toAmount } from '../engine/currencies.ts'
import type { AppId, Row, SimulatedAccount, SimulatedContract } from '../engine/records.ts'
import { V3Error } from './errors.ts'
import type { CallRequest, Handler } from './v3.ts'

const DEFAULT_STATEMENT = 100
const DEFAULT_PROFIT_TABLE = 50

const authorize: Handler = (request, { v3, connection }) => {
  const tokens = (request.tokens as string[] | undefined) ?? []
  const multi = request.authorize === 'MULTI'
  const grants = [...(multi ? [] : [request.authorize as string]), ...tokens].map(token =>
    v3.engine.accounts.grant(token)
  )
  const first = grants[0]
  if (!first) throw new V3Error('InvalidToken', 'The token is invalid.')
  connection.streams.forgetAll(['balance', 'transaction', 'proposal_open_contract'])
  connection.grants = new Map(grants.map(grant => [grant.account.loginid, grant]))
  connection.multi = multi || tokens.length > 0
  return { body: { authorize: presentGrant(first, grants) } }
}

function presentGrant({ account, scopes }: Grant, all: Grant[]): Record<string, unknown> {
  return {
    account_list: all.map(grant => presentListed(grant.account)),
    balance: toAmount(account.balanceCents, account.currency),
    country: 'aq',
    currency: account.currency,
    email: `${account.loginid.toLowerCase()}@example.com`,
    fullname: account.isVirtual ? '' : `Client ${account.loginid}`,
    is_virtual: account.isVirtual ? 1 : 0,
    landing_company_fullname: 'Simulated Broker',
    landing_company_name: account.isVirtual ? 'virtual' : 'svg',
    linked_to: [],
    local_currencies: { [account.currency]: { fractional_digits: digitsOf(account.currency) } },
    loginid: account.loginid,
    preferred_language: 'EN',
    scopes: [...scopes],
    upgradeable_landing_companies: [],
    user_id: account.userId
  }
}

/** An account as the lists of a user's accounts show it. */
export function presentListed(account: SimulatedAccount): Record<string, unknown> {
  return {
    account_category: 'trading',
    account_type: 'binary',
    created_at: seconds(account.createdMs),
    currency: account.currency,
    currency_type: currencyType(account.currency),
    is_disabled: account.disabled ? 1 : 0,
    is_virtual: account.isVirtual ? 1 : 0,
    landing_company_name: account.isVirtual ? 'virtual' : 'svg',
    linked_to: [],
    loginid: account.loginid
  }
}

const logout: Handler = (_request, { connection }) => {
  connection.grants.clear()
  connection.multi = false
  connection.streams.forgetAll(['balance', 'transaction', 'proposal_open_contract'])
  return { body: { logout: 1 } }
}

const balance: Handler = (request, { account, connection, tail }) => {
  const requested = request.account as string | undefined
  if (requested !== undefined && requested !== 'current' && requested !== account.loginid) {
    throw new V3Error('PermissionDenied', 'This token does not open that account.')
  }
  const present = (id?: string) => ({
    balance: toAmount(account.balanceCents, account.currency),
    currency: account.currency,
    loginid: account.loginid,
    ...(id === undefined ? {} : { id })
  })
  if (request.subscribe !== 1) return { body: { balance: present() } }
  const stream = connection.streams.open({ kind: 'balance', key: account.loginid, tail }, ({ id, push }) =>
    listen(account, () => push('balance', present(id)))
  )
  return { body: { balance: present(stream.id) }, stream }
}

const portfolio: Handler = (request, { account }) => {
  const contracts = [...account.open.values()].filter(typeFilter(request)).map(contract => ({
    app_id: numeric(contract.appId),
    buy_price: toAmount(contract.buyCents, account.currency),
    contract_id: contract.id,
    contract_type: contract.offer.type,
    currency: contract.offer.currency,
    date_start: contract.startEpoch,
    expiry_time: contract.expiryEpoch,
    longcode: longcodeOf(contract.offer),
    payout: toAmount(contract.payoutCents, account.currency),
    purchase_time: contract.startEpoch,
    shortcode: contract.shortcode,
    symbol: contract.offer.symbol.code,
    transaction_id: contract.buyTransaction
  }))
  return { body: { portfolio: { contracts } } }
}

const profitTable: Handler = (request, { account }) => {
  const described = request.description === 1
  const from = dateOf(request.date_from, 0)
  const to = dateOf(request.date_to, 86_399)
  const matching = typeFilter(request)
  const wanted = (contract: SimulatedContract) => {
    const sold = seconds(contract.soldMs ?? 0)
    return sold >= (from ?? 0) && sold <= (to ?? Infinity) && matching(contract)
  }
  const picked = pick(account.closed, {
    wanted,
    newestFirst: request.sort !== 'ASC',
    offset: (request.offset as number | undefined) ?? 0,
    limit: (request.limit as number | undefined) ?? DEFAULT_PROFIT_TABLE
  })
  const transactions = picked.map(contract => ({
    app_id: numeric(contract.appId),
    buy_price: toAmount(contract.buyCents, account.currency),
    contract_id: contract.id,
    contract_type: contract.offer.type,
    duration_type: contract.offer.kind === 'ticks' ? 'ticks' : 'seconds',
    payout: toAmount(contract.payoutCents, account.currency),
    purchase_time: contract.startEpoch,
    sell_price: toAmount(contract.sellCents ?? 0, account.currency),
    sell_time: seconds(contract.soldMs ?? 0),
    transaction_id: contract.buyTransaction,
    underlying_symbol: contract.offer.symbol.code,
    ...(contract.offer.kind === 'multiplier' ? { multiplier: String(contract.offer.multiplier) } : {}),
    ...(described ? { longcode: longcodeOf(contract.offer), shortcode: contract.shortcode } : {})
  }))
  return { body: { profit_table: { count: transactions.length, transactions } } }
}

const statement: Handler = (request, { account }) => {
  const described = request.description === 1
  const from = (request.date_from as number | undefined) ?? 0
  const to = (request.date_to as number | undefined) ?? Infinity
  const action = request.action_type as string | undefined
  const wanted = (row: Row) => {
    const at = seconds(row.atMs)
    return (action === undefined || row.action === action) && at >= from && at <= to
  }
  const picked = pick(account.rows, {
    wanted,
    newestFirst: true,
    offset: (request.offset as number | undefined) ?? 0,
    limit: (request.limit as number | undefined) ?? DEFAULT_STATEMENT
  })
  const transactions = picked.map(row => presentRow(row, { described, currency: account.currency }))
  return { body: { statement: { count: transactions.length, transactions } } }
}

function presentRow(
  row: Row,
  { described, currency }: { described: boolean; currency: string }
): Record<string, unknown> {
  const { contract } = row
  return {
    action_type: row.action,
    amount: toAmount(row.amountCents, currency),
    app_id: numeric(row.appId),
    balance_after: toAmount(row.balanceCents, currency),
    contract_id: contract?.id ?? null,
    payout: contract && row.action === 'buy' ? toAmount(contract.payoutCents, currency) : null,
    reference_id: row.referenceId,
    transaction_id: row.transactionId,
    transaction_time: seconds(row.atMs),
    ...(contract && row.action === 'sell' ? { purchase_time: contract.startEpoch } : {}),
    ...(described
      ? { longcode: contract ? longcodeOf(contract.offer) : 'Deposit.', shortcode: contract?.shortcode ?? null }
      : {})
  }
}

const transaction: Handler = (_request, { account, connection, tail }) => {
  const stream = connection.streams.open({ kind: 'transaction', key: account.loginid, tail }, ({ id, push }) =>
    listen(account, row => push('transaction', presentTransaction(id, account, row)))
  )
  // The first response carries only the stream's id; earlier transactions are in the statement.
  return { body: { transaction: { id: stream.id } }, stream }
}

function presentTransaction(id: string, account: SimulatedAccount, row: Row): Record<string, unknown> {
  const { contract } = row
  const common = {
    action: row.action,
    amount: toAmount(row.amountCents, account.currency),
    balance: toAmount(row.balanceCents, account.currency),
    currency: account.currency,
    id,
    transaction_id: row.transactionId,
    transaction_time: seconds(row.atMs)
  }
  if (!contract) return common
  const { offer } = contract
  return {
    ...common,
    barrier: printBarrier(contract),
    contract_id: contract.id,
    date_expiry: contract.expiryEpoch,
    display_name: offer.symbol.name,
    longcode: longcodeOf(offer),
    purchase_time: contract.startEpoch,
    symbol: offer.symbol.code
  }
}

/** Calls back for every movement of the account's money. */
function listen(account: SimulatedAccount, moved: (row: Row) => void): () => void {
  const listener: Parameters<SimulatedAccount['listeners']['add']>[0] = event => {
    if (event.kind === 'row') moved(event.row)
  }
  account.listeners.add(listener)
  return () => account.listeners.delete(listener)
}

/** A page of a list kept oldest first; reads no more of the list than the page needs. */
function pick<T>(
  list: T[],
  {
    wanted,
    newestFirst,
    offset,
    limit
  }: { wanted: (item: T) => boolean; newestFirst: boolean; offset: number; limit: number }
): T[] {
  const picked: T[] = []
  let skip = offset
  for (let i = 0; i < list.length && picked.length < limit; i++) {
    const item = list[newestFirst ? list.length - 1 - i : i] as T
    if (!wanted(item)) continue
    if (skip > 0) skip--
    else picked.push(item)
  }
  return picked
}

function typeFilter(request: CallRequest): (contract: SimulatedContract) => boolean {
  const types = request.contract_type as string[] | undefined
  return contract => types === undefined || types.includes(contract.offer.type)
}

/** An epoch or a day as epoch seconds; of a day, its first second plus `add`. */
function dateOf(text: unknown, add: number): number | undefined {
  if (typeof text !== 'string') return undefined
  if (!text.includes('-')) return Number(text)
  const [year, month, day] = text.split('-').map(Number)
  return Date.UTC(year as number, (month as number) - 1, day) / 1000 + add
}

/** The application's id here, where those of the newer dialect that are no numbers cannot be shown. */
function numeric(appId: AppId | null): number | null {
  return typeof appId === 'number' ? appId : null
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000)
}

export const accountCalls: Record<string, Handler> = {
  authorize,
  logout,
  balance,
  portfolio,
  profit_table: profitTable,
  statement,
  transaction
}
