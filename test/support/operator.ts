// The operator's command line as a process, stdout and stderr apart.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

export interface Ran {
  exitCode: number | null
  stdout: string
  stderr: string
  /** The document on stdout; throws when that is anything but one JSON document. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
  json: any
}

/** Runs `operator …args` to its end, without a terminal, with this environment and nothing else of ours. */
export async function operator(env: Record<string, string>, ...args: string[]): Promise<Ran> {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LANG|USER|NODE_.*)$/.test(name))
  )
  const child = spawn(process.execPath, ['cli/main.ts', ...args], {
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>
  ])
  return {
    exitCode,
    stdout,
    stderr,
    get json() {
      return JSON.parse(stdout)
    }
  }
}
