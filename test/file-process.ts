// What the processes that run test files have in common: their bounds, their end, and the CPU time they took.
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const leftOpen = pathToFileURL(`${import.meta.dirname}/support/left-open.ts`).href
/** Of node, for a process that runs test files. V8 begins with 1 MB for what is young, and collects it dozens of times while modules load. */
export const nodeArgs = ['--min-semi-space-size=16', '--import', leftOpen]
export const OUTPUT_LIMIT = 4_000_000
/** How long a process may live after its last test. */
export const LINGER_MS = 10_000
/** How long a process that is about to be ended has to print what it waits for. */
export const PRINT_MS = 500

/** How a file or its process ended. */
export interface Ended {
  code: number | null
  killedBy: NodeJS.Signals | null
  output: string
  /** Set when we ended the process. */
  cut?: 'time' | 'linger' | undefined
  timeoutMs: number
  cpuMs: number
}

/** CPU time of our ended children (and theirs) so far, from /proc, for Node has no call for it; 0 elsewhere. */
export function childrenCpuMs(): number {
  if (process.platform !== 'linux') return 0
  // After the name, which may hold spaces: state is the first field, cutime and cstime are the 14th and 15th, in 1/100 s.
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}

let takenCpuMs = 0

/** The same since the last call: called as soon as a child has ended, it is that child's. */
export function takeChildrenCpuMs(): number {
  const cpuMs = childrenCpuMs() - takenCpuMs
  takenCpuMs += cpuMs
  return cpuMs
}

export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // ESRCH: nothing is left.
  }
}
