// The doctor's checks of the database: reachable, new enough, migrated, readable with our keys, its queues worked on, its clock near ours.

import { listWrongClocks } from '../../db/orders/leases.ts'
import { listOrders } from '../../db/orders/listing.ts'
import { listAppRefusals } from '../../db/platform/app-refusals.ts'
import { openPepper, openVault, tokenKeysOf, type Vault } from '../../db/platform/crypto.ts'
import { listHalts } from '../../db/platform/halts.ts'
import { listProcesses } from '../../db/platform/processes.ts'
import { QUEUE_CONNECTIONS } from '../../db/platform/queue.ts'
import { declaredQueues, readQueueDepths } from '../../db/platform/queue-depths.ts'
import { locateDatabase, OLDEST_VERSION } from '../../db/platform/store.ts'
import { countSealed } from '../../db/platform/token-rotation.ts'
import { type Db, openDatabase, wasCanceled } from '../../db/postgres/connection.ts'
import { readDurability } from '../../db/postgres/durability.ts'
import { isCopy } from '../../db/postgres/lineage.ts'
import { migrationStatus, UTF8 } from '../../db/postgres/migrations.ts'
import { placeOf, type Reached, reachDatabase, readMostConnections } from '../../db/postgres/reach.ts'
import { findWithheld } from '../../db/postgres/roles.ts'
import { findWrongTraderDays, type WrongDay } from '../../db/traders/days.ts'
import { type Config, ConfigError } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { deadLetterOf, type QueueName, queues } from '../../schemas/jobs.ts'
import { checkAnalytics, checkTimeZones } from './analytics.ts'
import { checkArchive } from './archive.ts'
import { checkInstallations } from './around.ts'
import { checkEvents } from './events.ts'
import { type Finding, fail, ok, warn } from './finding.ts'
import { checkReach } from './reach.ts'
import { checkReadUrl, checkRoute, checkStandbys } from './replication.ts'
import { checkSettlements } from './settlements.ts'
import { checkTicks } from './ticks.ts'
import { checkWebhooks } from './webhooks.ts'

const SKEW_WARN_MS = 1000
const SKEW_FAIL_MS = 30_000
const WAITING_WARN_SECONDS = 60
const SUMMED_DAYS = 3

/** Checks everything about the database. A check that cannot run, usually because an earlier one failed, is left out. */
export async function checkDatabase(config: Config): Promise<Finding[]> {
  let place: Awaited<ReturnType<typeof locateDatabase>>
  try {
    place = await locateDatabase(config, () => {})
  } catch (error) {
    return [fail('database', textOf(error), `look into postgres.log in ${config.dataDir}`)]
  }
  const db = openDatabase({ url: place.url, pool: 2, name: 'doctor' })
  const found: Finding[] = []
  try {
    const requestedAt = Date.now()
    const reached = await reachDatabase(place.url)
    const skewMs = Math.abs(reached.now.getTime() - (requestedAt + Date.now()) / 2)
    found.push(
      checkVersion(reached.majorVersion, config.databaseUrl ? placeOf(place.url) : 'embedded'),
      checkSkew(skewMs)
    )
    found.push(...checkSessions(reached))
    const route = await checkRoute(place.url)
    if (route) found.push(route)
    if (route?.status === 'fail') return found
    const migrations = await checkMigrations(db)
    found.push(migrations)
    if (migrations.status === 'fail') return found
    found.push(...(await checkOrigin(db)), await checkRole(db), ...(await checkKeys(db, config)))
    found.push(...(await checkQueues(db)))
    found.push(await checkDurability(db), ...(await checkStandbys(db)), ...(await checkReadUrl(db, config)))
    found.push(await checkWorkerClocks(db))
    found.push(
      await checkProcesses(db),
      ...(await checkConnections(db, config)),
      ...(await checkReach(db)),
      ...(await checkHalts(db))
    )
    found.push(...(await checkInstallations(db, config)))
    found.push(await checkReview(db))
    found.push(...(await checkSettlements(db)))
    found.push(
      await checkEvents(db),
      ...(await checkTicks(db)),
      await checkAnalytics(db),
      await checkTimeZones(db),
      await checkArchive(db, config),
      await checkWebhooks(db)
    )
    found.push(...(await checkApplications(db)))
    found.push(await checkSums(db))
    return found
  } catch (error) {
    return [...found, fail('database', textOf(error), 'then run this again: nothing more about it could be checked')]
  } finally {
    await db.destroy()
    await place.stop()
  }
}

