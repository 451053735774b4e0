// What a hostile partner does, one attack after another as fast as its plan allows (SCALE: 200 calls a second), from a process of
// its own: what it takes to send must not delay what is measured beside it. Every response counts, whatever its status.
//   started by hostile.ts: the first message is the ground, each one after it the name of an attack, its seconds and the CPU of a
//   call of SHARING; a message with the statuses follows when the last call of an attack is finished

import { randomUUID } from 'node:crypto'
import { tickOrder } from '../support/tick-order.ts'
import { steady } from './added-time.ts'
import { exchange } from './client.ts'

export const CALLS_A_SECOND = 200
export const FOLLOWERS = Number(process.env.BENCH_FOLLOWERS ?? 2000)

/** What the hostile partner has and knows. */
export interface Stack {
  address: string
  /** Of a bare server on the same machine. */
  bare: string
  key: string
  /** Further keys of the same partner. */
  keys: string[]
  traders: string[]
  /** The other partner's broker accounts. */
  victims: string[]
  /** Microseconds of CPU that a call of SHARING takes. */
  us?: number
}

export interface Attack {
  name: string
  /** Sent to a bare server, as a measure of what the machine alone costs the other partner. */
  control?: true
  /** Calls a second; by default as many as the plan allows. */
  rate?: number
  /** Makes a call slow at the broker, for the hostile partner's application alone. */
  slow?: 'balance' | 'buy'
  /** One call, or two that belong together; resolves with their statuses. */
  call(ground: Stack, index: number): Promise<number[]>
}

/** Number of responses to the hostile partner by status; 0 is no response. */
export type Answered = Record<number, number>

const MIB_OF_ITEMS = JSON.stringify({ traderExternalId: 'x', accounts: Array(349_000).fill({}) })
const BOT_OF_500_KB = {
  name: 'Large',
  description: 'A bot of which only the size matters.',
  category: 'grid',
  riskLevel: 'high',
  strategyType: 'none',
  code: 'x'.repeat(500_000)
}
export const TAKEN = { email: 'taken@example.com', password: 'rather-Long-4711-password', name: 'T' }

export const attacks: Attack[] = [
  {
    name: 'control: small calls to a bare server',
    control: true,
    call: ground => send({ ...ground, address: ground.bare }, 'GET', '/')
  },
  {
    name: 'control: bodies of 1 MiB to a bare server',
    control: true,
    rate: 20,
    call: ground => post({ ...ground, address: ground.bare }, '/', MIB_OF_ITEMS)
  },
  {
    name: 'bodies of 1 MiB of {} in accounts',
    rate: 20,
    call: ground => post(ground, '/v1/auth/broker/exchange', MIB_OF_ITEMS)
  },
  { name: 'sign-ups of a taken e-mail', call: ground => post(ground, '/v1/traders/signup', TAKEN) },
  {
    name: 'balances of a slow broker',
    slow: 'balance',
    call: (ground, index) => send(ground, 'GET', `/v1/balance?traderExternalId=${traderOf(ground, index)}`)
  },
  {
    name: 'orders over many accounts, slow broker',
    slow: 'buy',
    call: (ground, index) => post(ground, '/v1/orders/binary', tickOrder(traderOf(ground, index)))
  },
  {
    name: `orders of a leader with ${FOLLOWERS} followers`,
    // A thousand copies a second, more than two cores place.
    rate: Math.min(0.5, 1000 / FOLLOWERS),
    call: ground => post(ground, '/v1/orders/binary', tickOrder('leader'))
  },
  {
    name: 'orders on the other’s accounts, made-up tokens',
    rate: CALLS_A_SECOND / 2,
    async call(ground, index) {
      const traderExternalId = `stranger-${index % 50}`
      const accountId = ground.victims[index % ground.victims.length] as string
      const accounts = [{ accountId, token: `sim-VRTC${index + 1}`, accountMode: 'DEMO' }]
      return [
        ...(await post(ground, '/v1/auth/broker/exchange', { traderExternalId, accounts })),
        ...(await post(ground, '/v1/orders/binary', tickOrder(traderExternalId)))
      ]
    }
  },
  {
    name: 'bots of 500 kB',
    rate: 40,
    call: ground => post(ground, '/v1/marketplace/creator/bots', { ...BOT_OF_500_KB, name: `Large ${randomUUID()}` })
  },
  {
    name: 'reads with many keys',
    rate: 3 * CALLS_A_SECOND,
    call: (ground, index) =>
      send({ ...ground, key: ground.keys[index % ground.keys.length] as string }, 'GET', '/v1/orders?limit=200')
  }
]

/** Not an attack: as much CPU as one took of the service, taken by a bare server. */
export const SHARING: Attack = {
  name: 'as much CPU at a bare server',
  call: ground => send({ ...ground, address: ground.bare }, 'GET', `/?us=${ground.us ?? 0}`)
}

const traderOf = ({ traders }: Stack, index: number) => traders[index % traders.length] as string

async function send(
  { address, key }: Pick<Stack, 'address' | 'key'>,
  method: string,
  path: string,
  body?: string
): Promise<number[]> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const sent = exchange(address, { method, path, headers, ...(body === undefined ? {} : { body }) })
  return [await sent.then(({ status }) => status).catch(() => 0)]
}

/** One POST of the hostile partner; resolves with its status. */
export const post = (ground: Stack, path: string, body: object | string) =>
  send(ground, 'POST', path, typeof body === 'string' ? body : JSON.stringify(body))

/** Attacks for `seconds`; resolves when the last call is finished. */
async function run(ground: Stack, { name, seconds }: { name: string; seconds: number }): Promise<Answered> {
  const { rate = CALLS_A_SECOND, call } = [...attacks, SHARING].find(attack => attack.name === name) as Attack
  const answered: Answered = {}
  const one = async (index: number) => {
    for (const status of await call(ground, index)) answered[status] = (answered[status] ?? 0) + 1
    return 0
  }
  // A heavy attack is a single call, at once.
  if (rate * seconds <= 1) await one(0)
  else await steady(rate, seconds, one)
  return answered
}

if (process.send) {
  let ground: Stack | undefined
  process.on('message', async (message: unknown) => {
    const { us = 0, ...order } = message as { name: string; seconds: number; us?: number }
    if (ground) process.send?.(await run({ ...ground, us }, order))
    else ground = message as Stack
  })
}
