// `make copy-storm`: a long storm of copying on a database and a broker of its own. Repeat one with its seed:
// SEED=… make copy-storm.
import { parseArgs } from 'node:util'
import { closeAll, closeOnSignals } from '../support/harness.ts'
import { storm } from './storm.ts'

closeOnSignals()

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.SEED ?? String(Math.floor(Math.random() * 2 ** 31)) },
    followers: { type: 'string', default: process.env.FOLLOWERS ?? '200' },
    leaders: { type: 'string', default: '4' },
    orders: { type: 'string', default: process.env.ORDERS ?? '300' },
    workers: { type: 'string', default: '2' },
    kills: { type: 'string', default: '6' }
  }
})
const numbers = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)])) as Record<
  keyof typeof values,
  number
>
for (const [name, value] of Object.entries(numbers))
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`--${name} must be a whole number`)

console.log(`copy storm: seed ${numbers.seed}, ${numbers.followers} followers, ${numbers.orders} turns`)
try {
  const { broken, ...report } = await storm({ ...numbers, print: line => console.log(line) })
  console.log(JSON.stringify(report))
  for (const line of broken.slice(0, 50)) console.error(line)
  console.log(broken.length === 0 ? 'Every promise held.' : `${broken.length} promises were broken.`)
  if (broken.length > 0) process.exitCode = 1
} catch (error) {
  console.error(`Seed ${numbers.seed}: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
await closeAll()
