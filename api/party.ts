// The acting party in a request of the marketplace or the community.
import type { MarketParty } from '../db/marketplace/listings.ts'
import type { OperationRequest } from './operation.ts'

/** The acting party: the trader whose session came with the key, else the partner. */
export function partyOf({ partner, trader }: Pick<OperationRequest<object>, 'partner' | 'trader'>): MarketParty {
  const { partnerId, testOf } = partner
  return { partnerId, partyId: trader?.traderId ?? partnerId, test: testOf !== null }
}

/** What a trader without a name of its own is called wherever others see it. */
export const unnamedTrader = (traderId: string): string => `Trader ${traderId.slice(-4).toUpperCase()}`
