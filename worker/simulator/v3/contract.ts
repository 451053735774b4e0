// Contracts and quotes as the first dialect shows them: numbers for money, texts for printed prices.
import { isDigit, longcodeOf, printBarrier, ticksNeeded } from '../engine/contracts.ts'
import { printUnits, toAmount } from '../engine/currencies.ts'
import type { Engine, Quote } from '../engine/engine.ts'
import { type MarketTick, printPips } from '../engine/market.ts'
import { boundsOf } from '../engine/offers.ts'
import { multiplierLevel } from '../engine/pricing.ts'
import type { SimulatedContract } from '../engine/records.ts'

/** A quote under its proposal id. */
export function presentQuote(
  id: string,
  { offer, price, spot, startEpoch, expiryEpoch }: Quote
): Record<string, unknown> {
  const { askCents, payoutCents, commissionCents } = price
  const multiplier = offer.kind === 'multiplier'
  const { currency } = offer
  const bounds = boundsOf(offer)
  const print = (cents: number) => printUnits(cents, currency)
  return {
    ask_price: toAmount(askCents, currency),
    date_expiry: expiryEpoch,
    date_start: startEpoch,
    display_value: print(askCents),
    id,
    longcode: longcodeOf(offer),
    payout: toAmount(payoutCents, currency),
    spot: spot.quote,
    spot_time: spot.epoch,
    contract_details: {
      maximum_stake: print(multiplier ? bounds.maxMultiplierStake : bounds.maxPayout),
      minimum_stake: print(multiplier ? bounds.minMultiplierStake : bounds.minStake)
    },
    ...(multiplier
      ? {
          commission: toAmount(commissionCents, currency),
          limit_order: limitsOf({
            offer,
            entryPips: spot.pips,
            stakeCents: offer.amountCents,
            commissionCents,
            startEpoch,
            displayed: true
          }),
          multiplier: offer.multiplier,
          validation_params: {
            stake: { min: print(bounds.minMultiplierStake), max: print(bounds.maxMultiplierStake) },
            stop_loss: {
              min: print(Math.max(bounds.minLimit, commissionCents + 1)),
              max: print(offer.amountCents)
            },
            take_profit: { min: print(bounds.minLimit), max: print(bounds.maxPayout) }
          }
        }
      : { validation_params: { stake: { min: print(bounds.minStake) }, payout: { max: print(bounds.maxPayout) } } })
  }
}

/** A contract in its present state. */
export function presentContract(engine: Engine, contract: SimulatedContract): Record<string, unknown> {
  const { offer, buyCents } = contract
  const { bidCents, spot, unsellable } = engine.value(contract)
  const sold = contract.status !== 'open'
  const expired = contract.ended
  const profitCents = bidCents - buyCents
  const amount = (cents: number) => toAmount(cents, offer.currency)
  return {
    account_id: contract.account.userId,
    barrier: printBarrier(contract),
    barrier_count: isDigit(offer.type) && offer.digit === null ? 0 : 1,
    bid_price: amount(bidCents),
    buy_price: amount(buyCents),
    contract_id: contract.id,
    contract_type: offer.type,
    currency: offer.currency,
    current_spot: spot.quote,
    current_spot_display_value: printPips(offer.symbol, spot.pips),
    current_spot_time: spot.epoch,
    date_expiry: contract.expiryEpoch,
    date_settlement: contract.expiryEpoch,
    date_start: contract.startEpoch,
    display_name: offer.symbol.name,
    ...entryOf(contract.entry),
    ...exitOf(contract.exit),
    expiry_time: contract.expiryEpoch,
    is_expired: expired ? 1 : 0,
    is_forward_starting: 0,
    is_intraday: contract.expiryEpoch - contract.startEpoch <= 86_400 ? 1 : 0,
    is_path_dependent: offer.kind === 'multiplier' ? 1 : 0,
    is_settleable: expired ? 1 : 0,
    is_sold: sold ? 1 : 0,
    is_valid_to_cancel: 0,
    is_valid_to_sell: unsellable ? 0 : 1,
    longcode: longcodeOf(offer),
    profit: amount(profitCents),
    profit_percentage: Number(((profitCents / buyCents) * 100).toFixed(2)),
    purchase_time: contract.startEpoch,
    shortcode: contract.shortcode,
    status: contract.status,
    underlying: offer.symbol.code,
    ...(offer.kind === 'multiplier' ? multiplierOf(contract) : { payout: amount(contract.payoutCents) }),
    ...(offer.kind === 'ticks' ? ticksOf(contract) : {}),
    app_markup_amount: printUnits(contract.markupCents, offer.currency),
    ...saleOf(contract, spot),
    ...(unsellable && !sold ? { validation_error: unsellable.message, validation_error_code: 'General' } : {})
  }
}

