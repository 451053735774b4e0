// The output of programs that others read, through a pipe or a file.
import { systemErrorText } from '../postgres/system-errors.ts'

/** Ends the process when its output cannot be written: silently where the reader has closed it, else with one line and exit code 1. */
export function endWithOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // `operator orders list | head`
    if (error.code === 'EPIPE') process.exit(0)
    // A full disk, where our output is a file: the command itself has ended by then.
    process.stderr.write(
      `The output is not complete: ${systemErrorText(error) ?? error.message}. What was requested may be done.\n`
    )
    process.exit(1)
  })
}
