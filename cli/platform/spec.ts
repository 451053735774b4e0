// operator spec: the machine-readable description, without a running service.
import type { Command } from 'commander'
import { withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { runInPlace } from '../terminal/spawn.ts'

export function addSpec(program: Command): void {
  const spec = program.command('spec').description('The OpenAPI description of the service')

  spec
    .command('print')
    .description('Print the OpenAPI 3.1 document, with the address in BASE_URL')
    .addHelpText('after', examples('spec print > openapi.json', 'spec print | jq .paths'))
    .action(
      withoutStore(async ({ env }) => {
        await runInPlace('api/description/print.ts', [], env)
        return undefined
      })
    )
}
