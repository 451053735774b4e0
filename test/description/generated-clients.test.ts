// What generators make of the description: with each of two, a call of every operation with its required fields only
// compiles under a strict compiler, and so does every sample of the description.
// test in the full run only
// test time-out: 240 s
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { samplesOf } from '../../api/description/samples.ts'
import { exampleOf } from '../../api/description/schemas.ts'
import { describe } from '../../api/description/spec.ts'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations.ts'
import type { Schema } from '../../schemas/fields/fields.ts'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '../..')
const dir = await mkdtemp(join(tmpdir(), 'operator-test-generated-'))
await symlink(join(root, 'node_modules'), join(dir, 'node_modules'))
await writeFile(join(dir, 'package.json'), '{ "type": "module" }')
await writeFile(join(dir, 'openapi.json'), JSON.stringify(describe(operations, 'https://api.example.com')))

/** A value that has what the schema requires, and no more. */
function least(schema: Schema): unknown {
  const {
    properties,
    required = [],
    items,
    minItems = 0
  } = schema as {
    properties?: Record<string, Schema>
    required?: string[]
    items?: Schema
    minItems?: number
  }
  if (properties) return Object.fromEntries(required.map(name => [name, least(properties[name] as Schema)]))
  if (items) return Array.from({ length: minItems }, () => least(items))
  return exampleOf(schema)
}

const written = (value: unknown) => JSON.stringify(value)
const hasRequired = (schema: Schema | undefined) => ((schema?.required ?? []) as string[]).length > 0

interface Call {
  path?: object
  query?: object
  body?: object
  headers?: object
}

function callOf(row: Operation): Call {
  return {
    ...(row.params ? { path: least(row.params) as object } : {}),
    ...(hasRequired(row.query) ? { query: least(row.query as Schema) as object } : {}),
    ...(hasRequired(row.body) ? { body: least(row.body as Schema) as object } : {})
  }
}

/** Compiles what is in a folder, strictly. */
async function compile(folder: string): Promise<void> {
  const compilerOptions = {
    ...{ target: 'es2024', lib: ['es2024', 'dom', 'dom.iterable'], module: 'esnext', moduleResolution: 'bundler' },
    ...{ types: ['node'], strict: true, noUncheckedIndexedAccess: true },
    ...{ noImplicitReturns: true, verbatimModuleSyntax: true, noEmit: true, skipLibCheck: true },
    allowImportingTsExtensions: true
  }
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const compiler = join(root, 'node_modules/typescript7/bin/tsc')
  await run(process.execPath, [compiler, '-p', folder, '--singleThreaded']).catch((error: { stdout: string }) => {
    throw new Error(error.stdout.slice(0, 3000))
  })
}

const generating = suite('a generated client')

generating('of openapi-typescript takes every call with its required fields only, and every sample', async () => {
  const folder = join(dir, 'openapi-typescript')
  await mkdir(folder)
  const generator = join(root, 'node_modules/openapi-typescript/bin/cli.js')
  await run(process.execPath, [generator, join(dir, 'openapi.json'), '--output', join(folder, 'service.ts')])
  const calls = operations.map(row => {
    const { path, query, body } = callOf(row)
    const params = path || query ? { params: { ...(path ? { path } : {}), ...(query ? { query } : {}) } } : {}
    const options = { ...params, ...(body ? { body } : {}) }
    return `await service.${row.method}('${row.path}'${Object.keys(options).length > 0 ? `, ${written(options)}` : ''})`
  })
  await writeFile(
    join(folder, 'calls.ts'),
    `import createClient from 'openapi-fetch'\nimport type { paths } from './service.ts'\n\nconst service = createClient<paths>({ baseUrl: 'https://api.example.com' })\n${calls.join('\n')}\n`
  )
  const samples = operations.flatMap(row => samplesOf(row, 'https://api.example.com'))
  const shown = samples.filter(({ lang }) => lang === 'TypeScript')
  assert.ok(shown.length >= 60)
  for (const [index, { source }] of shown.entries()) await writeFile(join(folder, `sample-${index}.ts`), source)
  await compile(folder)
})

generating('of @hey-api/openapi-ts takes every call with its required fields only', async () => {
  const folder = join(dir, 'hey-api')
  await mkdir(folder)
  const generator = join(root, 'node_modules/@hey-api/openapi-ts/bin/run.js')
  const output = join(folder, 'client')
  await run(process.execPath, [generator, '-i', join(dir, 'openapi.json'), '-o', output, '--silent', '--no-log-file'])
  const calls = operations.map(row => {
    const options = callOf(row)
    return `await service.${row.name}(${Object.keys(options).length > 0 ? written(options) : ''})`
  })
  await writeFile(join(folder, 'calls.ts'), `import * as service from './client/sdk.gen.js'\n\n${calls.join('\n')}\n`)
  await compile(folder)
})

const describing = suite('the description')

describing('has no default on a field of a body: it would be taken for one that must be sent', () => {
  const { components } = describe(operations, 'https://api.example.com') as { components: { schemas: object } }
  const defaults = JSON.stringify(components.schemas).match(/"default":/g)
  assert.is(defaults, null)
  assert.match(JSON.stringify(components.schemas), 'Default: 100.')
})

generating.run()
describing.after(() => rm(dir, { recursive: true, force: true }))
describing.run()
