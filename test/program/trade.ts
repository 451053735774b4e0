// What a partner's developer writes from the reference alone: connects a trader, trades, waits by `wait`, and handles each
// refusal by its code. Run: node trade.ts <baseUrl> <key> <traderExternalId> <accountId> <token>
import { setTimeout as sleep } from 'node:timers/promises'

const [baseUrl, key, traderExternalId, accountId, token] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string
]

interface Refusal {
  error: string
  message: string
  requestId: string
  status?: 'PENDING' | 'OPEN' | 'FAILED'
  secondsUntilOpen?: number
  details?: { path: string; message: string }[]
}

interface Order {
  orderId: string
  status: 'PENDING' | 'OPEN' | 'CLOSED' | 'FAILED'
  pnl: number | null
  error: { error: string; message: string } | null
}

class Refused extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(`${refusal.error}: ${refusal.message} (${refusal.requestId})`)
    this.refusal = refusal
  }
}

const TRIES = 4

/** A call; what may be repeated is repeated after the time the service asks for. */
async function call<Answer>(method: string, path: string, body?: object): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {})
    })
    const answer = await response.json()
    if (response.ok) return answer as Answer
    const refusal = answer as Refusal
    const again = ['RATE_LIMITED', 'TRADING_HALTED', 'UNAVAILABLE', 'BROKER_UPSTREAM'].includes(refusal.error)
    if (!again || attempt === TRIES) throw new Refused(refusal)
    await sleep(Math.min(5, Number(response.headers.get('retry-after') ?? 1)) * 1000)
  }
}

/** What to tell the trader; throws what only a developer can mend. */
function wordsFor({ refusal }: Refused): string {
  switch (refusal.error) {
    case 'INVALID_CONTRACT':
      return `Change ${refusal.details?.[0]?.path ?? 'the order'}: ${refusal.message}`
    case 'MARKET_CLOSED':
      return `The market opens in ${refusal.secondsUntilOpen ?? 'an unknown number of'} s.`
    case 'INSUFFICIENT_BALANCE':
      return 'Top up your account, or lower the stake.'
    case 'BROKER_DISCONNECTED':
      return 'Connect your broker account again.'
    case 'TRADING_HALTED':
      return `Trading is paused: ${refusal.message}`
    default:
      throw new Error(`${refusal.error}: ${refusal.message} (${refusal.requestId})`)
  }
}

/** Places an order under an id of its own and waits for its end, without polling in a loop of its own. */
async function trade(contract: object): Promise<string> {
  const order = { traderExternalId, clientOrderId: crypto.randomUUID(), ...contract }
  try {
    const placed = await call<Order>('POST', '/v1/orders/binary', order)
    let now = placed
    while (now.status === 'OPEN' || now.status === 'PENDING')
      now = await call<Order>('GET', `/v1/orders/${placed.orderId}?wait=30`)
    return now.status === 'CLOSED' ? `CLOSED ${now.pnl}` : `FAILED ${now.error?.error}`
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return wordsFor(error)
  }
}

const account = { accountId, token, accountMode: 'DEMO' }
await call('POST', '/v1/auth/broker/exchange', { traderExternalId, accounts: [account] })
const up = { asset: 'R_100', contractType: 'CALL', stake: 1, duration: 15, durationUnit: 's' }
console.log(await trade(up))
console.log(await trade({ ...up, asset: 'NOPE' }))
console.log(await trade({ ...up, stake: 2_000 }))
