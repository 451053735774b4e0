// What a copy is: its stake, its limits, the most it can lose, and whether that still fits into the follow's limit.
import { Big } from 'big.js'
import type { CopyCandidate, Decided, Leading, SkipReason } from '../../db/copy/fanout.ts'
import type { CopyToChange } from '../../db/copy/limits.ts'
import type { CopyDraft } from '../../db/orders/copies.ts'
import type { ContractLimits } from '../../schemas/market.ts'
import type { Least } from '../broker/port.ts'
import { ceilingOf } from '../orders/stake.ts'
import { contractOf } from '../orders/terms.ts'

// The broker's minimums in USD, by its documents: used where its quote has none.
const LEAST_STAKE = { BINARY: '0.35', MULTIPLIER: '1' } as const
const LEAST_LIMIT = '0.1'
const USD_DIGITS = 2

interface Judged {
  decided: Decided
  /** Absent where the order is not copied. */
  draft?: CopyDraft
}

/** What all copies of an order share. */
interface Copying {
  least: Least
  /** How long after the leader's purchase a copy may be placed. */
  ttlMs: number
}

/** Decides whether an order is copied for a follow, and as what. */
export function decideCopy(leading: Leading, candidate: CopyCandidate, { least, ttlMs }: Copying): Judged {
  const { followId, accountRowId } = candidate
  const decided = (status: Decided['status'], reason: SkipReason | null = null): Decided => ({
    followId,
    accountRowId,
    status,
    reason
  })
  if (leading.closed_early) return { decided: decided(candidate.status, 'LEADER_CLOSED') }
  if (leading.partner_id !== candidate.partnerId && !leading.shown_to_all)
    return { decided: decided(candidate.status, 'LEADER_PRIVATE') }
  if (leading.account_id === candidate.accountId) return { decided: decided(candidate.status, 'SAME_ACCOUNT') }
  if (!agree(leading, candidate)) return { decided: decided('PAUSED_MISMATCH', 'MISMATCH') }
  if (!candidate.partnerActive) return { decided: decided('ACTIVE', 'PARTNER_INACTIVE') }
  if (candidate.halted) return { decided: decided('ACTIVE', 'TRADING_HALTED') }
  if (!candidate.connected) return { decided: decided('ACTIVE', 'DISCONNECTED') }
  const terms = termsFor(leading, candidate, least)
  const limit = new Big(candidate.baseBalance).times(candidate.maxDrawdownPct).div(100)
  if (new Big(candidate.lost).plus(candidate.atRisk).plus(terms.worstCase).gt(limit)) {
    // Open copies may still win, so only realised losses count.
    const exhausted = new Big(candidate.lost).plus(inAccount(leading, LEAST_STAKE.BINARY)).gt(limit)
    return { decided: decided(exhausted ? 'PAUSED_DRAWDOWN' : 'ACTIVE', 'DRAWDOWN') }
  }
  return { decided: decided('ACTIVE'), draft: draftOf(leading, candidate, { terms, ttlMs }) }
}

function agree(leading: Leading, { accountMode, followedMode, currency }: CopyCandidate): boolean {
  // An unknown currency may be any.
  return (
    leading.account_mode === accountMode &&
    accountMode === followedMode &&
    leading.currency === currency &&
    currency !== null
  )
}

/** What a stake in USD costs in the account's currency, by what the leader paid for its own. */
function inAccount(leading: Pick<Leading, 'buy_price' | 'stake'>, stake: string): Big {
  return leading.buy_price === null ? new Big(stake) : new Big(stake).times(leading.buy_price).div(leading.stake)
}

interface CopyTerms {
  stake: string
  stopLoss: string | null
  takeProfit: string | null
  raisedToMinimum: boolean
  /** In the account's currency. */
  worstCase: Big
}

type Scaled = Pick<
  Leading,
  'kind' | 'stake' | 'stake_in_account' | 'exchange_rate' | 'buy_price' | 'stop_loss' | 'take_profit' | 'commission'
>

/**
 * A leader's terms for a follower's stake. Limits are amounts of money: they scale with the stake the copy really has.
 * `bounds` is in the account's currency.
 */
export function scale(leading: Scaled, riskPct: string, bounds: Least): CopyTerms {
  const wanted = new Big(leading.stake).times(riskPct).div(100).round(2, Big.roundHalfUp)
  const least = leastStake(leading, bounds)
  const raisedToMinimum = wanted.lt(least)
  const stake = raisedToMinimum ? new Big(least) : wanted
  const limits = scaleLimits(leading, stake, bounds)
  const worstCase = worstOf(limits, inAccount(leading, stake.toFixed()))
  return { stake: stake.toFixed(), ...limits, raisedToMinimum, worstCase }
}

