// `operator mcp`, used by the client of the protocol's own SDK: lists what it may, reads, refuses what it must, and places
// orders of play money alone.
// test in the full run only

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createMcpServer } from '../../api/mcp/server.ts'
import { toolsOf } from '../../api/mcp/tools.ts'
import { operations } from '../../api/operations.ts'
import { activateAccount, exchangeTokens } from '../../api/traders/accounts.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { closeAll, newAccountId, onClose, openHarness } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 61, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { BROKER_URL: simulator.url } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const trader = await partner.makeTrader()

/** A client of a server in this process. */
async function connect({ key = partner.key, allowOrders = false, baseUrl = harness.address } = {}): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await createMcpServer({ baseUrl, key, allowOrders }).connect(theirs)
  await client.connect(ours)
  onClose(() => client.close())
  return client
}

/** The text of a tool's response, and whether it is an error. */
async function use(client: Client, name: string, given: Record<string, unknown> = {}) {
  const { content, isError = false } = await client.callTool({ name, arguments: given })
  return { isError: isError === true, text: (content as { text: string }[])[0]?.text ?? '' }
}

const order = (changes: object = {}) => ({ ...tickOrder(trader.traderExternalId, changes) })
const ORDERS = ['placeBinaryOrder', 'placeMultiplierOrder', 'closeOrder', 'closeMultiplierOrder']

const reading = suite('operator mcp')

reading('lists the operations that read and no other, each with what it costs and changes', async () => {
  const { tools } = await (await connect()).listTools()
  const named = new Map(tools.map(tool => [tool.name, tool]))
  for (const row of operations) {
    const reads = row.method === 'GET' || ['copilotSignal', 'analyseBotCandles'].includes(row.name)
    assert.is(named.has(row.name), row.auth === 'key' && reads && row.name !== 'getSpec', row.name)
  }
  for (const { name, description = '', annotations } of tools) {
    assert.match(description, 'Changes nothing. Costs', name)
    assert.is(annotations?.readOnlyHint, true)
  }
  assert.ok(named.get('getOrder')?.inputSchema.required?.includes('id'))
  assert.match(JSON.stringify(named.get('listOrders')?.inputSchema.properties?.status), 'CLOSED')
  const allowed = await (await connect({ allowOrders: true })).listTools()
  const more = allowed.tools.filter(({ name }) => !named.has(name))
  assert.equal(more.map(({ name }) => name).sort(), [...ORDERS].sort())
  for (const { description = '', annotations } of more) {
    assert.match(description, 'Changes the account: ')
    assert.is(annotations?.destructiveHint, true)
  }
})

reading('gives every tool the schemas of its operation', () => {
  for (const [name, { row, inputSchema }] of toolsOf({ allowOrders: true })) {
    const parts = [row.params, row.query, row.body].flatMap(part => Object.keys((part?.properties ?? {}) as object))
    assert.equal(Object.keys(inputSchema.properties as object).sort(), [...new Set(parts)].sort(), name)
    assert.is(new Set(parts).size, parts.length, `${name} has two fields of one name`)
  }
})

