// operator console: the service at a glance in a full-screen terminal, as an alternative to typed commands.
import type { Command } from 'commander'
import { openStore } from '../db/platform/store.ts'
import { Nothing } from '../schemas/commands/operator.ts'
import { type Context, withoutStore } from './terminal/context.ts'
import { examples } from './terminal/examples.ts'
import { CommandRefusal } from './terminal/refusals.ts'

export function addConsole(program: Command): void {
  program
    .command('console')
    .description('Look at orders, partners, queues and money in a full-screen view; every change requires confirmation')
    .addHelpText('after', examples('console'))
    .action(withoutStore(watch, { input: Nothing, acts: true }))
}

async function watch(context: Context): Promise<undefined> {
  if (context.json) throw new CommandRefusal('The console is a screen: it has no JSON. The other commands take --json.')
  if (!process.stdout.isTTY || !process.stdin.isTTY) {
    throw new CommandRefusal('The console needs a terminal: run it in one, or use the other commands.')
  }
  const store = await openStore(context.config, { name: 'console' })
  try {
    // React's development build keeps a record of every render; this one runs for days.
    context.env.NODE_ENV ??= 'production'
    // Where they are set, as on some machines for development, Ink draws nothing before its end. This is a terminal all the same.
    for (const name of ['CI', 'CONTINUOUS_INTEGRATION']) delete context.env[name]
    const { show } = await import('./console/screen.ts')
    await show({ ...context, ...store })
  } finally {
    await store.close()
  }
}
