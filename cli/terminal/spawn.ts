// Commands whose work is a main file of another room: it runs as a process of its own, in our place.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { ReportedAlready } from './refusals.ts'

/** Runs a main file with our terminal; signals reach it too. Throws ReportedAlready with its exit code unless it is 0. */
export async function runInPlace(file: string, args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const path = fileURLToPath(new URL(`../../${file}`, import.meta.url))
  const child = spawn(process.execPath, [path, ...args], { env, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] })
  // Ctrl-C reaches both; it stops the child, and we end with it. A signal for us alone is passed on.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  if (signal || code !== 0) throw new ReportedAlready(code === 2 ? 2 : 1)
}
