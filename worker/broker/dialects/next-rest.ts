// The REST calls of the newer dialect: a one-time address for an account's socket, and reports. They are made within the
// budgets of this machine's address and of the user, and end like every broker call: with a response, or a
// BrokerError.

import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { CallRecords } from '../../../db/platform/call-records.ts'
import { BrokerError, closed } from '../broker-error.ts'
import { tokenRefused } from '../credentials.ts'
import type { AccountFacts, BrokerLog, Unreachable } from '../port.ts'
import type { CallWindows } from '../transport/call-window.ts'
import { Budget, settleAll } from '../transport/quota.ts'
import { Reachability } from '../transport/reachability.ts'
import { SharedCalls } from '../transport/shared-calls.ts'
import type { TakeOptions } from '../transport/waiting-calls.ts'
import { isBusy, readRestError, restRefusal, unreachable } from './next-refusals.ts'
import { unknowns } from './next-unknowns.ts'
import { type Body, bodyOf, decimalOf, integerOf, listOf, optionalText, parseJson, textOf } from './reading.ts'

interface RestOptions {
  /** Without a trailing slash. */
  base: string
  /** The header that carries the application id; the broker's documents name it. */
  appIdHeader: string
  /** Granted to this machine's address; the published number, where none is given. */
  callsPerMinute?: number | undefined
  /** Where the workers of this machine count together; without it, this process counts for itself. */
  records?: CallRecords | undefined
  log?: BrokerLog
}

/** A user's budget, and the accounts and reports whose calls are counted in it. */
interface UserBudget {
  budget: Budget
  spenders: Set<string>
}

interface AddressRequest {
  appId: string
  accountId: string
  token: string
  /** Until it is aborted, other calls go before this one; without it, the call goes first. */
  hurry?: AbortSignal | undefined
}

/** `spender` is the account or report that the call is for. */
type UserRequest = Omit<AddressRequest, 'accountId'> & { spender: string }

const MAX_RESPONSE_BYTES = 65_536
const MAX_BLANK_BUDGETS = 2_000
const only = 'rest'

export class Rest {
  readonly #options: RestOptions
  readonly #ofAddress: Budget
  /** What all workers of this machine spend together. */
  readonly #ofMachine: SharedCalls | null
  readonly #ofUsers = new Map<string, UserBudget>()
  readonly #reachability: Reachability
  readonly #closing = new AbortController()

  constructor(options: RestOptions) {
    this.#options = options
    const windows = this.#granted()
    this.#ofAddress = new Budget({ [only]: windows })
    const { base, log, records } = options
    const scope = `next rest ${hostname()}`
    this.#ofMachine = records === undefined ? null : new SharedCalls({ records, scope, windows, log })
    this.#reachability = new Reachability({ what: base, log, probe: () => this.#probe() })
  }

  /** The REST address, while it cannot be reached. */
  unreachable(): Unreachable[] {
    const { unreachable } = this.#reachability
    return unreachable === null ? [] : [unreachable]
  }

  /** What waits for its turn is refused at once. */
  close(): void {
    this.#reachability.close()
    this.#closing.abort()
  }

  #granted(): CallWindows {
    const { perMinute, perTenMinutes, perHour, reserve } = unknowns.restOfAddress
    const granted = (this.#options.callsPerMinute ?? perMinute) / perMinute
    const part = (calls: number) => Math.max(1, Math.floor(calls * granted))
    return { perMinute: part(perMinute), perTenMinutes: part(perTenMinutes), perHour, reserve }
  }

  /**
   * Publishes to the other workers what was spent of the users' budgets: all of them, or those that `spenders` spent of. Other
   * workers assume that each worker counting in a budget has spent a quarter of it; with four of them nothing would be left.
   */
  async settle(spenders?: ReadonlySet<string>): Promise<void> {
    const users = [...this.#ofUsers.values()].filter(
      user => spenders === undefined || [...user.spenders].some(spender => spenders.has(spender))
    )
    await settleAll(users.map(({ budget }) => budget))
  }

