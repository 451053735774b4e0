// The processes `operator run` starts: their output with a prefix, their last lines for when one dies, and
// their end. Each has a channel to us and stops by itself when we are gone, even by SIGKILL.
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { CommandRefusal } from '../terminal/refusals.ts'
import { heapFlags } from './heap.ts'

const TAIL_LINES = 8
const READY_MS = 60_000
const STOP_MS = 30_000

export interface Child {
  name: string
  /** Resolves with what the process announced; rejects with its last lines when it ends first. */
  ready: Promise<{ address?: string }>
  /** Resolves when the process has ended, by request or not, with a sentence about it. */
  ended: Promise<string>
  /** Resolves once it has ended; by force after 30 s. */
  stop(): Promise<void>
  kill(): void
}

interface ChildOptions {
  name: string
  /** Path from the top of the project. */
  file: string
  args?: string[]
  env: NodeJS.ProcessEnv
  /** Called with each line of output, without prefix. */
  print(line: string): void
  /** For a process that announces itself by a line of output instead of the channel; that line is not passed on. */
  readyLine?: (line: string) => { address?: string } | undefined
}

/** Starts a main file of ours under the Node that runs us. */
export function startChild({ name, file, args = [], env, print, readyLine }: ChildOptions): Child {
  const path = fileURLToPath(new URL(`../../${file}`, import.meta.url))
  // A group of its own: Ctrl-C reaches us alone, and we stop the processes in their order.
  const child = spawn(process.execPath, [...heapFlags, path, ...args], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc']
  })
  const tail: string[] = []
  const announced = Promise.withResolvers<{ address?: string }>()
  onLines(child, line => {
    tail.push(line)
    if (tail.length > TAIL_LINES) tail.shift()
    const facts = readyLine?.(line)
    if (facts) announced.resolve(facts)
    else print(line)
  })
  child.on('message', message => {
    const { ready, ...facts } = message as { ready?: boolean; address?: string }
    if (ready) announced.resolve(facts)
  })
  const ended = new Promise<string>(resolve => {
    child.once('error', error => resolve(`${name} could not be started: ${error.message}`))
    // Not 'exit': at 'close' all of its output has been read.
    child.once('close', (code, signal) => {
      const how = signal ? `was ended by ${signal}` : `ended with exit code ${code}`
      resolve([`${name} ${how}${tail.length > 0 ? '; its last lines:' : '.'}`, ...tail].join('\n  '))
    })
  })
  const timer = setTimeout(
    () => announced.reject(new CommandRefusal(`${name} was not ready within ${READY_MS / 1000} s.`)),
    READY_MS
  )
  void ended.then(how => announced.reject(new ChildEnded(how)))
  const ready = announced.promise.finally(() => clearTimeout(timer))
  // Avoids an unhandled rejection when no caller awaits it any more; `ended` reports the failure then.
  ready.catch(() => {})
  return {
    name,
    ready,
    ended,
    kill: () => void child.kill('SIGKILL'),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await ended
      clearTimeout(force)
    }
  }
}

/** A process ended that should not have; the message has its last lines. */
export class ChildEnded extends Error {}

function onLines(child: ChildProcess, line: (text: string) => void): void {
  for (const stream of [child.stdout, child.stderr]) if (stream) createInterface({ input: stream }).on('line', line)
}
