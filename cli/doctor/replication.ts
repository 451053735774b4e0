// The servers beside the primary: where DATABASE_URL leads, the standbys that stream from it, and DATABASE_READ_URL.
import { type Db, openDatabase } from '../../db/postgres/connection.ts'
import { listStandbys } from '../../db/postgres/durability.ts'
import { placeOf, type ReachedServer, readServer } from '../../db/postgres/reach.ts'
import { checkStandby } from '../../db/postgres/replica.ts'
import type { Config } from '../../schemas/config/config.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

// Enough to show a proxy that spreads connections over a few servers.
const CONNECTIONS = 6
const BEHIND_WARN_BYTES = 16 * 2 ** 20
const AHEAD_WARN_MS = 1000
// A standby replies every 10 s, or at the interval of its wal_receiver_status_interval.
const SILENT_WARN_MS = 30_000

/** Where the connections of DATABASE_URL end: all at one server that takes writes. Undefined where there is nothing to report. */
export async function checkRoute(url: string): Promise<Finding | undefined> {
  const check = 'database route'
  const servers = await Promise.all(Array.from({ length: CONNECTIONS }, () => readServer(url)))
  const places = [
    ...new Set(servers.map(({ address, port }) => (address === null ? 'a socket' : `${address}:${port}`)))
  ]
  const standbys = servers.filter(({ standby }) => standby).length
  if (standbys > 0) {
    const found = `${standbys} of ${CONNECTIONS} connections led to a standby (${places.join(', ')})`
    return fail(check, found, 'let the proxy lead to the primary alone (Patroni: check /primary)')
  }
  if (places.length > 1)
    return fail(
      check,
      `${CONNECTIONS} connections led to ${places.length} servers that all take writes: ${places.join(', ')}`,
      'only one of them may: stop the others before any process of ours starts'
    )
  const [{ port: reached }] = servers as [ReachedServer]
  // An address of a socket of this machine need not have the form of others: postgresql://user@/database?host=/run/postgresql.
  if (reached === null || Number(new URL(url).port || 5432) === reached) return undefined
  return ok(check, `through a proxy at ${placeOf(url)} to the primary at ${places[0]}`)
}

/** Each standby: whether commits wait for it, how far it is behind, and its clock. */
export async function checkStandbys(db: Db): Promise<Finding[]> {
  const check = 'replication'
  return (await listStandbys(db)).map(({ name, state, synchronous, behindBytes, clockAheadMs }) => {
    const found = `${name}: ${synchronous ? 'synchronous' : 'asynchronous'}, ${state}, ${megabytes(behindBytes)} behind`
    if (clockAheadMs > AHEAD_WARN_MS)
      return warn(
        check,
        `${found}, its clock ${(clockAheadMs / 1000).toFixed(1)} s ahead`,
        'synchronise its clock (NTP)'
      )
    if (clockAheadMs < -SILENT_WARN_MS)
      return warn(
        check,
        `${found}, its last reply ${(-clockAheadMs / 1000).toFixed(0)} s old by its own clock`,
        'synchronise its clock (NTP), or look at its network'
      )
    if (state !== 'streaming' || behindBytes > BEHIND_WARN_BYTES)
      return warn(
        check,
        found,
        'look at its log, its disk and the network: a failover to it takes as long as it needs to catch up'
      )
    return ok(check, found)
  })
}

/** Whether DATABASE_READ_URL can serve reads. */
export async function checkReadUrl(db: Db, config: Config): Promise<Finding[]> {
  if (config.databaseReadUrl === undefined) return []
  const check = 'read replica'
  const advice = 'correct DATABASE_READ_URL or its server; until then the primary serves all reads'
  const standby = openDatabase({ url: config.databaseReadUrl, pool: 1, name: 'doctor' })
  try {
    const { wrong, behindBytes, clockAheadSeconds } = await checkStandby(db, standby)
    const place = placeOf(config.databaseReadUrl)
    if (wrong !== undefined) return [fail(check, `${place}: ${wrong}`, advice)]
    const found = `${place}: ${megabytes(Math.max(0, behindBytes))} behind, its clock ${Math.abs(clockAheadSeconds).toFixed(1)} s apart`
    return [behindBytes > BEHIND_WARN_BYTES ? warn(check, found, advice) : ok(check, found)]
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    return [warn(check, `${placeOf(config.databaseReadUrl)} does not respond (${code ?? message})`, advice)]
  } finally {
    await standby.destroy()
  }
}

const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MB`
