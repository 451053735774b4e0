// The simulated broker when things go wrong: every fault, seen from the client's side and in the broker's own
// ledger; its journal over a kill; its controls over HTTP; and the program itself.
import { spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { PurchaseTerms } from '../../worker/simulator/engine/contracts.ts'
import { Engine } from '../../worker/simulator/engine/engine.ts'
import { openJournal } from '../../worker/simulator/engine/journal.ts'
import type { FaultRule } from '../../worker/simulator/faults.ts'
import { parseOptions } from '../../worker/simulator/options.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { BrokerSocket, type SocketFrame } from '../broker/broker-socket.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const simulator = await startSimulator({ tickMs: 20, limits: 'off', seed: 5 })
const { url, faults } = simulator
const dir = mkdtempSync(join(tmpdir(), 'simulator-test-'))
const MAIN = join(import.meta.dirname, '../../worker/simulator/main.ts')

const oneTick = {
  contract_type: 'DIGITEVEN',
  symbol: 'R_100',
  currency: 'USD',
  basis: 'stake',
  amount: 10,
  duration: 1,
  duration_unit: 't'
}
const buying = (amount = 10) => ({ buy: '1', price: amount, parameters: { ...oneTick, amount } })
let accounts = 0

async function trader(at = url): Promise<BrokerSocket & { loginid: string }> {
  const loginid = `CR${3_000_000 + ++accounts}`
  return Object.assign(await BrokerSocket.authorised(at, `sim-${loginid}`), { loginid })
}

/** Runs with one rule standing, and with none after. */
async function under<T>(rule: FaultRule, run: () => Promise<T>): Promise<T> {
  faults.set({ rules: [rule] })
  try {
    return await run()
  } finally {
    faults.reset()
  }
}

/** The account's contracts in the ledger. */
const books = (loginid: string) => simulator.ledger().filter(entry => entry.loginid === loginid)

/** Waits, on a connection that is not disturbed, until the ledger has what is looked for. */
async function eventually(holds: () => boolean): Promise<void> {
  const witness = await BrokerSocket.open(url, 'app_id=9')
  for (let i = 0; !holds(); i++) {
    if (i > 5_000) throw new Error('It never came to hold')
    await witness.call({ ping: 1 })
  }
  witness.close()
}

const calls = suite('a call under a fault')

calls('dropped before it runs leaves no contract', async () => {
  const socket = await trader()
  await under({ effect: 'drop-before', call: 'buy' }, async () => {
    socket.send({ ...buying(), req_id: 50 })
    await socket.eventually(() => socket.closed)
  })
  assert.equal(books(socket.loginid), [])
})

calls('dropped after it ran leaves a contract without a notification', async () => {
  const socket = await trader()
  await under({ effect: 'drop-after', call: 'buy' }, async () => {
    socket.send({ ...buying(), subscribe: 1, req_id: 50 })
    await socket.eventually(() => socket.closed)
  })
  assert.not.ok(socket.frames.some(frame => frame.buy))
  assert.equal(
    books(socket.loginid).map(entry => [entry.stake, entry.delivered]),
    [['10.00', false]]
  )
})

calls('timed out has run never, or runs late', async () => {
  const socket = await trader()
  await under({ effect: 'timeout', call: 'buy' }, async () => {
    assert.is((await socket.call(buying())).error.code, 'Timeout')
  })
  await under({ effect: 'timeout-late', call: 'buy', delayMs: 100 }, async () => {
    assert.is((await socket.call(buying(11))).error.code, 'Timeout')
    assert.equal(books(socket.loginid), [])
  })
  await eventually(() => books(socket.loginid).length > 0)
  assert.equal(
    books(socket.loginid).map(entry => [entry.stake, entry.delivered]),
    [['11.00', false]]
  )
})

calls('muted has run, ignored has not, and neither gets a response', async () => {
  const socket = await trader()
  await under({ effect: 'mute', call: 'buy' }, async () => {
    socket.send({ ...buying(), req_id: 50 })
    await socket.call({ ping: 1 })
  })
  await under({ effect: 'ignore', call: 'buy' }, async () => {
    socket.send({ ...buying(12), req_id: 51 })
    await socket.call({ ping: 1 })
  })
  assert.not.ok(socket.frames.some(frame => frame.req_id === 50 || frame.req_id === 51))
  assert.equal(
    books(socket.loginid).map(entry => entry.stake),
    ['10.00']
  )
})

calls('gets its response twice, or after the next one, with one contract each', async () => {
  const socket = await trader()
  await under({ effect: 'duplicate', call: 'buy' }, async () => {
    socket.send({ ...buying(), req_id: 50 })
    await socket.eventually(() => socket.frames.filter(frame => frame.req_id === 50).length === 2)
  })
  assert.is(books(socket.loginid).length, 1)
  await under({ effect: 'reorder', call: 'buy' }, async () => {
    socket.send({ ...buying(), req_id: 51 })
    socket.send({ time: 1, req_id: 52 })
    await socket.until(frame => frame.req_id === 51)
    const order = socket.frames.map(frame => frame.req_id)
    assert.ok(order.indexOf(52) < order.indexOf(51))
  })
  assert.is(books(socket.loginid).length, 2)
})

calls('a held response comes by itself when no other does', async () => {
  const socket = await trader()
  await under({ effect: 'reorder', call: 'buy', delayMs: 30 }, async () => {
    assert.ok((await socket.call(buying())).buy)
  })
})

calls('refused with any code does not run, as often and for whom the rule has it', async () => {
  const socket = await trader()
  const other = await trader()
  faults.set({
    rules: [
      { effect: 'error', call: 'buy', loginid: socket.loginid, code: 'PriceMoved', times: 2 },
      {
        effect: 'error',
        call: 'buy',
        symbol: 'R_50',
        code: 'InvalidContractProposal',
        message: 'Unknown contract proposal'
      },
      { effect: 'error', class: 'outcome', code: 'RateLimit' }
    ]
  })
  assert.ok((await other.call(buying())).buy)
  assert.is((await socket.call(buying())).error.code, 'PriceMoved')
  assert.is((await socket.call(buying())).error.code, 'PriceMoved')
  assert.ok((await socket.call(buying())).buy)
  const elsewhere = { buy: '1', price: 10, parameters: { ...oneTick, symbol: 'R_50' } }
  assert.equal((await socket.call(elsewhere)).error, {
    code: 'InvalidContractProposal',
    message: 'Unknown contract proposal'
  })
  assert.is((await socket.call({ statement: 1 })).error.code, 'RateLimit')
  assert.ok((await socket.call({ balance: 1 })).balance)
  faults.reset()
  assert.is(books(socket.loginid).length, 1)
})

calls('chance repeats with the seed', async () => {
  const pattern = async () => {
    const shaky = await startSimulator({
      seed: 9,
      limits: 'off',
      faults: { rules: [{ effect: 'error', code: 'CallError', call: 'time', probability: 0.3 }] }
    })
    const socket = await BrokerSocket.open(shaky.url)
    const seen: boolean[] = []
    for (let i = 0; i < 200; i++) seen.push((await socket.call({ time: 1 })).error !== undefined)
    socket.close()
    await shaky.close()
    return seen
  }
  const first = await pattern()
  const failed = first.filter(Boolean).length
  assert.ok(failed > 35 && failed < 85, String(failed))
  assert.equal(await pattern(), first)
})

calls('latency delays responses and jitter makes them change places; streams begin after their response', async () => {
  const slow = await startSimulator({
    latencyMs: 40,
    jitterMs: 60,
    tickMs: 5,
    settlementDelayMs: 0,
    limits: 'off',
    seed: 2
  })
  const socket = await BrokerSocket.authorised(slow.url, 'sim-CR12345')
  const started = Date.now()
  for (let id = 100; id < 120; id++) socket.send({ ...buying(), subscribe: 1, req_id: id })
  await socket.eventually(
    () => socket.frames.filter(frame => frame.proposal_open_contract?.is_sold === 1).length === 20
  )
  assert.ok(Date.now() - started >= 40)
  const respondedIds = socket.frames.filter(frame => frame.buy).map(frame => frame.req_id)
  assert.is.not(respondedIds.join(), [...respondedIds].sort().join())
  for (const id of respondedIds) {
    const own = socket.frames.filter(frame => frame.req_id === id)
    assert.ok(own[0]!.buy && own.at(-1)!.proposal_open_contract.is_sold === 1)
  }
  assert.equal(socket.broken, [])
  socket.close()
  await slow.close()
})

const site = suite('a broker in trouble')

site('down cuts everybody and refuses connections until it is up', async () => {
  const socket = await trader()
  faults.set({ down: true })
  await socket.eventually(() => socket.closed)
  let refused = false
  await BrokerSocket.open(url).catch(() => {
    refused = true
  })
  assert.ok(refused)
  faults.reset()
  const again = await BrokerSocket.open(url)
  assert.is((await again.call({ ping: 1 })).ping, 'pong')
  again.close()
})

site('under maintenance announces it, then drops', async () => {
  const lone = await startSimulator()
  const socket = await BrokerSocket.open(lone.url)
  await socket.call({ website_status: 1, subscribe: 1 })
  lone.v3.maintain(30)
  assert.is((await socket.until(frame => frame.website_status?.site_status === 'updating')).msg_type, 'website_status')
  await socket.eventually(() => socket.closed)
  const again = await BrokerSocket.open(lone.url)
  assert.is((await again.call({ website_status: 1 })).website_status.site_status, 'up')
  again.close()
  await lone.close()
})

const control = suite('/control')

async function http(method: string, path: string, body?: unknown): Promise<{ status: number; body: SocketFrame }> {
  const response = await fetch(`${simulator.control}${path}`, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return { status: response.status, body: (await response.json()) as SocketFrame }
}

control('refuses what it does not know, and names what is wrong', async () => {
  assert.is((await http('GET', '/nothing')).status, 404)
  const cases: [string, unknown][] = [
    ['/faults', { latencyMs: -1 }],
    ['/faults', { rules: [{ effect: 'explode' }] }],
    ['/faults', { colour: 1 }],
    ['/market', { symbol: 'R_99', open: false }],
    ['/market', { symbol: 'R_100' }],
    ['/accounts', { loginid: 'nobody' }],
    ['/ticks', { symbol: 'R_100', quotes: [0] }]
  ]
  for (const [path, body] of cases) {
    const response = await http('POST', path, body)
    assert.is(response.status, 400, path)
    assert.is(typeof response.body.error, 'string')
  }
  assert.is((await http('GET', '/ledger?limit=x')).status, 400)
})

control('sets faults, the market, ticks, tokens and accounts while it runs', async () => {
  const socket = await trader()
  await http('POST', '/faults', {
    add: { effect: 'error', call: 'time', code: 'CallError', times: 1 },
    suspended: ['R_10']
  })
  assert.is((await socket.call({ time: 1 })).error.code, 'CallError')
  assert.ok((await socket.call({ time: 1 })).time)
  const suspended = await socket.call({ buy: '1', price: 10, parameters: { ...oneTick, symbol: 'R_10' } })
  assert.match(suspended.error.message, /suspended/)
  await http('POST', '/market', { symbol: 'R_25', open: false })
  assert.is(
    (await socket.call({ buy: '1', price: 10, parameters: { ...oneTick, symbol: 'R_25' } })).error.code,
    'MarketIsClosed'
  )
  assert.equal((await http('GET', '/state')).body.closed.includes('R_25'), true)
  await http('POST', '/market', { symbol: 'R_25', open: null })
  await http('POST', '/ticks', { symbol: 'JD10', quotes: Array.from({ length: 200 }, () => 1219.5) })
  const { buy } = await socket.call({
    buy: '1',
    price: 10,
    parameters: { ...oneTick, symbol: 'JD10', contract_type: 'DIGITMATCH', barrier: '0' }
  })
  await eventually(() =>
    books(socket.loginid).some(entry => entry.contractId === buy.contract_id && entry.status === 'won')
  )
  await http('POST', '/accounts', { loginid: 'CR4000001', token: 'preset-token', balance: 20, scopes: ['read'] })
  const preset = await BrokerSocket.authorised(url, 'preset-token')
  assert.is((await preset.call({ balance: 1 })).balance.balance, 20)
  assert.is((await preset.call(buying())).error.code, 'PermissionDenied')
  await http('POST', '/tokens', { revoke: 'preset-token' })
  assert.is((await preset.call({ balance: 1 })).error.code, 'InvalidToken')
  await http('POST', '/accounts', { loginid: socket.loginid, disabled: true })
  assert.is((await socket.call(buying())).error.code, 'AccountDisabled')
  const state = (await http('DELETE', '/faults')).body
  assert.equal([state.faults.rules, state.suspended], [[], []])
})

control('frozen ticks let contracts wait', async () => {
  const socket = await trader()
  await http('POST', '/faults', { frozen: ['R_75'] })
  const { buy } = await socket.call({ buy: '1', price: 10, parameters: { ...oneTick, symbol: 'R_75' }, subscribe: 1 })
  await socket.call({ ticks: 'R_10', subscribe: 1 })
  await socket.eventually(() => socket.frames.filter(frame => frame.tick?.symbol === 'R_10').length > 5)
  assert.is(books(socket.loginid)[0]?.status, 'open')
  await http('POST', '/faults', { frozen: [] })
  await socket.until(
    frame => frame.proposal_open_contract?.contract_id === buy.contract_id && frame.proposal_open_contract.is_sold === 1
  )
})

control('shows the ledger, whole or in pages', async () => {
  const whole = (await http('GET', '/ledger')).body
  assert.equal(whole, simulator.ledger())
  const first = (await http('GET', '/ledger?limit=3')).body as unknown as SocketFrame[]
  const rest = (await http('GET', `/ledger?after=${first.at(-1)?.contractId}`)).body as unknown as SocketFrame[]
  assert.equal([...first, ...rest], whole)
})

control('cuts the connections of one account', async () => {
  const [one, other] = [await trader(), await trader()]
  assert.equal((await http('POST', '/disconnect', { loginid: one.loginid })).body, { cut: 1 })
  await one.eventually(() => one.closed)
  assert.is((await other.call({ ping: 1 })).ping, 'pong')
})

const journal = suite('the journal')

journal('gives contracts, money and rows back after a restart', async () => {
  const path = join(dir, 'restart.journal')
  const options = { journal: path, tickMs: 20, limits: 'off' as const, settlementDelayMs: 0 }
  const before = await startSimulator(options)
  const socket = await BrokerSocket.authorised(before.url, 'sim-CR5000001')
  const day = {
    contract_type: 'CALL',
    symbol: 'R_100',
    currency: 'USD',
    basis: 'stake',
    amount: 5,
    duration: 1,
    duration_unit: 'd'
  }
  const up = {
    ...day,
    contract_type: 'MULTUP',
    multiplier: 100,
    duration: undefined,
    duration_unit: undefined,
    limit_order: { take_profit: 400 }
  }
  await socket.call({ ...buying(), subscribe: 1 })
  await socket.until(frame => frame.proposal_open_contract?.is_sold === 1)
  const open = [
    (await socket.call({ buy: '1', price: 5, parameters: day })).buy,
    (await socket.call({ buy: '1', price: 5, parameters: up })).buy
  ]
  const tick = (await socket.call({ buy: '1', price: 10, parameters: { ...oneTick, duration: 10 } })).buy
  const statement = (await socket.call({ statement: 1, description: 1 })).statement.transactions
  socket.close()
  await before.close()
  const known = before.ledger()

  const after = await startSimulator(options)
  const again = await BrokerSocket.authorised(after.url, 'sim-CR5000001')
  const follow = { proposal_open_contract: 1, contract_id: tick.contract_id, subscribe: 1 }
  const first = await again.call(follow)
  if (first.proposal_open_contract.is_sold === 0)
    await again.until(frame => frame.proposal_open_contract?.is_sold === 1)
  const rows = (await again.call({ statement: 1, description: 1 })).statement.transactions
  assert.equal(rows.slice(1), statement)
  assert.equal([rows[0].action_type, rows[0].contract_id], ['sell', tick.contract_id])
  const { contracts } = (await again.call({ portfolio: 1 })).portfolio
  assert.equal(
    contracts.map((each: SocketFrame) => each.shortcode),
    open.map(each => each.shortcode)
  )
  const ledger = after.ledger()
  assert.equal(
    ledger.map(entry => entry.contractId),
    known.map(entry => entry.contractId)
  )
  assert.equal({ ...ledger[0], delivered: true }, known[0])
  assert.is(ledger[2]?.takeProfit, '400.00')
  const next = (await again.call(buying())).buy
  assert.ok(next.contract_id > tick.contract_id && next.transaction_id > rows[0].transaction_id)
  again.close()
  await after.close()
})

journal('lets contracts end by the ticks that were missed', () => {
  const path = join(dir, 'missed.journal')
  const clock = new VirtualClock('2026-03-04T10:00:00.500Z')
  const first = new Engine({ clock, journal: openJournal(path) })
  const account = first.accounts.create({ loginid: 'CR5000004' })
  const terms: PurchaseTerms = { type: 'CALL', symbol: 'R_100', currency: 'USD', basis: 'stake', amount: 10 }
  const facts = { appId: 1, maxCents: 1_000 }
  first.buy(account, { ...facts, terms: { ...terms, duration: 3, unit: 't' } })
  first.buy(account, { ...facts, terms: { ...terms, duration: 20, unit: 's' } })
  first.close()
  clock.stall(60_000)
  const stored = openJournal(path)
  assert.is(stored.lines.length, 3)
  const second = new Engine({ clock, journal: stored })
  assert.is(stored.lines.length, 0)
  clock.pass(1_000)
  const epochs = [...second.contracts.values()].map(({ startEpoch, entry, exit, status }) => {
    assert.is.not(status, 'open')
    return [entry!.epoch - startEpoch, exit!.epoch - startEpoch]
  })
  assert.equal(epochs, [
    [2, 8],
    [2, 20]
  ])
  second.close()
})

journal('lets multipliers reach their limits by the ticks that were missed', () => {
  const path = join(dir, 'limits.journal')
  const clock = new VirtualClock('2026-03-04T10:00:00.500Z')
  const open = (journal?: ReturnType<typeof openJournal>) =>
    new Engine({ clock, seed: 3, ...(journal ? { journal } : {}) })
  const [first, unbroken] = [open(openJournal(path)), open()]
  const common = { symbol: 'R_100', currency: 'USD', basis: 'stake', amount: 10, multiplier: 400 } as const
  const ends = ({ contracts }: Engine) =>
    [...contracts.values()].map(({ status, sellCents, exit }) => [status, sellCents, exit?.n ?? null])
  for (const engine of [first, unbroken]) {
    const account = engine.accounts.create({ loginid: 'CR5000005' })
    const buy = (type: string, limits: { takeProfit?: number; stopLoss?: number }) =>
      engine.buy(account, { appId: 1, maxCents: 1_000, terms: { ...common, type, ...limits } })
    for (let limit = 3; limit < 10; limit += 0.5) {
      for (const type of ['MULTUP', 'MULTDOWN']) {
        buy(type, { takeProfit: limit - 2.5 })
        buy(type, { stopLoss: limit })
      }
    }
  }
  clock.pass(20_000)
  // Limits that the price has passed before they were set.
  for (const engine of [first, unbroken]) {
    const account = engine.accounts.create({ loginid: 'CR5000005' })
    for (const { id, status, offer } of engine.contracts.values())
      if (status === 'open' && offer.takeProfitCents !== null) engine.update(account, id, { takeProfit: 1 })
  }
  first.close()
  const before = ends(unbroken)
  clock.stall(60_000)
  const second = open(openJournal(path))
  clock.pass(2_000)
  const after = ends(unbroken)
  const closed = after.filter(([status], i) => status !== 'open' && before[i]?.[0] === 'open')
  assert.ok(closed.length > 5 && after.some(([status]) => status === 'open'), JSON.stringify({ before, after }))
  assert.equal(ends(second), after)
  for (const engine of [second, unbroken]) engine.close()
})

journal('survives a line cut off by a kill, and stops at any other broken one', async () => {
  const path = join(dir, 'torn.journal')
  const first = await startSimulator({ journal: path, tickMs: 20 })
  const socket = await BrokerSocket.authorised(first.url, 'sim-CR5000002')
  await socket.call(buying())
  socket.close()
  await first.close()
  const lines = readFileSync(path, 'utf8')
  appendFileSync(path, '{"kind":"bought","contr')
  const second = await startSimulator({ journal: path, tickMs: 20 })
  assert.is(second.ledger().length, 1)
  const again = await BrokerSocket.authorised(second.url, 'sim-CR5000002')
  await again.call(buying())
  again.close()
  await second.close()
  assert.ok(readFileSync(path, 'utf8').startsWith(lines))
  const third = await startSimulator({ journal: path, tickMs: 20 })
  assert.is(third.ledger().length, 2)
  await third.close()
  appendFileSync(path, 'nonsense\n')
  const failure = await startSimulator({ journal: path }).catch(error => error as Error)
  assert.match((failure as Error).message, /torn\.journal:\d+ is not a line of this journal/)
})

const program = suite('main.ts')

interface Running {
  url: string
  control: string
  kill(signal: NodeJS.Signals): Promise<number | null>
}

async function run(args: string[]): Promise<Running> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise<number | null>(done => child.once('exit', done))
  const line = await new Promise<string>((done, fail) => {
    createInterface(child.stdout).once('line', done)
    child.once('exit', code => fail(new Error(`It ended with ${code} before it was ready`)))
  })
  const kill = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return ended
  }
  return { ...JSON.parse(line), kill }
}

