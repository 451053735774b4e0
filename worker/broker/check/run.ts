// Every assumption of ours about a broker, tried on a demo account: authorises, reads, buys the cheapest contract once (where
// that was agreed to) and watches it until its end.
import { parseShortcode } from '../dialects/shortcode.ts'
import type { Frame } from '../transport/streams.ts'
import { checkSockets, openNext } from './next.ts'
import { Report, type Result } from './report.ts'
import { type CheckReply, type CheckTarget, Talk } from './talk.ts'
import { untriedOf } from './untried.ts'

type CheckedBody = Record<string, unknown>
type Rows = CheckedBody[]

const WATCH_MS = 60_000

/** Runs the check; rejects only where it must not go on: no connection, an account of real money. */
export async function checkBroker(target: CheckTarget, { buys }: { buys: boolean }): Promise<Result[]> {
  const report = new Report()
  report.hide(target.token)
  report.hide(target.accountId)
  const talk = target.dialect === 'v3' ? await openV3(target, report) : await openNext(target, report)
  if (talk === null) throw new Error(`The account cannot be opened: ${JSON.stringify(report.results.at(-1))}`)
  const symbolKey = target.dialect === 'v3' ? 'symbol' : 'underlying_symbol'
  try {
    await report.part('the market can be read', () => checkMarket(talk, report, symbolKey))
    await report.part('the account can be read', () => checkAccount(talk, report, target))
    await report.part('refusals have a code', () => checkRefusals(talk, report, symbolKey))
    if (buys)
      await report.part('a contract is bought, watched and settled', () =>
        checkContract(talk, report, { target, symbolKey })
      )
    else report.note('a contract is bought, watched and settled', undefined, 'nothing was to be bought')
    if (target.dialect === 'next') await report.part('sockets are counted', () => checkSockets(target, report))
    for (const { assumption, why } of untriedOf(target.dialect)) report.note(assumption, undefined, why)
    return report.results
  } finally {
    talk.close()
  }
}

async function openV3(target: CheckTarget, report: Report): Promise<Talk> {
  const address = new URL(target.url)
  address.searchParams.set('app_id', target.appId)
  address.searchParams.set('l', 'EN')
  const talk = await Talk.open(address.href)
  const { frame, error } = await talk.call({ authorize: target.token })
  if (error) {
    talk.close()
    throw new Error(`The token is refused: ${error.code}.`)
  }
  const { loginid, is_virtual: virtual, email, user_id: user } = frame.authorize as CheckedBody
  for (const secret of [loginid, email, user]) report.hide(secret as string)
  if (virtual !== 1) {
    talk.close()
    throw new Error('This is an account of real money: the check buys on demo accounts only.')
  }
  report.note('authorize names the account of the token', loginid === target.accountId)
  report.note('the echo of a request hides its token', !JSON.stringify(frame.echo_req).includes(target.token))
  const { frame: status } = await talk.call({ website_status: 1 })
  const limits = (status.website_status as CheckedBody | undefined)?.api_call_limits as CheckedBody | undefined
  report.note('website_status gives the call limits', limits?.max_requestes_general !== undefined, limits)
  return talk
}

async function checkMarket(talk: Talk, report: Report, symbolKey: string): Promise<void> {
  const { frame: clock } = await talk.call({ time: 1 })
  const offset = Number(clock.time) - Date.now() / 1000
  report.note('the clock counts seconds of UTC', Math.abs(offset) < 300, `${offset.toFixed(0)} s apart`)
  const { frame: listed } = await talk.call({ active_symbols: 'brief' })
  const symbols = (listed.active_symbols ?? []) as Rows
  const index = symbols.find(row => row[symbolKey] === 'R_100')
  const pip = index?.[symbolKey === 'symbol' ? 'pip' : 'pip_size']
  report.note('active_symbols has R_100 with a pip of 0.01', pip === 0.01, pip)
  const { frame: times } = await talk.call({ trading_times: 'today' })
  const markets = ((times.trading_times as CheckedBody | undefined)?.markets ?? []) as Rows
  const rows = markets.flatMap(market => (market.submarkets as Rows).flatMap(each => each.symbols as Rows))
  const open = rows[0]?.times as CheckedBody | undefined
  report.note(
    'trading_times has lists of opening and closing times',
    Array.isArray(open?.open) && Array.isArray(open?.close),
    open
  )
  const { frame: offers } = await talk.call({ contracts_for: 'R_100' })
  const multiplier = (((offers.contracts_for as CheckedBody | undefined)?.available ?? []) as Rows).find(
    row => row.contract_type === 'MULTUP'
  )
  report.note(
    'contracts_for gives multipliers no stake limits',
    multiplier && multiplier.max_stake == null,
    multiplier?.max_stake
  )
  const factor = ((multiplier?.multiplier_range ?? []) as number[])[0]
  if (factor !== undefined) {
    const terms = { contract_type: 'MULTUP', [symbolKey]: 'R_100', currency: 'USD', amount: 10, basis: 'stake' }
    const { frame } = await talk.call({ proposal: 1, ...terms, multiplier: factor })
    const { validation_params: params, commission } = (frame.proposal ?? {}) as CheckedBody
    const stake = (params as CheckedBody | undefined)?.stake as CheckedBody | undefined
    report.note('the quote of a multiplier gives the limits of its stake', stake?.max !== undefined, stake)
    report.note('the quote of a multiplier gives its commission', commission !== undefined, commission)
  }
  const { frame: history } = await talk.call({ ticks_history: 'R_100', end: 'latest', count: 3, style: 'candles' })
  report.note('candles are numbers', typeof ((history.candles ?? []) as Rows)[0]?.open === 'number')
  const closed = symbols.find(row => row.exchange_is_open === 0)
  if (!closed) return report.note('a closed market names its opening', undefined, 'every market is open')
  const { error } = await talk.call({ ticks: closed[symbolKey] })
  report.note(
    'a closed market is refused as MarketIsClosed',
    (error?.subcode ?? error?.code) === 'MarketIsClosed',
    error
  )
}

