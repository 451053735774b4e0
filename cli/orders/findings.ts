// operator findings: what the comparison with the broker's books found, and what was decided about it.
import type { Command } from 'commander'
import { decideBreak, getBreak, listBreaks } from '../../db/orders/reconciliation.ts'
import { resolveSettledBreaks } from '../../db/orders/review.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { FindingDecision, FindingsQuery } from '../../schemas/commands/contracts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'

export function addFindings(program: Command): void {
  const findings = program
    .command('findings')
    .description("Differences between the broker's books and our orders: list, resolve, reopen")

  findings
    .command('list')
    .description('List unresolved findings, newest first; with --all the resolved ones too')
    .option('--all', 'resolved ones too')
    .option('--limit <count>', 'how many at most', '100')
    .addHelpText('after', examples('findings list', 'findings list --all --json'))
    .action(
      withStore(
        async ({ db }, { all = false, limit = 100 }: FindingsQuery) => {
          await resolveSettledBreaks(db)
          return { data: await listBreaks(db, limit, { all }) }
        },
        {
          input: FindingsQuery,
          show: ['findingId', 'kind', 'accountId', 'contractId', 'orderId', 'foundAt', 'resolution', 'details']
        }
      )
    )

  findings
    .command('resolve <findingId>')
    .description('Mark a finding as dealt with; `findings reopen` takes that back')
    .requiredOption('--reason <text>', 'how it was dealt with, for the finding and the audit log')
    .addHelpText('after', examples('findings resolve 12 --reason "the trader bought it by other means"'))
    .action(
      withStore((opened, decision: FindingDecision) => decide(opened, decision, true), {
        input: FindingDecision,
        acts: true
      })
    )

  findings
    .command('reopen <findingId>')
    .description('Reopen a resolved finding')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('findings reopen 12 --reason "resolved by mistake"'))
    .action(
      withStore((opened, decision: FindingDecision) => decide(opened, decision, false), {
        input: FindingDecision,
        acts: true
      })
    )
}

async function decide(
  { db, actor, confirm }: Opened,
  { findingId, reason }: FindingDecision,
  resolved: boolean
): Promise<object> {
  const difference = await getBreak(db, findingId)
  if (!difference) throw new ApiError('NOT_FOUND', `There is no finding ${findingId}.`)
  const word = resolved ? 'resolved' : 'unresolved'
  if ((difference.resolvedAt !== null) === resolved)
    throw new ApiError('CONFLICT', `Finding ${findingId} is ${word} already.`)
  await confirm(
    `Mark finding ${findingId} (${difference.kind}, contract ${difference.contractId} of ${difference.accountId}) as ${word}?`
  )
  return db.transaction(async trx => {
    const decided = await decideBreak(trx, { findingId, resolution: resolved ? reason : null })
    if (!decided) throw new ApiError('CONFLICT', `Finding ${findingId} was decided meanwhile; list and look again.`)
    const details = { reason, kind: difference.kind, contractId: difference.contractId, before: difference.resolution }
    await recordAudit(trx, {
      actor,
      action: resolved ? 'findings.resolve' : 'findings.reopen',
      target: String(findingId),
      details
    })
    return decided
  })
}
