// test in the full run only
// test time-out: 300 s
// Commands that move or change something, killed, cut off from the database, or done without knowing it: each is done whole with its line in
// the audit log, or not at all, and the repeat that follows does it once.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { loseCommits } from '../support/lost-commits.ts'
import { fund, makeBot } from '../support/marketplace-makers.ts'
import { operator } from '../support/operator.ts'
import { hasTerminal, openTerminal } from '../support/terminal.ts'

const harness = await openHarness()
const { env, url, makePartner } = harness
// Connections that no other statement of the test waits for.
const own = openDatabase({ url, pool: 2, name: 'test-locks' })
onClose(() => own.destroy())
const through = await loseCommits(url)
// A change of plan charges what is due, and computes its price, in a transaction each.
const throughTwo = await loseCommits(url, { others: 2 })

const [creator, buyer] = [await makePartner(), await makePartner({ plan: 'LAUNCH' })]
const trader = await buyer.makeTrader()
await fund(harness, buyer, '5000')
const botId = await makeBot(creator, { oneTimePriceUsd: 100, monthlyPriceUsd: 10 })
const { purchaseId } = (await buyer.call(purchaseBot, { params: { id: botId } })).body
const { subscriptionId } = (await buyer.call(subscribeToBot, { params: { id: botId } })).body
const destinationAddress = 'TJRabPrwbZy45sbavfcjinPJC18kjpRTv8'
const newPayout = async () =>
  (await creator.call(requestPayout, { body: { amountUsd: 1, destinationAddress } })).body.payoutId as string
const [paid, rejected] = [await newPayout(), await newPayout()]
const [key] = (await own('api_keys').where({ partner_id: creator.partnerId }).select('id')) as { id: string }[]

// The counts of calls and the last use of a key are written later on.
await harness.services.usage.flush()

/** A digest of everything that the commands change. */
async function digest(): Promise<string> {
  const tables = [
    'partners',
    'ledger_entries',
    'ledger_transfers',
    'payouts',
    'marketplace_purchases',
    'marketplace_subscriptions'
  ]
  const more = ['api_keys', 'sessions', 'traders', 'broker_accounts', 'audit_log']
  const each = [...tables, ...more].map(
    name => `(select coalesce(md5(string_agg(r::text, ';' order by r::text)), '') from ${name} r)`
  )
  const { rows } = await own.raw(`select ${each.join(` || ' ' || `)} as digest`)
  return rows[0].digest
}

/** The sessions of commands; those that wait for a lock, or all that are in a transaction. */
const sessions = async (condition: string) =>
  (
    await own.raw(
      `select pid from pg_stat_activity where datname = current_database() and application_name like 'service-cli%' and ${condition}`
    )
  ).rows as { pid: number }[]

/** Runs a command until it waits to write its line in the audit log, then has `end` end it. */
async function stopBeforeCommit(args: string[], end: (child: ReturnType<typeof spawn>, pid: number) => unknown) {
  const holder = await own.transaction()
  await holder.raw('lock table audit_log in share mode')
  const child = spawn(process.execPath, ['cli/main.ts', ...args], { env: { ...process.env, ...env }, stdio: 'ignore' })
  const ended = once(child, 'exit') as Promise<[number | null]>
  try {
    const [waiting] = await until(
      'the command to wait',
      async () => {
        const found = await sessions(`wait_event_type = 'Lock'`)
        return found.length > 0 && found
      },
      60_000
    )
    await end(child, (waiting as { pid: number }).pid)
    return (await ended)[0]
  } finally {
    await holder.rollback()
    await until('its transaction to end', async () => (await sessions('xact_start is not null')).length === 0)
  }
}

interface Case {
  args: string[]
  /** What the repeat of a finished command prints: a refusal, or nothing where it changes nothing more or does it again. */
  repeat?: RegExp
  /** What the repeat changes beside the audit log, where it is not refused. */
  again?: 'nothing' | 'once more'
}

