// The program in which the runner has test files run one after the other: modules are loaded and compiled once for all of
// them, which is half of what a short file costs in a process of its own. Paths come over IPC; behind the output of a
// file both streams carry one line with how it ended.
import { pathToFileURL } from 'node:url'
import { childrenCpuMs } from './file-process.ts'

/** Begins the line behind the output of a file; the rest of it is JSON, `Ending`. */
export const ENDING = '\u0001end of file '

/** How a file ended: its exit code, had it been a process of its own, and the CPU time it took with its processes. */
export interface Ending {
  code: number
  cpuMs: number
}

if (import.meta.main) {
  // uvu then leaves it to us when suites begin.
  const uvuGlobals = globalThis as { UVU_DEFER?: number; UVU_QUEUE?: unknown[][] }
  uvuGlobals.UVU_DEFER = 1
  const { exec } = await import('uvu')
  const cpuMs = () => process.cpuUsage().user / 1000 + process.cpuUsage().system / 1000 + childrenCpuMs()
  let countedMs = 0
  process.on('message', async (path: string) => {
    // One queue of suites for each file; the first element is the name uvu would print above it.
    uvuGlobals.UVU_QUEUE?.splice(0, Number.POSITIVE_INFINITY, [null])
    process.exitCode = 0
    await import(pathToFileURL(path).href)
    await exec()
    const ending: Ending = { code: Number(process.exitCode), cpuMs: Math.round(cpuMs() - countedMs) }
    countedMs = cpuMs()
    process.exitCode = 0
    for (const stream of [process.stdout, process.stderr]) stream.write(`\n${ENDING}${JSON.stringify(ending)}\n`)
  })
}
