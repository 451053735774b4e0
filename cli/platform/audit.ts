// operator audit: what operators did, newest first.
import type { Command } from 'commander'
import { listAudit, verifyAudit } from '../../db/platform/audit.ts'
import { AuditQuery } from '../../schemas/commands/operator.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export function addAudit(program: Command): void {
  const audit = program.command('audit').description('The log of what operators did')

  audit
    .command('list')
    .description('List who did what, newest first')
    .option('--target <id>', 'about one partner, key, order …')
    .option('--limit <count>', 'how many at most', '50')
    .option('--cursor <text>', 'nextCursor of the page before')
    .addHelpText('after', examples('audit list', 'audit list --target ptn_01jd… --json'))
    .action(
      withStore(async ({ db }, query: AuditQuery) => listAudit(db, query), {
        input: AuditQuery,
        show: ['at', 'actor', 'action', 'target', 'details']
      })
    )

  audit
    .command('verify')
    .description(
      'Prove that no line of the log was changed or taken out; keep the last hash elsewhere for the end of it'
    )
    .addHelpText('after', examples('audit verify', 'audit verify --json'))
    .action(
      withStore(
        async ({ db }) => {
          const { broken, ...verified } = await verifyAudit(db)
          if (broken) throw new CommandRefusal(`The audit log is broken: ${broken}.`)
          return { ok: true, ...verified }
        },
        {
          show: ({ entries, lastHash }) =>
            `All is well: ${entries} lines, each with the hash of the one before. The last hash: ${lastHash ?? 'none'}`
        }
      )
    )
}
