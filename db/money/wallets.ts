// A partner's wallet: what it paid in, what it holds, and what moved.
import { ApiError } from '../../schemas/errors/errors.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { usd } from '../../schemas/fields/money.ts'
import type { SaasStatus } from '../../schemas/partners.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { databaseNow } from '../postgres/now.ts'
import { chargePartner, lockPartner, type Prices, standingOf } from './billing.ts'
import { accounts, balanceOf, findTransfer, lockAccounts, move, type TransferKind, transfer } from './ledger.ts'
import { type ExplainedMovement, explain } from './movements.ts'

interface Wallet {
  partnerId: string
  balanceUsd: string
  /** What the next fee will be: the price of its plan, or of the one it changes to then. */
  feeUsd: string
  /** When the next fee falls due, or fell due where it is unpaid. */
  nextFeeAt: Date
}

/** What a partner's wallet holds and when it is charged next. Throws NOT_FOUND. */
export async function getWallet(db: Db, partnerId: string, prices: Prices): Promise<Wallet> {
  const { balanceUsd, feeUsd, nextFeeAt } = await standingOf(db, partnerId, prices)
  return { partnerId, balanceUsd, feeUsd, nextFeeAt }
}

interface TopUp {
  partnerId: string
  /** Above zero, in whole cents. */
  amountUsd: string
  /** The payment's own name, unique per partner: the same payment again changes nothing. */
  reference?: string
  prices: Prices
  /** The database's clock when left out. */
  now?: Date
}

/**
 * Pays into a wallet, in the caller's transaction, and charges an unpaid plan fee from it at once, whatever the clock.
 * A reference that was used returns the present wallet. Throws NOT_FOUND, or CONFLICT when the reference was used with
 * another amount.
 */
export async function topUp(
  trx: Db,
  { partnerId, amountUsd, reference, prices, now }: TopUp
): Promise<{ balanceUsd: string; saasStatus: SaasStatus; repeated: boolean }> {
  const partner = await lockPartner(trx, partnerId)
  const wallet = accounts.wallet(partnerId)
  if (reference !== undefined) await refuseOtherAmount(trx, { partnerId, reference, amountUsd })
  // The fee that may follow touches the platform's account, which precedes the wallet's in the order of locks.
  if (!partner.plan_active) await lockAccounts(trx, [wallet, accounts.fees, accounts.world])
  const { repeated, balances } = await transfer(trx, {
    reference: referenceOf(partnerId, reference ?? newId('transfer')),
    kind: 'topup',
    entries: move(accounts.world, wallet, amountUsd),
    details: reference === undefined ? {} : { reference }
  })
  // The common case ends here: all top-ups wait for the account of the world, which is held until commit.
  if (partner.plan_active && !repeated)
    return {
      balanceUsd: balances.get(wallet) as string,
      saasStatus: partner.suspended ? 'SUSPENDED' : 'ACTIVE',
      repeated
    }
  if (!partner.plan_active) await chargePartner(trx, partnerId, { now: now ?? (await databaseNow(trx)), prices })
  const { balanceUsd, planActive, suspended } = await standingOf(trx, partnerId, prices)
  return { balanceUsd, saasStatus: suspended ? 'SUSPENDED' : planActive ? 'ACTIVE' : 'INACTIVE', repeated }
}

const referenceOf = (partnerId: string, reference: string) => `topup:${partnerId}:${reference}`

/** The partner is locked: no other payment to it is under way. */
async function refuseOtherAmount(
  trx: Db,
  { partnerId, reference, amountUsd }: { partnerId: string; reference: string; amountUsd: string }
): Promise<void> {
  const earlier = await findTransfer(trx, referenceOf(partnerId, reference))
  const paid = earlier?.entries.find(({ account }) => account === accounts.wallet(partnerId))?.amountUsd
  if (paid === undefined || paid === usd(amountUsd)) return
  const message = `The payment ${reference} of ${partnerId} was paid in before, with ${paid} USD, not ${usd(amountUsd)} USD.`
  throw new ApiError('CONFLICT', message)
}

