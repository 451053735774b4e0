// test time-out: 300 s
// What holds for every command of the operator: exit codes, one line about what went wrong, one document with
// --json, questions, and help. Real processes against a real database.
// test in the full run only
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import type { Command } from 'commander'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createProgram } from '../../cli/program.ts'
import { closeAll, onClose, openHarness } from '../support/harness.ts'
import { operator } from '../support/operator.ts'

const { services, env, url, makePartner } = await openHarness()
const run = (...args: string[]) => operator(env, ...args)

// A database that nobody migrated.
const blank = new URL(url)
blank.pathname = `${blank.pathname}_blank`
await services.db.raw(`create database ${blank.pathname.slice(1)}`)
onClose(() => services.db.raw(`drop database if exists ${blank.pathname.slice(1)} with (force)`))

function leaves(command: Command, path: string[] = []): { path: string[]; command: Command }[] {
  const children = command.commands.filter(child => child.name() !== 'help')
  if (children.length === 0) return [{ path, command }]
  return children.flatMap(child => leaves(child, [...path, child.name()]))
}

const file = suite('operator: an output that cannot be written')

// /dev/full refuses what is written, as a full disk does.
if (!existsSync('/dev/full')) console.log('SKIPPED: a full disk: there is no /dev/full here')
else
  file('is reported in one line, for the command itself may be done', async () => {
    for (const command of [
      ['partners', 'list', '--json'],
      ['spec', 'print']
    ]) {
      const full = openSync('/dev/full', 'w')
      const child = spawn(process.execPath, ['cli/main.ts', ...command], {
        env: { ...process.env, ...env },
        stdio: ['ignore', full, 'pipe']
      })
      closeSync(full)
      const [said, [exitCode]] = await Promise.all([text(child.stderr as Readable), once(child, 'exit')])
      assert.match(said, /^The output is not complete: cannot write: no space left on device \(ENOSPC\)\. [^\n]*\n$/)
      assert.is(exitCode, 1)
    }
  })

const usage = suite('operator: wrong usage')

