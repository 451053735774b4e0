// What a body within its limit may cost: milliseconds of the event loop to refuse it, and no memory afterwards.
// test in the full run only
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createCommunityBot } from '../../api/community/bots.ts'
import { exampleOf } from '../../api/description/schemas.ts'
import { createCreatorBot } from '../../api/marketplace/creator.ts'
import { operations } from '../../api/operations.ts'
import { parse } from '../../api/request/body.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { collectTrade } from '../../api/traders/trades.ts'
import { check, violations } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import { bodyLimit, countValues, MAX_BODY_BYTES } from '../../schemas/fields/sizes.ts'
import { amplified } from '../support/amplified.ts'
import { closeAll, openHarness } from '../support/harness.ts'

const harness = await openHarness()
const partner = await harness.makePartner()
const withBody = operations.filter(({ body }) => body)

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Milliseconds of CPU the loop spends on parsing and checking a text: the least of several tries, since others use the cores too. */
function heldMs(schema: Schema, text: string): number {
  let least = Number.POSITIVE_INFINITY
  for (let attempt = 0; attempt < 5 && least > 15; attempt++) {
    const startedAt = process.threadCpuUsage()
    try {
      const bytes = Buffer.from(text)
      if (countValues()(bytes) === undefined) check(schema, parse(bytes), '/body')
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      assert.ok(JSON.stringify(error.extras).length < 20_000, 'the response is small')
    }
    const { user, system } = process.threadCpuUsage(startedAt)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

const amplification = suite('bodies at their limit')

amplification('have a limit of their own on every operation, from 64 KiB to 1 MiB', () => {
  for (const { name, body } of withBody) {
    const limit = bodyLimit(body as Schema)
    assert.ok(limit >= 65_536 && limit <= MAX_BODY_BYTES, `${name} ${limit}`)
  }
  assert.is(bodyLimit(createCreatorBot.body as Schema), MAX_BODY_BYTES)
})

amplification('are refused with 413 and the limit one byte above it', async () => {
  for (const row of withBody.filter(({ auth }) => auth === 'key')) {
    const limit = bodyLimit(row.body as Schema)
    const params = Object.fromEntries(
      [...row.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name as string, 'nothing'])
    )
    const body = `{"unheardOf":"${'x'.repeat(limit - 16)}"}`
    const response = await partner.call(row, { body: `${body} `, params })
    assert.equal([response.status, response.body.error], [413, 'PAYLOAD_TOO_LARGE'], row.name)
    assert.match(response.body.message, String(limit))
    const fits = await partner.call(row, { body, params })
    assert.is.not(fits.status, 413, row.name)
  }
})

/** How a client may write JSON: in ASCII alone or not, and on how many columns. */
const writings = ['', ' ', '  ', '    ', '\t', ' '.repeat(8)].flatMap(indent => [
  { indent, escaped: false },
  { indent, escaped: true }
])

const inAscii = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

// Most strings are in several bodies, and all of them in each way to write one.
const escapedStrings = new Map<string, string>()

/** What is made here has neither quotes nor backslashes in its strings. */
function escapeAll(string: string): string {
  const known = escapedStrings.get(string)
  if (known) return known
  const escaped = `"${string.slice(1, -1).replaceAll(/[\s\S]/g, inAscii)}"`
  escapedStrings.set(string, escaped)
  return escaped
}

/** A JSON text with every character of its strings and names escaped, where that is wanted. */
function written(value: unknown, { indent, escaped }: (typeof writings)[number]): string {
  const text = JSON.stringify(value, null, indent)
  return escaped ? text.replaceAll(/"[^"]*"/g, escapeAll) : text
}

// A free-form object as large as it may be: 16 KiB of the least values, as deep as they may be.
const FREE_FORM = (() => {
  let value: unknown = Array.from({ length: 8140 }, () => 0)
  for (let depth = 2; depth < 20; depth++) value = [value]
  return { a: value }
})()

/** The largest value of a schema: each list full, each text as long as it may be, of the characters that take most bytes. */
function largestOf(schema: Schema): unknown {
  const {
    type,
    properties,
    items,
    enum: values,
    maxItems,
    maxLength,
    examples,
    minimum
  } = schema as {
    type?: string | string[]
    properties?: Record<string, Schema>
    items?: Schema
    enum?: unknown[]
    maxItems?: number
    maxLength?: number
    examples?: unknown[]
    minimum?: number
  }
  const types = [type].flat()
  if (values) return [...values].sort((a, b) => String(b).length - String(a).length)[0]
  if (types.includes('object'))
    return properties
      ? Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, largestOf(inner)]))
      : FREE_FORM
  if (types.includes('array')) {
    // Each value of a list of names once.
    const among = (items as { enum?: unknown[] }).enum
    return among?.slice(0, maxItems) ?? Array.from({ length: maxItems as number }, () => largestOf(items as Schema))
  }
  if (types.includes('string')) {
    const fits = (text: string) => violations(schema, text).length === 0
    const example = String(examples?.[0] ?? '')
    const candidates = [
      ...['😀', 'é', 'a', '0'].map(character => character.repeat(maxLength ?? 0)),
      example + (example.at(-1) ?? '').repeat(Math.max(0, (maxLength ?? 0) - example.length)),
      example
    ]
    return candidates.find(fits) ?? example
  }
  // As many digits as a number of JavaScript has.
  if (types.includes('number')) return (minimum ?? 1) + 0.123456789012345
  return examples?.[0] ?? true
}

