// A partner's own way in: a client generated from the description the service serves, checked by the compiler,
// and used for the main job. Every sample of the description is held to the same compiler.
// test time-out: 180 s
import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startSimulator } from '../../worker/simulator/server.ts'
import { closeAll, newAccountId, onClose, openHarness } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '../..')

const simulator = await startSimulator({ tickMs: 10, seed: 7, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({ env: { BROKER_URL: simulator.url, ORDER_TTL_MS: '5000' } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const dir = await mkdtemp(join(tmpdir(), 'operator-test-client-'))
onClose(() => rm(dir, { recursive: true, force: true }))
await symlink(join(root, 'node_modules'), join(dir, 'node_modules'))

interface Described {
  'x-codeSamples': { lang: string; source: string }[]
}
const described = (await (await fetch(`${harness.address}/docs/openapi.json`)).json()) as {
  paths: Record<string, Record<string, Described>>
}
const samples = Object.values(described.paths)
  .flatMap(path => Object.values(path))
  .flatMap(operation => operation['x-codeSamples'] ?? [])
  .filter(({ lang }) => lang === 'TypeScript')

const PROGRAM = `
import createClient from 'openapi-fetch'
import type { components, paths } from './service.ts'

type Order = components['schemas']['Order']
type Code = components['schemas']['Error']['error']

const [baseUrl, key, accountId] = process.argv.slice(2) as [string, string, string]
const service = createClient<paths>({ baseUrl, headers: { Authorization: \`Bearer \${key}\` } })
const traderExternalId = 'user-42'

function pnlOf(order: Order): number | undefined {
  // The two variants are told apart by their status.
  return order.status === 'CLOSED' ? order.pnl : undefined
}

const exchanged = await service.POST('/v1/auth/broker/exchange', {
  body: { traderExternalId, accounts: [{ accountId, token: \`sim-\${accountId}\`, accountMode: 'DEMO', currency: 'USD' }] }
})
if (exchanged.error) throw new Error(exchanged.error.error)

const placed = await service.POST('/v1/orders/binary', {
  body: {
    traderExternalId,
    clientOrderId: crypto.randomUUID(),
    asset: 'R_100',
    contractType: 'CALL',
    stake: 1,
    duration: 3,
    durationUnit: 't'
  }
})
if (placed.error) throw new Error(placed.error.error)

const listed = await service.GET('/v1/orders', { params: { query: { traderExternalId, status: 'CLOSED', limit: 10 } } })
if (listed.error) throw new Error(listed.error.error)

const refused = await service.GET('/v1/balance', { params: { query: { traderExternalId: 'nobody' } } })
const code: Code | undefined = refused.error?.error
// @ts-expect-error a contract type the service does not know
const wrong: components['schemas']['BinaryOrder']['contractType'] = 'ROULETTE'

console.log(
  JSON.stringify({ placed: placed.data.orderId, pnl: pnlOf(placed.data), listed: listed.data.data.map(o => o.orderId), code, wrong })
)
`

const TSCONFIG = {
  compilerOptions: {
    target: 'es2024',
    lib: ['es2024', 'dom'],
    module: 'nodenext',
    types: ['node'],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: false,
    allowImportingTsExtensions: true,
    verbatimModuleSyntax: true,
    noEmit: true,
    skipLibCheck: true
  },
  include: ['*.ts']
}

const generating = suite('a client generated from the description')

generating('compiles, with every sample of the description', async () => {
  await run(process.execPath, [
    join(root, 'node_modules/openapi-typescript/bin/cli.js'),
    `${harness.address}/docs/openapi.json`,
    '--output',
    join(dir, 'service.ts')
  ])
  assert.ok(samples.length >= 60)
  await writeFile(join(dir, 'package.json'), '{ "type": "module" }')
  await writeFile(join(dir, 'tsconfig.json'), JSON.stringify(TSCONFIG))
  await writeFile(join(dir, 'program.ts'), PROGRAM)
  for (const [index, { source }] of samples.entries()) await writeFile(join(dir, `sample-${index}.ts`), source)
  const compiler = join(root, 'node_modules/typescript7/bin/tsc')
  await run(process.execPath, [compiler, '-p', dir]).catch((error: { stdout: string }) => {
    throw new Error(error.stdout.slice(0, 4000))
  })
})

generating('connects a trader, buys a contract and finds it in the history', async () => {
  const accountId = newAccountId()
  const { stdout } = await run(process.execPath, [join(dir, 'program.ts'), harness.address, partner.key, accountId])
  const said = JSON.parse(stdout)
  assert.type(said.pnl, 'number')
  assert.equal(said.listed, [said.placed])
  assert.is(said.code, 'TRADER_NOT_FOUND')
})

generating.after(closeAll)
generating.run()
