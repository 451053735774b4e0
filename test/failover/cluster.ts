// Three machines with PostgreSQL under Patroni, three with etcd, and HAProxy where the service is, with the configuration
// of .deploy/failover as it is.
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import pg from 'pg'
import { until } from '../support/until.ts'
import { HERE, Machine, signal } from './machines.ts'

const CONFIGURATION = resolve(import.meta.dirname, '../../.deploy/failover')
const BIN = '/usr/lib/postgresql/15/bin'
const START_MS = 120_000
const ANSWER_MS = 2000
// More than both waits of .deploy/failover/switchover.
const SWITCH_MS = 150_000

/** A member as Patroni's GET /cluster shows it. */
interface MemberState {
  name: string
  role: string
  state: string
  timeline?: number
  lag?: number | string
}

export interface Cluster {
  /** Through HAProxy: the primary, and the standbys. */
  url: string
  readUrl: string
  port: number
  databases: Machine[]
  etcds: Machine[]
  /** The machine whose Patroni holds the leader key and whose server takes writes; undefined while there is none. */
  primary(): Promise<Machine | undefined>
  synchronousStandby(): Promise<Machine | undefined>
  etcdLeader(): Promise<Machine | undefined>
  /** Resolves with the primary when all machines serve: a primary, a synchronous standby, another one, and etcd. */
  whole(): Promise<Machine>
  /** Whether a member counts on a primary that could not reach etcd. */
  failsafe(): Promise<boolean>
  /** Runs .deploy/failover/switchover, a planned change of primary; resolves with what it printed. */
  switchOver(from: Machine): Promise<string>
  /** Ids of the server's processes of a machine, the postmaster first. */
  serverPids(machine: Machine): number[]
  stop(): Promise<void>
}