function entryOf(tick: MarketTick | null): Record<string, unknown> {
  if (!tick) return {}
  const printed = printPips(tick.symbol, tick.pips)
  return {
    entry_spot: tick.quote,
    entry_spot_display_value: printed,
    entry_tick: tick.quote,
    entry_tick_display_value: printed,
    entry_tick_time: tick.epoch
  }
}

function exitOf(tick: MarketTick | null): Record<string, unknown> {
  if (!tick) return {}
  return {
    exit_tick: tick.quote,
    exit_tick_display_value: printPips(tick.symbol, tick.pips),
    exit_tick_time: tick.epoch
  }
}

function ticksOf({ offer, ticks }: SimulatedContract): Record<string, unknown> {
  return {
    tick_count: offer.ticks,
    tick_passed: Math.max(0, ticks.length - (ticksNeeded(offer) - offer.ticks)),
    tick_stream: ticks.map(tick => ({
      epoch: tick.epoch,
      tick: tick.quote,
      tick_display_value: printPips(tick.symbol, tick.pips)
    }))
  }
}

function multiplierOf(contract: SimulatedContract): Record<string, unknown> {
  const open = contract.status === 'open' ? 1 : 0
  return {
    commission: toAmount(contract.commissionCents, contract.offer.currency),
    is_valid_to_update: { stop_loss: open, stop_out: 0, take_profit: open },
    limit_order: presentLimits(contract, { displayed: true }),
    multiplier: contract.offer.multiplier
  }
}

function saleOf(contract: SimulatedContract, spot: MarketTick): Record<string, unknown> {
  if (contract.sellTransaction === null || contract.soldMs === null) {
    return { transaction_ids: { buy: contract.buyTransaction } }
  }
  const last = contract.exit ?? spot
  return {
    sell_price: toAmount(contract.sellCents ?? 0, contract.offer.currency),
    sell_spot: last.quote,
    sell_spot_display_value: printPips(last.symbol, last.pips),
    sell_spot_time: last.epoch,
    sell_time: Math.floor(contract.soldMs / 1000),
    transaction_ids: { buy: contract.buyTransaction, sell: contract.sellTransaction }
  }
}

type LimitOrders = Partial<Record<'stop_out' | 'take_profit' | 'stop_loss', Record<string, unknown>>>

/** A multiplier contract's limits; `displayed` adds the printed amounts. */
export function presentLimits(contract: SimulatedContract, { displayed }: { displayed: boolean }): LimitOrders {
  const { offer, entry, commissionCents } = contract
  const entryPips = entry?.pips ?? 0
  const startEpoch = Math.floor(contract.limitsChangedMs / 1000)
  return limitsOf({ offer, entryPips, stakeCents: offer.amountCents, commissionCents, startEpoch, displayed })
}

function limitsOf(facts: {
  offer: SimulatedContract['offer']
  entryPips: number
  stakeCents: number
  commissionCents: number
  startEpoch: number
  displayed: boolean
}): LimitOrders {
  const { offer, stakeCents, displayed } = facts
  const order = (name: string, profitCents: number) => ({
    display_name: name,
    order_amount: toAmount(profitCents, offer.currency),
    order_date: facts.startEpoch,
    value: printPips(offer.symbol, multiplierLevel(offer, { ...facts, profitCents })),
    ...(displayed ? { display_order_amount: printUnits(profitCents, offer.currency) } : {})
  })
  return {
    stop_out: order('Stop out', -stakeCents),
    ...(offer.takeProfitCents === null ? {} : { take_profit: order('Take profit', offer.takeProfitCents) }),
    ...(offer.stopLossCents === null ? {} : { stop_loss: order('Stop loss', -offer.stopLossCents) })
  }
}
