// The test runner run on small files made for it: what it lets pass, and what it must not.
// test in the full run only
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { runningEmbedded } from '../../db/embedded.ts'
import { runFile } from '../run-file.ts'
import { SharedProcesses } from '../shared-files.ts'
import { stretched } from '../support/busy.ts'
import { until } from '../support/until.ts'

const runner = fileURLToPath(new URL('../run.ts', import.meta.url))
const uvu = `import { suite, test } from '${import.meta.resolve('uvu')}'\n`
const own = '// test in a process of its own\n'
// Spelled apart, or the runner would find it here.
const only = ['on', 'ly'].join('')
const never = ['.ru', 'n()'].join('')

const refusing = suite('npm test: a file that cannot fail')

refusing('is refused when it never runs its tests', async () => {
  const { code, last, out } = await run({ 'a.test.ts': `${uvu}test('x', () => {})` })
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
  assert.match(out, `never calls ${never}`)
})

refusing('is refused when one of its suites is never run', async () => {
  const { code, out } = await run({
    'a.test.ts': `${uvu}const first = suite('first')\nconst second = suite('second')\nfirst('x', () => {})\nfirst.run()`
  })
  assert.is(code, 1)
  assert.match(out, `never calls second${never}`)
})

refusing('is refused when it leaves tests out with only', async () => {
  const { code, out } = await run({ 'a.test.ts': `${uvu}test.${only}('x', () => {})\ntest.run()` })
  assert.is(code, 1)
  assert.match(out, `.${only}(`)
})

refusing('fails when it holds no test', async () => {
  const { code, last, out } = await run({ 'a.test.ts': `${uvu}test.run()` })
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
  assert.match(out, 'ran no test')
})

refusing('fails when a setup hook throws, which uvu calls a success', async () => {
  const { code, last } = await run({
    'a.test.ts': `${uvu}test.before(() => { throw new Error('no') })\ntest('x', () => {})\ntest.run()`
  })
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
})

refusing('fails when a hook after a test throws', async () => {
  const { code } = await run({
    'a.test.ts': `${uvu}test.after.each(() => { throw new Error('no') })\ntest('x', () => {})\ntest.run()`
  })
  assert.is(code, 1)
})

refusing('fails when its tests start before a later suite exists', async () => {
  const { code, out } = await run({
    'a.test.ts': `${own}${uvu}const a = suite('a')\na('x', () => {})\na.run()\nawait new Promise(done => setTimeout(done, 50))\nconst b = suite('b')\nb('y', () => {})\nb.run()`
  })
  assert.is(code, 1)
  assert.match(out, 'twice')
})

refusing.run()

const failing = suite('npm test: a file that fails')

failing('is shown in full and counted test by test, beside one that passes', async () => {
  const { code, last, out } = await run({
    'bad.test.ts': `${uvu}test('holds', () => {})\ntest('breaks', () => { throw new Error('the reason') })\ntest.run()`,
    'good.test.ts': `${uvu}test('holds', () => {})\ntest('holds too', () => {})\ntest.run()`
  })
  assert.is(code, 1)
  assert.is(last, '3 passed, 1 failed')
  assert.match(out, 'the reason')
  assert.match(out, /Failed: .*bad\.test\.ts/)
})

failing('counts as one failure when it crashes before its tests', async () => {
  const { code, last, out } = await run({ 'a.test.ts': `${uvu}throw new Error('on import')\ntest.run()` })
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
  assert.match(out, 'on import')
})

failing('counts as a failure when it ends badly after its tests passed', async () => {
  const { code, last } = await run({
    'a.test.ts': `${own}${uvu}test('x', () => {})\ntest.run()\nprocess.on('exit', () => { process.exitCode = 3 })`
  })
  assert.is(code, 1)
  assert.is(last, '1 passed, 1 failed')
})

failing('is ended at its time limit together with what it started', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'operator-fixture-'))
  const pidPath = join(dir, 'pid')
  const timeout = timeoutSeconds()
  const { code, last, out } = await run(
    {
      'a.test.ts': `${uvu}import { spawn } from 'node:child_process'\nimport { writeFileSync } from 'node:fs'
test('hangs', async () => {
  const child = spawn('sleep', ['60'])
  writeFileSync('${pidPath}', String(child.pid))
  await new Promise(() => setInterval(() => {}, 1000))
})\ntest.run()`
    },
    ['--timeout', String(timeout)]
  )
  const pid = Number(await readFile(pidPath, 'utf8'))
  await rm(dir, { recursive: true })
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
  assert.match(out, `still running after ${timeout} s`)
  assert.match(out, `process ${pid}: sleep 60`)
  await until('the child to be gone', () => !lives(pid))
})

