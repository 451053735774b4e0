// The description: complete, consistent with the rows, every example true to its schema.
import { readFile } from 'node:fs/promises'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { codesOf, ErrorEnvelope } from '../../api/description/errors.ts'
import { describe } from '../../api/description/spec.ts'
import { getSpec, operations } from '../../api/operations.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { errors } from '../../schemas/errors/errors.ts'
import { openValidator } from '../support/openapi.ts'

interface DescribedDocument {
  operationId: string
  summary: string
  description: string
  parameters?: { name: string; description?: string; example?: unknown; schema: object }[]
  requestBody?: { content: Content }
  responses: Record<string, { $ref?: string; content?: Content }>
  'x-codeSamples': { lang: string; source: string }[]
}
type Content = Record<string, { schema: object; example?: unknown; examples?: Record<string, { value: unknown }> }>
type DocumentPart = Record<string, unknown>

const document = describe(operations, 'https://api.example.com') as {
  openapi: string
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, DescribedDocument>>
  components: Record<string, Record<string, DocumentPart>>
}
const { problems } = openValidator(document)
const rows = operations.map(row => ({
  row,
  documented: document.paths[row.path]?.[row.method.toLowerCase()] as DescribedDocument
}))

/** Every schema of the document with its place. */
function* schemasIn(part: unknown, at: string): Generator<[string, DocumentPart]> {
  if (part === null || typeof part !== 'object') return
  if (Array.isArray(part)) {
    for (const [index, item] of part.entries()) yield* schemasIn(item, `${at}/${index}`)
    return
  }
  const { example, examples, ...rest } = part as DocumentPart
  if ('type' in rest || 'const' in rest || 'enum' in rest || 'properties' in rest) yield [at, part as DocumentPart]
  for (const [name, inner] of Object.entries(rest)) yield* schemasIn(inner, `${at}/${name}`)
}

const describing = suite('the description')

describing('is OpenAPI 3.1 and has every operation under its own name, in words', () => {
  assert.is(document.openapi, '3.1.0')
  for (const { row, documented } of rows) {
    assert.is(documented.operationId, row.name)
    assert.ok(documented.summary.length > 5 && documented.description.length > 10, row.name)
  }
  const named = new Set(operations.map(({ name }) => name))
  assert.is(named.size, operations.length)
})

describing('states up to what length a result is inline, and what proxies must bear, as the default is', async () => {
  const seconds = readConfig({ BROKER_URL: 'ws://127.0.0.1:1' }).settleWaitMs / 1000
  assert.is(seconds, 120)
  const placing = rows.find(({ row }) => row.name === 'placeBinaryOrder')?.documented
  assert.match(placing?.description ?? '', `up to about ${seconds - 10} seconds`)
  assert.match(placing?.description ?? '', `proxies on the way must be longer than ${seconds + 20} seconds`)
  const { waitForSettle } = (document.components.schemas?.BinaryOrder?.properties ?? {}) as Record<string, DocumentPart>
  assert.match(String(waitForSettle?.description), `waits for ${seconds} seconds`)
  const guide = await readFile(new URL('../../api/description/guides/going-live.md', import.meta.url), 'utf8')
  for (const said of ['nginx', 'HAProxy', `before ${seconds + 20} seconds`]) assert.match(guide, said)
})

describing('explains each tag', () => {
  for (const { name, description } of document.tags) assert.ok(description.length > 20, name)
  assert.equal(new Set(document.tags.map(({ name }) => name)), new Set(operations.map(({ tag }) => tag)))
})

describing('lists exactly the statuses each operation can return', () => {
  for (const { row, documented } of rows) {
    const statuses = new Set([200, ...codesOf(row).map(code => errors[code].status)].map(String))
    assert.equal(new Set(Object.keys(documented.responses)), statuses, row.name)
  }
})

describing('gives bodies and responses names of their own', () => {
  for (const { row, documented } of rows) {
    if (row === getSpec) continue
    const response = documented.responses['200']?.content?.['application/json']?.schema ?? {}
    assert.ok('$ref' in response, `the response of ${row.name} has no name`)
    const body = documented.requestBody?.content['application/json']?.schema
    if (body) assert.ok('$ref' in body, `the body of ${row.name} has no name`)
  }
})