amplification('take every body that the schema allows, however it is written, up to 1 MiB', async () => {
  const most = new Map<string, number>()
  for (const { name, body } of withBody) {
    const schema = body as Schema
    const largest = largestOf(schema)
    assert.equal(violations(schema, structuredClone(largest)), [], name)
    for (const writing of writings) {
      const text = written(largest, writing)
      assert.equal(parse(Buffer.from(text)), largest, name)
      const bytes = Buffer.byteLength(text)
      if (bytes > MAX_BODY_BYTES) continue
      most.set(name, Math.max(bytes, most.get(name) ?? 0))
      const about = `${name}: ${bytes} bytes, ${JSON.stringify(writing)}`
      assert.ok(bytes <= bodyLimit(schema), `${about} are more than its limit of ${bodyLimit(schema)}`)
      assert.is(countValues()(Buffer.from(text)), undefined, about)
    }
  }
  if (process.env.TEST_LOG) console.log(most)
  // Those with a free-form field are taken, not only not refused.
  for (const [row, body] of [
    [collectTrade, { ...(exampleOf(collectTrade.body as Schema) as object), metadata: FREE_FORM }],
    [createCommunityBot, { name: 'large', config: FREE_FORM }]
  ] as const) {
    const { status, body: refused } = await partner.call(row, { body: JSON.stringify(body, null, 4) })
    assert.is(status, 200, `${row.name} ${JSON.stringify(refused)}`)
  }
})

amplification('bound every string and array in every schema of a body', () => {
  const unbounded: string[] = []
  const walk = (schema: Schema, at: string) => {
    const { type, items, properties, maxLength, maxItems } = schema as Record<string, never>
    const fixed = schema.enum ?? schema.const ?? schema.format
    if ([type].flat().includes('string' as never) && maxLength === undefined && !fixed) unbounded.push(at)
    if (type === 'array' && maxItems === undefined) unbounded.push(at)
    if (items) walk(items, `${at}/0`)
    for (const [name, inner] of Object.entries((properties ?? {}) as Record<string, Schema>))
      walk(inner, `${at}/${name}`)
  }
  for (const { name, body } of withBody) walk(body as Schema, name)
  assert.equal(unbounded, [])
})

amplification('hold the event loop for less than 30 ms, whatever their shape', () => {
  let slowest = { ms: 0, what: '' }
  for (const { name, body } of withBody) {
    const schema = body as Schema
    for (const { what, text } of amplified(schema, bodyLimit(schema))) {
      const ms = heldMs(schema, text())
      if (ms > slowest.ms) slowest = { ms, what: `${name}: ${what}` }
      assert.ok(ms < 30, `${name}: ${what} took ${ms.toFixed(1)} ms`)
    }
  }
  if (process.env.TEST_LOG) console.log(slowest)
})

amplification('leave no memory behind: thirty of a million empty accounts', async () => {
  const text = `{"traderExternalId":"x","accounts":[${Array.from({ length: 349_000 }, () => '{}').join()}]}`
  const send = async () => {
    const { status, body } = await partner.call(exchangeTokens, { body: text })
    assert.is(status, 400)
    assert.ok(body.details.length <= 20)
  }
  await send()
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < 30; index++) await send()
  collectGarbage()
  const grownMb = (process.memoryUsage().heapUsed - before) / 2 ** 20
  assert.ok(grownMb < 20, `the heap grew by ${grownMb.toFixed(1)} MB`)
})

amplification('of fewer values are refused with at most 20 details and a count of all violations', async () => {
  const accounts = Array.from({ length: 20 }, () => ({}))
  const many = await partner.call(exchangeTokens, { body: { traderExternalId: 'x', accounts } })
  assert.equal([many.status, many.body.details.length, many.body.violations], [400, 20, 60])
  const unknown = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`field${index}`, 0]))
  const { updateCommunityProfile } = await import('../../api/community/community.ts')
  const profile = await partner.call(updateCommunityProfile, { body: unknown })
  assert.equal([profile.status, profile.body.details.length, profile.body.violations], [400, 20, 1000])
  const one = await partner.call(exchangeTokens, { body: { traderExternalId: 'x' } })
  assert.equal([one.body.details.length, one.body.violations], [1, 1])
})

amplification('name the section of the reference that explains the error', async () => {
  const { body } = await partner.call(exchangeTokens, { body: {} })
  assert.is(body.docs, `${harness.services.config.baseUrl}/docs#/section/errors/validation_failed`)
})

amplification.after(closeAll)
amplification.run()
