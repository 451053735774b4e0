// What the money storm does: the service's own functions, with arguments drawn from the seed. An operation returns
// the references it knows to be in the ledger now; the audit looks for them later.
import { checkBilling } from '../../db/money/billing-check.ts'
import { approvePayout, markPayoutPaid, rejectPayout, requestPayout } from '../../db/money/payouts.ts'
import { topUp } from '../../db/money/wallets.ts'
import { setPlan } from '../../db/partners/plans.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { plans } from '../../schemas/partners.ts'
import { marketOperations } from './market.ts'
import { type Random, seeded } from './random.ts'
import type { Done, StormOperation } from './scene.ts'

const nothing: Done = { made: [] }

const topUpOperation: StormOperation = {
  name: 'top up',
  weight: 40,
  async run(db, random, { partners, now, prices, topUps }) {
    const number = topUps.round * topUps.references + random.below(topUps.references)
    // Partner and amount follow from the number: whoever draws it again repeats the same payment.
    const own = seeded(number + 1)
    const partnerId = own.pick(partners)
    const amountUsd = own.amount(400)
    const reference = `storm-${number}`
    const { repeated } = await db.transaction(trx => topUp(trx, { partnerId, amountUsd, reference, prices, now }))
    const known = [`topup:${partnerId}:${reference}`]
    return repeated ? { made: [], repeated: known } : { made: known }
  }
}

const payoutOperation: StormOperation = {
  name: 'payout request',
  weight: 12,
  async run(db, random, { partners }) {
    const { payoutId } = await db.transaction(trx =>
      requestPayout(trx, {
        partnerId: random.pick(partners),
        amountUsd: random.amount(60),
        destinationAddress: 'T'.repeat(34)
      })
    )
    return { made: [`payout:${payoutId}:request`] }
  }
}

/** Two processes often draw the same payout: one of them is refused. */
async function openPayout(db: Db, random: Random): Promise<string | undefined> {
  const found = await rows<{ id: string }>(
    db,
    `(select id from payouts where status = 'REQUESTED' order by requested_at, id limit 8)
     union all (select id from payouts where status = 'APPROVED' order by requested_at, id limit 8)`
  )
  return found.length > 0 ? random.pick(found).id : undefined
}

const payoutDecision: StormOperation = {
  name: 'payout decision',
  weight: 18,
  async run(db, random) {
    const id = await openPayout(db, random)
    if (!id) return nothing
    const decision = random.below(5)
    await db.transaction(trx =>
      decision < 2
        ? approvePayout(trx, id)
        : decision < 4
          ? markPayoutPaid(trx, id, `proof of ${id}`)
          : rejectPayout(trx, id, 'drawn by lot')
    )
    return { made: decision < 2 ? [] : [`payout:${id}:${decision < 4 ? 'paid' : 'release'}`] }
  }
}

const billingOperation: StormOperation = {
  name: 'billing check',
  weight: 1,
  async run(db, _random, { now, prices, feePct }) {
    await checkBilling(db, { now, prices, feePct })
    return nothing
  }
}

const planOperation: StormOperation = {
  name: 'set plan',
  weight: 2,
  async run(db, random, { partners, now, prices }) {
    const terms = { partnerId: random.pick(partners), plan: random.pick(plans), prices, now }
    await db
      .transaction(trx => setPlan(trx, terms))
      .catch((error: unknown) => {
        // An upgrade that the wallet cannot pay changes nothing.
        if (!(error instanceof ApiError && error.code === 'WALLET_INSUFFICIENT')) throw error
      })
    return nothing
  }
}

/** All of them. */
export const operations: StormOperation[] = [
  topUpOperation,
  payoutOperation,
  payoutDecision,
  billingOperation,
  planOperation,
  ...marketOperations
]

/** One operation, drawn by its weight. */
export function draw(random: Random): StormOperation {
  let left = random.below(operations.reduce((all, { weight }) => all + weight, 0))
  for (const operation of operations) {
    left -= operation.weight
    if (left < 0) return operation
  }
  throw new Error('The weights do not add up.')
}
