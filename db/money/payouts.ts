// Payouts: a creator requests earnings, the operator decides and pays outside. The amount is held from the request on,
// so that it can be requested only once.
//
//   REQUESTED -> APPROVED -> PAID      held -> world
//   REQUESTED | APPROVED -> REJECTED   held -> earnings

import { ApiError } from '../../schemas/errors/errors.ts'
import { isBase58Check } from '../../schemas/fields/base58.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { isLess, negated, shown } from '../../schemas/fields/money.ts'
import type { PayoutStatus } from '../../schemas/marketplace/creator.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { getEarnings } from './earnings.ts'
import { accounts, move, outsideOf, transfer, tryTransfer } from './ledger.ts'

export interface PayoutRecord {
  payoutId: string
  partnerId: string
  /** Whether it is of a test side: play money, which is paid to nobody. */
  test: boolean
  /** The trader that requested it; null for the partner itself. */
  traderExternalId: string | null
  amountUsd: string
  destinationAddress: string
  /** Whether the checksum of the address is right. */
  addressCheck: 'OK' | 'FAILED'
  status: PayoutStatus
  requestedAt: Date
  decidedAt: Date | null
  paidAt: Date | null
  /** The operator's proof of payment. */
  reference: string | null
  /** Why it was rejected. */
  reason: string | null
}

type PayoutRow = Omit<PayoutRecord, 'addressCheck'>

const columns = `id as "payoutId", partner_id as "partnerId", is_test_side(partner_id) as test, round(amount, 2)::text as "amountUsd",
  (select external_id from traders where traders.id = payouts.party_id) as "traderExternalId",
  destination_address as "destinationAddress", status, requested_at as "requestedAt", decided_at as "decidedAt",
  paid_at as "paidAt", reference, reason`

const addressCheckOf = (address: string) => (isBase58Check(address) ? 'OK' : 'FAILED') as PayoutRecord['addressCheck']

// The database cannot compute the checksum.
const withAddressCheck = (row: PayoutRow): PayoutRecord => ({
  ...row,
  addressCheck: addressCheckOf(row.destinationAddress)
})

interface PayoutRequest {
  partnerId: string
  /** The requester: the partner when left out, or one of its traders. */
  partyId?: string
  amountUsd: string
  destinationAddress: string
}

/**
 * Requests a payout and holds its amount. Throws CONFLICT when that is more than the earnings available; a trader has
 * no more available than its own bots earned.
 */
export async function requestPayout(
  trx: Db,
  { partnerId, partyId = partnerId, amountUsd, destinationAddress }: PayoutRequest
): Promise<PayoutRecord> {
  const [row] = await rows<PayoutRow>(
    trx,
    `insert into payouts (id, partner_id, party_id, amount, destination_address)
     values (:id, :partnerId, :partyId, :amountUsd::numeric, :destinationAddress) returning ${columns}`,
    { id: newId('payout'), partnerId, partyId, amountUsd, destinationAddress }
  )
  const payout = withAddressCheck(row as PayoutRow)
  const hold = {
    reference: `payout:${payout.payoutId}:request`,
    kind: 'payout_request' as const,
    entries: move(accounts.earnings(partnerId), accounts.held(partnerId), payout.amountUsd),
    covered: [accounts.earnings(partnerId)],
    details: { payoutId: payout.payoutId }
  }
  if (partyId === partnerId) await transfer(trx, hold)
  else {
    const held = await tryTransfer(trx, hold)
    // Only now, with the earnings locked: of two requests at once the second counts the first.
    await refuseMoreThanEarned(trx, { partnerId, partyId })
    // Without the amount: what the partner has available is not for its traders to read.
    if ('short' in held) throw new ApiError('CONFLICT', 'The earnings of the partner do not cover that at present.')
  }
  return payout
}

async function refuseMoreThanEarned(trx: Db, party: { partnerId: string; partyId: string }): Promise<void> {
  const { availableUsd } = await getEarnings(trx, party)
  if (!isLess(availableUsd, '0')) return
  throw new ApiError('CONFLICT', `That is ${negated(availableUsd)} USD more than is available.`)
}