for (const [args, said] of [
  [['partner', 'list'], /unknown command 'partner'.*Did you mean partners/],
  [['partners', 'lst'], /unknown command 'lst'.*Did you mean list/],
  [['partners', 'list', '--jsn'], /unknown option '--jsn'.*Did you mean --json/],
  [['partners', 'create'], /required option '--name.*see operator partners create --help/],
  [['partners', 'create', '--name', 'A', '--plan', 'GOLD'], /--plan must be one of LAUNCH, PRO, SCALE/],
  [['partners', 'create', '--name', 'A', '--balance', '1.005', '--trial-days', '-1'], /--balance .*; --trial-days /],
  [['partners', 'show'], /missing required argument 'partner'/],
  [['partners', 'show', 'ptn_a', 'ptn_b'], /too many arguments/],
  [['partners', 'set-plan', 'ptn_a', 'GOLD'], /<plan> must be one of/],
  [['keys', 'issue', '--partner', 'ptn_a', '--scopes', 'trading:read,root:all'], /no scope 'root:all'/],
  [['orders', 'list', '--error', 'CLOSED_MARKET'], /--error must be one of .*, MARKET_CLOSED, .*, REVIEW_REQUIRED/],
  [['orders', 'list', '--status', 'DONE'], /--status must be one of PENDING, OPEN, CLOSED, FAILED, REVIEW/],
  [['partners', 'suspend', 'ptn_a', '--reason', 'unpaid\nsince May'], /--reason must be one line of text/],
  [['orders', 'list', '--limit', '0'], /--limit must be at least 1/],
  [['orders', 'list', '--cursor', 'abc'], /cursor/],
  [['orders', 'list', '--cursor', '-Vbcdefghijklmnopqrstu'], /cursor/],
  [['queues', 'retry', 'aks'], /<queue> must be one of order\.place, order\.copy, ask/],
  [['completion', 'tcsh'], /bash, zsh, fish/]
] as const)
  usage(`operator ${args.join(' ')}: exit code 2, one line on stderr, nothing on stdout`, async () => {
    const { exitCode, stdout, stderr } = await run(...args)
    assert.is(exitCode, 2)
    assert.is(stdout, '')
    assert.match(stderr, said)
    assert.is(stderr.trim().split('\n').length, 1, stderr)
  })

usage('the simulated broker refuses an option it does not have, also with exit code 2', async () => {
  const { exitCode, stderr } = await run('broker', 'simulate', '--prot', '9')
  assert.is(exitCode, 2)
  assert.match(stderr, '--prot')
})

const refusals = suite('operator: refusals')

for (const args of [
  ['partners', 'show', 'ptn_01jd0000000000000000000000'],
  ['partners', 'suspend', 'ptn_01jd0000000000000000000000', '--reason', 'unpaid', '--yes'],
  ['keys', 'list', '--partner', 'nobody'],
  ['keys', 'revoke', 'key_01jd0000000000000000000000', '--yes'],
  ['traders', 'show', 'trd_01jd0000000000000000000000'],
  ['orders', 'show', 'ord_01jd0000000000000000000000']
])
  refusals(`operator ${args.join(' ')}: NOT_FOUND, exit code 1, one line`, async () => {
    const { exitCode, stdout, stderr } = await run(...args, '--json')
    assert.is(exitCode, 1)
    assert.is(stdout, '')
    assert.match(stderr, /^NOT_FOUND: There is no [^\n]+\n$/)
  })

refusals('print in a sentence that the database is not migrated, and how to', async () => {
  const { exitCode, stderr } = await operator({ ...env, DATABASE_URL: blank.href }, 'partners', 'list')
  assert.is(exitCode, 1)
  assert.match(stderr, /^[^\n]*lacks \d+ migrations[^\n]*db migrate[^\n]*\n$/)
})

// The pool would try for ten seconds, and report another error.
refusals('print in a sentence that the database cannot be reached, without its password, at once', async () => {
  const DATABASE_URL = 'postgres://operator:hunter2@127.0.0.1:9/service'
  const { exitCode, stderr } = await operator({ ...env, DATABASE_URL }, 'partners', 'list')
  assert.is(exitCode, 1)
  assert.match(stderr, /^UNAVAILABLE: No PostgreSQL listens at 127\.0\.0\.1:9\/service[^\n]*\n$/)
  assert.not.match(stderr, 'hunter2')
})

refusals('name the variable that is wrong', async () => {
  const { exitCode, stderr } = await operator({ ...env, PORT: 'eighty' }, 'partners', 'list')
  assert.is(exitCode, 1)
  assert.match(stderr, /^Wrong configuration: PORT [^\n]*\n$/)
})

refusals('refuse token keys that are not those of the database', async () => {
  const TOKEN_KEYS = `other:${Buffer.alloc(32, 1).toString('base64')}`
  const { exitCode, stderr } = await operator({ ...env, TOKEN_KEYS }, 'partners', 'list')
  assert.is(exitCode, 1)
  assert.match(stderr, /^Wrong configuration: TOKEN_KEYS [^\n]*'t1'\n$/)
})

refusals(
  'db rollback explains that one goes back on the database as it is, since a backup lacks the orders since',
  async () => {
    const { exitCode, stderr } = await run('db', 'rollback')
    assert.is(exitCode, 1)
    assert.match(stderr, /previous version again on the database as it is.*backup undoes all orders/)
  }
)

const questions = suite('operator: confirmation')

questions('without a terminal is refused, and nothing is changed', async () => {
  const { partnerId, keyId } = await makePartner()
  for (const flags of [[], ['--no-input']]) {
    const suspend = await run('partners', 'suspend', partnerId, '--reason', 'unpaid', ...flags)
    assert.is(suspend.exitCode, 1)
    assert.match(suspend.stderr, /^Suspend [^\n]* repeat with --yes\.\n$/)
    const revoke = await run('keys', 'revoke', keyId, ...flags)
    assert.is(revoke.exitCode, 1)
    assert.match(revoke.stderr, '--yes')
  }
  assert.is((await run('partners', 'show', partnerId, '--json')).json.saasStatus, 'ACTIVE')
})

questions('is requested on a terminal, and no changes nothing', async () => {
  const { keyId } = await makePartner()
  const { exitCode, output } = await onTerminal(`keys revoke ${keyId}`, 'n\r')
  if (exitCode === undefined) return console.log('SKIPPED: a question on a terminal: there is no `script` here')
  assert.match(output, `Revoke ${keyId}?`)
  assert.match(output, 'Nothing was changed.')
  assert.is(exitCode, 1)
})

questions('is requested on a terminal, and yes goes on', async () => {
  const { keyId } = await makePartner()
  const { exitCode, output } = await onTerminal(`keys revoke ${keyId}`, 'y\r')
  if (exitCode === undefined) return console.log('SKIPPED: a question on a terminal: there is no `script` here')
  assert.is(exitCode, 0, output)
  assert.match(output, 'revokedAt')
})

questions('comes with the name of who acts, where no setting has it, which is logged beside the account', async () => {
  const { partnerId } = await makePartner()
  const target = ['audit', 'list', '--target', partnerId, '--json']
  const actors = async () => (await run(...target)).json.data.map(({ actor }: { actor: string }) => actor)
  const account = `cli:${userInfo().username}`
  // Without a terminal nobody is prompted, and OPERATOR_NAME is believed.
  assert.is((await operator({ ...env, OPERATOR_NAME: 'Bob' }, 'partners', 'resume', partnerId)).exitCode, 1)
  const named = ['partners', 'set-limit', partnerId, '--per-key']
  assert.is((await operator({ ...env, OPERATOR_NAME: 'Bob' }, ...named, '60')).exitCode, 0)
  assert.is((await run(...named, '61')).exitCode, 0)
  assert.equal(await actors(), [account, `${account} (Bob)`])
  const prompted = await onTerminal(`${named.join(' ')} 62`, 'Anna Ek\r', { name: '', prompt: /Who acts/ })
  if (prompted.exitCode === undefined) return console.log('SKIPPED: who acts, on a terminal: there is no `script` here')
  assert.is(prompted.exitCode, 0, prompted.output)
  assert.equal((await actors())[0], `${account} (Anna Ek)`)
  // A reading command prompts nobody.
  const read = await onTerminal(`partners show ${partnerId}`, '', { name: '' })
  assert.is(read.exitCode, 0)
  assert.not.match(read.output, 'Who acts')
  const wrong = await operator({ ...env, OPERATOR_NAME: 'a\u001bb' }, 'partners', 'list')
  assert.is(wrong.exitCode, 1)
  assert.match(wrong.stderr, /^Wrong configuration: OPERATOR_NAME/)
})

/** Runs a command on a pseudo-terminal and types `keys` once it has prompted. */
async function onTerminal(
  args: string,
  keys: string,
  { name = 'Anna', prompt = /\(y\/N\)/i } = {}
): Promise<{ exitCode?: number; output: string }> {
  const child = spawn('script', ['-qefc', `'${process.execPath}' cli/main.ts ${args}`, '/dev/null'], {
    env: { ...process.env, ...env, TERM: 'xterm', OPERATOR_NAME: name },
    stdio: ['pipe', 'pipe', 'inherit']
  })
  let typed = false
  let shown = ''
  child.stdout.on('data', chunk => {
    // It may come in parts.
    shown += String(chunk)
    if (typed || !prompt.test(stripVTControlCharacters(shown))) return
    typed = true
    child.stdin.write(keys)
  })
  const ended = once(child, 'close').then(([code]) => code as number)
  const output = text(child.stdout)
  try {
    return { exitCode: await ended, output: stripVTControlCharacters(await output) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return { output: '' }
  }
}

const help = suite('operator: help')

help('every command has a description and an example', async () => {
  for (const { path, command } of leaves(await createProgram())) {
    let shown = ''
    command.configureOutput({ writeOut: part => (shown += part) })
    command.outputHelp()
    assert.ok(command.description().length > 10, path.join(' '))
    if (path.join(' ') === 'broker simulate' || path.join(' ') === 'db rollback') continue
    assert.match(shown, /Examples:\n {2}operator /, `${path.join(' ')} has no example`)
    assert.match(shown, `operator ${path.join(' ')}`)
  }
})

help('is known to a command without loading the other groups', async () => {
  const words = (program: Command) => program.commands.map(command => command.name())
  const all = words(await createProgram())
  assert.is(all.length, 31)
  for (const word of all)
    assert.equal(words(await createProgram(['--json', word, '--csv'])), word === 'completion' ? all : [word])
  for (const args of [['--help'], ['help', 'orders'], ['order', 'list'], ['constructor']])
    assert.equal(words(await createProgram(args)), all)
})

help('is printed with exit code 0, the version too', async () => {
  const [about, version] = await Promise.all([run('partners', 'create', '--help'), run('--version')])
  assert.is(about.exitCode, 0)
  assert.match(about.stdout, '--trial-days')
  assert.is(version.stdout, '1.0.0\n')
})

help('a completion script for bash knows the commands and their options', async () => {
  const { stdout } = await run('completion', 'bash')
  const child = spawn('bash', ['--norc'], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(
    `${stdout}\nfor words in "operator par" "operator partners su" "operator partners create --br"; do
       COMP_WORDS=($words); COMP_CWORD=$((\${#COMP_WORDS[@]}-1)); _operator; echo "\${COMPREPLY[@]}"; done\n`
  )
  assert.equal((await text(child.stdout)).trim().split('\n'), [
    'partners',
    'suspend',
    '--broker-app-id --broker-dialect'
  ])
})

help('completion scripts for zsh and fish name every command', async () => {
  const [zsh, fish] = await Promise.all([run('completion', 'zsh'), run('completion', 'fish')])
  for (const { path } of leaves(await createProgram()))
    for (const { stdout } of [zsh, fish]) assert.match(stdout, `'/${path.join('/')}'`)
})

help.after(closeAll)
file.run()
usage.run()
refusals.run()
questions.run()
help.run()
