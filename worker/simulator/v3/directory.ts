// Calls of the first dialect that list what there is: a user's accounts, currencies, assets and the durations they trade for.
// A demo account's money is filled up here too.

import { currencies, startIn, toAmount } from '../engine/currencies.ts'
import { typesOf } from '../engine/offers.ts'
import type { SimulatedAccount } from '../engine/records.ts'
import { type SimulatedSymbol, symbols } from '../engine/symbols.ts'
import { presentListed } from './account.ts'
import { V3Error } from './errors.ts'
import type { Handler } from './v3.ts'

/** Demo money is filled up below this only, to its start, and not twice in a minute. */
const TOPUP_BELOW_CENTS = 100_000
const TOPUP_CENTS = 1_000_000
const TOPUP_PAUSE_MS = 60_000

const accountList: Handler = (_request, { connection }) => ({
  body: { account_list: [...connection.grants.values()].map(({ account }) => presentListed(account)) }
})

const getAccountStatus: Handler = (_request, { account }) => ({
  body: {
    get_account_status: {
      currency_config: { [account.currency]: { is_deposit_suspended: 0, is_withdrawal_suspended: 0 } },
      prompt_client_to_authenticate: 0,
      risk_classification: 'low',
      status: ['financial_information_not_complete', 'trading_experience_not_complete']
    }
  }
})

const topups = new WeakMap<SimulatedAccount, number>()

const topupVirtual: Handler = (_request, { v3: { engine }, account }) => {
  if (!account.isVirtual)
    throw new V3Error('TopupVirtualError', 'Sorry, this feature is available to virtual accounts only.')
  if (account.balanceCents >= startIn(account.currency, TOPUP_BELOW_CENTS))
    throw new V3Error('DemoTopupBalance', 'You can only request more demo money when your balance is low.')
  const now = engine.clock.wall()
  if (now - (topups.get(account) ?? -TOPUP_PAUSE_MS) < TOPUP_PAUSE_MS)
    throw new V3Error('DemoTopupThrottle', 'You may only request more demo money once a minute.')
  topups.set(account, now)
  const units = startIn(account.currency, TOPUP_CENTS)
  engine.books.deposited(account, units)
  return { body: { topup_virtual: { amount: toAmount(units, account.currency), currency: account.currency } } }
}

const payoutCurrencies: Handler = (_request, { grant }) => ({
  body: { payout_currencies: grant ? [grant.account.currency] : [...currencies] }
})

/** Type of trade → its names and durations for an asset, shortest and longest. */
function offersOf(symbol: SimulatedSymbol): { category: string; name: string; min: string; max: string }[] {
  const types = typesOf(symbol)
  const timed = types.some(type => type === 'CALL')
  const least = symbol.maxTicks > 0 ? '1t' : `${symbol.minSeconds}s`
  return [
    ...(timed ? [{ category: 'callput', name: 'Rise/Fall', min: least, max: '365d' }] : []),
    ...(types.includes('DIGITMATCH')
      ? [{ category: 'digits', name: 'Digits', min: '1t', max: `${symbol.maxTicks}t` }]
      : [])
  ]
}

const assetIndex: Handler = () => ({
  body: {
    asset_index: [...symbols.values()].map(symbol => [
      symbol.code,
      symbol.name,
      offersOf(symbol).map(({ category, name, min, max }) => [category, name, min, max])
    ])
  }
})

const named = (name: string, display_name: string) => ({ name, display_name })

const tradingDurations: Handler = () => ({
  body: {
    trading_durations: [...symbols.values()].map(symbol => {
      const market = named(symbol.market, symbol.marketName)
      const submarket = named(symbol.submarket, symbol.submarketName)
      const trade_durations = offersOf(symbol).map(({ category, name }) => ({
        trade_type: named(category, name),
        durations: category === 'digits' ? [ticksOf(symbol)] : durationsOf(symbol)
      }))
      const data = [{ market, submarket, symbol: [named(symbol.code, symbol.name)], trade_durations }]
      return { market, submarket, data }
    })
  }
})

const ticksOf = (symbol: SimulatedSymbol) => ({ ...named('t', 'Ticks'), min: 1, max: symbol.maxTicks })

function durationsOf(symbol: SimulatedSymbol): object[] {
  const seconds = { ...named('s', 'Seconds'), min: symbol.minSeconds, max: 86_399 }
  const days = { ...named('d', 'Days'), min: 1, max: 365 }
  return [...(symbol.maxTicks > 0 ? [ticksOf(symbol)] : []), seconds, days]
}

export const directoryCalls: Record<string, Handler> = {
  account_list: accountList,
  get_account_status: getAccountStatus,
  topup_virtual: topupVirtual,
  payout_currencies: payoutCurrencies,
  asset_index: assetIndex,
  trading_durations: tradingDurations
}
