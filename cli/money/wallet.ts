// operator wallet: what partners paid in, what they hold, what moved.
import type { Command } from 'commander'
import { debitWallet, findUnnamedMovement, getWallet, listStatement, topUp } from '../../db/money/wallets.ts'
import { getPartner, getRealPartner } from '../../db/partners/partners.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { DebitOrder, StatementQuery, TopUpOrder } from '../../schemas/commands/money.ts'
import { OfPartner } from '../../schemas/commands/operator.ts'
import { shown } from '../../schemas/fields/money.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'

export function addWallet(program: Command): void {
  const wallet = program.command('wallet').description('Wallets: top up, correct, show, list movements')

  wallet
    .command('topup')
    .description('Pay into a wallet; an unpaid plan fee is charged from it at once')
    .requiredOption('--partner <partnerId>', 'whose wallet')
    .requiredOption('--amount <usd>', 'how much, with up to two decimals')
    .option(
      '--reference <text>',
      "the payment's own name: the same again for this partner pays in nothing; without it a repeat pays in once more"
    )
    .addHelpText('after', examples('wallet topup --partner ptn_01jd… --amount 500 --reference wire-2026-117'))
    .action(withStore(payIn, { input: TopUpOrder, acts: true }))

  wallet
    .command('debit')
    .description('Take a wrong top-up out of a wallet; what it paid for meanwhile stays paid')
    .requiredOption('--partner <partnerId>', 'whose wallet')
    .requiredOption('--amount <usd>', 'how much, with up to two decimals; never more than the wallet holds')
    .requiredOption('--reason <text>', 'why; the partner reads it in its statement')
    .option(
      '--reference <text>',
      "the correction's own name: the same again for this partner takes out nothing; without it a repeat takes out once more"
    )
    .addHelpText(
      'after',
      examples(
        'wallet debit --partner ptn_01jd… --amount 500 --reason "wire-2026-117 paid in twice" --reference wire-2026-117-twice'
      )
    )
    .action(withStore(debit, { input: DebitOrder, acts: true }))

  wallet
    .command('show')
    .description('Show what a wallet holds, the plan fee, and when it falls due')
    .requiredOption('--partner <partnerId>', 'whose wallet')
    .addHelpText('after', examples('wallet show --partner ptn_01jd…'))
    .action(
      withStore(
        async ({ db, config }, { partner }: OfPartner) => {
          const { partnerId, balanceUsd, feeUsd, nextFeeAt } = await getWallet(db, partner, config.planPrices)
          return { partnerId, balanceUsd: shown(balanceUsd), feeUsd: shown(feeUsd), nextFeeAt }
        },
        { input: OfPartner }
      )
    )

  wallet
    .command('statement')
    .description('List the movements of a wallet, newest first, with their purpose and period')
    .requiredOption('--partner <partnerId>', 'whose wallet')
    .option('--limit <count>', 'how many at most', '50')
    .option('--cursor <text>', 'nextCursor of the page before')
    .addHelpText(
      'after',
      examples('wallet statement --partner ptn_01jd…', 'wallet statement --partner ptn_01jd… --json')
    )
    .action(
      withStore(
        async ({ db }, { partner, limit = 50, cursor }: StatementQuery) => {
          await getPartner(db, partner)
          const { data, nextCursor } = await listStatement(db, { partnerId: partner, limit, cursor })
          return {
            data: data.map(({ transferId, at, kind, reference, amountUsd, balanceUsd, explained }) => ({
              transferId,
              createdAt: at,
              kind,
              reference,
              ...explained,
              amountUsd: shown(amountUsd),
              balanceUsd: shown(balanceUsd)
            })),
            nextCursor
          }
        },
        { input: StatementQuery, show: ['createdAt', 'description', 'amountUsd', 'balanceUsd', 'reference'] }
      )
    )
}

async function payIn(
  { db, config, actor, confirmOnTerminal }: Opened,
  { partner: partnerId, amount, reference }: TopUpOrder
) {
  const warning = await warnOfRepeat(db, { partnerId, kind: 'topup', amount, reference })
  if (warning) await confirmOnTerminal(`${warning} Pay in ${amount} USD once more?`)
  return db.transaction(async trx => {
    const paid = await topUp(trx, { partnerId, amountUsd: amount, reference, prices: config.planPrices })
    const details = { amountUsd: amount, reference: reference ?? null, repeated: paid.repeated }
    await recordAudit(trx, { actor, action: 'wallet.topup', target: partnerId, details })
    return {
      partnerId,
      balanceUsd: shown(paid.balanceUsd),
      saasStatus: paid.saasStatus,
      repeated: paid.repeated,
      ...(warning ? { warning } : {})
    }
  })
}

async function debit({ db, actor, confirm }: Opened, { partner: partnerId, amount, reason, reference }: DebitOrder) {
  const { name } = await getRealPartner(db, partnerId)
  const warning = await warnOfRepeat(db, { partnerId, kind: 'debit', amount, reference })
  await confirm(`${warning ? `${warning} ` : ''}Take ${amount} USD out of the wallet of ${name} (${partnerId})?`)
  return db.transaction(async trx => {
    const { balanceUsd, repeated } = await debitWallet(trx, { partnerId, amountUsd: amount, reason, reference })
    const details = { amountUsd: amount, reason, reference: reference ?? null, repeated }
    await recordAudit(trx, { actor, action: 'wallet.debit', target: partnerId, details })
    return { partnerId, balanceUsd: shown(balanceUsd), repeated, ...(warning ? { warning } : {}) }
  })
}

/** The warning of a movement without a reference that was made within the last hour already; undefined where there was none. */
async function warnOfRepeat(
  db: Db,
  { reference, amount, ...of }: { partnerId: string; kind: 'topup' | 'debit'; amount: string; reference?: string }
): Promise<string | undefined> {
  if (reference !== undefined) return undefined
  const at = await findUnnamedMovement(db, { ...of, amountUsd: amount })
  const done = of.kind === 'topup' ? 'paid in' : 'taken out'
  return at && `${amount} USD were ${done} at ${at.toISOString()} already, without a reference.`
}
