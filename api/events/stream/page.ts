// The stream's page under /docs: every message with its fields, drawn here from the schemas, so that it needs no script.
import type { Schema } from '../../../schemas/fields/fields.ts'
import { closeCodes, describedFromService, fromClient } from '../../../schemas/stream.ts'
import { exampleOf } from '../../description/schemas.ts'
import { describeStream } from './asyncapi.ts'

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
/** Text of a description: what is between backticks is code. */
const prose = (text: string): string => escaped(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')

/** The page for a stream at `streamUrl`. */
export function streamPage(streamUrl: string): string {
  const { info } = describeStream(streamUrl) as { info: { description: string } }
  const paragraphs = info.description.split('\n\n').map(text => `<p>${prose(text)}</p>`)
  const codes = Object.entries(closeCodes).map(
    ([code, meaning]) => `<tr><td><code>${code}</code></td><td>${prose(meaning)}</td></tr>`
  )
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Trading Operator Service — the stream</title>
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <link rel="icon" href="/docs/icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/docs/page.css" />
  </head>
  <body>
    <main class="stream">
      <h1>The stream</h1>
      <p><code>${escaped(streamUrl)}/v1/stream</code> · <a href="/docs/asyncapi.json">asyncapi.json</a> · <a href="/docs">the reference</a></p>
      ${paragraphs.join('\n      ')}
      <h2>What a client sends</h2>
      ${Object.entries(fromClient).map(messageSection).join('\n      ')}
      <h2>What the service sends</h2>
      ${Object.entries(describedFromService).map(messageSection).join('\n      ')}
      <h2>Close codes</h2>
      <table>${codes.join('')}</table>
    </main>
  </body>
</html>
`
}

function messageSection([type, schema]: [string, Schema]): string {
  const { description, properties, required } = schema as {
    description: string
    properties: Record<string, { description?: string }>
    required: readonly string[]
  }
  const fields = Object.entries(properties)
    .filter(([name]) => name !== 'type')
    .map(([name, field]) => {
      const optional = required.includes(name) ? '' : ' (optional)'
      return `<tr><td><code>${escaped(name)}</code>${optional}</td><td>${prose(field.description ?? '')}</td></tr>`
    })
  const example = escaped(JSON.stringify(exampleOf(schema), null, 2))
  return `<section id="${type}"><h3>${type}</h3><p>${prose(description)}</p><table>${fields.join('')}</table><pre>${example}</pre></section>`
}
