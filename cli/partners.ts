// operator partners: who they are and whether they may call.
import type { Command } from 'commander'
import { recordAudit } from '../db/audit.ts'
import type { Db } from '../db/connection.ts'
import {
  countTraders,
  countUnfinished,
  getPartner,
  insertPartner,
  listPartners,
  type PartnerRecord,
  resumePartner,
  setBroker,
  setPlan,
  suspendPartner
} from '../db/partners.ts'
import { getWallet, topUp } from '../db/wallets.ts'
import { BrokerChange, PartnerRef, PlanChange } from '../schemas/commands.ts'
import type { Config } from '../schemas/config.ts'
import { shown } from '../schemas/money.ts'
import { brokerAppIdForms, NewPartner, SuspendPartner } from '../schemas/partners.ts'
import { type Opened, withStore } from './context.ts'
import { examples } from './examples.ts'
import { Refusal } from './refusals.ts'

export function addPartners(program: Command): void {
  const partners = program.command('partners').description('Partners: create, look up, suspend, change the plan')

  partners
    .command('create')
    .description('Create a partner')
    .requiredOption('--name <text>', 'display name')
    .option('--plan <plan>', 'LAUNCH, PRO or SCALE', 'LAUNCH')
    .option('--balance <usd>', 'opening balance of its wallet', '0')
    .option('--trial-days <days>', 'days free of charge; with 0 the first fee falls due at once', '30')
    .option('--broker-app-id <id>', "the partner's application id at the broker (v3: 1 unless given; next: required)")
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
    .action(withStore(suspend, { input: SuspendPartner }))

  partners
    .command('resume <partnerId>')
    .description('End a suspension')
    .addHelpText('after', examples('partners resume ptn_01jd…'))
    .action(withStore(resume, { input: PartnerRef }))

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

  partners
    .command('set-broker <partnerId>')
    .description('Have a partner speak another dialect with the broker, under another application there')
    .requiredOption('--dialect <dialect>', 'v3 or next')
    .option('--broker-app-id <id>', 'its application in that dialect (default: the one it has)')
    .addHelpText(
      'after',
      `
Orders under way end in the dialect they were bought with: keep its address configured until
unfinishedElsewhere is 0. Where the broker gives traders other accounts and tokens in the new dialect,
the partner exchanges those and makes them active; the old ones stay, and show as REJECTED once used.
${examples('partners set-broker ptn_01jd… --dialect next --broker-app-id app-7Q2')}`
    )
    .action(withStore(setPartnersBroker, { input: BrokerChange }))
}

async function setPartnersBroker({ db, actor }: Opened, { partnerId, dialect, brokerAppId }: BrokerChange) {
  return db.transaction(async trx => {
    const before = await getPartner(trx, partnerId)
    checkAppId(dialect, brokerAppId ?? before.brokerAppId, { given: brokerAppId !== undefined })
    const partner = await setBroker(trx, partnerId, { dialect, appId: brokerAppId })
    const details = {
      from: { dialect: before.brokerDialect, brokerAppId: before.brokerAppId },
      to: { dialect, brokerAppId: partner.brokerAppId }
    }
    await recordAudit(trx, { actor, action: 'partners.set-broker', target: partnerId, details })
    return {
      ...presentPartner(partner),
      unfinishedElsewhere: await countUnfinished(trx, partnerId, { notIn: dialect })
    }
  })
}

/** The id must have the form of the dialect's application ids. Throws Refusal. */
function checkAppId(dialect: 'v3' | 'next', appId: string | undefined, { given }: { given: boolean }): void {
  if (appId !== undefined && brokerAppIdForms[dialect].test(appId)) return
  const form = dialect === 'v3' ? 'a number' : 'the client id of an application registered there, which is no number'
  if (given) throw new Refusal(`--broker-app-id must be ${form} in ${dialect}, not '${appId}'.`)
  throw new Refusal(`--broker-app-id is required in ${dialect}: ${form}.`)
}

/** Stops a partner's calls, after asking. */
export async function suspend({ db, actor, confirm }: Opened, { partnerId, reason }: SuspendPartner) {
  const { name } = await getPartner(db, partnerId)
  await confirm(`Suspend ${name} (${partnerId})? Its calls are refused from now on.`)
  return db.transaction(async trx => {
    const partner = await suspendPartner(trx, partnerId, reason)
    await recordAudit(trx, { actor, action: 'partners.suspend', target: partnerId, details: { reason } })
    return presentPartner(partner)
  })
}

/** Ends a partner's suspension. */
export async function resume({ db, actor }: Opened, { partnerId }: PartnerRef) {
  return db.transaction(async trx => {
    const partner = await resumePartner(trx, partnerId)
    await recordAudit(trx, { actor, action: 'partners.resume', target: partnerId })
    return presentPartner(partner)
  })
}

/** A partner with its opening balance and the line in the audit log, in the caller's transaction. */
export async function createPartner(
  trx: Db,
  config: Pick<Config, 'planPrices' | 'brokerDialect'>,
  { actor, ...input }: NewPartner & { actor: string }
): Promise<PartnerRecord> {
  const { name, plan, balance, trialDays } = input
  const brokerDialect = input.brokerDialect ?? config.brokerDialect
  const brokerAppId = input.brokerAppId ?? (brokerDialect === 'v3' ? '1' : '')
  checkAppId(brokerDialect, brokerAppId, { given: input.brokerAppId !== undefined })
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
