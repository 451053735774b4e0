// Runs the operator's commands one after the other in one process, for tests: loading the program takes a process far
// longer than most commands. A message {env, args} runs a command; the reply is its output and exit code.
import { runProgram } from '../../cli/program.ts'
import type { Output } from './operator.ts'

process.on('message', async ({ env, args }: { env: Record<string, string>; args: string[] }) => {
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  process.exitCode = undefined
  const [stdout, stderr] = [capture(process.stdout), capture(process.stderr)]
  await runProgram(args)
  const output: Output = { exitCode: Number(process.exitCode ?? 0), stdout: stdout.end(), stderr: stderr.end() }
  process.exitCode = undefined
  process.send?.(output)
})
process.send?.('ready')

/** Keeps what is written to the stream instead of writing it. */
function capture(stream: NodeJS.WriteStream) {
  const { write } = stream
  let text = ''
  stream.write = ((chunk: string | Uint8Array, ...rest: unknown[]) => {
    text += Buffer.from(chunk as string).toString()
    const done = rest.at(-1)
    if (typeof done === 'function') done()
    return true
  }) as typeof write
  return {
    end() {
      stream.write = write
      return text
    }
  }
}
