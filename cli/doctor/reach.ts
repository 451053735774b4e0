// Whether the workers reach the broker, by their own reports: they usually run on other machines than this one.
import { listBrokerDialects } from '../../db/partners/partners.ts'
import { type BrokerReach, listProcesses } from '../../db/platform/processes.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, fail, ok } from './finding.ts'

const REACH = 'workers reach'
const UNTRIED = 'not needed by any worker yet'

/** Whether workers reach the broker of this dialect, and none has lost one of any dialect. */
export const isReached = (findings: Finding[], dialect: string) =>
  findings.some(({ reached }) => reached?.includes(dialect))

export async function checkReach(db: Db): Promise<Finding[]> {
  const workers = (await listProcesses(db)).filter(({ alive, kind }) => alive && kind === 'worker')
  const reports = workers.flatMap(({ name, report }) => (report?.broker ?? []).map(reach => ({ name, ...reach })))
  if (reports.length === 0) return []
  const lost = reports
    .filter(({ state }) => state === 'UNREACHABLE')
    .map(({ name, dialect, address, cause, seconds }) =>
      fail(
        REACH,
        `${name} has not reached ${address} (${dialect}) for ${seconds} s: ${cause}`,
        'look at the network of its machine, and at the address of the broker in its environment'
      )
    )
  const configured = new Set(reports.map(({ dialect }) => dialect))
  const missing = (await listBrokerDialects(db))
    .filter(({ dialect }) => !configured.has(dialect))
    .map(({ dialect, partners }) =>
      fail(
        REACH,
        `${partners} partners use dialect ${dialect}, for which no worker has an address`,
        `set ${dialect === 'v3' ? 'BROKER_URL' : 'BROKER_NEXT_URL'} where workers run, then restart them`
      )
    )
  if (lost.length + missing.length > 0) return [...lost, ...missing]
  const reached = new Set(reports.filter(({ state }) => state === 'REACHED').map(({ dialect }) => dialect))
  return [{ ...ok(REACH, [...configured].map(dialect => wordsOf(dialect, reports)).join('; ')), reached: [...reached] }]
}

function wordsOf(dialect: string, reports: BrokerReach[]): string {
  const these = reports.filter(each => each.dialect === dialect)
  const reached = these.filter(({ state }) => state === 'REACHED')
  if (reached.length === 0) return `${nameOf(dialect)} ${UNTRIED}`
  const seconds = Math.min(...reached.map(each => each.seconds ?? 0))
  const last = seconds === 0 ? 'now' : `last ${seconds} s ago`
  return `${nameOf(dialect)} by ${reached.length} of ${these.length} workers that use it, ${last}`
}

/** The broker of test keys is no dialect of its own. */
function nameOf(dialect: string): string {
  return dialect === 'test' ? 'test keys' : dialect
}
