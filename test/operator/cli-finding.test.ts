// test time-out: 300 s
// Finding what a ticket contains: records by any of their names, lists to choose from, filters, CSV, --watch, and
// identifiers that are never cut.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { table } from '../../cli/terminal/output.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import { listOrderLines, MOST_SEARCHED } from '../../db/platform/console.ts'
import { closeAll, newAccountId, openHarness, type TestTrader } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startProcess } from '../support/processes.ts'

const { services, env, makePartner } = await openHarness()
const { db } = services
const run = (...args: string[]) => operator(env, ...args, '--json')

const acme = await makePartner({ name: 'Acme Markets' })
const acmeTwo = await makePartner({ name: 'Acme Two' })
const shared = newAccountId()
const anna = await acme.makeTrader({ externalId: 'anna-1', accountId: shared })
const other = await acmeTwo.makeTrader({ externalId: 'anna-1', accountId: shared })
await db('traders').where({ id: anna.traderId }).update({ email: 'Anna@Example.com', name: 'Anna' })

async function makeOrder(
  trader: TestTrader,
  changes: Partial<OrderRow> = {},
  options: Parameters<typeof insertOrderRows>[2] = {}
): Promise<OrderRow> {
  const brokerOrderId = String(290_000_000_000 + Math.floor(Math.random() * 1e9))
  await insertOrderRows(db, trader, { brokerOrderId, ...options })
  const { id } = (await db('orders')
    .whereNotIn('id', known)
    .where({ trader_id: trader.traderId })
    .first('id')) as OrderRow
  known.push(id)
  const { at } = options
  await db('orders')
    .where({ id })
    .update({ ...(at ? { queued_at: at } : {}), ...changes, id })
  return (await db('orders').where({ id }).first()) as OrderRow
}
const known: string[] = []

const sameId = `ticket-${randomUUID()}`
const placed = new Date('2026-11-21T08:15:00Z')
const order = await makeOrder(
  anna,
  { client_order_id: sameId, sent_at: new Date(placed.getTime() + 412) },
  { at: placed }
)
const namesake = await makeOrder(other, { client_order_id: sameId }, { at: new Date('2026-11-21T08:20:00Z') })
const failed = await makeOrder(
  anna,
  { asset: 'R_50', error_code: 'MARKET_CLOSED' },
  { phase: 'failed', at: new Date('2026-11-22T10:00:00Z') }
)

const naming = suite('operator: what a ticket names')

naming('an order is found by its id, its contract and its clientOrderId', async () => {
  for (const name of [order.id, order.broker_order_id as string, failed.client_order_id as string]) {
    const { exitCode, json, stderr } = await run('orders', 'show', name)
    assert.is(exitCode, 0, stderr)
    assert.is(json.orderId, name === failed.client_order_id ? failed.id : order.id)
  }
})

naming('several orders of one name are a list to choose from, with exit code 1', async () => {
  const { exitCode, json, stderr } = await run('orders', 'show', sameId)
  assert.is(exitCode, 1)
  assert.is(stderr, `CONFLICT: 2 orders go by ${sameId}: name one by its id.\n`)
  assert.is(json.error, 'CONFLICT')
  assert.equal(
    json.candidates.map(({ orderId, partner }: { orderId: string; partner: string }) => [orderId, partner]).sort(),
    [
      [order.id, 'Acme Markets'],
      [namesake.id, 'Acme Two']
    ].sort()
  )
  const person = await operator(env, 'orders', 'show', sameId)
  assert.is(person.exitCode, 1)
  for (const { id } of [order, namesake]) assert.match(person.stdout, id)
})

naming('an order is shown step by step with the time since it was placed, to a person and to a program', async () => {
  const { json } = await run('orders', 'show', order.id)
  assert.equal(
    json.story.map(({ event, offsetMs }: { event: string; offsetMs: number }) => [event, offsetMs]),
    [
      ['Placed', 0],
      ['Sent', 412],
      ['Bought', 0],
      ['Closed', 0]
    ]
  )
  const { stdout } = await operator(env, 'orders', 'show', order.id)
  assert.match(stdout, /^Sent {4}2026-11-21T08:15:00\.412Z {2}\+0\.412 s$/m)
  assert.match(stdout, new RegExp(`^brokerOrderId +${order.broker_order_id}$`, 'm'))
})

