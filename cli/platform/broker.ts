// operator broker: a simulated broker to develop and test against, and a check of a real one against what we assume of it.
import type { Command } from 'commander'
import { BrokerCheck } from '../../schemas/commands/operator.ts'
import { withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { runInPlace } from '../terminal/spawn.ts'

export function addBroker(program: Command): void {
  const broker = program
    .command('broker')
    .description('A simulated broker to develop and test against, and a check of a real one')

  broker
    .command('simulate')
    .usage('[--port P] [--tick-ms MS] [--seed N] … (--help lists all)')
    .description('Run a simulated broker until Ctrl-C; it prints its addresses as one JSON line')
    .argument('[options...]', 'handed to the simulator as they are')
    .allowUnknownOption()
    .helpOption(false)
    .action(
      withoutStore(async ({ env }, { options }: { options: string[] }) => {
        await runInPlace('worker/simulator/main.ts', options, env)
        return undefined
      })
    )

  broker
    .command('check')
    .description('Try on a demo account every assumption the service makes about the broker, and report which hold')
    .requiredOption('--account <id>', 'the demo account')
    .option('--dialect <dialect>', 'v3 or next (default: BROKER_DIALECT)')
    .option('--broker-app-id <id>', 'the application (v3: 1 unless given; next: required)')
    .option('--read-only', 'buy nothing')
    .addHelpText(
      'after',
      `
The token of the demo account is read from BROKER_CHECK_TOKEN. One contract of the least stake is bought, after asking, and
followed to its end; accounts of real money are refused. Nothing secret is in the report.
${examples('broker check --account VRTC1234567 --dialect v3', 'broker check --account DOT1234567 --dialect next --broker-app-id app-7Q2 --json')}`
    )
    .action(
      withoutStore(
        async ({ env, json, confirm }, { account, dialect, brokerAppId, readOnly }: BrokerCheck) => {
          if (!readOnly) await confirm('Buy one contract of the least stake on this demo account?')
          const given = { account, dialect, 'app-id': brokerAppId }
          const args = Object.entries(given).flatMap(([name, value]) =>
            value === undefined ? [] : [`--${name}`, value]
          )
          const flags = [...(json ? ['--json'] : []), ...(readOnly ? ['--read-only'] : [])]
          await runInPlace('worker/broker/check/main.ts', [...args, ...flags], env)
          return undefined
        },
        { input: BrokerCheck }
      )
    )
}
