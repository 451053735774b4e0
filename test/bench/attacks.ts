// What a hostile partner does, one attack after another as fast as its plan allows (SCALE: 200 calls a second), from a process of
// its own: what it takes to send must not delay what is measured beside it. Each call is answered whatever it is answered.
//   started by hostile.ts: the first message is the ground, each one after it the name of an attack and its seconds

import { steady } from './added-time.ts'
import { exchange } from './client.ts'
import { tickOrder } from './stage.ts'

export const CALLS_A_SECOND = 200
export const FOLLOWERS = Number(process.env.BENCH_FOLLOWERS ?? 2000)

/** What the hostile partner has and knows. */
export interface Ground {
  address: string
  key: string
  traders: string[]
  /** The other partner's broker accounts. */
  victims: string[]
}

export interface Attack {
  name: string
  /** Calls a second; as many as the plan allows unless said. */
  rate?: number
  /** Makes a call slow at the broker, for the hostile partner's application alone. */
  slow?: 'balance' | 'buy'
  /** One call, or two that belong together; resolves with their statuses. */
  call(ground: Ground, index: number): Promise<number[]>
}

/** How often the hostile partner was answered with a status; 0 is no answer. */
export type Answered = Record<number, number>

const MIB_OF_ITEMS = JSON.stringify({ traderExternalId: 'x', accounts: Array(349_000).fill({}) })
export const TAKEN = { email: 'taken@example.com', password: 'rather-Long-4711-password', name: 'T' }

export const attacks: Attack[] = [
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
    rate: 0.5,
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
  }
]

const traderOf = ({ traders }: Ground, index: number) => traders[index % traders.length] as string

async function send({ address, key }: Ground, method: string, path: string, body?: string): Promise<number[]> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const sent = exchange(address, { method, path, headers, ...(body === undefined ? {} : { body }) })
  return [await sent.then(({ status }) => status).catch(() => 0)]
}

/** One POST of the hostile partner; resolves with its status. */
export const post = (ground: Ground, path: string, body: object | string) =>
  send(ground, 'POST', path, typeof body === 'string' ? body : JSON.stringify(body))

/** Attacks for `seconds`; resolves when the last call is answered. */
async function run(ground: Ground, { name, seconds }: { name: string; seconds: number }): Promise<Answered> {
  const { rate = CALLS_A_SECOND, call } = attacks.find(attack => attack.name === name) as Attack
  const answered: Answered = {}
  await steady(rate, seconds, async index => {
    for (const status of await call(ground, index)) answered[status] = (answered[status] ?? 0) + 1
    return 0
  })
  return answered
}

if (process.send) {
  let ground: Ground | undefined
  process.on('message', async (message: unknown) => {
    if (ground) process.send?.(await run(ground, message as { name: string; seconds: number }))
    else ground = message as Ground
  })
}
