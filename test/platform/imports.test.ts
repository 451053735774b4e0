// Which file imports which, read from the sources: no file imports itself through others, and no room a higher one. Imports
// of types count too, since a reader has to follow them as well.
import { glob, readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'

type Imports = ReadonlyMap<string, readonly string[]>

/** A room may import those before its own rank; api and worker share the database alone. */
const ranks: Record<string, number> = { schemas: 0, db: 1, api: 2, worker: 2, cli: 3, test: 4 }
/** The end of an import or a re-export, which begins a line, and imports while the program runs. */
const IMPORT = /^(?:import\b|export\b|\})[^'\n]*'(\.[^']+\.tsx?)'|\bimport\('(\.[^']+\.tsx?)'\)/gm
/** One that loads the file, which one of types alone does not. */
const LOADING = /^(?:import|export) (?!type\b)(?:\{[^}]*\}|[\w* ]+) from '(\.[^']+\.ts)'/gm
/** What is imported or re-exported (no clause where a whole file is), and from where. */
const IMPORTED = /\b(?:import|export)\b(?:\s+([^'"]*?)\s+from\s+|\()'(\.[^']+\.tsx?)'/g
/** A declaration that is exported. */
const EXPORTED = /^export (?:abstract )?(?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm
/** Names that a file hands on, its own or another's. */
const HANDED_ON = /^export (?:type )?\{([^}]*)\}/gm
const root = normalize(join(import.meta.dirname, '../..'))

const imports = suite('imports')

imports('form no circle', async () => {
  assert.equal(circlesIn(await readImports()), [])
})

imports('point from a room to lower ones only', async () => {
  assert.equal(upwardIn(await readImports()), [])
})

imports(
  'of a process that starts bring neither the migrations nor the simulated broker, which it mostly does without',
  async () => {
    for (const main of ['api/main.ts', 'worker/main.ts']) {
      const loaded = await loadedBy(main)
      assert.ok(loaded.size > 100, `${main} loads ${loaded.size} files`)
      assert.equal(
        [...loaded].filter(path => /^(?:db\/migrations|worker\/simulator)\//.test(path)),
        []
      )
    }
  }
)

imports('are judged by their file names', () => {
  const graph = new Map([
    ['db/a.ts', ['db/b.ts', 'schemas/s.ts']],
    ['db/b.ts', ['db/c.ts']],
    ['db/c.ts', ['db/a.ts', 'worker/w.ts']],
    ['worker/w.ts', ['api/x.ts', 'db/a.ts']],
    ['api/x.ts', ['schemas/s.ts']],
    ['schemas/s.ts', []]
  ])
  assert.equal(circlesIn(graph), ['db/a.ts db/b.ts db/c.ts worker/w.ts'])
  assert.equal(upwardIn(graph), ['db/c.ts imports worker/w.ts', 'worker/w.ts imports api/x.ts'])
})

const comments = suite('comments of the service')

// The guide to contributing has the words that replace these.
const PRIVATE_WORDS =
  /\b(?:tells?|hears?|heard|asked|asking|answers|answering|stands?|stood|says?(?! 'already)|said|speaks?|rests|learns|severed|gather(?:s|ed)|strangers?|mostly|by turns|held against|own words?|version before|(?<!`)anew)\b/i

comments('use the field’s words, not private ones', async () => {
  const found: string[] = []
  for await (const path of glob('{schemas,db,api,worker,cli}/**/*.ts', { cwd: root })) {
    // Made from the description, whose texts are the partners'; and what `npm pack` makes of the client.
    if (path === 'api/client/src/service.ts' || path.startsWith('api/client/dist/')) continue
    const lines = (await readFile(join(root, path), 'utf8')).split('\n')
    for (const [index, line] of lines.entries())
      if (/^\s*(?:\/\/|\/\*|\* )/.test(line) && PRIVATE_WORDS.test(line))
        found.push(`${path}:${index + 1} ${line.trim()}`)
  }
  assert.equal(found, [])
})

const names = suite('names of the service')

names('mean one thing: a type is declared in one file', async () => {
  const declaredIn = new Map<string, string[]>()
  for (const [path, source] of await readSources('{schemas,db,api,worker,cli}'))
    for (const [, name = ''] of source.matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class) ([A-Z]\w*)/gm))
      declaredIn.set(name, [...new Set([...(declaredIn.get(name) ?? []), path])])
  assert.equal(
    [...declaredIn].filter(([, paths]) => paths.length > 1).map(([name, paths]) => `${name}: ${paths.join(' ')}`),
    []
  )
})

names('are exported for another file', async () => {
  const sources = await readSources('{schemas,db,api,worker,cli,test}')
  const imported = new Map<string, Set<string>>()
  for (const [path, source] of sources)
    for (const [, clause = '', from = ''] of source.matchAll(IMPORTED)) {
      const file = normalize(join(dirname(path), from))
      const known = imported.get(file) ?? new Set()
      for (const name of clause.match(/[A-Za-z_]\w*|\*/g) ?? ['*']) known.add(name)
      imported.set(file, known)
    }
  const idle: string[] = []
  for (const [path, source] of sources) {
    for (const [, clause = ''] of source.matchAll(HANDED_ON))
      for (const name of clause.match(/\w+(?=\s*(?:,|$))/g) ?? [])
        if (!imported.get(path)?.has(name)) idle.push(`${path} hands on ${name}`)
    // The description takes the schemas of a file all together.
    if (/^(?:schemas|test|db\/migrations)\//.test(path) || imported.get(path)?.has('*')) continue
    for (const [, name = ''] of source.matchAll(EXPORTED))
      if (!imported.get(path)?.has(name)) idle.push(`${path} exports ${name}`)
  }
  assert.equal(idle, [])
})

/** The text of each source file, without the client for partners, which is a package of its own. */
async function readSources(rooms: string): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for await (const path of glob(`${rooms}/**/*.{ts,tsx}`, { cwd: root }))
    if (!/^api\/client\/(?:src|dist)\//.test(path)) found.set(path, await readFile(join(root, path), 'utf8'))
  return found
}

/** Every source file with the files of ours it imports. */
async function readImports(): Promise<Imports> {
  const found = new Map<string, string[]>()
  for await (const path of glob(`{${Object.keys(ranks)}}/**/*.{ts,tsx}`, { cwd: root })) {
    const source = await readFile(join(root, path), 'utf8')
    found.set(
      path,
      [...source.matchAll(IMPORT)].map(([, from, running]) => normalize(join(dirname(path), from ?? running ?? '')))
    )
  }
  assert.ok(found.get('api/main.ts')?.length, 'no imports were found')
  return found
}

/** The files that are loaded with `main`: those imported, directly or through others, for more than their types. */
async function loadedBy(main: string): Promise<Set<string>> {
  const loaded = new Set([main])
  for (const path of loaded) {
    const source = await readFile(join(root, path), 'utf8')
    for (const [, from = ''] of source.matchAll(LOADING)) loaded.add(normalize(join(dirname(path), from)))
  }
  return loaded
}

/** Groups of files that import each other, directly or through others (Tarjan), each sorted. */
function circlesIn(graph: Imports): string[] {
  const number = new Map<string, number>()
  const lowest = new Map<string, number>()
  const path: string[] = []
  const circles: string[] = []
  const low = (file: string) => lowest.get(file) as number
  const visit = (file: string) => {
    number.set(file, number.size)
    lowest.set(file, number.size - 1)
    path.push(file)
    for (const next of graph.get(file) ?? []) {
      if (!number.has(next)) {
        visit(next)
        lowest.set(file, Math.min(low(file), low(next)))
      } else if (path.includes(next)) lowest.set(file, Math.min(low(file), number.get(next) as number))
    }
    if (low(file) !== number.get(file)) return
    const group = path.splice(path.indexOf(file))
    if (group.length > 1 || graph.get(file)?.includes(file)) circles.push(group.sort().join(' '))
  }
  for (const file of graph.keys()) if (!number.has(file)) visit(file)
  return circles
}

function upwardIn(graph: Imports): string[] {
  const roomOf = (file: string) => file.slice(0, file.indexOf('/'))
  const allowed = (from: string, to: string) => from === to || (ranks[to] ?? Infinity) < (ranks[from] ?? -1)
  return [...graph].flatMap(([file, targets]) =>
    targets.filter(target => !allowed(roomOf(file), roomOf(target))).map(target => `${file} imports ${target}`)
  )
}

for (const tests of [imports, comments, names]) tests.run()
