// The broker's newer API: a token buys a one-time address over REST, and the socket there is the account's. Requests
// follow its strictest document, responses are accepted as its loosest describes them. Assumptions beyond the documents
// are in next-unknowns.ts; everything that is not this dialect's own is in the files beside it.
import Big from 'big.js'
import { BrokerError } from '../broker-error.ts'
import { type ClientOptions, createClient } from '../client.ts'
import { confirmAccount, readToken } from '../credentials.ts'
import { decimalsOf } from '../market.ts'
import { reporterOf } from '../markup-report.ts'
import type { Broker, ContractState } from '../port.ts'
import type { Dialect, PipSizeOf } from './dialect.ts'
import { readEvidence, termsOfRequest } from './mapping.ts'
import { RefusedApplications } from './next-refusals.ts'
import { modeOfAddress, Rest, userOf } from './next-rest.ts'
import { unknowns } from './next-unknowns.ts'
import { type Body, Fields, numberOf, optionalText, textOf } from './reading.ts'
import { readContractState } from './states.ts'

interface NextOptions extends ClientOptions {
  /** The REST base address, without a trailing slash. */
  url: string
  /** The header that carries the application id. */
  appIdHeader: string
  /** REST calls granted to this machine's address; the published number, where none is given. */
  callsPerMinute?: number
}

/** A broker with the newer API. Nothing is opened until it is used. */
export function createNextBroker(options: NextOptions): Broker {
  return createClient(createNextDialect(options), options)
}

function createNextDialect({ url, appIdHeader, callsPerMinute, records, log }: NextOptions): Dialect {
  const rest = new Rest({ base: url, appIdHeader, callsPerMinute, records, log })
  const applications = new RefusedApplications()
  return {
    name: 'next',
    limits: unknowns.limits,
    classOf: call => unknowns.classes[call] ?? 'general',
    maxStreams: unknowns.streamsOfConnection,
    callsPerSecond: unknowns.callsPerSecond,
    settle: spenders => rest.settle(spenders),
    probeAddress: () => unknowns.publicSocket(url),
    unreachable: () => rest.unreachable(),
    close: () => rest.close(),
    openMarket: place => place.connect(unknowns.publicSocket(url)),
    async openAccount(place, account) {
      const { appId, accountId } = account
      const token = await readToken(account, unknowns.tokenForm)
      const user = userOf(token)
      applications.check(appId, user)
      try {
        place.claimSeat(user, unknowns.socketsOfUser)
        const requesting = { appId, accountId, token, hurry: place.hurry }
        // The list of accounts has mode and currency; the address of a socket, which every opening reads, has the mode only.
        const facts = account.compared?.() === false ? await rest.accountFacts(requesting) : null
        if (facts !== null) await confirmAccount(account, facts)
        const address = await rest.socketAddress(requesting)
        applications.letIn(appId)
        await confirmAccount(account, { mode: modeOfAddress(address), currency: null })
        return await place.connect(address).catch((error: unknown) => {
          throw connectionRefused(error)
        })
      } catch (error) {
        applications.note(appId, user, error)
        throw error
      }
    },
    async reportMarkup({ hurry }, access, day) {
      const { appId } = access
      const token = await readToken(access, unknowns.tokenForm)
      const user = userOf(token)
      applications.check(appId, user)
      try {
        const { contracts, markup } = await rest.markupOf({ appId, spender: reporterOf(access), token, day, hurry })
        applications.letIn(appId)
        // Only statistics are published, in US dollars, the currency of all accounts here.
        return {
          sums: contracts === 0 ? [] : [{ currency: 'USD', contracts, markup }],
          contracts: null,
          consistent: true
        }
      } catch (error) {
        applications.note(appId, user, error)
        throw error
      }
    },
    buy: (contract, maxPrice) => ({
      buy: '1',
      price: Number(maxPrice),
      parameters: termsOfRequest(contract, 'underlying_symbol')
    }),
    quoteMultiplier(asset, { currency, multiplier, stake }) {
      const terms = { contract_type: 'MULTUP', underlying_symbol: asset, currency, basis: 'stake' }
      return { proposal: 1, ...terms, amount: stake, multiplier }
    },
    quote: contract => ({ proposal: 1, ...termsOfRequest(contract, 'underlying_symbol') }),
    contractsFor: asset => ({ contracts_for: asset }),
    // Accounts are in USD here by the documents, and no call returns a rate.
    exchange: null,
    // The socket is the account's; no document promises that the login id sent is the account's id.
    accountOfBalance: () => null,
    readState,
    // Some documents have an integer app_id in these rows: our applications are named by other ids, so it cannot be compared with them.
    readPortfolio: row => readEvidence('portfolio', row, { time: 'purchase_time', price: 'buy_price' }),
    readStatement: row => readEvidence('statement', row, { time: 'transaction_time', price: 'amount' }),
    readProfitTable: row => readEvidence('profit_table', row, { time: 'purchase_time', price: 'buy_price' }),
    readSymbol: row => ({
      asset: textOf(row, 'underlying_symbol'),
      displayName: optionalText(row, 'underlying_symbol_name') ?? textOf(row, 'underlying_symbol'),
      market: textOf(row, 'market'),
      // Here pip_size is a pip (0.01), while in ticks it is the number of decimals.
      pipSize: decimalsOf(numberOf(row, 'pip_size')),
      open: row.exchange_is_open === 1,
      suspended: row.is_trading_suspended === 1
    }),
    readTradedAsset: row => textOf(row, 'underlying_symbol')
  }
}

/** The address is new and the token was just accepted: a refusal means that the user has too many connections. */
function connectionRefused(error: unknown): unknown {
  if (!(error instanceof BrokerError) || error.brokerCode !== 'Refused') return error
  if (!/^status (400|403|409|429)/.test(`${error.cause}`)) return error
  const message = `The broker refused the connection: the trader may have too many connections open, those of other programs among them (${unknowns.socketsOfUser + 1} are allowed).`
  return new BrokerError(error.code, message, { brokerCode: 'ConnectionRefused', ran: 'no', cause: error.cause })
}

function readState(body: Body, pipSizeOf: PipSizeOf): ContractState {
  const fields = new Fields(body)
  const asset = fields.text('underlying_symbol')
  const decimals = asset === null ? undefined : pipSizeOf(asset)
  const price = (name: string) => printed(fields.price(name), decimals)
  const state = readContractState(fields, {
    entryPrice: price('entry_spot'),
    exitPrice: price('exit_spot'),
    currentSpot: price('current_spot')
  })
  // In this dialect the flag or a final status means that a contract is over: one without the other is no contradiction.
  return state.settled && state.reported?.sold === false
    ? { ...state, reported: { ...state.reported, sold: null } }
    : state
}

/** A price with the decimals it is printed with: whether the broker keeps last zeros is not known. */
function printed(price: string | null, decimals: number | undefined): string | null {
  if (price === null || decimals === undefined) return price
  const given = price.split('.')[1]?.length ?? 0
  return given >= decimals ? price : new Big(price).toFixed(decimals)
}