failing('is one of the run as well when what runs beside the files fails, and then alone is shown', async () => {
  const files = { 'a.test.ts': `${uvu}test('x', () => {})\ntest.run()` }
  const [bad, good] = await Promise.all([
    run(files, ['--beside', 'echo the reason; exit 3']),
    run(files, ['--beside', 'echo all is well'])
  ])
  assert.is(bad.code, 1)
  assert.is(bad.last, '1 passed, 1 failed')
  assert.match(bad.out, /the reason\n\n✘ echo the reason; exit 3/)
  assert.is(good.code, 0)
  assert.is(good.last, '1 passed, 0 failed')
  assert.not.match(good.out, /^all is well/m)
})

failing('ends the whole run with an error when no file matches', async () => {
  const { code, last, out } = await run({ 'a.test.ts': `${uvu}test('x', () => {})\ntest.run()` }, ['nothing-like-it'])
  assert.is(code, 1)
  assert.is(last, '0 passed, 1 failed')
  assert.match(out, 'No test file matches nothing-like-it')
})

failing.run()

const sharing = suite('npm test: files that share a process')

const pid = (name: string) => `console.log('${name} in ' + process.pid)\n`
const pidsOf = (out: string) => [...out.matchAll(/(\w) in (\d+)/g)].map(([, name, pid]) => `${name} ${pid}`)

sharing('are judged one by one, with their own output, exit codes and counts', async () => {
  const { last, out } = await run(
    {
      'a.test.ts': `${pid('a')}${uvu}test('x', () => {})\ntest('y', () => {})\ntest.run()`,
      'b.test.ts': `${pid('b')}${uvu}test('x', () => { throw new Error('the reason') })\ntest.run()`,
      'c.test.ts': `${own}${pid('c')}${uvu}test('x', () => {})\ntest.run()`
    },
    ['--verbose'],
    { TEST_CONCURRENCY: '1' }
  )
  assert.is(last, '3 passed, 1 failed')
  const [a, b, c] = pidsOf(out).map(line => line.slice(2))
  assert.is(a, b)
  assert.is.not(b, c)
  // The output of a file is before its line.
  const places = [
    /a in/,
    /✔ \S*a\.test\.ts {2}2 passed/,
    /b in/,
    /the reason/,
    /✘ \S*b\.test\.ts {2}0 passed, 1 failed/
  ]
  const found = places.map(place => out.search(place))
  assert.equal(
    found,
    found.toSorted((a, b) => a - b)
  )
  assert.not.ok(found.includes(-1))
})

sharing('go on in a new process behind one that ended theirs, took too long or failed', async () => {
  const timeout = timeoutSeconds()
  const { last, out } = await run(
    {
      'a.test.ts': `${pid('a')}${uvu}test('x', () => process.exit(0))\ntest.run()`,
      'b.test.ts': `${pid('b')}${uvu}test('x', () => new Promise(() => {}))\ntest.run()`,
      'c.test.ts': `${pid('c')}${uvu}test('x', () => { throw new Error('no') })\ntest.run()`,
      'd.test.ts': `${pid('d')}${uvu}test('x', () => {})\ntest.run()`
    },
    ['--verbose', '--timeout', String(timeout)],
    { TEST_CONCURRENCY: '1' }
  )
  assert.is(last, '1 passed, 3 failed')
  assert.is(new Set(pidsOf(out).map(line => line.slice(2))).size, 4)
  assert.match(out, `b.test.ts was still running after ${timeout} s`)
})

sharing('do not fail for what a file left open that failed itself, and ran again', async () => {
  const marker = join(tmpdir(), `failed-once-${process.pid}`)
  const { code, last, out } = await run(
    {
      'a.test.ts': `${uvu}import { existsSync, writeFileSync } from 'node:fs'
test('fails once', () => {
  if (existsSync(${JSON.stringify(marker)})) return
  writeFileSync(${JSON.stringify(marker)}, '')
  setInterval(() => {}, 1000)
  throw new Error('first')
})
test.run()`,
      'b.test.ts': `${uvu}test('passes', () => {})\ntest.run()`
    },
    ['--again']
  ).finally(() => rm(marker, { force: true }))
  assert.is(code, 0, out)
  assert.is(last, '2 passed, 0 failed')
})

