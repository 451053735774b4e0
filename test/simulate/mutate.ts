// Preloaded into a simulation or a test of a mutant, and into the processes that it starts: takes a guard out of the source while
// it is being loaded. A guard that is no longer in the place given ends the process, and so does one whose file the first process
// never loaded.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { type Edit, edited } from './guard.ts'

const edits = JSON.parse(process.env.SIMULATION_EDITS ?? '[]') as Edit[]
const root = new URL('../../', import.meta.url)
const preload = `--import=${import.meta.url}`
const { NODE_OPTIONS = '' } = process.env
const first = !NODE_OPTIONS.includes(preload)
if (first) process.env.NODE_OPTIONS = `${NODE_OPTIONS} ${preload}`
// Before anything is opened: the files themselves may be loaded late.
for (const [file, wanted] of Map.groupBy(edits, edit => edit.file))
  wanted.reduce(edited, readFileSync(new URL(file, root), 'utf8'))
const byUrl = Map.groupBy(edits, ({ file }) => new URL(file, root).href)

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    const wanted = byUrl.get(url)
    if (!wanted) return loaded
    byUrl.delete(url)
    return { ...loaded, source: wanted.reduce(edited, String(loaded.source)) }
  }
})

process.on('exit', () => {
  if (!first || byUrl.size === 0) return
  process.exitCode = 1
  console.error(`never loaded: ${[...byUrl.keys()].join(', ')}`)
})
