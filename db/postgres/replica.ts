// Reads that a standby may serve. Each one first reads how far the primary's log is flushed; the standby serves it once it
// has replayed that much, so that nobody reads what is older than a write acknowledged before the read began, whichever
// process wrote. Otherwise, and whenever the standby is away, the primary serves it.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import { ApiError } from '../../schemas/errors/errors.ts'
import { backOff } from '../platform/back-off.ts'
import type { Log } from '../platform/log.ts'
import { countReplicaRead } from '../platform/metrics.ts'
import { isDataError, share } from './batch.ts'
import { type Db, openDatabase, rows, wasCanceled } from './connection.ts'
import { databaseIdentity } from './lineage.ts'
import { within } from './within.ts'

export interface Reads {
  /**
   * Runs `work`, which only reads, on the standby in a read-only transaction, or on the primary. `work` runs a second time,
   * on the primary, when the standby fails it. now() is never later than what `work` sees.
   */
  run<T>(work: (db: Db) => Promise<T>): Promise<T>
  /** Why the standby serves no reads at present, a sentence; empty while it does, or where there is none. */
  warnings(): string[]
  close(): Promise<void>
}

interface ReadsOptions {
  /** The primary. */
  db: Db
  /** The standby; without it the primary serves all. */
  url: string | undefined
  /** How long a read waits for the standby to have replayed enough. */
  waitMs: number
  /** Connections to the standby at most. */
  pool: number
  log: Pick<Log, 'warn' | 'info'>
}

/** Why a standby did not serve a read. */
class Unserved extends Error {
  readonly reason: 'behind' | 'away'

