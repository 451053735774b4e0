// Every guard that `make mutants` takes out is where the list has it: a mutant whose text has moved would prove nothing.
import { readFileSync } from 'node:fs'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type Edit, edited } from '../simulate/guard.ts'
import { guards } from '../simulate/guards.ts'

const listed = suite('the guards of an order’s life')

const sourceOf = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

for (const { name, edits = [], sql = [] } of guards) {
  listed(`has where to take out: ${name}`, () => {
    assert.ok(edits.length + sql.length > 0, 'it takes nothing out')
    for (const edit of edits) assert.is.not(edited(sourceOf(edit.file), edit), sourceOf(edit.file))
  })
}

listed('are held by tests that are there', () => {
  for (const guard of guards) if ('test' in guard) assert.ok(sourceOf(guard.test), guard.test)
})

listed('are named once each', () => {
  assert.is(new Set(guards.map(({ name }) => name)).size, guards.length)
})

listed('are missed when their text is not there, or there twice', () => {
  const gone: Edit = { file: 'worker/platform/loop.ts', from: 'while (!stopped && !finished)', to: '' }
  assert.throws(() => edited(sourceOf(gone.file), gone), 'worker/platform/loop.ts has the text of this guard 0 times')
  const twice: Edit = { file: 'worker/platform/loop.ts', from: 'hinted = ', to: '' }
  assert.throws(() => edited(sourceOf(twice.file), twice), /has the text of this guard [2-9] times/)
})

listed.run()
