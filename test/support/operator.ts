// The operator's command line, stdout and stderr apart: as a process of its own, or in one that runs many commands.
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

export interface Output {
  exitCode: number | null
  stdout: string
  stderr: string
}

interface Ran extends Output {
  /** The document on stdout; throws when that is anything but one JSON document. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
  json: any
}

// Groups whose commands start processes that write to the command's stdout.
const STARTS_PROCESSES = new Set(['run', 'broker', 'spec'])

/** Processes that have run a command and wait for the next; they end with ours, when their channel closes. */
const idle: ChildProcess[] = []

/**
 * Runs `operator …args` to its end, without a terminal, with this environment and nothing else of ours, in a process that
 * runs one command after the other; commands at the same time have a process each. A command that is
 * about the process itself needs `operatorProcess`.
 */
export async function operator(env: Record<string, string>, ...args: string[]): Promise<Ran> {
  if (args.some(word => STARTS_PROCESSES.has(word))) return operatorProcess(env, ...args)
  const child = idle.pop() ?? (await startChild())
  child.ref()
  child.channel?.ref()
  child.send({ env: { ...inherited(), ...env }, args })
  const replied = new AbortController()
  const { signal } = replied
  const ended = once(child, 'exit', { signal }).then(([code]) => {
    throw new Error(`operator ${args.join(' ')} ended its process with ${code}: it needs operatorProcess`)
  })
  try {
    const [output] = (await Promise.race([once(child, 'message', { signal }), ended])) as [Output]
    keep(child)
    return ranOf(output)
  } finally {
    replied.abort()
  }
}

/** The same in a process of its own. */
export async function operatorProcess(env: Record<string, string>, ...args: string[]): Promise<Ran> {
  const child = spawn(process.execPath, ['cli/main.ts', ...args], {
    env: { ...inherited(), ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>
  ])
  return ranOf({ exitCode, stdout, stderr })
}

async function startChild(): Promise<ChildProcess> {
  const child = fork('test/support/operator-process.ts', {
    env: inherited(),
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
  await once(child, 'message')
  return child
}

// While it waits it keeps nobody else alive.
function keep(child: ChildProcess): void {
  child.unref()
  child.channel?.unref()
  idle.push(child)
}

function inherited(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LANG|USER|NODE_.*|SIMULATION_EDITS)$/.test(name))
  )
}

function ranOf(output: Output): Ran {
  return {
    ...output,
    get json() {
      return JSON.parse(output.stdout)
    }
  }
}
