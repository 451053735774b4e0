// The money commands of the operator as a person or a script runs them: one JSON document each.
// test time-out: 300 s
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { subscribeToBot } from '../../api/marketplace/sales.ts'
import { getMe } from '../../api/me.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { loseCommits } from '../support/lost-commits.ts'
import { makeBot } from '../support/marketplace-makers.ts'
import { operator as runOperator } from '../support/operator.ts'

const { services, env, makePartner } = await openHarness()

async function operator(
  ...args: string[]
): Promise<{ exit: unknown; lines: string[]; document: Record<string, unknown> }> {
  const { exitCode, stdout, stderr } = await runOperator(env, ...args, '--json')
  return {
    exit: exitCode,
    lines: (stdout + stderr).trim().split('\n'),
    document: exitCode === 0 ? JSON.parse(stdout) : {}
  }
}

const create = async (...args: string[]) =>
  (await operator('partners', 'create', '--name', 'Acme', ...args)).document as { partnerId: string; nextFeeAt: string }

const money = suite('operator wallet, billing, ledger')

money('refuse amounts and references that are none with exit code 2, and unknown partners with 1', async () => {
  const { partnerId } = await create('--plan', 'PRO')
  for (const amount of ['0.00', '-5', '1.234', '1e3']) {
    const { exit, lines } = await operator('wallet', 'topup', '--partner', partnerId, '--amount', amount)
    assert.is(exit, 2, amount)
    assert.is(lines.length, 1)
    assert.match(lines[0] as string, '--amount')
  }
  // With a blank that was pasted along, a payment would be another one, and be paid in again.
  for (const reference of ['wire-7 ', ' wire-7', ' ']) {
    const words = ['--partner', partnerId, '--amount', '5', '--reference', reference]
    const { exit, lines } = await operator('wallet', 'topup', ...words)
    assert.is(exit, 2, reference)
    assert.match(lines[0] as string, '--reference')
  }
  assert.is((await operator('wallet', 'topup', '--partner', 'ptn_x', '--amount', '5')).exit, 1)
  assert.is((await operator('wallet', 'show', '--partner', 'ptn_x')).exit, 1)
  assert.is((await operator('wallet', 'statement', '--partner', 'ptn_x')).exit, 1)
  for (const now of ['2026-13-01', '2026-12-01T10:00:00'])
    assert.is((await operator('billing', 'check', '--now', now)).exit, 2, now)
  assert.is((await operator('billing', 'check', '--now', '2020-01-01')).exit, 0)
  // Taken for 3 March, it would charge two days more than was meant.
  assert.is((await operator('billing', 'check', '--now', '2020-02-31')).exit, 2)
})

money('create a partner with a balance and a trial, and show both', async () => {
  const { partnerId } = await create('--plan', 'PRO', '--balance', '500', '--trial-days', '10')
  const { document } = await operator('wallet', 'show', '--partner', partnerId)
  assert.equal(Object.keys(document), ['partnerId', 'balanceUsd', 'feeUsd', 'nextFeeAt'])
  assert.equal([document.balanceUsd, document.feeUsd], [500, 199])
  const days = (Date.parse(document.nextFeeAt as string) - Date.now()) / 86_400_000
  assert.ok(days > 9.9 && days <= 10, String(days))
})

money('top up once for a reference, and state every movement', async () => {
  const { partnerId } = await create('--plan', 'LAUNCH')
  const topup = () => operator('wallet', 'topup', '--partner', partnerId, '--amount', '0.3', '--reference', 'wire-1')
  assert.equal((await topup()).document, { partnerId, balanceUsd: 0.3, saasStatus: 'ACTIVE', repeated: false })
  assert.equal((await topup()).document, { partnerId, balanceUsd: 0.3, saasStatus: 'ACTIVE', repeated: true })
  const { data } = (await operator('wallet', 'statement', '--partner', partnerId)).document as { data: object[] }
  assert.is(data.length, 1)
  assert.match(JSON.stringify(data[0]), '"kind":"topup"')
})

money('charge what is due as of --now, stop who cannot pay, and resume who tops up', async () => {
  const partner = await makePartner({ plan: 'PRO' })
  const rich = await create('--plan', 'LAUNCH', '--balance', '60')
  const now = new Date(Date.now() + 31 * 86_400_000).toISOString()
  assert.equal((await operator('billing', 'check')).document, { charged: 0, activated: 0, deactivated: 0 })
  const { document } = await operator('billing', 'check', '--now', now)
  // Of the partners of this file two have a balance and three have none.
  assert.equal(document, { charged: 2, activated: 0, deactivated: 3 })
  assert.equal((await operator('wallet', 'show', '--partner', rich.partnerId)).document.balanceUsd, 11)
  const statement = (await operator('wallet', 'statement', '--partner', rich.partnerId)).document
  const [fee] = statement.data as { kind: string; description: string; periodStart: string; periodEnd: string }[]
  assert.is(fee?.kind, 'plan_fee')
  const [from, to] = [fee?.periodStart.slice(0, 10), fee?.periodEnd.slice(0, 10)]
  assert.is(fee?.description, `Plan LAUNCH, a month, from ${from} to ${to}`)
  assert.is(fee?.periodStart, rich.nextFeeAt)
  const refused = await partner.call(getMe)
  assert.equal([refused.status, refused.body.saasStatus, refused.body.topUpUsd], [402, 'INACTIVE', 199])
  const paid = await operator('wallet', 'topup', '--partner', partner.partnerId, '--amount', '200')
  assert.equal([paid.document.balanceUsd, paid.document.saasStatus], [1, 'ACTIVE'])
  assert.is((await partner.call(getMe)).status, 200)
})

