// One seed in a process of its own: `one.ts <options as JSON>`; its verdict is a line of JSON on stdout.
import { faultRatesOf } from './chance.ts'
import { makeFollows } from './copying.ts'
import type { LivesRequest } from './run.ts'
import { makeDatabase } from './setup.ts'
import './hooks.ts'

const { admin, seed, lives, mode, dialect, buys, sql, traced } = JSON.parse(process.argv[2] ?? '{}') as LivesRequest
const usual = faultRatesOf(mode, dialect)
const faults = { ...usual, buys: { ...usual.buys, ...buys } }
const accounts = Math.ceil(lives / faults.livesOfAccount)
const { url, parties, drop } = await makeDatabase(admin, {
  name: `sim_${process.pid}`,
  accounts,
  dialect,
  sql: [...(faults.copying ? [makeFollows] : []), ...(sql ?? [])]
})
const { simulate } = await import('./world.ts')
const verdict = await simulate({
  seed,
  lives,
  dialect,
  url,
  parties,
  faults,
  traced,
  audit: mode === 'frozen'
})
await drop()
process.stdout.write(`${JSON.stringify(verdict)}\n`, () => process.exit())