/** What a connection shows of the server: whether our sessions can work with it. */
function checkSessions({ encoding, readOnly, unfit, unlimited }: Reached): Finding[] {
  const found: Finding[] = []
  if (encoding !== UTF8)
    found.push(
      fail(
        'encoding',
        `${encoding}: names of other letters are refused, or lengths are those of bytes`,
        `dump it, and restore it into a database of ${UTF8}`
      )
    )
  if (readOnly !== undefined)
    found.push(fail('writes', readOnly, 'name the primary in DATABASE_URL, or reset that setting'))
  for (const reason of unfit) found.push(fail('sessions', reason, 'no process of ours starts before that'))
  if (unlimited)
    found.push(
      warn(
        'sessions',
        'a pooler drops the time limits of our sessions: one that is stuck holds others up for ever',
        'set lock_timeout to 10s, statement_timeout and idle_in_transaction_session_timeout to 30s for the role'
      )
    )
  return found
}

/** Whether the schema is the one of this version; nothing more can be checked where it is not. */
async function checkMigrations(db: Db): Promise<Finding> {
  const { applied, pending, newer, elsewhere } = await migrationStatus(db)
  if (elsewhere !== undefined)
    return fail(
      'migrations',
      `the tables are in the schema ${elsewhere}, which the search_path of this role leaves out`,
      'add it by `alter role … set search_path`, or of the database'
    )
  if (pending.length > 0) return fail('migrations', `${pending.length} are missing`, 'run `operator db migrate`')
  return newer.length > 0
    ? warn(
        'migrations',
        `${newer.length} are of a newer version than this one`,
        'end the upgrade: start all of the newer version'
      )
    : ok('migrations', `${applied.length} applied, none missing`)
}

function checkVersion(version: number, place: string): Finding {
  return version >= OLDEST_VERSION
    ? ok('database', `PostgreSQL ${version} (${place})`)
    : fail('database', `PostgreSQL ${version} (${place})`, `use PostgreSQL ${OLDEST_VERSION} or later`)
}

/** Whether this is a restored dump whose origin may still be in use. */
async function checkOrigin(db: Db): Promise<Finding[]> {
  if (!(await isCopy(db))) return []
  const found = 'this database is a copy that no worker has worked on yet'
  return [
    warn(
      'origin',
      found,
      'start workers once those at its origin have ended: both would use up the same refresh tokens'
    )
  ]
}

/** Finds grants that are missing: a migration was run by another role than the owner, or default grants were revoked. */
async function checkRole(db: Db): Promise<Finding> {
  const check = 'role'
  const withheld = await findWithheld(db)
  if (withheld.length === 0) return ok(check, 'may use every table and function')
  const more = withheld.length > 3 ? ` and ${withheld.length - 3} more` : ''
  return fail(
    check,
    `may not use ${withheld.slice(0, 3).join(', ')}${more}`,
    'run `operator db grant ROLE` as the owner of these'
  )
}

function checkSkew(skewMs: number): Finding {
  const measured = `${(skewMs / 1000).toFixed(1)} s apart from the database's`
  if (skewMs > SKEW_FAIL_MS) return fail('clock', measured, 'synchronise the clocks (NTP): orders would expire at once')
  if (skewMs > SKEW_WARN_MS) return warn('clock', measured, 'synchronise the clocks (NTP)')
  return ok('clock', measured)
}

/** Commits that count must survive the server's crash, and its loss where there is a standby. */
async function checkDurability(db: Db): Promise<Finding> {
  const { off, standbys, synchronousStandbys, hiddenStandbys } = await readDurability(db)
  const check = 'durability'
  if (off.length > 0)
    return fail(
      check,
      `${off.join(' and ')} off: a crash loses orders that were sent`,
      'set it to on in postgresql.conf'
    )
  if (hiddenStandbys > 0)
    return warn(check, `there are standbys, and this user may not see their state`, 'grant it the role pg_monitor')
  if (standbys > 0 && synchronousStandbys === 0) {
    const found = `${standbys} standbys, none of them synchronous: a failover loses orders that were sent`
    return fail(check, found, 'name a standby in synchronous_standby_names')
  }
  const replicated = standbys > 0 ? `, ${synchronousStandbys} of ${standbys} standbys synchronous` : ''
  return ok(check, `commits reach the disk${replicated}`)
}

