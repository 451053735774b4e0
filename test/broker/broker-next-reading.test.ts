// test in a process of its own
// What the newer dialect reads: texts for numbers, ends of contracts, finer error codes, and opening times stated by the
// error itself.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { isNamed } from '../../worker/broker/dialects/mapping.ts'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds } from '../support/dialects.ts'
import { closeNext, newNextAccount, nextClientOf, scripted, startRest } from './broker-next-port.ts'
import { buyOptions, even } from './broker-port.ts'
import { failure, reply, scriptedBroker } from './broker-script.ts'

const reading = suite('what it reads')
const receipt = { contract_id: 5, transaction_id: 6, buy_price: 10, payout: 19.53, purchase_time: 1_700_000_000 }
const contract = { contract_id: 5, buy_price: '10.00', purchase_time: 1_700_000_000, underlying_symbol: 'R_100' }

reading('money and prices may be texts or numbers, and zeros at the end are kept', async () => {
  const forms = [
    {
      ...contract,
      is_sold: 1,
      status: 'lost',
      profit: '-10.00',
      sell_price: '0.00',
      exit_spot: '1219.50',
      payout: '19.53'
    },
    { ...contract, is_sold: 1, status: 'lost', profit: -10, sell_price: 0, exit_spot: 1219.5, payout: 19.53 }
  ]
  for (const form of forms) {
    const { session, close } = await scripted((frame, socket) => reply(socket, frame, { proposal_open_contract: form }))
    const state = await session.contract('5')
    assert.equal(
      [Number(state.profit), Number(state.sellPrice), Number(state.exitPrice), Number(state.payout)],
      [-10, 0, 1219.5, 19.53]
    )
    assert.equal([state.settled, state.status], [true, 'lost'])
    await close()
  }
})

reading(
  'a purchase whose figures cannot be those of a contract is in doubt, and a row of a list with such has none of them',
  async () => {
    const shortcode = 'CALL_R_100_19.53_1700000000_5T_S0P_0'
    const garbage = [
      { purchase_time: 1_700_000_000_000 },
      { purchase_time: 0 },
      { buy_price: -10 },
      { buy_price: '1000000000000000' },
      { payout: -1 }
    ]
    for (const fields of garbage) {
      const { session, close } = await scripted((frame, socket) =>
        reply(socket, frame, { buy: { ...receipt, shortcode, ...fields } })
      )
      const { brokerCode, ran } = await failure(session.buy(even, buyOptions))
      assert.equal([brokerCode, ran], ['BadFrame', 'unknown'], JSON.stringify(fields))
      await close()
    }
    // Its purchase would be searched for at another time, and taken for absent.
    const contracts = [
      { ...receipt, shortcode: '', purchase_time: 1_700_000_000_000, buy_price: 'ten', contract_id: 0 }
    ]
    const { session, close } = await scripted((frame, socket) => reply(socket, frame, { portfolio: { contracts } }))
    const [row] = await session.portfolio()
    assert.equal([row && isNamed(row), row?.buyPrice, row?.purchaseTime, row?.terms], [false, null, null, null])
    await close()
  }
)

reading('a contract ends with its sale or with its status, whichever is reported', async () => {
  const forms: [fields: object, settled: boolean, status: string][] = [
    [{ status: 'open' }, false, 'open'],
    [{ status: null, is_expired: 1 }, false, 'open'],
    [{ status: 'won' }, true, 'won'],
    [{ status: null, is_sold: 1, sell_price: '19.53' }, true, 'won'],
    [{ status: 'open', is_sold: 1, sell_price: '0.00' }, true, 'lost'],
    [{ status: null, is_sold: 1, is_expired: 1, sell_price: '0.00' }, true, 'lost'],
    [{ status: null, is_sold: 1, is_expired: 0, sell_price: '4.20' }, true, 'sold'],
    [{ status: 'cancelled', is_sold: 1 }, true, 'cancelled']
  ]
  for (const [fields, settled, status] of forms) {
    const { session, close } = await scripted((frame, socket) =>
      reply(socket, frame, {
        proposal_open_contract: { ...contract, ...fields, auto_run_id: 'unheard of' },
        profit_table: {}
      })
    )
    const state = await session.contract('5')
    assert.equal([state.settled, state.status], [settled, status], JSON.stringify(fields))
    await close()
  }
})

reading('what a contract paid is found behind contracts that were closed after it', async () => {
  const { session, close } = await scripted((frame, socket) => {
    const row = { sell_price: '4.20', sell_time: 1_700_000_060, shortcode: 'CALL_R_100_19.53_1700000000_5T_S0P_0' }
    const later = Array.from({ length: 50 }, (_, index) => ({
      ...receipt,
      ...row,
      contract_id: 100 + index,
      sell_price: '1'
    }))
    const transactions = [...later, { ...receipt, ...row }].slice(Number(frame.offset)).slice(0, 50)
    reply(socket, frame, {
      proposal_open_contract: { ...contract, status: 'cancelled', is_sold: 1 },
      profit_table: { count: transactions.length, transactions }
    })
  })
  assert.is((await session.contract('5')).sellPrice, '4.20')
  await close()
})

