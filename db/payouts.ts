// Payouts: a creator asks for earnings, the operator decides and pays outside. The amount is held from the
// request on, so that it can be asked for once only.
//
//   REQUESTED -> APPROVED -> PAID      held -> world
//   REQUESTED | APPROVED -> REJECTED   held -> earnings
import { ApiError } from '../schemas/errors.ts'
import { newId } from '../schemas/ids.ts'
import { type Db, rows } from './connection.ts'
import { accounts, move, transfer } from './ledger.ts'

export const payoutStatuses = ['REQUESTED', 'APPROVED', 'PAID', 'REJECTED'] as const
export type PayoutStatus = (typeof payoutStatuses)[number]

export interface PayoutRecord {
  payoutId: string
  partnerId: string
  amountUsd: string
  destinationAddress: string
  status: PayoutStatus
  requestedAt: Date
  decidedAt: Date | null
  paidAt: Date | null
  /** The operator's proof of payment. */
  reference: string | null
  /** Why it was rejected. */
  reason: string | null
}

interface PayoutRow {
  id: string
  partner_id: string
  amount: string
  destination_address: string
  status: PayoutStatus
  requested_at: Date
  decided_at: Date | null
  paid_at: Date | null
  reference: string | null
  reason: string | null
}

const columns = `id, partner_id, round(amount, 2)::text as amount, destination_address, status, requested_at, decided_at,
  paid_at, reference, reason`

function toPayout(row: PayoutRow): PayoutRecord {
  return {
    payoutId: row.id,
    partnerId: row.partner_id,
    amountUsd: row.amount,
    destinationAddress: row.destination_address,
    status: row.status,
    requestedAt: row.requested_at,
    decidedAt: row.decided_at,
    paidAt: row.paid_at,
    reference: row.reference,
    reason: row.reason
  }
}

/** Asks for a payout and holds its amount. Throws CONFLICT when that is more than the earnings available. */
export async function requestPayout(
  trx: Db,
  { partnerId, amountUsd, destinationAddress }: { partnerId: string; amountUsd: string; destinationAddress: string }
): Promise<PayoutRecord> {
  const [row] = await rows<PayoutRow>(
    trx,
    `insert into payouts (id, partner_id, amount, destination_address)
     values (:id, :partnerId, :amountUsd::numeric, :destinationAddress) returning ${columns}`,
    { id: newId('payout'), partnerId, amountUsd, destinationAddress }
  )
  const payout = toPayout(row as PayoutRow)
  await transfer(trx, {
    reference: `payout:${payout.payoutId}:request`,
    kind: 'payout_request',
    entries: move(accounts.earnings(partnerId), accounts.held(partnerId), payout.amountUsd),
    covered: [accounts.earnings(partnerId)],
    details: { payoutId: payout.payoutId }
  })
  return payout
}

/** The operator agrees; the amount stays held. Throws NOT_FOUND, or CONFLICT naming both states. */
export async function approvePayout(trx: Db, payoutId: string): Promise<PayoutRecord> {
  return transition(trx, payoutId, { from: ['REQUESTED'], to: 'APPROVED' })
}

/** The operator has paid: the amount leaves. Throws NOT_FOUND, or CONFLICT naming both states. */
export async function markPayoutPaid(trx: Db, payoutId: string, reference: string): Promise<PayoutRecord> {
  const payout = await transition(trx, payoutId, { from: ['APPROVED'], to: 'PAID', reference })
  await transfer(trx, {
    reference: `payout:${payoutId}:paid`,
    kind: 'payout_paid',
    entries: move(accounts.held(payout.partnerId), accounts.world, payout.amountUsd),
    details: { payoutId, reference }
  })
  return payout
}

/** The operator declines: the amount is available again. Throws NOT_FOUND, or CONFLICT naming both states. */
export async function rejectPayout(trx: Db, payoutId: string, reason: string): Promise<PayoutRecord> {
  const payout = await transition(trx, payoutId, { from: ['REQUESTED', 'APPROVED'], to: 'REJECTED', reason })
  await transfer(trx, {
    reference: `payout:${payoutId}:release`,
    kind: 'payout_release',
    entries: move(accounts.held(payout.partnerId), accounts.earnings(payout.partnerId), payout.amountUsd),
    details: { payoutId }
  })
  return payout
}

async function transition(
  trx: Db,
  payoutId: string,
  {
    from,
    to,
    reference = null,
    reason = null
  }: { from: PayoutStatus[]; to: PayoutStatus; reference?: string | null; reason?: string | null }
): Promise<PayoutRecord> {
  const [row] = await rows<PayoutRow>(
    trx,
    `update payouts
        set status = :to, decided_at = coalesce(decided_at, now()),
            paid_at = case when :to = 'PAID' then now() end, reference = :reference, reason = :reason
      where id = :payoutId and status = any(:from)
     returning ${columns}`,
    { payoutId, from, to, reference, reason }
  )
  if (row) return toPayout(row)
  const found = (await trx('payouts').where({ id: payoutId }).first('status')) as { status: PayoutStatus } | undefined
  if (!found) throw new ApiError('NOT_FOUND', `There is no payout ${payoutId}.`)
  throw new ApiError('CONFLICT', `${payoutId} is ${found.status}: it cannot become ${to}.`)
}

/** A page of payouts, newest first, and how many there are; of one partner, of one status, or of all. */
export async function listPayouts(
  db: Db,
  { partnerId, status, page, limit }: { partnerId?: string; status?: PayoutStatus; page: number; limit: number }
): Promise<{ payouts: PayoutRecord[]; total: number }> {
  const wanted = { ...(partnerId ? { partner_id: partnerId } : {}), ...(status ? { status } : {}) }
  const count = (await db('payouts').where(wanted).count('* as total').first()) as { total: number }
  const found = (await db('payouts')
    .where(wanted)
    .select(db.raw(columns))
    .orderBy([
      { column: 'requested_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(limit)
    .offset((page - 1) * limit)) as PayoutRow[]
  return { payouts: found.map(toPayout), total: count.total }
}
