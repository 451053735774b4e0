// What the operator's tool prints of texts that partners chose: nothing that steers a terminal or reads backwards.
import { mkdirSync, readFileSync } from 'node:fs'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { clean, widthOf, wrap } from '../../cli/console/text.ts'
import { print } from '../../cli/terminal/output.ts'
import { endingOf } from '../../cli/terminal/refusals.ts'

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
    print(record, { format: json ? 'json' : 'text' })
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

output('of the console shows no such control, and breaks what it confirms by the columns that it takes', () => {
  assert.is(clean(name), `Acme${steering.map(() => '�').join('x')}`)
  const question = `Suspend ${'株式会社'.repeat(12)} 🏦🏦🏦, which has 12.00 USD? [y/n]`
  const lines = wrap(question, 40, 4)
  assert.equal(
    lines.map(line => widthOf(line) <= 40),
    lines.map(() => true)
  )
  assert.is(lines.join('').replaceAll(' ', ''), question.replaceAll(' ', ''))
})

output('gives each field of an inner object, and of the objects of a list, a line of its own', () => {
  const record = {
    name: 'Acme',
    limits: { perKey: 60, perTrader: null },
    tags: ['a', 'b'],
    apps: [{ id: 1 }],
    none: {}
  }
  assert.equal(
    printed(false, record)
      .split('\n')
      .map(line => line.split(/ {2,}/)),
    [
      ['name', 'Acme'],
      ['limits.perKey', '60'],
      ['limits.perTrader', '–'],
      ['tags', 'a b'],
      ['apps.1.id', '1'],
      ['none', '–'],
      ['']
    ]
  )
})

output('escapes them with --json, so that a program reads what was written', () => {
  const text = printed(true, { data: [{ name }] })
  for (const character of steering) assert.not.ok(text.includes(character), JSON.stringify(character))
  assert.equal(JSON.parse(text), { data: [{ name }] })
})

output('prints an unexpected error in words, with the path it is about, and no statement', () => {
  const thrownBy = (run: () => unknown) => {
    try {
      run()
    } catch (error) {
      return error
    }
  }
  const refused = Object.assign(new AggregateError([]), {
    errors: [
      Object.assign(new Error('connect'), {
        code: 'ECONNREFUSED',
        errno: -111,
        syscall: 'connect',
        address: '::1',
        port: 9
      })
    ]
  })
  const table: [unknown, string][] = [
    [thrownBy(() => readFileSync('/nowhere/a')), 'Cannot open /nowhere/a: no such file or directory (ENOENT)'],
    [thrownBy(() => mkdirSync('package.json')), 'Cannot make the directory package.json: file already exists (EEXIST)'],
    [refused, 'Cannot connect to [::1]:9: connection refused (ECONNREFUSED)'],
    [new TypeError('a is not a function'), 'INTERNAL: a is not a function'],
    [Object.assign(new Error("It's gone\nat once"), { code: 'E_GONE' }), "INTERNAL: It's gone at once (E_GONE)"],
    [
      Object.assign(new Error('select $1 - relation "x" does not exist'), { code: '42P01' }),
      'INTERNAL: relation "x" does not exist (42P01)'
    ],
    [new Error(''), 'INTERNAL: Error']
  ]
  for (const [error, line] of table) assert.equal(endingOf(error), { exitCode: 1, line })
})

output.run()