naming('an order shows how often a worker claimed it: once where it went through at once', async () => {
  const at = new Date('2026-11-21T09:00:00Z')
  const sentAt = (ms: number) => ({ sent_at: new Date(at.getTime() + ms), sender: 'worker-1' })
  const zoe = await (await makePartner({ name: 'Third' })).makeTrader()
  const once = await makeOrder(zoe, { ...sentAt(20), attempt: 2 }, { at })
  const again = { queued_at: new Date(at.getTime() + 30_000), ...sentAt(31_500), attempt: 4 }
  const repeated = await makeOrder(zoe, again, { at })
  const shown = async ({ id }: OrderRow) => {
    const { json } = await run('orders', 'show', id)
    const story = json.story.map(({ event, note }: { event: string; note: string }) => [event, note])
    return { tries: json.tries, attempt: json.attempt, story: story.slice(0, -2) }
  }
  assert.equal(await shown(once), {
    tries: 1,
    attempt: undefined,
    story: [
      ['Placed', ''],
      ['Sent', 'by worker-1']
    ]
  })
  assert.equal(await shown(repeated), {
    tries: 3,
    attempt: undefined,
    story: [
      ['Placed', ''],
      ['Queued', ''],
      ['Sent', 'by worker-1, try 3']
    ]
  })
  const person = await operator(env, 'orders', 'show', once.id)
  assert.match(person.stdout, /^tries +1$/m)
})

naming(
  'a trader is found by its id, external id, e-mail and account, and distinguished from its namesakes',
  async () => {
    for (const name of [anna.traderId, 'anna@example.COM'])
      assert.is((await run('traders', 'show', name)).json.traderId, anna.traderId)
    for (const name of ['anna-1', shared]) {
      const { exitCode, json } = await run('traders', 'show', name)
      assert.is(exitCode, 1)
      assert.equal(
        json.candidates.map(({ traderId }: { traderId: string }) => traderId).sort(),
        [anna.traderId, other.traderId].sort()
      )
    }
    const nobody = await run('traders', 'show', 'anna')
    assert.equal(
      [nobody.exitCode, nobody.stderr],
      [1, 'NOT_FOUND: There is no trader anna; `operator traders find TEXT` searches parts of names.\n']
    )
    const nameless = await run('partners', 'show', 'nobody-at-all')
    assert.equal(
      [nameless.exitCode, nameless.stderr],
      [1, 'NOT_FOUND: There is no partner nobody-at-all; `operator partners list` has them all.\n']
    )
  }
)

naming('a partner that there is not is refused by every command that lists or follows what is its', async () => {
  const lists = [
    'orders list',
    'events list',
    'webhooks list',
    'keys list',
    'traders list',
    'purchases list',
    'wallet show'
  ]
  const followed = ['events tail', 'requests tail', 'listen --forward-to http://127.0.0.1:9/']
  for (const command of [...lists, ...followed]) {
    const { exitCode, stdout, stderr } = await run(...command.split(' '), '--partner', 'ptn_nobody')
    assert.equal([exitCode, stdout, stderr], [1, '', 'NOT_FOUND: There is no partner ptn_nobody.\n'], command)
  }
})

naming('traders are searched by a part of any of their names', async () => {
  for (const text of ['EXAMPLE.c', shared.slice(2)]) {
    const { json } = await run('traders', 'find', text)
    const found = json.data.map(({ traderId }: { traderId: string }) => traderId)
    assert.equal(found.sort(), (text === 'EXAMPLE.c' ? [anna.traderId] : [anna.traderId, other.traderId]).sort())
  }
  assert.equal((await run('traders', 'find', 'nobody-is-called-so')).json.data, [])
})

naming('a partner is found by its name; a part of it will do where no whole one fits', async () => {
  assert.is((await run('partners', 'show', 'acme TWO')).json.partnerId, acmeTwo.partnerId)
  assert.is((await run('partners', 'show', 'markets')).json.partnerId, acme.partnerId)
  const { exitCode, json } = await run('partners', 'show', 'acme')
  assert.is(exitCode, 1)
  assert.is(json.candidates.length, 2)
})

naming('the console finds an order that is named in full, however many are newer', async () => {
  const [found] = await listOrderLines(db, { text: order.broker_order_id as string, limit: 10 })
  assert.is(found?.id, order.id)
  // Identifiers are ordered by time: this one is older than all the others.
  const old = await makeOrder(other, {}, { at: new Date('2020-01-01T00:00:00Z') })
  await db('orders').where({ id: old.id }).update({ id: 'ord_00000000000000000000000001' })
  await insertOrderRows(db, other, { phase: 'failed', count: MOST_SEARCHED })
  const lines = await listOrderLines(db, { text: old.broker_order_id as string, limit: 10 })
  assert.equal(
    lines.map(({ id }) => id),
    ['ord_00000000000000000000000001']
  )
})

const listing = suite('operator orders list')

listing('takes time, error, asset and account', async () => {
  const ids = async (...filter: string[]) => {
    const { exitCode, json, stderr } = await run('orders', 'list', '--partner', acme.partnerId, ...filter)
    assert.is(exitCode, 0, stderr)
    return json.data.map(({ orderId }: { orderId: string }) => orderId)
  }
  assert.equal(await ids(), [failed.id, order.id])
  assert.equal(await ids('--error', 'MARKET_CLOSED'), [failed.id])
  assert.equal(await ids('--asset', 'R_100'), [order.id])
  assert.equal(await ids('--account', 'CR1'), [])
  assert.equal(await ids('--from', '2026-11-21T08:15:00Z', '--to', '2026-11-22'), [order.id])
  assert.equal(await ids('--to', '2026-11-21T10:15:00+02:00'), [])
  const wrong = await run('orders', 'list', '--from', '2026-02-31')
  assert.is(wrong.exitCode, 2)
  assert.match(wrong.stderr, '--from')
  const reversed = await run('orders', 'list', '--from', '2026-11-24', '--to', '2026-11-23')
  assert.equal(
    [reversed.exitCode, reversed.stderr],
    [2, 'error: --from 2026-11-24 is not before --to 2026-11-23: nothing is placed between them\n']
  )
})

