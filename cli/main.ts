// The operator's command line: run one command and end with its exit code.
import { runProgram } from './program.ts'

// The reader of our output may close it early: `operator orders list | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

await runProgram(process.argv.slice(2))