sharing('take a process that is free before another is started', async () => {
  const names = ['a', 'b', 'c']
  const dir = await fixtures(
    Object.fromEntries(names.map(name => [`${name}.test.ts`, `${pid(name)}${uvu}test('x', () => {})\ntest.run()`]))
  )
  const shared = new SharedProcesses()
  const { signal } = new AbortController()
  const options = { env: process.env, timeoutMs: 60_000, signal, shared }
  const pidOf = async (name: string) => {
    const { output } = await runFile(join(dir, `${name}.test.ts`), options)
    return pidsOf(output)[0]?.slice(2)
  }
  const beside = await Promise.all([pidOf('a'), pidOf('b')])
  assert.is(new Set(beside).size, 2)
  assert.ok(beside.includes(await pidOf('c')))
  assert.equal(await shared.close(), [])
  await rm(dir, { recursive: true })
})

sharing('fail together when one of them leaves something open', async () => {
  const { code, last, out } = await run(
    {
      'a.test.ts': `${uvu}import { createServer } from 'node:net'\ncreateServer().listen(0)\ntest('x', () => {})\ntest.run()`,
      'b.test.ts': `${uvu}test('x', () => {})\ntest.run()`
    },
    [],
    { TEST_CONCURRENCY: '1' }
  )
  assert.is(code, 1)
  assert.is(last, '2 passed, 1 failed')
  assert.match(out, /did not end within \d+ s after \S*a\.test\.ts, \S*b\.test\.ts:[\s\S]*server at/)
})

sharing.run()

const passing = suite('npm test: files that pass')

passing('ends with one line of counts and exit code 0', async () => {
  const { code, last } = await run({
    'a.test.ts': `${uvu}test('x', () => {})\ntest.run()`,
    'b.test.ts': `${uvu}test('x', () => {})\ntest('y', () => {})\ntest.run()`
  })
  assert.is(last, '3 passed, 0 failed')
  assert.is(code, 0)
})

passing('may run its suites in a loop over all of them', async () => {
  const suites = `const a = suite('a')\nconst b = suite('b')\na('x', () => {})\nb('y', () => {})`
  const { last } = await run({
    'a.test.ts': `${uvu}${suites}\nfor (const tests of [a, b]) tests.run()`,
    'b.test.ts': `${uvu}${suites}\nfor (const tests of [a]) tests.run()`
  })
  assert.is(last, '2 passed, 1 failed')
})

passing('runs only the files whose names match', async () => {
  const { last } = await run(
    {
      'a.test.ts': `${uvu}test('x', () => { throw new Error() })\ntest.run()`,
      'b.test.ts': `${uvu}test('x', () => {})\ntest.run()`
    },
    ['b.test']
  )
  assert.is(last, '1 passed, 0 failed')
})

passing('leaves files for the full run out with a note, and runs them with --all or by name', async () => {
  const files = {
    'a.test.ts': `${uvu}test('x', () => {})\ntest.run()`,
    'b.test.ts': `// test in the full run only\n${uvu}test('x', () => { throw new Error() })\ntest.run()`
  }
  const [quick, all, named] = await Promise.all([run(files), run(files, ['--all']), run(files, ['b.test'])])
  assert.is(quick.last, '1 passed, 0 failed')
  assert.match(quick.out, '1 runs of files were left out')
  assert.is(all.last, '1 passed, 1 failed')
  assert.not.match(all.out, 'left out')
  assert.is(named.last, '0 passed, 1 failed')
})

passing('tests one dialect of the broker in the quick part, and both with --all', async () => {
  const files = { 'a.test.ts': `// test once for each dialect\n${uvu}test('x', () => {})\ntest.run()` }
  const env = { TEST_DIALECT: '' }
  const [quick, all] = await Promise.all([run(files, [], env), run(files, ['--all'], env)])
  assert.is(quick.last, '1 passed, 0 failed')
  assert.match(quick.out, '1 runs of files were left out')
  assert.is(all.last, '2 passed, 0 failed')
})

passing('prints the times of files with an option', async () => {
  const busy = `const end = Date.now() + 300\nwhile (Date.now() < end);`
  const { out } = await run({ 'a.test.ts': `${uvu}test('x', () => { ${busy} })\ntest.run()` }, ['--times'])
  const [, cpu, wall] = out.match(/^ +([\d.]+) +([\d.]+) {2}a\.test\.ts$/m) ?? []
  assert.ok(Number(wall) >= 0.3, out)
  // Elsewhere the CPU time of a process that has ended is not to be had.
  if (process.platform === 'linux') assert.ok(Number(cpu) > 0, out)
})