describing('describes every field and shows an example of it', () => {
  const silent: string[] = []
  for (const [name, component] of Object.entries(document.components.schemas ?? {})) {
    for (const [at, schema] of schemasIn(component, name)) {
      const isField = /\/properties\/[^/]+$/.test(at)
      if (isField && !schema.description) silent.push(`${at} has no description`)
      const isLeaf = !['object', 'array'].includes([schema.type].flat()[0] as string)
      if (isField && isLeaf && schema.examples === undefined) silent.push(`${at} has no example`)
    }
  }
  for (const { row, documented } of rows)
    for (const { name, description, example } of documented.parameters ?? [])
      if (!description || example === undefined) silent.push(`${row.name} ${name}`)
  assert.equal(silent, [])
})

describing('leaves no response open: no field that is not described, but where the shape is not ours', () => {
  const found = [
    ...operations.flatMap(({ name, response }) => [...openIn(response, name)]),
    ...openIn(ErrorEnvelope, 'Error')
  ]
  assert.equal(found, [
    // What partners keep with a record and with a bot, as they gave it.
    'listTradeHistory/data/items/metadata',
    // Numbers under error codes.
    'getActivity/data/items/failedBy',
    // An OpenAPI document: its shape is that standard's.
    'getSpec',
    'getSpec/info',
    'getSpec/paths',
    'listCommunityBots/data/items/config',
    'createCommunityBot/config'
  ])
})

/** Where a schema of a response lets anything in: objects that are not closed, lists of whatever, values of any type. */
function* openIn(schema: DocumentPart, at: string): Generator<string> {
  const { oneOf, items, properties, additionalProperties } = schema as Record<string, never>
  if (oneOf) {
    for (const [index, one] of (oneOf as DocumentPart[]).entries()) yield* openIn(one, `${at}/oneOf/${index}`)
    return
  }
  const types = [schema.type].flat()
  const isOpen =
    !('type' in schema || 'const' in schema || 'enum' in schema) ||
    (types.includes('object') && additionalProperties !== false) ||
    (types.includes('array') && !items)
  if (isOpen) yield at
  for (const [name, field] of Object.entries((properties ?? {}) as Record<string, DocumentPart>))
    yield* openIn(field, `${at}/${name}`)
  if (items) yield* openIn(items, `${at}/items`)
}

describing('shows only examples that match their schemas', () => {
  const wrong: unknown[] = []
  const look = (at: string, schema: object, example: unknown) => {
    const found = problems(schema, example)
    if (found.length > 0) wrong.push({ at, found })
  }
  for (const [name, component] of Object.entries(document.components.schemas ?? {}))
    for (const [at, schema] of schemasIn(component, name))
      for (const example of (schema.examples ?? []) as unknown[]) look(at, schema, example)
  const contents = (at: string, content: Content = {}) => {
    for (const { schema, example, examples = {} } of Object.values(content))
      for (const value of [...(example === undefined ? [] : [example]), ...Object.values(examples).map(e => e.value)])
        look(at, schema, value)
  }
  for (const { row, documented } of rows) {
    contents(`${row.name} body`, documented.requestBody?.content)
    contents(`${row.name} response`, documented.responses['200']?.content)
    for (const { name, schema, example } of documented.parameters ?? []) look(`${row.name} ${name}`, schema, example)
  }
  for (const [name, response] of Object.entries(document.components.responses ?? {}))
    contents(name, response.content as Content)
  const headers = Object.entries(document.components.headers ?? {})
  assert.ok(headers.length > 0)
  for (const [name, { schema, example }] of headers) look(name, schema as object, example)
  assert.equal(wrong, [])
})

describing('shows an example of every code, in every response that can carry it', () => {
  const shown = new Set<string>()
  for (const response of Object.values(document.components.responses ?? {})) {
    const { examples = {} } = (response.content as Content)['application/json'] ?? {}
    for (const code of Object.keys(examples)) shown.add(code)
  }
  // These come before there is an operation.
  const before = ['METHOD_NOT_ALLOWED', 'MALFORMED_REQUEST', 'REQUEST_TIMEOUT', 'HEADERS_TOO_LARGE']
  const everywhere = Object.keys(errors).filter(code => !before.includes(code))
  assert.equal(
    everywhere.filter(code => !shown.has(code)),
    []
  )
})

describing('has a call to copy for every operation, in two languages', () => {
  for (const { row, documented } of rows) {
    assert.equal(
      documented['x-codeSamples'].map(({ lang }) => lang),
      ['Shell', 'TypeScript']
    )
    for (const { source } of documented['x-codeSamples']) {
      const acts = row.auth === 'trader' || row.actor === true
      assert.is(/TRADER_SESSION/.test(source), acts, `${row.name} acts as a trader`)
      assert.is(/Without X-Trader-Session/.test(source), row.actor === true, row.name)
    }
    for (const { source } of documented['x-codeSamples']) assert.not.match(source, /undefined|\[object/, row.name)
  }
})

describing.run()