/**
 * Takes money out of a wallet, for a top-up that was wrong. What it paid for meanwhile stays paid. A reference that was used returns the
 * present wallet. Throws NOT_FOUND, CONFLICT when the reference was used with another amount, or WALLET_INSUFFICIENT when the wallet holds
 * less.
 */
export async function debitWallet(
  trx: Db,
  {
    partnerId,
    amountUsd,
    reason,
    reference
  }: { partnerId: string; amountUsd: string; reason: string; reference?: string | undefined }
): Promise<{ balanceUsd: string; repeated: boolean }> {
  await lockPartner(trx, partnerId)
  const wallet = accounts.wallet(partnerId)
  const { repeated } = await transfer(trx, {
    reference: `debit:${partnerId}:${reference ?? newId('transfer')}`,
    kind: 'debit',
    entries: move(wallet, accounts.world, amountUsd),
    details: { reason, ...(reference === undefined ? {} : { reference }) }
  })
  return { balanceUsd: await balanceOf(trx, wallet), repeated }
}

/**
 * When the operator last paid this amount into a wallet, or took it out, without a reference, within an hour: the same again may be the
 * repeat of a command whose output was lost. Undefined where it did not, among the newest thousand movements.
 */
export async function findUnnamedMovement(
  db: Db,
  { partnerId, kind, amountUsd }: { partnerId: string; kind: 'topup' | 'debit'; amountUsd: string }
): Promise<Date | undefined> {
  const [found] = await rows<{ at: Date }>(
    db,
    `select t.created_at as at
       from (select transfer_id from ledger_entries where account_id = :wallet order by version desc limit 1000) e
       join ledger_transfers t on t.id = e.transfer_id
      where t.kind = :kind and t.amount = :amountUsd::numeric and t.details->>'reference' is null and t.created_at > now() - interval '1 hour'
      order by t.created_at desc limit 1`,
    { wallet: accounts.wallet(partnerId), kind, amountUsd }
  )
  return found?.at
}

export interface StatementEntry {
  transferId: string
  at: Date
  kind: TransferKind
  reference: string
  /** Above zero: came in. */
  amountUsd: string
  balanceUsd: string
  /** The description of a fee, and the period it pays for. */
  explained: ExplainedMovement
}

/**
 * A page of a wallet's movements, newest first. Entries are numbered without gaps, so pages stay in step while
 * new ones arrive. Throws VALIDATION_FAILED for a cursor that is none.
 */
export async function listStatement(
  db: Db,
  { partnerId, limit, cursor }: { partnerId: string; limit: number; cursor?: string }
): Promise<{ data: StatementEntry[]; nextCursor: string | null }> {
  if (cursor !== undefined && !/^\d{1,15}$/.test(cursor)) {
    const details = [{ path: '/query/cursor', message: 'is not a cursor of this list' }]
    throw new ApiError('VALIDATION_FAILED', 'cursor is not a cursor of this list', { extras: { details } })
  }
  const found = await rows<Omit<StatementEntry, 'explained'> & { version: number; details: Record<string, unknown> }>(
    db,
    `select e.version, e.transfer_id as "transferId", t.created_at as at, t.kind, t.reference, t.details,
            round(e.amount, 2)::text as "amountUsd", e.balance::text as "balanceUsd"
       from ledger_entries e join ledger_transfers t on t.id = e.transfer_id
      where e.account_id = :account and e.version < coalesce(:before::bigint, 9223372036854775807)
      order by e.version desc limit :limit`,
    { account: accounts.wallet(partnerId), before: cursor ?? null, limit: limit + 1 }
  )
  const page = found.slice(0, limit)
  return {
    data: page.map(({ version: _, details, ...entry }) => ({ ...entry, explained: explain({ ...entry, details }) })),
    nextCursor: found.length > limit ? String(page.at(-1)?.version) : null
  }
}
