// What the operator's tool prints of texts that partners chose: nothing that steers a terminal or reads backwards.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { print } from '../cli/output.ts'

// Escape and its C1 form, an override of direction, an isolate, a zero-width space, a line separator.
const steering = ['\u001b', '\u009b', '\u202e', '\u2066', '\u200b', '\u2028', '\u061c']
const name = `Acme${steering.join('x')}`

function printed(json: boolean, record: object): string {
  const { write } = process.stdout
  let text = ''
  process.stdout.write = (chunk: string | Uint8Array) => {
    text += String(chunk)
    return true
  }
  try {
    print(record, { json })
  } finally {
    process.stdout.write = write
  }
  return text
}

const output = suite("the operator's tool")

output('prints no control of terminals or of the direction of writing, in a table or in lines', () => {
  for (const record of [{ data: [{ name }] }, { name }, { names: [name] }, { inner: { name } }]) {
    const text = printed(false, record)
    for (const character of steering) assert.not.ok(text.includes(character), JSON.stringify([record, character]))
  }
})

output('escapes them with --json, so that a program reads what was written', () => {
  const text = printed(true, { data: [{ name }] })
  for (const character of steering) assert.not.ok(text.includes(character), JSON.stringify(character))
  assert.equal(JSON.parse(text), { data: [{ name }] })
})

output.run()