async function checkWorkerClocks(db: Db): Promise<Finding> {
  const wrong = await listWrongClocks(db, SKEW_WARN_MS)
  if (wrong.length === 0) return ok('worker clocks', "within a second of the database's")
  const found = wrong.map(({ worker, offsetMs }) => `${worker} is ${(offsetMs / 1000).toFixed(1)} s off`).join(', ')
  return warn('worker clocks', found, 'synchronise these machines (NTP)')
}

async function checkKeys(db: Db, config: Config): Promise<Finding[]> {
  const check = 'token keys'
  let vault: Vault
  try {
    vault = openVault(tokenKeysOf(config))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [fail(check, error.message, 'correct TOKEN_KEYS')]
  }
  const sealed = await countSealed(db)
  const unknown = sealed.filter(({ keyId }) => !vault.keyIds.includes(keyId))
  if (unknown.length > 0) {
    const counts = unknown.map(each => `${allOf(each)} secrets are sealed under '${each.keyId}'`).join(', ')
    return [fail(check, `${counts}, which TOKEN_KEYS lacks`, 'add that key behind the first one of TOKEN_KEYS')]
  }
  try {
    // Only with sealed secrets: otherwise this would create the pepper.
    if (sealed.some(({ secrets }) => secrets > 0)) await openPepper(db, vault)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return [fail(check, error.message, 'use the TOKEN_KEYS this database was used with')]
  }
  const old = sealed.filter(({ keyId }) => keyId !== vault.keyId)
  if (old.length > 0) {
    const count = old.reduce((sum, each) => sum + allOf(each), 0)
    return [warn(check, `${count} secrets are still sealed under an older key`, 'run `operator tokens rotate`')]
  }
  return [ok(check, `all sealed under '${vault.keyId}'`)]
}

/** Everything that is sealed under a key: tokens, and the secrets of webhooks, reports, kept responses and the installation. */
function allOf({ keyId: _, ...counts }: Awaited<ReturnType<typeof countSealed>>[number]): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}

async function checkQueues(db: Db): Promise<Finding[]> {
  const declared = new Set(await declaredQueues(db))
  const names = (Object.keys(queues) as QueueName[]).flatMap(name => [name, deadLetterOf(name)])
  const missing = names.filter(name => !declared.has(name))
  if (missing.length > 0)
    return [fail('queues', `not declared in the database: ${missing.join(', ')}`, 'run `operator db migrate`')]
  const depths = await readQueueDepths(db)
  const dead = depths.filter(({ deadLetters }) => deadLetters > 0)
  const late = depths.filter(({ oldestWaitingSeconds }) => (oldestWaitingSeconds ?? 0) > WAITING_WARN_SECONDS)
  const found: Finding[] = []
  if (late.length > 0) {
    const waits = late.map(({ queue, oldestWaitingSeconds }) => `${queue} for ${oldestWaitingSeconds} s`).join(', ')
    found.push(warn('queues', `work waits: ${waits}`, 'start workers, or more of them; see `operator queues status`'))
  }
  if (dead.length > 0) {
    const counts = dead.map(({ queue, deadLetters }) => `${deadLetters} in ${queue}`).join(', ')
    found.push(warn('queues', `failed for good: ${counts}`, 'see the log, then `operator queues retry QUEUE`'))
  }
  return found.length > 0 ? found : [ok('queues', `${depths.length} declared, nothing waits for long`)]
}

