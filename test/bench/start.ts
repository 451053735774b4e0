// Start: an API process to its first response, and `operator run --once`, which is what `make run` does up to the
// settled order of its demonstration.
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { removeEmbedded } from '../../db/embedded.ts'
import { print, range, verdict } from './report.ts'
import { median, setStage } from './stage.ts'

const STARTS = 5
const RUNS = 3

/** Starts of the API on a database that runs, and whole runs on a fresh and on a used data directory. */
export async function start(): Promise<void> {
  const stage = await setStage()
  const times: number[] = []
  // The first start of all compiles, and keeps what the others only read.
  for (let round = 0; round <= STARTS; round++) {
    const api = await stage.startApi()
    if (round > 0) times.push(api.readyMs)
    api.child.kill('SIGTERM')
  }
  await stage.close()
  const fresh: number[] = []
  const again: number[] = []
  for (let round = 0; round < RUNS; round++) {
    const dataDir = mkdtempSync(join(tmpdir(), 'service-bench-run-'))
    // Root's server runs as another user.
    chmodSync(dataDir, 0o711)
    fresh.push(await runOnce(dataDir))
    again.push(await runOnce(dataDir))
    await removeEmbedded(dataDir)
  }
  print(
    'Start, with dependencies installed and compiled code cached',
    ['what', 'takes', 'goal'],
    [
      ['API process to its first response', range(times, ' ms'), verdict('< 1000 ms', median(times) < 1000)],
      ['make run to the settled five-tick order, first time', range(fresh, ' s', 1), ''],
      ['make run to the settled five-tick order, again', range(again, ' s', 1), '']
    ]
  )
}

/** Seconds from the command to the order's response. */
async function runOnce(dataDir: string): Promise<number> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, DATA_DIR: dataDir, PORT: '0' }
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--require', './.node-version.cjs', 'cli/main.ts', 'run', '--once', '--json'],
    { env }
  )
  const { order, tookMs } = JSON.parse(stdout) as { order: { status: string } | null; tookMs: number }
  if (order?.status !== 'CLOSED') throw new Error(`the demonstration's order is ${order?.status}`)
  return tookMs / 1000
}
