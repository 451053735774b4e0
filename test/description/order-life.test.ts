// The maps of the tree against the tree: rooms list what is in them, and the order's life names statements, guards and tests
// that exist. Walks (.github/walks.md) pass files that lead to each other.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { guards } from '../simulate/guards.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (...path: string[]) => readFileSync(join(root, ...path), 'utf8')

/** The rows of the table that follows a heading, cell by cell. */
function tableAfter(text: string, heading: string): string[][] {
  const part = text.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const lines = part.split('\n').filter(line => line.startsWith('|'))
  return lines.slice(2).map(line => {
    const cells = line.split('|').slice(1, -1)
    return cells.map(cell => cell.trim())
  })
}

/** Each `file` `function`, as the tables name them. */
const statementsIn = (cell: string) =>
  [...cell.matchAll(/`([a-z-]+\.ts)`((?: ?,? ?`\w+`)+)/g)].flatMap(([, file, names = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name]) => ({ file: file as string, name: name as string }))
  )

const life = suite('the README of an order’s life')
const text = read('db/orders/README.md')
const transitions = tableAfter(text, 'States and events')
const invariants = tableAfter(text, 'Invariants')

life('names statements that exist', () => {
  const named = [...transitions.map(cells => cells[3] ?? ''), ...invariants.map(cells => cells[2] ?? '')]
  const statements = named.flatMap(statementsIn)
  assert.ok(statements.length >= transitions.length - 1 + invariants.length)
  for (const { file, name } of statements)
    assert.match(read('db/orders', file), new RegExp(`export (async )?function ${name}\\(`), `${file} ${name}`)
})

life('names every phase that the schema allows, and no other', () => {
  const [, allowed = ''] =
    read('db/schema.sql').match(/orders_phase_check CHECK \(\(phase = ANY \(ARRAY\[(.*?)\]/) ?? []
  const phases = [...allowed.matchAll(/'(\w+)'::text/g)].map(([, phase]) => phase as string)
  assert.ok(phases.length > 0)
  const states = new Set(transitions.flatMap(([state = '']) => state.split(', ')).filter(state => /^\w+$/.test(state)))
  assert.equal([...states].sort(), phases.sort())
})

life('names guards that are taken out, and tests that exist', () => {
  const known = new Map(guards.map(guard => [guard.name, guard]))
  const tests = readdirSync(join(root, 'test'), { recursive: true }).map(file => basename(String(file)))
  for (const [number, , , guard = '', test = ''] of invariants) {
    const taken = known.get(guard)
    assert.ok(taken, `invariant ${number}: no guard is called "${guard}"`)
    if ('test' in taken) assert.is(basename(taken.test), `${test.replaceAll('`', '')}.test.ts`, `invariant ${number}`)
    assert.ok(tests.includes(`${test.replaceAll('`', '')}.test.ts`), `invariant ${number}: no test ${test}`)
  }
})

const rooms = suite('the README of a room')

for (const room of ['schemas', 'db', 'api', 'worker', 'cli', 'test'])
  rooms(`lists all that is in ${room}`, () => {
    const readme = read(room, 'README.md')
    const missing = readdirSync(join(root, room), { withFileTypes: true })
      .filter(
        entry => entry.name !== 'README.md' && (entry.isFile() || readdirSync(join(root, room, entry.name)).length > 0)
      )
      .map(entry => (entry.isDirectory() ? `${entry.name}/` : entry.name))
      .filter(name => !readme.includes(`\`${name}\``))
    assert.equal(missing, [])
  })

const walks = suite('a walk through the code')

/** The files that a file imports, also while it runs. */
const importsOf = (file: string) =>
  [...read(file).matchAll(/'(\.[^']+\.ts)'/g)].map(([, path]) => join(dirname(file), path as string))

for (const [title = '', ...lines] of read('.github/walks.md')
  .split('\n## ')
  .slice(1, -1)
  .map(walk => walk.split('\n')))
  walks(`${title}: enters each file once, by an import or as it says`, () => {
    const passed: string[] = []
    let explained = true
    for (const line of lines) {
      const [, file] = line.match(/^\d+\. `([^`]+)`/) ?? []
      if (file === undefined) explained ||= line !== ''
      else {
        assert.not(passed.includes(file), `${file} is entered twice`)
        assert.ok(explained || passed.some(before => importsOf(before).includes(file)), `nothing leads to ${file}`)
        passed.push(file)
        explained = false
      }
    }
    assert.ok(passed.length > 5)
  })

for (const tests of [life, rooms, walks]) tests.run()
