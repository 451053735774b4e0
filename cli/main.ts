// The operator's command line: parse, run one command, print its result.
import { createProgram } from './program.ts'
import { endingOf } from './terminal/refusals.ts'

// The reader of our output may close it early: `operator orders list | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

try {
  await createProgram().parseAsync()
} catch (error) {
  const { exitCode, line } = endingOf(error)
  if (line) process.stderr.write(`${line}\n`)
  process.exitCode = exitCode
}
