// What a campaign saw: how much was sent, what was returned, and what was wrong.

import type { Problem } from './judge.ts'
import { curlOf, type RawRequest } from './raw-request.ts'
import type { FuzzCase } from './requests.ts'

export interface FuzzViolation extends Problem {
  operation: string
  kind: string
  curl: string
  /** How many more there were of the same operation, class and check. */
  more: number
}

export interface FuzzReport {
  seed: number
  requests: number
  seconds: number
  byOperation: Map<string, number>
  byKind: Map<string, number>
  byStatus: Map<number, number>
  violations: FuzzViolation[]
}

export interface Findings {
  report: FuzzReport
  sent(ask: FuzzCase): void
  answered(status: number): void
  /** Keeps the first of its kind with a curl, and counts the others. */
  wrong(operation: string, kind: string, raw: RawRequest | null, problem: Problem): void
}

/** The findings of a campaign against a server, none yet; `log` is called with each kind as it is found. */
export function openFindings(address: string, seed: number, log?: (line: string) => void): Findings {
  const report: FuzzReport = {
    seed,
    requests: 0,
    seconds: 0,
    byOperation: new Map(),
    byKind: new Map(),
    byStatus: new Map(),
    violations: []
  }
  const known = new Map<string, FuzzViolation>()
  const count = <Key>(counts: Map<Key, number>, key: Key) => counts.set(key, (counts.get(key) ?? 0) + 1)
  return {
    report,
    sent({ operation, kind }) {
      report.requests++
      count(report.byOperation, operation.name)
      count(report.byKind, kind)
    },
    answered: status => void count(report.byStatus, status),
    wrong(operation, kind, raw, problem) {
      const same = `${operation} ${kind} ${problem.check}`
      const first = known.get(same)
      if (first) first.more++
      else {
        const violation = { ...problem, operation, kind, curl: raw ? curlOf(address, raw) : '', more: 0 }
        known.set(same, violation)
        report.violations.push(violation)
        log?.(inWords(violation))
      }
    }
  }
}

/** The report in words. */
export function* describeReport({
  seed,
  requests,
  seconds,
  byOperation,
  byKind,
  byStatus,
  violations
}: FuzzReport): Generator<string> {
  const table = (title: string, counts: Map<string | number, number>) =>
    `${title}:\n${[...counts]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, count]) => `  ${String(name).padEnd(28)}${count}`)
      .join('\n')}`
  yield table('Requests per operation', byOperation)
  yield table('Requests per class', byKind)
  yield table('Answers per status', byStatus)
  yield* violations.map(inWords)
  yield `\nSeed ${seed}: ${requests} requests to ${byOperation.size} operations in ${Math.round(seconds)} s, ${Math.round(requests / seconds)}/s; ${violations.length === 0 ? 'no violation' : `${violations.length} kinds of violations`}.`
}

function inWords({ operation, kind, check, words, curl, more }: FuzzViolation): string {
  return `\n${check}: ${operation} (${kind})${more > 0 ? `, and ${more} more` : ''}\n  ${words}\n  ${curl}`
}
