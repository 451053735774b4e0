// The operator's command line: run one command and end with its exit code.
import { systemErrorText } from '../db/postgres/system-errors.ts'
import { runProgram } from './program.ts'

// The reader of our output may close it early: `operator orders list | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  // A full disk, where our output is a file: the command itself has ended by then.
  process.stderr.write(
    `The output is not complete: ${systemErrorText(error) ?? error.message}. What was requested may be done.\n`
  )
  process.exit(1)
})

await runProgram(process.argv.slice(2))
