// For machines that read: /llms.txt names every guide as Markdown, every operation, and the descriptions.
import type { Operation } from '../operation.ts'
import { chapters, guide, tags } from './guides.ts'

const SUMMARY =
  'Headless trading infrastructure: place binary, digit and multiplier contracts with a broker on behalf of your traders over one REST API.'

/** The address of a guide's Markdown, from the root of the service. */
export const markdownPath = (name: string): string => `/docs/guides/${name}.md`

/** The text of /llms.txt (llmstxt.org) of a service at `baseUrl`. */
export function llmsText(baseUrl: string, operations: Operation[]): string {
  const guides = chapters.map(name => {
    const text = guide(name, baseUrl, operations)
    const title = /^# (.+)$/m.exec(text)?.[1] ?? 'Overview'
    return `- [${title}](${baseUrl}${markdownPath(name)}): ${firstSentence(text)}`
  })
  const used = new Set<string>(operations.map(({ tag }) => tag))
  const groups = Object.keys(tags)
    .filter(tag => used.has(tag))
    .map(tag => {
      const rows = operations.filter(row => row.tag === tag)
      const lines = rows.map(({ method, path, summary }) => `- \`${method} ${path}\`: ${summary}`)
      return `### ${tag}\n\n${lines.join('\n')}`
    })
  return `# Trading Operator Service

> ${SUMMARY}

Requests go to ${baseUrl} with \`Authorization: Bearer\` and a key, which must never reach a browser. Decide by the code in
\`error\`, never by the message. Give every order a new \`clientOrderId\` and repeat under it: it never buys twice.

## Guides

${guides.join('\n')}

## Descriptions

- [OpenAPI 3.1](${baseUrl}/docs/openapi.json): every operation, its schemas and errors
- [AsyncAPI 3.0](${baseUrl}/docs/asyncapi.json): the WebSocket stream of events and prices
- [Status](${baseUrl}/status): whether the parts of this service work now

## Operations

${groups.join('\n\n')}
`
}

/** The beginning of a guide, without Markdown. */
function firstSentence(text: string): string {
  const paragraph = text.split('\n\n').find(each => !each.startsWith('#') && !each.startsWith('|')) ?? ''
  const words = paragraph.replaceAll(/\s+/g, ' ').replaceAll(/[`*]|\[([^\]]+)\]\([^)]*\)/g, '$1')
  return (/^.*?[.:](?= |$)/.exec(words)?.[0] ?? words).replace(/:$/, '.')
}
