// test in the full run only
// test time-out: 300 s
// `operator run`: everything on one machine. It works the first time, again, twice at once, after Ctrl-C and
// after SIGKILL, and leaves nobody behind.

import { execFile } from 'node:child_process'
import { chmod, mkdtemp } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { removeEmbedded, runningEmbedded } from '../../db/embedded.ts'
import { closeAll, onClose, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startProcess, startWorker, type TestProcess } from '../support/processes.ts'

const dataDir = await mkdtemp(join(tmpdir(), 'operator-run-'))
await chmod(dataDir, 0o711) // Root's server runs as another user.
onClose(() => removeEmbedded(dataDir))
const env = { DATA_DIR: dataDir }

const once = () => operator(env, 'run', '--once', '--json', '--tick-ms', '20')
const start = (more: Record<string, string> = {}) =>
  startProcess('cli/main.ts', { ...env, ...more }, ['run', '--tick-ms', '20'])

/** Ids of the processes a run has started. */
async function childrenOf({ child }: TestProcess): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,args='])
  return stdout
    .split('\n')
    .map(line => /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [])
    .filter(([, , parent, args]) => Number(parent) === child.pid && /main\.ts/.test(args ?? ''))
    .map(([, pid]) => Number(pid))
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

const gone = (pids: number[]) => until('the processes of the run to end', () => pids.every(isGone), 20_000)

/** Deploys a site: whatever shows its address, by the run's own processes or beside it, shows that of the api. */
async function showsOneAddress(shown: string, beside: Record<string, string>): Promise<void> {
  const address = /Ready at (\S+)/.exec(shown)?.[1] as string
  const [, authorization] = /-H '?Authorization: ([^']+)'/.exec(shown) as unknown as [string, string]
  const post = async (path: string, body: object): Promise<{ url: string }> => {
    const headers = { authorization, 'content-type': 'application/json' }
    const response = await fetch(address + path, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.is(response.status, 200)
    return (await response.json()) as { url: string }
  }
  let sent: string | undefined
  const receiver = createHttpServer(async (request, response) => {
    sent = await text(request)
    response.end()
  }).listen(0, '127.0.0.1')
  onClose(async () => receiver.close())
  await new Promise(resolve => receiver.once('listening', resolve))
  const { port } = receiver.address() as { port: number }
  await post('/v1/webhooks', { url: `http://127.0.0.1:${port}/`, types: ['deployment.live'] })
  const { url } = await post('/v1/templates/horizon/deploy', { tenantSlug: 'run-site', brandName: 'Run' })
  assert.is(url, `${address}/sites/run-site/`)
  const event = JSON.parse(await until('the event', () => sent, 60_000)) as { data: { url: string } }
  assert.is(event.data.url, url)
  const listed = await operator(
    beside,
    'events',
    'list',
    '--partner',
    partnerId,
    '--types',
    'deployment.live',
    '--json'
  )
  assert.is(listed.json.data[0].data.url, url)
}

const running = suite('operator run')

let partnerId = ''

running('places a five-tick order over HTTP and returns it closed', async () => {
  const first = await once()
  assert.is(first.exitCode, 0, first.stderr)
  assert.is(first.json.order.status, 'CLOSED')
  assert.type(first.json.order.pnl, 'number')
  assert.ok(first.json.tookMs < 60_000)
  partnerId = first.json.partnerId
  assert.is(await runningEmbedded(dataDir), undefined)
})