/** Which of our processes run, by their heartbeats. */
async function checkProcesses(db: Db): Promise<Finding> {
  const running = (await listProcesses(db)).filter(({ alive }) => alive)
  const count = (kind: 'api' | 'worker') => running.filter(each => each.kind === kind).length
  const missing = (['api', 'worker'] as const).filter(kind => count(kind) === 0)
  if (missing.length > 0)
    return warn('processes', `no ${missing.join(' and no ')} runs`, 'start it, unless that is meant')
  const versions = [...new Set(running.map(({ version }) => version))]
  const found = `${count('api')} api and ${count('worker')} worker run`
  return versions.length === 1
    ? ok('processes', `${found}, version ${versions[0]}`)
    : warn(
        'processes',
        `${found}, versions ${versions.join(' and ')}`,
        'finish the upgrade; see `operator processes list`'
      )
}

// Connections of a process beside its pool: those of the queue, the one of the bus, and for a worker the one that holds the test broker's books.
const BESIDE_POOL = { api: QUEUE_CONNECTIONS.sender + 1, worker: QUEUE_CONNECTIONS.worker + 2 }

/** Whether the processes that run may need more connections than the server has, if all have this DATABASE_POOL. */
async function checkConnections(db: Db, { databasePool }: Config): Promise<Finding[]> {
  const running = (await listProcesses(db)).filter(({ alive }) => alive)
  const needed = running.reduce((sum, { kind }) => sum + databasePool + BESIDE_POOL[kind], 0)
  const most = await readMostConnections(db)
  if (needed <= most) return []
  return [
    warn(
      'connections',
      `the ${running.length} processes that run may need ${needed}, and PostgreSQL has ${most} for them`,
      `raise max_connections, or the limit of the role or the database, or lower DATABASE_POOL, ${databasePool} here`
    )
  ]
}

/** A halt set by an operator is no fault, but is easily forgotten. */
async function checkHalts(db: Db): Promise<Finding[]> {
  const halts = await listHalts(db)
  if (halts.length === 0) return [ok('trading', 'placing is halted for nobody')]
  return halts.map(({ scope, subject, reason, actor, haltedAt }) =>
    warn(
      'trading',
      `placing is halted for ${subject === null ? 'everybody' : `${scope} ${subject}`} since ${haltedAt.toISOString()} by ${actor}: ${reason}`,
      `\`operator trading resume${subject === null ? '' : ` --${scope} ${subject}`}\` once that is over`
    )
  )
}

async function checkReview(db: Db): Promise<Finding> {
  const { orders, nextCursor } = await listOrders(db, { review: true, limit: 100 })
  if (orders.length === 0) return ok('review', 'no order waits for a decision')
  const count = `${orders.length}${nextCursor ? ' or more' : ''}`
  return warn('review', `${count} orders wait for a decision`, 'see `operator orders list --status REVIEW`')
}

/** Applications that the workers saw refused in the last minutes. */
async function checkApplications(db: Db): Promise<Finding[]> {
  const refused = await listAppRefusals(db)
  return refused.map(({ dialect, appId, partners, firstAt }) =>
    fail(
      'broker_app_refused',
      `the broker refuses application ${appId} in ${dialect} since ${firstAt.toISOString()} (${partners.join(', ') || 'no partner has it now'})`,
      'register the application with the broker, or `operator partners set-broker` with the right id; a token of another application reads the same, but stops its own trader alone'
    )
  )
}

/** Only the last days: every order closed in them is read, which may take longer than a statement may. */
async function checkSums(db: Db): Promise<Finding> {
  let wrong: WrongDay[]
  try {
    wrong = await findWrongTraderDays(db, { days: SUMMED_DAYS })
  } catch (error) {
    return warn('sums', `could not be checked: ${textOf(error)}`, 'run this again when there is less to do')
  }
  const [first] = wrong
  if (!first) return ok('sums', `what traders made in the last ${SUMMED_DAYS} days agrees with their orders`)
  const found = `${wrong.length} days of traders are not the sums of their orders, the first ${first.day} of ${first.traderId}`
  const mark = `insert into trader_days_late values ('${first.partnerId}', '${first.traderId}', '${first.day}')`
  return warn('sums', found, `mark each, so that the workers recompute it: ${mark}`)
}

function textOf(error: unknown): string {
  if (error instanceof ApiError || error instanceof ConfigError) return error.message
  if (wasCanceled(error)) return 'took too long'
  const { code, message } = error as { code?: string; message: string }
  return code ? `failed with ${code}` : message
}