reading('what a contract paid is found on the first page that has it, and no further page is read', async () => {
  let pages = 0
  const { session, close } = await scripted((frame, socket) => {
    const row = { sell_price: '4.20', sell_time: 1_700_000_060, shortcode: 'CALL_R_100_19.53_1700000000_5T_S0P_0' }
    const transactions = Array.from({ length: 500 }, (_, index) => ({ ...receipt, ...row, contract_id: 5 + index }))
    if (frame.profit_table !== undefined) pages += 1
    reply(socket, frame, {
      proposal_open_contract: { ...contract, status: 'cancelled', is_sold: 1 },
      profit_table: { count: transactions.length, transactions }
    })
  })
  assert.equal([(await session.contract('5')).sellPrice, pages], ['4.20', 1])
  await close()
})

reading('a time that cannot be read is none, and the other field that may have it is read', async () => {
  for (const garbage of ['soon', 1e30, {}, 12]) {
    const { session, close } = await scripted((frame, socket) => {
      const times = { date_expiry: garbage, expiry_time: 1_700_000_060, sell_time: garbage, purchase_time: garbage }
      reply(socket, frame, { proposal_open_contract: { ...contract, ...times } })
    })
    const { expiryTime, sellTime, purchaseTime, unreadable } = await session.contract('5')
    assert.equal([expiryTime, sellTime, purchaseTime], [1_700_000_060, null, null], JSON.stringify(garbage))
    assert.equal([...(unreadable ?? [])].sort(), ['date_expiry', 'purchase_time', 'sell_time'])
    await close()
  }
})

reading("the balance is the account's whatever it is called, and no row names its application", async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.balance !== undefined)
      reply(socket, frame, { balance: { balance: '12.5', currency: 'USD', loginid: 'ZZ9' } })
    if (frame.statement === undefined) return
    const row = { action_type: 'buy', amount: '-10', shortcode: 'CALL_R_100_19.53_1700000000_5T_S0P_0' }
    reply(socket, frame, { statement: { transactions: [{ ...receipt, ...row, transaction_time: 1_700_000_000 }] } })
  })
  assert.equal(await session.balance(), { balance: '12.5', currency: 'USD' })
  const [seen] = await session.statement({ from: 0 })
  assert.equal([seen?.appId, seen?.buyPrice, seen?.terms?.durationTicks], [null, '10', 5])
  await close()
})

reading('a row of the profit table that is of no contract hides no other and keeps its place', async () => {
  const { session, close } = await scripted((frame, socket) => {
    const row = { sell_price: 0, sell_time: null, shortcode: 'CALL_R_100_19.53_1700000000_5T_S0P_0' }
    const transactions = [
      { ...receipt, ...row, contract_id: null },
      { ...receipt, ...row }
    ]
    reply(socket, frame, { profit_table: { count: 2, transactions } })
  })
  const rows = await session.profitTable({ from: 0 })
  assert.equal(
    rows.map(row => row?.contractId),
    [undefined, '5']
  )
  await close()
})

reading(
  'a row of the statement counts as one of its page, and as a purchase unless it is shown to be none',
  async () => {
    const bought = { ...receipt, amount: -10, transaction_time: 1_700_000_000 }
    const { action_type: _, ...untyped } = { ...bought, action_type: 'buy', contract_id: 7 }
    const transactions: object[] = [
      { ...bought, action_type: 'sell', amount: 19.53, transaction_id: 8 },
      { ...bought, action_type: 'buy' },
      { action_type: 'withdrawal', amount: -50, contract_id: null, transaction_time: 1_700_000_000 },
      untyped,
      { ...untyped, action_type: 'unheard_of', contract_id: 9 },
      { ...untyped, amount: 0 },
      { amount: -50, transaction_time: 1_700_000_000 },
      { action_type: 'unheard_of', contract_id: 10, transaction_time: 1_700_000_000 }
    ]
    const { session, close } = await scripted((frame, socket) =>
      reply(socket, frame, { statement: { count: transactions.length, transactions } })
    )
    const rows = await session.statement({ from: 0 })
    assert.equal(
      rows.map(row => row && (isNamed(row) ? row.contractId : 'unnamed')),
      // Of the last ones nothing shows that they are no purchases: a list without them would prove too much.
      [null, '5', null, '7', '9', null, 'unnamed', '10']
    )
    await close()
  }
)

reading('a list without its rows is empty only where it may be, and is not read otherwise', async () => {
  let body: object = {}
  const { session, close } = await scripted((frame, socket) => {
    const list = ['portfolio', 'statement', 'profit_table'].find(each => frame[each] !== undefined)
    if (list !== undefined) reply(socket, frame, { [list]: body })
  })
  assert.equal([await session.statement({ from: 0 }), await session.profitTable({ from: 0 })], [[], []])
  assert.is((await failure(session.portfolio())).brokerCode, 'BadFrame')
  body = { count: 2 }
  assert.is((await failure(session.statement({ from: 0 }))).brokerCode, 'BadFrame')
  assert.is((await failure(session.profitTable({ from: 0 }))).brokerCode, 'BadFrame')
  await close()
})

