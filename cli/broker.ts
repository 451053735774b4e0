// operator broker: a simulated broker to develop and test against. Its options are its own.
import type { Command } from 'commander'
import { bare } from './context.ts'
import { runInPlace } from './spawn.ts'

export function addBroker(program: Command): void {
  const broker = program.command('broker').description('A simulated broker to develop and test against')

  broker
    .command('simulate')
    .usage('[--port P] [--tick-ms MS] [--seed N] … (--help lists all)')
    .description('Run a simulated broker until Ctrl-C; it says in one JSON line where it listens')
    .argument('[options...]', 'handed to the simulator as they are')
    .allowUnknownOption()
    .helpOption(false)
    .action(
      bare(async ({ env }, { options }: { options: string[] }) => {
        await runInPlace('worker/broker/simulator/main.ts', options, env)
        return undefined
      })
    )
}
