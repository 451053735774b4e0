// operator doctor: checks every dependency of the service and prints, for each, whether it is healthy and how to repair
// it.
import type { Command } from 'commander'
import pc from 'picocolors'
import { readEnvironment } from '../db/platform/process.ts'
import { type Config, ConfigError } from '../schemas/config/config.ts'
import { checkBroker, checkRedis, checkSettings, checkTls } from './doctor/around.ts'
import { checkDatabase } from './doctor/database.ts'
import { type Finding, fail, ok } from './doctor/finding.ts'
import { isReached } from './doctor/reach.ts'
import { examples } from './terminal/examples.ts'
import { print } from './terminal/output.ts'
import { CommandRefusal } from './terminal/refusals.ts'

export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description('Check configuration, database, queues, Redis, the broker and the clocks; exit code 1 when one fails')
    .addHelpText('after', examples('doctor', 'doctor --json'))
    .action(async () => {
      const { json = false } = program.opts() as { json?: boolean }
      const format = json ? 'json' : 'text'
      const checks = await examine()
      const failed = checks.filter(({ status }) => status === 'fail').map(({ check }) => check)
      print({ healthy: failed.length === 0, checks }, { format, show: () => checks.map(line).join('\n') })
      if (failed.length > 0)
        throw new CommandRefusal(`${failed.length} of ${checks.length} checks failed: ${failed.join(', ')}.`)
    })
}

async function examine(): Promise<Finding[]> {
  let config: Config
  try {
    ;({ config } = readEnvironment())
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    // All other checks need the configuration.
    return [fail('configuration', error.message, 'correct the environment or the .env file')]
  }
  const [settings, tls, database, redis, broker] = await Promise.all([
    checkSettings(config),
    checkTls(config),
    checkDatabase(config),
    checkRedis(config),
    checkBroker(config)
  ])
  // Only workers need the broker: what they report counts, not what this machine reaches.
  const around = broker.map(finding => (isReached(database, config.brokerDialect) ? onlyFromHere(finding) : finding))
  return [...settings, ...tls, ...database, ...redis, ...around]
}

function onlyFromHere(finding: Finding): Finding {
  if (finding.status === 'warn') return ok(finding.check, `${finding.found} here, and the workers reach theirs`)
  if (finding.status !== 'fail') return finding
  return {
    ...finding,
    status: 'warn',
    advice: 'only from this machine, the workers reach it: nothing to do unless a worker runs here'
  }
}

const marks = { ok: pc.green('✔'), warn: pc.yellow('!'), fail: pc.red('✘') }

function line({ check, status, found, advice }: Finding): string {
  return `${marks[status]} ${check.padEnd(14)} ${found}${advice ? `\n${' '.repeat(17)}${pc.bold('→')} ${advice}` : ''}`
}
