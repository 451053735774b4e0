// A partner beside a hostile one: its orders and GET /v1/me, alone and while the other does one thing after another as fast as
// its plan allows (SCALE: 200 calls a second). Cases are a list; each answers whatever it is answered.
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPepper, openVault } from '../../db/crypto.ts'
import { insertKey } from '../../db/keys.ts'
import { insertPartner } from '../../db/partners.ts'
import { allScopes } from '../../schemas/scopes.ts'
import { steady } from './added-time.ts'
import { exchange } from './client.ts'
import { memoryOf, print, verdict } from './report.ts'
import { each, ms, type Stage, setStage, spread, tickOrder } from './stage.ts'

const TICK_MS = 100
const CALLS_A_SECOND = 200
const ORDERS_A_SECOND = 8
const READS_A_SECOND = 20
const TRADERS = 40
const HOSTILE_TRADERS = 300
const FOLLOWERS = 2000
const SLOW_MS = 8000
const HOSTILE_APP = '2'
const goals = { order: 1.5, me: 2, memoryMb: 250 }

interface Ground {
  stage: Stage
  address: string
  hostile: { key: string; partnerId: string; traders: string[] }
  /** The other partner's broker accounts. */
  victims: string[]
}

interface Case {
  name: string
  /** Calls a second; as many as the plan allows unless said. */
  rate?: number
  /** Makes a call slow at the broker, for the hostile partner's application alone. */
  slow?: string
  attack(ground: Ground, index: number): Promise<unknown>
}

const MIB_OF_ITEMS = JSON.stringify({ traderExternalId: 'x', accounts: Array(349_000).fill({}) })

const cases: Case[] = [
  { name: 'alone', rate: 0, attack: async () => {} },
  {
    name: 'bodies of 1 MiB of {} in accounts',
    rate: 20,
    attack: ground => post(ground, '/v1/auth/broker/exchange', MIB_OF_ITEMS)
  },
  {
    name: 'sign-ups of a taken e-mail',
    attack: ground =>
      post(ground, '/v1/traders/signup', {
        email: 'taken@example.com',
        password: 'rather-Long-4711-password',
        name: 'T'
      })
  },
  {
    name: 'balances of a slow broker',
    slow: 'balance',
    attack: (ground, index) => send(ground, 'GET', `/v1/balance?traderExternalId=${traderOf(ground, index)}`)
  },
  {
    name: 'orders over many accounts, slow broker',
    slow: 'buy',
    attack: (ground, index) => post(ground, '/v1/orders/binary', tickOrder(traderOf(ground, index)))
  },
  {
    name: `orders of a leader with ${FOLLOWERS} followers`,
    rate: 0.5,
    attack: ground => post(ground, '/v1/orders/binary', tickOrder('leader'))
  },
  {
    name: 'orders on the other’s accounts, made-up tokens',
    rate: CALLS_A_SECOND / 2,
    attack: async (ground, index) => {
      const traderExternalId = `stranger-${index % 50}`
      const accountId = ground.victims[index % ground.victims.length] as string
      const accounts = [{ accountId, token: `sim-VRTC${index + 1}`, accountMode: 'DEMO' }]
      await post(ground, '/v1/auth/broker/exchange', { traderExternalId, accounts })
      await post(ground, '/v1/orders/binary', tickOrder(traderExternalId))
    }
  }
]

const traderOf = ({ hostile }: Ground, index: number) => hostile.traders[index % hostile.traders.length] as string

function send({ address, hostile }: Ground, method: string, path: string, body?: string) {
  const headers = { authorization: `Bearer ${hostile.key}`, 'content-type': 'application/json' }
  return exchange(address, { method, path, headers, ...(body === undefined ? {} : { body }) })
}

const post = (ground: Ground, path: string, body: object | string) =>
  send(ground, 'POST', path, typeof body === 'string' ? body : JSON.stringify(body))