  constructor(reason: 'behind' | 'away', message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

// After a failure the primary serves everything for this long, and one read tries the standby again.
const REST = { firstMs: 500, mostMs: 10_000 }
const REREADS = { firstMs: 1, mostMs: 10 }
// now() of the standby's transaction becomes `asOf` of responses.
const CLOCKS_APART_SECONDS = 1

/** Opens the reads; nothing connects before the first one. */
export function openReads({ db, url, waitMs, pool, log }: ReadsOptions): Reads {
  if (url === undefined) return { run: work => work(db), warnings: () => [], close: async () => {} }
  const standby = openDatabase({ url, pool, name: 'reads', log })
  const position = share(() => readPosition(db))
  let failures = 0
  let restUntil = 0
  let trying = false
  let trouble: string | undefined

  /** A transaction on the standby that sees all that was acknowledged before this call. */
  async function begin(): Promise<Knex.Transaction> {
    const deadline = performance.now() + waitMs
    const beginning = standby.transaction(undefined, { readOnly: true })
    // A reader that gave up leaves a transaction, which is rolled back here.
    const abandon = () => void beginning.then(trx => trx.rollback()).catch(() => {})
    try {
      const trx = await within(waitMs, beginning)
      // The position is read after the transaction has begun: everything committed before its now() is in it.
      const reached = position('').then(wanted => replayed(trx, wanted, deadline))
      await within(Math.max(1, deadline - performance.now()), reached)
      return trx
    } catch (cause) {
      abandon()
      if (cause instanceof Unserved) throw cause
      throw new Unserved('away', sentence(cause), { cause })
    }
  }

  function served(): void {
    if (failures > 0) log.info({}, 'the standby serves reads again')
    failures = 0
    trouble = undefined
  }

  function failed(error: Unserved): void {
    countReplicaRead(error.reason)
    trouble = `DATABASE_READ_URL: ${error.message}; the primary serves its reads`
    // Reads that ran at the same time fail together and count as one failure.
    if (failures > 0 && performance.now() < restUntil) return
    restUntil = performance.now() + backOff(failures, REST)
    failures += 1
    if (failures === 1) log.warn({ err: error, reason: error.reason }, 'the standby serves no reads; the primary does')
  }

  return {
    async run(work) {
      if (failures > 0 && (trying || performance.now() < restUntil)) {
        countReplicaRead('resting')
        return work(db)
      }
      trying = true
      let trx: Knex.Transaction
      try {
        trx = await begin()
        served()
      } catch (error) {
        failed(error as Unserved)
        return work(db)
      } finally {
        trying = false
      }
      try {
        const found = await work(trx)
        await trx.commit()
        countReplicaRead('replica')
        return found
      } catch (error) {
        void trx.rollback().catch(() => {})
        // The primary would raise the same errors.
        if (error instanceof ApiError || isDataError(error) || wasCanceled(error)) throw error
        failed(new Unserved('away', sentence(error), { cause: error }))
        return work(db)
      }
    },
    warnings: () => (trouble === undefined ? [] : [trouble]),
    close: () => standby.destroy()
  }
}

interface ReplicaPosition {
  lsn: string
  /** The identity of the database and its timeline. */
  identity: string
  epoch: number
  /** When it was requested, on this process's monotonic clock, ms. */
  requestedAt: number
}

/** Up to where the primary's log is on disk: every acknowledged commit ends before it. */
async function readPosition(primary: Db): Promise<ReplicaPosition> {
  const requestedAt = performance.now()
  const [row] = await rows<Omit<ReplicaPosition, 'requestedAt'>>(
    primary,
    `select pg_current_wal_flush_lsn()::text as lsn, ${databaseIdentity} as identity,
            extract(epoch from clock_timestamp())::float8 as epoch`
  )
  return { ...(row as Omit<ReplicaPosition, 'requestedAt'>), requestedAt }
}

/**
 * The identity of the history that a standby replays, as SQL, in the form of `databaseIdentity`. After a change of timeline
 * the new one shows as soon as the standby streams it, which it does only from a point that both histories share, where the
 * user may see that (pg_monitor); else once the standby has written pages of it, at its next restart point at the latest.
 */
const standbyIdentity = `(select system_identifier::text from pg_control_system()) || '/' ||
  lpad(upper(to_hex(greatest((select timeline_id from pg_control_checkpoint()),
                             (select min_recovery_end_timeline from pg_control_recovery()),
                             (select received_tli from pg_stat_wal_receiver)))), 8, '0')`

interface StandbyCheck {
  /** Why it cannot serve reads, if so. */
  wrong: string | undefined
  behindBytes: number
  /** Its clock minus the primary's, in seconds. */
  clockAheadSeconds: number
}

/** Compares a standby with its primary, without waiting. */
export async function checkStandby(primary: Db, standby: Db): Promise<StandbyCheck> {
  const wanted = await readPosition(primary)
  const found = await readStandby(standby, wanted)
  return { wrong: wrongOf(found, wanted), behindBytes: found.behind ?? 0, clockAheadSeconds: found.ahead }
}

interface StandbyRow {
  standby: boolean
  /** Bytes until the position, negative behind it; null where this is no standby. */
  behind: number | null
  identity: string
  ahead: number
}

async function readStandby(standby: Db, { lsn, epoch, requestedAt }: ReplicaPosition): Promise<StandbyRow> {
  const [found] = await rows<StandbyRow>(
    standby,
    `select pg_is_in_recovery() as standby, pg_wal_lsn_diff(:lsn::pg_lsn, pg_last_wal_replay_lsn())::float8 as behind,
            ${standbyIdentity} as identity, extract(epoch from clock_timestamp())::float8 - :epoch::float8 as ahead`,
    { lsn, epoch }
  )
  const row = found as StandbyRow
  // The clock may seem ahead by up to the time between the two readings.
  const betweenSeconds = (performance.now() - requestedAt) / 1000
  return { ...row, ahead: row.ahead < 0 ? row.ahead : Math.max(0, row.ahead - betweenSeconds) }
}

function wrongOf({ standby, behind, identity, ahead }: StandbyRow, wanted: ReplicaPosition): string | undefined {
  if (!standby || behind === null) return 'this server is not a standby'
  // A log of another history has positions that mean nothing here.
  if (identity !== wanted.identity) return 'the standby is on another history than the primary'
  return Math.abs(ahead) > CLOCKS_APART_SECONDS
    ? `the standby's clock is ${ahead.toFixed(1)} s from the primary's`
    : undefined
}

/** Waits until the standby has replayed the log up to a position. Throws Unserved. */
async function replayed(standby: Db, wanted: ReplicaPosition, deadline: number): Promise<void> {
  for (let reads = 0; ; reads++) {
    const startedAt = performance.now()
    const found = await readStandby(standby, wanted)
    const wrong = wrongOf(found, wanted)
    if (wrong !== undefined) throw new Unserved('away', wrong)
    if ((found.behind as number) <= 0) return
    const pauseMs = backOff(reads, REREADS)
    // A read that outlasts the deadline would look like a standby that does not respond: the next takes about as long as this.
    const readMs = performance.now() - startedAt
    if (performance.now() + pauseMs + 2 * readMs >= deadline)
      throw new Unserved('behind', 'the standby is too far behind')
    await sleep(pauseMs)
  }
}

function sentence(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string }
  return `the standby does not respond (${code ?? message})`
}