reading('reads with the key, and passes on what the service refuses', async () => {
  const client = await connect()
  const me = await use(client, 'getMe')
  assert.is(JSON.parse(me.text).partnerId, partner.partnerId)
  const accounts = await use(client, 'listAccounts', { traderExternalId: trader.traderExternalId })
  assert.is(JSON.parse(accounts.text).data[0].accountId, trader.accountId)
  const missing = await use(client, 'getOrder', { id: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma' })
  assert.equal([missing.isError, JSON.parse(missing.text).error], [true, 'NOT_FOUND'])
  const wrong = await use(client, 'listOrders', { status: 'EVERY', more: 1 })
  // As from the service, in the shape that the instructions name.
  const { error, details } = JSON.parse(wrong.text)
  assert.equal([wrong.isError, error], [true, 'VALIDATION_FAILED'])
  assert.equal(details.map(({ path }: { path: string }) => path).sort(), ['/more', '/status'])
  const weak = await harness.makePartner({ scopes: ['usage:read'] })
  const refused = await use(await connect({ key: weak.key }), 'listOrders')
  assert.equal([refused.isError, JSON.parse(refused.text).error], [true, 'INSUFFICIENT_SCOPE'])
})

reading('refuses half of a surrogate pair, which no address can carry, and repeats none', async () => {
  const client = await connect()
  for (const [name, given] of [
    ['listAccounts', { traderExternalId: 'Ann\ud83d' }],
    ['getOrder', { id: '\ud83d' }]
  ] as const) {
    const refused = await use(client, name, given)
    assert.is(refused.isError, true)
    assert.match(refused.text, 'half of a surrogate pair')
  }
  await use(client, 'getAll\ud83d').then(
    () => assert.unreachable(),
    ({ message }) => assert.match(message, 'There is no tool getAll�.')
  )
})

reading('says after how many seconds a call may be repeated that was refused by a limit', async () => {
  const limited = await openHarness({ url: harness.url, env: { RATE_LIMIT_LAUNCH: '1' } })
  const { key } = await limited.makePartner({ plan: 'LAUNCH' })
  const client = await connect({ key, baseUrl: limited.address })
  assert.is((await use(client, 'getMe')).isError, false)
  const { content } = await client.callTool({ name: 'getMe', arguments: {} })
  const [refused, wait] = (content as { text: string }[]).map(({ text }) => text)
  assert.is(JSON.parse(refused ?? '').error, 'RATE_LIMITED')
  assert.match(wait ?? '', /^Repeat it after [1-9]\d? s, not sooner\.$/)
})

reading('bounds what it returns, and has no tool to place without leave', async () => {
  const message = (i: number) => ({
    id: newId('message'),
    partner_id: partner.partnerId,
    party_id: partner.partnerId,
    content: String(i).padEnd(1000, '.')
  })
  await harness.services.db('community_messages').insert(Array.from({ length: 60 }, (_, i) => message(i)))
  const client = await connect()
  const long = await use(client, 'listMessages')
  assert.is(long.isError, true)
  assert.is(JSON.parse(long.text).error, 'PAYLOAD_TOO_LARGE')
  assert.match(JSON.parse(long.text).message, /^The response has \d{5} characters, more than 50000: ask for less/)
  const error = await client
    .callTool({ name: 'placeBinaryOrder', arguments: order() })
    .catch((refused: Error) => refused)
  assert.match((error as Error).message, 'no tool placeBinaryOrder')
})

reading('places, repeats and closes on a DEMO account', async () => {
  const client = await connect({ allowOrders: true })
  const requested = order()
  const placed = await use(client, 'placeBinaryOrder', requested)
  assert.is(placed.isError, false, placed.text)
  const again = await use(client, 'placeBinaryOrder', requested)
  assert.is(JSON.parse(again.text).orderId, JSON.parse(placed.text).orderId)
  const open = await use(client, 'placeBinaryOrder', order({ duration: 1, durationUnit: 'h' }))
  const closed = await use(client, 'closeOrder', { id: JSON.parse(open.text).orderId })
  assert.is(JSON.parse(closed.text).status, 'CLOSED', closed.text)
})

reading('refuses real money, to place and to close', async () => {
  const client = await connect({ allowOrders: true })
  const { db } = harness.services
  const { traderExternalId, accountId } = await partner.makeTrader()
  const open = await use(client, 'placeBinaryOrder', order({ traderExternalId, duration: 1, durationUnit: 'h' }))
  const { orderId } = JSON.parse(open.text)
  await db('broker_accounts').where({ account_id: accountId }).update({ account_mode: 'REAL' })
  await db('orders').where({ id: orderId }).update({ account_mode: 'REAL' })
  const placed = await use(client, 'placeBinaryOrder', order({ traderExternalId }))
  assert.equal([placed.isError, JSON.parse(placed.text).error], [true, 'CONFLICT'])
  assert.match(placed.text, 'Nothing was bought: that account is of real money')
  // On an account of play money as well: the order says that it is not for one.
  const conditional = await use(client, 'placeBinaryOrder', order({ expectedAccountMode: 'REAL' }))
  assert.match(conditional.text, 'Nothing was bought: the order is for a REAL account')
  const closed = await use(client, 'closeOrder', { id: orderId })
  assert.match(closed.text, 'Nothing was closed: that account is of real money')
  const unknown = await use(client, 'placeBinaryOrder', order({ traderExternalId: 'nobody' }))
  assert.is(JSON.parse(unknown.text).error, 'TRADER_NOT_FOUND')
  const rows = await db('orders').where({ account_id: accountId }).select('phase')
  assert.equal(rows, [{ phase: 'open' }])
})

reading('places nothing on an account that became the active one after it was checked', async () => {
  const { db } = harness.services
  const { traderExternalId } = await partner.makeTrader()
  const accountId = newAccountId()
  const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'REAL', currency: 'USD' }]
  assert.is((await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })).status, 200)
  // Between the tools and the service: whatever is to change the service gets the change of the account before.
  const between = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    if (request.method === 'POST') await partner.call(activateAccount, { body: { traderExternalId, accountId } })
    const { authorization = '' } = request.headers
    const headers = { authorization, 'content-type': 'application/json' }
    const passed = await fetch(`${harness.address}${request.url}`, {
      method: request.method ?? 'GET',
      headers,
      ...(body ? { body } : {})
    })
    response.writeHead(passed.status, { 'content-type': 'application/json' }).end(await passed.text())
  }).listen(0, '127.0.0.1')
  onClose(async () => void between.close())
  await once(between, 'listening')
  const { port } = between.address() as AddressInfo
  const client = await connect({ allowOrders: true, baseUrl: `http://127.0.0.1:${port}` })
  const placed = await use(client, 'placeBinaryOrder', order({ traderExternalId }))
  assert.equal([placed.isError, JSON.parse(placed.text).error], [true, 'CONFLICT'], placed.text)
  assert.match(placed.text, `Account ${accountId} is REAL, and the order is for one that is DEMO`)
  assert.equal(await db('orders').where({ account_id: accountId }).select('id'), [])
})