/** Starts everything; resolves when all of it serves and the database is there. */
export async function openCluster(dir: string): Promise<Cluster> {
  const etcds = [21, 22, 23].map((number, index) => new Machine(`etcd-${index + 1}`, number))
  const databases = [11, 12, 13].map((number, index) => new Machine(`db-${index + 1}`, number))
  const home = (name: string) => {
    const path = join(dir, name)
    mkdirSync(path)
    execFileSync('chown', ['postgres:postgres', path])
    chmodSync(path, 0o700)
    return path
  }
  const log = (name: string) => join(dir, `${name}.log`)
  const common = parseEnv(readFileSync(join(CONFIGURATION, 'etcd.env'), 'utf8')) as Record<string, string>
  for (const machine of etcds) {
    const { name, address } = machine
    const [peer, client] = [`http://${address}:2380`, `http://${address}:2379`]
    const env = {
      ...common,
      ETCD_NAME: name,
      ETCD_DATA_DIR: join(home(name), 'data'),
      ETCD_LISTEN_PEER_URLS: peer,
      ETCD_INITIAL_ADVERTISE_PEER_URLS: peer,
      ETCD_LISTEN_CLIENT_URLS: client,
      ETCD_ADVERTISE_CLIENT_URLS: client
    }
    machine.run(['/usr/bin/etcd'], env, log(name))
  }
  const password = () => randomBytes(12).toString('hex')
  const [superuser, replication, rewind, service] = [password(), password(), password(), password()]
  // Out of the checkout, which the user postgres may be unable to enter.
  const patroniFile = join(dir, 'patroni.yml')
  execFileSync('install', ['-m', '644', join(CONFIGURATION, 'patroni.yml'), patroniFile])
  const data = new Map<Machine, string>()
  for (const machine of databases) {
    const { name, address } = machine
    const place = home(name)
    data.set(machine, join(place, 'data'))
    const env = {
      PATRONI_NAME: name,
      PATRONI_RESTAPI_LISTEN: `${address}:8008`,
      PATRONI_RESTAPI_CONNECT_ADDRESS: `${address}:8008`,
      PATRONI_POSTGRESQL_LISTEN: `${address}:5432`,
      PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${address}:5432`,
      PATRONI_POSTGRESQL_DATA_DIR: join(place, 'data'),
      PATRONI_POSTGRESQL_BIN_DIR: BIN,
      PATRONI_POSTGRESQL_PGPASS: join(place, 'pgpass'),
      PATRONI_SUPERUSER_USERNAME: 'postgres',
      PATRONI_SUPERUSER_PASSWORD: superuser,
      PATRONI_REPLICATION_USERNAME: 'replicator',
      PATRONI_REPLICATION_PASSWORD: replication,
      PATRONI_REWIND_USERNAME: 'rewinder',
      PATRONI_REWIND_PASSWORD: rewind
    }
    machine.run(['/usr/bin/patroni', patroniFile], env, log(name))
  }
  const proxyLog = openSync(log('haproxy'), 'a')
  const proxy: ChildProcess = spawn('/usr/sbin/haproxy', ['-db', '-f', join(CONFIGURATION, 'haproxy.cfg')], {
    stdio: ['ignore', proxyLog, proxyLog]
  })

  const members = async (): Promise<MemberState[]> => {
    const answers = databases
      .filter(({ frozen }) => !frozen)
      .map(async ({ address }) => {
        const { status, body } = await ask(`http://${address}:8008/cluster`)
        if (status !== 200) throw new Error(`Patroni answered ${status}.`)
        return (body as { members: MemberState[] }).members
      })
    return Promise.any(answers).catch(() => [])
  }
  const named = (name: string | undefined) => databases.find(machine => machine.name === name)
  const cluster: Cluster = {
    url: `postgres://operator:${service}@${HERE}:5000/operator`,
    readUrl: `postgres://operator:${service}@${HERE}:5001/operator`,
    port: 5000,
    databases,
    etcds,
    async primary() {
      const found = await Promise.all(
        databases.map(async machine => {
          if (machine.frozen) return undefined
          const { status } = await ask(`http://${machine.address}:8008/primary`)
          return status === 200 ? machine : undefined
        })
      )
      return found.find(machine => machine !== undefined)
    },
    synchronousStandby: async () => named((await members()).find(({ role }) => role === 'sync_standby')?.name),
    async etcdLeader() {
      const found = await Promise.all(
        etcds.map(async machine => {
          if (machine.frozen) return undefined
          const { body } = await ask(`http://${machine.address}:2379/v3/maintenance/status`, {
            method: 'POST',
            body: '{}'
          })
          const { leader, header } = (body || {}) as { leader?: string; header?: { member_id: string } }
          return leader !== undefined && leader === header?.member_id ? machine : undefined
        })
      )
      return found.find(machine => machine !== undefined)
    },
    whole: () =>
      until(
        'three machines that serve, one of them a synchronous standby, and etcd',
        async () => {
          const [states, primary, leader] = [await members(), await cluster.primary(), await cluster.etcdLeader()]
          const well = states.filter(({ state }) => state === 'running' || state === 'streaming')
          const timelines = new Set(states.map(({ timeline }) => timeline))
          const healthy = await Promise.all(
            etcds.map(async ({ address }) => (await ask(`http://${address}:2379/health`)).status === 200)
          )
          return (
            leader &&
            healthy.every(Boolean) &&
            well.length === databases.length &&
            timelines.size === 1 &&
            states.some(({ role }) => role === 'sync_standby') &&
            states.every(({ role, lag }) => role === 'leader' || (typeof lag === 'number' && lag < 16 * 2 ** 20)) &&
            primary
          )
        },
        START_MS
      ),
    async failsafe() {
      const found = await Promise.all(databases.map(({ address }) => ask(`http://${address}:8008/patroni`)))
      return found.some(({ body }) => (body as { failsafe_mode_is_active?: boolean })?.failsafe_mode_is_active === true)
    },
    async switchOver(from) {
      const address = `http://${from.address}:8008`
      const { stdout } = await promisify(execFile)(join(CONFIGURATION, 'switchover'), [address], { timeout: SWITCH_MS })
      return stdout.trim().replaceAll('\n', '; ')
    },
    serverPids(machine) {
      const [first] = readFileSync(join(data.get(machine) as string, 'postmaster.pid'), 'utf8').split('\n')
      const children = readFileSync(`/proc/${first}/task/${first}/children`, 'utf8').split(' ').filter(Boolean)
      return [first, ...children].map(Number)
    },
    async stop() {
      for (const machine of [...databases, ...etcds]) await machine.kill()
      if (proxy.pid !== undefined) signal(proxy.pid, 'SIGKILL')
    }
  }
  try {
    await cluster.whole()
    await createDatabase(superuser, service)
    return cluster
  } catch (error) {
    for (const { name } of [...etcds, ...databases])
      console.log(`${name}: ${(await readFile(log(name), 'utf8')).split('\n').slice(-8).join('\n')}`)
    await cluster.stop()
    throw error
  }
}

async function createDatabase(superuser: string, service: string): Promise<void> {
  const client = new pg.Client({ connectionString: `postgres://postgres:${superuser}@${HERE}:5000/postgres` })
  await client.connect()
  await client.query(`create role operator login password '${service}'`)
  // operator doctor sees standbys only with it.
  await client.query('grant pg_monitor to operator')
  await client.query('create database operator owner operator')
  await client.end()
}

/** One request; status 0 when there was no response in time. */
async function ask(
  url: string,
  { timeoutMs = ANSWER_MS, ...init }: RequestInit & { timeoutMs?: number } = {}
): Promise<{ status: number; body: unknown }> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(timeoutMs) })
    const text = await response.text()
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text }
  } catch {
    return { status: 0, body: undefined }
  }
}
