// `make money-storm`: a long storm on a database of its own. Repeat one with its seed: SEED=… make money-storm.
import { parseArgs } from 'node:util'
import { closeAll, closeOnSignals, openTestDatabase } from '../support/harness.ts'
import { storm } from './storm.ts'

closeOnSignals()

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.SEED ?? String(Math.floor(Math.random() * 2 ** 31)) },
    operations: { type: 'string', default: process.env.OPERATIONS ?? '120000' },
    processes: { type: 'string', default: '4' },
    concurrency: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '12' },
    partners: { type: 'string', default: '60' },
    kills: { type: 'string', default: '3' },
    cuts: { type: 'string', default: '5' }
  }
})
const numbers = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)])) as Record<
  keyof typeof values,
  number
>
for (const [name, value] of Object.entries(numbers))
  if (!Number.isSafeInteger(value) || value < 0) throw new Error(`--${name} must be a whole number`)

console.log(`money storm: seed ${numbers.seed}, ${numbers.operations} operations in ${numbers.processes} processes`)
try {
  const report = await storm({ ...numbers, url: await openTestDatabase(), print: line => console.log(line) })
  console.log(
    `${report.operations} operations, ${report.transfers} transfers, ${report.transfersPerSecond} transfers/s, ` +
      `${report.kills} processes killed, ${report.cuts} connections cut: every promise held at every pause.`
  )
} catch (error) {
  console.error(`Seed ${numbers.seed}: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
await closeAll()
