// The runner's side of a process that several test files share: gives it one file after the other, and takes each file's
// output apart from the next one's. A process that a file has ended, that took too long or in which a file failed is
// replaced for the next file: what a failed test leaves open is no complaint of its own, and disturbs no other file.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import {
  type Ended,
  killGroup,
  LINGER_MS,
  nodeArgs,
  OUTPUT_LIMIT,
  PRINT_MS,
  takeChildrenCpuMs
} from './file-process.ts'
import { ENDING, type Ending } from './shared-process.ts'
import { stretched } from './support/busy.ts'

const program = fileURLToPath(new URL('./shared-process.ts', import.meta.url))

/** How long the output of a process that has ended may take to arrive. */
const STREAMS_MS = 200

interface Limits {
  timeoutMs: number
  signal: AbortSignal
}

class SharedProcess {
  #env: NodeJS.ProcessEnv
  #child: ChildProcess | undefined
  /** Files the process has run, for the complaint that one of them left something open. */
  #files: string[] = []
  #output = ''
  /** What ends the file that runs. */
  #end: ((ended: Pick<Ended, 'code' | 'killedBy' | 'cpuMs'>) => void) | undefined

  constructor(env: NodeJS.ProcessEnv) {
    this.#env = env
  }

  /** Runs a test file to its end, in the process there is or in a new one. One at a time. */
  execute(path: string, { timeoutMs, signal }: Limits): Promise<Ended> {
    const child = this.#child ?? this.#start()
    this.#files.push(path)
    this.#output = ''
    return new Promise(done => {
      let cut: Ended['cut']
      const stop = () => killGroup(child.pid)
      const timer = setTimeout(() => {
        cut = 'time'
        child.kill('SIGUSR2') // It prints what it waits for.
        setTimeout(stop, stretched(PRINT_MS))
      }, timeoutMs)
      this.#end = ended => {
        clearTimeout(timer)
        signal.removeEventListener('abort', stop)
        this.#end = undefined
        done({ ...ended, output: this.#output, cut, timeoutMs })
      }
      signal.addEventListener('abort', stop, { once: true })
      if (signal.aborted) stop()
      else child.send(path)
    })
  }

  /** Lets the process end; returns what is wrong when it does not, or not well. */
  async close(): Promise<string | undefined> {
    const child = this.#child
    if (!child) return undefined
    this.#output = ''
    // Not 'close', which does not come where the channel was closed first.
    const ended = once(child, 'exit').then(([code, killedBy]) => (code === 0 ? '' : `ended with ${code ?? killedBy}`))
    child.disconnect()
    const lingering = new AbortController()
    const { signal } = lingering
    const lingerMs = stretched(LINGER_MS)
    // A runner that had no CPU itself for so long looks who has ended meanwhile first.
    const late = sleep(lingerMs, undefined, { signal }).then(
      () => nextTurn(`did not end within ${lingerMs / 1000} s`),
      () => ''
    )
    const how = await Promise.race([ended, late])
    lingering.abort()
    if (how === '') return undefined
    child.kill('SIGUSR2')
    await sleep(stretched(PRINT_MS))
    killGroup(child.pid)
    await ended
    return `${how} after ${this.#files.join(', ')}:\n${this.#output.trim()}`
  }

  #start(): ChildProcess {
    // A group of its own, so that whatever the files start can be ended with it.
    const child = spawn(process.execPath, [...nodeArgs, program], {
      detached: true,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc']
    })
    this.#child = child
    this.#files = []
    const endings: Ending[] = []
    for (const stream of [child.stdout, child.stderr]) {
      // The line of an ending may come in pieces.
      let rest = ''
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        rest += chunk
        const at = rest.indexOf('\u0001')
        this.#keep(at < 0 ? rest : rest.slice(0, at))
        rest = at < 0 ? '' : rest.slice(at)
        const line = new RegExp(`^${ENDING}(.*)\n`).exec(rest)
        if (!line) return
        rest = rest.slice(line[0].length)
        endings.push(JSON.parse(line[1] as string) as Ending)
        if (endings.length < 2) return
        const [{ code, cpuMs }] = endings.splice(0) as [Ending, Ending]
        if (code !== 0) this.#replace(child)
        this.#end?.({ code, killedBy: null, cpuMs })
      })
    }
    child.once('exit', (code, killedBy) => {
      takeChildrenCpuMs() // Its files have reported it.
      if (this.#child !== child) return
      this.#replace(child)
      // What it started may hold its streams for longer.
      setTimeout(() => this.#end?.({ code, killedBy, cpuMs: 0 }), STREAMS_MS)
    })
    return child
  }

  /** Ends the process with what its files have started; the next file gets another one. */
  #replace(child: ChildProcess): void {
    this.#child = undefined
    killGroup(child.pid)
  }

  #keep(text: string): void {
    this.#output = (this.#output + text).slice(-OUTPUT_LIMIT)
  }
}

/** The processes that the files of a run share: no more of them than files beside each other, since each loads and compiles all modules. */
export class SharedProcesses {
  /** By the dialect they speak. */
  #free = new Map<string | undefined, SharedProcess[]>()
  #all: SharedProcess[] = []

  /** Runs a test file to its end, in a process that is free or in a new one. */
  async execute(path: string, { env, ...limits }: Limits & { env: NodeJS.ProcessEnv }): Promise<Ended> {
    const free = this.#free.get(env.TEST_DIALECT) ?? []
    this.#free.set(env.TEST_DIALECT, free)
    let shared = free.pop()
    if (!shared) {
      shared = new SharedProcess(env)
      this.#all.push(shared)
    }
    const ended = await shared.execute(path, limits)
    free.push(shared)
    return ended
  }

  /** Lets all of them end; returns what is wrong with those that do not, or not well. */
  async close(): Promise<string[]> {
    const complaints = await Promise.all(this.#all.map(shared => shared.close()))
    return complaints.filter(complaint => complaint !== undefined)
  }
}
