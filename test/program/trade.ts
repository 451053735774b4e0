// What a partner's developer writes with the client: connects a trader, trades, waits, and handles each refusal by its code.
// Run: node trade.ts <baseUrl> <key> <traderExternalId> <accountId> <token>
import { Client, type Schemas, ServiceError } from '../../api/client/src/index.ts'

const [baseUrl, key, traderExternalId, accountId, token] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string
]

const service = new Client({ baseUrl, key })

/** The message for the trader; throws what only a developer can mend. */
function wordsFor(error: ServiceError): string {
  const { details, message, secondsUntilOpen } = error.facts
  switch (error.code) {
    case 'INVALID_CONTRACT':
      return `Change ${details?.[0]?.path ?? 'the order'}: ${message}`
    case 'MARKET_CLOSED':
      return `The market opens in ${secondsUntilOpen ?? 'an unknown number of'} s.`
    case 'INSUFFICIENT_BALANCE':
      return 'Top up your account, or lower the stake.'
    case 'BROKER_DISCONNECTED':
      return 'Connect your broker account again.'
    case 'TRADING_HALTED':
      return `Trading is paused: ${message}`
    default:
      throw error
  }
}

type BoughtContract = Omit<Schemas['BinaryOrder'], 'traderExternalId' | 'clientOrderId'>

/** Places an order and waits for its end. */
async function trade(contract: BoughtContract): Promise<string> {
  try {
    const { orderId } = await service.placeBinary({ traderExternalId, ...contract })
    const { status, pnl, error } = await service.waitUntilSettled(orderId)
    return status === 'CLOSED' ? `CLOSED ${pnl}` : `FAILED ${error?.error}`
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return wordsFor(error)
  }
}

const account = { accountId, token, accountMode: 'DEMO' as const }
await service.post('/v1/auth/broker/exchange', { body: { traderExternalId, accounts: [account] } })
const up = { asset: 'R_100', contractType: 'CALL', stake: 1, duration: 15, durationUnit: 's' } as const
console.log(await trade(up))
console.log(await trade({ ...up, asset: 'NOPE' }))
console.log(await trade({ ...up, stake: 2_000 }))