  /**
   * A fresh address of the account's socket: good once and for two minutes, and as secret as the token. Rejects with
   * BROKER_DISCONNECTED (rejected) when the token or the account is refused, else with BROKER_UPSTREAM.
   */
  async socketAddress({ appId, accountId, token, hurry }: AddressRequest): Promise<string> {
    if (!unknowns.accountForm.test(accountId)) throw tokenRefused('AccountNotFound', 'ACCOUNT_NOT_FOUND')
    const body = await this.#request('POST', `/trading/v1/options/accounts/${accountId}/otp`, {
      appId,
      spender: accountId,
      token,
      hurry
    })
    return this.#trusted(body)
  }

  /**
   * The broker's facts of the account, from the list of the user's accounts; null where that comes without its rows, which its schema does
   * not require. Rejects with BROKER_DISCONNECTED (rejected) when the token is refused or does not have the account, else with
   * BROKER_UPSTREAM.
   */
  async accountFacts({ appId, accountId, token, hurry }: AddressRequest): Promise<AccountFacts | null> {
    const body = await this.#request('GET', '/trading/v1/options/accounts', { appId, spender: accountId, token, hurry })
    let account: Body | undefined
    try {
      const { data } = bodyOf(body, 'the response')
      if (data === undefined || data === null) return null
      const accounts = listOf(data, 'data').map(row => bodyOf(row, 'an account'))
      account = accounts.find(row => row.account_id === accountId)
    } catch (cause) {
      throw unreadable(cause)
    }
    if (account === undefined) throw tokenRefused('AccountNotFound', 'ACCOUNT_NOT_FOUND')
    return { mode: modeOf(account.account_type), currency: optionalText(account, 'currency') || null }
  }

  /** What an application earned on a day of UTC (YYYY-MM-DD). Rejects as `accountFacts`. */
  async markupOf({
    appId,
    spender,
    token,
    day,
    hurry
  }: UserRequest & { day: string }): Promise<{ contracts: number; markup: string }> {
    const path = `/applications/v1/markup-statistics?date_from=${day}&date_to=${day}`
    const body = await this.#request('GET', path, { appId, spender, token, hurry })
    try {
      const data = bodyOf(bodyOf(body, 'the response').data, 'data')
      const rows = listOf(data.breakdown ?? [], 'breakdown').map(row => bodyOf(row, 'a row of breakdown'))
      const own = rows.find(row => row.app_id === appId)
      if (own === undefined) return { contracts: 0, markup: '0' }
      return { contracts: integerOf(own, 'contract_count'), markup: decimalOf(own, 'app_markup_usd') }
    } catch (cause) {
      throw unreadable(cause)
    }
  }

  /** One call within the budgets of the user and of this machine's address. */
  async #request(
    method: 'GET' | 'POST',
    path: string,
    { appId, spender, token, hurry }: UserRequest
  ): Promise<unknown> {
    const budget = this.#budgetOf(token, spender)
    await this.#takeInTurn(options => budget.take(only, options), hurry)
    await this.#takeInTurn(options => this.#ofAddress.take(only, options), hurry)
    const machine = this.#ofMachine
    if (machine !== null) await this.#takeInTurn(options => machine.take(options), hurry)
    const { status, body } = await this.#reachability.guard(async () => {
      const result = await this.#send(method, path, { appId, token })
      if (result.status >= 500 && !isBusy(result.status, result.body))
        throw restRefusal(result.status, result.body, this.#options)
      return result
    })
    // The broker does not show whose limit was exceeded: the user's, or this address's by others behind it.
    for (const each of [budget, this.#ofAddress]) {
      if (isBusy(status, body)) each.backOff(only)
      else if (status === 200) each.succeeded(only)
    }
    if (status !== 200 || readRestError(body) !== null) throw restRefusal(status, body, this.#options)
    return body
  }

  /** Waits for a call of a budget: after urgent ones, and without its reserve, until `hurry` is aborted. */
  async #takeInTurn(
    take: (options: TakeOptions) => Promise<void> | undefined,
    hurry: AbortSignal | undefined
  ): Promise<void> {
    const closing = this.#closing.signal
    if (hurry !== undefined && !hurry.aborted && !closing.aborted) {
      try {
        return await take({ waitMs: unknowns.restLeisurelyWaitMs, signal: AbortSignal.any([hurry, closing]) })
      } catch (error) {
        if (!hurry.aborted && !closing.aborted) throw error
      }
    }
    if (closing.aborted) throw closed()
    await take({ urgent: true, waitMs: unknowns.restWaitMs, signal: closing })
  }

  async #send(
    method: 'GET' | 'POST',
    path: string,
    { appId, token }: { appId: string; token: string }
  ): Promise<RestResponse> {
    try {
      const response = await fetch(`${this.#options.base}${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, [this.#options.appIdHeader]: appId },
        // A token is not sent on to a redirect's target.
        redirect: 'error',
        signal: AbortSignal.timeout(unknowns.restTimeoutMs)
      })
      return { status: response.status, body: parse(await readText(response)) }
    } catch (cause) {
      // Nothing of the request is logged: its headers are secrets.
      const late = cause instanceof Error && cause.name === 'TimeoutError'
      throw unreachable(late ? 'no response in time' : codeOf(cause))
    }
  }

  async #probe(): Promise<void> {
    let status: number
    try {
      const response = await fetch(this.#options.base, {
        redirect: 'manual',
        signal: AbortSignal.timeout(unknowns.restTimeoutMs)
      })
      await response.body?.cancel()
      status = response.status
    } catch (cause) {
      throw unreachable(codeOf(cause))
    }
    if (status >= 500) throw unreachable(`status ${status}`)
  }

  /** The address in a response, if it is one we may connect to. */
  #trusted(body: unknown): string {
    let address: string
    try {
      address = textOf(bodyOf(bodyOf(body, 'the response').data, 'data'), 'url')
    } catch (cause) {
      throw unreadable(cause)
    }
    const protocol = URL.canParse(address) ? new URL(address).protocol : null
    const safe = protocol === 'wss:' || (protocol === 'ws:' && this.#options.base.startsWith('http:'))
    if (!safe) throw unreadable('the address is not a secure WebSocket address')
    return address
  }

  /** Users are distinguished by their token, of which only a digest is kept. */
  #budgetOf(token: string, spender: string): Budget {
    const { log } = this.#options
    const name = userOf(token)
    let user = this.#ofUsers.get(name)
    if (user === undefined) {
      if (this.#ofUsers.size >= MAX_BLANK_BUDGETS)
        for (const [key, { budget }] of this.#ofUsers) if (budget.blank && this.#ofUsers.delete(key)) budget.end(log)
      const records = this.#options.records?.of(`next user ${name}`)
      user = { budget: new Budget({ [only]: unknowns.restOfUser }, { records }), spenders: new Set() }
      this.#ofUsers.set(name, user)
    }
    user.spenders.add(spender)
    return user.budget
  }
}

interface RestResponse {
  status: number
  body: unknown
}

/** Whether a socket's address is one of play money; null where it shows neither. */
export function modeOfAddress(address: string): AccountFacts['mode'] {
  return modeOf(new URL(address).pathname.split('/').at(-1))
}

function modeOf(kind: unknown): AccountFacts['mode'] {
  return kind === 'demo' ? 'DEMO' : kind === 'real' ? 'REAL' : null
}

/** A name for the token's user that does not give the token away. */
export function userOf(token: string): string {
  return createHash('sha256').update(token).digest('base64url').slice(0, 22)
}

function unreadable(cause: unknown): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The broker returned something unexpected.', {
    brokerCode: 'BadFrame',
    ran: 'no',
    cause
  })
}

async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true })
    if (text.length > MAX_RESPONSE_BYTES) throw new Error('the response is too long')
  }
  return text + decoder.decode()
}

function parse(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    // Proxies respond in other formats; the status suffices.
    return null
  }
}

/** What a failed connection is called, without anything of the request. */
function codeOf(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: { code?: unknown } }
  return typeof cause?.code === 'string' ? cause.code : 'the connection failed'
}
