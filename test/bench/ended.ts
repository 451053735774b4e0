// Contracts that ended while all workers were away: how long until all are settled, once two workers are back. Open orders
// and the simulated broker's books are made together, a hundred contracts an account, ended within a minute.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeEmbedded, startEmbedded } from '../../db/embedded.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { type Simulator, startSimulator } from '../../worker/simulator/server.ts'
import { audit, booksOf, readOrders } from '../support/auditor.ts'
import { appIds, brokerEnv, type DialectName, dialects } from '../support/dialects.ts'
import { insertContracts } from '../support/ended-contracts.ts'
import { closeAll, type Harness, openHarness } from '../support/harness.ts'
import { startWorker } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { print, verdict } from './report.ts'
import { cpuOf, cpuOfTree, each, postmasterOf } from './stage.ts'

const OF_ACCOUNT = 100
const WORKERS = 2
const SIZES = [2000, 20_000, 200_000]
const GOAL_SECONDS = 120
const MOST_MS = 600_000

/** Measures each size of `BENCH_CONTRACTS` (2000,20000,200000) in the dialect `BENCH_DIALECT` (v3). */
export async function ended(): Promise<void> {
  const sizes = process.env.BENCH_CONTRACTS?.split(',').map(Number) ?? SIZES
  const dialect = dialects.find(name => name === process.env.BENCH_DIALECT) ?? 'v3'
  const body = []
  for (const size of sizes) body.push(await measure(size, dialect))
  print(
    `Contracts that ended while all workers were away, ${OF_ACCOUNT} an account, ${WORKERS} workers, ${dialect}`,
    [
      'contracts',
      'accounts',
      'until all are settled',
      'contracts a second',
      'CPU ms each: workers, PostgreSQL, broker',
      'wrong'
    ],
    body
  )
}

async function measure(size: number, dialect: DialectName): Promise<string[]> {
  const dataDir = mkdtempSync(join(tmpdir(), 'service-ended-'))
  const embedded = await startEmbedded({ dataDir })
  try {
    await migrate(embedded.url)
    const simulator = await startSimulator({ tickMs: 200, timeScale: 1000, seed: 4, latencyMs: 5, limits: 'off' })
    const harness = await openHarness({
      url: embedded.url,
      env: { ...brokerEnv(simulator, dialect), BROKER_NEXT_CALLS: '10000' }
    })
    await makeEnded(harness, { simulator, dialect, size })
    const { db } = harness.services
    const postmaster = await postmasterOf(dataDir)
    const [databaseBefore, brokerBefore] = [await cpuOfTree(postmaster), process.cpuUsage()]
    const startedAt = performance.now()
    const workers = await Promise.all(Array.from({ length: WORKERS }, () => startWorker(harness.env)))
    const backAt = performance.now()
    await until('all to be settled', () => isSettled(db), MOST_MS)
    const seconds = (performance.now() - backAt) / 1000
    const { user, system } = process.cpuUsage(brokerBefore)
    const cpu = await Promise.all(workers.map(({ child }) => cpuOf(child.pid as number)))
    const used = [
      cpu.reduce((sum, { own }) => sum + own, 0),
      (await cpuOfTree(postmaster)) - databaseBefore,
      (user + system) / 1e6
    ]
    const report = audit({
      contracts: booksOf(simulator.ledger()),
      orders: await readOrders(db),
      lateToleranceMs: MOST_MS
    })
    await simulator.close()
    // Contracts that are dated before their order was stored are the way these were made.
    const wrong = report.findings.filter(({ what }) => !what.includes('before it was asked for'))
    for (const { kind, what } of wrong.slice(0, 3)) console.log(`${kind}: ${what}`)
    return [
      String(size),
      String(Math.ceil(size / OF_ACCOUNT)),
      verdict(
        `${seconds.toFixed(1)} s (started in ${((backAt - startedAt) / 1000).toFixed(1)} s)`,
        seconds <= GOAL_SECONDS
      ),
      (size / seconds).toFixed(0),
      used.map(each => ((each / size) * 1000).toFixed(2)).join(', '),
      String(wrong.length)
    ]
  } finally {
    await closeAll()
    await embedded.stop()
    await removeEmbedded(dataDir)
  }
}

async function isSettled(db: Db): Promise<boolean> {
  return (await rows(db, `select from orders where phase = 'open' limit 1`, {})).length === 0
}

/** Accounts with contracts that the broker has settled, whose orders are open and name workers that are gone. */
async function makeEnded(
  { services: { db }, makePartner }: Harness,
  { simulator, dialect, size }: { simulator: Simulator; dialect: DialectName; size: number }
): Promise<void> {
  const partner = await makePartner()
  await rows(db, 'update partners set broker_app_id = :appId, broker_dialect = :dialect', {
    appId: appIds[dialect],
    dialect
  })
  const accounts = Array.from({ length: Math.ceil(size / OF_ACCOUNT) }, (_, index) => index)
  await each(accounts, 8, async index => {
    const trader = await partner.makeTrader()
    const count = Math.min(OF_ACCOUNT, size - index * OF_ACCOUNT)
    await insertContracts({ db, simulator, dialect }, trader, {
      count,
      endedSecondsAgo: 5 + (index % 60),
      holder: `gone-${index % 10}`
    })
  })
  await until(
    'the broker to settle them',
    () => [...simulator.engine.contracts.values()].every(({ status }) => status !== 'open'),
    MOST_MS
  )
  await rows(db, 'analyze orders', {})
}
