// A call of each operation to copy: with curl, and in TypeScript with the client that openapi-typescript and
// openapi-fetch make of the description. Where a trader may act, the sample carries the trader's session.
import type { Schema } from '../../schemas/fields/fields.ts'
import type { Operation } from '../operation.ts'
import { exampleOf } from './schemas.ts'

interface CodeSample {
  lang: string
  label: string
  source: string
}

const WITHOUT_SESSION = 'Without X-Trader-Session this acts as the partner itself.'
const actsAsTrader = ({ auth, actor }: Operation) => auth === 'trader' || actor

/** The samples of an operation, for a service at `baseUrl`. */
export function samplesOf(row: Operation, baseUrl: string): CodeSample[] {
  return [
    { lang: 'Shell', label: 'curl', source: curl(row, baseUrl) },
    { lang: 'TypeScript', label: 'TypeScript', source: typescript(row, baseUrl) }
  ]
}

function given(row: Operation) {
  const params = row.params ? (exampleOf(row.params) as Record<string, string>) : {}
  const fields = Object.entries((row.query?.properties ?? {}) as Record<string, Schema>)
  const required = (row.query?.required ?? []) as string[]
  // Only required parameters, and the size of a page: a filter in an example could hide the rows the reader expects.
  const query = Object.fromEntries(
    fields
      .filter(([name]) => required.includes(name) || name === 'limit')
      .map(([name, field]) => [name, exampleOf(field)])
  )
  return { params, query, body: row.body ? (exampleOf(row.body) as object) : undefined }
}

function curl(row: Operation, baseUrl: string): string {
  const { params, query, body } = given(row)
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const search = new URLSearchParams(query as Record<string, string>).toString()
  const lines = [
    `${row.actor ? `# ${WITHOUT_SESSION}\n` : ''}curl ${row.method === 'GET' ? '' : `-X ${row.method} `}'${baseUrl}${path}${search ? `?${search}` : ''}'`,
    row.auth === 'session' ? `-H "Cookie: service_session=$SERVICE_SESSION"` : `-H "Authorization: Bearer $SERVICE_KEY"`
  ]
  if (actsAsTrader(row)) lines.push('-H "X-Trader-Session: $TRADER_SESSION"')
  if (body) {
    lines.push("-H 'Content-Type: application/json'")
    lines.push(`-d '${JSON.stringify(body, null, 2).replaceAll("'", "'\\''")}'`)
  }
  return lines.join(' \\\n  ')
}

function typescript(row: Operation, baseUrl: string): string {
  const { params, query, body } = given(row)
  const headers =
    row.auth === 'session'
      ? `Cookie: \`service_session=\${process.env.SERVICE_SESSION}\``
      : `Authorization: \`Bearer \${process.env.SERVICE_KEY}\``
  const parameters = {
    ...(Object.keys(params).length > 0 ? { path: params } : {}),
    ...(Object.keys(query).length > 0 ? { query } : {})
  }
  const options = {
    ...(Object.keys(parameters).length > 0 ? { params: parameters } : {}),
    ...(body ? { body } : {})
  }
  const note = row.actor ? `  // ${WITHOUT_SESSION}\n` : ''
  const trader = actsAsTrader(row) ? `${note}  headers: { 'X-Trader-Session': process.env.TRADER_SESSION }` : ''
  const written = Object.entries(options).map(([name, value]) => `  ${name}: ${literal(value, '  ')}`)
  const argument = trader ? `{\n${[...written, trader].join(',\n')}\n}` : written.length > 0 && literal(options)
  return `import createClient from 'openapi-fetch'
import type { paths } from './service.ts'

const service = createClient<paths>({
  baseUrl: '${baseUrl}',
  headers: { ${headers} }
})

const { data, error } = await service.${row.method}('${row.path}'${argument ? `, ${argument}` : ''})
if (error) throw new Error(\`\${error.error}: \${error.message} (\${error.requestId})\`)
console.log(data)`
}

/** A value as a TypeScript literal: bare names, single quotes. */
function literal(value: unknown, indent = ''): string {
  const inner = `${indent}  `
  if (typeof value === 'string')
    return `'${JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
  if (value === null || typeof value !== 'object') return String(value)
  const lines = Array.isArray(value)
    ? value.map(item => inner + literal(item, inner))
    : Object.entries(value).map(
        ([name, field]) => `${inner}${/^[A-Za-z_]\w*$/.test(name) ? name : `'${name}'`}: ${literal(field, inner)}`
      )
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  const flat = `${open}${open === '{' ? ' ' : ''}${lines.map(line => line.trim()).join(', ')}${close === '}' ? ' ' : ''}${close}`
  return flat.length + indent.length < 80 && !flat.includes('\n')
    ? flat
    : `${open}\n${lines.join(',\n')}\n${indent}${close}`
}
