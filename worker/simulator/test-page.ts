// The page on testing of the reference, from what the simulated broker does: its tokens, what provokes each error, its faults
// and its assets. `make test-page` writes it to api/description/guides; a test tries each row with a running service.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LEAST_PLAY_MONEY_USD, PLAY_MONEY_USD, REJECTED_CENTS } from '../../db/money/play-money.ts'
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import { effects } from './effects.ts'
import { tokenFlags } from './engine/accounts.ts'
import { currencies } from './engine/currencies.ts'
import { MAX_SECONDS } from './engine/offers.ts'
import { listedSymbols } from './engine/symbols.ts'
import { assetOf, type Magic, magics } from './magic-list.ts'

/** What leads to an error with the simulated broker: an account, an order, or a control call before the order. */
interface Provocation {
  error: ErrorCode
  /** What the caller does, for people. */
  what: string
  /** Part of the message or of the account's reason. */
  says?: string
  /** Flags behind sim-<accountId>; the account is exchanged with `accountMode` and `currency`, DEMO and USD unless given. */
  account?: { flags?: string; token?: string; accountMode?: 'DEMO' | 'REAL'; currency?: string }
  /** Differences to an order of 1 USD on R_100, CALL, 5 ticks. */
  order?: Record<string, unknown>
  /** Body of POST /control/faults. */
  control?: Record<string, unknown>
}

export const provocations: Provocation[] = [
  {
    error: 'BROKER_DISCONNECTED',
    what: 'a token that the broker does not know',
    says: 'TOKEN_REFUSED',
    account: { token: 'no-such-token' }
  },
  {
    error: 'BROKER_DISCONNECTED',
    what: 'an account that the broker has disabled',
    says: 'TOKEN_REFUSED',
    account: { flags: '-disabled' }
  },
  {
    error: 'BROKER_DISCONNECTED',
    what: 'a token that may read and not trade',
    says: 'TOKEN_REFUSED',
    account: { flags: '-demo-readonly' }
  },
  {
    error: 'BROKER_DISCONNECTED',
    what: 'a token that has ended: `x` and seconds since 1970',
    says: 'TOKEN_REFUSED',
    account: { flags: '-x1700000000' }
  },
  {
    error: 'BROKER_DISCONNECTED',
    what: 'a demo account exchanged as `REAL`',
    says: 'MODE_MISMATCH',
    account: { flags: '-demo', accountMode: 'REAL' }
  },
  {
    error: 'BROKER_DISCONNECTED',
    what: 'an account in EUR exchanged as `USD`',
    says: 'CURRENCY_MISMATCH',
    account: { flags: '-demo-EUR' }
  },
  {
    error: 'INSUFFICIENT_BALANCE',
    what: 'a stake above the balance',
    account: { flags: '-demo-poor' },
    order: { stake: 100 }
  },
  { error: 'INVALID_CONTRACT', what: 'an asset that there is not', order: { asset: 'NO_SUCH_ASSET' } },
  { error: 'INVALID_CONTRACT', what: 'more ticks than the asset offers', order: { duration: 11 } },
  {
    error: 'INVALID_CONTRACT',
    what: 'an asset that the broker has suspended',
    control: { suspended: ['R_100'] }
  },
  {
    error: 'MARKET_CLOSED',
    what: 'a market that is closed, as forex is from Friday 20:55 UTC to Monday',
    control: { add: { effect: 'error', call: 'buy', code: 'MarketIsClosed' } }
  },
  {
    error: 'BROKER_UPSTREAM',
    what: 'purchases that the broker neither runs nor refuses: `status` is PENDING, then FAILED',
    control: { add: { effect: 'ignore', call: 'buy' } }
  }
]

const row = (...cells: string[]): string => `| ${cells.join(' | ')} |`
const table = (heads: string[], rows: string[][]): string =>
  [row(...heads), row(...heads.map(() => '---')), ...rows.map(cells => row(...cells))].join('\n')
const code = (text: string): string => `\`${text}\``
const dollars = (amountUsd: string): string => `${Number(amountUsd).toLocaleString('en-US')} USD`

function given({ account, order, control }: Provocation): string {
  const parts = [
    account && `token ${code(account.token ?? `sim-TST1${account.flags}`)}`,
    account?.accountMode && `${code('accountMode')} ${account.accountMode}`,
    order &&
      Object.entries(order)
        .map(([name, value]) => code(`"${name}": ${JSON.stringify(value)}`))
        .join(', '),
    control && `control call ${code(JSON.stringify(control))}`
  ]
  return parts.filter(Boolean).join(', ')
}

function span(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400} d`
  return seconds % 60 === 0 ? `${seconds / 60} m` : `${seconds} s`
}

function firstResponse({ error, field, rejects, closeError, atLeastMs }: Magic): string {
  const parts = [
    error ? code(error) : 'the order',
    field && `with ${code(`/body/${field}`)}`,
    atLeastMs && `after ${atLeastMs / 1000} s at the earliest`,
    rejects && `the account is REJECTED, ${code(rejects)}`,
    closeError && `closing it ${code(closeError)}`
  ]
  return parts.filter(Boolean).join(', ')
}

/** The page in Markdown. */
export function testPage(): string {
  const assets = listedSymbols({ magic: false }).map(
    ({ code: asset, name, riseFall, digits, multipliers, maxTicks, minSeconds }) => [
      code(asset),
      name,
      riseFall && maxTicks > 0 ? `1 to ${maxTicks} ticks` : '–',
      riseFall ? `${span(minSeconds)} to ${span(MAX_SECONDS)}` : '–',
      digits ? 'yes' : 'no',
      multipliers.length > 0 ? multipliers.join(', ') : '–'
    ]
  )
  return `# Testing

