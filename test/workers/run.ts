// `make workers`: ten workers of the newer dialect under uneven load, of which some join, leave, die and freeze. Options as
// WORKERS=10, ACCOUNTS=2000, PARTNERS=4, RATE=25 (orders a second), LEASE_MS=15000, REST_CALLS=10000 (a minute), SEED=1;
// STAGES=restart,killed runs these alone of join, restart, killed and frozen.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeEmbedded, startEmbedded } from '../../db/embedded.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { postmasterOf } from '../bench/stage.ts'
import { closeAll, closeOnSignals } from '../support/harness.ts'
import { STAGES, type StageName, workersAtWork } from './workers.ts'

closeOnSignals()

const number = (name: string, usual: number) => {
  const value = Number(process.env[name] ?? usual)
  if (!Number.isInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`)
  return value
}

const stages = process.env.STAGES?.split(',') ?? STAGES
const unknown = stages.filter(name => !STAGES.some(stage => stage === name))
if (unknown.length > 0) throw new Error(`STAGES has ${unknown}; there are ${STAGES}`)

const dataDir = mkdtempSync(join(tmpdir(), 'operator-workers-'))
const embedded = await startEmbedded({ dataDir })
try {
  await migrate(embedded.url)
  const { figures, wrong } = await workersAtWork({
    url: embedded.url,
    stages: stages as StageName[],
    postmaster: await postmasterOf(dataDir),
    workers: number('WORKERS', 10),
    accounts: number('ACCOUNTS', 2000),
    partners: number('PARTNERS', 4),
    leaseMs: number('LEASE_MS', 15_000),
    restCalls: number('REST_CALLS', 10_000),
    rate: number('RATE', 25),
    seed: number('SEED', 1),
    peaceMs: 10_000,
    probes: 40,
    report: line => console.log(line)
  })
  for (const line of wrong.slice(0, 20)) console.log(`VIOLATION ${line}`)
  const missed = figures.filter(({ value, goal }) => value > goal)
  console.log(`workers: ${wrong.length} violations, ${missed.length} of ${figures.length} goals missed`)
  if (wrong.length > 0) process.exitCode = 1
} finally {
  await closeAll()
  await embedded.stop()
  await removeEmbedded(dataDir)
}