const errors: [error: object, code: string, ran: string][] = [
  [{ code: 'ContractBuyValidationError', subcode: 'InsufficientBalance' }, 'INSUFFICIENT_BALANCE', 'no'],
  [{ code: 'ContractBuyValidationError', subcode: 'MissingTickMarketData' }, 'BROKER_UPSTREAM', 'no'],
  [{ code: 'InvalidtoBuy', subcode: 'StakeLimits', code_args: ['0.35', '5000', '0.1'] }, 'INVALID_CONTRACT', 'no'],
  [{ code: 'ValidationError', subcode: 'NeverHeardOf' }, 'INVALID_CONTRACT', 'no'],
  [{ code: 'CallError', subcode: 'PriceMoved' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'Timeout', subcode: 'ContractBuyValidationError' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'DailyLossLimitExceeded' }, 'INVALID_CONTRACT', 'no'],
  [{ code: 'PermissionDenied' }, 'BROKER_DISCONNECTED', 'no'],
  [{ code: 'RateLimitExceeded' }, 'BROKER_UPSTREAM', 'no'],
  [{ code: 'PriceMoved', code_args: ['USD', '10', '10.2', 'stake'] }, 'BROKER_UPSTREAM', 'no'],
  [{ code: 'NeverHeardOf' }, 'BROKER_UPSTREAM', 'no'],
  [{ code: 'InternalError' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'RequestTimeout' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'UpstreamTimedOut' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'ServiceUnavailable' }, 'BROKER_UPSTREAM', 'unknown'],
  [{ code: 'GatewayError', subcode: 'InvalidToken' }, 'BROKER_UPSTREAM', 'unknown']
]

reading('the finer code of an error counts where it is known', async () => {
  for (const [error, code, ran] of errors) {
    const { session, close } = await scripted((frame, socket) =>
      reply(socket, frame, { error: { message: 'No.', ...error }, msg_type: 'buy' })
    )
    const refused = await failure(session.buy(even, buyOptions))
    assert.equal([refused.code, refused.ran], [code, ran], JSON.stringify(error))
    await close()
  }
})

reading("a closed market's opening is the error's own, by the broker's clock", async () => {
  const at = (seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', ' ')
  // The broker's clock is ten minutes ahead of ours, and both are stopped.
  const nowMs = Date.now()
  const brokerNow = () => Math.floor(nowMs / 1000) + 600
  const far = 9 * 86_400
  const text = 'This market is presently closed.'
  const forms: [error: () => object, seconds: number | null][] = [
    [
      () => ({ message: `${text} Market will open at ${at(brokerNow() + 50)}.`, code_args: [at(brokerNow() + 120)] }),
      120
    ],
    [() => ({ message: `${text} Market will open at ${at(brokerNow() + 90)}.` }), 90],
    [() => ({ message: `${text} Market will open at ${at(brokerNow() + 90)}.`, code_args: ['soon'] }), 90],
    [
      () => ({ message: `${text} Market will open at ${at(brokerNow() + 70)}.`, code_args: [at(brokerNow() + far)] }),
      70
    ],
    [() => ({ message: text, code_args: [at(brokerNow() - 60)] }), null]
  ]
  const clocked = await scriptedBroker((frame, socket) => {
    if (frame.time !== undefined) reply(socket, frame, { time: brokerNow() })
    if (frame.trading_times !== undefined) reply(socket, frame, { trading_times: { markets: [] } })
    if (frame.buy === undefined) return
    const { error } = current
    reply(socket, frame, { error: { code: 'ContractBuyValidationError', subcode: 'MarketIsClosed', ...error() } })
  })
  const current = { error: forms[0]![0] }
  const rest = await startRest(200, { data: { url: clocked.url } }, {}, new URL(clocked.url).port)
  const session = await nextClientOf({ now: () => nowMs }, { nextUrl: rest.base }).session({
    accountId: 'CR1',
    appId: appIds.next,
    token: async () => 'some-token'
  })
  for (const [error, seconds] of forms) {
    current.error = error
    const refused = await failure(session.buy(even, buyOptions))
    assert.is(refused.code, 'MARKET_CLOSED')
    if (seconds === null) assert.is(refused.secondsUntilOpen, null)
    else assert.ok(Math.abs(refused.secondsUntilOpen! - seconds) <= 2, `${refused.secondsUntilOpen} for ${seconds}`)
  }
  await rest.close()
  await clocked.close()
})

reading('a closed market of the simulated broker has the time when it opens', async () => {
  const own = await startSimulator({ limits: 'off' })
  const startedAt = performance.now()
  own.engine.market.sessions.force(symbols.get('R_50')!, false, Date.now() + 90_000)
  const session = await nextClientOf({}, own).session(newNextAccount())
  const refused = await failure(session.buy({ ...even, asset: 'R_50' }, buyOptions))
  assert.is(refused.code, 'MARKET_CLOSED')
  const offSeconds = Math.abs(refused.secondsUntilOpen! - 90)
  assert.ok(offSeconds <= 2 + (performance.now() - startedAt) / 1000, String(refused.secondsUntilOpen))
  await own.close()
})

reading.after(closeNext)
reading.run()
