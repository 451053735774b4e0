// Which processes run: each api and worker keeps a row of its own up to date.
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import about from '../../package.json' with { type: 'json' }
import { type Db, rows } from '../postgres/connection.ts'
import { within } from '../postgres/within.ts'
import type { Log } from './log.ts'

const BEAT_MS = 5000
/** A process that has been silent for longer is taken for gone. */
const GONE_AFTER_MS = 20_000
const LAST_WRITE_MS = 1000

/** What a worker knows of the broker in one dialect. */
export interface BrokerReach {
  dialect: string
  /** UNTRIED until something was opened. */
  state: 'REACHED' | 'UNREACHABLE' | 'UNTRIED'
  /** What cannot be reached, and why; null unless UNREACHABLE. */
  address: string | null
  cause: string | null
  /** For how long it cannot be reached, or how long ago it last could, 0 while a connection is open; null if UNTRIED. */
  seconds: number | null
}

export interface SeenMarkets {
  open: number
  closed: number
  seconds: number
}

/** What a process reports with each heartbeat. */
export interface ProcessReport {
  /** For a worker: what it reaches of the broker, by dialect. */
  broker?: BrokerReach[]
  /** Assets that a worker last saw open and closed, and how long ago, one entry for each dialect but that of test keys. */
  markets?: SeenMarkets[]
}

export interface RunningProcess {
  /** `<host>:<pid>:<random>` */
  name: string
  host: string
  pid: number
  kind: 'api' | 'worker'
  version: string
  /** Where an api listens; null of a worker. */
  address: string | null
  startedAt: Date
  seenAt: Date
  /** How long it has been silent, by the database's clock. */
  silentMs: number
  /** It sent a heartbeat within the last 20 s. */
  alive: boolean
  /** Its report of the last heartbeat; null of one that reports nothing. */
  report: ProcessReport | null
}

/**
 * Puts this process into the list, with its `report`, and keeps it there until the returned function is called. A database that is away delays
 * nothing here: the next beat writes the row again.
 */
export function registerProcess(
  db: Db,
  {
    name,
    kind,
    address = null,
    report,
    log
  }: {
    name: string
    kind: 'api' | 'worker'
    address?: string | null
    report?: () => ProcessReport
    log: Log
  }
): () => Promise<void> {
  let ended = false
  let writing = Promise.resolve()
  const beat = () => {
    writing = rows(
      db,
      `insert into processes (name, kind, version, address, report) values (:name, :kind, :version, :address, :report)
       on conflict (name) do update set seen_at = clock_timestamp(), report = excluded.report`,
      { name, kind, version: about.version, address, report: report ? JSON.stringify(report()) : null }
    ).then(
      () => {},
      (error: unknown) => log.debug({ err: error }, 'the list of processes could not be written')
    )
  }
  beat()
  const timer = setInterval(beat, BEAT_MS)
  timer.unref()
  return async () => {
    if (ended) return
    ended = true
    clearInterval(timer)
    // After a heartbeat under way, which would insert the row again.
    await within(
      LAST_WRITE_MS,
      writing.then(() => rows(db, 'delete from processes where name = :name', { name }))
    ).catch(() => {})
  }
}

/** A name for this process: host, process id and a random part. */
export function newProcessName(): string {
  return `${hostname()}:${process.pid}:${randomBytes(3).toString('hex')}`
}

/** Every process with a heartbeat within a day, apis first, at most 1000. */
export async function listProcesses(db: Db): Promise<RunningProcess[]> {
  const found = await rows<Omit<RunningProcess, 'host' | 'pid' | 'alive'>>(
    db,
    `select name, kind, version, address, report, started_at as "startedAt", seen_at as "seenAt",
            (extract(epoch from clock_timestamp() - seen_at) * 1000)::float8 as "silentMs"
       from processes where seen_at > now() - interval '1 day' order by kind, started_at, name limit 1000`
  )
  return found.map(row => {
    const [, host = '', pid] = /^(.*):(\d+):[^:]*$/.exec(row.name) ?? []
    return { ...row, host, pid: Number(pid), alive: row.silentMs <= GONE_AFTER_MS }
  })
}

/** Forgets processes that have been silent for a day. */
export async function forgetProcesses(db: Db): Promise<void> {
  await rows(db, `delete from processes where seen_at < now() - interval '1 day'`)
}
