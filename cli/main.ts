// The operator's command line: run one command and end with its exit code.
import { endWithOutput } from '../db/platform/output.ts'
import { runProgram } from './program.ts'

endWithOutput()
await runProgram(process.argv.slice(2))