listing('prints CSV with every field, which no name turns into a formula', async () => {
  await db('orders').where({ id: order.id }).update({ trader_external_id: '=cmd|"x"' })
  const { exitCode, stdout } = await operator(env, 'orders', 'list', '--partner', acme.partnerId, '--csv')
  await db('orders').where({ id: order.id }).update({ trader_external_id: 'anna-1' })
  assert.is(exitCode, 0)
  const [head = '', first = '', second = ''] = stdout.split('\r\n')
  assert.match(head, /^orderId,brokerOrderId,status,/)
  assert.match(head, /,error\.error,error\.message(,|$)/)
  assert.match(first, 'MARKET_CLOSED')
  assert.match(second, `,"'=cmd|""x""",`)
  assert.is(second.split(',').length, head.split(',').length)
  const single = await operator(env, 'partners', 'show', acme.partnerId, '--csv')
  assert.equal([single.exitCode, single.stdout], [2, ''])
  assert.match(single.stderr, '--csv is for lists')
})

listing('refuses CSV of what it would print as it happens', async () => {
  for (const command of [
    ['events', 'tail'],
    ['requests', 'tail'],
    ['listen', '--partner', acme.partnerId, '--forward-to', 'http://127.0.0.1:9/']
  ]) {
    const { exitCode, stdout, stderr } = await operator(env, ...command, '--csv')
    assert.equal([exitCode, stdout], [2, ''], command.join(' '))
    assert.is(stderr, 'error: --csv is for lists; this command takes --json\n')
  }
})

listing('refuses CSV of what is no list before it changes anything', async () => {
  const of = ['--partner', acme.partnerId]
  // When a key was last used is written some time after its requests.
  const keyIds = async () => (await run('keys', 'list', ...of)).json.data.map(({ keyId }: { keyId: string }) => keyId)
  const [before, keys] = [await run('wallet', 'show', ...of), await keyIds()]
  for (const command of [
    ['wallet', 'topup', ...of, '--amount', '5'],
    ['keys', 'issue', ...of],
    ['orders', 'reconcile', order.id, '--absent', '--yes']
  ]) {
    const { exitCode, stdout, stderr } = await operator(env, ...command, '--csv')
    assert.equal([exitCode, stdout], [2, ''], command.join(' '))
    assert.is(stderr, 'error: --csv is for lists; this command takes --json\n')
  }
  assert.equal((await run('wallet', 'show', ...of)).json, before.json)
  assert.equal(await keyIds(), keys)
  // The evidence is a list, and reads alone.
  assert.match((await operator(env, 'orders', 'reconcile', order.id, '--csv')).stderr, /^CONFLICT: /)
})

listing('is shown again and again with --watch until it is interrupted, and ends in order', async () => {
  const watch = startProcess('cli/main.ts', env, ['orders', 'list', '--partner', acme.partnerId, '--watch', '1'])
  const shown = () => watch.lines.filter(line => line.startsWith(order.id)).length
  await watch.line(new RegExp(`^${order.id}`))
  const fresh = await makeOrder(anna, {}, { at: new Date() })
  await watch.line(new RegExp(`^${fresh.id}`))
  assert.ok(shown() >= 2)
  watch.kill('SIGINT')
  assert.is(await watch.ended, 0)
  const both = await run('orders', 'list', '--watch')
  assert.equal([both.exitCode, both.stdout], [2, ''])
})

const narrow = suite('a table on a narrow terminal')

narrow('cuts words, never an identifier: where those do not fit, each record is a block of lines', () => {
  const record = {
    orderId: order.id,
    traderExternalId: 'a-long-external-id-of-a-partner-0001',
    description: 'long words that may be cut '.repeat(4),
    createdAt: '2026-11-21T08:15:00.412Z'
  }
  const wide = table([record], undefined, 120)
  assert.match(wide, '…')
  assert.is(wide.split('\n').length, 2)
  const stacked = table([record, record], undefined, 60)
  assert.match(stacked, new RegExp(`^orderId +${order.id}$`, 'm'))
  assert.is(stacked.split('\n\n').length, 2)
  for (const text of [wide, stacked])
    for (const whole of [record.orderId, record.traderExternalId, '2026-11-21T08:15:00Z']) assert.match(text, whole)
})

narrow.after(closeAll)
for (const tests of [naming, listing, narrow]) tests.run()
