// `make client`: writes src/service.ts, the types of the client, from the service's own description. A test compares the file
// with what this makes.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript'
import { describe } from '../description/spec.ts'
import { operations } from '../operations.ts'

export const TYPES_FILE = join(import.meta.dirname, 'src/service.ts')

const BANNER = '// Written by `make client` from the description of the service. Do not edit.\n\n'

interface DescribedApi {
  paths: Record<string, Record<string, DescribedOperation> & { parameters?: unknown }>
  components: { schemas: object }
}
interface DescribedOperation {
  summary: string
  parameters?: { in?: string }[]
  requestBody?: unknown
  responses: Record<string, { description: string; content: Record<string, unknown> }>
}

/** The text of src/service.ts: paths, parameters, bodies, results and records, and nothing that the client does not use. */
export async function clientTypes(): Promise<string> {
  const { paths, components } = structuredClone(describe(operations, 'https://api.example.com')) as DescribedApi
  const document = {
    openapi: '3.1.0',
    info: { title: 'Trading Operator Service', version: '1.0.0' },
    paths: Object.fromEntries(
      Object.entries(paths).map(([path, { parameters, ...methods }]) => [
        path,
        Object.fromEntries(Object.entries(methods).map(([method, row]) => [method, leanOperation(row)]))
      ])
    ),
    components: { schemas: withoutExamples(components.schemas) }
  }
  const ast = await openapiTS(document as unknown as OpenAPI3, { alphabetize: true })
  return BANNER + astToString(ast)
}

/** An operation without its errors, which have one shape, and without header fields, which the client sets. */
function leanOperation({ summary, parameters = [], requestBody, responses }: DescribedOperation): object {
  const ok = responses[200] as DescribedOperation['responses'][string]
  return {
    summary,
    parameters: withoutExamples(parameters.filter(({ in: place }) => place !== 'header')),
    ...(requestBody ? { requestBody: withoutExamples(requestBody) } : {}),
    responses: {
      200: {
        description: ok.description,
        content: { 'application/json': withoutExamples(ok.content['application/json']) }
      }
    }
  }
}

function withoutExamples(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(withoutExamples)
  if (part === null || typeof part !== 'object') return part
  return Object.fromEntries(
    Object.entries(part)
      .filter(([name, value]) => !(name === 'examples' && Array.isArray(value)) && !(name === 'example'))
      .map(([name, value]) => [name, name === 'enum' ? value : withoutExamples(value)])
  )
}

if (import.meta.main) {
  const text = await clientTypes()
  await writeFile(TYPES_FILE, text)
  console.log(`Wrote ${TYPES_FILE}: ${text.split('\n').length} lines.`)
}
