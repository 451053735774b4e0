// operator payouts: creators request their earnings, the operator approves, pays outside, and records the payment.
// Approval and record are two commands, so that neither happens as a side effect of the other.
import type { Command } from 'commander'
import { getEarnings } from '../../db/money/earnings.ts'
import {
  approvePayout,
  getPayout,
  listPayouts,
  markPayoutPaid,
  type PayoutRecord,
  rejectPayout
} from '../../db/money/payouts.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { PayoutApproval, PayoutFilter, PayoutPayment, PayoutRejection } from '../../schemas/commands/money.ts'
import { isLess, shown } from '../../schemas/fields/money.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { CommandRefusal } from '../terminal/refusals.ts'

export function addPayouts(program: Command): void {
  const payouts = program.command('payouts').description("Creators' payouts: list, approve, mark paid, reject")

  payouts
    .command('list')
    .description('List payouts, newest first')
    .option('--status <status>', 'REQUESTED, APPROVED, PAID or REJECTED')
    .option('--limit <count>', 'how many at most', '100')
    .addHelpText('after', examples('payouts list --status REQUESTED', 'payouts list --json'))
    .action(
      withStore(
        async ({ db }, { status, limit = 100 }: PayoutFilter) => {
          const { payouts: data, total } = await listPayouts(db, { status, page: 1, limit })
          // The list is newest first, so the payouts beyond the limit have waited longest.
          return { data: data.map(presentPayout), total }
        },
        {
          input: PayoutFilter,
          show: [
            'payoutId',
            'partnerId',
            'traderExternalId',
            'amountUsd',
            'destinationAddress',
            'addressCheck',
            'status',
            'requestedAt'
          ]
        }
      )
    )

  payouts
    .command('approve <payoutId>')
    .description('Agree to a payout; it is paid by hand afterwards, and the amount stays held until then')
    .option('--reason <text>', 'why, for the audit log; for example where the checksum of the address is wrong')
    .addHelpText('after', examples('payouts approve pay_01jd…'))
    .action(withStore(approve, { input: PayoutApproval, acts: true }))

  payouts
    .command('paid <payoutId>')
    .description('Record that an approved payout was paid; the amount leaves the books')
    .requiredOption('--reference <text>', 'proof of the payment')
    .addHelpText('after', examples('payouts paid pay_01jd… --reference 5e2f…'))
    .action(withStore(recordPaid, { input: PayoutPayment, acts: true }))

  payouts
    .command('reject <payoutId>')
    .description('Decline a payout; the amount is available to its creator again')
    .requiredOption('--reason <text>', 'why; the creator reads it')
    .addHelpText('after', examples('payouts reject pay_01jd… --reason "address unknown"'))
    .action(withStore(reject, { input: PayoutRejection, acts: true }))
}

/** Approves a payout, after confirmation. */
export function approve(opened: Opened, { payoutId, reason }: PayoutApproval) {
  return decide(opened, payoutId, {
    action: 'payouts.approve',
    why: reason,
    question: what => `Approve ${what}?`,
    step: trx => approvePayout(trx, payoutId)
  })
}

/** Records the payment of an approved payout, after confirmation. */
export function recordPaid(opened: Opened, { payoutId, reference }: PayoutPayment) {
  return decide(opened, payoutId, {
    action: 'payouts.paid',
    question: what => `Record ${what} as paid under ${reference}?`,
    step: trx => markPayoutPaid(trx, payoutId, reference)
  })
}

/** Declines a payout, after confirmation. */
export function reject(opened: Opened, { payoutId, reason }: PayoutRejection) {
  return decide(opened, payoutId, {
    action: 'payouts.reject',
    question: what => `Reject ${what}?`,
    step: (trx, { status }) => rejectPayout(trx, payoutId, reason, { seen: status })
  })
}

interface PayoutStep {
  action: string
  /** The operator's reason, where the step keeps none. */
  why?: string
  question(what: string): string
  /** `shown` is the payout that was confirmed. */
  step(trx: Db, shown: PayoutRecord): Promise<PayoutRecord>
}

/** Confirms, showing the amount and the whole address, and takes one step in a payout's life. */
async function decide({ db, actor, confirm }: Opened, payoutId: string, { action, why, question, step }: PayoutStep) {
  const requested = await getPayout(db, payoutId)
  if (requested.test)
    throw new CommandRefusal(
      `${payoutId} is play money of a test side: the billing check decides it, and nobody is paid.`
    )
  const { availableUsd } = await getEarnings(db, { partnerId: requested.partnerId, partyId: requested.partnerId })
  const warnings = [
    ...(isLess(availableUsd, '0')
      ? [
          `After refunds the earnings of ${requested.partnerId} are ${shown(availableUsd)} USD: what is paid out now has been paid back to buyers.`
        ]
      : []),
    ...(requested.addressCheck === 'FAILED' ? ['The checksum of the address is wrong: it may be mistyped.'] : [])
  ]
  const warning = warnings.length > 0 ? warnings.join(' ') : undefined
  const whose =
    requested.traderExternalId === null
      ? requested.partnerId
      : `${requested.partnerId}, requested by ${requested.traderExternalId},`
  const what = `${payoutId} (${requested.status}), ${shown(requested.amountUsd)} USD of ${whose} to ${requested.destinationAddress}`
  await confirm(warning ? `${warning} ${question(what)}` : question(what))
  return db.transaction(async trx => {
    const payout = await step(trx, requested)
    const { partnerId, amountUsd, destinationAddress, addressCheck, reference, reason } = payout
    const details = { partnerId, amountUsd, destinationAddress, addressCheck, reference, reason: reason ?? why ?? null }
    await recordAudit(trx, { actor, action, target: payoutId, details })
    return { ...presentPayout(payout), ...(warning ? { warning } : {}) }
  })
}

function presentPayout(payout: PayoutRecord) {
  return {
    payoutId: payout.payoutId,
    partnerId: payout.partnerId,
    traderExternalId: payout.traderExternalId,
    amountUsd: shown(payout.amountUsd),
    destinationAddress: payout.destinationAddress,
    addressCheck: payout.addressCheck,
    status: payout.status,
    requestedAt: payout.requestedAt,
    decidedAt: payout.decidedAt,
    paidAt: payout.paidAt,
    reference: payout.reference,
    reason: payout.reason
  }
}