A **test key** (${code('service_test_…')}) makes the calls of a live key on a side of its own: traders, accounts, orders, events, the stream,
webhooks, community, copies, marketplace, wallet, sites, analytics and the request log of the two sides share nothing, not even an id. Its
orders go to a simulated broker, with play money only, and cost nothing. ${code('POST /v1/keys')} makes one with ${code('"test": true')}, or the service's
operator does; every response to it carries ${code('Test-Mode: true')}, and ${code('GET /v1/me')} says ${code('"test": true')}. Plan, limits and standing are those of
the partner, and no plan is charged here. **Its accounts are called ${code('TST')} and 1 to 10 digits**, as no account of
the real broker is: with a live key they are refused, and with a test key all others are. Choose digits of your own: who names an account
that somebody else's tests use trades on the same one. What an account bought and sold is kept for 30 days after the sale,
or until 50,000 other contracts of test keys have been sold since, its balance for ever.

**The marketplace of test keys** has the bots of all partners' test sides and no others. The wallet begins with ${dollars(PLAY_MONEY_USD)}; when it
holds less than ${dollars(LEAST_PLAY_MONEY_USD)} it is filled up, within a minute and once a day. A bot that costs more than the wallet holds is a
${code('WALLET_INSUFFICIENT')}. Payouts are approved and paid by themselves within a minute, and one whose amount ends in ${code(`.0${REJECTED_CENTS}`)} is rejected; nobody
is paid anything. Refunds need a test key with ${code('admin:write')}, from the service's operator. **Sites of test keys** are at
${code('/sites/test~<tenantSlug>/')}: their names are free for live keys, and theirs for them.

The simulated broker prices, fills and settles contracts as the broker does. Nothing here exists with the real one. ${code('make run')} starts it
beside the service, where live keys trade with it, too, and you decide what goes wrong.

## Tokens

A token ${code('sim-<accountId>')} opens the account of that id: 2 to 4 capital letters and up to 10 digits. It is made on its first use, with
10,000.00 in USD. Ids that begin with ${code('TST')}, ${code('VR')} or ${code('DOT')} are demo accounts, others are real ones. Flags follow the id, each after a
hyphen, as in ${code('sim-CR1001-demo-poor')}. A token has 10 characters at least: that of ${code('TST1')} needs a flag, as ${code('sim-TST1-demo')}.

${table(
  ['Flag', 'What it does'],
  [
    ...Object.entries(tokenFlags).map(([flag, text]) => [code(flag), text]),
    [code('x1893456000'), 'The token ends at this second since 1970.'],
    [currencies.map(code).join(' '), 'The currency of the account.']
  ]
)}

## What provokes each error

Unless the row says otherwise: an account exchanged as ${code('DEMO')} in ${code('USD')}, and an order of 1 USD on ${code('R_100')}, ${code('CALL')}, 5 ticks.

${table(
  ['Error', 'By', 'Given'],
  provocations.map(each => [`${code(each.error)}${each.says ? ` ${code(each.says)}` : ''}`, each.what, given(each)])
)}

## Stakes, assets and tokens that provoke something

Each is provoked in three ways: by an order of exactly this stake on an account in USD, whatever the asset; by an order on this asset,
which is otherwise as ${code('R_100')}; and by every order on an account whose token has this flag, as ${code('sim-TST1001-closed')} has. The broker of test keys
and that of ${code('make run')} know them.

${table(
  ['Stake', 'Asset', 'Flag', 'What happens', 'First response', 'The order ends'],
  magics.map(magic => [
    code(magic.stake),
    code(assetOf(magic)),
    code(magic.flag),
    magic.what,
    firstResponse(magic),
    code(magic.ends)
  ])
)}

The errors that concern no broker are provoked by the request itself: a stake of 0 is a ${code('VALIDATION_FAILED')}, a name that went through no
exchange a ${code('TRADER_NOT_FOUND')}, the same ${code('clientOrderId')} with another stake a ${code('CLIENT_ORDER_ID_REUSED')}.

## Faults on demand

${code('make run')} prints the address of the simulated broker's controls. ${code('POST /control/faults')} changes how it behaves, ${code('DELETE')} ends all faults:

${'```'}sh
curl "$CONTROL/control/faults" -d '{"add": {"effect": "drop-after", "call": "buy", "times": 1}}'
${'```'}

A rule may be limited to a ${code('call')} (${code('buy')}, ${code('sell')}, …), a ${code('symbol')}, a ${code('loginid')}, a ${code('probability')} and a number of ${code('times')}. A call that
meets a rule:

${table(
  ['Effect', 'What happens'],
  Object.entries(effects).map(([effect, text]) => [code(effect), text])
)}

${code('{"down": true}')} refuses all connections, ${code('{"latencyMs": 500}')} delays every call, ${code('{"suspended": ["R_100"]}')} stops trading of an asset.

## Assets

${table(['Asset', 'Name', 'Ticks', 'Shortest and longest', 'Digits', 'Multipliers'], assets)}
`
}

if (process.argv[1] === import.meta.filename)
  await writeFile(join(import.meta.dirname, '../../api/description/guides/testing.md'), testPage())