/** Measures every case for `seconds` and prints the table. */
export async function hostile(seconds: number): Promise<void> {
  const stage = await setStage(['--tick-ms', String(TICK_MS)])
  const { address, child } = await stage.startApi({ RATE_LIMIT_SCALE: '12000', RATE_LIMIT_TRADER: '1000000' })
  await stage.startWorker()
  const ground = await makeGround(stage, address)
  const mine = await stage.makeTraders(address, TRADERS)
  const victims = await stage.db('broker_accounts').where({ partner_id: stage.partnerId }).pluck('account_id')
  ground.victims.push(...victims)
  const refused: string[] = []
  const timed = async (method: string, path: string, body?: object): Promise<number> => {
    const startedAt = performance.now()
    const headers = { authorization: `Bearer ${stage.key}`, 'content-type': 'application/json' }
    const answer = await exchange(address, {
      method,
      path,
      headers,
      ...(body ? { body: JSON.stringify(body) } : {})
    })
    if (answer.status !== 200) refused.push(`${path} ${answer.status} ${answer.text.slice(0, 120)}`)
    return performance.now() - startedAt
  }
  const order = (index: number) => timed('POST', '/v1/orders/binary', tickOrder(mine[index % TRADERS] as string))
  for (let round = 0; round < 3; round++) await each(mine, 10, (_, index) => order(index))

  const rows: string[][] = []
  let alone: { order: number; me: number } | undefined
  const broken: string[] = []
  for (const { name, rate = CALLS_A_SECOND, slow, attack } of cases) {
    if (slow) await fault(stage, { effect: 'slow', call: slow, appId: Number(HOSTILE_APP), delayMs: SLOW_MS })
    let over = false
    let highest = 0
    const watch = (async () => {
      while (!over) {
        highest = Math.max(highest, await memoryOf(child.pid))
        await sleep(100)
      }
    })()
    const attacks = steady(rate, seconds + 2, async index => {
      await attack(ground, index).catch(() => {})
      return 0
    })
    await sleep(rate > 0 ? 2000 : 0)
    const before = refused.length
    const [orders, reads] = await Promise.all([
      steady(ORDERS_A_SECOND, seconds, order),
      steady(READS_A_SECOND, seconds, () => timed('GET', '/v1/me'))
    ])
    over = true
    await watch
    const found = { order: spread(orders).p99, me: spread(reads).p99 }
    alone ??= found
    const ratios = { order: found.order / alone.order, me: found.me / alone.me }
    const turnedAway = refused.length - before
    const good = ratios.order <= goals.order && ratios.me <= goals.me && turnedAway === 0 && highest < goals.memoryMb
    if (!good) broken.push(name)
    rows.push([
      name,
      `${ms(spread(orders).p50)} / ${ms(found.order)}`,
      `${ratios.order.toFixed(2)} ×`,
      `${ms(spread(reads).p50)} / ${ms(found.me)}`,
      `${ratios.me.toFixed(2)} ×`,
      String(turnedAway),
      `${highest.toFixed(0)} MB`
    ])
    // What the attack left has ended before the next one begins.
    if (slow) await fault(stage, undefined)
    await attacks
    await sleep(1000)
  }
  print(
    `A partner (${ORDERS_A_SECOND} tick orders and ${READS_A_SECOND} GET /v1/me a second, ticks of ${TICK_MS} ms) beside a hostile one (${CALLS_A_SECOND} calls a second unless the case is heavier)`,
    [
      'the hostile partner sends',
      'order p50 / p99',
      'p99 to alone',
      'me p50 / p99',
      'p99 to alone',
      'refused',
      'api at most'
    ],
    rows
  )
  for (const each of [...new Set(refused)].slice(0, 5)) console.log(`refused: ${each}`)
  const goal = `order p99 ≤ ${goals.order} ×, me p99 ≤ ${goals.me} ×, nothing refused, api < ${goals.memoryMb} MB`
  console.log(verdict(`${goal}${broken.length > 0 ? ` (not: ${broken.join('; ')})` : ''}`, broken.length === 0))
  await stage.close()
}

async function makeGround(stage: Stage, address: string): Promise<Ground> {
  const { partnerId } = await insertPartner(stage.db, {
    name: 'Hostile',
    plan: 'SCALE',
    brokerAppId: HOSTILE_APP,
    brokerDialect: 'v3'
  })
  const pepper = await openPepper(stage.db, openVault(stage.env.TOKEN_KEYS as string))
  const { key } = await insertKey(stage.db, pepper, { partnerId, label: null, scopes: allScopes })
  const ground: Ground = { stage, address, hostile: { key, partnerId, traders: [] }, victims: [] }
  const exchangeOne = (traderExternalId: string) => {
    const accountId = `VRTC${randomBytes(4).readUInt32BE(0)}`
    const account = { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
    return post(ground, '/v1/auth/broker/exchange', { traderExternalId, accounts: [account] })
  }
  ground.hostile.traders.push(...Array.from({ length: HOSTILE_TRADERS }, () => `hostile-${randomUUID()}`))
  const followers = Array.from({ length: FOLLOWERS }, (_, index) => `follower-${index}`)
  await each(['leader', ...ground.hostile.traders, ...followers], 30, exchangeOne)
  await post(ground, '/v1/traders/signup', {
    email: 'taken@example.com',
    password: 'rather-Long-4711-password',
    name: 'T'
  })
  await stage.db.raw(
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(t.id, 5), t.partner_id, t.id, t.external_id, l.id, 50, 90, 'ACTIVE', 1000000
       from traders t join traders l on l.external_id = 'leader' and l.partner_id = t.partner_id
      where t.external_id like 'follower-%'`
  )
  // As if each had traded before: what a first authorisation costs is measured by the last case alone.
  await stage.db.raw('update broker_accounts set proven_version = token_version where partner_id = ?', [partnerId])
  return ground
}

/** Adds a fault to the simulated broker; undefined takes all away. */
async function fault({ broker }: Stage, rule: object | undefined): Promise<void> {
  const init = rule
    ? { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ rules: [rule] }) }
    : { method: 'DELETE' }
  const { status } = await fetch(`${broker.control}/faults`, init)
  if (status !== 200) throw new Error(`the simulated broker answered ${status} to a fault`)
}