money('put the months of subscriptions that a check charged into the audit log', async () => {
  const [creator, buyer] = [await makePartner(), await makePartner()]
  await operator('wallet', 'topup', '--partner', buyer.partnerId, '--amount', '50')
  const botId = await makeBot(creator, { monthlyPriceUsd: 5 })
  const { body } = await buyer.call(subscribeToBot, { params: { id: botId } })
  await services
    .db('marketplace_subscriptions')
    .where({ id: body.subscriptionId })
    .update({ current_period_end: new Date() })
  assert.equal((await operator('billing', 'check')).document, { charged: 0, activated: 0, deactivated: 0 })
  const { data } = (await operator('audit', 'list', '--limit', '1')).document as { data: object[] }
  assert.match(JSON.stringify(data), /"billing\.check".*"renewed":1/)
})

money('put what a check did into the audit log, although it fails for somebody', async () => {
  const due = () => create('--plan', 'LAUNCH', '--trial-days', '0', '--balance', '60')
  const [stuck] = [await due(), await due()]
  // The reference of its fee belongs to something else.
  await transfer(services.db, {
    reference: `fee:${stuck?.partnerId}:${stuck?.nextFeeAt}`,
    kind: 'topup',
    entries: [
      { account: 'world', amountUsd: '-1' },
      { account: `wallet:${stuck?.partnerId}`, amountUsd: '1' }
    ]
  })
  const { exit, lines } = await operator('billing', 'check')
  assert.is(exit, 1)
  assert.match(lines.join(), `first for ${stuck?.partnerId}; the others were dealt with: 1 charged`)
  const { data } = (await operator('audit', 'list', '--limit', '1')).document as { data: object[] }
  assert.match(JSON.stringify(data), /"billing\.check".*"charged":1/)
})

money('say that a payment may be done whose acknowledgement was lost, and where to look', async () => {
  const { partnerId } = await create('--plan', 'LAUNCH')
  const through = await loseCommits(env.DATABASE_URL as string)
  const words = ['wallet', 'topup', '--partner', partnerId, '--amount', '5', '--json']
  const { exitCode, stdout, stderr } = await runOperator({ ...env, DATABASE_URL: through }, ...words)
  assert.equal([exitCode, stdout], [1, ''])
  assert.match(stderr, /^The connection to the database broke: this may be done, or not\. Look before you repeat it/)
  assert.is((await operator('wallet', 'show', '--partner', partnerId)).document.balanceUsd, 5)
  const { data } = (await operator('audit', 'list', '--target', partnerId)).document as { data: { action: string }[] }
  assert.equal(
    data.map(({ action }) => action),
    ['wallet.topup', 'partners.create']
  )
})

money('say of a payment without a reference, and of a name, that they were given before', async () => {
  const first = (await operator('partners', 'create', '--name', 'Twice & Co')).document
  const second = (await operator('partners', 'create', '--name', 'twice & co')).document
  assert.is(first.warning, undefined)
  assert.is(second.warning, `${first.partnerId}, made at ${first.createdAt}, has this name as well.`)
  const partnerId = String(first.partnerId)
  const move = async (verb: string, ...words: string[]) =>
    (await operator('wallet', verb, '--partner', partnerId, '--yes', ...words)).document
  const topup = (...words: string[]) => move('topup', '--amount', ...words)
  for (const words of [['5', '--reference', 'wire-1'], ['5.0'], ['6']])
    assert.is((await topup(...words)).warning, undefined)
  const again = await topup('5')
  assert.match(String(again.warning), /^5 USD were paid in at \S+Z already, without a reference\.$/)
  assert.is(again.balanceUsd, 21)
  assert.is((await topup('5', '--reference', 'wire-2')).warning, undefined)
  const debit = () => move('debit', '--amount', '5', '--reason', 'paid in twice')
  assert.is((await debit()).warning, undefined)
  assert.match(String((await debit()).warning), /^5 USD were taken out at /)
})

money('verify the ledger, and name what breaks it on stderr with exit code 1', async () => {
  const { exit, document } = await operator('ledger', 'verify')
  assert.is(exit, 0)
  assert.is(document.ok, true)
  await services.db.raw('alter table ledger_accounts disable trigger changed_by_entries_only')
  const broken = await operator('ledger', 'verify')
  assert.is(broken.exit, 1)
  assert.match(broken.lines.join('\n'), 'The ledger is broken: The trigger changed_by_entries_only of ledger_accounts')
})

money('check as of an instant that has passed charges no partner for time in which it was inactive', async () => {
  const { partnerId } = await create('--plan', 'PRO')
  const day = 86_400_000
  const ended = new Date(Date.now() - 20 * day)
  // Unpaid for twenty days; then money came by another way than a top-up.
  await services
    .db('partners')
    .where({ id: partnerId })
    .update({
      period_start: new Date(ended.getTime() - 30 * day),
      period_end: ended,
      billing_anchor: ended,
      plan_active: false
    })
  const reference = `refund:${partnerId}`
  await services.db.transaction(trx =>
    transfer(trx, { reference, kind: 'refund', entries: move(accounts.world, accounts.wallet(partnerId), '300') })
  )
  const before = Date.now()
  const { document } = await operator('billing', 'check', '--now', new Date(before - 25 * day).toISOString())
  assert.is(document.activated, 1)
  const { period_start: start, plan_active: active } = await services.db('partners').where({ id: partnerId }).first()
  assert.is(active, true)
  assert.ok(start.getTime() >= before - 5000, start.toISOString())
})

money.after(closeAll)

money.run()