const at = ['--partner', buyer.partnerId]
const why = ['--reason', 'a test of it']
const cases: Record<string, Case> = {
  'wallet topup with a reference': {
    args: ['wallet', 'topup', ...at, '--amount', '5', '--reference', 'w1'],
    again: 'nothing'
  },
  'wallet topup without one': { args: ['wallet', 'topup', ...at, '--amount', '7'], again: 'once more' },
  'wallet debit': { args: ['wallet', 'debit', ...at, '--amount', '3', ...why, '--reference', 'd1'], again: 'nothing' },
  'purchases refund': { args: ['purchases', 'refund', purchaseId, ...why], repeat: /^CONFLICT: / },
  'the refund of a month': { args: ['purchases', 'refund', subscriptionId, ...why], repeat: /^CONFLICT: / },
  'payouts approve': { args: ['payouts', 'approve', paid], repeat: /^CONFLICT: .* is APPROVED/ },
  'payouts paid': { args: ['payouts', 'paid', paid, '--reference', 'p1'], repeat: /^CONFLICT: .* is PAID/ },
  'payouts reject': { args: ['payouts', 'reject', rejected, ...why], repeat: /^CONFLICT: .* is REJECTED/ },
  'partners set-plan': { args: ['partners', 'set-plan', buyer.partnerId, 'SCALE'], again: 'nothing' },
  'partners suspend': {
    args: ['partners', 'suspend', buyer.partnerId, ...why],
    repeat: /^CONFLICT: .* is SUSPENDED already/
  },
  'partners resume': { args: ['partners', 'resume', buyer.partnerId], repeat: /^CONFLICT: .* is not SUSPENDED/ },
  'keys issue': { args: ['keys', 'issue', ...at], again: 'once more' },
  'keys revoke': { args: ['keys', 'revoke', key?.id as string], again: 'nothing' },
  'sessions issue': { args: ['sessions', 'issue', ...at], again: 'once more' },
  'partners create': { args: ['partners', 'create', '--name', 'Killed', '--balance', '500'], again: 'once more' },
  'traders erase': { args: ['traders', 'erase', trader.traderId, ...why], again: 'nothing' }
}

const killed = suite('operator: a command that is killed')

const linesOf = async () => Number((await own('audit_log').count('* as count').first())?.count)

for (const [name, { args, repeat, again }] of Object.entries(cases))
  killed(`${name} is done whole and audited, or not at all; the repeat is what it should be`, async () => {
    const words = [...args, '--yes']
    const before = await digest()
    await stopBeforeCommit(words, child => child.kill('SIGKILL'))
    assert.is(await digest(), before)
    const exitCode = await stopBeforeCommit(words, (_, pid) => own.raw('select pg_terminate_backend(?)', [pid]))
    assert.is(exitCode, 1)
    assert.is(await digest(), before)
    const lines = await linesOf()
    const way = name === 'partners set-plan' ? throughTwo : through
    const unsure = await operator({ ...env, DATABASE_URL: way }, ...words)
    assert.match(unsure.stderr, /this may be done, or not/)
    assert.is(await linesOf(), lines + 1)
    const balances = `select md5(string_agg(version || balance::text, ' ' order by account_id, version)) as sum from ledger_entries`
    const done = (await own.raw(balances)).rows[0].sum
    const repeated = await operator(env, ...words, '--json')
    if (repeat) assert.match(repeated.stderr, repeat)
    else assert.is(repeated.exitCode, 0, repeated.stderr)
    if (again !== 'once more') assert.is((await own.raw(balances)).rows[0].sum, done)
    else if (name === 'wallet topup without one' || name === 'partners create') assert.ok(repeated.json.warning)
  })

killed('billing check as of a later instant is audited before it charges the first', async () => {
  const last = await makePartner()
  await own('partners')
    .where({ id: last.partnerId })
    .update({ period_end: new Date(Date.now() + 32 * 86_400_000) })
  const fees = async () =>
    Number((await own('ledger_transfers').where({ kind: 'plan_fee' }).count('* as count').first())?.count)
  const [charged, lines] = [await fees(), await linesOf()]
  const holder = await own.transaction()
  await holder('partners').where({ id: last.partnerId }).forUpdate().select('id')
  const now = new Date(Date.now() + 33 * 86_400_000).toISOString()
  const args = ['cli/main.ts', 'billing', 'check', '--now', now]
  const child = spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  try {
    await until('the check to wait', async () => (await sessions(`wait_event_type = 'Lock'`)).length > 0, 60_000)
  } finally {
    child.kill('SIGKILL')
    await ended
    await holder.rollback()
  }
  assert.ok((await fees()) > charged)
  const [line] = await own('audit_log').orderBy('seq', 'desc').limit(1)
  assert.equal([await linesOf(), line.action, line.details], [lines + 1, 'billing.check-ahead', { now }])
})

const inTerminal = hasTerminal
  ? killed
  : (name: string, _test: () => Promise<void>) => console.log(`SKIPPED ${name}: tmux is not installed here`)

inTerminal('is not repeated on a terminal before the operator has seen what was done', async () => {
  const before = await digest()
  const topup = ['wallet', 'topup', ...at, '--amount', '7']
  const create = ['partners', 'create', '--name', 'Killed']
  for (const [args, asks] of [
    [topup, 'Pay in 7 USD once more?'],
    [create, 'Create another partner named Killed?']
  ] as const) {
    const terminal = await openTerminal(env, { args: [...args], columns: 200, rows: 24 })
    await terminal.shows(asks)
    await terminal.press('n', 'Enter')
    await terminal.shows('Nothing was changed.', 'ENDED 1')
  }
  assert.is(await digest(), before)
})

killed.after(closeAll)
killed.run()
