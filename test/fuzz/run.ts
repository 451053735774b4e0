// `make fuzz`: a long campaign on a database of its own.
//   REQUESTS   how many to send, 200 000 by default
//   MINUTES    end earlier after so many
//   SEED       repeat a campaign
//   ONLY       operations and classes, by name, separated by commas
//   CONCURRENCY  requests under way at once, 16 by default
//   STRETCH    times of orders, and the time that a response may take, on a busy machine; 1 by default
// SIGUSR2 pauses the campaign, and continues one that is paused.
import { closeAll, closeOnSignals } from '../support/harness.ts'
import { runCampaign } from './campaign.ts'
import { complaintsOf } from './logs.ts'
import { describeReport } from './report.ts'
import { openStack } from './stack.ts'

closeOnSignals()

function whole(name: string, usual: number): number {
  const value = Number(process.env[name] || usual)
  if (!(value > 0)) throw new Error(`${name} must be a number above zero`)
  return value
}

const seed = whole('SEED', Math.ceil(Math.random() * 2 ** 31))
const requests = whole('REQUESTS', 200_000)
const names = (process.env.ONLY ?? '').split(',').filter(Boolean)
let paused = false
process.on('SIGUSR2', () => {
  paused = !paused
  console.log(paused ? 'paused' : 'continued')
})
const stretch = whole('STRETCH', 1)
console.log(`fuzzing: seed ${seed}, ${requests} requests, times stretched by ${stretch}`)
try {
  const { scene, api, worker, auditShared } = await openStack({ stretch })
  const operations = names.filter(name => scene.description.operations.some(operation => operation.name === name))
  const kinds = names.filter(name => !operations.includes(name))
  const report = await runCampaign({
    scene,
    seed,
    requests,
    concurrency: whole('CONCURRENCY', 16),
    paused: () => paused,
    minutes: process.env.MINUTES ? whole('MINUTES', 0) : undefined,
    only: { ...(operations.length > 0 ? { operations } : {}), ...(kinds.length > 0 ? { kinds } : {}) },
    log: line => console.log(line)
  })
  for (const line of describeReport(report)) console.log(line)
  const complaints = [...complaintsOf([api, worker]), ...(await auditShared()).map(finding => JSON.stringify(finding))]
  for (const line of complaints) console.log(line)
  if (report.violations.length > 0 || complaints.length > 0) process.exitCode = 1
} catch (error) {
  console.error(`Seed ${seed}:`, error)
  process.exitCode = 1
}
await closeAll()
