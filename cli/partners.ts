// operator partners: who they are and whether they may call.
import type { Command } from 'commander'
import { recordAudit } from '../db/audit.ts'
import type { Db } from '../db/connection.ts'
import {
  countTraders,
  getPartner,
  insertPartner,
  listPartners,
  type PartnerRecord,
  resumePartner,
  setPlan,
  suspendPartner
} from '../db/partners.ts'
import { getWallet, topUp } from '../db/wallets.ts'
import { PartnerRef, PlanChange } from '../schemas/commands.ts'
import type { Config } from '../schemas/config.ts'
import { shown } from '../schemas/money.ts'
import { NewPartner, SuspendPartner } from '../schemas/partners.ts'
import { withStore } from './context.ts'
import { examples } from './examples.ts'

export function addPartners(program: Command): void {
  const partners = program.command('partners').description('partners: create, look up, suspend, change the plan')

  partners
    .command('create')
    .description('Create a partner')
    .requiredOption('--name <text>', 'display name')
    .option('--plan <plan>', 'LAUNCH, PRO or SCALE', 'LAUNCH')
    .option('--balance <usd>', 'opening balance of its wallet', '0')
    .option('--trial-days <days>', 'days free of charge; with 0 the first fee falls due at once', '30')
    .option('--broker-app-id <id>', "the partner's application id at the broker", '1')
    .option('--broker-dialect <dialect>', 'v3 or next (default: BROKER_DIALECT)')
    .addHelpText('after', examples('partners create --name "Acme Markets" --plan PRO --balance 500 --trial-days 30'))
    .action(
      withStore(
        async ({ db, config, actor }, input: NewPartner) =>
          db.transaction(async trx => {
            const partner = await createPartner(trx, config, { ...input, actor })
            const { balanceUsd, feeUsd, nextFeeAt } = await getWallet(trx, partner.partnerId, config.planPrices)
            return { ...presentPartner(partner), balanceUsd: shown(balanceUsd), feeUsd: shown(feeUsd), nextFeeAt }
          }),
        { input: NewPartner }
      )
    )

  partners
    .command('list')
    .description('List all partners, oldest first')
    .addHelpText('after', examples('partners list', 'partners list --json'))
    .action(
      withStore(async ({ db }) => ({ data: (await listPartners(db)).map(presentPartner) }), {
        show: ['partnerId', 'name', 'plan', 'saasStatus', 'createdAt']
      })
    )

  partners
    .command('show <partnerId>')
    .description('Show one partner')
    .addHelpText('after', examples('partners show ptn_01jd…'))
    .action(
      withStore(
        async ({ db }, { partnerId }: PartnerRef) => ({
          ...presentPartner(await getPartner(db, partnerId)),
          tradersCount: await countTraders(db, partnerId)
        }),
        { input: PartnerRef }
      )
    )

  partners
    .command('suspend <partnerId>')
    .description('Stop a partner: its calls are answered 403 PARTNER_SUSPENDED until it is resumed')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('partners suspend ptn_01jd… --reason "unpaid invoice"'))
    .action(
      withStore(
        async ({ db, actor, confirm }, { partnerId, reason }: SuspendPartner) => {
          const { name } = await getPartner(db, partnerId)
          await confirm(`Suspend ${name} (${partnerId})? Its calls are refused from now on.`)
          return db.transaction(async trx => {
            const partner = await suspendPartner(trx, partnerId, reason)
            await recordAudit(trx, { actor, action: 'partners.suspend', target: partnerId, details: { reason } })
            return presentPartner(partner)
          })
        },
        { input: SuspendPartner }
      )
    )

  partners
    .command('resume <partnerId>')
    .description('End a suspension')
    .addHelpText('after', examples('partners resume ptn_01jd…'))
    .action(
      withStore(
        async ({ db, actor }, { partnerId }: PartnerRef) =>
          db.transaction(async trx => {
            const partner = await resumePartner(trx, partnerId)
            await recordAudit(trx, { actor, action: 'partners.resume', target: partnerId })
            return presentPartner(partner)
          }),
        { input: PartnerRef }
      )
    )

  partners
    .command('set-plan <partnerId> <plan>')
    .description('Put a partner on another plan; its fee applies from the next period')
    .addHelpText('after', examples('partners set-plan ptn_01jd… SCALE'))
    .action(
      withStore(
        async ({ db, actor }, { partnerId, plan }: PlanChange) =>
          db.transaction(async trx => {
            const before = await getPartner(trx, partnerId)
            const partner = await setPlan(trx, partnerId, plan)
            const details = { from: before.plan, to: plan }
            await recordAudit(trx, { actor, action: 'partners.set-plan', target: partnerId, details })
            return presentPartner(partner)
          }),
        { input: PlanChange }
      )
    )
}

/** A partner with its opening balance and the line in the audit log, in the caller's transaction. */
export async function createPartner(
  trx: Db,
  config: Pick<Config, 'planPrices' | 'brokerDialect'>,
  { actor, ...input }: NewPartner & { actor: string }
): Promise<PartnerRecord> {
  const { name, plan, balance, trialDays, brokerAppId } = input
  const brokerDialect = input.brokerDialect ?? config.brokerDialect
  const partner = await insertPartner(trx, { name, plan, brokerAppId, brokerDialect, trialDays })
  const { partnerId } = partner
  const prices = config.planPrices
  if (Number(balance) > 0) await topUp(trx, { partnerId, amountUsd: balance, reference: 'opening balance', prices })
  await recordAudit(trx, { actor, action: 'partners.create', target: partnerId, details: { ...input } })
  return partner
}

function presentPartner(partner: PartnerRecord) {
  return {
    partnerId: partner.partnerId,
    name: partner.name,
    plan: partner.plan,
    saasStatus: partner.saasStatus,
    suspendedReason: partner.suspendedReason,
    brokerAppId: partner.brokerAppId,
    brokerDialect: partner.brokerDialect,
    createdAt: partner.createdAt
  }
}
