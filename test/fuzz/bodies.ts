// The hostile classes about the bytes of a body: what is written of a good one's text.
import fc from 'fast-check'
import { amplified } from '../support/amplified.ts'
import type { FuzzKind } from './kinds.ts'
import type { RawRequest } from './raw-request.ts'
import { credentials, type FuzzCase, inputsFor, rawRequestOf } from './requests.ts'

const refused = (...only: number[]) => ({ check: 'negative_data_rejection', only })

/** A class of bodies made of the text of a good one. */
function rewritten(
  kind: string,
  rewrite: (text: string, pick: number) => { body: Buffer; headers?: Record<string, string>; only?: number[] }
): FuzzKind {
  return (operation, scene) => {
    if (!operation.body) return null
    return fc.tuple(inputsFor(operation, scene), fc.nat(100_000)).map(([input, pick]): FuzzCase => {
      const raw = rawRequestOf(operation, input, credentials(operation, scene))
      const { body, headers = {}, only } = rewrite(raw.body?.toString() ?? '{}', pick)
      const sent: RawRequest = { ...raw, body, headers: { ...raw.headers, ...headers } }
      return { operation, kind, raw: sent, ...(only ? { expected: refused(...only) } : {}) }
    })
  }
}

export const duplicateKeys = rewritten('duplicate-keys', (text, pick) => {
  const fields = Object.entries(JSON.parse(text) as object)
  const [name, value] = fields[pick % Math.max(1, fields.length)] ?? ['a', 1]
  const again = pick % 2 === 0 ? JSON.stringify(value) : '"another"'
  const comma = fields.length > 0 ? ',' : ''
  return { body: Buffer.from(`${text.slice(0, -1)}${comma}${JSON.stringify(name)}:${again}}`) }
})

export const nesting = rewritten('deep-nesting', (text, pick) => {
  const depth = [30, 500, 5000, 100_000, 500_000][pick % 5] as number
  const deep =
    pick % 2 === 0 ? '['.repeat(depth) + ']'.repeat(depth) : `${'{"a":'.repeat(depth / 5)}1${'}'.repeat(depth / 5)}`
  if (pick % 7 === 0) return { body: Buffer.from(deep), ...(deep.startsWith('[') ? { only: [400, 413] } : {}) }
  const name = ['metadata', 'config', 'unheardOf', 'accounts'][pick % 4] as string
  const comma = text === '{}' ? '' : ','
  return { body: Buffer.from(`${text.slice(0, -1)}${comma}"${name}":${deep}}`) }
})

export const charsets = rewritten('wrong-charset', (text, pick) => {
  const type = (value: string) => ({ 'content-type': value })
  const options = [
    { headers: type('application/json; charset=utf-16'), body: Buffer.from(text, 'utf16le'), only: [415] },
    { headers: type('application/json; charset=iso-8859-1'), body: Buffer.from(text, 'latin1'), only: [415] },
    { headers: type('text/plain'), body: Buffer.from(text), only: [415] },
    { headers: type('application/x-www-form-urlencoded'), body: Buffer.from('a=b'), only: [415] },
    { headers: type('multipart/form-data; boundary=x'), body: Buffer.from('--x--'), only: [415] },
    { headers: type(';;;'), body: Buffer.from(text), only: [415] },
    { headers: { 'content-encoding': 'gzip' }, body: Buffer.from(text), only: [415] },
    { body: Buffer.from(text, 'utf16le'), only: [400] },
    {
      body: Buffer.concat([
        Buffer.from(`${text.slice(0, -1)}${text === '{}' ? '' : ','}"a":"`),
        Buffer.from([0xc3, 0x28, 0xff]),
        Buffer.from('"}')
      ]),
      only: [400]
    },
    { headers: type('APPLICATION/JSON; Charset="UTF-8"'), body: Buffer.from(text) }
  ]
  return options[pick % options.length] as (typeof options)[number]
})

export const amplification: FuzzKind = (operation, scene) => {
  const { body, bodyLimit } = operation
  if (!body || bodyLimit === undefined) return null
  const { resolve } = scene.description
  const all = [...amplified(body, bodyLimit, resolve)]
  // A body that requires nothing may be good but for a field that is ignored.
  const refusable = (resolve(body).required as unknown[] | undefined) !== undefined
  return fc.tuple(inputsFor(operation, scene), fc.constantFrom(...all)).map(([input, { text }]): FuzzCase => {
    const raw = { ...rawRequestOf(operation, { ...input, body: {} }, credentials(operation, scene)) }
    return {
      operation,
      kind: 'amplification',
      raw: { ...raw, body: Buffer.from(text()) },
      ...(refusable ? { expected: refused(400, 413) } : {})
    }
  })
}

export const unreadable = rewritten('unreadable', (text, pick) => {
  const whole = [
    `${text}}`,
    'null',
    '[]',
    '"text"',
    '7',
    'true',
    '{"a":NaN}',
    "{'a':1}",
    '{"a":1,}',
    '\u0000',
    '{"__proto__":{"a":1}}'
  ]
  const cut = Buffer.from(text).subarray(0, pick % Math.max(1, text.length))
  // Cut to nothing it is no body at all.
  if (pick % 3 === 0 && cut.length > 0) return { body: cut, only: [400] }
  return { body: Buffer.from(whole[pick % whole.length] as string), only: [400] }
})