passing('prints how it is used, also to one who uses it otherwise', async () => {
  const [help, wrong, late] = await Promise.all([
    run({}, ['--help']),
    run({}, ['--nothing']),
    run({}, ['--timeout', 'x'])
  ])
  assert.is(help.code, 0)
  assert.match(help.out, /^Usage: npm test/)
  assert.is(wrong.code, 2)
  assert.match(wrong.out, "Unknown option '--nothing'")
  assert.match(wrong.out, 'Usage: npm test')
  assert.is(late.code, 2)
  assert.match(late.out, '--timeout has to be a number of seconds, not x')
  assert.not.match(wrong.out + late.out, / at .*run\.ts/)
})

passing('counts what was skipped and repeats why', async () => {
  const { code, last, out } = await run({
    'a.test.ts': `${uvu}console.log('SKIPPED: no such server here')\ntest('x', () => {})\ntest.run()`
  })
  assert.is(code, 0)
  assert.is(last, '1 passed, 0 failed, 1 skipped')
  assert.match(out, /Skipped:\n {2}.*a\.test\.ts: no such server here/)
})

passing('hands every file the server it may use', async () => {
  const { code } = await run({
    'a.test.ts': `${uvu}test('x', () => { if (!process.env.TEST_PG_URL) throw new Error('none') })\ntest.run()`
  })
  assert.is(code, 0)
})

passing('leaves no server and no files behind when interrupted', async () => {
  const own = await mkdtemp(join(tmpdir(), 'operator-fixture-'))
  const hangs = `${uvu}test('x', () => new Promise(() => setInterval(() => {}, 1000)))\ntest.run()`
  const child = start(await fixtures({ 'a.test.ts': hangs }), [], { TEST_DATABASE_URL: '', TMPDIR: own })
  const dataDir = () => readdir(own).then(names => join(own, names[0] ?? 'none'))
  await until('a server of its own', async () => runningEmbedded(await dataDir()).then(Boolean), 60_000)
  const url = (await runningEmbedded(await dataDir())) ?? ''
  child.process.kill('SIGINT')
  const { code, last } = await child.ended
  assert.is(code, 130)
  assert.is(last, '0 passed, 1 failed')
  assert.equal(await readdir(own), [])
  await rm(own, { recursive: true })
  await refuses(url)
})

passing('does not go on with the file that was being read when the interruption came', async () => {
  const dir = await fixtures({
    'a.test.ts': `${uvu}test('x', () => new Promise(() => setInterval(() => {}, 1000)))\ntest.run()`
  })
  const options = { env: process.env, timeoutMs: 5000, signal: AbortSignal.abort() }
  const { complaints } = await runFile(join(dir, 'a.test.ts'), options)
  await rm(dir, { recursive: true })
  assert.equal(complaints, ['ended by SIGKILL before its tests were done'])
})

passing.run()

/** A file's time of ten seconds; a process may take as long to start on a busy machine. */
const timeoutSeconds = () => stretched(10_000) / 1000

async function run(files: Record<string, string>, args: string[] = [], env: Record<string, string> = {}) {
  return start(await fixtures(files), args, env).ended
}

async function fixtures(files: Record<string, string>): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'operator-fixture-'))
  for (const [name, source] of Object.entries(files)) await writeFile(join(dir, name), source)
  return dir
}

// With the server of the run we are part of, so that only the test about servers starts one.
function start(dir: string, args: string[], env: Record<string, string> = {}) {
  const child: ChildProcess = spawn(process.execPath, [runner, '--dir', dir, ...args], {
    env: {
      ...process.env,
      TEST_DATABASE_URL: process.env.TEST_PG_URL ?? '',
      FORCE_COLOR: undefined,
      NO_COLOR: '1',
      ...env
    }
  })
  let out = ''
  child.stdout?.on('data', chunk => {
    out += chunk
  })
  child.stderr?.on('data', chunk => {
    out += chunk
  })
  const ended = new Promise<{ code: number | null; out: string; last: string }>(done =>
    child.once('close', async code => {
      await rm(dir, { recursive: true, force: true })
      done({ code, out, last: out.trimEnd().split('\n').at(-1) ?? '' })
    })
  )
  return { process: child, ended }
}

async function refuses(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  const error = await client.connect().then(
    () => undefined,
    error => error
  )
  await client.end()
  assert.is(error?.code, 'ECONNREFUSED')
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
