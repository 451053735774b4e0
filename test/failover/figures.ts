// What faults cost: the figures of one run, and of all runs that were recorded in a file.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { ClusterFault } from './faults.ts'

/** What a fault cost. */
export interface Cost {
  kind: string
  of: ClusterFault['of']
  /** The longest time between two acknowledged orders, from the fault until all was whole again. */
  silentMs: number
}

/** A run, as a line of the file. */
export interface Batch {
  seed: number
  dialect: string
  costs: Cost[]
  orders: number
  events: number
  wrong: string[]
}

/** Adds a run to the file, which is made where it is missing. */
export function recordBatch(file: string, batch: Batch): void {
  appendFileSync(file, `${JSON.stringify(batch)}\n`)
}

/** The sum of the runs in a file, a line each. */
export function describeBatches(file: string): string[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const batches = text
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line) as Batch)
  const sum = (of: (batch: Batch) => number) => batches.reduce((total, batch) => total + of(batch), 0)
  return [
    `${batches.length} runs: ${sum(({ costs }) => costs.length)} faults, ${sum(({ orders }) => orders)} orders, ` +
      `${sum(({ events }) => events)} events received, ${sum(({ wrong }) => wrong.length)} violations`,
    ...describe(batches.flatMap(({ costs }) => costs))
  ]
}

/** A time in words. */
export const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`

/** A line for planned faults, one for unplanned ones, and one for each kind. */
export function describe(costs: Cost[]): string[] {
  const line = (name: string, of: Cost[]) => {
    const sorted = of.map(({ silentMs }) => silentMs).sort((a, b) => a - b)
    const at = (share: number) => seconds(sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] as number)
    return `${name}: ${sorted.length}, without an acknowledged order p50 ${at(0.5)}, p99 ${at(0.99)}, most ${at(1)}`
  }
  const groups: [string, Cost[]][] = [
    ['planned', costs.filter(({ of }) => of === 'planned')],
    ['unplanned, of the primary', costs.filter(({ of }) => of === 'primary')],
    ['unplanned, of standby and etcd', costs.filter(({ of }) => of === 'standby' || of === 'etcd')],
    ...[...new Set(costs.map(({ kind }) => kind))]
      .sort()
      .map((kind): [string, Cost[]] => [`  ${kind}`, costs.filter(each => each.kind === kind)])
  ]
  return groups.filter(([, of]) => of.length > 0).map(([name, of]) => line(name, of))
}
