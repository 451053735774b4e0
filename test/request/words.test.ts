// Refusals in words: every pattern of a request, a command or a setting names what it expects, unknown paths name the nearest
// one, and a broker's refusal names the field it is about.
import { Ajv2020 } from 'ajv/dist/2020.js'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { operations } from '../../api/operations.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { check, readQuery, violations } from '../../schemas/checks/validator.ts'
import { wordsOfPattern } from '../../schemas/checks/words.ts'
import * as analytics from '../../schemas/commands/analytics.ts'
import * as contracts from '../../schemas/commands/contracts.ts'
import * as events from '../../schemas/commands/events.ts'
import * as money from '../../schemas/commands/money.ts'
import * as operator from '../../schemas/commands/operator.ts'
import * as orders from '../../schemas/commands/orders.ts'
import * as requestCommands from '../../schemas/commands/requests.ts'
import * as traders from '../../schemas/commands/traders.ts'
import * as webhooks from '../../schemas/commands/webhooks.ts'
import { environment } from '../../schemas/config/config.ts'
import { calls } from '../../worker/simulator/engine/requests.ts'
import { nextCalls } from '../../worker/simulator/next/requests.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 15, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const { traderExternalId } = await partner.makeTrader()
const place = (changes: object) => partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, changes) })

const patternsOf = (part: unknown): string[] => {
  if (part === null || typeof part !== 'object') return []
  const own = 'pattern' in part && typeof part.pattern === 'string' ? [part.pattern] : []
  return [...own, ...Object.values(part).flatMap(patternsOf)]
}

const commands = [analytics, contracts, events, money, operator, orders, requestCommands, traders, webhooks].flatMap(
  module => Object.values<object>(module)
)

const sound = suite('every schema of a request, response, command or setting')

sound(
  'is one of JSON Schema 2020-12, which the validators of the service and of the simulated broker do not check',
  () => {
    const ajv = new Ajv2020({ strict: false })
    const schemas = [
      ...operations.flatMap(({ params, query, body, response }) => [params, query, body, response]),
      ...commands,
      environment,
      ...[calls, nextCalls].flatMap(dialect => Object.values(dialect)).map(({ fields }) => ({ properties: fields }))
    ].filter(schema => schema !== undefined)
    assert.ok(schemas.length > 200)
    for (const schema of schemas) assert.ok(ajv.validateSchema(schema), ajv.errorsText())
    assert.not(ajv.validateSchema({ type: 'object', properties: { a: { minimum: 'one' } } }))
  }
)

const saying = suite('a refused value')

saying('names what is expected: every pattern has words', () => {
  const requests = operations.map(({ params, query, body }) => ({ params, query, body }))
  const patterns = new Set(patternsOf([requests, commands, environment]))
  assert.ok(patterns.size > 25)
  assert.equal(
    [...patterns].filter(pattern => wordsOfPattern(pattern) === undefined),
    []
  )
})

saying('is named with its path, whatever is wrong with it', async () => {
  const { body } = await place({ asset: 'R 100', stake: 0.1, duration: '5', durationUnit: 'w', barrier: '12' })
  assert.equal(
    Object.fromEntries(body.details.map(({ path, message }: { path: string; message: string }) => [path, message])),
    {
      '/body/asset': 'must be letters, digits and underscores, like R_100',
      '/body/stake': 'must be at least 0.35',
      '/body/duration': 'must be a whole number',
      '/body/durationUnit': 'must be one of t, s, m, h, d',
      '/body/barrier': "must be one digit from '0' to '9'"
    }
  )
})

saying('is named in the same words where it is far too long, and where entries are equal', async () => {
  const [short, long] = await Promise.all(['12', '+0.1'].map(barrier => place({ barrier })))
  assert.is(short?.body.details[0].message, 'must have at most 1 character')
  assert.is(long?.body.details[0].message, 'must have at most 1 character')
  const types = ['key.created', 'order.closed', 'key.created']
  const { body } = await partner.call(createWebhook, { body: { url: 'https://example.com/', types } })
  assert.is(body.message, '/body/types must not have the same entry twice')
})

saying('is named when it is the broker that refuses it', async () => {
  const asset = await place({ asset: 'NOPE' })
  assert.equal([asset.status, asset.body.error, asset.body.details[0].path], [422, 'INVALID_CONTRACT', '/body/asset'])
  assert.is(asset.body.details[0].message, asset.body.message)
  const stake = await place({ stake: 900_000 })
  assert.equal([stake.body.error, stake.body.details?.[0].path], ['INVALID_CONTRACT', '/body/stake'])
})

const finding = suite('an unknown path')

