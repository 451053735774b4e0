// operator partners: the list of partners and their standing.
import type { Command } from 'commander'
import { chargePartner, lockPartner } from '../../db/money/billing.ts'
import { getWallet, topUp } from '../../db/money/wallets.ts'
import {
  countTraders,
  countUnfinished,
  findNamesake,
  getPartner,
  getRealPartner,
  insertPartner,
  listPartners,
  type PartnerRecord,
  setBroker,
  setLimits
} from '../../db/partners/partners.ts'
import { type PlanPreview, previewPlan, setPlan } from '../../db/partners/plans.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { getNamedPartner } from '../../db/platform/named.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { databaseNow } from '../../db/postgres/now.ts'
import {
  BrokerChange,
  PlanChange as NewPlan,
  PartnerLimit,
  PartnerName,
  PartnerRef
} from '../../schemas/commands/operator.ts'
import type { Config } from '../../schemas/config/config.ts'
import { shown } from '../../schemas/fields/money.ts'
import { brokerAppIdForms, NewPartner, SuspendPartner } from '../../schemas/partners.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal, UsageError } from '../terminal/refusals.ts'

export function addPartners(program: Command): void {
  const partners = program.command('partners').description('Partners: create, look up, suspend, change plan and limits')

  partners
    .command('create')
    .description('Create a partner')
    .requiredOption('--name <text>', 'display name')
    .option('--plan <plan>', 'LAUNCH, PRO or SCALE', 'LAUNCH')
    .option('--balance <usd>', 'opening balance of its wallet, a payment with the reference `opening balance`', '0')
    .option('--trial-days <days>', 'days free of charge; with 0 the first fee falls due at once', '30')
    .option('--broker-app-id <id>', "the partner's application id at the broker (v3: 1 unless given; next: required)")
    .option('--broker-dialect <dialect>', 'v3 or next (default: BROKER_DIALECT)')
    .addHelpText('after', examples('partners create --name "Acme Markets" --plan PRO --balance 500 --trial-days 30'))
    .action(withStore(create, { input: NewPartner, acts: true }))

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
    .command('show <partner>')
    .description('Show one partner, by its id, its name or a part of that')
    .addHelpText('after', examples('partners show ptn_01jd…', 'partners show "Acme Markets"'))
    .action(
      withStore(
        async ({ db }, { partner: name }: PartnerName) => {
          const partner = await getNamedPartner(db, name)
          const tradersCount = await countTraders(db, partner.partnerId)
          return { ...presentPartner(partner), limits: partner.limits, tradersCount }
        },
        { input: PartnerName }
      )
    )

  partners
    .command('suspend <partnerId>')
    .description('Stop a partner: its calls get 403 PARTNER_SUSPENDED, and its bots are not sold, until it is resumed')
    .requiredOption('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('partners suspend ptn_01jd… --reason "unpaid invoice"'))
    .action(withStore(suspend, { input: SuspendPartner, acts: true }))

  partners
    .command('resume <partnerId>')
    .description('End a suspension')
    .addHelpText('after', examples('partners resume ptn_01jd…'))
    .action(withStore(resume, { input: PartnerRef, acts: true }))

  partners
    .command('set-plan <partnerId> <plan>')
    .description(
      'Put a partner on another plan: an upgrade at once, charged for the rest of the period; a downgrade after it'
    )
    .addHelpText('after', examples('partners set-plan ptn_01jd… SCALE'))
    .action(withStore(changePlan, { input: NewPlan, acts: true }))

  partners
    .command('set-limit <partnerId>')
    .description('Set limits of its own for the calls of a partner, from the next call on')
    .option('--per-key <calls>', 'calls a minute of each key; `default`: as its plan has it')
    .option('--per-trader <calls>', 'calls a minute that name one trader; `default`: as configured')
    .addHelpText(
      'after',
      examples('partners set-limit ptn_01jd… --per-key 60', 'partners set-limit ptn_01jd… --per-key default')
    )
    .action(withStore(changeLimits, { input: PartnerLimit, acts: true }))

  partners
    .command('set-broker <partnerId>')
    .description('Move a partner to another dialect of the broker, with its application id there')
    .requiredOption('--dialect <dialect>', 'v3 or next')
    .option('--broker-app-id <id>', 'its application in that dialect (default: the one it has)')
    .addHelpText(
      'after',
      `
Orders under way end in the dialect they were bought with: keep its address configured until
unfinishedElsewhere is 0. What was bought under another application of the same dialect goes on under the new one
where the old one is refused. Where the broker gives traders other accounts and tokens in the new dialect,
the partner exchanges those and makes them active; the old ones stay, and show as REJECTED once used.
${examples('partners set-broker ptn_01jd… --dialect next --broker-app-id app-7Q2')}`
    )
    .action(withStore(setPartnersBroker, { input: BrokerChange, acts: true }))
}

async function create({ db, config, actor, confirmOnTerminal }: Opened, input: NewPartner) {
  const namesake = await findNamesake(db, input.name)
  const warning =
    namesake && `${namesake.partnerId}, made at ${namesake.createdAt.toISOString()}, has this name as well.`
  // The same name may mean that a command whose output was lost is repeated.
  if (warning) await confirmOnTerminal(`${warning} Create another partner named ${input.name}?`)
  return db.transaction(async trx => {
    const partner = await createPartner(trx, config, { ...input, actor })
    const { balanceUsd, feeUsd, nextFeeAt } = await getWallet(trx, partner.partnerId, config.planPrices)
    return {
      ...presentPartner(partner),
      balanceUsd: shown(balanceUsd),
      feeUsd: shown(feeUsd),
      nextFeeAt,
      ...(warning ? { warning } : {})
    }
  })
}

/** Puts a partner on another plan, after showing the cost and confirming. */
async function changePlan({ db, config, actor, confirm }: Opened, { partnerId, plan }: NewPlan) {
  const prices = config.planPrices
  // What has become due is charged by the plan of that period, also where the workers' check is late.
  await db.transaction(async trx => chargePartner(trx, partnerId, { now: await databaseNow(trx), prices }))
  const preview = await previewPlan(db, { partnerId, plan, prices })
  await confirm(`${sayChange(preview)} Change the plan of ${partnerId}?`)
  return db.transaction(async trx => {
    // The instant of the preview, so that the charge is the amount shown.
    const now = preview.takesEffect === 'NOW' ? preview.requested : undefined
    const { partner, change } = await setPlan(trx, { partnerId, plan, prices, now, expectedUsd: preview.chargeUsd })
    const { from, to, takesEffect, chargeUsd } = change
    const details = { from, to, takesEffect, chargeUsd }
    await recordAudit(trx, { actor, action: 'partners.set-plan', target: partnerId, details })
    return { ...presentPartner(partner), takesEffect, effectiveAt: change.at, chargedUsd: shown(chargeUsd) }
  })
}

function sayChange({ from, to, takesEffect, at, suspended, chargeUsd, periodEnd, feeUsd }: PlanPreview): string {
  const later = suspended ? ' and as much longer as the suspension lasts' : ''
  if (takesEffect === 'AT_PERIOD_END')
    return `${from} stays until ${at.toISOString()}${later}, which is paid; then ${to} for ${shown(feeUsd)} USD a month.`
  const now = shown(chargeUsd) > 0 ? `${shown(chargeUsd)} USD now for the time until then` : 'nothing now'
  const change = from === to ? `${from} stays` : `${from} becomes ${to} at once`
  return `${change}: ${now}, and from ${periodEnd.toISOString()} on ${shown(feeUsd)} USD a month.`
}

async function setPartnersBroker({ db, actor }: Opened, { partnerId, dialect, brokerAppId }: BrokerChange) {
  return db.transaction(async trx => {
    // The application it keeps must be of the dialect that it has then: no other change comes between.
    await lockPartner(trx, partnerId)
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

async function changeLimits({ db, actor }: Opened, { partnerId, perKey, perTrader }: PartnerLimit) {
  if (perKey === undefined && perTrader === undefined) throw new UsageError('give --per-key or --per-trader')
  const limitOf = (given: string | undefined) =>
    given === undefined ? undefined : given === 'default' ? null : Number(given)
  return db.transaction(async trx => {
    await lockPartner(trx, partnerId)
    const { limits: from } = await getPartner(trx, partnerId)
    const changes = { perKeyPerMinute: limitOf(perKey), perTraderPerMinute: limitOf(perTrader) }
    const partner = await setLimits(trx, partnerId, changes)
    const details = { from, to: partner.limits }
    await recordAudit(trx, { actor, action: 'partners.set-limit', target: partnerId, details })
    return { ...presentPartner(partner), limits: partner.limits }
  })
}

/** The id must have the form of the dialect's application ids. Throws CommandRefusal. */
function checkAppId(dialect: 'v3' | 'next', appId: string | undefined, { given }: { given: boolean }): void {
  if (appId !== undefined && brokerAppIdForms[dialect].test(appId)) return
  const form = dialect === 'v3' ? 'a number' : 'the client id of an application registered there, which is not a number'
  if (given) throw new CommandRefusal(`--broker-app-id must be ${form} in ${dialect}, not '${appId}'.`)
  throw new CommandRefusal(`--broker-app-id is required in ${dialect}: ${form}.`)
}

/** Stops a partner's calls, after confirmation. */
export async function suspend({ db, actor, confirm }: Opened, { partnerId, reason }: SuspendPartner) {
  const { name } = await getRealPartner(db, partnerId)
  await confirm(`Suspend ${name} (${partnerId})? Its calls are refused from now on.`)
  return db.transaction(async trx => {
    const partner = await suspendPartner(trx, partnerId, reason)
    await recordAudit(trx, { actor, action: 'partners.suspend', target: partnerId, details: { reason } })
    return presentPartner(partner)
  })
}

/** Ends a partner's suspension. */
export async function resume({ db, config, actor }: Opened, { partnerId }: PartnerRef) {
  return db.transaction(async trx => {
    await resumePartner(trx, partnerId)
    // What became due meanwhile is charged now, so that the partner may call at once.
    await chargePartner(trx, partnerId, { now: await databaseNow(trx), prices: config.planPrices })
    const partner = await getPartner(trx, partnerId)
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
    nextPlan: partner.nextPlan,
    saasStatus: partner.saasStatus,
    suspendedReason: partner.suspendedReason,
    brokerAppId: partner.brokerAppId,
    brokerDialect: partner.brokerDialect,
    createdAt: partner.createdAt
  }
}
