// operator contracts: contracts at the broker that no order owns.
import type { Command } from 'commander'
import { usablePlaces } from '../../db/orders/past-end.ts'
import { claimedContracts, getOrphan, inDoubt, resolveBreaks } from '../../db/orders/reconciliation.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { requestFromWorkers } from '../../db/platform/broker-requests.ts'
import { SellContract } from '../../schemas/commands/contracts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Opened, withStore } from '../terminal/context.ts'
import { examples } from '../terminal/examples.ts'
import { withWorkers } from './doubt.ts'

const SELL_TIMEOUT_MS = 60_000

interface Sold {
  contractId: string
  status: string
  soldFor: string | null
  closedAt: string | null
}

export function addContracts(program: Command): void {
  const contracts = program.command('contracts').description('Contracts at the broker that no order owns: sell')

  contracts
    .command('sell')
    .description('Sell an orphan that the audit found, at the market; a sale cannot be taken back')
    .requiredOption('--account <accountId>', "the broker's account id")
    .requiredOption('--contract <contractId>', "the broker's contract id")
    .requiredOption('--reason <text>', 'why, for the audit log')
    .addHelpText('after', examples('contracts sell --account VRTC1234 --contract 290769704688 --reason "bought twice"'))
    .action(withStore(sell, { input: SellContract, acts: true }))
}

async function sell(
  opened: Opened,
  { account: accountId, contract: contractId, reason }: SellContract
): Promise<object> {
  const { db, actor, confirm } = opened
  const [claim] = (await claimedContracts(db, accountId, [contractId])).values()
  if (claim) throw new ApiError('CONFLICT', `The contract is ${claim.orderId}'s: close that order instead.`)
  const orphan = await getOrphan(db, { accountId, contractId })
  if (!orphan)
    throw new ApiError(
      'NOT_FOUND',
      `No unresolved finding reports ${contractId} of ${accountId} as an orphan: run \`operator orders audit\` first.`
    )
  if (await inDoubt(db, accountId))
    throw new ApiError(
      'CONFLICT',
      'An order of this account is in doubt, and the contract may be its own: reconcile that order first.'
    )
  const [place] = await usablePlaces(db, { accountId, partnerId: orphan.partnerId })
  if (!place) throw new ApiError('BROKER_DISCONNECTED', `No usable token of ${accountId} is stored.`)
  await confirm(`Sell contract ${contractId} of ${accountId} at the market? A sale cannot be taken back.`)
  const target = `${accountId}/${contractId}`
  // The intent is written before the sale, as its response may be lost.
  await recordAudit(db, { actor, action: 'contracts.sell', target, details: { reason, findingId: orphan.findingId } })
  const sold = await withWorkers(opened, tools =>
    requestFromWorkers<Sold>(db, tools, {
      kind: 'sellOrphan',
      key: target,
      data: { ...place, contractId },
      timeoutMs: SELL_TIMEOUT_MS
    })
  )
  await db.transaction(async trx => {
    await resolveBreaks(trx, {
      accountId,
      contractId,
      resolution: `${sold.status} for ${sold.soldFor ?? 'an unknown amount'}: ${reason}`
    })
    await recordAudit(trx, { actor, action: 'contracts.sold', target, details: { ...sold } })
  })
  return { accountId, ...sold }
}
