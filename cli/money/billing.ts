// operator billing: the billing check, for cron or by hand. The workers run it every minute as well; both at
// once charge once.
import type { Command } from 'commander'
import { checkBilling } from '../../db/money/billing-check.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { databaseNow } from '../../db/postgres/now.ts'
import { BillingOrder } from '../../schemas/commands/money.ts'
import { withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { instantOf } from '../terminal/instants.ts'

export function addBilling(program: Command): void {
  program
    .command('billing')
    .description('Plan fees and subscriptions: charge what has fallen due')
    .command('check')
    .description('Charge every plan and subscription whose period has ended, once')
    .option('--now <iso>', 'charge what is due as of this instant instead of now; this is not a dry run')
    .addHelpText('after', examples('billing check', 'billing check --now 2026-12-01T00:00:00Z'))
    .action(
      withStore(
        async ({ db, config, actor }, { now }: BillingOrder) => {
          const prices = config.planPrices
          const at = now === undefined ? undefined : instantOf('--now', now)
          const clock = await databaseNow(db)
          // The workers also charge what is due by now. For a later instant the audit line is written before the first charge: a
          // check that is killed has charged some.
          if (at !== undefined && at > clock)
            await recordAudit(db, { actor, action: 'billing.check-ahead', details: { now: at.toISOString() } })
          const counts = await checkBilling(db, {
            prices,
            feePct: config.marketplaceFeePct,
            now: at,
            resumedAt: at !== undefined && at < clock ? clock : at,
            // Most checks by cron find nothing: they are not worth a line in the audit log.
            async done(counts) {
              if (Object.values(counts).every(count => count === 0)) return
              await recordAudit(db, {
                actor,
                action: 'billing.check',
                details: { now: at?.toISOString() ?? null, ...counts }
              })
            }
          })
          // The document has these three; the audit log and the workers' log have all.
          const { charged, activated, deactivated } = counts
          return { charged, activated, deactivated }
        },
        { input: BillingOrder, acts: true }
      )
    )
}