finding('names the nearest one with its methods, where there is one', async () => {
  const messageOf = async (path: string) =>
    ((await (await fetch(harness.address + path)).json()) as { message: string }).message
  assert.match(await messageOf('/v1/order/binary'), 'did you mean POST /v1/orders/binary?')
  assert.match(await messageOf('/v1/acounts'), 'did you mean GET /v1/accounts?')
  assert.match(await messageOf('/v1/orders/ord_01k3hv9c7bf5tvxkz1qd3rn8ma/closed'), 'POST /v1/orders/{id}/close?')
  // Any text is right in the place of a parameter, so it is no sign that the rest of the path is meant.
  assert.match(await messageOf('/v1/accounts/exchange'), 'did you mean POST /v1/accounts/active?')
  assert.match(await messageOf('/v1/order/ord_01'), 'did you mean GET /v1/orders/{id}?')
  assert.match(await messageOf('/orders'), 'did you mean GET /v1/orders?')
  assert.match(await messageOf('/v1/stream'), /^Only a WebSocket is opened here, .* no header Upgrade: websocket/)
  for (const path of ['/wp-admin/setup.php', `/v1/${'orders'.repeat(40)}`])
    assert.is(await messageOf(path), 'There is no such path. See /docs.')
})

saying('is called empty where it is, and nothing else', async () => {
  const { body } = await place({ traderExternalId: '', asset: '' })
  assert.is(body.violations, 2)
  assert.equal(body.details, [
    { path: '/body/traderExternalId', message: 'must not be empty' },
    { path: '/body/asset', message: 'must not be empty' }
  ])
})

saying('is a blank where a number is wanted, which would be read as 0', () => {
  const wait = { type: 'object', properties: { wait: { type: 'integer', minimum: 0 } } } as const
  for (const blank of [' ', '\t'])
    assert.throws(() => check(wait, { wait: blank }, '/query', { coerce: true }), /\/query\/wait must be a number/)
  assert.equal(check(wait, { wait: '0' }, '/query', { coerce: true }), { wait: 0 })
})

saying('of a query is a number in decimal digits and a boolean in its word, and text in any other spelling', () => {
  const shape = {
    type: 'object',
    properties: {
      limit: { type: 'integer' },
      rate: { type: 'number' },
      open: { type: 'boolean' },
      name: { type: 'string' }
    }
  } as const
  const read = (texts: Record<string, string>) => check(shape, readQuery(shape, texts), '/query')
  const all = { limit: '50', rate: '1.25', open: 'true', name: '0x10' }
  assert.equal(read(all), { limit: 50, rate: 1.25, open: true, name: '0x10' })
  assert.equal(read({ limit: '-5', rate: '-7', open: 'false' }), { limit: -5, rate: -7, open: false })
  const refused: Record<string, string[]> = {
    limit: ['0x10', '1e2', '+5', ' 5', '5.0', '', '\t', 'Infinity', '9'.repeat(400)],
    rate: ['0x10', '1e2', '+5', ' 5', '5.', '.5', '', 'NaN', '9'.repeat(400)],
    open: ['1', '0', 'TRUE', 'yes', '', ' true']
  }
  for (const [name, texts] of Object.entries(refused))
    for (const text of texts) assert.throws(() => read({ [name]: text }), new RegExp(`/query/${name} must be`), text)
})

saying('counts the characters of a text, of which one may be two units of UTF-16', () => {
  const wrong = (schema: object, text: string) =>
    violations({ type: 'string', ...schema }, text).map(({ message }) => message)
  const few = ['must have at least 2 characters']
  const many = ['must have at most 2 characters']
  for (const text of ['ab', '😀😀', '😀a', '\ud800\ud800'])
    assert.equal(wrong({ minLength: 2, maxLength: 2 }, text), [])
  for (const text of ['', 'a', '😀']) assert.equal(wrong({ minLength: 2 }, text), few)
  for (const text of ['abc', '😀😀😀', 'ab😀', '\ud800\ud800\ud800']) assert.equal(wrong({ maxLength: 2 }, text), many)
})

saying('takes no walk through a long text', () => {
  const [text, took] = ['x'.repeat(1_000_000), [] as number[]]
  for (let times = 0; times < 20; times++) {
    const startedAt = performance.now()
    assert.equal(violations({ type: 'string', minLength: 1, maxLength: 1_000_000 }, text), [])
    took.push(performance.now() - startedAt)
  }
  // A walk takes more than ten milliseconds.
  assert.ok(Math.min(...took) < 1, `${took}`)
})

sound.run()
saying.run()
finding.after(closeAll)
finding.run()
