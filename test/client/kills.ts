// Kills test/client/trader.ts, which trades on a test key, at random requests and responses and starts it again; kills the api
// under its last run, too; and compares what it bought with what it wanted.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startSimulator } from '../../worker/simulator/server.ts'
import { seeded } from '../money-storm/random.ts'
import { brokerEnv } from '../support/dialects.ts'
import { onClose, openHarness } from '../support/harness.ts'
import { startApi, startTestWorker } from '../support/processes.ts'
import { makeTestSide, newTestAccountId } from '../support/test-side.ts'
import { openRelay } from './relay.ts'

interface KillsReport {
  kills: number
  intents: number
  /** Contracts at the broker. */
  contracts: number
  /** Intents without a contract, and with more than one. */
  lost: number
  doubled: number
  /** What the program ended with, and what the broker's books contain. */
  sum: number
  brokerSum: number
  balance: number
}

const PROGRAM = join(import.meta.dirname, 'trader.ts')
// Requests and responses of a run: before its first order, and for each order.
const PASSES_BEFORE = 4
const PASSES_PER_ORDER = 4

/** Runs the program to its end with so many kills before. `seed` decides where they fall. */
export async function runKills({
  kills,
  orders,
  seed
}: {
  kills: number
  orders: number
  seed: number
}): Promise<KillsReport> {
  const simulator = await startSimulator({ tickMs: 10, seed, limits: 'off', timeScale: 100, magic: true })
  onClose(() => simulator.close())
  const harness = await openHarness({ env: { ...brokerEnv(simulator), TEST_BROKER_URL: simulator.url } })
  await startTestWorker(harness.env)
  // A developer has a test key.
  const { key } = await makeTestSide(harness, await harness.makePartner())
  const first = await startApi(harness.env)
  const relay = await openRelay(first.address)
  const dir = await mkdtemp(join(tmpdir(), 'operator-test-kills-'))
  onClose(() => rm(dir, { recursive: true, force: true }))
  const accountId = newTestAccountId()
  const args = [PROGRAM, relay.address, key, join(dir, 'plan.json'), accountId, String(orders)]
  const random = seeded(seed)

  /** Runs the program. `onPass` is called with each request and response, its number and the program, and returns whether it passes. */
  async function runOnce(onPass: (passed: number, text: string, child: ChildProcess) => boolean) {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let passed = 0
    relay.passing = (_, chunk) => onPass(++passed, chunk, child)
    const [output, [exitCode, signal]] = await Promise.all([
      text(child.stdout),
      once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    ])
    if (exitCode) throw new Error(`the program ended with ${exitCode}: ${output}`)
    return { killed: signal === 'SIGKILL', output }
  }

  let killed = 0
  while (killed < kills) {
    // Among the first two thirds of the list, so that the last run has something left to buy.
    const fatal = 1 + random.below(PASSES_BEFORE + Math.ceil((PASSES_PER_ORDER * orders * 2) / 3))
    const dropped = random.below(2) === 0
    const ran = await runOnce((passed, _, child) => {
      if (passed === fatal) child.kill('SIGKILL')
      return passed !== fatal || !dropped
    })
    if (!ran.killed) throw new Error(`the program ended before its request or response ${fatal}`)
    killed += 1
  }

  const restarted: Promise<unknown>[] = []
  let placed = 0
  const { output } = await runOnce((_, chunk) => {
    if (chunk.includes('POST /v1/orders/binary') && ++placed === Math.ceil((orders * 5) / 6)) {
      first.kill('SIGKILL')
      restarted.push(startApi(harness.env).then(({ address }) => relay.lead(address)))
    }
    return true
  })
  if (restarted.length !== 1) throw new Error('the api was not started again')
  await restarted[0]

  const end = JSON.parse(output.trim().split('\n').at(-1) as string) as { sum: number; balance: number }
  const { intents } = JSON.parse(await readFile(join(dir, 'plan.json'), 'utf8')) as { intents: { stake: number }[] }
  const contracts = simulator.ledger().filter(({ loginid }) => loginid === accountId)
  // Each intent has a stake of its own.
  const counts = intents.map(({ stake }) => contracts.filter(contract => Number(contract.stake) === stake).length)
  const profits = contracts.map(({ profit }) => Number(profit ?? Number.NaN))
  return {
    kills: killed,
    intents: intents.length,
    contracts: contracts.length,
    lost: counts.filter(count => count === 0).length,
    doubled: counts.filter(count => count > 1).length,
    sum: end.sum,
    brokerSum: Math.round(profits.reduce((total, profit) => total + profit, 0) * 100) / 100,
    balance: end.balance
  }
}
