// A command that runs beside the test files, so that no core idles: `make test` checks types, style and description so.
import { spawn } from 'node:child_process'
import { killGroup, OUTPUT_LIMIT, takeChildrenCpuMs } from './file-process.ts'

export interface Beside {
  /** Whether it ended with exit code 0. */
  passed: boolean
  output: string
  tookMs: number
  /** CPU time of its processes; 0 where unknown. */
  cpuMs: number
}

/** Runs a command of the shell to its end, or until `signal`; never rejects. */
export function runBeside(command: string, signal: AbortSignal): Promise<Beside> {
  const startedAt = Date.now()
  return new Promise(done => {
    // A group of its own, so that it ends with what it has started.
    const child = spawn('sh', ['-c', command], { detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const keep = (chunk: string) => {
      output = (output + chunk).slice(-OUTPUT_LIMIT)
    }
    child.stdout.setEncoding('utf8').on('data', keep)
    child.stderr.setEncoding('utf8').on('data', keep)
    const stop = () => killGroup(child.pid)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    let cpuMs = 0
    const finish = (code: number | null) => {
      signal.removeEventListener('abort', stop)
      done({ passed: code === 0, output, tookMs: Date.now() - startedAt, cpuMs })
    }
    child.once('exit', () => {
      cpuMs = takeChildrenCpuMs()
    })
    child.once('error', error => {
      keep(`${error.message}\n`)
      finish(null)
    })
    child.once('close', finish)
  })
}
