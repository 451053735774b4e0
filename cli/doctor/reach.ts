// What the workers reach of the broker, each by its own word: they run on other machines than this one, as a rule.
import { listBrokerDialects } from '../../db/partners/partners.ts'
import { type BrokerReach, listProcesses } from '../../db/platform/processes.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, fail, ok } from './finding.ts'

const REACH = 'workers reach'
const UNTRIED = 'not needed by any worker yet'

/** Whether workers reach the broker of this dialect, and none has lost one of any dialect. */
export const isReached = (findings: Finding[], dialect: string) =>
  findings.some(({ check, status, found }) => check === REACH && status === 'ok' && found.includes(`${dialect} by `))

export async function checkReach(db: Db): Promise<Finding[]> {
  const workers = (await listProcesses(db)).filter(({ alive, kind }) => alive && kind === 'worker')
  const said = workers.flatMap(({ name, report }) => (report?.broker ?? []).map(reach => ({ name, ...reach })))
  if (said.length === 0) return []
  const lost = said
    .filter(({ state }) => state === 'UNREACHABLE')
    .map(({ name, dialect, address, cause, seconds }) =>
      fail(
        REACH,
        `${name} has not reached ${address} (${dialect}) for ${seconds} s: ${cause}`,
        'look at the network of its machine, and at the address of the broker in its environment'
      )
    )
  const spoken = new Set(said.map(({ dialect }) => dialect))
  const unspoken = (await listBrokerDialects(db))
    .filter(({ dialect }) => !spoken.has(dialect))
    .map(({ dialect, partners }) =>
      fail(
        REACH,
        `${partners} partners use dialect ${dialect}, for which no worker has an address`,
        `set ${dialect === 'v3' ? 'BROKER_URL' : 'BROKER_NEXT_URL'} where workers run, then restart them`
      )
    )
  if (lost.length + unspoken.length > 0) return [...lost, ...unspoken]
  return [ok(REACH, [...spoken].map(dialect => wordsOf(dialect, said)).join('; '))]
}

function wordsOf(dialect: string, said: BrokerReach[]): string {
  const these = said.filter(each => each.dialect === dialect)
  const reached = these.filter(({ state }) => state === 'REACHED')
  if (reached.length === 0) return `${nameOf(dialect)} ${UNTRIED}`
  const seconds = Math.min(...reached.map(each => each.seconds ?? 0))
  const last = seconds === 0 ? 'now' : `last ${seconds} s ago`
  return `${nameOf(dialect)} by ${reached.length} of ${these.length} workers that speak it, ${last}`
}

/** The broker of test keys is no dialect of its own. */
function nameOf(dialect: string): string {
  return dialect === 'test' ? 'test keys' : dialect
}
