// The scene: a simulated broker of the newer dialect with its published quotas, an API, workers as processes, and the
// accounts of several partners, each of whom has an application of its own.
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { heapFlags } from '../../cli/run/heap.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { type Simulator, startSimulator } from '../../worker/simulator/server.ts'
import { ChaosMember } from '../chaos/members.ts'
import { onClose, openHarness } from '../support/harness.ts'
import type { Owned } from './load.ts'

export interface SceneOptions {
  workers: number
  accounts: number
  partners: number
  /** LEASE_MS, and REST calls a minute that the broker grants. */
  leaseMs: number
  restCalls: number
  seed: number
  /** A migrated database; without it, one of the tests'. */
  url?: string
  env?: Record<string, string>
}

export interface Scene {
  db: Db
  simulator: Simulator
  workers: ChaosMember[]
  accounts: Owned[]
  /** Names of leases by worker, of those that live. */
  namesOf(members: ChaosMember[]): Promise<string[]>
}

const MADE_AT_ONCE = 8
// As a nice value.
const PRECEDENCE = 10

/**
 * Gives the broker, the api and the clients, which are in this process, precedence over the workers: they stand for other machines, and where
 * they waited for the processor behind forty processes, their own pauses would be measured. Returns how workers are started
 * without it; nothing where that is not permitted.
 */
function takePrecedence(): string[] {
  try {
    setPriority(-PRECEDENCE)
    onClose(async () => setPriority(0))
    return ['nice', '-n', String(PRECEDENCE)]
  } catch {
    return []
  }
}

/** Opens it; the workers are not started. */
export async function openScene(options: SceneOptions): Promise<Scene> {
  const simulator = await startSimulator({
    tickMs: 250,
    seed: options.seed,
    latencyMs: 5,
    limits: 'published',
    restCalls: options.restCalls
  })
  onClose(() => simulator.close())
  const harness = await openHarness({
    ...(options.url ? { url: options.url } : {}),
    env: {
      BROKER_URL: simulator.url,
      BROKER_NEXT_URL: simulator.nextUrl,
      BROKER_NEXT_APP_HEADER: simulator.appIdHeader,
      BROKER_NEXT_CALLS: String(options.restCalls),
      BROKER_DIALECT: 'next',
      LEASE_MS: String(options.leaseMs),
      DATABASE_POOL: '5',
      ...options.env
    }
  })
  const { db } = harness.services
  const logs = mkdtempSync(join(tmpdir(), 'operator-workers-'))
  onClose(() => rm(logs, { recursive: true, force: true }))
  const [command = process.execPath, ...before] = [...takePrecedence(), process.execPath]
  const workers = Array.from({ length: options.workers }, (_, index) => {
    const name = `worker-${index + 1}`
    const member = new ChaosMember({
      kind: 'worker',
      name,
      command,
      args: [...before, ...heapFlags, '--require', './.node-version.cjs', 'worker/main.ts'],
      env: { ...harness.env, LOG_LEVEL: 'info' },
      log: join(logs, `${name}.log`)
    })
    onClose(() => member.retire())
    return member
  })
  const partners = await Promise.all(
    Array.from({ length: options.partners }, async (_, index) => {
      const partner = await harness.makePartner({ name: `Partner ${index + 1}` })
      const appId = `app-W${index + 1}`
      await rows(db, 'update partners set broker_app_id = :appId where id = :partnerId', { ...partner, appId })
      return partner
    })
  )
  const accounts: Owned[] = []
  await Promise.all(
    Array.from({ length: MADE_AT_ONCE }, async (_, lane) => {
      for (let index = lane; index < options.accounts; index += MADE_AT_ONCE) {
        const partner = partners[index % partners.length] as Owned['partner']
        accounts.push({ partner, trader: await partner.makeTrader() })
      }
    })
  )
  return {
    db,
    simulator,
    workers,
    accounts,
    async namesOf(members) {
      const pids = new Set(members.map(({ pid }) => String(pid)))
      const found = await rows<{ name: string }>(db, 'select name from lease_holders', {})
      return found.map(({ name }) => name).filter(name => name.split(':').some(part => pids.has(part)))
    }
  }
}
