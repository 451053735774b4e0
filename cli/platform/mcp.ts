// operator mcp: the API as tools for a language model, over the Model Context Protocol.
import type { Command } from 'commander'
import { Mcp } from '../../schemas/commands/operator.ts'
import { withoutStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { runInPlace } from '../terminal/spawn.ts'

export function addMcp(program: Command): void {
  program
    .command('mcp')
    .description('Serve the reading operations of the API as tools of the Model Context Protocol, on stdin and stdout')
    .option('--url <url>', 'the address of the service (default: BASE_URL)')
    .option('--allow-orders', 'place and close orders too, on DEMO accounts and with test keys alone')
    .addHelpText(
      'after',
      `
The key is read from SERVICE_KEY; what it may do is up to its scopes. The description of each tool has what it costs and changes.
${examples('mcp', 'mcp --url https://api.example.com --allow-orders')}`
    )
    .action(
      withoutStore(
        async ({ env }, { url = '', allowOrders }: Mcp) => {
          await runInPlace('api/mcp/main.ts', [url, ...(allowOrders ? ['allow-orders'] : [])], env)
          return undefined
        },
        { input: Mcp }
      )
    )
}
