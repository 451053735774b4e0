// Prints the description of the service without starting it: the same document that GET /v1/_spec returns.
import { endWithOutput } from '../../db/platform/output.ts'
import { readEnvironment } from '../../db/platform/process.ts'
import { operations } from '../operations.ts'
import { describe } from './spec.ts'

endWithOutput()
process.stdout.write(`${JSON.stringify(describe(operations, readEnvironment().config.baseUrl), null, 2)}\n`)