/** Throws NOT_FOUND. */
export async function getPayout(db: Db, payoutId: string): Promise<PayoutRecord> {
  const [row] = await rows<PayoutRow>(db, `select ${columns} from payouts where id = :payoutId`, { payoutId })
  if (!row) throw new ApiError('NOT_FOUND', `There is no payout ${payoutId}.`)
  return withAddressCheck(row)
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
    entries: move(accounts.held(payout.partnerId), outsideOf(payout.test).world, payout.amountUsd),
    details: { payoutId, reference }
  })
  return payout
}

/**
 * The operator declines: the amount is available again. With `seen` only what is still in that state: who declines a request must not
 * undo an approval that another operator is paying by now. Throws NOT_FOUND, or CONFLICT naming both states.
 */
export async function rejectPayout(
  trx: Db,
  payoutId: string,
  reason: string,
  { seen }: { seen?: PayoutStatus } = {}
): Promise<PayoutRecord> {
  const from: PayoutStatus[] = seen === 'REQUESTED' || seen === 'APPROVED' ? [seen] : ['REQUESTED', 'APPROVED']
  const payout = await transition(trx, payoutId, { from, to: 'REJECTED', reason })
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
        set status = :to, decided_at = case when :to = 'PAID' then decided_at else now() end,
            paid_at = case when :to = 'PAID' then now() end, reference = :reference, reason = :reason
      where id = :payoutId and status = any(:from)
     returning ${columns}`,
    { payoutId, from, to, reference, reason }
  )
  if (row) return withAddressCheck(row)
  const found = (await trx('payouts').where({ id: payoutId }).first('status')) as { status: PayoutStatus } | undefined
  if (!found) throw new ApiError('NOT_FOUND', `There is no payout ${payoutId}.`)
  throw new ApiError('CONFLICT', `${payoutId} is ${found.status}: only ${from.join(' or ')} becomes ${to}.`)
}

interface PayoutSelection {
  partnerId?: string
  partyId?: string
  status?: PayoutStatus
  page: number
  limit: number
}

/**
 * A page of payouts, newest first, and how many there are: of a partner, a party, a status, or all. Those of test sides only where
 * they or a party of theirs is named.
 */
export async function listPayouts(
  db: Db,
  { partnerId, partyId, status, page, limit }: PayoutSelection
): Promise<{ payouts: PayoutRecord[]; total: number }> {
  const conditions = [
    ...(partnerId ? ['partner_id = :partnerId'] : []),
    ...(partyId ? ['party_id = :partyId'] : []),
    ...(status ? ['status = :status'] : []),
    ...(partnerId || partyId ? [] : ['partner_id not in (select id from partners where test_of is not null)'])
  ].join(' and ')
  // One statement, so that a page and the number of all are of one snapshot.
  const found = await rows<PayoutRow & { total: number }>(
    db,
    `select counted.total, page.*
       from (select count(*) as total from payouts where ${conditions}) counted
       left join (select ${columns} from payouts where ${conditions}
                   order by requested_at desc, id desc limit :limit offset :offset) page on true
      order by page."requestedAt" desc, page."payoutId" desc`,
    { partnerId, partyId, status, limit, offset: (page - 1) * limit }
  )
  const payouts = found.flatMap(({ total: _total, ...row }) => (row.payoutId === null ? [] : [withAddressCheck(row)]))
  return { payouts, total: found[0]?.total ?? 0 }
}

/** A payout as its creator sees it. */
export function presentPayout(payout: Omit<PayoutRecord, 'partnerId' | 'test' | 'addressCheck'>) {
  return {
    payoutId: payout.payoutId,
    traderExternalId: payout.traderExternalId,
    amountUsd: shown(payout.amountUsd),
    destinationAddress: payout.destinationAddress,
    addressCheck: addressCheckOf(payout.destinationAddress),
    status: payout.status,
    requestedAt: payout.requestedAt.toISOString(),
    decidedAt: payout.decidedAt?.toISOString() ?? null,
    paidAt: payout.paidAt?.toISOString() ?? null,
    reference: payout.reference,
    reason: payout.reason
  }
}
