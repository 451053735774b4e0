// operator processes: the running processes, with version, start and last heartbeat.
import type { Command } from 'commander'
import { type BrokerReach, listProcesses } from '../../db/platform/processes.ts'
import { Nothing } from '../../schemas/commands/operator.ts'
import { age } from '../console/text.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { table } from '../terminal/output.ts'
import { watchable } from '../terminal/watching.ts'

const wordsOf = ({ dialect, state }: BrokerReach) => `${dialect} ${state.toLowerCase()}`

export function addProcesses(program: Command): void {
  const processes = program.command('processes').description('The api and worker processes that use this database')

  watchable(processes.command('list'))
    .description('List apis and workers that reported within a day; one silent for 20 s is taken for gone')
    .addHelpText('after', examples('processes list', 'processes list --watch', 'processes list --json'))
    .action(
      withStore(async ({ db }) => ({ data: await listProcesses(db) }), {
        input: Nothing,
        show: ({ data }) =>
          table(
            data.map(({ alive, silentMs, ...each }) => ({
              ...each,
              state: alive ? 'running' : 'gone',
              broker: (each.report?.broker ?? []).map(wordsOf).join(', '),
              lastHeartbeat: `${age(silentMs / 1000)} ago`
            })),
            ['kind', 'state', 'host', 'pid', 'version', 'address', 'broker', 'startedAt', 'lastHeartbeat']
          )
      })
    )
}
