// Whether a settlement that the broker reports can be true. What fails here is never booked: worker/orders/rechecks.ts reads the
// contract again until it is plausible. The checks are one pure function, so that each can be tested, and taken out, alone.
import { Big } from 'big.js'
import { MOST_PRICE_MOVE, MOST_TIMES_PRICE } from '../../db/orders/past-end.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import type { ContractState } from '../broker/port.ts'

/** What we know of the contract ourselves. */
export type OwnContract = Pick<
  OrderRow,
  'kind' | 'broker_order_id' | 'buy_price' | 'payout' | 'currency' | 'multiplier'
>

// Brokers round to the cent; accounts in a cryptocurrency have up to eight decimals, where a cent is no rounding.
const DECIMALS = 2
const MOST_MULTIPLIER = 10_000

/**
 * Why a settled state contradicts the contract we bought, or itself: one sentence for each contradiction, none for a
 * state that may be booked. States that are not settled are checked for the contract's id alone.
 */
export function contradictions(own: OwnContract, state: ContractState): string[] {
  const found: string[] = []
  if (state.contractId !== own.broker_order_id)
    found.push(state.contractId === null ? 'its contract id is missing' : 'it is the state of another contract')
  if (!state.settled) return found
  const { reported, sellPrice } = state
  if (reported?.sold === true && reported.status === 'open') found.push('it is sold and its status is open')
  if (reported?.sold === false) found.push(`its status is ${state.status} and it is not sold`)
  if (own.currency && state.currency && state.currency !== own.currency)
    found.push(`its amounts are in ${state.currency}, not ${own.currency}`)
  const price = own.buy_price ?? state.buyPrice
  if (price === null) found.push('what it cost is not known')
  if (sellPrice === null) found.push('it is over and what it paid is missing')
  if (price === null || sellPrice === null) return found
  const [cost, paid] = [new Big(price), new Big(sellPrice)]
  if (paid.lt(0)) found.push(`it paid ${sellPrice}`)
  if (state.buyPrice !== null && !cost.eq(state.buyPrice)) found.push(`it cost ${state.buyPrice}, not ${price}`)
  if (state.profit !== null && !isProfitOf(state.profit, { cost, paid }))
    found.push(`it cost ${price} and paid ${sellPrice}, which is not a profit of ${state.profit}`)
  // Without a status the amounts alone are checked.
  const status = reported === undefined ? state.status : reported.status
  if (status === 'cancelled' && !paid.eq(cost)) found.push(`it was cancelled and paid ${sellPrice} for ${price}`)
  found.push(
    ...(own.kind === 'BINARY'
      ? ofOption(own, state, { cost, paid, status })
      : ofMultiplier(own, state, { cost, paid, status }))
  )
  return found
}

/** Whether an option of this price can pay so much if it wins. */
export function isPossiblePayout(payout: string, price: string): boolean {
  return new Big(payout).gt(price) && new Big(price).times(MOST_TIMES_PRICE).gte(payout)
}

/** Whether it is what these amounts leave, to the last digit that both have, or to a cent where they have fewer. */
function isProfitOf(profit: string, { cost, paid }: { cost: Big; paid: Big }): boolean {
  const decimalsOf = (amount: Big) => amount.toFixed().split('.')[1]?.length ?? 0
  const shared = Math.min(decimalsOf(new Big(profit)), Math.max(decimalsOf(cost), decimalsOf(paid)))
  const rounding = new Big(10).pow(-Math.max(DECIMALS, shared))
  return paid.minus(cost).minus(profit).abs().lte(rounding)
}

interface Sums {
  cost: Big
  paid: Big
  status: ContractState['status'] | null
}

/** An option pays its payout or nothing; sold early, something between. */
function ofOption(own: OwnContract, state: ContractState, { cost, paid, status }: Sums): string[] {
  const found: string[] = []
  const known = own.payout !== null && new Big(own.payout).gt(0) ? own.payout : null
  if (known !== null && state.payout !== null && !new Big(known).eq(state.payout))
    found.push(`its payout is ${state.payout}, not ${known}`)
  const payout = known ?? (state.payout !== null && new Big(state.payout).gt(0) ? state.payout : null)
  const possible = cost.times(MOST_TIMES_PRICE)
  const most = payout === null || possible.lt(payout) ? possible : new Big(payout)
  if (paid.gt(most)) found.push(`it paid ${paid.toFixed()}, more than ${most.toFixed()}`)
  if (status === 'lost' && !paid.eq(0)) found.push(`it was lost and paid ${paid.toFixed()}`)
  if (status === 'won' && !(payout === null ? paid.gt(0) : paid.eq(payout)))
    found.push(`it was won and paid ${paid.toFixed()} of ${payout ?? 'an unknown payout'}`)
  return found
}

/** A multiplier contract pays its stake and what the price moved, times the multiplier; never less than nothing. */
function ofMultiplier(own: OwnContract, state: ContractState, { cost, paid, status }: Sums): string[] {
  const found: string[] = []
  if (status === 'won' && paid.lt(cost)) found.push(`it was won and paid ${paid.toFixed()} for ${cost.toFixed()}`)
  if (status === 'lost' && paid.gt(cost)) found.push(`it was lost and paid ${paid.toFixed()} for ${cost.toFixed()}`)
  const multiplier = Number(own.multiplier ?? MOST_MULTIPLIER)
  const { entryPrice, exitPrice } = state
  // Twice the move: the price it was closed at may be some ticks from the one that is shown.
  const move =
    entryPrice !== null && exitPrice !== null
      ? 2 * Math.abs(Number(exitPrice) / Number(entryPrice) - 1)
      : MOST_PRICE_MOVE
  const most = cost.times(2 + Math.min(move, MOST_PRICE_MOVE) * multiplier)
  if (paid.gt(most)) found.push(`it paid ${paid.toFixed()}, more than the price can have moved`)
  return found
}

/**
 * Whether a settled state lacks a price that a settled contract should have: the caller reads it again for a while. A
 * contract that was sold or cancelled may never have had one, unless the broker sent it and it could not be read.
 */
export function lacksPrices({ status, entryPrice, exitPrice, unreadable = [] }: ContractState): boolean {
  if (entryPrice !== null && exitPrice !== null) return false
  if (status === 'won' || status === 'lost') return true
  return unreadable.some(field => /^(entry|exit|sell|current)_(tick|spot)/.test(field))
}