running('stays up, shows a command that places one more, and on Ctrl-C stops every process in order', async () => {
  // The default port is busy, by this or by somebody else's process: the api takes another one.
  const busy = createServer()
    .listen(8080)
    .on('error', () => {})
  onClose(async () => busy.close())
  // At every address, where there are those of IPv6.
  const everywhere: Record<string, string> = networkInterfaces().lo?.some(({ family }) => family === 'IPv6')
    ? { HOST: '::' }
    : {}
  const run = start({ SETTLE_WAIT_MS: '44000', ...everywhere })
  await run.line(/Ctrl-C stops everything/)
  const shown = run.lines.join('\n')
  const curl = /^ {2}(curl .*\\\n.*\\\n.*\}')$/m.exec(shown)?.[1]
  assert.ok(curl, shown)
  const { stdout } = await promisify(execFile)('bash', ['-c', curl as string])
  const order = JSON.parse(stdout) as { status: string; orderId: string }
  assert.is(order.status, 'CLOSED')
  // The same clientOrderId again is the same order.
  const again = await promisify(execFile)('bash', ['-c', curl as string])
  assert.is((JSON.parse(again.stdout) as { orderId: string }).orderId, order.orderId)
  // The command line works beside it, on the same data.
  const listed = await operator(env, 'orders', 'show', order.orderId, '--json')
  assert.is(listed.json.status, 'CLOSED')
  assert.match(shown, 'in this directory, with the same SETTLE_WAIT_MS:')
  // One more worker finds database, keys and broker with the settings shown.
  const settings = /^ {2}(.*)npm run -s worker$/m.exec(shown)?.[1]
  assert.ok(settings, shown)
  const given = [...(settings as string).matchAll(/(\w+)='?([^' ]+)'? /g)].map(([, name, value]) => [name, value])
  await showsOneAddress(shown, Object.fromEntries(given))
  const worker = await startWorker(Object.fromEntries(given))
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0)
  const children = await childrenOf(run)
  assert.is(children.length, 3)
  // make and npm each pass the signal on: twice at once is still once.
  run.kill('SIGINT')
  run.kill('SIGINT')
  assert.is(await run.ended, 0)
  assert.ok(children.every(isGone))
  assert.is(await runningEmbedded(dataDir), undefined)
})

running(
  'two at once share database and broker, on two ports; the second goes on when the first is killed, and ends with a process of its own',
  async () => {
    const first = start()
    await first.line(/^The reference is at http:.*\/docs\.$/)
    await first.line(/Ctrl-C stops everything/)
    const second = start()
    await second.line(/Ctrl-C stops everything/)
    const addressOf = ({ lines }: TestProcess) => /Ready at (\S+)/.exec(lines.join('\n'))?.[1]
    assert.is.not(addressOf(first), addressOf(second))
    assert.match(second.lines.join('\n'), 'shared with another run')
    const children = await childrenOf(first)
    assert.is(children.length, 3)
    first.kill('SIGKILL')
    await gone(children)
    await second.line(/going on with it here/)
    // An order through the taken-over broker, of the partner that the first run of all made.
    const third = await once()
    assert.is(third.exitCode, 0, third.stderr)
    assert.is(third.json.order.status, 'CLOSED')
    assert.is(third.json.partnerId, partnerId)
    const left = await childrenOf(second)
    process.kill(left[0] as number, 'SIGKILL')
    assert.is(await second.ended, 1)
    assert.match(second.lines.join('\n'), /(broker|worker|api) was ended by SIGKILL; its last lines:/)
    assert.match(second.lines.at(-1) as string, /^Stopped, since (broker|worker|api) was ended by SIGKILL\.$/)
    await gone(left)
  }
)

running('SIGTERM while it starts leaves nothing behind either', async () => {
  const run = start()
  await run.line(/^broker/)
  const children = await childrenOf(run)
  run.kill('SIGTERM')
  assert.is(await run.ended, 0)
  await gone([...children, ...(await childrenOf(run))])
  await until('the database to stop', async () => (await runningEmbedded(dataDir)) === undefined, 20_000)
})

running('a port that was requested and is busy is an error that names it', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await new Promise(resolve => taken.once('listening', resolve))
  const { port } = taken.address() as { port: number }
  const run = start({ PORT: String(port) })
  assert.is(await run.ended, 1)
  taken.close()
  assert.match(run.lines.join('\n'), `PORT ${port} of HOST 127.0.0.1 is taken`)
  assert.match(run.lines.at(-1) as string, /^Stopped, since api ended with exit code 78/)
})

running('is refused where it cannot be: with TLS', async () => {
  const { exitCode, stderr } = await operator({ ...env, BASE_URL: 'https://api.example.com' }, 'run', '--once')
  assert.is(exitCode, 1)
  assert.match(stderr, /^This runs plain HTTP on one machine[^\n]*\n$/)
})

running.after(closeAll)
running.run()