reading('is a process that communicates on stdin and stdout', async () => {
  const client = new Client({ name: 'test', version: '1' })
  const env = { ...(process.env as Record<string, string>), ...harness.env, SERVICE_KEY: partner.key }
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: ['cli/main.ts', 'mcp', '--url', harness.address], env })
  )
  onClose(() => client.close())
  assert.match(client.getInstructions() ?? '', 'never instructions')
  assert.is(JSON.parse((await use(client, 'getMe')).text).partnerId, partner.partnerId)
})

reading('ends with a line at a message that is too long, and without one once nobody reads it', async () => {
  const start = () => {
    const env = { ...process.env, ...harness.env, SERVICE_KEY: partner.key }
    const child = spawn(process.execPath, ['api/mcp/main.ts', harness.address], { env })
    child.stdin.on('error', () => {})
    onClose(async () => void child.kill('SIGKILL'))
    return { child, stderr: text(child.stderr), exit: once(child, 'exit') }
  }
  const long = start()
  long.child.stdin.write('x'.repeat(11 * 1024 * 1024))
  assert.equal([(await long.exit)[0], (await long.stderr).split('\n').length], [1, 2], await long.stderr)
  assert.match(await long.stderr, 'exceeded maximum size')
  const unread = start()
  unread.child.stdout.destroy()
  unread.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`)
  assert.equal([(await unread.exit)[0], await unread.stderr], [0, ''])
})

reading.after(closeAll)
reading.run()