async function checkAccount(talk: Talk, report: Report, { dialect, accountId }: CheckTarget): Promise<void> {
  const { frame } = await talk.call({ balance: 1 })
  const { loginid, balance, currency } = (frame.balance ?? {}) as CheckedBody
  report.note('balance names the account by its id', loginid === undefined ? undefined : loginid === accountId)
  report.note('the balance is a number', typeof balance === 'number', typeof balance)
  report.note('the currency of the account is USD', currency === 'USD', currency)
  const { frame: list } = await talk.call({ portfolio: 1 })
  const open = ((list.portfolio as CheckedBody | undefined)?.contracts ?? []) as Rows
  const { frame: all, error } = await talk.call({ proposal_open_contract: 1 })
  const state = all.proposal_open_contract as CheckedBody | undefined
  const empty = state && Object.keys(state).length === 0
  report.note(
    'with no open contract the contract is empty',
    open.length > 0 ? undefined : empty === true,
    error?.code ?? ''
  )
  const { frame: pong } = await talk.call({ ping: 1 })
  report.note('ping is responded to with pong', pong.ping === 'pong')
  const site = await talk.call(dialect === 'v3' ? { website_status: 1 } : { website_status: 1, subscribe: 1 })
  if (dialect === 'next') report.note('there is no website_status', site.error !== null, site.error?.code)
}

async function checkRefusals(talk: Talk, report: Report, symbolKey: string): Promise<void> {
  const cheap = { ...cheapest(symbolKey, 0.01) }
  const { error } = await talk.call({ proposal: 1, ...cheap })
  report.note('a stake too low is refused', error !== null, error)
  const finer = error ? (error.subcode ?? error.code_args) !== undefined : undefined
  if (symbolKey === 'symbol') report.note('a refusal has no finer code', finer === undefined ? undefined : !finer)
  else report.note('a refusal has a finer code or its values', finer)
  const unknown = await talk.call({ proposal_open_contract: 1, contract_id: 11 })
  report.note('an unknown contract is refused, or empty', isGone(unknown), unknown.error?.code ?? 'empty')
  const wrong = await talk.call({ time: 1, no_such_field: 1 })
  report.note(
    'a field that is not described is refused',
    wrong.error?.code === 'InputValidationFailed',
    wrong.error?.code
  )
  const forget = await talk.call({ forget: 'x'.repeat(32) })
  report.note('forgetting what is not open returns 0', forget.frame.forget === 0, forget.error?.code)
}

const cheapest = (symbolKey: string, amount: number) => ({
  ...{ contract_type: 'DIGITEVEN', [symbolKey]: 'R_100', currency: 'USD', amount, basis: 'stake' },
  ...{ duration: 1, duration_unit: 't' }
})