/**
 * The terms of a copy for its follow. What another application than the leader's charges beside the stake is not known before the
 * purchase: the worst case has the most that the purchase may cost.
 */
function termsFor(leading: Leading, { appId, riskPct }: CopyCandidate, bounds: Least): CopyTerms {
  const terms = scale(leading, riskPct, bounds)
  if (appId === leading.app_id) return terms
  const { stake, stake_in_account: inAccount } = leading
  const amount =
    inAccount === null ? terms.stake : new Big(terms.stake).times(inAccount).div(stake).toFixed(digitsOf(inAccount))
  return { ...terms, worstCase: worstOf(terms, new Big(ceilingOf({ ...contractOf(leading), stake: amount }))) }
}

/** A leader's limits for a copy's stake in USD. A stop loss covers the commission at least. */
function scaleLimits(leading: Scaled, stake: Big, bounds: Least): ContractLimits {
  const factor = stake.div(leading.stake)
  const digits = digitsOf(leading.stake_in_account)
  const smallest = (stated: string | null) =>
    new Big(stated ?? inAccount(leading, LEAST_LIMIT)).round(digits, Big.roundUp)
  const commission = new Big(leading.commission ?? 0).times(factor).plus(`1e-${digits}`).round(digits, Big.roundUp)
  const least = largest(commission, smallest(bounds.stopLoss))
  return {
    stopLoss: scaleLimit(leading.stop_loss, { factor, digits, least }),
    takeProfit: scaleLimit(leading.take_profit, { factor, digits, least: smallest(bounds.takeProfit) })
  }
}

/** The most that a contract of this price can lose. */
function worstOf({ stopLoss }: Pick<ContractLimits, 'stopLoss'>, price: Big): Big {
  return stopLoss !== null && price.gt(stopLoss) ? new Big(stopLoss) : price
}

/**
 * The limits of an open copy after its leader changed its own. A stop loss that would let the copy lose more than the
 * follow's limit leaves is set to what is left, but not below the one that the copy has.
 */
export function changedLimits(leading: Scaled, copy: CopyToChange, bounds: Least): ContractLimits {
  const limits = scaleLimits(leading, new Big(copy.stake), bounds)
  const price = new Big(copy.price)
  const room = new Big(copy.baseBalance).times(copy.maxDrawdownPct).div(100).minus(copy.lost).minus(copy.atRisk)
  const allowed = largest(room, worstOf(copy, price))
  if (worstOf(limits, price).lte(allowed)) return limits
  return { ...limits, stopLoss: allowed.round(digitsOf(leading.stake_in_account), Big.roundDown).toFixed() }
}

/** The least stake of a copy in USD. Stated in another currency, it has a cent of room for the rate of the purchase. */
function leastStake({ kind, exchange_rate: rate }: Scaled, { stake }: Least): string {
  if (stake === null) return LEAST_STAKE[kind]
  return rate === null ? stake : new Big(stake).div(rate).plus('0.01').round(USD_DIGITS, Big.roundUp).toFixed()
}

const largest = (one: Big, other: Big) => (one.gt(other) ? one : other)

/** The digits of the account's currency, which a converted stake is written with; without one it is USD. */
function digitsOf(stakeInAccount: string | null): number {
  return stakeInAccount === null ? USD_DIGITS : (stakeInAccount.split('.')[1] ?? '').length
}

function scaleLimit(
  limit: string | null,
  { factor, digits, least }: { factor: Big; digits: number; least: Big }
): string | null {
  if (limit === null) return null
  const scaled = new Big(limit).times(factor).round(digits, Big.roundHalfUp)
  if (scaled.eq(0)) return null
  return (scaled.lt(least) ? least : scaled).toFixed()
}

function draftOf(
  leading: Leading,
  candidate: CopyCandidate,
  { terms, ttlMs }: { terms: CopyTerms; ttlMs: number }
): CopyDraft {
  return {
    partnerId: candidate.partnerId,
    appId: candidate.appId,
    dialect: candidate.dialect,
    traderId: candidate.traderId,
    traderExternalId: candidate.traderExternalId,
    accountRowId: candidate.accountRowId,
    accountId: candidate.accountId,
    accountMode: candidate.accountMode,
    currency: candidate.currency,
    proven: candidate.proven,
    terms: {
      kind: leading.kind,
      asset: leading.asset,
      contractType: leading.contract_type,
      direction: leading.direction,
      multiplier: leading.multiplier,
      stake: terms.stake,
      duration: leading.duration,
      durationUnit: leading.duration_unit,
      barrier: leading.barrier,
      stopLoss: terms.stopLoss,
      takeProfit: terms.takeProfit
    },
    ttlMs,
    copiedFrom: leading.id,
    followId: candidate.followId,
    raisedToMinimum: terms.raisedToMinimum
  }
}
