// Starts a simulated broker, prints its addresses as one JSON line, and ends on SIGTERM or SIGINT.
import { stopWithParent } from '../../db/platform/process.ts'
import { systemErrorText } from '../../db/postgres/system-errors.ts'
import { OptionsError, parseOptions, usage } from './options.ts'
import { startSimulator } from './server.ts'

try {
  const options = parseOptions(process.argv.slice(2))
  if (options) {
    const simulator = await startSimulator(options)
    const stop = () => void simulator.close().then(() => process.exit(0))
    process.once('SIGTERM', stop)
    process.once('SIGINT', stop)
    stopWithParent(stop)
    const { url, control, nextUrl, appIdHeader } = simulator
    process.stdout.write(`${JSON.stringify({ url, control, nextUrl, appIdHeader })}\n`)
  } else process.stdout.write(`${usage}\n`)
} catch (error) {
  process.stderr.write(`${systemErrorText(error) ?? (error instanceof Error ? error.message : String(error))}\n`)
  process.exit(error instanceof OptionsError ? 2 : 1)
}