async function checkContract(
  talk: Talk,
  report: Report,
  { target, symbolKey }: { target: CheckTarget; symbolKey: string }
): Promise<void> {
  const { frame: quote } = await talk.call({ proposal: 1, ...cheapest(symbolKey, 1) })
  const { validation_params: params, id } = (quote.proposal ?? {}) as CheckedBody
  report.note('a quote id has the documented form', /^[\w-]{32,128}$/.test(String(id)))
  const least = Number(((params as CheckedBody | undefined)?.stake as CheckedBody | undefined)?.min ?? 0.35)
  report.note('the least stake is 0.35', least === 0.35, least)
  const moves = await talk.call({ transaction: 1, subscribe: 1 })
  report.note('movements of the account can be subscribed to', moves.error === null, moves.error?.code)
  const parameters = cheapest(symbolKey, least)
  const { frame, error } = await talk.call({ buy: '1', price: least, parameters, subscribe: 1 })
  if (error) return report.note('the cheapest contract can be bought without a quote', false, error)
  const receipt = frame.buy as CheckedBody
  for (const secret of [receipt.contract_id, receipt.transaction_id]) report.hide(secret as number)
  report.note('the cheapest contract can be bought without a quote', true, `${least} USD`)
  const terms = parseShortcode(String(receipt.shortcode))
  report.note(
    'its shortcode can be read',
    terms?.contractType === 'DIGITEVEN' && terms.asset === 'R_100',
    receipt.shortcode
  )
  report.note('a purchase opens the stream of its contract', idOf(frame) !== null)
  const contractId = receipt.contract_id
  const twice = await talk.call({ proposal_open_contract: 1, contract_id: contractId, subscribe: 1 })
  const doubled = twice.error?.code ?? 'a second stream'
  report.note('a second stream of a contract is refused', twice.error?.code === 'AlreadySubscribed', doubled)
  const isContract = ({ proposal_open_contract: state }: Frame) =>
    (state as CheckedBody | undefined)?.contract_id === contractId
  const settled = await talk.until(
    each => isContract(each) && (each.proposal_open_contract as CheckedBody).is_sold === 1,
    WATCH_MS
  )
  if (!settled) return report.note('the stream reports the settlement', false, `nothing within ${WATCH_MS / 1000} s`)
  checkEnd(report, settled, symbolKey)
  const forgotten = await talk.call({ forget: idOf(frame) ?? 'x'.repeat(32) })
  report.note(
    'the stream stays open until it is forgotten',
    forgotten.frame.forget === 1,
    `forget ${String(forgotten.frame.forget)}`
  )
  const ended = await talk.call({ proposal_open_contract: 1, contract_id: contractId, subscribe: 1 })
  report.note('an ended contract gets no stream', idOf(ended.frame) === null, ended.error?.code)
  const sold = await talk.call({ sell: contractId, price: 0 })
  report.note('an ended contract cannot be sold', sold.error !== null, sold.error?.code)
  const moved = talk.updates.filter(
    ({ frame: each }) => (each.transaction as CheckedBody | undefined)?.contract_id === contractId
  )
  const actions = moved.map(({ frame: each }) => (each.transaction as CheckedBody).action)
  report.note(
    'purchase and end are movements of the account',
    actions.includes('buy') && actions.includes('sell'),
    actions
  )
  await checkBooks(talk, report, { contractId, v3: target.dialect === 'v3' })
}

function checkEnd(report: Report, { at, frame }: { at: number; frame: Frame }, symbolKey: string): void {
  const state = frame.proposal_open_contract as CheckedBody
  report.note('a settled contract is won or lost', state.status === 'won' || state.status === 'lost', state.status)
  const forms = ['buy_price', 'sell_price', 'profit'].map(field => typeof state[field])
  const expected = symbolKey === 'symbol' ? 'number' : 'string'
  report.note(
    `its money is given as ${expected}`,
    forms.every(form => form === expected),
    forms
  )
  const exit = state[symbolKey === 'symbol' ? 'exit_tick_display_value' : 'exit_spot']
  report.note('its exit price is text with two decimals', /^\d+\.\d\d$/.test(String(exit)), typeof exit)
  const ends = Number(state.exit_tick_time ?? state.exit_spot_time)
  const delay = Number.isFinite(ends) ? at / 1000 - ends : Number.NaN
  report.note(
    'it is settled within 2 s of its last tick',
    Number.isNaN(delay) ? undefined : delay <= 3,
    `${delay.toFixed(1)} s`
  )
}

async function checkBooks(
  talk: Talk,
  report: Report,
  { contractId, v3 }: { contractId: unknown; v3: boolean }
): Promise<void> {
  const { frame: statement } = await talk.call({ statement: 1, description: 1, limit: 10 })
  const rows = (((statement.statement as CheckedBody | undefined)?.transactions ?? []) as Rows).filter(
    row => row.contract_id === contractId
  )
  report.note(
    'the statement has its purchase and its end',
    rows.length === 2,
    rows.map(row => row.action_type)
  )
  const buy = rows.find(row => row.action_type === 'buy')
  report.note('a purchase is a negative amount there', buy && Number(buy.amount) < 0)
  report.note(v3 ? 'rows name the application' : 'rows name no application', buy && (buy.app_id !== undefined) === v3)
  report.note('rows have the shortcode', buy && typeof buy.shortcode === 'string')
  const { frame: table } = await talk.call({ profit_table: 1, description: 1, limit: 10, sort: 'DESC' })
  const closed = (((table.profit_table as CheckedBody | undefined)?.transactions ?? []) as Rows).find(
    row => row.contract_id === contractId
  )
  report.note('the profit table has it at once', closed !== undefined)
}

function isGone({ frame, error }: CheckReply): boolean {
  const state = frame.proposal_open_contract as CheckedBody | undefined
  return error !== null || (state !== undefined && Object.keys(state).length === 0)
}

function idOf(frame: Frame): string | null {
  const { id } = (frame.subscription ?? {}) as { id?: unknown }
  return typeof id === 'string' ? id : null
}
