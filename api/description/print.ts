// Prints the description of the service without starting it: the same document that GET /v1/_spec returns.
import { readEnvironment } from '../../db/platform/process.ts'
import { operations } from '../operations.ts'
import { describe } from './spec.ts'

// The reader may close the output early: `operator spec print | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})
process.stdout.write(`${JSON.stringify(describe(operations, readEnvironment().config.baseUrl), null, 2)}\n`)
