// What the processes themselves logged: a request may have a right response and still leave an error behind.
import type { TestProcess } from '../support/processes.ts'

const ERROR = 50
const MOST = 20

// Node's own, about libraries.
const WARNING = /^\(node:\d+\)|^\(Use `node|^ {4}at /

/** Lines of the logs at level error and above, and what is no log line; at most 20 of each process. */
export function complaintsOf(processes: TestProcess[]): string[] {
  return processes.flatMap(({ child, lines }) => {
    const bad = lines.filter(line => {
      if (!line.startsWith('{')) return line.trim() !== '' && !WARNING.test(line)
      const level = /^\{"level":(\d+)/.exec(line)?.[1] ?? (JSON.parse(line) as { level?: number }).level
      return Number(level) >= ERROR
    })
    const ended = child.exitCode === null && child.signalCode === null ? [] : [`${child.spawnargs[1]} ended on the way`]
    return [...ended, ...bad.slice(0, MOST)]
  })
}