program('refuses wrong options by name', () => {
  const cases: [string[], RegExp][] = [
    [['--port', '70000'], /--port must be a whole number from 0 to 65535/],
    [['--tick-ms', '0'], /--tick-ms/],
    [['--seed', 'x'], /--seed/],
    [['--limits', 'none'], /--limits must be published or off/],
    [['--revoked-app-ids', '1,,x'], /--revoked-app-ids/],
    [['--socket-base', 'http://127.0.0.1:1'], /--socket-base must be ws:/],
    [['--markup-pct', '4'], /--markup-pct must be a whole number from 0 to 3/],
    [['--markup-on-top'], /--markup-on-top needs --markup-pct/],
    [['--colour'], /--colour/]
  ]
  for (const [argv, text] of cases) assert.throws(() => parseOptions(argv), text)
  assert.equal(parseOptions(['--port', '0', '--tick-ms', '20', '--limits', 'off', '--lenient']), {
    port: 0,
    tickMs: 20,
    limits: 'off',
    mode: 'lenient'
  })
  assert.equal(parseOptions(['--markup-pct', '2', '--markup-on-top']), { markup: { pct: 2, onTop: true } })
  assert.is(parseOptions(['--help']), null)
})

program('comes back with its contracts after being killed', async () => {
  const args = [
    '--port',
    '0',
    '--tick-ms',
    '20',
    '--seed',
    '1',
    '--limits',
    'off',
    '--journal',
    join(dir, 'killed.journal')
  ]
  const first = await run(args)
  const socket = await BrokerSocket.authorised(first.url, 'sim-CR5000003')
  const responses = await Promise.all(Array.from({ length: 50 }, () => socket.call(buying(1))))
  await first.kill('SIGKILL')
  const second = await run(args)
  const ledger = (await (await fetch(`${second.control}/ledger`)).json()) as SocketFrame[]
  assert.equal(
    ledger.map(entry => entry.contractId),
    responses.map(({ buy }) => buy.contract_id)
  )
  assert.is(await second.kill('SIGTERM'), 0)
})
program.after(async () => {
  await simulator.close()
  rmSync(dir, { recursive: true })
})

calls.run()
site.run()
control.run()
journal.run()
program.run()
