// One seed in a process of its own: `one.ts <options as JSON>`; its verdict is a line of JSON on stdout.
import { type Mode, modes } from './chance.ts'
import { makeDatabase } from './setup.ts'
import { simulate } from './world.ts'

const { admin, seed, lives, mode } = JSON.parse(process.argv[2] ?? '{}') as {
  admin: string
  seed: number
  lives: number
  mode: Mode
}
const { url, parties, drop } = await makeDatabase(admin, { name: `sim_${process.pid}`, accounts: lives })
const verdict = await simulate({
  seed,
  lives,
  url,
  parties,
  troubles: modes[mode],
  audit: mode === 'frozen'
})
await drop()
process.stdout.write(`${JSON.stringify(verdict)}\n`, () => process.exit())
